"""
Names of the runs that compensate other runs from outside.

Such a run is named after the run that it compensates, so that it is started once however many look at it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from louver.errors import ConfigurationError
from louver.ledger.names import RunKey

__all__ = ["RESCUE_DAG", "rescue_conf", "rescue_prefix", "rescue_target"]

RESCUE_DAG = "louver_compensate"
"""The Dag that compensates runs which their own closing tasks cannot."""


def rescue_prefix(run: RunKey) -> str:
    """What the ids of its runs for this run begin with; the number follows."""
    named = json.dumps([run.dag_id, run.run_id]).encode()
    return f"undo-{hashlib.sha256(named).hexdigest()[:32]}-"


def rescue_conf(run: RunKey, *, number: int, outstanding: str) -> dict[str, Any]:
    """What such a run is given: ids and hashes alone."""
    return {"dag_id": run.dag_id, "run_id": run.run_id, "number": number, "outstanding": outstanding}


def rescue_target(conf: Mapping[str, Any]) -> tuple[RunKey, int]:
    """
    Which run it is to compensate, and which of that run's rescues it is, counted from 1.

    :raises ConfigurationError: where it was started by hand, with something else.
    """
    dag_id, run_id, number = conf.get("dag_id"), conf.get("run_id"), conf.get("number", 1)
    named = isinstance(dag_id, str) and isinstance(run_id, str)
    if not named or type(number) is not int or not 1 <= number < 2**31:
        raise ConfigurationError(
            f"{RESCUE_DAG} takes the conf that the reconciler gives: dag_id and run_id of the run to "
            "compensate, and a number from 1"
        )
    return RunKey(str(dag_id), str(run_id)), number
