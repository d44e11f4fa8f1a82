"""Effects that an approval guards: once, while everything is as it was shown (semantics section 6)."""

from __future__ import annotations

from typing import Any

from louver.errors import ApprovalStale
from louver.ledger.names import Decision, Token
from louver.ledger.records import ApprovalRecord
from louver.ledger.requests import BeginOutcome
from louver.sessions import Change
from louver.states import Source, TaskState
from louver.testing.scene import Scene, check

__all__ = [
    "check_begin_effect_by_approval_again_by_the_same_effect_is_allowed",
    "check_begin_effect_by_approval_consumes_it",
    "check_begin_effect_by_approval_of_the_newest_request_alone",
    "check_begin_effect_by_approval_refuses_another_effect",
    "check_begin_effect_by_approval_that_expired_is_stale",
    "check_begin_effect_by_approval_that_is_recorded_needs_no_approval",
    "check_begin_effect_by_approval_where_another_intent_was_approved_is_stale",
    "check_begin_effect_by_approval_where_the_definition_changed_is_stale",
    "check_begin_effect_by_approval_where_the_results_changed_is_stale",
    "check_begin_effect_by_approval_without_one_is_refused",
]


def _guarded(scene: Scene, token: Token, key: str = "pay", **changes: Any) -> BeginOutcome:
    request = scene.effect(key, guarded_by="act", **changes)
    return scene.ledger.begin_effect(token, request, now=scene.tick()).outcome


def _stale(scene: Scene, token: Token, what: str, **changes: Any) -> None:
    """It is refused, nothing was done, and the approval is not used."""
    with scene.unchanged(what):
        scene.refused(ApprovalStale, lambda: _guarded(scene, token, **changes), what)


def _read(scene: Scene, request: ApprovalRecord) -> ApprovalRecord:
    return scene.found(scene.ledger.get_approval(request.request_id), "the request")


@check
def check_begin_effect_by_approval_consumes_it(scene: Scene) -> None:
    """The effect names its approval, and the approval the effect and intent that used it."""
    approved = scene.approved()
    token = scene.launch("act")

    begun = scene.ledger.begin_effect(token, scene.effect(guarded_by="act"), now=scene.tick())

    scene.equal(begun.outcome, BeginOutcome.BEGUN, "the answer")
    scene.equal(begun.record.approval_id, approved.request_id, "the effect's approval")
    scene.equal(scene.current(begun.record), begun.record, "the effect, read again")
    used = _read(scene, approved)
    scene.equal(used.consumed_by, f"pay#1:{scene.effect().intent_hash}", "who used the approval")
    scene.equal((used.consumed_at, used.decision), (scene.now, Decision.APPROVED), "when")


@check
def check_begin_effect_by_approval_again_by_the_same_effect_is_allowed(scene: Scene) -> None:
    """An effect that failed may begin again with the approval it has used, also after its time."""
    approved = scene.approved(expires_at=scene.after(60))
    token = scene.launch("act")
    scene.equal(_guarded(scene, token), BeginOutcome.BEGUN, "the first time")
    used = _read(scene, approved)
    started = scene.found(scene.ledger.get_effect(scene.effect().scope, "pay"), "the effect")
    scene.ledger.fail_effect(token, started, reason="the provider was busy", now=scene.tick(3600))

    again = scene.launch("act", try_number=2)
    scene.equal(_guarded(scene, again), BeginOutcome.BEGUN, "the second time")
    scene.equal(_read(scene, approved), used, "the approval")


@check
def check_begin_effect_by_approval_that_is_recorded_needs_no_approval(scene: Scene) -> None:
    """What is committed is not done again, so nobody has to allow it."""
    approved = scene.approved()
    token = scene.launch("act")
    _guarded(scene, token)
    started = scene.found(scene.ledger.get_effect(scene.effect().scope, "pay"), "the effect")
    scene.ledger.commit_effect(token, started, "receipt", now=scene.tick())
    scene.succeed("look", "a result that the approval was not shown")

    scene.equal(_guarded(scene, token), BeginOutcome.RECORDED, "the answer")
    scene.equal(_read(scene, approved).consumed_by, f"pay#1:{scene.effect().intent_hash}", "its use")


@check
def check_begin_effect_by_approval_refuses_another_effect(scene: Scene) -> None:
    """Neither another key, nor the next epoch of the same one, nor the same key with another intent."""
    scene.approved()
    token = scene.launch("act")
    scene.equal(_guarded(scene, token), BeginOutcome.BEGUN, "the effect that was approved")

    _stale(scene, token, "another key", key="other")

    started = scene.found(scene.ledger.get_effect(scene.effect().scope, "pay"), "the effect")
    failed = scene.ledger.fail_effect(token, started, reason="refused", now=scene.tick())
    _stale(scene, token, "a corrected intent", intent={"amount": 6})

    scene.equal(_guarded(scene, token), BeginOutcome.BEGUN, "the effect that was approved, again")
    committed = scene.ledger.commit_effect(token, failed, "receipt", now=scene.tick())
    undo = scene.ledger.begin_effect(token, scene.undo_of(committed), now=scene.tick()).record
    scene.ledger.commit_effect(token, undo, None, now=scene.tick())
    _stale(scene, token, "the next epoch")


@check
def check_begin_effect_by_approval_without_one_is_refused(scene: Scene) -> None:
    """Not asked, not answered, rejected, stopped, expired or void: none of them allows anything."""
    token = scene.launch("act")
    _stale(scene, token, "nobody was asked")

    asked = scene.ask(scene.launch("approve"), 1)
    _stale(scene, token, "nobody has answered")
    scene.decide(asked, Decision.REJECTED)
    _stale(scene, token, "it was rejected")
    asked = scene.ask_again(asked, 2)
    scene.decide(asked, Decision.STOPPED)
    _stale(scene, token, "it was stopped")
    asked = scene.ask_again(asked, 3)
    scene.ledger.expire_approval(asked.request_id, now=scene.tick())
    _stale(scene, token, "it has expired")
    asked = scene.ask_again(asked, 4)
    held = scene.found(scene.ledger.get_task(asked.task), "the task that asks")
    done = Change(to=TaskState.SUCCEEDED, trigger="user:marked", actor="ann")
    scene.ledger.mark(asked.task, done, session=held.session, source=Source.API, now=scene.tick())
    _stale(scene, token, "the asking task was marked as done by hand")


@check
def check_begin_effect_by_approval_of_the_newest_request_alone(scene: Scene) -> None:
    """Once people are asked anew an earlier approval counts no more, nor does one for another step."""
    first = scene.approved(1)
    scene.approved(2, of="another step")
    token = scene.launch("act")
    scene.ask_again(first, 3)

    _stale(scene, token, "a newer request is pending")


@check
def check_begin_effect_by_approval_that_expired_is_stale(scene: Scene) -> None:
    """An approval has to be used in time, to the very moment."""
    approved = scene.approved(expires_at=scene.after(60))
    token = scene.launch("act")
    expires_at = scene.found(approved.expires_at, "the time")
    scene.tick((expires_at - scene.now).total_seconds() - 1)

    _stale(scene, token, "used at the moment of expiry")
    scene.equal(scene.now, expires_at, "the time of that use")


@check
def check_begin_effect_by_approval_where_another_intent_was_approved_is_stale(scene: Scene) -> None:
    """It allows the payload that was shown, not what the step would do instead."""
    scene.approved()
    token = scene.launch("act")

    _stale(scene, token, "another amount", intent={"amount": 6})
    _stale(scene, token, "another type", intent={"amount": 5.0})
    scene.equal(_guarded(scene, token), BeginOutcome.BEGUN, "the intent that was approved")


@check
def check_begin_effect_by_approval_where_the_definition_changed_is_stale(scene: Scene) -> None:
    """Neither another version nor another fingerprint is what was approved."""
    scene.approved()

    scene.begin(marker="second", definition_version="2")
    _stale(scene, scene.launch("act"), "another version")

    scene.begin(marker="third", definition_fingerprint="f" * 64)
    _stale(scene, scene.launch("act"), "another fingerprint")

    scene.begin(marker="fourth")
    scene.equal(_guarded(scene, scene.launch("act")), BeginOutcome.BEGUN, "the definition that was approved")


@check
def check_begin_effect_by_approval_where_the_results_changed_is_stale(scene: Scene) -> None:
    """A result more, a result less, or a result made anew: it is not what was shown."""
    scene.approved(1)
    scene.succeed("look", {"price": 5})
    token = scene.launch("act")
    _stale(scene, token, "a result more")

    scene.approved(2)
    cleared = scene.launch("look", try_number=2, max_tries=4)
    _stale(scene, token, "a result less")

    scene.ledger.complete(
        cleared, Change(to=TaskState.SUCCEEDED, trigger="runtime:completed"), {"price": 5}, now=scene.tick()
    )
    _stale(scene, token, "a result made anew")

    scene.approved(3)
    scene.succeed("unrelated", 1)
    scene.equal(_guarded(scene, token), BeginOutcome.BEGUN, "a result that is not an ancestor's")
