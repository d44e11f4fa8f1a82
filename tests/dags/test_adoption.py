"""Which definition a run is opened under that none of its steps has opened yet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import delete
from support.airflow_rows import AirflowRows

from louver.errors import LedgerError
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver_provider.adoption import open_from_airflow
from louver_provider.task_control import Became, TaskControl

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("adopted", "r1")

LOUVERS = """
# An Airflow Dag.
from louver.definition import Definition
from louver.nodes import Step
from louver_provider.dag_builder import build_dag

one = Step(name="one", task="platform:node")
dag = build_dag(Definition(name="adopted", version="VERSION", nodes=[one]))
"""

PLAIN = """
from airflow.sdk import DAG, task

with DAG(dag_id="adopted", schedule=None) as dag:

    @task.step
    def charge(order=1):
        return order

    charge()
"""

STOCK = PLAIN.replace("@task.step", "@task")


class Bundle:
    """A Dag file, and what Airflow knows of it."""

    def __init__(self, rows: AirflowRows, folder: Path) -> None:
        self._rows = rows
        self.file = folder / "adopted.py"

    def deploy(self, text: str, *, version: str | None = None) -> None:
        """The file says this from now on, and the Dag processor has seen it, as this version of it."""
        self.file.write_text(text)
        bag = DagBag(str(self.file), bundle_path=self.file.parent)
        assert bag.import_errors == {}
        self._rows.deploy(bag.dags["adopted"], version=version)

    def run(self) -> None:
        """A run is made; nothing of it has begun."""
        self._rows.run(RUN)


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[Bundle]:
    rows = AirflowRows()
    yield Bundle(rows, tmp_path)
    rows.clear()
    with create_session(scoped=False) as session:
        session.execute(delete(DagModel).where(DagModel.dag_id == "adopted"))


def opened(ledger: Ledger) -> str:
    """The version of the definition that the run is opened under."""
    return open_from_airflow(ledger, RUN, now=NOW).definition_version


def of(version: str) -> str:
    return LOUVERS.replace("VERSION", version)


def test_a_run_of_a_versioned_bundle_is_opened_under_its_own_version(bundle: Bundle, ledger: Ledger) -> None:
    """Its first step begins with that one; under another one it would end as soon as it begins."""
    bundle.deploy(of("1"), version="commit-1")
    bundle.run()
    bundle.deploy(of("2"), version="commit-2")

    (reply,) = TaskControl(actor="ann", ledger=ledger).pause(RUN, timeout=timedelta(0))

    assert reply.became is Became.RECORDED
    record = ledger.get_run(RUN)
    assert record is not None
    assert record.definition_version == "1"


def test_any_other_run_is_opened_as_the_file_stands_now(bundle: Bundle, ledger: Ledger) -> None:
    bundle.deploy(of("1"))
    bundle.run()
    bundle.file.write_text(of("2"))
    assert opened(ledger) == "2"


def test_where_the_file_is_not_here_it_is_opened_as_airflow_has_seen_it_last(
    bundle: Bundle, ledger: Ledger
) -> None:
    bundle.deploy(of("1"))
    bundle.run()
    bundle.deploy(of("2"))
    bundle.file.unlink()
    assert opened(ledger) == "2"


def test_a_plain_dag_with_steps_that_was_not_closed_is_opened_too(bundle: Bundle, ledger: Ledger) -> None:
    bundle.deploy(PLAIN)
    bundle.run()
    assert opened(ledger) == "dag"


@pytest.mark.parametrize(
    ("text", "version", "then", "words"),
    [
        (PLAIN, None, None, r"adopted\.py is not on this machine. Run the command where the Dag files are"),
        (PLAIN, None, "1 +", "its file does not parse now; see airflow dags list-import-errors"),
        (PLAIN, "commit-1", PLAIN, "stays with version commit-1 of its bundle.*wait for its first step"),
        (STOCK, None, STOCK, "'adopted' is no Louver Dag"),
    ],
    ids=["elsewhere", "broken", "versioned", "stock"],
)
def test_what_cannot_be_known_is_said_as_it_is(
    bundle: Bundle, ledger: Ledger, text: str, version: str | None, then: str | None, words: str
) -> None:
    bundle.deploy(text, version=version)
    bundle.run()
    if then is None:
        bundle.file.unlink()
    else:
        bundle.file.write_text(then)

    with pytest.raises(LedgerError, match=words):
        opened(ledger)

    assert ledger.get_run(RUN) is None
