"""
Whatever is written into any store is told, and the store keeps its contract while it is observed.

The whole contract suite plays in ledgers that are observed; then all that is in the store is looked for among
the events that were told of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest
from support.sinks import Seen
from support.stores import STORES, Store, store_of

from louver.cloudevents import parse_event
from louver.events.cloud import CloudForm
from louver.events.observer import EventObserver, observe
from louver.events.telling import events_of
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState
from louver.ledger.records import ApprovalRecord, CommandRecord, EffectRecord, RunRecord, TransitionRecord
from louver.ledger.witness import RowChange
from louver.testing import CHECKS

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
KEYS = {"k1": b"0123456789abcdef"}


@dataclass(slots=True)
class Played:
    """What was told while all checks were made, and the store afterwards."""

    store: Store
    seen: Seen = field(default_factory=Seen)
    observers: list[EventObserver] = field(default_factory=list)

    def open(self) -> Ledger:
        ledger = self.store.open(KEYS)
        self.observers.append(observe(ledger, self.seen))
        return ledger


@pytest.fixture(scope="module", params=STORES)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    if request.param == "postgresql":
        store = Store(request.getfixturevalue("postgres").fresh_schema())
    else:
        store = store_of(request.param, request, tmp_path_factory.mktemp("observed"))
    played = Played(store)
    handles: list[Any] = []
    for check in CHECKS:
        given: list[Any] = []

        def next_handle(given: list[Any] = given) -> Ledger:
            # What is in memory is in one object.
            number = 0 if request.param == "memory" else len(given)
            if number == len(handles):
                handles.append(played.open())
            given.append(handles[number])
            return handles[number]

        check(next_handle)
        handles[:] = [handle for handle in handles if not handle._closed]
    yield played
    store.close()


def find(played: Played, kind: type[Any]) -> list[Any]:
    with played.open() as ledger, ledger._transaction(write=True) as rows:  # type: ignore[attr-defined]
        return list(rows.find(kind))


def told_states(played: Played, *names: str) -> set[tuple[Any, ...]]:
    return {
        (*(event.details.get(name, getattr(event, name, None)) for name in names), event.state)
        for event in played.seen
    }


def test_nothing_was_in_the_way_and_nothing_was_told_twice(played: Played) -> None:
    assert sum(observer.failures for observer in played.observers) == 0
    ids = [event.id for event in played.seen if event.type != "approval.stale"]
    assert len(ids) > 500
    assert len(set(ids)) == len(ids)


def test_every_transition_is_told(played: Played) -> None:
    rows = find(played, TransitionRecord)
    told = {event.id for event in played.seen}
    missing = [row for row in rows if events_of([RowChange(before=None, after=row)])[0].id not in told]
    assert len(rows) > 200
    assert missing == []


def test_every_effect_is_told_as_it_stands(played: Played) -> None:
    rows = find(played, EffectRecord)
    told = told_states(played, "scope", "key", "epoch")
    renewed = {event.run_id for event in played.seen if event.type == "effect.renewed"}
    missing = [
        row
        for row in rows
        if (row.scope, row.key, row.epoch, str(row.state)) not in told and row.run_id not in renewed
    ]
    assert len(rows) > 50
    assert missing == []


def test_every_run_approval_and_command_is_told_as_it_stands(played: Played) -> None:
    runs = {(row.dag_id, row.run_id, str(row.state)) for row in find(played, RunRecord)}
    assert runs <= told_states(played, "dag_id", "run_id")
    approvals = {(row.request_id, str(row.decision)) for row in find(played, ApprovalRecord)}
    assert approvals <= told_states(played, "request_id")
    commands = {
        (row.command_id, str(row.state))
        for row in find(played, CommandRecord)
        if row.state is not CommandState.CLAIMED
    }
    assert commands <= told_states(played, "command_id")
    assert min(len(runs), len(approvals), len(commands)) > 10


def test_our_own_reader_takes_all_of_it(played: Played) -> None:
    form = CloudForm()
    for event in played.seen:
        assert parse_event(form.encoded(event)).data == event.data


def test_a_consumed_approval_and_a_request_that_is_void_are_told(played: Played) -> None:
    types = {event.type for event in played.seen}
    assert {"approval.consumed", "approval.void", "approval.expired", "approval.stale"} <= types
    consumed = {row.request_id for row in find(played, ApprovalRecord) if row.consumed_by is not None}
    told = {event.details["request_id"] for event in played.seen if event.type == "approval.consumed"}
    assert consumed <= told
