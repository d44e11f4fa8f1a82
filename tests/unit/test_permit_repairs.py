"""Which permits nobody will give back."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from louver.ledger.names import TaskKey
from louver.ledger.records import PermitRecord, TaskRecord
from louver.permit_repairs import decide_permits
from louver.semaphores import Stage
from louver.states import TaskState

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
KEY = TaskKey("pay", "run-1", "call")


def permit(stage: Stage, **changes: Any) -> PermitRecord:
    given = {
        "dag_id": KEY.dag_id,
        "run_id": KEY.run_id,
        "task_id": KEY.task_id,
        "map_index": -1,
        "incarnation": 1,
        "session": 2,
        "process": "host:1:1",
        "needs": ("api=1",),
        "priority": 1,
        "sequence": 1,
        "stage": stage,
        "wanted_at": NOW,
        "granted_at": None,
        "until": None,
    }
    return PermitRecord(**{**given, **changes})


def task(state: TaskState, *, session: int = 2) -> TaskRecord:
    return TaskRecord(
        dag_id=KEY.dag_id,
        run_id=KEY.run_id,
        task_id=KEY.task_id,
        map_index=-1,
        incarnation=1,
        session=session,
        state=state,
        updated_at=NOW,
    )


def why(one: PermitRecord, known: TaskRecord | None, *, dead: bool = False) -> str | None:
    tasks = {} if known is None else {KEY: known}
    found = decide_permits([one], tasks, proves_dead=lambda process: dead)
    return found[0].why if found else None


@pytest.mark.parametrize("state", [TaskState.RUNNING, TaskState.RETRY_WAIT, TaskState.SUCCEEDED])
def test_what_is_held_is_freed_by_proof_of_death_alone(state: TaskState) -> None:
    assert why(permit(Stage.HELD), task(state)) is None
    assert why(permit(Stage.HELD), task(state), dead=True) == "its process is proven dead"


@pytest.mark.parametrize("stage", [Stage.WAITING, Stage.GRANTED])
def test_a_place_is_given_up_when_its_task_is_over(stage: Stage) -> None:
    assert why(permit(stage), task(TaskState.BLOCKED), dead=True) is None
    assert why(permit(stage), task(TaskState.STOPPED)) == "its task is stopped"


def test_a_place_that_a_later_process_has_taken_is_not_judged_by_an_older_record() -> None:
    assert why(permit(Stage.WAITING), task(TaskState.FAILED, session=1)) is None


def test_what_no_task_has_is_freed() -> None:
    assert why(permit(Stage.WAITING), None) == "its task is not in the ledger any more"
