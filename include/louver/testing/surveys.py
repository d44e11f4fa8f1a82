"""Surveys of many runs, and marks by whoever reconciles them."""

from __future__ import annotations

from dataclasses import replace

from louver.ledger.names import RunKey, Verb
from louver.sessions import Change, Entry
from louver.states import FailureKind, Source, TaskState
from louver.testing.scene import LAUNCHED, Scene, check

__all__ = [
    "check_mark_of_a_clear_begins_the_next_generation",
    "check_mark_of_a_lost_process_counts_it",
    "check_mark_with_the_tries_keeps_out_a_late_process_and_lets_a_cleared_one_in",
    "check_survey_leaves_out_what_is_closed_or_of_another_run",
    "check_survey_shows_many_runs_at_once",
]

_LOST = Change(
    to=TaskState.RETRY_WAIT,
    trigger="runtime:attempt_lost",
    reason="its process is gone",
    failure_kind=FailureKind.LOST,
)
_QUEUED = Change(to=TaskState.QUEUED, trigger="orchestrator:dependencies_resolved")
_LATE = Change(to=TaskState.FAILED, trigger="timeout:start", failure_kind=FailureKind.TIMEOUT_START)
_CLEARED = Change(to=TaskState.PENDING, trigger="user:cleared")


@check
def check_survey_shows_many_runs_at_once(scene: Scene) -> None:
    """Runs with their tasks, signs of life, open commands and open requests; in any order of asking."""
    dag_id = scene.run.dag_id
    other = RunKey(dag_id, "run-2")
    asked = scene.ask(scene.launch("act"), 1)
    held = scene.launch("look", run=other)
    scene.ledger.touch(held, now=scene.tick())
    sent = scene.send(1, Verb.STOP)

    found = scene.ledger.survey([other, RunKey(dag_id, "unknown"), scene.run, other])

    runs = [scene.ledger.get_run(scene.run), scene.ledger.get_run(other)]
    scene.equal(list(found.runs), runs, "the runs")
    tasks = [*scene.ledger.list_tasks(scene.run), *scene.ledger.list_tasks(other)]
    scene.equal(list(found.tasks), tasks, "their tasks")
    scene.equal(list(found.touches), scene.ledger.list_touches(other), "their signs of life")
    scene.equal(list(found.commands), [sent], "their open commands")
    scene.equal(list(found.approvals), [asked], "their open requests")
    nothing = scene.ledger.survey([])
    scene.equal((nothing.runs, nothing.tasks), ((), ()), "a survey of no run")


@check
def check_survey_leaves_out_what_is_closed_or_of_another_run(scene: Scene) -> None:
    """Closed commands, decided requests, and tasks of a run of this id that was deleted."""
    asked = scene.ask(scene.launch("act"), 1)
    scene.ledger.expire_approval(asked.request_id, now=scene.tick())
    refused = scene.send(1, Verb.STOP)
    scene.ledger.refuse_command(refused, outcome="too late", now=scene.tick())
    scene.open("look", run=RunKey(scene.run.dag_id, "run-2"))
    scene.begin(marker="another")
    fresh = scene.open("look")

    found = scene.ledger.survey([scene.run])

    scene.equal((found.commands, found.approvals), ((), ()), "what is closed")
    scene.equal(list(found.tasks), [fresh.record], "the tasks")


@check
def check_mark_with_the_tries_keeps_out_a_late_process_and_lets_a_cleared_one_in(scene: Scene) -> None:
    """It timed out before it started: who comes late finds it over, who comes after a clear runs it."""
    scene.begin()
    key = scene.key("act")
    for session, change in enumerate((_QUEUED, _LATE)):
        row = scene.ledger.mark(
            key, change, session=session, source=Source.RECONCILER, max_tries=3, now=scene.tick()
        )
        scene.found(row, f"the row to {change.to}")

    late = scene.open("act", try_number=1, max_tries=3)
    scene.equal((late.entry, late.record.state), (Entry.OVER, TaskState.FAILED), "who comes late")
    cleared = scene.open("act", try_number=2, max_tries=4)
    scene.equal((cleared.entry, cleared.record.generation), (Entry.START, 2), "who comes after a clear")


@check
def check_mark_of_a_lost_process_counts_it(scene: Scene) -> None:
    """As it would be counted by the next process, which then counts nothing."""
    token = scene.launch("act")

    scene.ledger.mark(token.key, _LOST, session=token.session, source=Source.RECONCILER, now=scene.tick())

    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.losses, record.failures), (1, 0), "losses and failures")
    opened = scene.open("act", try_number=2)
    scene.equal((opened.entry, opened.record.losses), (Entry.START, 1), "who comes next")
    scene.ledger.advance(opened.token, LAUNCHED, now=scene.tick())


@check
def check_mark_of_a_clear_begins_the_next_generation(scene: Scene) -> None:
    """With its tries said, the process that comes then goes on in that generation."""
    token = scene.succeed("act", "old")

    scene.ledger.mark(
        token.key, _CLEARED, session=token.session, source=Source.RECONCILER, max_tries=4, now=scene.tick()
    )

    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.state, record.generation, record.attempt), (TaskState.PENDING, 2, 0), "the record")
    opened = scene.open("act", try_number=2, max_tries=4)
    scene.equal((opened.entry, opened.record.generation), (Entry.START, 2), "who comes next")
    changed = replace(_LOST, to=TaskState.LOST)
    scene.ledger.advance(opened.token, changed, now=scene.tick())
