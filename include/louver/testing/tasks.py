"""Tasks: who holds one, what it may write, and what everybody else may."""

from __future__ import annotations

from dataclasses import replace

from louver.errors import IllegalTransition, IntegrityError, LedgerError, Superseded, ValueRefused
from louver.ledger.records import Decision, RunKey
from louver.policies import INFRASTRUCTURE_BUDGET
from louver.sessions import Change, Entry
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
    scene.equal(
        scene.ledger.list_transitions(scene.run), list(opened.transitions), "transitions, read again"
    )


@check
def check_open_task_of_a_run_that_is_not_open_is_an_error(scene: Scene) -> None:
    """A task needs its run."""
    scene.begin()
    nowhere = RunKey(scene.run.dag_id, "never-opened")

    def reach() -> None:
        token = scene.open("look").token
        claim_of_nowhere = replace(token.key, run_id=nowhere.run_id)
        scene.ledger.mark(
            claim_of_nowhere,
            Change(to=TaskState.SKIPPED, trigger="user:marked"),
            session=0,
            source=Source.API,
            now=scene.now,
        )

    scene.refused(LedgerError, reach, "a mark on a task of an unknown run")
    scene._begun.add(nowhere)
    scene.refused(LedgerError, lambda: scene.open("act", run=nowhere), "a task of an unknown run")
    scene.equal(scene.ledger.list_tasks(nowhere), [], "its tasks")


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
        [(row.from_state, row.to_state) for row in opened.transitions],
        [(TaskState.RETRY_WAIT, TaskState.QUEUED), (TaskState.QUEUED, TaskState.STARTING)],
        "its transitions",
    )


@check
def check_open_task_of_a_lost_process_is_tried_again_until_the_budget_is_used_up(scene: Scene) -> None:
    """Losses are counted apart from failures; one more than the budget ends the task as lost."""
    scene.launch("act")
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
    """Who clears a running task restarts it; its checkpoints stay, its attempts are given back."""
    token = scene.launch("act")
    scene.ledger.advance(token, ERROR, now=scene.tick())
    scene.launch("act", try_number=2)

    opened = scene.open("act", try_number=3, max_tries=4)

    scene.equal(opened.token.generation, 1, "the generation")
    scene.equal((opened.record.failures, opened.record.losses), (0, 1), "failures and losses")
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
    """After another process has opened the task the first one writes nothing; try and incarnation count too."""
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
                Superseded, lambda token=stale: scene.ledger.advance(token, LAUNCHED, now=scene.now), "advance"
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
    """Over retries, parks and clears the main chain is numbered from 1, and each row goes on from the last."""
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
    scene.equal(
        scene.ledger.load_checkpoint(token, "return_value", "nothing"), "nothing", "what was kept"
    )

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


_SKIP = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="ann", reason="not needed")


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
        Superseded, lambda: scene.ledger.complete(token, COMPLETED, 1, now=scene.now), "the holder's next write"
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

    scene.ledger.advance(current, FAILED, now=scene.tick())


@check
def check_mark_of_a_task_that_nobody_opened(scene: Scene) -> None:
    """A task that never started can be marked; it has no session yet."""
    scene.begin()

    row = scene.ledger.mark(scene.key("act"), _SKIP, session=0, source=Source.LISTENER, now=scene.tick())

    scene.equal(scene.found(row, "the row").from_state, TaskState.PENDING, "its from state")
    record = scene.found(scene.ledger.get_task(scene.key("act")), "the record")
    scene.equal((record.state, record.version), (TaskState.SKIPPED, 0), "the record")
    scene.equal(scene.open("act").entry, Entry.OVER, "how it is entered afterwards")


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
    scene.equal([(row.task_id, row.chain) for row in rows[-2:]], [("look", "side"), ("act", "main")], "the last")
    alone = scene.ledger.list_transitions(scene.run, task_id="look")
    scene.equal(alone, [row for row in rows if row.task_id == "look"], "those of one task")
    scene.equal(len(alone), 4, "how many of them")
