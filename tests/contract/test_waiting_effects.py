"""What waits for a person is found without reading all effects, and that costs those that go well nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event
from support.pasts import FATES, KEYS, History
from support.stores import store_of

from louver.ledger.names import EffectState
from louver.ledger.records import EffectRecord
from louver.ledger.sql.tables import TABLES

WAITING = (EffectState.UNKNOWN, EffectState.UNDO_FAILED)

INDEX = "louver_effect_with_reason"


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Any]:
    """One with a past, in a database."""
    store = store_of(request.param, request, tmp_path)
    opened = store.open(KEYS)
    for fate in FATES:
        FATES[fate](History(opened))
    yield opened
    store.close()


@contextmanager
def asked(ledger: Any) -> Iterator[list[tuple[str, Any]]]:
    """The questions that are asked of the database meanwhile."""
    said: list[tuple[str, Any]] = []

    def hear(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if statement.startswith("SELECT") and "louver_" in statement:
            said.append((statement, parameters))

    with ledger._engines.connect(write=False) as connection:
        engine = connection.engine
    event.listen(engine, "before_cursor_execute", hear)
    try:
        yield said
    finally:
        event.remove(engine, "before_cursor_execute", hear)


def test_what_waits_for_a_person_is_found_by_an_index(ledger: Any) -> None:
    with asked(ledger) as said:
        found = ledger.find_effects(states=WAITING)

    assert {effect.state for effect in found} == set(WAITING)
    ((statement, parameters),) = said
    with ledger._engines.begin() as connection:
        if connection.dialect.name == "postgresql":
            # It would rather read a table as small as this one.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).all()
        else:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    assert INDEX in str(plan)


def test_each_table_is_counted_once(ledger: Any) -> None:
    with asked(ledger) as said:
        census = ledger.count_states()

    assert len(said) == 5
    assert census.effects[EffectState.UNDO_FAILED] == 1
    assert sum(census.effects.values()) == len(ledger.find_effects())


def test_a_commit_changes_nothing_that_an_index_of_effects_has() -> None:
    """So on Postgres its new row stays in its page, and no index is written."""
    by_a_commit = {"state", "commit_sequence", "updated_at", "lease_until", "session", "process"}
    indexed = {column.name for index in TABLES[EffectRecord].indexes for column in index.columns}
    assert indexed & by_a_commit == set()
    (partial,) = (index for index in TABLES[EffectRecord].indexes if index.name == INDEX)
    for dialect in ("postgresql", "sqlite"):
        # A commit leaves an effect without a reason as it is.
        assert str(partial.dialect_options[dialect]["where"]) == "reason IS NOT NULL"


def test_whatever_waits_or_failed_has_a_reason(ledger: Any) -> None:
    waiting = ledger.find_effects(states=(*WAITING, EffectState.FAILED))
    all_of_them = [
        effect for effect in ledger.find_effects() if effect.state in (*WAITING, EffectState.FAILED)
    ]
    assert waiting == all_of_them
    assert {effect.state for effect in waiting} == {*WAITING, EffectState.FAILED}
