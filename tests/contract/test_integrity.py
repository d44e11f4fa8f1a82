"""What was damaged, cut, swapped or signed by somebody else is refused; the refusal shows nothing of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone

import psycopg2
import pytest

from louver.canonical import fingerprint
from louver.errors import IntegrityError
from louver.ledger import open_ledger
from louver.ledger.names import OnUnknown, RunKey, TaskKey
from louver.ledger.records import CheckpointRecord, PayloadRecord, RunRecord
from louver.ledger.requests import ApprovalRequest, EffectRequest, RunStart
from louver.sessions import Change, Claim
from louver.states import Source, TaskState

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
SECRET = "Hunter2-hunter2!"
CARD = "4111-1111-1111-1111"
VALUE = {"card": CARD, "amount": 5}
OTHER = {"card": CARD[::-1], "amount": 6}

LAUNCHED = Change(to=TaskState.RUNNING, trigger="executor:launched")
COMPLETED = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
PARKED = Change(to=TaskState.PAUSED, trigger="approval:requested")


class Memory:
    """The rows of the store in memory, as somebody who can write them all."""

    def __init__(self):
        self.tables = None

    def open(self, keys):
        ledger = open_ledger("memory://", keys)
        if self.tables is None:
            self.tables = ledger._tables
        ledger._tables = self.tables
        return ledger

    def read(self, kind, **equal):
        rows = [
            row
            for row in self.tables[kind].values()
            if all(getattr(row, name) == value for name, value in equal.items())
        ]
        assert len(rows) == 1
        return rows[0]

    def write(self, record):
        primary = tuple(getattr(record, name) for name in record.PRIMARY)
        assert primary in self.tables[type(record)]
        self.tables[type(record)][primary] = record

    def remove(self, payload_id):
        del self.tables[PayloadRecord][(payload_id,)]


class Database:
    """The rows of a store in a database, through another connection than the ledger's."""

    def __init__(self, url, connection, parameter):
        self.url = url
        self.connection = connection
        self.parameter = parameter

    def open(self, keys):
        return open_ledger(self.url, keys)

    def read(self, kind, **equal):
        ledger = self.open("any:0123456789abcdef")
        with ledger._transaction(write=True) as rows:
            (found,) = rows.find(kind, **equal)
        ledger.close()
        return found

    def write(self, record):
        held = {entry.name: getattr(record, entry.name) for entry in fields(record)}
        names = [name for name, value in held.items() if type(value) in (str, bytes)]
        values = ", ".join(map(self.equal, names))
        primary = " AND ".join(map(self.equal, record.PRIMARY))
        self.change(
            f"UPDATE louver_{record.TABLE} SET {values} WHERE {primary}",
            {name: held[name] for name in {*names, *record.PRIMARY}},
        )

    def remove(self, payload_id):
        self.change(
            f"DELETE FROM louver_payload WHERE {self.equal('payload_id')}", {"payload_id": payload_id}
        )

    def equal(self, name):
        return f"{name} = {self.parameter.format(name)}"

    def change(self, statement, values):
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement, values)
            assert cursor.rowcount == 1
        self.connection.commit()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request, tmp_path):
    if request.param == "memory":
        yield Memory()
    elif request.param == "sqlite":
        path = tmp_path / "ledger.db"
        with closing(sqlite3.connect(path)) as connection:
            yield Database(f"sqlite:///{path}", connection, ":{}")
    else:
        url = request.getfixturevalue("postgres_url")
        with closing(psycopg2.connect(url)) as connection:
            yield Database(url, connection, "%({})s")


@pytest.fixture
def opening(store):
    """Open the store with some keys; closed at the end."""
    opened = []

    def open_with(keys):
        opened.append(store.open(keys))
        return opened[-1]

    yield open_with
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(opening):
    return opening(f"k1:{SECRET}")


def launch(ledger, *, run_id="r1", task_id="act", try_number=1, max_tries=3):
    start = RunStart(
        key=RunKey("d", run_id),
        definition_name="d",
        definition_version="1",
        definition_fingerprint="f" * 64,
        definition={"name": "d"},
        marker="m",
    )
    claim = Claim(try_number=try_number, max_tries=max_tries, process="host:1:1", source=Source.WORKER)
    ledger.open_run(start, now=NOW)
    token = ledger.open_task(TaskKey("d", run_id, task_id), claim, now=NOW).token
    ledger.advance(token, LAUNCHED, now=NOW)
    return token


def saved(ledger, value=VALUE, **where):
    token = launch(ledger, **where)
    ledger.save_checkpoint(token, "state", value, now=NOW)
    return token


def committed(ledger, value=VALUE, *, key="pay", **where):
    token = launch(ledger, **where)
    request = EffectRequest(
        scope="dag:d",
        key=key,
        name="pay",
        intent=value,
        intent_hash=fingerprint(value),
        undo=None,
        on_unknown=OnUnknown.MANUAL,
        provider_idempotent=False,
        lease_until=NOW + timedelta(minutes=1),
        quiesce_seconds=30.0,
    )
    record = ledger.begin_effect(token, request, now=NOW).record
    return ledger.commit_effect(token, record, value, now=NOW)


def asked(ledger, value=VALUE, *, request_id="q1", **where):
    request = ApprovalRequest(
        request_id=request_id,
        of="act",
        payload=value,
        payload_fingerprint=fingerprint(value),
        ancestors=(),
        approvers=(),
        four_eyes=False,
        expires_at=None,
    )
    token = launch(ledger, **where)
    return ledger.park(token, PARKED, nonce="n", request=request, now=NOW)[0]


def accepted(ledger, value=VALUE, *, identity="i1"):
    _, record = ledger.accept_event(
        dag_id="d", identity=identity, payload_fingerprint="b" * 64, run_id="r", event=value, now=NOW
    )
    return record


def refusal(read):
    """Read, see it refused, and return what was said: nothing of the value or of a key."""
    with pytest.raises(IntegrityError) as caught:
        read()
    said = str(caught.value)
    assert SECRET not in said
    assert CARD not in said
    assert CARD[::-1] not in said
    return said


def kept(ledger):
    """One of each kind of value that the ledger keeps: the id of its payload, and how to read it."""
    token = saved(ledger)
    done = launch(ledger, task_id="look")
    ledger.complete(done, COMPLETED, VALUE, now=NOW)
    effect = committed(ledger, task_id="pay")
    request = asked(ledger, task_id="ask")
    event = accepted(ledger)
    return {
        "checkpoint": ("checkpoint:d:r1:act:-1:1:1:state", lambda: ledger.load_checkpoint(token, "state", 0)),
        "result": ("checkpoint:d:r1:look:-1:1:1:return_value", lambda: ledger.load_result(done.key)),
        "intent": (effect.intent_payload, lambda: ledger.load_effect(effect)),
        "effect result": (effect.result_payload, lambda: ledger.load_effect(effect)),
        "approval": (request.payload, lambda: ledger.load_approval(request)),
        "event": (event.payload, lambda: ledger.load_event("d", "i1")),
        "definition": (f"definition:{'f' * 64}", lambda: ledger.load_definition("f" * 64)),
    }


KINDS = ["checkpoint", "result", "intent", "effect result", "approval", "event", "definition"]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_of_any_byte_is_found(ledger, store, kind):
    payload_id, read = kept(ledger)[kind]
    read()
    row = store.read(PayloadRecord, payload_id=payload_id)

    # On a disk each step costs a write: there a few places of each part have to do.
    places = range(0, len(row.envelope), 1 if isinstance(store, Memory) else 23)
    for place in places:
        for damage in (0x01, 0x20, 0x80):
            envelope = bytearray(row.envelope)
            envelope[place] ^= damage
            store.write(replace(row, envelope=bytes(envelope)))
            refusal(read)

    store.write(row)
    read()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_an_addition_and_another_value_are_found(ledger, store, kind):
    payload_id, read = kept(ledger)[kind]
    row = store.read(PayloadRecord, payload_id=payload_id)

    for envelope in (
        b"",
        row.envelope[:1],
        row.envelope[: len(row.envelope) // 2],
        row.envelope[:-1],
        row.envelope + row.envelope,
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        row.envelope.replace(b'"schema":1', b'"schema":2'),
        row.envelope.replace(b'"5"', b'"6"').replace(b'"name"', b'"mane"'),
    ):
        store.write(replace(row, envelope=envelope))
        refusal(read)


@pytest.mark.parametrize("kind", KINDS)
def test_a_payload_that_is_gone_is_an_error_and_no_default(ledger, store, kind):
    payload_id, read = kept(ledger)[kind]
    store.remove(payload_id)

    assert "missing" in refusal(read)


def swap(store, one, two):
    first = store.read(PayloadRecord, payload_id=one)
    second = store.read(PayloadRecord, payload_id=two)
    store.write(replace(first, envelope=second.envelope))
    store.write(replace(second, envelope=first.envelope))


def test_checkpoints_of_two_runs_that_were_swapped(ledger, store):
    here, there = saved(ledger), saved(ledger, OTHER, run_id="r2")
    payloads = [f"checkpoint:d:{run_id}:act:-1:1:1:state" for run_id in ("r1", "r2")]
    swap(store, *payloads)

    for token in (here, there):
        refusal(lambda token=token: ledger.load_checkpoint(token, "state", 0))

    # The digests too: now all of it fits together, but the signature is about another run.
    first, second = (store.read(CheckpointRecord, run_id=run_id) for run_id in ("r1", "r2"))
    store.write(replace(first, digest=second.digest))
    store.write(replace(second, digest=first.digest))
    for token in (here, there):
        said = refusal(lambda token=token: ledger.load_checkpoint(token, "state", 0))
        assert "run_id differ" in said


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ({"task_id": "look"}, "task_id"),
        ({"try_number": 2, "max_tries": 4}, "generation"),
    ],
    ids=["another task", "another generation"],
)
def test_a_checkpoint_put_in_anothers_place(ledger, store, where, names):
    old = saved(ledger, OTHER)
    ledger.advance(old, Change(to=TaskState.FAILED, trigger="runtime:error"), now=NOW)
    token = saved(ledger, **where)
    for kind in (CheckpointRecord, PayloadRecord):
        rows = [
            store.read(kind, **place)
            for place in (
                [{"task_id": t.key.task_id, "generation": t.generation} for t in (old, token)]
                if kind is CheckpointRecord
                else [
                    {"payload_id": f"checkpoint:d:r1:{t.key.task_id}:-1:1:{t.generation}:state"}
                    for t in (old, token)
                ]
            )
        ]
        copied = "digest" if kind is CheckpointRecord else "envelope"
        store.write(replace(rows[1], **{copied: getattr(rows[0], copied)}))

    said = refusal(lambda: ledger.load_checkpoint(token, "state", 0))
    assert f"{names} differ" in said


def test_an_older_value_put_back_is_found_by_its_digest(ledger, store):
    token = saved(ledger, OTHER)
    payload_id = "checkpoint:d:r1:act:-1:1:1:state"
    old = store.read(PayloadRecord, payload_id=payload_id)
    ledger.save_checkpoint(token, "state", VALUE, now=NOW)
    store.write(old)

    assert "not the one that was recorded" in refusal(lambda: ledger.load_checkpoint(token, "state", 0))


def test_a_digest_that_was_changed(ledger, store):
    token = saved(ledger)
    store.write(replace(store.read(CheckpointRecord, name="state"), digest="0" * 64))

    refusal(lambda: ledger.load_checkpoint(token, "state", 0))


def test_another_definition_does_not_read_the_run(ledger, store):
    token = saved(ledger)
    store.write(replace(store.read(RunRecord, run_id="r1"), definition_fingerprint="e" * 64))

    assert "definition differ" in refusal(lambda: ledger.load_checkpoint(token, "state", 0))


def test_intent_and_result_of_two_effects_that_were_swapped(ledger, store):
    one, two = committed(ledger), committed(ledger, OTHER, key="refund", task_id="look")

    swap(store, one.intent_payload, two.intent_payload)
    assert "elsewhere: effect, task_id differ" in refusal(lambda: ledger.load_effect(one))
    swap(store, one.intent_payload, two.intent_payload)
    assert ledger.load_effect(one) == (VALUE, VALUE)
    swap(store, one.intent_payload, one.result_payload)
    assert ", kind, " in refusal(lambda: ledger.load_effect(one))
    swap(store, one.intent_payload, one.result_payload)
    swap(store, one.result_payload, two.result_payload)
    assert "effect differ" in refusal(lambda: ledger.load_effect(two))


def test_payloads_of_two_requests_and_of_two_events_that_were_swapped(ledger, store):
    one, two = asked(ledger), asked(ledger, OTHER, request_id="q2", task_id="look")
    first, second = accepted(ledger), accepted(ledger, OTHER, identity="i2")

    swap(store, one.payload, two.payload)
    swap(store, first.payload, second.payload)

    for request in (one, two):
        said = refusal(lambda request=request: ledger.load_approval(request))
        assert "request_id differ" in said
    for identity in ("i1", "i2"):
        said = refusal(lambda identity=identity: ledger.load_event("d", identity))
        assert "identity differ" in said


def test_rows_stay_readable_while_their_key_is_known(opening):
    token = saved(opening(f"old:{SECRET}"))
    rotated = opening(f"new:{SECRET[::-1]},old:{SECRET}")
    assert rotated.load_checkpoint(token, "state", 0) == VALUE

    rotated.save_checkpoint(token, "page", OTHER, now=NOW)

    later = opening(f"new:{SECRET[::-1]}")
    assert later.load_checkpoint(token, "page", 0) == OTHER
    assert "'old'" in refusal(lambda: later.load_checkpoint(token, "state", 0))
    earlier = opening(f"old:{SECRET}")
    assert "'new'" in refusal(lambda: earlier.load_checkpoint(token, "page", 0))


def test_the_same_key_id_with_another_secret_reads_nothing(opening):
    token = saved(opening(f"k1:{SECRET}"))

    other = opening(f"k1:{SECRET[::-1]}")

    assert "signature" in refusal(lambda: other.load_checkpoint(token, "state", 0))


def test_unsigned_rows_are_refused_once_keys_are_configured(opening):
    unsigned = opening(None)
    token = saved(unsigned)
    assert unsigned.load_checkpoint(token, "state", 0) == VALUE

    signed = opening(f"k1:{SECRET}")

    refusal(lambda: signed.load_checkpoint(token, "state", 0))
    signed.save_checkpoint(token, "state", VALUE, now=NOW)
    assert signed.load_checkpoint(token, "state", 0) == VALUE
    refusal(lambda: unsigned.load_checkpoint(token, "state", 0))
