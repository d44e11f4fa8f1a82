"""Values on a real Airflow: from step to step, in XCom, in the UI's API, and at the limits."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from louver.errors import IntegrityError
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver_provider.xcom.references import REFERENCE, SHOWN

sys.path.insert(0, str(Path(__file__).parent / "dags"))

from value_kinds import KEPT, MARKER, REFUSED

pytestmark = pytest.mark.integration

DAGS = ("values", "refused_values", "plain_reader", "locked_ledger")
INLINE = {"true", "one", "plain", "text", "empty", "small_enough"}
"""Kinds that stand in the row itself."""
LARGE = {"below_32_kib", "at_32_kib", "above_32_kib", "at_64_kib", "one_mib", "fifty_mib"}


@pytest.fixture(scope="module")
def begun(airflow: Any) -> dict[str, str]:
    """Runs of the Dags, all begun at once; the reader comes after what it reads."""
    airflow.wait_for("the Dags of values", lambda: set(DAGS) <= airflow.rest.dag_ids())
    return {name: airflow.rest.trigger(name, {}) for name in DAGS if name != "plain_reader"}


@pytest.fixture(scope="module")
def kept(orders: Any, begun: dict[str, str]) -> str:
    """The run of ``values``, at its end."""
    assert orders.ended(begun["values"], "values") == "success"
    return begun["values"]


@pytest.fixture(scope="module")
def refused(orders: Any, begun: dict[str, str]) -> str:
    """The run of ``refused_values``, at its end."""
    assert orders.ended(begun["refused_values"], "refused_values") == "failed"
    return begun["refused_values"]


@pytest.fixture
def read_by_others(orders: Any) -> Any:
    """Have values of a run read by a Dag that knows no Louver; returns its run, and what it found by task."""

    def read(run_id: str, task_ids: list[str]) -> tuple[str, dict[str, str]]:
        reader = orders.rest.trigger("plain_reader", {"run_id": run_id, "task_ids": task_ids})
        assert orders.ended(reader, "plain_reader") == "success"
        return reader, orders.rest.xcom("plain_reader", reader, "read")["outcomes"]

    return read


@pytest.fixture
def ledger(airflow: Any) -> Iterator[Ledger]:
    key = (airflow.path / "louver_signing_key").read_text().strip()
    with open_ledger(f"sqlite:///{airflow.ledger_db}", key) as opened:
        yield opened


def test_a_step_gets_equal_values_of_the_same_type(orders: Any, kept: str) -> None:
    assert orders.rest.xcom("values", kept, "compare") == {"compared": len(KEPT), "differing": []}
    assert {step["state"] for step in orders.status(kept)["steps"]} == {"succeeded"}


def test_another_dags_task_pulls_the_same(orders: Any, kept: str, read_by_others: Any) -> None:
    reader, outcomes = read_by_others(kept, list(KEPT))
    assert {kind for kind, outcome in outcomes.items() if outcome != "same"} == set()
    # Its own XComs are what they are without Louver.
    assert orders.rest.xcom("plain_reader", reader, "read")["text"] == "x" * 40_000
    pair = orders.rest.xcom("plain_reader", reader, "read", "pair")
    assert pair == {"__classname__": "builtins.tuple", "__version__": 1, "__data__": [1, "b"]}


def test_every_value_is_readable_in_the_ui(orders: Any, kept: str) -> None:
    listed = orders.rest.get(f"/api/v2/dags/values/dagRuns/{kept}/taskInstances/~/xcomEntries?limit=100")
    # Airflow pushes no None.
    assert {entry["task_id"] for entry in listed["xcom_entries"]} >= set(KEPT) - {"none"}
    for kind in set(KEPT) - {"none"}:
        place = f"/api/v2/dags/values/dagRuns/{kept}/taskInstances/{kind}/xcomEntries/return_value"
        row = orders.rest.get(place)["value"]
        assert len(json.dumps(row)) <= 33 * 1024
        assert orders.rest.get(f"{place}?deserialize=true")["value"] == row
        text = orders.rest.get(f"{place}?deserialize=true&stringify=true")["value"]
        if kind in INLINE:
            assert row == KEPT[kind]()
        else:
            assert set(row) == {SHOWN, REFERENCE}
            assert row[REFERENCE]["task_id"] == kind
            assert row[REFERENCE]["type"] == type(KEPT[kind]()).__name__
            assert repr(row[SHOWN]) in text
            assert ("kept in Louver's ledger" in str(row[SHOWN])) == (kind in LARGE)
    assert orders.rest.xcom("values", kept, "decimal")[SHOWN] == "129.90"
    assert orders.rest.xcom("values", kept, "nested")[SHOWN]["pairs"] == [[1, [2, "b"]]]


def test_a_reference_that_was_tampered_with_is_refused(orders: Any, kept: str, read_by_others: Any) -> None:
    # As a person may, who has the right to edit XComs in Airflow's UI.
    rows = {kind: orders.rest.xcom("values", kept, kind) for kind in ("tuple", "decimal", "uuid", "day")}
    changed = json.loads(json.dumps(rows["tuple"]))
    changed[REFERENCE]["task_id"] = "fifty_mib"
    with_gap = {SHOWN: rows["uuid"][SHOWN], REFERENCE: {"task_id": "uuid"}}
    put = {"tuple": changed, "decimal": rows["tuple"], "uuid": with_gap}
    try:
        for kind, row in put.items():
            set_xcom(orders.rest, kept, kind, row)
        assert orders.rest.xcom("values", kept, "tuple") == changed
        _, outcomes = read_by_others(kept, [*put, "day"])
    finally:
        for kind, row in rows.items():
            set_xcom(orders.rest, kept, kind, row)

    assert outcomes["tuple"].startswith("IntegrityError: ")
    assert "does not match its signature" in outcomes["tuple"]
    assert "belongs to another place (task_id differ)" in outcomes["decimal"]
    assert "Louver never wrote it" in outcomes["uuid"]
    assert outcomes["day"] == "same"


def set_xcom(rest: Any, run_id: str, task_id: str, row: Any) -> None:
    place = f"/api/v2/dags/values/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
    rest.request("PATCH", place, {"value": row, "map_index": -1}).expect(200)


def test_a_lost_value_is_named_with_the_way_out(
    airflow: Any, orders: Any, kept: str, read_by_others: Any
) -> None:
    place = f"checkpoint:values:{kept}:aware:%"
    with closing(sqlite3.connect(airflow.ledger_db, isolation_level=None, timeout=30)) as connection:
        lost = connection.execute("SELECT * FROM louver_payload WHERE payload_id LIKE ?", (place,)).fetchall()
        assert len(lost) == 1
        connection.execute("DELETE FROM louver_payload WHERE payload_id LIKE ?", (place,))
        try:
            _, outcomes = read_by_others(kept, ["aware"])
            # People still read the row.
            assert orders.rest.xcom("values", kept, "aware")[SHOWN] == "2026-03-01T12:30:15.123456-03:30:07"
        finally:
            marks = ", ".join("?" * len(lost[0]))
            connection.executemany(f"INSERT INTO louver_payload VALUES ({marks})", lost)

    assert outcomes["aware"].startswith(f"IntegrityError: the result of values/{kept}/aware ")
    assert "restore the ledger from its backup, or clear aware" in outcomes["aware"]


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_fails_its_step_once_with_the_path(orders: Any, refused: str, kind: str) -> None:
    said = REFUSED[kind][1]
    step = orders.steps(refused)[kind]
    assert (step["state"], step["failure_kind"], step["attempt"]) == ("failed", "result_invalid", 1)
    last = orders.history(refused, kind)[-1]
    assert (last["from"], last["to"]) == ("running", "failed")
    assert last["reason"].startswith(f"result_invalid: value refused at {said.partition(': ')[0]}")
    task = orders.rest.task("refused_values", refused, kind)
    assert (task["state"], task["try_number"]) == ("failed", 1)
    log = orders.rest.log("refused_values", refused, kind)
    for text in (log, last["reason"]):
        assert said in text
        assert MARKER not in text


def test_a_value_over_the_limit_is_refused_with_size_limit_option_and_way_out(
    orders: Any, refused: str
) -> None:
    reason = orders.history(refused, "over_the_limit")[-1]["reason"]
    assert (
        "bytes and the ledger keeps at most 67108864 ([louver] max_value_bytes); store it elsewhere" in reason
    )


def test_of_what_is_refused_nothing_is_written(airflow: Any, refused: str, ledger: Ledger) -> None:
    for kind in REFUSED:
        with pytest.raises(IntegrityError, match="no committed result"):
            ledger.load_result(TaskKey("refused_values", refused, kind))
    with closing(sqlite3.connect(airflow.ledger_db, timeout=30)) as connection:
        kept = connection.execute(
            "SELECT task_id FROM louver_checkpoint WHERE run_id = ? AND dag_id = 'refused_values'", (refused,)
        ).fetchall()
    assert {task_id for (task_id,) in kept} <= {"compensate"}
    for path in (*airflow.path.glob("louver.db*"), *airflow.path.glob("airflow.db*")):
        assert MARKER.encode() not in path.read_bytes(), path
    states = airflow.rest.task_states("refused_values", refused)
    assert (states["compensate"], states["outcome"]) == ("success", "failed")


def test_a_ledger_lost_at_the_end_of_a_step_fails_closed_and_is_tried_again(
    orders: Any, begun: dict[str, str]
) -> None:
    run_id = begun["locked_ledger"]
    assert orders.ended(run_id, "locked_ledger") == "success"
    first = orders.rest.log("locked_ledger", run_id, "write", 1)
    assert "LedgerUnavailable" in first
    assert "another process kept it for the whole waiting time" in first
    trail = [(row["to"], row["trigger"]) for row in orders.history(run_id, "write")]
    assert ("retry_wait", "runtime:attempt_lost") in trail
    assert [to for to, _ in trail].count("succeeded") == 1
    assert orders.rest.xcom("locked_ledger", run_id, "write") == "attempt 2"
