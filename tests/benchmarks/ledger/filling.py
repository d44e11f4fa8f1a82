"""
A ledger with as many runs as a busy year leaves behind.

One run is made through the ledger's own operations and then copied within the database: whatever columns its
rows have, the copies have them too. Only what tells runs apart, and what lists are filtered by, differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import Connection, Table, create_engine, func, insert, select

from benchmarks.ledger.stage import RESULT, Stage
from louver.ledger.names import RunKey
from louver.ledger.records import RunRecord, TaskRecord, TransitionRecord
from louver.ledger.sql.tables import TABLES
from louver.states import RunState
from louver.testing.scene import COMPLETED

__all__ = ["BEGIN", "DAGS", "EVERY", "STATES", "Filled", "fill"]

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""When the oldest run began."""

EVERY = timedelta(minutes=5)
"""How far apart runs begin."""

DAGS = 50
"""How many Dags they belong to."""

STATES = (
    (RunState.RUNNING, 997),
    (RunState.WAITING_APPROVAL, 499),
    (RunState.FAILED_COMPENSATED, 101),
    (RunState.FAILED, 31),
)
"""One in so many runs is in that state, in every Dag; the others have succeeded, and none is ``stopped``."""

_TASKS = 5
_CHUNK = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """How many rows the ledger holds."""

    runs: int
    tasks: int
    transitions: int


def fill(stage: Stage, url: str, runs: int) -> Filled:
    """
    Fill the ledger with that many runs, of 5 tasks and 20 transitions each.

    :param url: of the ledger of ``stage``, which is empty.
    """
    template = _template(stage)
    engine = create_engine(url, hide_parameters=True)
    try:
        with engine.begin() as connection:
            _copy_runs(connection, template, runs)
            _copy_for_each_run(connection, TABLES[TaskRecord], template, time="updated_at")
            _copy_for_each_run(connection, TABLES[TransitionRecord], template, time="at")
        if engine.dialect.name == "postgresql":
            # Autovacuum would do it within a minute or so. SQLite has nothing of the kind and gets nothing.
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM ANALYZE")
        with engine.connect() as connection:
            counts = [
                connection.scalar(select(func.count()).select_from(TABLES[kind])) or 0
                for kind in (RunRecord, TaskRecord, TransitionRecord)
            ]
    finally:
        engine.dispose()
    return Filled(runs=counts[0], tasks=counts[1], transitions=counts[2])


def _template(stage: Stage) -> RunKey:
    run = stage.run()
    for _ in range(_TASKS):
        stage.ledger.complete(stage.task(run), COMPLETED, RESULT, now=stage.now())
    stage.ledger.set_run_state(run, RunState.SUCCEEDED, reason=None, now=stage.now())
    return run


def _copy_runs(connection: Connection, template: RunKey, runs: int) -> None:
    table = TABLES[RunRecord]
    row = connection.execute(select(table).where(*_of(table, template))).mappings().one()
    rows = list(_variants(dict(row), runs - 1))
    for first in range(0, len(rows), _CHUNK):
        connection.execute(insert(table), rows[first : first + _CHUNK])


def _variants(row: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        began = BEGIN + number * EVERY
        yield row | {
            "dag_id": f"dag-{number % DAGS:02}",
            "run_id": f"scheduled__{began.isoformat()}",
            "state": next((state for state, every in STATES if number % every == 0), RunState.SUCCEEDED),
            "created_at": began,
            "updated_at": began,
        }


def _copy_for_each_run(connection: Connection, table: Table, template: RunKey, *, time: str) -> None:
    """Rows of the template's, for each other run."""
    run = TABLES[RunRecord]
    differing = {"dag_id": run.c.dag_id, "run_id": run.c.run_id, time: run.c.created_at}
    columns = [differing.get(column.name, column) for column in table.c]
    # In the order of the runs' keys: as good for an index as it gets, and quick.
    rows = (
        select(*columns)
        .select_from(table.join(run, run.c.run_id != template.run_id))
        .where(*_of(table, template))
        .order_by(run.c.dag_id, run.c.run_id)
    )
    connection.execute(insert(table).from_select([column.name for column in table.c], rows))


def _of(table: Table, run: RunKey) -> tuple[Any, ...]:
    return table.c.dag_id == run.dag_id, table.c.run_id == run.run_id
