"""Runs that have lived, for checks about what is done with them afterwards."""

from __future__ import annotations

import json
from typing import Any

from louver.definition import Definition
from louver.ledger.names import RunKey
from louver.ledger.requests import RunStart
from louver.states import RunState
from louver.testing.scene import COMPLETED, Scene

__all__ = ["begin", "live", "start_of"]


def start_of(scene: Scene, version: str = "1", **changes: Any) -> RunStart:
    """What a run begins with whose definition can be read again, and is no other check's."""
    steps = [{"name": "look", "task": "contract:look"}, {"name": "act", "task": "contract:act"}]
    form = {"louver": 1, "name": scene.run.dag_id, "version": version, "steps": steps}
    definition = Definition.from_json(json.dumps(form))
    given = {
        "definition_name": definition.name,
        "definition_version": definition.version,
        "definition_fingerprint": definition.fingerprint,
        "definition": definition.to_json(),
    }
    return scene.start(**given | changes)


def begin(scene: Scene, version: str = "1", **changes: Any) -> RunStart:
    """Open a run with such a definition."""
    start = start_of(scene, version, **changes)
    scene.begin(
        key=start.key,
        definition_name=start.definition_name,
        definition_version=start.definition_version,
        definition_fingerprint=start.definition_fingerprint,
        definition=start.definition,
        marker=start.marker,
    )
    return start


def live(scene: Scene, run_id: str, *, state: RunState | None = RunState.SUCCEEDED) -> RunKey:
    """
    A run of the check's Dag that looked and acted, with effects under both scopes.

    :param state: the one that it is closed in; None where it is left open.
    """
    key = RunKey(scene.run.dag_id, run_id)
    begin(scene, key=key)
    scene.succeed("look", 1, run=key)
    token = scene.launch("act", run=key)
    scene.ledger.touch(token, now=scene.tick())
    scene.ledger.save_checkpoint(token, "state", {"page": 1}, now=scene.tick())
    scene.committed(token, f"pay-{run_id}")
    scene.committed(token, "note", scope=f"run:{key.dag_id}:{key.run_id}")
    scene.ledger.complete(token, COMPLETED, "done", now=scene.tick())
    if state is not None:
        scene.ledger.set_run_state(key, state, reason=None, now=scene.tick())
    return key
