"""Rows behave alike in every store: what goes in comes out, once, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import typing
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from types import NoneType, UnionType

import pytest

from louver.errors import LedgerClosed, LedgerError, LouverError, ValueRefused
from louver.ledger import open_ledger
from louver.ledger.records import RECORDS, EffectRecord, EventRecord, PayloadRecord, RunRecord, TaskRecord
from louver.states import TaskState

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
AWKWARD = "Ünïcødé 🚀 'q' \"d\" %s %(a)s :name ?1 \\ \t\n\r x" + "y" * 300
KATHMANDU = timezone(timedelta(hours=5, minutes=45))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "memory":
        return "memory://"
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def ledger(url):
    opened = open_ledger(url)
    yield opened
    opened.close()


def sample(hint, name, *, empty):
    """Return an awkward value of the type; None, zero or nothing where ``empty`` and the type allows it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, UnionType):
        return None if empty else sample(next(a for a in arguments if a is not NoneType), name, empty=empty)
    if origin is tuple:
        return () if empty else ("a,b", AWKWARD, "", "[]")
    if issubclass(hint, Enum):
        return list(hint)[0 if empty else -1]
    if hint is datetime:
        return datetime(1, 1, 1, tzinfo=timezone.utc) if empty else NOW.astimezone(KATHMANDU)
    return {
        str: "" if empty else f"{name} {AWKWARD}",
        int: -(2**63) if empty else 2**63 - 1,
        float: 0.0 if empty else 0.1 + 0.2,
        bool: not empty,
        bytes: b"" if empty else bytes(range(256)) * 4096,
    }[hint]


def make(kind, *, empty=False, **given):
    hints = typing.get_type_hints(kind)
    values = {entry.name: sample(hints[entry.name], entry.name, empty=empty) for entry in fields(kind)}
    return kind(**{**values, **given})


def primary(record):
    return tuple(getattr(record, name) for name in record.PRIMARY)


def task(task_id="pay", **given):
    return TaskRecord(dag_id="d", run_id="r", task_id=task_id, map_index=-1, updated_at=NOW, **given)


@pytest.mark.parametrize("empty", [False, True], ids=["filled", "empty"])
@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_every_record_comes_back_as_it_went_in(ledger, kind, empty):
    record = make(kind, empty=empty)
    with ledger._transaction(write=True) as rows:
        assert rows.insert(record)

    with ledger._transaction(write=True) as rows:
        found = rows.get(kind, *primary(record))
        assert rows.find(kind) == [record]

    assert found == record
    for entry in fields(kind):
        value = getattr(found, entry.name)
        assert type(value) is type(getattr(record, entry.name)), entry.name
        if isinstance(value, datetime):
            assert value.tzinfo is timezone.utc, entry.name


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_every_record_can_be_replaced(ledger, kind):
    before = make(kind)
    others = {
        name: value for name, value in _values(make(kind, empty=True)).items() if name not in kind.PRIMARY
    }
    after = replace(before, **others)
    with ledger._transaction(write=True) as rows:
        rows.insert(before)
    with ledger._transaction(write=True) as rows:
        rows.update(after)
        assert rows.get(kind, *primary(before)) == after
    with ledger._transaction(write=True) as rows:
        assert rows.get(kind, *primary(before)) == after


def _values(record):
    return {entry.name: getattr(record, entry.name) for entry in fields(record)}


@pytest.mark.parametrize("name", [entry.name for entry in fields(EffectRecord) if entry.name != "kind"])
def test_every_column_can_be_searched_by(ledger, name):
    filled, empty = make(EffectRecord), make(EffectRecord, empty=True)
    with ledger._transaction(write=True) as rows:
        rows.insert(filled)
        rows.insert(empty)
        found = rows.find(EffectRecord, **{name: getattr(filled, name)})
        assert found == [filled]
        assert rows.find(EffectRecord, **{name: getattr(empty, name)}) == [empty]


def test_each_member_of_an_enumeration_comes_back(ledger):
    with ledger._transaction(write=True) as rows:
        for state in TaskState:
            rows.insert(task(state.value, state=state))
    with ledger._transaction(write=True) as rows:
        assert {row.task_id: row.state for row in rows.find(TaskRecord)} == {s.value: s for s in TaskState}


def test_an_insert_over_a_taken_primary_key_does_nothing(ledger):
    with ledger._transaction(write=True) as rows:
        assert rows.insert(task(version=1)) is True
        assert rows.insert(task(version=2)) is False
    with ledger._transaction(write=True) as rows:
        assert rows.insert(task(version=3)) is False
        assert rows.get(TaskRecord, "d", "r", "pay", -1) == task(version=1)


def test_an_update_of_a_row_that_is_not_there_is_an_error(ledger):
    with pytest.raises(LedgerError, match="no task row"), ledger._transaction(write=True) as rows:
        rows.update(task())


def test_what_is_not_there_is_none_or_nothing(ledger):
    with ledger._transaction(write=True) as rows:
        assert rows.get(TaskRecord, "d", "r", "pay", -1) is None
        assert rows.find(TaskRecord, dag_id="d") == []


def test_a_transaction_sees_what_it_wrote(ledger):
    with ledger._transaction(write=True) as rows:
        rows.insert(task())
        rows.update(task(state=TaskState.QUEUED))
        assert rows.get(TaskRecord, "d", "r", "pay", -1) == task(state=TaskState.QUEUED)
        assert rows.find(TaskRecord, state=TaskState.QUEUED) == [task(state=TaskState.QUEUED)]
        assert rows.find(TaskRecord, state=TaskState.PENDING) == []


def test_rows_are_found_by_equality_of_several_fields_and_of_nothing(ledger):
    first = make(EventRecord, identity="1", run_id="r", triggered_at=None)
    second = make(EventRecord, identity="2", run_id="r", triggered_at=NOW)
    other = make(EventRecord, identity="3", run_id="s", triggered_at=None)
    with ledger._transaction(write=True) as rows:
        for record in (other, second, first):
            rows.insert(record)
        assert rows.find(EventRecord, run_id="r") == [first, second]
        assert rows.find(EventRecord, run_id="r", triggered_at=None) == [first]
        assert rows.find(EventRecord, triggered_at=NOW.astimezone(KATHMANDU)) == [second]
        assert rows.find(EventRecord, run_id="s", triggered_at=NOW) == []


def test_rows_are_found_in_the_order_of_code_points_of_their_primary_key(ledger):
    names = ["Z", "a", "_", "ä", "ab", "a b", "-", "10", "9", "é", "🚀", "\uffff", ""]
    with ledger._transaction(write=True) as rows:
        for name in names:
            for index in (10, 9, -1):
                rows.insert(replace(task(name), map_index=index))
    with ledger._transaction(write=True) as rows:
        found = [(row.task_id, row.map_index) for row in rows.find(TaskRecord)]
    assert found == sorted((name, index) for name in names for index in (10, 9, -1))


def test_moments_are_ordered_and_kept_to_the_microsecond(ledger):
    moments = [NOW + timedelta(microseconds=step) for step in (0, 1, 999_999, 60_000_000)]
    with ledger._transaction(write=True) as rows:
        for number, moment in enumerate(moments):
            rows.insert(make(RunRecord, run_id=str(number), created_at=moment))
    with ledger._transaction(write=True) as rows:
        assert [row.created_at for row in rows.find(RunRecord)] == moments


@pytest.mark.parametrize("fold", [0, 1])
def test_the_two_hours_of_one_name_stay_apart(ledger, fold):
    from zoneinfo import ZoneInfo

    moment = datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    with ledger._transaction(write=True) as rows:
        rows.insert(replace(task(), updated_at=moment))
        found = rows.get(TaskRecord, "d", "r", "pay", -1)
    assert found.updated_at == datetime(2025, 10, 26, fold, 30, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "a\0b"},
        {"reason": "\ud800"},
        {"dag_id": "\0"},
        {"created_at": NOW.replace(tzinfo=None)},
        {"created_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))},
    ],
    ids=["nul", "surrogate", "key", "naive", "after year 9999"],
)
def test_what_one_store_could_not_hold_all_refuse(ledger, change):
    record = make(RunRecord, dag_id="d", run_id="r")
    with ledger._transaction(write=True) as rows:
        rows.insert(record)
        for write in (rows.insert, rows.update):
            with pytest.raises(ValueRefused, match=next(iter(change))):
                write(replace(record, **change))
    with ledger._transaction(write=True) as rows:
        assert rows.find(RunRecord) == [record]


def test_a_search_for_what_no_store_could_hold_is_refused(ledger):
    with ledger._transaction(write=True) as rows:
        with pytest.raises(ValueRefused):
            rows.get(PayloadRecord, "\0")
        with pytest.raises(ValueRefused):
            rows.find(PayloadRecord, payload_id="\ud800")
        with pytest.raises(ValueRefused):
            rows.find(PayloadRecord, saved_at=NOW.replace(tzinfo=None))


def test_a_search_by_something_that_is_no_field_is_a_mistake(ledger):
    with ledger._transaction(write=True) as rows, pytest.raises(TypeError, match="no field key"):
        rows.find(TaskRecord, key="d")


@pytest.mark.parametrize("raised", [ValueError, LouverError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_takes_everything_back(ledger, raised):
    with ledger._transaction(write=True) as rows:
        rows.insert(task())

    def fail():
        with ledger._transaction(write=True) as rows:
            rows.insert(task("other"))
            rows.update(task(state=TaskState.QUEUED))
            rows.insert(make(PayloadRecord))
            raise raised

    with pytest.raises(raised):
        fail()

    with ledger._transaction(write=True) as rows:
        assert rows.find(TaskRecord) == [task()]
        assert rows.find(PayloadRecord) == []


def test_the_ledger_goes_on_after_many_failures(ledger):
    def fail():
        with ledger._transaction(write=True) as rows:
            rows.insert(task())
            raise ValueError("no")

    # Each failure has to give its connection back: the pool has fewer than these.
    for _ in range(40):
        with pytest.raises(ValueError, match="no"):
            fail()
    with ledger._transaction(write=True) as rows:
        assert rows.insert(task())


def test_closing_twice_is_fine_and_use_after_it_a_clear_error(ledger):
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerClosed), ledger._transaction(write=True):
        pass


def test_memory_refuses_what_would_wait_for_itself_in_a_database():
    ledger = open_ledger("memory://")
    with ledger._transaction(write=True) as rows:
        rows.insert(task())
        with pytest.raises(LedgerError, match="open in this thread"), ledger._transaction(write=True):
            pass
    with ledger._transaction(write=True) as rows:
        assert rows.find(TaskRecord) == [task()]


def count(ledger, times):
    for _ in range(times):
        with ledger._transaction(write=True) as rows:
            held = rows.get(TaskRecord, "d", "r", "pay", -1)
            rows.update(replace(held, version=held.version + 1))


def test_threads_that_count_in_one_row_lose_nothing(ledger):
    with ledger._transaction(write=True) as rows:
        rows.insert(task())
    threads = [threading.Thread(target=count, args=(ledger, 50)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ledger._transaction(write=True) as rows:
        assert rows.get(TaskRecord, "d", "r", "pay", -1).version == 200


COUNTER = """
import sys
from dataclasses import replace
from louver.ledger import open_ledger
from louver.ledger.records import TaskRecord
ledger = open_ledger(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(200):
    with ledger._transaction(write=True) as rows:
        held = rows.get(TaskRecord, "d", "r", "pay", -1)
        rows.update(replace(held, version=held.version + 1))
ledger.close()
"""


# Memory is not shared between processes.
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_processes_that_count_in_one_row_lose_nothing(url):
    ledger = open_ledger(url)
    with ledger._transaction(write=True) as rows:
        rows.insert(task())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", COUNTER, url],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors
    with ledger._transaction(write=True) as rows:
        assert rows.get(TaskRecord, "d", "r", "pay", -1).version == 800
    ledger.close()


def test_of_many_that_insert_one_row_at_once_one_does(ledger):
    barrier = threading.Barrier(4)
    inserted = []

    def insert(number):
        barrier.wait()
        with ledger._transaction(write=True) as rows:
            inserted.append(rows.insert(task(version=number)))

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(inserted) == [False, False, False, True]
