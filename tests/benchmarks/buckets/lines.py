"""What one turn costs at a resource for which very many wait, in each kind of ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, insert, select

from benchmarks.ledger.server import benchmark_server
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Token
from louver.ledger.records import LineRecord, PermitRecord, PlaceRecord, Record, TaskRecord
from louver.ledger.requests import RunStart
from louver.ledger.sql.engine import parse_url
from louver.ledger.sql.tables import TABLES
from louver.semaphores import PermitTerms, Stage, parse_resources
from louver.sessions import Claim
from louver.states import Source

__all__ = ["LENGTHS", "measure_lines"]

LENGTHS = (100, 1_000, 10_000)
"""How many wait."""

_RESOURCE = "api"
_LIMITS = parse_resources(f'{{"{_RESOURCE}": 1}}')
_TERMS = PermitTerms(lease=timedelta(hours=9), grant_ttl=timedelta(hours=9))
_WARM = 3
_CHUNK = 1_000

Samples = Mapping[str, Sequence[float]]
"""Seconds, by what was done."""


def measure_lines(
    path: Path, *, lengths: Sequence[int], rounds: int, say: Callable[[str], None]
) -> dict[str, dict[int, Samples]]:
    """
    Medians are the caller's.

    :param path: a directory that is there.
    :param lengths: growing.
    :returns: seconds by store, by how many wait, and by what was done: ``take`` of somebody who has to wait,
        ``give back`` by the one inside, which calls the next, ``enter`` by that one, and ``settle``, which
        looks what time has brought.
    """
    found: dict[str, dict[int, Samples]] = {}
    with benchmark_server() as server:
        urls = {
            "SQLite": f"sqlite:///{path / 'lines.db'}",
            "Postgres": server.url(database=server.fresh_database()),
        }
        for store, url in urls.items():
            found[store] = {}
            with _Line.opened(url) as line:
                for length in lengths:
                    say(f"resources: {length} wait, {store}")
                    line.grow_to(length)
                    found[store][length] = line.measure(rounds)
    return found


class _Line:
    """Steps at a resource of which there is one, and one inside."""

    def __init__(self, ledger: Ledger, url: str) -> None:
        self._ledger = ledger
        self._engine = create_engine(parse_url(url), hide_parameters=True)
        self._run = RunKey("bench", "run")
        self._length = 0
        self._asked = 0
        ledger.open_run(_start(self._run), now=_now())
        self._inside = self._newcomer()
        self._take(self._inside)

    @classmethod
    @contextmanager
    def opened(cls, url: str) -> Iterator[_Line]:
        with open_ledger(url) as ledger:
            line = cls(ledger, url)
            try:
                yield line
            finally:
                line._engine.dispose()

    def grow_to(self, length: int) -> None:
        """So many wait: one asks, and its rows are copied, whatever columns they have."""
        last = self._newcomer()
        self._take(last)
        with self._engine.begin() as connection:
            self._copy(connection, last.key, count=length - self._length - 1)
        if self._engine.dialect.name == "postgresql":
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM ANALYZE")
        self._length = length

    def measure(self, rounds: int) -> Samples:
        """Everybody moves on by one place, and as many wait as before."""
        taken: dict[str, list[float]] = {}
        for number in range(rounds + _WARM):
            newcomer = self._newcomer()
            samples = {"take": _seconds(lambda newcomer=newcomer: self._take(newcomer))}
            samples["give back"] = _seconds(self._give_back)
            following = self._open(self._called())
            samples["enter"] = _seconds(lambda following=following: self._take(following))
            samples["settle"] = _seconds(self._settle)
            self._inside = following
            if number >= _WARM:
                for name, seconds in samples.items():
                    taken.setdefault(name, []).append(seconds)
        return taken

    def _copy(self, connection: Connection, key: TaskKey, *, count: int) -> None:
        kinds: tuple[type[Record], ...] = (TaskRecord, PermitRecord, PlaceRecord)
        templates = {kind: _row(connection, kind, key) for kind in kinds}
        sequence = templates[PermitRecord]["sequence"]
        for first in range(1, count + 1, _CHUNK):
            numbers = range(sequence + first, sequence + min(first + _CHUNK, count + 1))
            for kind, row in templates.items():
                told = [
                    {**row, "task_id": f"copy-{number}"} | ({"sequence": number} if "sequence" in row else {})
                    for number in numbers
                ]
                connection.execute(insert(TABLES[kind]), told)
        line = TABLES[LineRecord]
        connection.execute(line.update().values(last=sequence + count))

    def _newcomer(self) -> Token:
        self._asked += 1
        return self._open(TaskKey(self._run.dag_id, self._run.run_id, f"asks-{self._asked}"))

    def _open(self, key: TaskKey) -> Token:
        claim = Claim(try_number=1, max_tries=9, process="bench:1:1", source=Source.WORKER)
        return self._ledger.open_task(key, claim, now=_now()).token

    def _take(self, token: Token) -> None:
        self._ledger.take_permit(token, {_RESOURCE: 1}, limits=_LIMITS, priority=1, terms=_TERMS, now=_now())

    def _give_back(self) -> None:
        inside = self._inside
        self._ledger.release_permit(inside.key, session=inside.session, terms=_TERMS, now=_now())

    def _settle(self) -> None:
        self._ledger.settle_permits(limits=_LIMITS, terms=_TERMS, now=_now())

    def _called(self) -> TaskKey:
        permit = TABLES[PermitRecord].c
        wanted = select(permit.dag_id, permit.run_id, permit.task_id, permit.map_index)
        with self._engine.connect() as connection:
            return TaskKey(*connection.execute(wanted.where(permit.stage == Stage.GRANTED)).one())


def _row(connection: Connection, kind: type[Record], key: TaskKey) -> dict[str, Any]:
    table = TABLES[kind]
    found = connection.execute(select(table).where(table.c.task_id == key.task_id)).mappings().one()
    return dict(found)


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _start(run: RunKey) -> RunStart:
    return RunStart(
        key=run,
        definition_name="bench",
        definition_version="1",
        definition_fingerprint="f" * 64,
        definition={},
        marker=None,
    )


def _now() -> datetime:
    return datetime.now(timezone.utc)
