"""
No payload where it does not belong (row O9).

The events of two successful runs, and of one that is refused, hold values that stand nowhere else. After the
runs, every table of Airflow and of the ledger and every log file is searched for them. They may stand in
three places: in the ledger's payload store; in the form of an approval, since a person has to see what they
approve; and in XCom, where Airflow shows the results of steps to people (semantics section 5).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SHOWN_TO_PEOPLE = {"hitl_detail", "hitl_detail_history", "xcom"}
PAYLOAD_STORE = "louver_payload"


def cells(path: Path) -> Iterator[tuple[str, str]]:
    """Every value of every table, as text."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)) as database:
        database.text_factory = bytes
        names = [
            row[0].decode() for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for name in names:
            for row in database.execute(f'SELECT * FROM "{name}"'):
                for value in row:
                    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
                    yield name, text


def tables_with(path: Path, markers: list[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, text in cells(path):
        for marker in markers:
            if marker in text:
                found.setdefault(name, set()).add(marker)
    return found


@pytest.fixture
def markers(orders, runs, happy, stale) -> list[str]:
    """What to look for, once every run that carries it is over."""
    if orders.rest.run_state("order_workflow", runs.stale) == "running":
        orders.answered(runs.stale, "Approve", "charge")
        orders.ended(runs.stale)
    orders.ended(runs.refused)
    return ["zq7marker", "48151.62"]


def test_airflow_keeps_no_payload_but_what_it_shows_to_people(airflow, markers) -> None:
    found = tables_with(airflow.airflow_db, markers)

    assert set(found) <= SHOWN_TO_PEOPLE, found
    # The search sees what is there: the approval's form has to hold it.
    assert found["hitl_detail"] == set(markers)


def test_the_ledger_keeps_payload_in_the_payload_store_alone(airflow, markers) -> None:
    found = tables_with(airflow.ledger_db, markers)

    assert set(found) == {PAYLOAD_STORE}, found


def test_no_log_holds_payload(airflow, markers) -> None:
    files = [path for path in airflow.path.rglob("*.log") if path.is_file()]
    places = {
        str(path.relative_to(airflow.path)): marker
        for path in files
        for marker in markers
        if marker.encode() in path.read_bytes()
    }

    assert places == {}
    assert any("task_id=charge" in str(path) for path in files)
    assert {"api-server.log", "scheduler.log", "dag-processor.log"} <= {path.name for path in files}
