"""Events, taken in once (semantics section 10)."""

from __future__ import annotations

from typing import Any

from louver.errors import EventConflict, ValueRefused
from louver.ledger.records import EventRecord
from louver.ledger.requests import EventOutcome
from louver.testing.scene import Scene, check

__all__ = [
    "check_accept_event_again_is_a_duplicate",
    "check_accept_event_of_another_dag_is_another_event",
    "check_accept_event_that_is_new",
    "check_accept_event_with_a_refused_value_takes_nothing_in",
    "check_accept_event_with_another_payload_is_a_conflict",
    "check_confirm_event_keeps_the_first_time",
    "check_load_event_of_an_unknown_one_is_none",
]

_EVENT: dict[str, Any] = {"id": "1", "source": "/contract", "data": {"amount": 5, "rate": 1.0}}


def _accept(scene: Scene, **changes: Any) -> tuple[EventOutcome, EventRecord]:
    given: dict[str, Any] = {
        "dag_id": scene.run.dag_id,
        "identity": "a" * 64,
        "payload_fingerprint": "b" * 64,
        "run_id": "evt-1",
        "event": _EVENT,
    }
    return scene.ledger.accept_event(**{**given, **changes}, now=scene.tick())


@check
def check_accept_event_that_is_new(scene: Scene) -> None:
    """It is kept as it came, and its run is not known to exist yet."""
    outcome, record = _accept(scene)

    scene.equal(outcome, EventOutcome.ACCEPTED, "the answer")
    scene.equal((record.dag_id, record.identity), (scene.run.dag_id, "a" * 64), "which event it is")
    scene.equal((record.payload_fingerprint, record.run_id), ("b" * 64, "evt-1"), "what it holds")
    scene.equal((record.accepted_at, record.triggered_at), (scene.now, None), "its times")
    scene.equal(
        scene.ledger.load_event(record.dag_id, record.identity), (record, _EVENT), "what is read again"
    )


@check
def check_accept_event_again_is_a_duplicate(scene: Scene) -> None:
    """The same event names the run of the first one, whatever run the second would have started."""
    _, first = _accept(scene)

    outcome, again = _accept(scene, run_id="evt-2", event={"id": "something else"})

    scene.equal((outcome, again), (EventOutcome.DUPLICATE, first), "the answer")
    scene.equal(scene.ledger.load_event(first.dag_id, first.identity), (first, _EVENT), "what is kept")


@check
def check_accept_event_with_another_payload_is_a_conflict(scene: Scene) -> None:
    """The same identity with another payload is refused, and names the run of the first."""
    _, first = _accept(scene)

    error = scene.refused(
        EventConflict,
        lambda: _accept(scene, payload_fingerprint="c" * 64, run_id="evt-2", event={"id": "2"}),
        "another payload",
    )

    scene.equal(error.run_id, "evt-1", "the run it names")
    scene.equal(scene.ledger.load_event(first.dag_id, first.identity), (first, _EVENT), "what is kept")


@check
def check_accept_event_of_another_dag_is_another_event(scene: Scene) -> None:
    """An identity is unique within its Dag."""
    _accept(scene)
    elsewhere = f"other-{scene.id}"
    outcome, record = _accept(scene, dag_id=elsewhere, payload_fingerprint="c" * 64, event={"id": "2"})

    scene.equal(outcome, EventOutcome.ACCEPTED, "the answer")
    scene.equal(scene.ledger.load_event(elsewhere, "a" * 64), (record, {"id": "2"}), "what is kept")


@check
def check_accept_event_with_a_refused_value_takes_nothing_in(scene: Scene) -> None:
    """What cannot be kept is not accepted; a corrected one is new."""
    scene.refused(ValueRefused, lambda: _accept(scene, event={"data": object()}), "an object")
    scene.equal(scene.ledger.load_event(scene.run.dag_id, "a" * 64), None, "what is kept")
    scene.equal(_accept(scene)[0], EventOutcome.ACCEPTED, "the corrected one")


@check
def check_confirm_event_keeps_the_first_time(scene: Scene) -> None:
    """Its run exists since the first confirmation; a duplicate tells so."""
    _, record = _accept(scene)
    scene.ledger.confirm_event(record, now=scene.tick())
    confirmed = scene.now
    scene.ledger.confirm_event(record, now=scene.tick())

    kept, event = scene.found(scene.ledger.load_event(record.dag_id, record.identity), "the event")
    scene.equal((kept.triggered_at, kept.accepted_at), (confirmed, record.accepted_at), "its times")
    scene.equal(event, _EVENT, "the event")
    scene.equal(_accept(scene), (EventOutcome.DUPLICATE, kept), "a duplicate")


@check
def check_load_event_of_an_unknown_one_is_none(scene: Scene) -> None:
    """What nobody sent is not there."""
    scene.equal(scene.ledger.load_event(scene.run.dag_id, "a" * 64), None, "an event that nobody sent")
