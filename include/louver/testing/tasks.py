"""Taking hold of a task: who holds it now, and what that process finds (semantics section 1)."""

from __future__ import annotations

from louver.errors import IntegrityError, LedgerError, Superseded
from louver.policies import INFRASTRUCTURE_BUDGET
from louver.sessions import Change, Entry
from louver.states import FailureKind, Precision, Source, TaskState
from louver.testing.scene import ERROR, FAILED, RESUMED, Scene, check

__all__ = [
    "check_open_task_after_a_clear_starts_the_next_generation",
    "check_open_task_after_a_clear_while_running_goes_on_in_its_generation",
    "check_open_task_for_the_first_time",
    "check_open_task_of_a_failed_one_finds_it_over",
    "check_open_task_of_a_lost_process_is_tried_again_until_the_budget_is_used_up",
    "check_open_task_of_a_lower_try_is_refused",
    "check_open_task_of_a_parked_one_by_another_try_starts_over",
    "check_open_task_of_a_run_that_is_not_open_is_an_error",
    "check_open_task_of_a_succeeded_one_finds_it_recorded",
    "check_open_task_resumes_by_a_nonce_that_works_once",
    "check_open_task_with_a_nonce_that_is_not_the_stored_one_is_refused",
    "check_open_task_with_the_next_try_goes_on_in_its_generation",
]

_SKIP = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="ann", reason="not needed")


@check
def check_open_task_for_the_first_time(scene: Scene) -> None:
    """A new task is taken by session 1, and is starting."""
    opened = scene.open("act")

    token, record = opened.token, opened.record
    scene.equal(opened.entry, Entry.START, "how it is entered")
    scene.equal((token.key, token.session, token.try_number), (scene.key("act"), 1, 1), "whose token it is")
    scene.equal((token.incarnation, token.generation, token.attempt), (1, 1, 1), "what the token counts")
    scene.equal((token.process, token.source), ("host:1:3", Source.WORKER), "who holds it")
    scene.equal(
        [(row.from_state, row.to_state, row.chain, row.version) for row in opened.transitions],
        [
            (TaskState.PENDING, TaskState.QUEUED, "main", 1),
            (TaskState.QUEUED, TaskState.STARTING, "main", 2),
        ],
        "its transitions",
    )
    scene.equal((record.state, record.version, record.session), (TaskState.STARTING, 2, 1), "its record")
    scene.equal((record.max_tries, record.nonce, record.process), (3, None, token.process), "its record")
    scene.equal(scene.ledger.get_task(token.key), record, "what is read again")
    scene.equal(scene.ledger.list_transitions(scene.run), list(opened.transitions), "transitions, read again")


@check
def check_open_task_of_a_run_that_is_not_open_is_an_error(scene: Scene) -> None:
    """A task needs its run."""
    key = scene.key("act")

    scene.refused(
        LedgerError, lambda: scene.ledger.open_task(key, scene.claim(), now=scene.now), "a task of no run"
    )
    scene.refused(
        LedgerError,
        lambda: scene.ledger.mark(key, _SKIP, session=0, source=Source.API, now=scene.now),
        "a mark on a task of no run",
    )
    scene.equal(scene.ledger.get_task(key), None, "the task afterwards")


@check
def check_open_task_of_a_lower_try_is_refused(scene: Scene) -> None:
    """An older attempt that wakes up late finds that it was replaced."""
    token = scene.launch("act", try_number=2)

    with scene.unchanged("a lower try"):
        scene.refused(Superseded, lambda: scene.open("act", try_number=1), "a lower try")

    scene.ledger.advance(token, FAILED, now=scene.tick())


@check
def check_open_task_with_the_next_try_goes_on_in_its_generation(scene: Scene) -> None:
    """A retry is the next attempt of the same generation, in a session of its own."""
    token = scene.launch("act")
    scene.ledger.advance(token, ERROR, now=scene.tick())

    opened = scene.open("act", try_number=2)

    scene.equal(opened.entry, Entry.START, "how it is entered")
    scene.equal((opened.token.generation, opened.token.attempt), (1, 2), "generation and attempt")
    scene.equal(opened.token.session, 2, "the session")
    scene.equal((opened.record.failures, opened.record.losses), (1, 0), "failures and losses")
    scene.equal(
        [(row.from_state, row.to_state, row.attempt) for row in opened.transitions],
        [(TaskState.RETRY_WAIT, TaskState.QUEUED, 1), (TaskState.QUEUED, TaskState.STARTING, 2)],
        "its transitions",
    )


@check
def check_open_task_of_a_lost_process_is_tried_again_until_the_budget_is_used_up(scene: Scene) -> None:
    """Losses are counted apart from failures; one more than the budget ends the task as lost."""
    scene.launch("act", max_tries=9)
    for lost in range(1, INFRASTRUCTURE_BUDGET + 1):
        opened = scene.open("act", try_number=1 + lost, max_tries=9)
        scene.equal(opened.entry, Entry.START, f"after {lost} losses")
        scene.equal((opened.record.losses, opened.record.failures), (lost, 0), "losses and failures")
        first = opened.transitions[0]
        scene.equal((first.to_state, first.precision), (TaskState.RETRY_WAIT, Precision.BOUNDED), "the loss")

    last = scene.open("act", try_number=INFRASTRUCTURE_BUDGET + 2, max_tries=9)

    scene.equal(last.entry, Entry.OVER, "with the budget used up")
    scene.equal(last.record.state, TaskState.LOST, "its state")
    scene.equal(last.record.failure_kind, FailureKind.LOST, "its kind of failure")


@check
def check_open_task_after_a_clear_starts_the_next_generation(scene: Scene) -> None:
    """More tries than before tell of a clear: counters start anew, sessions and versions go on."""
    token = scene.succeed("act", "result")

    opened = scene.open("act", try_number=2, max_tries=4)

    scene.equal(opened.entry, Entry.START, "how it is entered")
    scene.equal((opened.token.generation, opened.token.attempt), (2, 1), "generation and attempt")
    scene.equal((opened.record.failures, opened.record.losses), (0, 0), "failures and losses")
    scene.equal(opened.token.session, token.session + 1, "the session")
    scene.equal(
        [(row.to_state, row.generation, row.version) for row in opened.transitions],
        [(TaskState.PENDING, 2, 5), (TaskState.QUEUED, 2, 6), (TaskState.STARTING, 2, 7)],
        "its transitions",
    )
    scene.refused(IntegrityError, lambda: scene.ledger.load_result(token.key), "the cleared result")


@check
def check_open_task_after_a_clear_while_running_goes_on_in_its_generation(scene: Scene) -> None:
    """Who clears a running task restarts it: its checkpoints stay, its attempts are given back."""
    token = scene.launch("act")
    scene.ledger.advance(token, ERROR, now=scene.tick())
    scene.launch("act", try_number=2)

    opened = scene.open("act", try_number=3, max_tries=4)

    scene.equal(opened.token.generation, 1, "the generation")
    scene.equal((opened.record.failures, opened.record.losses), (0, 0), "failures and losses")
    scene.equal(
        [(row.to_state, row.trigger) for row in opened.transitions],
        [(TaskState.QUEUED, "executor:restarting"), (TaskState.STARTING, "scheduler:dispatch")],
        "its transitions",
    )
    scene.equal(opened.entry, Entry.START, "how it is entered")


@check
def check_open_task_of_a_succeeded_one_finds_it_recorded(scene: Scene) -> None:
    """A step whose report was lost does not run again."""
    token = scene.succeed("act", "result")

    opened = scene.open("act", try_number=2)

    scene.equal(opened.entry, Entry.RECORDED, "how it is entered")
    scene.equal((opened.transitions, opened.record.state), ((), TaskState.SUCCEEDED), "what it does")
    scene.equal(scene.ledger.load_result(token.key), "result", "the result")


@check
def check_open_task_of_a_failed_one_finds_it_over(scene: Scene) -> None:
    """What has ended otherwise stays ended."""
    token = scene.launch("act")
    scene.ledger.advance(token, FAILED, now=scene.tick())

    opened = scene.open("act", try_number=2)

    scene.equal(opened.entry, Entry.OVER, "how it is entered")
    scene.equal((opened.transitions, opened.record.state), ((), TaskState.FAILED), "what it does")


@check
def check_open_task_resumes_by_a_nonce_that_works_once(scene: Scene) -> None:
    """Of two resumes with the same nonce the second is refused; so is a process with none."""
    scene.ask(scene.launch("act"), 1)
    scene.refused(Superseded, lambda: scene.open("act"), "the same try without the nonce")

    opened = scene.open("act", nonce="nonce-1")

    scene.equal(opened.entry, Entry.RESUME, "how it is entered")
    scene.equal((opened.token.generation, opened.token.attempt), (1, 1), "generation and attempt")
    scene.equal((opened.record.state, opened.record.nonce), (TaskState.PAUSED, None), "its record")
    with scene.unchanged("a second resume"):
        scene.refused(Superseded, lambda: scene.open("act", nonce="nonce-1"), "the nonce once more")
    scene.ledger.advance(opened.token, RESUMED, now=scene.tick())


@check
def check_open_task_with_a_nonce_that_is_not_the_stored_one_is_refused(scene: Scene) -> None:
    """A wrong nonce does nothing, and does not use up the right one."""
    scene.ask(scene.launch("act"), 1)

    with scene.unchanged("a wrong nonce"):
        scene.refused(Superseded, lambda: scene.open("act", nonce="nonce-2"), "a wrong nonce")
    scene.equal(scene.open("act", nonce="nonce-1").entry, Entry.RESUME, "the right one afterwards")

    scene.launch("look")
    scene.refused(Superseded, lambda: scene.open("look", nonce="nonce-1"), "a task that is not parked")


@check
def check_open_task_of_a_parked_one_by_another_try_starts_over(scene: Scene) -> None:
    """The orchestrator gave the park up and tries again: the attempt counts as lost, the nonce is void."""
    scene.ask(scene.launch("act"), 1)

    opened = scene.open("act", try_number=2)

    scene.equal((opened.entry, opened.record.losses), (Entry.START, 1), "how it is entered")
    scene.refused(
        Superseded, lambda: scene.open("act", try_number=2, nonce="nonce-1"), "the nonce of the old park"
    )
