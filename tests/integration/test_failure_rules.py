"""Every combination of the failure rules, on a real Airflow: node states, run state and colours (row T15)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import pytest
from airflow_home import AirflowHome
from airflow_rest import FINISHED
from support.failure_rules import Case, cases

from louver.closing import overview
from louver.ledger import open_ledger
from louver.ledger.names import RunKey

pytestmark = pytest.mark.integration

ALL = list(cases())


@pytest.fixture(scope="module")
def runs(airflow: AirflowHome) -> Mapping[str, str]:
    """One run for each, all begun together: workflow and end to its id."""
    airflow.wait_for(
        "the Dags", lambda: {case.workflow for case in ALL} <= airflow.rest.dag_ids(), timeout=120
    )
    return {
        name(case): airflow.rest.trigger(
            case.workflow, {"end": str(case.end)}, run_id=f"{case.end}-{uuid4().hex[:8]}"
        )
        for case in ALL
    }


def name(case: Case) -> str:
    return f"{case.workflow}-{case.end}"


@pytest.mark.parametrize("case", ALL, ids=name)
def test_states_and_colours_are_what_the_rules_say(
    airflow: AirflowHome, runs: Mapping[str, str], case: Case
) -> None:
    run_id = runs[name(case)]
    colour = airflow.wait_for(
        f"the end of {name(case)}",
        lambda: (state := airflow.rest.run_state(case.workflow, run_id)) in FINISHED and state,
        timeout=300,
    )
    key = (airflow.path / "louver_signing_key").read_text().strip()
    with open_ledger(airflow.ledger_url, key) as ledger:
        seen = overview(RunKey(case.workflow, run_id), ledger)
        recorded = {task.task_id: task.state for task in ledger.list_tasks(RunKey(case.workflow, run_id))}
    colours = airflow.rest.task_states(case.workflow, run_id)
    shown = {node: colours[node] for node in case.colours}
    assert (seen.state, colour) == (case.run, case.run_colour)
    assert dict(seen.evaluation.states) == dict(case.states)
    assert shown == dict(case.colours)
    # What never ran is written down too, not only computed.
    assert {node: recorded.get(node) for node in case.states} == dict(case.states)
