"""What the reconciler decides about a run, and what a skip means that nobody in the run explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from louver.definition import Definition
from louver.ledger.names import EffectKind, EffectState, OnUnknown
from louver.ledger.records import EffectRecord, RunRecord
from louver.nodes import Step
from louver.policies import CompensationPolicy
from louver.reconcile_runs import Undoing, decide_run
from louver.repairs import CloseRun, Compensate, SetRunState
from louver.sightings import Shown, Sighting, explains_skip, in_order, missed_change
from louver.states import RunState, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
S, F, P = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.PENDING

LINE = Definition(
    name="line",
    version="1",
    nodes=[
        Step(name="one", task="shop.orders:one"),
        Step(name="two", task="shop.orders:two", deps=["one"]),
        Step(name="three", task="shop.orders:three", deps=["two"]),
    ],
)


def run(state: RunState = RunState.RUNNING) -> RunRecord:
    return RunRecord(
        dag_id="line",
        run_id="r1",
        incarnation=1,
        marker="2026-03-01T12:00:00+00:00",
        definition_name="line",
        definition_version="1",
        definition_fingerprint=LINE.fingerprint,
        state=state,
        reason=None,
        requester=None,
        created_at=NOW,
        updated_at=NOW,
    )


def effect(state: EffectState, *, key: str = "pay", undo: str | None = "shop.orders:undo") -> EffectRecord:
    return EffectRecord(
        scope="dag:line",
        key=key,
        epoch=1,
        name="pay",
        kind=EffectKind.FORWARD,
        state=state,
        intent_hash="h",
        dag_id="line",
        run_id="r1",
        task_id="one",
        map_index=-1,
        incarnation=1,
        generation=1,
        session=1,
        process="p",
        ticket="t",
        undo=undo,
        undoes=None,
        verify=None,
        on_unknown=OnUnknown.MANUAL,
        provider_idempotent=False,
        approval_id=None,
        lease_until=NOW,
        quiesce_seconds=0.0,
        started_at=NOW,
        updated_at=NOW,
        commit_sequence=1,
    )


def states(*given: TaskState) -> Mapping[str, TaskState]:
    return dict(zip(LINE.names, given, strict=True))


def decide(
    record: RunRecord,
    given: Mapping[str, TaskState],
    *,
    over: bool,
    effects: list[EffectRecord] | None = None,
    undoing: Undoing | None = None,
) -> Any:
    def asked() -> Any:
        if effects is None:
            pytest.fail("nobody needed to know its effects")
        return effects

    def asked_too() -> Any:
        if undoing is None:
            pytest.fail("nobody needed to know what was started for it")
        return undoing

    return decide_run(record, LINE, given, over=over, effects=asked, undoing=asked_too)


COMMITTED = [effect(EffectState.COMMITTED)]


def test_a_run_that_goes_on_and_is_held_for_what_it_is_needs_nothing() -> None:
    assert decide(run(), states(S, TaskState.RUNNING, P), over=False) == ()
    assert decide(run(RunState.WAITING_APPROVAL), states(S, TaskState.PAUSED, P), over=False) == ()


@pytest.mark.parametrize(
    ("held", "given", "state"),
    [
        (RunState.RUNNING, states(S, TaskState.PAUSED, P), RunState.WAITING_APPROVAL),
        (RunState.WAITING_APPROVAL, states(S, TaskState.RUNNING, P), RunState.RUNNING),
        # Cleared after its end.
        (RunState.FAILED_COMPENSATED, states(S, TaskState.RUNNING, P), RunState.RUNNING),
    ],
)
def test_a_stale_state_is_brought_up(held: RunState, given: Mapping[str, TaskState], state: RunState) -> None:
    (repair,) = decide(run(held), given, over=False)

    assert isinstance(repair, SetRunState)
    assert repair.state is state


def test_the_closing_tasks_of_a_run_that_goes_on_say_its_end_themselves() -> None:
    assert decide(run(), states(S, S, S), over=False) == ()
    assert decide(run(), states(S, F, TaskState.SKIPPED), over=False) == ()


@pytest.mark.parametrize(
    ("given", "effects", "state"),
    [
        (states(S, S, S), None, RunState.SUCCEEDED),
        (states(S, F, P), [], RunState.FAILED),
        (states(S, F, P), [effect(EffectState.UNDONE)], RunState.FAILED_COMPENSATED),
        (states(S, F, P), [effect(EffectState.UNDO_FAILED)], RunState.COMPENSATION_FAILED),
        (states(S, F, P), [effect(EffectState.COMMITTED, undo=None)], RunState.FAILED),
        (states(S, TaskState.STOPPED, P), [], RunState.STOPPED),
        (states(S, TaskState.CANCELLED, P), [], RunState.CANCELLED),
        (states(S, TaskState.LOST, P), [], RunState.FAILED),
    ],
)
def test_a_run_that_is_over_is_closed(
    given: Mapping[str, TaskState], effects: list[EffectRecord] | None, state: RunState
) -> None:
    (repair,) = decide(run(), given, over=True, effects=effects)

    assert isinstance(repair, CloseRun)
    assert repair.state is state
    assert decide(run(state), given, over=True, effects=effects) == ()


@pytest.mark.parametrize(
    "forward",
    [TaskState.FAILED, TaskState.LOST, TaskState.STOPPED, TaskState.CANCELLED],
)
@pytest.mark.parametrize("kind", [EffectState.COMMITTED, EffectState.UNKNOWN, EffectState.STARTED])
def test_what_stands_of_a_run_that_airflow_ended_is_undone_from_outside(
    forward: TaskState, kind: EffectState
) -> None:
    held, rescue = decide(run(), states(S, forward, P), over=True, effects=[effect(kind)], undoing=Undoing())

    assert isinstance(held, SetRunState)
    assert held.state is RunState.COMPENSATING
    assert isinstance(rescue, Compensate)
    assert rescue.number == 1


def test_it_is_started_once_for_what_stands() -> None:
    given = states(S, F, P)
    first = decide(run(RunState.COMPENSATING), given, over=True, effects=COMMITTED, undoing=Undoing())[-1]

    def again(effects: list[EffectRecord], **known: Any) -> Any:
        undoing = Undoing(started=1, outstanding=first.outstanding, **known)
        return decide(run(RunState.COMPENSATING), given, over=True, effects=effects, undoing=undoing)

    assert again(COMMITTED, active=True) == ()
    assert again(COMMITTED) == ()
    # It undid one of two and died for good: the other one is another matter.
    (other,) = again([effect(EffectState.COMMITTED, key="ship")])
    assert (other.number, other.outstanding == first.outstanding) == (2, False)
    assert again([effect(EffectState.COMMITTED, key="ship")], active=True) == ()


def test_what_was_not_come_to_since_an_undo_failed_is_left_to_the_person() -> None:
    """Case E06, where the workflow says so: nobody is started to go on, until that has been seen to."""
    stops = replace(LINE, compensation=CompensationPolicy(on_failure="stop"))
    failed, rest = effect(EffectState.UNDO_FAILED), effect(EffectState.COMMITTED, key="ship")

    def decide_about(*effects: EffectRecord) -> Any:
        return decide_run(
            run(RunState.COMPENSATING),
            stops,
            states(S, F, P),
            over=True,
            effects=lambda: list(effects),
            undoing=Undoing,
        )

    (closed,) = decide_about(failed, rest)
    assert isinstance(closed, CloseRun)
    assert closed.state is RunState.COMPENSATION_FAILED
    (rescue,) = decide_about(replace(failed, state=EffectState.UNDONE), rest)
    assert isinstance(rescue, Compensate)


def test_a_run_with_an_unsettled_step_is_not_closed() -> None:
    assert decide(run(), states(S, TaskState.RUNNING, P), over=True) == ()


# Skips


@pytest.mark.parametrize(
    ("upstream", "explained"),
    [
        (TaskState.SUCCEEDED, False),
        (TaskState.FAILED, True),
        (TaskState.SKIPPED, True),
        (TaskState.CANCELLED, True),
        (TaskState.LOST, True),
        (TaskState.RUNNING, None),
        (TaskState.PENDING, None),
    ],
)
def test_an_upstream_that_did_not_deliver_explains_a_skip(
    upstream: TaskState, explained: bool | None
) -> None:
    assert explains_skip(LINE.node("two"), {"one": upstream}) is explained


def test_a_root_has_nobody_to_explain_its_skip() -> None:
    assert explains_skip(LINE.node("one"), {}) is False
    assert explains_skip(None, {}) is False


def test_a_skip_that_nobody_explains_ends_the_run_without_success() -> None:
    """Case D08, and a run marked failed while a step waited: it must not look like a success."""
    skipped = Sighting(shown=Shown.SKIPPED, said="skipped")
    given = {"one": TaskState.SUCCEEDED}
    for node in in_order(LINE)[1:]:
        state = given.get(node.name, TaskState.PENDING)
        change = missed_change(state, skipped, explained=explains_skip(node, given))
        assert change is not None
        given[node.name] = change.to

    assert given == states(S, TaskState.CANCELLED, TaskState.SKIPPED)
    repairs = decide(run(), given, over=True, effects=COMMITTED, undoing=Undoing())
    assert isinstance(repairs[-1], Compensate)


def test_in_order_is_behind_those_it_waits_for() -> None:
    chain = [
        Step(name="n0", task="a:b"),
        *(Step(name=f"n{number}", task="a:b", deps=[f"n{number - 1}"]) for number in range(1, 200)),
    ]
    backwards = Definition(name="long", version="1", nodes=list(reversed(chain)))

    assert [node.name for node in in_order(backwards)] == [node.name for node in chain]
    diamond = replace(LINE, nodes=[*reversed(LINE.nodes)])
    assert [node.name for node in in_order(diamond)] == ["one", "two", "three"]


@pytest.mark.parametrize(("paused", "state"), [(["one"], RunState.PAUSED), ([], RunState.WAITING_APPROVAL)])
def test_a_run_that_a_person_paused_waits_for_no_approval(paused: list[str], state: RunState) -> None:
    chain = decide_run(
        run(),
        LINE,
        {"one": TaskState.PAUSED},
        over=False,
        effects=list,
        undoing=Undoing,
        paused=paused,
    )
    (repair,) = chain
    assert isinstance(repair, SetRunState)
    assert repair.state is state
