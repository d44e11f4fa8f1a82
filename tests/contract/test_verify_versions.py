"""A change past the ledger of what a run accepted is found, and nothing is read by it (row O14)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from louver.errors import IntegrityError
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import AcceptanceRecord, RunRecord
from louver.ledger.requests import RunStart
from louver.maintenance import verify_ledger
from louver.sessions import Change, Claim
from louver.states import Source, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
FIRST = TaskKey("work", "run-1", "first")


def start(version):
    return RunStart(
        key=RUN,
        definition_name="work",
        definition_version=version,
        definition_fingerprint=version * 64,
        definition={"name": "work", "version": version},
    )


def launched(ledger, task, now):
    claim = Claim(try_number=1, max_tries=1, process="w1", source=Source.WORKER)
    token = ledger.open_task(task, claim, now=now).token
    ledger.advance(token, Change(to=TaskState.RUNNING, trigger="executor:launched"), now=now)
    return token


@pytest.fixture
def accepted(ledger):
    """A run that went on twice, with a result of before each time."""
    ledger.open_run(start("1"), now=NOW)
    completed = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
    for number, version in enumerate("23"):
        now = NOW + timedelta(seconds=number)
        before = ledger.get_run(RUN).definition_fingerprint
        first = launched(ledger, replace(FIRST, map_index=number), now)
        ledger.complete(first, completed, f"of {before[0]}", now=now)
        token = launched(ledger, TaskKey("work", "run-1", f"goes-on-{version}"), now)
        ledger.accept_definition(token, start(version), instead_of=before, reason="new: more", now=now)
    assert verify_ledger(ledger).findings == ()
    return ledger


def findings(ledger):
    return [str(finding) for finding in verify_ledger(ledger).findings]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("from_version", "0"),
        ("from_fingerprint", "0" * 64),
        ("to_version", "0"),
        ("to_fingerprint", "0" * 64),
        ("reason", "none"),
        ("task_id", "other"),
        ("map_index", 7),
        ("process", "w9"),
        ("source", Source.CLI),
        ("accepted_at", NOW + timedelta(days=1)),
        ("mac", "0" * 64),
    ],
)
def test_a_changed_acceptance_is_found_and_nothing_is_read_by_it(accepted, store, name, value):
    with store.rows() as rows:
        (first, _) = rows.find(AcceptanceRecord)
        rows.update(replace(first, **{name: value}))

    assert any("acceptance" in finding for finding in findings(accepted))
    with pytest.raises(IntegrityError):
        accepted.list_acceptances(RUN)
    with pytest.raises(IntegrityError):
        accepted.load_result(replace(FIRST, map_index=0))


@pytest.mark.parametrize("number", [1, 2])
def test_a_removed_acceptance_is_found_and_what_was_saved_before_it_is_not_read(accepted, store, number):
    with store.rows() as rows:
        rows.remove(AcceptanceRecord, number=number)

    assert findings(accepted) != []
    with pytest.raises(IntegrityError):
        accepted.load_result(replace(FIRST, map_index=0))


def test_a_run_that_is_set_back_to_another_definition_is_found(accepted, store):
    with store.rows() as rows:
        run = rows.get(RunRecord, *("work", "run-1"))
        rows.update(replace(run, definition_version="1", definition_fingerprint="1" * 64))

    assert any("accepted last" in finding for finding in findings(accepted))
    with pytest.raises(IntegrityError):
        accepted.load_result(replace(FIRST, map_index=1))


def test_an_acceptance_of_another_run_says_nothing_of_this_one(ledger, store):
    """Copied from a run of the same workflow that has accepted it."""
    other = RunKey("work", "run-2")
    for run in (RUN, other):
        ledger.open_run(replace(start("1"), key=run), now=NOW)
    ledger.open_run(replace(start("2"), key=RunKey("work", "run-3")), now=NOW)
    token = launched(ledger, TaskKey("work", "run-2", "first"), NOW)
    ledger.accept_definition(
        token, replace(start("2"), key=other), instead_of="1" * 64, reason="new: more", now=NOW
    )
    with store.rows() as rows:
        (made,) = rows.find(AcceptanceRecord)
        rows.insert(replace(made, run_id="run-1"))
        run = rows.get(RunRecord, *("work", "run-1"))
        rows.update(replace(run, definition_version="2", definition_fingerprint="2" * 64))

    assert any("signature" in finding for finding in findings(ledger))
    with pytest.raises(IntegrityError):
        ledger.list_acceptances(RUN)


def test_the_definitions_of_before_are_no_payloads_without_an_owner(accepted):
    page = accepted.list_orphans(saved_before=NOW + timedelta(days=1))

    assert [orphan.payload_id for orphan in page.orphans if orphan.payload_id.startswith("definition:")] == []
    assert accepted.load_definition("1" * 64)["version"] == "1"
