"""
Whatever is changed in a ledger by SQL is found, but for the columns that the docs name.

A past is made, one row of it is changed, and the change is taken back afterwards. :func:`vouched_for` says
what ``docs/operations.md`` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from sqlalchemy.types import Boolean, Double, LargeBinary
from support.pasts import FATES, KEYS, History
from support.tampering import PRIMARY, Row, Tables

from louver.ledger import open_ledger
from louver.ledger.names import RunKey
from louver.ledger.records import RECORDS
from louver.ledger.sql.tables import TABLES
from louver.ledger.sql.types import EnumText, TextTuple, UtcTime
from louver.ledger.task_operations import seal_binding
from louver.maintenance import verify_ledger
from louver.seals import HOLDER, read_seal
from louver.signing import SigningKeys, unseal
from louver.states import RunState
from louver.timestamps import format_utc

KIND = {kind.TABLE: kind for kind in RECORDS}

VERIFIED = ("run", "task", "transition", "seal", "effect", "approval", "checkpoint", "event", "payload")

NEVER = {"task": {*HOLDER}, "event": {"run_id", "triggered_at"}}
"""Columns that nothing vouches for."""

BY_THE_SEAL = {
    "run": {"incarnation", "marker", "requester", "state", "reason", "created_at", "updated_at"},
    "task": {"incarnation", "failures", "losses", "failure_kind", "updated_at"},
    "effect": {
        *("state", "incarnation", "generation", "session", "process", "ticket", "lease_until"),
        *("quiesce_seconds", "updated_at", "reason"),
    },
}
"""Columns that only a seal vouches for: in a run that is over, and in which nothing has gone on since."""


class Store:
    """A ledger, and its tables in other hands."""

    def __init__(self, url: str, tables: Tables) -> None:
        self.ledger = open_ledger(url, KEYS)
        self.tables = tables
        self.postgres = not url.startswith("sqlite")

    def live_through(self, fates: list[str]) -> None:
        """Give the ledger a new past."""
        for table in PRIMARY:
            self.tables.clear(table)
        for fate in fates:
            FATES[fate](History(self.ledger))

    def findings(self) -> tuple[Any, ...]:
        return verify_ledger(self.ledger).findings

    def pick(self, table: str, number: int) -> Row:
        rows = self.tables.rows(table)
        assume(rows)
        return rows[number % len(rows)]

    # What vouches for a row

    def vouched_for(self, table: str, row: Row) -> set[str]:
        """The columns of the row whose change is found."""
        names = set(row) - NEVER.get(table, set())
        if table == "payload":
            return names - (set() if self._has_a_time(row) else {"saved_at"})
        return names if self._is_sealed(table, row) else names - BY_THE_SEAL.get(table, set())

    def _has_a_time(self, payload: Row) -> bool:
        """Whether the row that has the payload says when it was saved."""
        kind, _, name = payload["payload_id"].partition(":")
        if kind == "definition":
            return False
        if kind != "effect" or not name.endswith(":result"):
            return True
        (effect,) = (
            row
            for row in self.tables.rows("effect")
            if name == f"{row['scope']}:{row['key']}#{row['epoch']}:result"
        )
        return effect["state"] == "committed" and effect["reason"] is None

    def _is_sealed(self, table: str, row: Row) -> bool:
        if "run_id" not in row or table in ("event", "seal", "checkpoint"):
            return False
        named = {"dag_id": row["dag_id"], "run_id": row["run_id"]}
        run = self.tables.row("run", **named)
        seals = self.tables.rows("seal", **named)
        if not RunState(run["state"]).terminal or not seals:
            return False
        binding = seal_binding(RunKey(**named), seals[0]["incarnation"])
        seal = read_seal(unseal(seals[0]["envelope"], binding=binding, keys=SigningKeys(secrets=KEYS)))
        standing = {
            (task["task_id"], task["map_index"]): (task["head"], task["side_head"])
            == (ends.head, ends.side_head)
            for task in self.tables.rows("task", **named)
            for place, ends in seal.ends.items()
            if place == (task["task_id"], task["map_index"])
        }
        if table == "task":
            return standing[row["task_id"], row["map_index"]]
        at_work = ("started", "unknown") if table == "effect" else ()
        return all(standing.values()) and row.get("state") not in at_work

    def is_missed(self, table: str, row: Row) -> bool:
        """Whether it is found when the row is gone."""
        if table == "seal":
            run = self.tables.row("run", dag_id=row["dag_id"], run_id=row["run_id"])
            return RunState(run["state"]).terminal
        if table == "payload" and row["payload_id"].startswith("definition:"):
            fingerprint = row["payload_id"].removeprefix("definition:")
            return bool(self.tables.rows("run", definition_fingerprint=fingerprint))
        return True

    # Other values

    def others(self, table: str, row: Row, name: str) -> Iterator[Any]:
        """Values that the column may be given instead."""
        column = TABLES[KIND[table]].c[name]
        kind, value = column.type, row[name]
        if column.nullable:
            yield None
        if isinstance(kind, EnumText):
            yield from (member.value for member in kind.kind)
        elif isinstance(kind, UtcTime):
            yield self._moment(value)
        elif isinstance(kind, TextTuple):
            yield '["somebody"]'
        elif isinstance(kind, Boolean):
            yield (not value) if self.postgres else 1 - value
        elif isinstance(kind, Double):
            yield value + 0.5
        elif isinstance(kind, LargeBinary):
            middle = len(value) // 2
            yield value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :]
            yield value[:-1]
            yield b""
        elif isinstance(value, int) or (value is None and name in ("commit_sequence", "session")):
            yield from ((value or 0) + 1, (value or 0) - 1)
        else:
            yield from ((value or "") + "x", (value or "x")[:-1])
        yield from (other[name] for other in self.tables.rows(table))

    def _moment(self, value: Any) -> Any:
        if isinstance(value, str):
            later = datetime.fromisoformat(value.replace("Z", "+00:00")) + timedelta(microseconds=1)
            return format_utc(later)
        return datetime(2020, 1, 1).astimezone() if value is None else value + timedelta(microseconds=1)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('tampering') / 'ledger.db'}"
    else:
        url = request.getfixturevalue("postgres").fresh_schema()
    open_ledger(url, KEYS).close()
    with Tables.of(url) as tables:
        made = Store(url, tables)
        with made.ledger:
            yield made


@dataclass(frozen=True)
class Mutation:
    """What somebody did to a table, and how it is taken back."""

    done: str
    undo: Callable[[], None]


def updated(store: Store, table: str, row: Row, name: str, value: Any) -> Mutation:
    changed = store.tables.update(table, row, **{name: value})
    return Mutation(
        f"{table}.{name} of {store.tables.key(table, row)}: {row[name]!r} -> {value!r}",
        lambda: store.tables.update(table, changed, **{name: row[name]}) and None,
    )


def deleted(store: Store, table: str, row: Row) -> Mutation:
    store.tables.delete(table, row)
    return Mutation(
        f"{table} {store.tables.key(table, row)} deleted", lambda: store.tables.insert(table, row)
    )


def swapped(store: Store, table: str, one: Row, other: Row) -> Mutation:
    store.tables.swap(table, one, other)
    keys = store.tables.key(table, one), store.tables.key(table, other)

    def undo() -> None:
        for row in (one, other):
            store.tables.update(table, row, **row)

    return Mutation(f"{table} {keys} swapped", undo)


@contextmanager
def done(mutation: Mutation) -> Iterator[str]:
    try:
        yield mutation.done
    finally:
        mutation.undo()


def test_every_column_of_every_table_is_vouched_for_or_named(store: Store) -> None:
    """Each in a row whose change has to be found, with each value that it may be given instead."""
    store.live_through(list(FATES))
    assert store.findings() == ()
    missed, tried = [], set()
    for table in VERIFIED:
        rows = [(row, store.vouched_for(table, row)) for row in store.tables.rows(table)]
        for name in rows[0][0]:
            able = [row for row, names in rows if name in names]
            # One of each end, so that the last row of a chain and the first are among them.
            for row in able[:1] + able[-1:]:
                values = []
                for value in store.others(table, row, name):
                    if value != row[name] and value not in values and free(store, table, row, name, value):
                        values.append(value)
                for value in values[:3]:
                    tried.add((table, name))
                    with done(updated(store, table, row, name, value)) as what:
                        if not store.findings():
                            missed.append(what)
    assert not missed, "\n".join(missed)
    assert store.findings() == ()
    columns = {(table, column.name) for table in VERIFIED for column in TABLES[KIND[table]].columns}
    assert columns - tried == {(table, name) for table, names in NEVER.items() for name in names}


def free(store: Store, table: str, row: Row, name: str, value: Any) -> bool:
    """Whether no other row has the primary key that this one would have."""
    changed = {**row, name: value}
    return name not in PRIMARY[table] or not store.tables.rows(table, **store.tables.key(table, changed))


def test_the_docs_name_the_columns_that_are_not_vouched_for() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
    head = "| table | nothing vouches for | only a seal vouches for |"
    told: dict[str, list[set[str]]] = {}
    for line in text[text.index(head) :].split("\n\n")[0].splitlines()[2:]:
        tables, *cells = line.strip("|").split("|")
        columns = [set(re.findall(r"`([^`]+)`", cell)) for cell in cells]
        told |= dict.fromkeys(re.findall(r"`([^`]+)`", tables), columns)

    # Those of acceptances are tampered with in test_verify_versions.py.
    assert set(told) == {*VERIFIED, "acceptance"}
    assert {table: sealed for table, (_, sealed) in told.items() if sealed} == BY_THE_SEAL
    # The last holds only for some rows, see vouched_for.
    never = {table: names for table, (names, _) in told.items() if names}
    assert never == {**NEVER, "payload": {"saved_at"}}


numbers = st.integers(min_value=0, max_value=10_000)


# Not shrunk: what was changed is told, and each example takes a tenth of a second.
@settings(
    max_examples=40,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    fates=st.lists(st.sampled_from(list(FATES)), min_size=1, max_size=3),
    mutations=st.lists(
        st.tuples(
            st.sampled_from(["update", "delete", "swap"]),
            st.sampled_from(VERIFIED),
            numbers,
            numbers,
            numbers,
        ),
        min_size=6,
        max_size=6,
    ),
)
def test_whatever_is_changed_at_random_is_found(
    store: Store, fates: list[str], mutations: list[tuple[str, str, int, int, int]]
) -> None:
    store.live_through(fates)
    assert store.findings() == ()
    for way, table, first, second, third in mutations:
        rows = store.tables.rows(table)
        if not rows:
            continue
        row = rows[first % len(rows)]
        mutation = None
        if way == "update":
            names = sorted(store.vouched_for(table, row))
            name = names[second % len(names)]
            values = [
                value
                for value in store.others(table, row, name)
                if value != row[name] and free(store, table, row, name, value)
            ]
            if values:
                mutation = updated(store, table, row, name, values[third % len(values)])
        elif way == "delete":
            if store.is_missed(table, row):
                mutation = deleted(store, table, row)
        else:
            other = rows[second % len(rows)]
            differing = {name for name in row if name not in PRIMARY[table] and row[name] != other[name]}
            if differing & store.vouched_for(table, row):
                mutation = swapped(store, table, row, other)
        if mutation is not None:
            with done(mutation) as what:
                assert store.findings(), what
    assert store.findings() == ()
