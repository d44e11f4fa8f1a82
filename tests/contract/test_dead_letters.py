"""Dead letters are found without reading all transitions, and that costs what goes well nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from support.pasts import FATES, KEYS, History
from support.stores import store_of

from louver.ledger.dead_letter_contract import DeadLetterFilter
from louver.ledger.records import TaskRecord, TransitionRecord
from louver.ledger.sql.dead_letters import dead_letters
from louver.ledger.sql.tables import TABLES
from louver.states import TaskState

INDEX = "louver_transition_dead"


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Any]:
    """One with a past, in a database."""
    store = store_of(request.param, request, tmp_path)
    opened = store.open(KEYS)
    for fate in FATES:
        FATES[fate](History(opened))
    yield opened
    store.close()


def plan_of(ledger: Any, wanted: DeadLetterFilter) -> str:
    """How the database goes about the query."""
    with ledger._engines.begin() as connection:
        postgres = connection.dialect.name == "postgresql"
        query = dead_letters(wanted).compile(
            dialect=connection.dialect, compile_kwargs={"literal_binds": True}
        )
        if postgres:
            # It would rather read and sort tables as small as these.
            for what in ("seqscan", "sort", "hashjoin", "mergejoin"):
                connection.exec_driver_sql(f"SET LOCAL enable_{what} = off")
        plan = connection.execute(text(f"EXPLAIN {'' if postgres else 'QUERY PLAN '}{query}")).all()
    return "\n".join(str(row[-1]) for row in plan)


def test_a_page_is_read_from_an_index_in_its_order(ledger: Any) -> None:
    first = ledger.list_dead_letters(DeadLetterFilter(limit=1, retried=True))
    page = DeadLetterFilter(after=first[0], since=first[0].end.at - timedelta(days=1), limit=10)
    for wanted in (DeadLetterFilter(), page, replace(page, retried=True, dag_id=first[0].end.dag_id)):
        plan = plan_of(ledger, wanted)
        assert INDEX in plan, plan
        assert "Sort" not in plan
        assert "TEMP B-TREE" not in plan
        assert "Seq Scan" not in plan
        assert "SCAN louver_task" not in plan


def test_it_finds_what_the_transitions_tell(ledger: Any) -> None:
    found = {letter.end.task for letter in ledger.list_dead_letters(DeadLetterFilter())}

    with ledger._engines.connect(write=False) as connection:
        task = TABLES[TaskRecord]
        failed = connection.execute(
            task.select().where(task.c.state.in_([TaskState.FAILED, TaskState.LOST]))
        ).all()
    assert found == {TaskRecord(**row._mapping).key for row in failed}
    assert len(found) >= 3


def test_no_index_of_tasks_has_what_a_transition_changes() -> None:
    """So on Postgres the task's new row stays in its page, and no index is written."""
    assert [index.name for index in TABLES[TaskRecord].indexes] == []
    (partial,) = (index for index in TABLES[TransitionRecord].indexes if index.name == INDEX)
    for dialect in ("postgresql", "sqlite"):
        assert str(partial.dialect_options[dialect]["where"]) == "to_state IN ('failed', 'lost')"
