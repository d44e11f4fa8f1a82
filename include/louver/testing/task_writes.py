"""Writing about a task: its holder on the main chain, everybody else on the side chain."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from louver.errors import IllegalTransition, IntegrityError, Superseded, ValueRefused
from louver.ledger.names import Decision, RunKey
from louver.sessions import Change
from louver.states import FailureKind, Precision, Source, TaskState
from louver.testing.scene import COMPLETED, ERROR, FAILED, LAUNCHED, PARKED, RESUMED, Scene, check

__all__ = [
    "check_advance_appends_what_was_asked_for",
    "check_advance_by_a_superseded_process_is_refused",
    "check_advance_counts_failures",
    "check_advance_that_is_illegal_appends_nothing",
    "check_advance_versions_have_no_gaps",
    "check_complete_by_a_superseded_process_is_refused",
    "check_complete_keeps_result_and_transition_together",
    "check_complete_that_is_illegal_keeps_no_result",
    "check_complete_with_a_refused_value_writes_neither",
    "check_get_task_of_an_unknown_one_is_none",
    "check_list_tasks_gives_those_of_the_run",
    "check_list_transitions_merges_both_chains_by_time",
    "check_mark_appends_to_the_side_chain_and_fences",
    "check_mark_of_a_parked_task_ends_the_wait",
    "check_mark_of_a_task_made_again_belongs_to_the_new_run",
    "check_mark_of_a_task_that_nobody_opened",
    "check_mark_that_is_illegal_writes_nothing",
    "check_mark_where_another_session_has_opened_the_task_does_nothing",
]

_SKIP = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="ann", reason="not needed")


@check
def check_advance_appends_what_was_asked_for(scene: Scene) -> None:
    """The rows come back as they are kept, and the record follows the last of them."""
    token = scene.open("act").token
    change = Change(
        to=TaskState.STOPPING,
        trigger="user:stop",
        reason="not wanted",
        actor="ann",
        precision=Precision.BOUNDED,
    )

    written = scene.ledger.advance(token, LAUNCHED, change, now=scene.tick())

    scene.equal([row.to_state for row in written], [TaskState.RUNNING, TaskState.STOPPING], "the rows")
    last = written[-1]
    scene.equal((last.version, last.generation, last.attempt), (4, 1, 1), "where the last one stands")
    scene.equal((last.trigger, last.actor, last.reason), ("user:stop", "ann", "not wanted"), "who and why")
    scene.equal((last.source, last.precision, last.at), (Source.WORKER, Precision.BOUNDED, scene.now), "when")
    scene.equal(scene.ledger.list_transitions(scene.run)[2:], list(written), "the rows, read again")
    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.state, record.version), (TaskState.STOPPING, 4), "the record")
    scene.equal(record.updated_at, scene.now, "its time")


@check
def check_advance_that_is_illegal_appends_nothing(scene: Scene) -> None:
    """Of several changes none is appended where one is illegal, whether by its edge or by its trigger."""
    token = scene.open("act").token

    with scene.unchanged("an illegal transition"):
        scene.refused(
            IllegalTransition,
            lambda: scene.ledger.advance(token, LAUNCHED, LAUNCHED, now=scene.now),
            "no such edge",
        )
        scene.refused(
            IllegalTransition,
            lambda: scene.ledger.advance(token, replace(LAUNCHED, trigger="user:resume"), now=scene.now),
            "another trigger",
        )

    scene.equal(scene.ledger.advance(token, LAUNCHED, now=scene.tick())[0].version, 3, "the next version")


@check
def check_advance_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """Once another process has opened the task the first one writes nothing, by whatever it differs."""
    old = scene.launch("act")
    current = scene.open("act", try_number=2).token

    with scene.unchanged("a process that was replaced"):
        for stale in (
            old,
            replace(current, session=current.session + 1),
            replace(current, try_number=1),
            replace(current, incarnation=2),
            replace(current, key=scene.key("never-opened")),
        ):
            scene.refused(
                Superseded,
                partial(scene.ledger.advance, stale, LAUNCHED, now=scene.now),
                "advance",
            )

    scene.ledger.advance(current, LAUNCHED, now=scene.tick())


@check
def check_advance_counts_failures(scene: Scene) -> None:
    """The failures that the retry policy counts, and the kind of the last one."""
    token = scene.launch("act")
    scene.ledger.advance(token, ERROR, now=scene.tick())
    token = scene.launch("act", try_number=2)
    scene.ledger.advance(token, FAILED, now=scene.tick())

    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.failures, record.losses, record.attempt), (2, 0, 2), "failures, losses, attempts")
    scene.equal(record.failure_kind, FailureKind.EXCEPTION, "the kind")


@check
def check_advance_versions_have_no_gaps(scene: Scene) -> None:
    """Over retries, parks and clears the main chain counts from 1, each row going on from the last."""
    token = scene.launch("act")
    scene.ledger.advance(token, ERROR, now=scene.tick())
    token = scene.launch("act", try_number=2)
    asked = scene.ask(token, 1)
    scene.refused(
        IllegalTransition, lambda: scene.ledger.advance(token, COMPLETED, now=scene.tick()), "while parked"
    )
    token = scene.open(asked.task_id, try_number=2, nonce="nonce-1").token
    scene.ledger.advance(token, RESUMED, COMPLETED, now=scene.tick())
    scene.launch("act", try_number=3, max_tries=5)

    rows = scene.ledger.list_transitions(scene.run)
    main = sorted(rows, key=lambda row: row.version)
    scene.equal([row.version for row in main], list(range(1, len(main) + 1)), "the versions")
    scene.holds(len(main) > 10, "every change must have a row")
    scene.equal(
        [row.from_state for row in main[1:]], [row.to_state for row in main[:-1]], "each row's from state"
    )


@check
def check_complete_keeps_result_and_transition_together(scene: Scene) -> None:
    """The step has succeeded, and its result is there."""
    token = scene.launch("act")

    row = scene.ledger.complete(token, COMPLETED, {"sum": 5}, now=scene.tick())

    scene.equal((row.from_state, row.to_state), (TaskState.RUNNING, TaskState.SUCCEEDED), "the row")
    scene.equal((row.version, row.at), (4, scene.now), "where it stands")
    scene.equal(scene.ledger.list_transitions(scene.run)[-1], row, "the row, read again")
    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.state, record.version), (TaskState.SUCCEEDED, 4), "the record")
    scene.equal(scene.ledger.load_result(token.key), {"sum": 5}, "the result")


@check
def check_complete_with_a_refused_value_writes_neither(scene: Scene) -> None:
    """A result that cannot be kept leaves the step as it was."""
    token = scene.launch("act")

    with scene.unchanged("a refused result"):
        scene.refused(
            ValueRefused,
            lambda: scene.ledger.complete(token, COMPLETED, {"sum": object()}, now=scene.now),
            "an object",
        )

    scene.equal(scene.ledger.evidence(scene.run, ["act"]).state_version, 0, "the committed results")
    scene.ledger.complete(token, COMPLETED, None, now=scene.tick())


@check
def check_complete_that_is_illegal_keeps_no_result(scene: Scene) -> None:
    """A step that has not run has no result; one that was kept before stays."""
    token = scene.open("act").token
    with scene.unchanged("an illegal completion"):
        scene.refused(
            IllegalTransition, lambda: scene.ledger.complete(token, COMPLETED, 1, now=scene.now), "too early"
        )
    scene.equal(scene.ledger.load_checkpoint(token, "return_value", "nothing"), "nothing", "what was kept")

    scene.ledger.advance(token, LAUNCHED, now=scene.tick())
    scene.ledger.complete(token, COMPLETED, "first", now=scene.tick())
    scene.refused(
        IllegalTransition, lambda: scene.ledger.complete(token, COMPLETED, "second", now=scene.now), "twice"
    )
    scene.equal(scene.ledger.load_result(token.key), "first", "the result")


@check
def check_complete_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """The result of a process that was replaced is not kept."""
    old = scene.launch("act")
    current = scene.launch("act", try_number=2)

    with scene.unchanged("a process that was replaced"):
        scene.refused(
            Superseded, lambda: scene.ledger.complete(old, COMPLETED, "old", now=scene.now), "complete"
        )

    scene.ledger.complete(current, COMPLETED, "new", now=scene.tick())
    scene.equal(scene.ledger.load_result(current.key), "new", "the result")


@check
def check_mark_appends_to_the_side_chain_and_fences(scene: Scene) -> None:
    """The holder of the task writes nothing more; the main chain has no row of it."""
    token = scene.launch("act")

    row = scene.found(
        scene.ledger.mark(token.key, _SKIP, session=token.session, source=Source.API, now=scene.tick()),
        "the row",
    )

    scene.equal((row.chain, row.version), ("side", 1), "where the row stands")
    scene.equal((row.from_state, row.to_state), (TaskState.RUNNING, TaskState.SKIPPED), "what it says")
    scene.equal((row.actor, row.reason, row.source), ("ann", "not needed", Source.API), "who and why")
    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.state, record.version), (TaskState.SKIPPED, 3), "the record")
    scene.holds(record.session > token.session, "the session must rise, to fence the holder")
    scene.refused(
        Superseded,
        lambda: scene.ledger.complete(token, COMPLETED, 1, now=scene.now),
        "the holder's next write",
    )

    again = scene.ledger.mark(
        token.key,
        replace(_SKIP, to=TaskState.FAILED),
        session=record.session,
        source=Source.CLI,
        now=scene.tick(),
    )
    scene.equal(scene.found(again, "the second row").version, 2, "the version of the second row")


@check
def check_mark_where_another_session_has_opened_the_task_does_nothing(scene: Scene) -> None:
    """What was seen is no longer so, and nothing is written."""
    seen = scene.launch("act")
    current = scene.launch("act", try_number=2)

    with scene.unchanged("a mark by what was seen before"):
        marked = scene.ledger.mark(
            seen.key, _SKIP, session=seen.session, source=Source.RECONCILER, now=scene.now
        )
        scene.equal(marked, None, "the answer")

    with scene.unchanged("a mark by a session that a task never had"):
        for session in (-1, 1):
            marked = scene.ledger.mark(
                scene.key("never-opened"), _SKIP, session=session, source=Source.RECONCILER, now=scene.now
            )
            scene.equal(marked, None, "the answer")
        scene.equal(scene.ledger.get_task(scene.key("never-opened")), None, "the task that nobody opened")
    scene.ledger.advance(current, FAILED, now=scene.tick())


@check
def check_mark_of_a_task_that_nobody_opened(scene: Scene) -> None:
    """A task that never started can be marked; it has no session yet."""
    scene.begin()

    row = scene.ledger.mark(scene.key("act"), _SKIP, session=0, source=Source.LISTENER, now=scene.tick())

    scene.equal(scene.found(row, "the row").from_state, TaskState.PENDING, "its from state")
    record = scene.found(scene.ledger.get_task(scene.key("act")), "the record")
    scene.equal((record.state, record.version), (TaskState.SKIPPED, 0), "the record")


@check
def check_mark_of_a_parked_task_ends_the_wait(scene: Scene) -> None:
    """The nonce is void, and so is the request that nobody has answered."""
    asked = scene.ask(scene.launch("act"), 1)
    held = scene.found(scene.ledger.get_task(asked.task), "the record")
    scene.equal(held.nonce, "nonce-1", "the nonce of the park")

    scene.ledger.mark(asked.task, _SKIP, session=held.session, source=Source.API, now=scene.tick())

    record = scene.found(scene.ledger.get_task(asked.task), "the record")
    scene.equal((record.state, record.nonce), (TaskState.SKIPPED, None), "the record")
    scene.refused(Superseded, lambda: scene.open("act", nonce="nonce-1"), "a resume")
    request = scene.found(scene.ledger.get_approval(asked.request_id), "the request")
    scene.equal((request.decision, request.decided_by), (Decision.VOID, None), "the request")


@check
def check_mark_that_is_illegal_writes_nothing(scene: Scene) -> None:
    """The table of states holds for the side chain too."""
    token = scene.launch("act")

    with scene.unchanged("an illegal mark"):
        scene.refused(
            IllegalTransition,
            lambda: scene.ledger.mark(
                token.key, LAUNCHED, session=token.session, source=Source.API, now=scene.now
            ),
            "running to running",
        )

    scene.ledger.advance(token, FAILED, now=scene.tick())


@check
def check_mark_of_a_task_made_again_belongs_to_the_new_run(scene: Scene) -> None:
    """In a run that was deleted and made again the mark is about the new task, whose old results are gone."""
    token = scene.succeed("act", "old result")
    scene.begin(marker="another")
    done = replace(_SKIP, to=TaskState.SUCCEEDED)

    row = scene.ledger.mark(token.key, done, session=token.session, source=Source.API, now=scene.tick())

    scene.found(row, "the row")
    states = [(task.task_id, task.state) for task in scene.ledger.list_tasks(scene.run)]
    scene.equal(states, [("act", TaskState.SUCCEEDED)], "the tasks of the new run")
    scene.refused(IntegrityError, lambda: scene.ledger.load_result(token.key), "the result of the old run")


@check
def check_get_task_of_an_unknown_one_is_none(scene: Scene) -> None:
    """What nobody opened has no record; a map index is a task of its own."""
    scene.open("act")
    scene.equal(scene.ledger.get_task(scene.key("look")), None, "another task")
    scene.equal(scene.ledger.get_task(scene.key("act", map_index=0)), None, "a map index of it")


@check
def check_list_tasks_gives_those_of_the_run(scene: Scene) -> None:
    """Each map index is a task of its own; those of other runs are not in the list."""
    plain = scene.open("act").record
    mapped = [scene.open("look", map_index=index).record for index in (0, 1)]
    scene.open("act", run=RunKey(scene.run.dag_id, "run-2"))

    found = sorted(scene.ledger.list_tasks(scene.run), key=lambda task: task.key)

    scene.equal(found, [plain, *mapped], "the tasks")


@check
def check_list_transitions_merges_both_chains_by_time(scene: Scene) -> None:
    """Main and side chain are one story; of one task it can be had alone."""
    look = scene.launch("look")
    act = scene.launch("act")
    scene.ledger.mark(look.key, _SKIP, session=look.session, source=Source.API, now=scene.tick())
    scene.ledger.advance(act, PARKED, now=scene.tick())

    rows = scene.ledger.list_transitions(scene.run)

    scene.equal([row.at for row in rows], sorted(row.at for row in rows), "the times")
    scene.equal(
        [(row.task_id, row.chain) for row in rows[-2:]], [("look", "side"), ("act", "main")], "the last"
    )
    alone = scene.ledger.list_transitions(scene.run, task_id="look")
    scene.equal(alone, [row for row in rows if row.task_id == "look"], "those of one task")
    scene.equal(len(alone), 4, "how many of them")
