"""Asking people: the park, the request, the decision (semantics section 6)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from louver.errors import ApprovalClosed, ApprovalExpired, IllegalTransition, Superseded, ValueRefused
from louver.ledger.names import Decision, RunKey
from louver.ledger.records import ApprovalRecord
from louver.sessions import Entry
from louver.states import TaskState
from louver.testing.scene import FAILED, PARKED, Scene, check

__all__ = [
    "check_decide_approval_by_four_eyes",
    "check_decide_approval_by_somebody_who_may_not_is_refused",
    "check_decide_approval_happens_once",
    "check_decide_approval_of_an_unknown_request_is_refused",
    "check_decide_approval_records_who_and_when",
    "check_decide_approval_that_is_late_is_refused",
    "check_expire_approval_leaves_a_decided_one_alone",
    "check_expire_approval_never_approves",
    "check_get_approval_of_an_unknown_one_is_none",
    "check_list_approvals_in_order_of_asking",
    "check_load_approval_gives_what_was_shown",
    "check_park_by_a_superseded_process_is_refused",
    "check_park_in_the_next_generation_asks_anew",
    "check_park_keeps_the_nonce_and_the_request",
    "check_park_leaves_a_decided_request_alone",
    "check_park_of_one_task_leaves_the_request_of_another_alone",
    "check_park_replaces_an_expired_request",
    "check_park_that_is_illegal_asks_nothing",
    "check_park_with_a_refused_payload_asks_nothing",
    "check_park_with_another_question_voids_the_first",
    "check_park_with_the_same_question_keeps_the_first_request",
]


def _read(scene: Scene, request: ApprovalRecord) -> ApprovalRecord:
    return scene.found(scene.ledger.get_approval(request.request_id), "the request")


@check
def check_park_keeps_the_nonce_and_the_request(scene: Scene) -> None:
    """The task is paused, and the request holds everything that a decision will be bound to."""
    scene.succeed("look", {"price": 5})
    token = scene.launch("act")
    request = scene.question(four_eyes=True)

    asked, row = scene.ledger.park(token, PARKED, nonce="nonce-1", request=request, now=scene.tick())

    scene.equal((row.from_state, row.to_state), (TaskState.RUNNING, TaskState.PAUSED), "the row")
    record = scene.found(scene.ledger.get_task(token.key), "the task")
    scene.equal((record.state, record.nonce, record.version), (TaskState.PAUSED, "nonce-1", 4), "the task")
    evidence = scene.ledger.evidence(scene.run, ["look"])
    start = scene.start()
    scene.equal((asked.request_id, asked.sequence, asked.of), (request.request_id, 1, "act"), "which it is")
    scene.equal((asked.task, asked.generation), (token.key, 1), "who asks")
    scene.equal(
        (asked.definition_name, asked.definition_version, asked.definition_fingerprint),
        (start.definition_name, start.definition_version, start.definition_fingerprint),
        "the definition it is bound to",
    )
    scene.equal(asked.payload_fingerprint, request.payload_fingerprint, "the payload it is bound to")
    scene.equal((asked.ancestors, asked.state_version), (("look",), 1), "the results it is bound to")
    scene.equal(asked.upstream_fingerprint, evidence.fingerprint, "their fingerprint")
    scene.equal((asked.approvers, asked.four_eyes), (("ann", "bob"), True), "who may decide")
    scene.equal((asked.requester, asked.requested_at), ("ann", scene.now), "who asked, and when")
    scene.equal((asked.expires_at, asked.decision), (request.expires_at, Decision.PENDING), "how it stands")
    scene.equal((asked.decided_by, asked.consumed_by), (None, None), "what nobody has done yet")
    scene.equal(_read(scene, asked), asked, "what is read again")


@check
def check_park_with_the_same_question_keeps_the_first_request(scene: Scene) -> None:
    """People are not asked twice for the same thing; the new nonce is the one that counts."""
    first = scene.ask(scene.launch("act"), 1)

    again = scene.ask_again(first, 2)

    scene.equal(again, first, "the request")
    scene.equal(scene.ledger.list_approvals(scene.run), [first], "the requests of the run")
    scene.refused(Superseded, lambda: scene.open("act", nonce="nonce-1"), "the nonce of the first park")
    scene.equal(scene.open("act", nonce="nonce-2").entry, Entry.RESUME, "the nonce of the second")


@check
def check_park_with_another_question_voids_the_first(scene: Scene) -> None:
    """Where a bound fact differs, an answer to the first would not answer the second."""
    scene.succeed("look", 1)
    changes: tuple[dict[str, Any], ...] = (
        {"payload_fingerprint": "f" * 64, "payload": {"amount": 6}},
        {"of": "look"},
        {"approvers": ("bob",)},
        {"four_eyes": True},
        {"ancestors": ()},
    )
    for number, change in enumerate(changes):
        first = scene.ask(scene.launch(f"approve-{number}"), 10 * number)
        second = scene.ask_again(first, 10 * number + 1, **change)

        scene.equal(second.decision, Decision.PENDING, f"the second request with another {list(change)}")
        scene.equal(second.sequence, first.sequence + 1, "its place")
        voided = _read(scene, first)
        scene.equal((voided.decision, voided.decided_by), (Decision.VOID, None), "the first request")
        scene.equal(voided.decided_at, scene.now, "when it became void")
        scene.refused(ApprovalClosed, partial(scene.decide, first), "an answer to the first")


@check
def check_park_replaces_an_expired_request(scene: Scene) -> None:
    """A pending request whose time is over is not kept; it is expired, and people are asked anew."""
    first = scene.ask(scene.launch("act"), 1, expires_at=scene.after(60))
    scene.tick(60)

    second = scene.ask_again(first, 2)

    scene.equal((second.decision, second.sequence), (Decision.PENDING, 2), "the second request")
    scene.equal(_read(scene, first).decision, Decision.EXPIRED, "the first request")


@check
def check_park_leaves_a_decided_request_alone(scene: Scene) -> None:
    """What a person has said stays said; a task that asks again gets a request of its own."""
    first = scene.ask(scene.launch("act"), 1)
    rejected = scene.decide(first, Decision.REJECTED)

    second = scene.ask_again(first, 2)

    scene.equal(second.decision, Decision.PENDING, "the second request")
    scene.equal(scene.ledger.list_approvals(scene.run), [rejected, second], "the requests of the run")


@check
def check_park_in_the_next_generation_asks_anew(scene: Scene) -> None:
    """A clear makes the pending request void, also where the question is the same."""
    first = scene.ask(scene.launch("act"), 1)
    cleared = scene.launch("act", try_number=2, max_tries=4)

    second = scene.ask(cleared, 2)

    scene.equal((second.generation, second.decision), (2, Decision.PENDING), "the second request")
    scene.equal(_read(scene, first).decision, Decision.VOID, "the first request")


@check
def check_park_of_one_task_leaves_the_request_of_another_alone(scene: Scene) -> None:
    """Each task, and each map index of one, waits for its own answer."""
    tokens = [scene.launch("approve"), scene.launch("approve", map_index=0), scene.launch("other")]

    asked = [scene.ask(token, number, of=f"act-{number}") for number, token in enumerate(tokens)]

    scene.equal(scene.ledger.list_approvals(scene.run), asked, "the requests of the run")


@check
def check_park_that_is_illegal_asks_nothing(scene: Scene) -> None:
    """A park is possible from running code alone."""
    token = scene.open("act").token

    with scene.unchanged("an illegal park"):
        scene.refused(IllegalTransition, lambda: scene.ask(token, 1), "a task that is starting")
    scene.equal(scene.ledger.get_approval(scene.question(1).request_id), None, "the request")


@check
def check_park_with_a_refused_payload_asks_nothing(scene: Scene) -> None:
    """What cannot be kept cannot be shown."""
    token = scene.launch("act")

    with scene.unchanged("a refused payload"):
        scene.refused(ValueRefused, lambda: scene.ask(token, 1, payload=object()), "an object")
    scene.ledger.advance(token, FAILED, now=scene.tick())


@check
def check_park_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """A process that was replaced asks nobody."""
    old = scene.launch("act")
    scene.launch("act", try_number=2)

    with scene.unchanged("a process that was replaced"):
        scene.refused(Superseded, lambda: scene.ask(old, 1), "park")


@check
def check_decide_approval_records_who_and_when(scene: Scene) -> None:
    """Approved, rejected or stopped, by a person, at a time; the rest of the request stays."""
    for number, decision in enumerate((Decision.APPROVED, Decision.REJECTED, Decision.STOPPED)):
        asked = scene.ask(scene.launch(f"approve-{number}"), number)

        decided = scene.decide(asked, decision)

        # A store that signs its rows signs this one anew.
        expected = replace(
            asked,
            decision=decision,
            decided_by="bob",
            decided_at=scene.now,
            key_id=decided.key_id,
            mac=decided.mac,
        )
        scene.equal(decided, expected, f"the request that was {decision}")
        scene.equal(_read(scene, asked), decided, "what is read again")


@check
def check_decide_approval_happens_once(scene: Scene) -> None:
    """The second answer is refused, whatever it says and whoever gives it."""
    decided = scene.approved()

    with scene.unchanged("a second answer"):
        for decision in (Decision.APPROVED, Decision.REJECTED):
            scene.refused(ApprovalClosed, partial(scene.decide, decided, decision, by="ann"), "again")


@check
def check_decide_approval_by_somebody_who_may_not_is_refused(scene: Scene) -> None:
    """Who is not listed decides nothing, and neither does nobody; without a list anybody may."""
    asked = scene.ask(scene.launch("act"), 1)

    with scene.unchanged("an answer of somebody else"):
        scene.refused(ApprovalClosed, lambda: scene.decide(asked, by="eve"), "somebody who is not listed")
        scene.refused(ApprovalClosed, lambda: scene.decide(asked, by=None), "an answer without a person")

    scene.equal(scene.decide(asked, by="ann").decided_by, "ann", "who decided")
    free = scene.ask(scene.launch("free"), 2, approvers=(), of="free")
    scene.refused(ApprovalClosed, lambda: scene.decide(free, by=None), "nobody, where anybody may")
    scene.equal(scene.decide(free, by="eve").decided_by, "eve", "who decided where anybody may")


@check
def check_decide_approval_by_four_eyes(scene: Scene) -> None:
    """Who started the run may not approve where the switch is on; to say no is allowed."""
    asked = scene.ask(scene.launch("act"), 1, four_eyes=True)

    with scene.unchanged("approval by who started the run"):
        scene.refused(ApprovalClosed, lambda: scene.decide(asked, by="ann"), "the requester")

    scene.equal(scene.decide(asked, Decision.REJECTED, by="ann").decision, Decision.REJECTED, "a no")
    other = scene.ask(scene.launch("other"), 2, four_eyes=True)
    scene.equal(scene.decide(other, by="bob").decision, Decision.APPROVED, "approval by somebody else")


@check
def check_decide_approval_that_is_late_is_refused(scene: Scene) -> None:
    """From the very moment of expiry on; without a time it never expires."""
    asked = scene.ask(scene.launch("act"), 1, expires_at=scene.after(60))
    free = scene.ask(scene.launch("free"), 2, expires_at=None)
    expires_at = scene.found(asked.expires_at, "the time")
    scene.tick((expires_at - scene.now).total_seconds() - 1)

    with scene.unchanged("a late answer"):
        scene.refused(ApprovalExpired, lambda: scene.decide(asked), "an answer at the moment of expiry")
        scene.equal(scene.now, expires_at, "the time of that answer")

    scene.tick(10**9)
    scene.equal(scene.decide(free).decision, Decision.APPROVED, "an answer after 30 years, without expiry")


@check
def check_decide_approval_of_an_unknown_request_is_refused(scene: Scene) -> None:
    """There is nothing to decide."""
    asked = scene.ask(scene.launch("act"), 1)
    unknown = replace(asked, request_id=f"{scene.id}-unknown")
    scene.refused(ApprovalClosed, lambda: scene.decide(unknown), "a decision")
    scene.refused(
        ApprovalClosed, lambda: scene.ledger.expire_approval(unknown.request_id, now=scene.now), "expiry"
    )


@check
def check_expire_approval_never_approves(scene: Scene) -> None:
    """Expired is a decision of its own, made by nobody; an answer after it is refused."""
    asked = scene.ask(scene.launch("act"), 1)

    expired = scene.ledger.expire_approval(asked.request_id, now=scene.tick())

    scene.equal((expired.decision, expired.decided_by), (Decision.EXPIRED, None), "the request")
    scene.equal(expired.decided_at, scene.now, "when it expired")
    scene.equal(_read(scene, asked), expired, "what is read again")
    scene.refused(ApprovalClosed, lambda: scene.decide(asked), "an answer afterwards")


@check
def check_expire_approval_leaves_a_decided_one_alone(scene: Scene) -> None:
    """An answer that came in time stands."""
    decided = scene.approved()

    with scene.unchanged("expiry after the answer"):
        expired = scene.ledger.expire_approval(decided.request_id, now=scene.tick(10**6))
        scene.equal(expired, decided, "the request")


@check
def check_get_approval_of_an_unknown_one_is_none(scene: Scene) -> None:
    """What nobody asked is not there."""
    scene.equal(scene.ledger.get_approval(f"{scene.id}-unknown"), None, "a request that nobody made")


@check
def check_list_approvals_in_order_of_asking(scene: Scene) -> None:
    """The oldest first, whatever their ids are; those of other runs are not in the list."""
    numbers = (5, 1, 3)
    asked = [scene.ask(scene.launch(f"approve-{number}"), number) for number in numbers]
    other = RunKey(scene.run.dag_id, "run-2")
    elsewhere = scene.ask(scene.launch("approve", run=other), 2)

    scene.equal(scene.ledger.list_approvals(scene.run), asked, "the requests of the run")
    scene.equal([request.sequence for request in asked], [1, 2, 3], "their places")
    scene.equal(scene.ledger.list_approvals(other), [elsewhere], "those of the other run")


@check
def check_load_approval_gives_what_was_shown(scene: Scene) -> None:
    """The payload of each request, also once it is void."""
    first = scene.ask(scene.launch("act"), 1, payload={"amount": 1.0})
    second = scene.ask_again(first, 2, payload={"amount": 2}, payload_fingerprint="f" * 64)

    scene.equal(repr(scene.ledger.load_approval(first)), "{'amount': 1.0}", "the first payload")
    scene.equal(scene.ledger.load_approval(second), {"amount": 2}, "the second payload")
