"""Whether a run may go: by its steps and effects as well as by what is stored, and by its age."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.definition import Definition, Step
from louver.ledger.names import Decision, EffectKind, EffectState, OnUnknown
from louver.ledger.records import ApprovalRecord, EffectRecord, RunRecord, TaskRecord
from louver.retention import WAITING, guards_beyond_its_run, is_settled, outliving, reason_to_keep
from louver.states import RunState, TaskState

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
LATER = NOW + timedelta(days=90)

FLOW = Definition(
    name="d",
    version="1",
    nodes=(Step(name="look", task="a:b"), Step(name="act", task="a:c", deps={"seen": "look"})),
)
RUN = RunRecord(
    dag_id="d",
    run_id="r",
    incarnation=1,
    marker=None,
    definition_name="d",
    definition_version="1",
    definition_fingerprint=FLOW.fingerprint,
    state=RunState.SUCCEEDED,
    reason=None,
    requester=None,
    created_at=NOW,
    updated_at=NOW,
)
EFFECT = EffectRecord(
    scope="dag:d",
    key="pay",
    epoch=1,
    name="pay",
    kind=EffectKind.FORWARD,
    state=EffectState.COMMITTED,
    intent_hash="f" * 64,
    dag_id="d",
    run_id="r",
    task_id="act",
    map_index=-1,
    incarnation=1,
    generation=1,
    session=1,
    process="p",
    ticket="",
    undo=None,
    undoes=None,
    verify=None,
    on_unknown=OnUnknown.MANUAL,
    provider_idempotent=False,
    approval_id=None,
    lease_until=NOW,
    quiesce_seconds=30.0,
    started_at=NOW,
    updated_at=NOW,
    commit_sequence=1,
)
APPROVAL = ApprovalRecord(
    request_id="q",
    sequence=1,
    dag_id="d",
    run_id="r",
    task_id="act",
    map_index=-1,
    generation=1,
    of="act",
    definition_name="d",
    definition_version="1",
    definition_fingerprint=FLOW.fingerprint,
    payload_fingerprint="f" * 64,
    ancestors=(),
    state_version=0,
    upstream_fingerprint="f" * 64,
    approvers=(),
    four_eyes=False,
    requester=None,
    requested_at=NOW,
    expires_at=None,
)


def task(task_id: str, state: TaskState = TaskState.SUCCEEDED, **given: Any) -> TaskRecord:
    named = {"dag_id": "d", "run_id": "r", "task_id": task_id, "map_index": -1}
    return TaskRecord(**named | given, state=state, updated_at=NOW)


def kept(
    run: RunRecord = RUN,
    *,
    tasks: list[TaskRecord] | None = None,
    effects: list[EffectRecord] | None = None,
    approvals: list[ApprovalRecord] | None = None,
    before: datetime = LATER,
) -> str | None:
    return reason_to_keep(
        run,
        FLOW,
        tasks=[task("look"), task("act")] if tasks is None else tasks,
        effects=effects or [],
        approvals=approvals or [],
        before=before,
    )


def test_a_run_that_is_over_may_go() -> None:
    assert kept() is None
    assert kept(effects=[EFFECT], approvals=[APPROVAL]) is None


@pytest.mark.parametrize("state", [state for state in RunState if not state.terminal])
def test_one_that_is_stored_as_at_work_stays(state: RunState) -> None:
    assert kept(replace(RUN, state=state)) == f"it is {state}"


@pytest.mark.parametrize("state", [state for state in TaskState if not state.terminal])
@pytest.mark.parametrize("stored", [state for state in RunState if state.terminal])
def test_one_with_a_step_that_has_not_ended_stays_whatever_is_stored(
    state: TaskState, stored: RunState
) -> None:
    assert "act has not ended" in str(
        kept(replace(RUN, state=stored), tasks=[task("look"), task("act", state)])
    )


def test_a_mapped_step_and_one_of_an_earlier_incarnation_count_too() -> None:
    mapped = [task("act"), task("act", TaskState.RUNNING, map_index=1)]
    assert "act has not ended" in str(kept(tasks=[task("look"), *mapped]))
    again = replace(RUN, incarnation=2)
    assert "running by its steps" in str(kept(again))


def test_one_with_a_step_that_never_began_stays() -> None:
    assert kept(tasks=[task("look")]) == "it is stored as succeeded, and is running by its steps and effects"
    # Unless the step will never run.
    assert kept(tasks=[task("look", TaskState.FAILED)], run=replace(RUN, state=RunState.FAILED)) is None


@pytest.mark.parametrize("failed", [0, 1, 2])
def test_of_a_mapped_step_every_index_counts_whichever_comes_last(failed: int) -> None:
    """Closed as failed before its effect was undone: it is still to be compensated."""
    mapped = Definition(
        name="d",
        version="1",
        nodes=(Step(name="look", task="a:b"), Step(name="act", task="a:c", over={"seen": "look"})),
    )
    states = [TaskState.FAILED if index == failed else TaskState.SUCCEEDED for index in range(3)]
    tasks = [task("look"), *(task("act", state, map_index=index) for index, state in enumerate(states))]
    reason = reason_to_keep(
        replace(RUN, state=RunState.FAILED),
        mapped,
        tasks=tasks,
        effects=[replace(EFFECT, undo="a:undo", map_index=0)],
        approvals=[],
        before=LATER,
    )
    assert "is compensating by its steps" in str(reason)


@pytest.mark.parametrize("state", EffectState)
@pytest.mark.parametrize("stored", [RunState.SUCCEEDED, RunState.FAILED, RunState.COMPENSATION_FAILED])
def test_one_whose_effect_waits_for_somebody_stays(state: EffectState, stored: RunState) -> None:
    reason = kept(replace(RUN, state=stored), effects=[replace(EFFECT, state=state)])
    assert reason == (f"effect pay#1 is {state}" if state in WAITING else None)


def test_one_that_is_still_to_be_compensated_stays() -> None:
    failed = replace(RUN, state=RunState.FAILED)
    tasks = [task("look"), task("act", TaskState.FAILED)]
    assert "is compensating by its steps" in str(
        kept(failed, tasks=tasks, effects=[replace(EFFECT, undo="a:undo")])
    )
    assert kept(failed, tasks=tasks, effects=[EFFECT]) is None


@given(
    late=st.sampled_from(["run", "task", "effect", "decided", "requested", None]),
    before=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=900)),
)
def test_all_of_it_has_to_have_ended_before(late: str | None, before: timedelta) -> None:
    moment = NOW + timedelta(days=100)
    answered = replace(APPROVAL, decision=Decision.REJECTED, decided_at=NOW)
    reason = kept(
        replace(RUN, updated_at=moment) if late == "run" else RUN,
        tasks=[task("look"), replace(task("act"), updated_at=moment) if late == "task" else task("act")],
        effects=[replace(EFFECT, updated_at=moment) if late == "effect" else EFFECT],
        approvals=[
            replace(answered, decided_at=moment) if late == "decided" else answered,
            replace(APPROVAL, requested_at=moment) if late == "requested" else APPROVAL,
        ],
        before=NOW + before,
    )
    young = late is not None and moment >= NOW + before
    assert reason == ("something of it is younger" if young else None)


def outlives(
    effect: EffectRecord, run: RunRecord = RUN, *, tasks: list[TaskRecord] | None = None, read: bool = True
) -> bool:
    known = [task("look"), task("act")] if tasks is None else tasks
    return outliving(run, FLOW if read else None, tasks=known, effects=[effect]) == [effect]


PAID = replace(EFFECT, undo="a:undo")
FAILED_ACT = [task("look"), task("act", TaskState.FAILED)]


@pytest.mark.parametrize("read", [True, False], ids=["with its definition", "by what is stored alone"])
def test_what_a_run_that_succeeded_did_outlives_it(read: bool) -> None:
    assert outlives(PAID, read=read)
    assert outlives(EFFECT, read=read)


@pytest.mark.parametrize("state", [state for state in RunState if not state.success])
def test_what_is_still_to_be_undone_does_not_outlive_its_run(state: RunState) -> None:
    """Whoever stopped at the first undo that failed may have left it, and whoever was deleted half-way."""
    run = replace(RUN, state=state)
    assert not outlives(PAID, run, tasks=FAILED_ACT)
    # What nobody can undo is nobody's concern, once the run is over.
    assert outlives(EFFECT, run, tasks=FAILED_ACT) is state.terminal


@pytest.mark.parametrize("state", EffectState)
def test_what_is_over_outlives_a_failed_run_and_what_waits_goes_on_waiting(state: EffectState) -> None:
    effect = replace(EFFECT, state=state)
    over = state not in WAITING
    assert outlives(effect, replace(RUN, state=RunState.COMPENSATION_FAILED), tasks=FAILED_ACT) is over
    assert outlives(effect) is over


def test_a_run_whose_steps_have_gone_on_since_it_was_closed_is_not_over() -> None:
    """One was cleared, and is at work, or has failed; the run is stored as it was closed before."""
    assert not outlives(PAID, tasks=[task("look"), task("act", TaskState.RUNNING)])
    assert not outlives(PAID, tasks=FAILED_ACT)
    # Unlike a step that nobody has told of yet.
    assert outlives(PAID, tasks=[task("look")])


def test_what_a_run_before_it_left_unfinished_does_not_outlive_a_run_that_succeeds() -> None:
    run = replace(RUN, incarnation=2)
    tasks = [task("look", incarnation=2), task("act", incarnation=2), task("old", TaskState.RUNNING)]
    assert not outlives(PAID, run, tasks=tasks)
    assert outlives(replace(PAID, incarnation=2), run, tasks=tasks)
    assert outlives(replace(PAID, state=EffectState.UNDONE), run, tasks=tasks)


@pytest.mark.parametrize(("scope", "guards"), [("dag:d", True), ("run:d:r", False), ("global", True)])
def test_effects_that_guard_beyond_their_run_are_told_apart(scope: str, guards: bool) -> None:
    assert guards_beyond_its_run(replace(EFFECT, scope=scope)) is guards


@pytest.mark.parametrize("state", EffectState)
def test_an_effect_is_settled_once_nobody_works_on_it_or_waits(state: EffectState) -> None:
    effect = replace(EFFECT, state=state)
    assert is_settled(effect, before=LATER) is (state not in WAITING)
    assert not is_settled(effect, before=NOW)
