"""An event becomes one run, whichever way it comes in (semantics section 10, rows O2, O9, cases I03, I05)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import pytest

from louver.binding import Workflow, bind
from louver.clock import FixedClock
from louver.cloudevents import OrderProfile, run_id_for
from louver.cloudevents.structured import parse_event
from louver.definition import Definition, Step
from louver.errors import ConfigurationError, EventConflict, EventRejected, IntegrityError
from louver.intake import REFERENCE, Intake, profile_for
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.requests import EventOutcome
from louver.lifecycle import Closing, Lifecycle
from louver.liveness import LocalProcesses
from louver.ports import StepRuntime
from louver.sessions import Claim
from louver.states import FailureKind, Source, TaskState
from louver.steps import StepCalls, run_start

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
ORDER = {
    "order_id": "order-1",
    "customer_id": "customer-7",
    "currency": "EUR",
    "amount": "12.00",
    "items": [{"sku": "mug", "quantity": 1}],
}
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "evt-1",
    "source": "/shop",
    "type": OrderProfile.event_type,
    "data": ORDER,
}
DEARER = {**EVENT, "data": {**ORDER, "amount": "13.00"}}
INTAKE = Intake(dag_id="orders", profile=OrderProfile)


def take(event: dict[str, Any]) -> dict[str, Any]:
    return event


def raw(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event).encode()


class Quiet:
    def tell(self, action: str, message: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def workflow() -> Workflow:
    definition = Definition(
        name="orders",
        version="1",
        event_type=OrderProfile.event_type,
        params=["event"],
        nodes=[Step(name="take", task="tasks:take", params={"event": "event"})],
    )
    return bind(definition, {"take": take})


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as opened:
        yield opened


def start_run(
    ledger: Ledger, workflow: Workflow, run_id: str, conf: Mapping[str, Any], tries: int = 1
) -> Closing:
    """The first step of a run that was triggered with ``conf``."""

    def params(runtime: StepRuntime) -> dict[str, Any]:
        return {"event": INTAKE.take_in(conf, runtime)}

    processes = LocalProcesses()
    start = run_start(workflow.definition, RunKey("orders", run_id))
    claim = Claim(try_number=tries, max_tries=2, process=processes.name(), source=Source.WORKER)
    calls = StepCalls(workflow=workflow, start=start, params=params)
    lifecycle = Lifecycle(ledger=ledger, clock=FixedClock(NOW), liveness=processes, log=Quiet())
    return lifecycle.live(calls.node("take", key=TaskKey("orders", run_id, "take"), claim=claim))


def test_a_submitted_event_reaches_the_first_step_by_reference(ledger: Ledger, workflow: Workflow) -> None:
    outcome, record = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    assert outcome is EventOutcome.ACCEPTED
    assert record.run_id == run_id_for(parse_event(raw(EVENT)))
    closing = start_run(ledger, workflow, record.run_id, INTAKE.conf(record))
    assert closing.state is TaskState.SUCCEEDED
    assert closing.value == {
        "id": "evt-1",
        "source": "/shop",
        "type": OrderProfile.event_type,
        "subject": None,
        "time": None,
        "data": ORDER,
    }


def test_the_reference_holds_nothing_of_the_event(ledger: Ledger) -> None:
    _, record = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    text = json.dumps(INTAKE.conf(record))
    for secret in ("evt-1", "/shop", "order-1", "customer-7", "12.00"):
        assert secret not in text


def test_the_same_event_again_is_the_same_run(ledger: Ledger) -> None:
    _, first = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    spelled_otherwise = json.dumps(dict(reversed(EVENT.items())), indent=4).encode()
    outcome, second = INTAKE.submit(ledger, spelled_otherwise, now=NOW)
    assert (outcome, second.run_id) == (EventOutcome.DUPLICATE, first.run_id)


def test_the_same_identity_with_another_amount_is_a_conflict(ledger: Ledger) -> None:
    _, first = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    with pytest.raises(EventConflict) as caught:
        INTAKE.submit(ledger, raw(DEARER), now=NOW)
    assert caught.value.run_id == first.run_id


def test_a_refused_event_leaves_nothing(ledger: Ledger) -> None:
    with pytest.raises(EventRejected):
        INTAKE.submit(ledger, raw({**EVENT, "data": {**ORDER, "amount": 12}}), now=NOW)
    outcome, _ = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    assert outcome is EventOutcome.ACCEPTED


def test_identities_that_only_look_alike_are_two_runs(ledger: Ledger) -> None:
    _, one = INTAKE.submit(ledger, raw({**EVENT, "source": "/a", "id": "b::c"}), now=NOW)
    outcome, other = INTAKE.submit(ledger, raw({**EVENT, "source": "/a::b", "id": "c"}), now=NOW)
    assert outcome is EventOutcome.ACCEPTED
    assert one.run_id != other.run_id


def test_an_event_handed_in_is_taken_in_by_the_first_step(ledger: Ledger, workflow: Workflow) -> None:
    closing = start_run(ledger, workflow, "manual-1", {"event": EVENT})
    assert closing.value["data"] == ORDER


def test_a_retry_of_the_first_step_is_no_duplicate_of_itself(ledger: Ledger, workflow: Workflow) -> None:
    start_run(ledger, workflow, "manual-1", {"event": EVENT})
    other = start_run(ledger, workflow, "manual-1", {"event": EVENT}, tries=2)
    assert other.state is TaskState.SUCCEEDED


def test_the_second_run_for_an_event_handed_in_ends_cancelled(ledger: Ledger, workflow: Workflow) -> None:
    start_run(ledger, workflow, "manual-1", {"event": EVENT})
    assert start_run(ledger, workflow, "manual-2", {"event": EVENT}).state is TaskState.CANCELLED
    last = ledger.list_transitions(RunKey("orders", "manual-2"))[-1]
    assert (last.to_state, last.trigger, last.reason) == (
        TaskState.CANCELLED,
        "orchestrator:duplicate",
        "duplicate_of manual-1",
    )


def test_a_submission_after_the_event_was_handed_in_names_that_run(
    ledger: Ledger, workflow: Workflow
) -> None:
    start_run(ledger, workflow, "manual-1", {"event": EVENT})
    outcome, record = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    assert (outcome, record.run_id) == (EventOutcome.DUPLICATE, "manual-1")


def test_a_conflicting_event_handed_in_fails_the_second_run(ledger: Ledger, workflow: Workflow) -> None:
    start_run(ledger, workflow, "manual-1", {"event": EVENT})
    closing = start_run(ledger, workflow, "manual-2", {"event": DEARER})
    assert closing.state is TaskState.FAILED
    assert isinstance(closing.error, EventConflict)


def test_a_reference_in_another_runs_conf_ends_that_run_cancelled(ledger: Ledger, workflow: Workflow) -> None:
    _, record = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    assert start_run(ledger, workflow, "copied", INTAKE.conf(record)).state is TaskState.CANCELLED


def test_a_reference_with_another_fingerprint_is_an_integrity_failure(
    ledger: Ledger, workflow: Workflow
) -> None:
    _, record = INTAKE.submit(ledger, raw(EVENT), now=NOW)
    conf = {REFERENCE: {**INTAKE.conf(record)[REFERENCE], "fingerprint": "0" * 64}}
    closing = start_run(ledger, workflow, record.run_id, conf)
    assert isinstance(closing.error, IntegrityError)
    task = ledger.get_task(TaskKey("orders", record.run_id, "take"))
    assert task is not None
    assert task.failure_kind is FailureKind.INTEGRITY


def test_a_form_is_an_event_of_its_own(ledger: Ledger, workflow: Workflow) -> None:
    first = start_run(ledger, workflow, "manual-1", ORDER)
    second = start_run(ledger, workflow, "manual-2", ORDER)
    assert (first.state, second.state) == (TaskState.SUCCEEDED, TaskState.SUCCEEDED)
    assert (first.value["source"], first.value["id"]) == ("/airflow/dags/orders", "manual-1")


@pytest.mark.parametrize(
    ("conf", "attribute"),
    [
        ({}, None),
        ({"event": None}, None),
        ({"event": []}, None),
        ({"event": "x"}, None),
        ({"event": {**EVENT, "id": ""}}, "id"),
        ({"event": {**EVENT, "data": [1]}}, "data"),
        ({REFERENCE: "evt-1"}, REFERENCE),
        ({REFERENCE: {"identity": 1}}, REFERENCE),
        ({REFERENCE: {"identity": "nobody", "fingerprint": "x"}}, REFERENCE),
        ({**ORDER, "amount": 12.0}, "data.amount"),
        ({**ORDER, "note": "x"}, "data.note"),
        ({"order_id": "order-1"}, "data.customer_id"),
    ],
)
def test_whatever_is_no_event_fails_the_first_step_in_words(
    conf: Mapping[str, Any], attribute: str | None, ledger: Ledger, workflow: Workflow
) -> None:
    closing = start_run(ledger, workflow, "manual-1", conf)
    assert closing.state is TaskState.FAILED
    assert isinstance(closing.error, EventRejected)
    assert closing.error.attribute == attribute


def test_an_unknown_event_type_has_no_profile() -> None:
    with pytest.raises(ConfigurationError, match="give profile="):
        profile_for("com.example.unheard.of.v1")
