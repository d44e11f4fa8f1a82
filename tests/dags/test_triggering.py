"""Where Airflow is set up so that it does not start a run, whoever wants it is told which setting that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import update
from support.airflow_rows import AirflowRows

from louver.definition import Definition
from louver.errors import ConfigurationError
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.nodes import Step
from louver.repairs import Compensate
from louver.steps import run_start
from louver_provider.dags import compensation_dag
from louver_provider.reconciler.acts import start_rescue
from louver_provider.reconciler.rescue import RESCUE_DAG
from louver_provider.triggering import trigger_once

Louver = Callable[..., tuple[int, str, str]]

ORDERS = "order_workflow"
EVENT = Path(__file__).resolve().parents[2] / "dags/examples/order_event.json"


@pytest.fixture(scope="module")
def tables(dags_folder: Path) -> AirflowRows:
    rows = AirflowRows()
    rows.deploy(DagBag(str(dags_folder / f"{ORDERS}.py"), bundle_path=dags_folder).dags[ORDERS])
    rows.deploy(compensation_dag())
    return rows


@pytest.fixture
def rows(tables: AirflowRows) -> Iterator[AirflowRows]:
    yield tables
    tables.clear()
    allow_run_types(None)


def allow_run_types(kinds: list[str] | None) -> None:
    """As the Dags themselves say it."""
    with create_session(scoped=False) as session:
        session.execute(update(DagModel).values(allowed_run_types=kinds))


@pytest.fixture(params=["allowed_run_id_pattern", "allowed_run_types"])
def in_the_way(request: pytest.FixtureRequest, rows: AirflowRows, monkeypatch: pytest.MonkeyPatch) -> str:
    """A setting that is; its name."""
    if request.param == "allowed_run_types":
        allow_run_types(["scheduled", "backfill"])
    else:
        monkeypatch.setenv("AIRFLOW__SCHEDULER__ALLOWED_RUN_ID_PATTERN", "^team-[a-z]+$")
    return str(request.param)


def test_the_setting_and_the_id_are_named(in_the_way: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        trigger_once(ORDERS, "evt-0123", {}, by="ann", through=DagRunTriggeredByType.CLI)
    text = str(caught.value)
    for word in (ORDERS, "evt-0123", in_the_way):
        assert word in text
    assert len(text.splitlines()) == 1


def test_a_submission_ends_in_one_line_and_is_completed_once_nothing_is_in_the_way(
    in_the_way: str, rows: AirflowRows, ledger: Ledger, louver: Louver, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = louver("submit", ORDERS, "--event", str(EVENT), "--output", "json")
    assert (code, out) == (1, "")
    assert err.startswith("airflow louver: Airflow does not start run evt-")
    assert in_the_way in err
    assert len(err.splitlines()) == 1
    assert rows.runs(ORDERS) == []

    allow_run_types(None)
    monkeypatch.delenv("AIRFLOW__SCHEDULER__ALLOWED_RUN_ID_PATTERN", raising=False)
    code, _, err = louver("submit", ORDERS, "--event", str(EVENT), "--output", "json")
    assert (code, err) == (0, "")
    assert len(rows.runs(ORDERS)) == 1


def test_another_reason_is_airflows_own(rows: AirflowRows) -> None:
    with pytest.raises(ConfigurationError, match=r"ValueError: .*path traversal"):
        trigger_once(ORDERS, "evt-..", {}, by="ann", through=DagRunTriggeredByType.CLI)
    assert trigger_once(ORDERS, "evt-1", {}, by="ann", through=DagRunTriggeredByType.CLI)
    assert not trigger_once(ORDERS, "evt-1", {}, by="ann", through=DagRunTriggeredByType.CLI)


def test_the_reconciler_is_told_why_nothing_compensates(
    in_the_way: str, rows: AirflowRows, ledger: Ledger
) -> None:
    line = Definition(name="line", version="1", nodes=[Step(name="one", task="shop.orders:one")])
    run = ledger.open_run(run_start(line, RunKey("line", "r1")), now=datetime.now(timezone.utc))

    why = start_rescue(Compensate(run=run, number=1, outstanding="o", why="it was deleted"))

    assert why is not None
    assert why.startswith(f"Airflow does not start {RESCUE_DAG}: ")
    assert in_the_way in why
    assert rows.runs(RESCUE_DAG) == []
