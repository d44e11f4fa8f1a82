"""How a process takes hold of a task, and loses it (semantics section 1, Fencing and Identity)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.errors import IllegalTransition, Superseded
from louver.ledger.names import Token
from louver.ledger.records import TaskRecord
from louver.policies import INFRASTRUCTURE_BUDGET
from louver.sessions import Change, Claim, Entry, Opening, apply_change, check_token, plan_opening
from louver.states import FailureKind, Precision, Source, TaskState, transition

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
LATER = NOW + timedelta(seconds=1)
OCCUPIED = [TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSING, TaskState.STOPPING]
ENDED = [state for state in TaskState if state.terminal and state is not TaskState.SUCCEEDED]


def record(**changes: Any) -> TaskRecord:
    """A task that one process has opened."""
    known = TaskRecord(
        dag_id="orders",
        run_id="run-1",
        task_id="pay",
        map_index=-1,
        session=1,
        try_number=1,
        max_tries=2,
        attempt=1,
        version=3,
        process="first",
        state=TaskState.RUNNING,
        updated_at=NOW,
    )
    return replace(known, **changes)


def claim(**changes: Any) -> Claim:
    """The next try of it."""
    return replace(Claim(try_number=2, max_tries=2, process="second", source=Source.WORKER), **changes)


def walk(opening: Opening) -> TaskRecord:
    """The record after the opening's changes; each must be in the table."""
    after = opening.record
    for change in opening.changes:
        after, _ = apply_change(after, change, source=Source.WORKER, now=LATER)
    return after


def test_a_fresh_task_starts() -> None:
    fresh = record(session=0, try_number=0, max_tries=0, attempt=0, version=0, state=TaskState.PENDING)
    opening = plan_opening(fresh, claim(try_number=1), incarnation=1)
    after = walk(opening)
    assert opening.entry is Entry.START
    assert [change.to for change in opening.changes] == [TaskState.QUEUED, TaskState.STARTING]
    assert (after.generation, after.attempt, after.session, after.process) == (1, 1, 1, "second")
    assert opening.changes[0].precision is Precision.BOUNDED
    assert opening.changes[1].precision is Precision.EXACT


def test_what_waited_for_a_resource_goes_on_in_its_attempt() -> None:
    opening = plan_opening(record(state=TaskState.BLOCKED, attempt=1), claim(), incarnation=1)
    after = walk(opening)
    assert opening.entry is Entry.START
    assert (after.state, after.attempt, after.losses) == (TaskState.STARTING, 1, 0)


def test_what_waited_for_an_upstream_begins_its_first_attempt() -> None:
    opening = plan_opening(record(state=TaskState.BLOCKED, attempt=0), claim(), incarnation=1)
    assert walk(opening).attempt == 1


@pytest.mark.parametrize("state", [TaskState.PENDING, TaskState.QUEUED, TaskState.RETRY_WAIT])
def test_what_waits_starts(state: TaskState) -> None:
    opening = plan_opening(record(state=state), claim(), incarnation=1)
    after = walk(opening)
    assert opening.entry is Entry.START
    assert (after.state, after.attempt, after.losses) == (TaskState.STARTING, 2, 0)


def test_what_succeeded_returns_what_is_recorded() -> None:
    """Its report was lost (case F01)."""
    opening = plan_opening(record(state=TaskState.SUCCEEDED), claim(), incarnation=1)
    assert (opening.entry, list(opening.changes)) == (Entry.RECORDED, [])
    assert opening.record.session == 2


@pytest.mark.parametrize("state", ENDED)
def test_what_ended_stays_over(state: TaskState) -> None:
    opening = plan_opening(record(state=state), claim(), incarnation=1)
    assert (opening.entry, list(opening.changes), opening.record.state) == (Entry.OVER, [], state)


@pytest.mark.parametrize("state", [*OCCUPIED, TaskState.PAUSED])
def test_a_process_that_ended_without_a_word_is_counted_apart(state: TaskState) -> None:
    opening = plan_opening(record(state=state, failures=1), claim(), incarnation=1)
    after = walk(opening)
    assert opening.entry is Entry.START
    assert [change.to for change in opening.changes] == [
        TaskState.RETRY_WAIT,
        TaskState.QUEUED,
        TaskState.STARTING,
    ]
    assert opening.changes[0].trigger == "runtime:attempt_lost"
    assert (after.losses, after.failures, after.attempt) == (1, 1, 2)


@pytest.mark.parametrize("state", [*OCCUPIED, TaskState.PAUSED])
def test_lost_processes_have_a_budget(state: TaskState) -> None:
    spent = record(state=state, losses=INFRASTRUCTURE_BUDGET)
    opening = plan_opening(spent, claim(), incarnation=1)
    after = walk(opening)
    assert opening.entry is Entry.OVER
    assert (after.state, after.failure_kind) == (TaskState.LOST, FailureKind.LOST)
    assert opening.changes[0].reason == "3 processes were lost"
    assert plan_opening(replace(spent, losses=1), claim(), incarnation=1).entry is Entry.START


@pytest.mark.parametrize("state", [state for state in TaskState if state not in OCCUPIED])
def test_a_clear_starts_the_next_generation(state: TaskState) -> None:
    """The worker sees it by a larger ``max_tries``; everything that was counted starts afresh."""
    known = record(
        state=state,
        nonce="park-1" if state is TaskState.PAUSED else None,
        failures=2,
        losses=2,
        attempt=3,
        failure_kind=FailureKind.EXCEPTION,
    )
    opening = plan_opening(known, claim(max_tries=3), incarnation=1)
    after = walk(opening)
    assert opening.entry is Entry.START
    assert opening.changes[0].trigger == "user:cleared"
    assert (after.generation, after.attempt, after.failures, after.losses) == (2, 1, 0, 0)
    assert (after.state, after.failure_kind, after.max_tries) == (TaskState.STARTING, None, 3)


@pytest.mark.parametrize("state", [*OCCUPIED, TaskState.PAUSED])
def test_a_clear_of_a_running_task_goes_on_in_its_generation_and_costs_no_loss(state: TaskState) -> None:
    """One that is paused in place has a process inside, too."""
    known = record(state=state, failures=2, losses=INFRASTRUCTURE_BUDGET)
    opening = plan_opening(known, claim(max_tries=3), incarnation=1)
    after = walk(opening)
    assert opening.entry is Entry.START
    assert (after.generation, after.failures, after.losses, after.attempt) == (1, 0, 0, 2)
    first = opening.changes[0]
    assert (first.reason, first.precision) == ("it was cleared while it ran", Precision.BOUNDED)
    restarted = (TaskState.QUEUED, "executor:restarting")
    given_up = (TaskState.RETRY_WAIT, "runtime:attempt_lost")
    assert (first.to, first.trigger) == (restarted if state is TaskState.RUNNING else given_up)


def test_a_task_that_nobody_opened_cannot_have_been_cleared() -> None:
    fresh = record(session=0, try_number=0, max_tries=0, attempt=0, version=0, state=TaskState.PENDING)
    assert walk(plan_opening(fresh, claim(max_tries=9), incarnation=1)).generation == 1


@pytest.mark.parametrize("state", list(TaskState))
def test_another_incarnation_starts_afresh(state: TaskState) -> None:
    """The run was deleted and made again; its tries are counted from one again."""
    known = record(state=state, try_number=5, max_tries=7, failures=2)
    opening = plan_opening(known, claim(try_number=1), incarnation=2)
    after = walk(opening)
    assert opening.entry is Entry.START
    assert (after.incarnation, after.generation, after.try_number, after.failures) == (2, 2, 1, 0)


def test_a_process_of_the_old_incarnation_is_refused() -> None:
    with pytest.raises(Superseded, match="deleted and made again"):
        plan_opening(record(incarnation=2), claim(), incarnation=1)


def test_a_lower_try_is_refused() -> None:
    with pytest.raises(Superseded, match="try 3 has opened the task; this is try 2"):
        plan_opening(record(try_number=3), claim(try_number=2), incarnation=1)


def test_the_same_try_may_open_again() -> None:
    """Airflow restarts a try that it took for lost."""
    opening = plan_opening(record(), claim(try_number=1), incarnation=1)
    assert (opening.entry, opening.record.session) == (Entry.START, 2)


# Parks


def test_a_nonce_resumes_once() -> None:
    parked = record(state=TaskState.PAUSED, nonce="n1", attempt=1)
    resume = claim(try_number=1, nonce="n1")
    opening = plan_opening(parked, resume, incarnation=1)
    assert (opening.entry, list(opening.changes)) == (Entry.RESUME, [])
    assert (opening.record.nonce, opening.record.session, opening.record.attempt) == (None, 2, 1)
    with pytest.raises(Superseded, match="used already"):
        plan_opening(opening.record, resume, incarnation=1)


@pytest.mark.parametrize("nonce", [None, "n2", ""])
def test_another_nonce_resumes_nothing(nonce: str | None) -> None:
    parked = record(state=TaskState.PAUSED, nonce=nonce)
    with pytest.raises(Superseded):
        plan_opening(parked, claim(try_number=1, nonce="n1"), incarnation=1)


@pytest.mark.parametrize("state", [state for state in TaskState if state is not TaskState.PAUSED])
def test_a_nonce_resumes_nothing_that_is_not_parked(state: TaskState) -> None:
    with pytest.raises(Superseded, match="not parked"):
        plan_opening(record(state=state, nonce="n1"), claim(try_number=1, nonce="n1"), incarnation=1)


def test_the_same_try_without_a_nonce_does_not_take_a_parked_task() -> None:
    with pytest.raises(Superseded, match="does not resume it"):
        plan_opening(record(state=TaskState.PAUSED, nonce="n1"), claim(try_number=1), incarnation=1)


def test_a_later_try_takes_a_parked_task_over() -> None:
    """Then the parked process's answer can resume nothing any more."""
    opening = plan_opening(record(state=TaskState.PAUSED, nonce="n1"), claim(), incarnation=1)
    assert (opening.entry, opening.record.nonce) == (Entry.START, None)


# Changes and tokens


def test_a_change_is_a_record_and_its_row() -> None:
    change = Change(
        to=TaskState.RETRY_WAIT,
        trigger="runtime:error",
        reason="it broke",
        actor="ann",
        failure_kind=FailureKind.EXCEPTION,
    )
    after, row = apply_change(record(), change, source=Source.ENGINE, now=LATER)
    assert (after.version, after.failures, after.failure_kind, after.updated_at) == (
        4,
        1,
        FailureKind.EXCEPTION,
        LATER,
    )
    assert (row.chain, row.version, row.from_state, row.to_state) == (
        "main",
        4,
        TaskState.RUNNING,
        TaskState.RETRY_WAIT,
    )
    assert (row.at, row.actor, row.reason, row.source) == (LATER, "ann", "it broke", Source.ENGINE)
    assert (row.generation, row.attempt) == (1, 1)


def test_a_change_in_the_side_chain_leaves_the_main_ones_number_alone() -> None:
    change = Change(to=TaskState.FAILED, trigger="user:marked", precision=Precision.BOUNDED)
    after, row = apply_change(record(), change, source=Source.RECONCILER, now=LATER, side_version=7)
    assert (after.version, after.state, after.failures) == (3, TaskState.FAILED, 0)
    assert (row.chain, row.version, row.precision) == ("side", 7, Precision.BOUNDED)


def test_an_attempt_begins_with_its_own_row() -> None:
    change = Change(to=TaskState.STARTING, trigger="scheduler:dispatch", begins_attempt=True)
    after, row = apply_change(record(state=TaskState.QUEUED), change, source=Source.WORKER, now=LATER)
    assert (after.attempt, row.attempt) == (2, 2)


def test_a_change_that_the_table_does_not_know_is_refused() -> None:
    with pytest.raises(IllegalTransition):
        apply_change(
            record(state=TaskState.SUCCEEDED),
            Change(to=TaskState.RUNNING, trigger="executor:launched"),
            source=Source.WORKER,
            now=LATER,
        )


def token(**changes: Any) -> Token:
    held = Token(
        key=record().key,
        incarnation=1,
        generation=1,
        attempt=1,
        try_number=1,
        session=1,
        process="first",
        source=Source.WORKER,
    )
    return replace(held, **changes)


def test_the_token_that_holds_the_task() -> None:
    known = record()
    assert check_token(known, token()) is known


@pytest.mark.parametrize("changes", [{"session": 2}, {"try_number": 2}, {"incarnation": 2}])
def test_a_token_that_does_not_hold_the_task(changes: dict[str, int]) -> None:
    for known, held in ((record(), token(**changes)), (record(**changes), token())):
        with pytest.raises(Superseded, match="another process has taken over"):
            check_token(known, held)


def test_a_task_that_is_gone_is_held_by_nobody() -> None:
    with pytest.raises(Superseded):
        check_token(None, token())


def test_every_opening_is_a_way_through_the_table() -> None:
    """Whatever state the record is in, each planned change is legal."""
    for state in TaskState:
        for max_tries in (2, 3):
            for incarnation in (1, 2):
                opening = plan_opening(
                    record(state=state), claim(max_tries=max_tries), incarnation=incarnation
                )
                at = opening.record.state
                for change in opening.changes:
                    at = transition(at, change.to, change.trigger)
                assert (at is TaskState.STARTING) == (opening.entry is Entry.START), state


def test_a_park_of_the_old_incarnation_is_not_resumed_in_the_new_one() -> None:
    parked = record(state=TaskState.PAUSED, nonce="n1")
    with pytest.raises(Superseded, match="not parked"):
        plan_opening(parked, claim(try_number=1, nonce="n1"), incarnation=2)


@pytest.mark.parametrize(("state", "generation"), [(TaskState.BLOCKED, 1), (TaskState.SKIPPED, 2)])
def test_a_task_that_was_only_marked_tells_of_a_clear_once_it_is_over(
    state: TaskState, generation: int
) -> None:
    """A mark knows no tries; whoever opens what is over was let in by a clear."""
    marked = record(state=state, session=1, try_number=0, max_tries=0, attempt=0)
    assert walk(plan_opening(marked, claim(try_number=1), incarnation=1)).generation == generation
