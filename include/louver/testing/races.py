"""Two processes at once, through two handles on one store: one of them is first, and both know which."""

from __future__ import annotations

from functools import partial

from louver.approvals import Answer
from louver.errors import ApprovalClosed, ApprovalStale, IllegalTransition, Superseded
from louver.ledger.names import Decision
from louver.ledger.requests import BeginOutcome, EventOutcome
from louver.sessions import Change
from louver.states import Source, TaskState
from louver.testing.scene import COMPLETED, LAUNCHED, Scene, check

__all__ = [
    "check_accept_event_at_once_takes_it_in_once",
    "check_advance_at_once_appends_once",
    "check_advance_of_two_handles_is_one_truth",
    "check_begin_effect_at_once_begins_once",
    "check_begin_effect_at_once_in_the_next_epoch_begins_once",
    "check_begin_effect_by_approval_at_once_consumes_it_once",
    "check_commit_effect_at_once_gives_each_its_place",
    "check_decide_approval_at_once_is_decided_once",
    "check_decide_approval_while_the_task_ends_loses_no_decision",
    "check_open_run_at_once_opens_one",
    "check_open_task_at_once_leaves_one_holder",
    "check_retry_effect_at_once_is_one_retry",
]

_BEGINS = 50
_ROUNDS = 10


@check
def check_advance_of_two_handles_is_one_truth(scene: Scene) -> None:
    """What one handle wrote the other reads, and goes on from."""
    other = scene.open_ledger()
    token = scene.open("act").token

    other.advance(token, LAUNCHED, now=scene.tick())

    scene.equal(other.list_tasks(scene.run), scene.ledger.list_tasks(scene.run), "the tasks")
    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.state, record.version), (TaskState.RUNNING, 3), "the record, by the first handle")


@check
def check_advance_at_once_appends_once(scene: Scene) -> None:
    """A process that writes twice at once has its second write judged by what the first has written."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        token = scene.launch(f"act-{number}")

        results = scene.at_once(
            partial(scene.ledger.complete, token, COMPLETED, "one", now=scene.tick()),
            partial(other.complete, token, COMPLETED, "two", now=scene.now),
        )

        won, _ = scene.one_of(results, IllegalTransition)
        scene.equal(scene.ledger.load_result(token.key), ("one", "two")[won], "the result")
        rows = scene.ledger.list_transitions(scene.run, task_id=token.key.task_id)
        scene.equal([row.version for row in rows], [1, 2, 3, 4], "the versions")


@check
def check_open_run_at_once_opens_one(scene: Scene) -> None:
    """Tasks of one run start together; all of them see the same run, made once."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        start = scene.start(marker=f"marker-{number}")

        runs = scene.at_once(
            partial(scene.ledger.open_run, start, now=scene.tick()),
            partial(other.open_run, start, now=scene.now),
        )

        scene.equal(runs[0], runs[1], "the run that both see")
        run = scene.found(scene.ledger.get_run(scene.run), "the run")
        scene.equal(run.incarnation, number + 1, "the incarnation")


@check
def check_open_task_at_once_leaves_one_holder(scene: Scene) -> None:
    """Of two processes that open a task the later one holds it; the earlier one writes nothing more."""
    other = scene.open_ledger()
    scene.begin()
    for number in range(_ROUNDS):
        key = scene.key(f"act-{number}")

        tokens = [
            opened.token
            for opened in scene.all_of(
                scene.at_once(
                    partial(scene.ledger.open_task, key, scene.claim(), now=scene.tick()),
                    partial(other.open_task, key, scene.claim(), now=scene.now),
                )
            )
        ]

        earlier, later = sorted(tokens, key=lambda token: token.session)
        scene.equal((earlier.session, later.session), (1, 2), "the sessions")
        with scene.unchanged("the earlier process"):
            scene.refused(Superseded, partial(other.advance, earlier, LAUNCHED, now=scene.now), "its write")
        scene.ledger.advance(later, LAUNCHED, now=scene.tick())
        rows = scene.ledger.list_transitions(scene.run, task_id=key.task_id)
        scene.equal(sorted(row.version for row in rows), list(range(1, len(rows) + 1)), "the versions")


@check
def check_begin_effect_at_once_begins_once(scene: Scene) -> None:
    """Of two tasks that begin the same effect one does; the other is told that it is in progress."""
    other = scene.open_ledger()
    act, look = scene.launch("act"), scene.launch("look")
    for number in range(_BEGINS):
        key = f"pay-{number}"

        begun = scene.all_of(
            scene.at_once(
                partial(scene.ledger.begin_effect, act, scene.effect(key), now=scene.tick()),
                partial(other.begin_effect, look, scene.effect(key), now=scene.now),
            )
        )

        outcomes = sorted(answer.outcome.value for answer in begun)
        scene.equal(outcomes, ["begun", "in_progress"], f"what both were told, round {number}")
        scene.equal(begun[0].record, begun[1].record, "the effect that both were told of")
    scene.equal(len(scene.ledger.list_effects(scene.run)), _BEGINS, "how many effects there are")


@check
def check_begin_effect_at_once_in_the_next_epoch_begins_once(scene: Scene) -> None:
    """An effect that was undone, or failed, is begun again by one of two as well."""
    other = scene.open_ledger()
    act, look = scene.launch("act"), scene.launch("look")
    for number in range(_ROUNDS):
        key = f"pay-{number}"
        if number % 2:
            scene.undone(act, key)
        else:
            scene.ledger.fail_effect(act, scene.started(act, key), reason="no", now=scene.tick())

        begun = scene.all_of(
            scene.at_once(
                partial(scene.ledger.begin_effect, act, scene.effect(key), now=scene.tick()),
                partial(other.begin_effect, look, scene.effect(key), now=scene.now),
            )
        )

        outcomes = sorted(answer.outcome.value for answer in begun)
        scene.equal(outcomes, ["begun", "in_progress"], f"what both were told, round {number}")
        scene.equal([answer.record.epoch for answer in begun], [1 + number % 2] * 2, "the epoch")


@check
def check_begin_effect_by_approval_at_once_consumes_it_once(scene: Scene) -> None:
    """Of two effects that use one approval at once, one is allowed; the other finds it used."""
    other = scene.open_ledger()
    act, look = scene.launch("act"), scene.launch("look")
    for number in range(_ROUNDS):
        approved = scene.approved(number, of=f"act-{number}", ancestors=())
        one = scene.effect(f"one-{number}", guarded_by=approved.of)
        two = scene.effect(f"two-{number}", guarded_by=approved.of)

        results = scene.at_once(
            partial(scene.ledger.begin_effect, act, one, now=scene.tick()),
            partial(other.begin_effect, look, two, now=scene.now),
        )

        _, begun = scene.one_of(results, ApprovalStale)
        scene.equal(begun.outcome, BeginOutcome.BEGUN, "what the quicker one was told")
        used = scene.found(scene.ledger.get_approval(approved.request_id), "the request")
        expected = f"{begun.record.reference}:{begun.record.intent_hash}"
        scene.equal(used.consumed_by, expected, "who used the approval")
    scene.equal(len(scene.ledger.list_effects(scene.run)), _ROUNDS, "how many effects there are")


@check
def check_retry_effect_at_once_is_one_retry(scene: Scene) -> None:
    """Of two that would perform an unknown effect again, one does."""
    other = scene.open_ledger()
    act, look = scene.launch("act"), scene.launch("look")
    for number in range(_ROUNDS):
        lost, lease = scene.lost(act, f"pay-{number}"), scene.after(60)

        retried = scene.all_of(
            scene.at_once(
                partial(scene.ledger.retry_effect, act, lost, lease_until=lease, now=scene.tick()),
                partial(other.retry_effect, look, lost, lease_until=lease, now=scene.now),
            )
        )

        quicker = [record for record in retried if record is not None]
        scene.equal(quicker, [scene.current(lost)], f"those that may perform it, round {number}")


@check
def check_commit_effect_at_once_gives_each_its_place(scene: Scene) -> None:
    """Parallel branches commit together, and the order of undoing them is still one order."""
    other = scene.open_ledger()
    act, look = scene.launch("act"), scene.launch("look")
    for number in range(_ROUNDS):
        one, two = scene.started(act, f"one-{number}"), scene.started(look, f"two-{number}")

        committed = scene.all_of(
            scene.at_once(
                partial(scene.ledger.commit_effect, act, one, None, now=scene.tick()),
                partial(other.commit_effect, look, two, None, now=scene.now),
            )
        )

        places = sorted(record.commit_sequence or 0 for record in committed)
        scene.equal(places, [2 * number + 1, 2 * number + 2], "their places")


@check
def check_decide_approval_at_once_is_decided_once(scene: Scene) -> None:
    """Of two people who answer at once one decides; the other is told that it is decided."""
    other = scene.open_ledger()
    yes, no = Answer(decision=Decision.APPROVED, by="ann"), Answer(decision=Decision.REJECTED, by="bob")
    for number in range(_ROUNDS):
        asked = scene.ask(scene.launch(f"approve-{number}"), number)

        results = scene.at_once(
            partial(scene.ledger.decide_approval, asked.request_id, yes, now=scene.tick()),
            partial(other.decide_approval, asked.request_id, no, now=scene.now),
        )

        _, decided = scene.one_of(results, ApprovalClosed)
        scene.equal(scene.ledger.get_approval(asked.request_id), decided, "the request afterwards")


@check
def check_decide_approval_while_the_task_ends_loses_no_decision(scene: Scene) -> None:
    """A person answers while the task is marked by hand: the request is decided or void, never both."""
    other = scene.open_ledger()
    yes = Answer(decision=Decision.APPROVED, by="ann")
    skip = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="bob")
    for number in range(_ROUNDS):
        asked = scene.ask(scene.launch(f"approve-{number}"), number)
        now = scene.tick()

        answered, _ = scene.at_once(
            partial(scene.ledger.decide_approval, asked.request_id, yes, now=now),
            partial(other.mark, asked.task, skip, session=1, source=Source.API, now=now),
        )

        request = scene.found(scene.ledger.get_approval(asked.request_id), "the request")
        if isinstance(answered, ApprovalClosed):
            scene.equal(request.decision, Decision.VOID, "the request that could not be answered any more")
        else:
            scene.equal(request, answered, "the request that was answered")


@check
def check_accept_event_at_once_takes_it_in_once(scene: Scene) -> None:
    """A sender that repeats itself gets one run."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        given = {"dag_id": scene.run.dag_id, "identity": f"{number:064}", "payload_fingerprint": "b" * 64}

        taken = scene.all_of(
            scene.at_once(
                partial(scene.ledger.accept_event, **given, run_id="one", event={"n": 1}, now=scene.tick()),
                partial(other.accept_event, **given, run_id="two", event={"n": 2}, now=scene.now),
            )
        )

        outcomes = sorted(str(outcome) for outcome, _ in taken)
        scene.equal(outcomes, sorted(map(str, EventOutcome)), "what both were told")
        scene.equal(taken[0][1], taken[1][1], "the event that both were told of")
        kept, event = scene.found(scene.ledger.load_event(scene.run.dag_id, f"{number:064}"), "the event")
        scene.equal(event, {"n": 1 if kept.run_id == "one" else 2}, "the event that belongs to its run")
