"""What people may ask of a task in each of its states (semantics section 8)."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone

import pytest

from louver.control import is_pause, judge_command
from louver.errors import CommandRefused
from louver.ledger.names import CommandState, Verb
from louver.ledger.records import CommandRecord, TaskRecord
from louver.states import Source, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
LIVE = [state for state in TaskState if not state.terminal]
OVER = [state for state in TaskState if state.terminal]


def task(state: TaskState, nonce: str | None = None) -> TaskRecord:
    return TaskRecord(
        dag_id="d", run_id="r", task_id="t", map_index=-1, state=state, nonce=nonce, updated_at=NOW
    )


def pending(*verbs: Verb) -> list[CommandRecord]:
    return [
        CommandRecord(
            command_id=str(verb),
            dag_id="d",
            run_id="r",
            task_id="t",
            map_index=-1,
            generation=1,
            verb=verb,
            actor="ann",
            reason=None,
            source=Source.CLI,
            sent_at=NOW,
            state=CommandState.PENDING,
        )
        for verb in verbs
    ]


def refusal(verb: Verb, record: TaskRecord | None, *asked: Verb) -> CommandRefused:
    with pytest.raises(CommandRefused) as caught:
        judge_command(verb, record, pending(*asked))
    return caught.value


@pytest.mark.parametrize(("verb", "state"), list(itertools.product(Verb, OVER)))
def test_what_is_over_takes_no_command_and_says_how_it_ended(verb: Verb, state: TaskState) -> None:
    error = refusal(verb, task(state))
    assert error.state is state
    assert str(state) in str(error)


@pytest.mark.parametrize("state", [None, *(state for state in LIVE if state is not TaskState.STOPPING)])
def test_everything_that_is_not_over_can_be_stopped(state: TaskState | None) -> None:
    record = task(state) if state else None
    judge_command(Verb.STOP, record, pending())
    judge_command(Verb.STOP, record, pending(Verb.PAUSE))
    assert "being stopped already" in str(refusal(Verb.STOP, record, Verb.STOP))


@pytest.mark.parametrize("verb", Verb)
def test_a_stop_outranks_everything(verb: Verb) -> None:
    assert refusal(verb, task(TaskState.STOPPING)).state is TaskState.STOPPING
    assert "being stopped" in str(refusal(verb, task(TaskState.RUNNING), Verb.STOP))


@pytest.mark.parametrize(
    "state", [None, TaskState.BLOCKED, TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRY_WAIT]
)
def test_a_pause_is_taken_once(state: TaskState | None) -> None:
    record = task(state) if state else None
    judge_command(Verb.PAUSE, record, pending())
    assert "asked for already" in str(refusal(Verb.PAUSE, record, Verb.PAUSE))


def test_what_is_paused_or_pausing_is_not_paused_again() -> None:
    assert "paused already" in str(refusal(Verb.PAUSE, task(TaskState.PAUSED)))
    assert "paused already" in str(refusal(Verb.PAUSE, task(TaskState.PAUSED, "pause-1")))
    assert "asked for already" in str(refusal(Verb.PAUSE, task(TaskState.PAUSING)))


def test_who_waits_for_an_approval_can_be_paused_for_later_and_not_resumed() -> None:
    waiting = task(TaskState.PAUSED, "0f" * 16)
    assert not is_pause(waiting)
    judge_command(Verb.PAUSE, waiting, pending())
    assert "for an approval" in str(refusal(Verb.RESUME, waiting))


@pytest.mark.parametrize(
    ("record", "asked"),
    [
        (task(TaskState.PAUSED), ()),
        (task(TaskState.PAUSED, "pause-1"), ()),
        (task(TaskState.PAUSING), ()),
        (task(TaskState.QUEUED), (Verb.PAUSE,)),
        (None, (Verb.PAUSE,)),
    ],
)
def test_a_resume_needs_a_pause_and_is_taken_once(record: TaskRecord | None, asked: tuple[Verb, ...]) -> None:
    judge_command(Verb.RESUME, record, pending(*asked))
    assert "asked for already" in str(refusal(Verb.RESUME, record, *asked, Verb.RESUME))


@pytest.mark.parametrize("state", [None, TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRY_WAIT])
def test_a_resume_of_what_is_not_paused_is_refused(state: TaskState | None) -> None:
    assert "not paused by anybody" in str(refusal(Verb.RESUME, task(state) if state else None))
