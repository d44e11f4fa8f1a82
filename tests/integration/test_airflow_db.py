"""Airflow's own database commands: they migrate the ledger, and it outlives their cleaning."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow_home import AirflowHome
from airflow_rest import FINISHED

from louver.definition import Definition, Step
from louver.ledger import open_ledger
from louver.ledger.names import RunKey
from louver.steps import run_start

pytestmark = pytest.mark.integration

CHECK = ("db", "check-migrations", "--migration-wait-timeout", "1")
DAG = "approved_values"
LOST = "sqlite:////nowhere/at/all/louver.db"

PLAIN_DAG_FILE = '''
"""An Airflow Dag that knows no Louver."""
from airflow.sdk import DAG, task

with DAG("plain", schedule=None) as dag:

    @task
    def first():
        return (1, "x" * 40_000)

    @task
    def second(value):
        return [type(value).__name__, len(value[1])]

    second(first())
'''


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    """A home of its own; its tests come first, before another Airflow is started."""
    home = AirflowHome(tmp_path_factory.mktemp("bare"))
    home.prepare()
    return home


def with_ledger(home: AirflowHome, url: str) -> AirflowHome:
    """The same home, whose ledger is there."""
    return AirflowHome(home.path, settings={"AIRFLOW__LOUVER__LEDGER_URL": url})


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return connection.execute(query).fetchall()


def test_a_ledger_out_of_reach_keeps_nothing_of_airflow_back(bare: AirflowHome) -> None:
    lost = with_ledger(bare, LOST)

    migrated, checked, pools = lost.commands(
        [("db", "migrate"), CHECK, ("pools", "list", "--output", "json")]
    )

    assert (migrated.code, checked.code) == (0, 0)
    # Airflow makes it after everything else of its migration, the ledger's part included.
    assert [pool["pool"] for pool in json.loads(pools.stdout)] == ["default_pool"]
    log = (bare.logs / "commands.log").read_text()
    said = [
        line for line in (migrated.stdout + migrated.stderr + log).splitlines() if "Louver's ledger" in line
    ]
    assert len([line for line in said if "was not migrated" in line]) == 1
    assert all("/nowhere/at/all does not exist; make it, or correct the URL" in line for line in said)
    assert not Path("/nowhere").exists()


def test_migration_check_and_reset(bare: AirflowHome) -> None:
    pending = bare.cli(*CHECK)
    assert pending.code == 1
    assert "has no schema yet; run `airflow db migrate`" in pending.stdout + pending.stderr

    first, again, checked = bare.commands([("db", "migrate"), ("db", "migrate"), CHECK])
    assert (first.code, again.code, checked.code) == (0, 0, 0)

    definition = Definition(name="orders", version="1", nodes=[Step(name="one", task="json:dumps")])
    url = f"sqlite:///{bare.ledger_db}"
    key = (bare.path / "louver_signing_key").read_text().strip()
    with open_ledger(url, key) as ledger:
        ledger.open_run(run_start(definition, RunKey("orders", "r1")), now=datetime.now(timezone.utc))

    reset = bare.cli("db", "reset", "--yes")
    assert reset.code == 0
    assert f"Louver's ledger {url} is kept" in reset.stdout + reset.stderr
    assert rows(bare.airflow_db, "SELECT count(*) FROM dag_run") == [(0,)]
    with open_ledger(url, key) as ledger:
        assert ledger.get_run(RunKey("orders", "r1")) is not None


def test_without_a_ledger_airflow_starts_and_other_dags_run(bare: AirflowHome) -> None:
    lost = with_ledger(bare, LOST)
    (bare.own_dags / "plain.py").write_text(PLAIN_DAG_FILE)
    with lost.kept_running(dags=["plain"]):
        run_id = lost.rest.trigger("plain", {})
        lost.wait_for("the end of the run", lambda: lost.rest.run_state("plain", run_id) in FINISHED)
        assert lost.rest.run_state("plain", run_id) == "success"
        assert lost.rest.xcom("plain", run_id, "second") == ["tuple", 40_000]
        assert lost.running()


def test_airflows_migration_made_the_ledger(airflow: Any) -> None:
    said = (airflow.logs / "migrate.log").read_text()
    assert f"Louver's ledger sqlite:///{airflow.ledger_db} has the schema of this release" in said


@pytest.fixture(scope="module")
def runs(airflow: Any, orders: Any) -> dict[str, str]:
    """One run that is over, and one that waits for a person."""
    airflow.wait_for("the Dag", lambda: DAG in airflow.rest.dag_ids())
    found = {name: airflow.rest.trigger(DAG, {}, run_id=name) for name in ("finished", "waiting")}
    for name in found:
        parked(airflow, name)
    airflow.rest.answer(DAG, "finished", "ask", "Approve").expect(200)
    assert orders.ended("finished", DAG) == "success"
    return found


def parked(airflow: Any, run_id: str) -> None:
    airflow.wait_for(
        f"{run_id} to ask",
        lambda: airflow.rest.task_states(DAG, run_id).get("ask") == "awaiting_input",
        timeout=120,
    )


def test_a_run_whose_xcoms_were_cleaned_goes_on_from_the_ledger(
    airflow: Any, orders: Any, runs: dict[str, str]
) -> None:
    done = clean(airflow, "--tables", "xcom,log,task_instance_history", "--dag-ids", DAG)
    assert done.code == 0, done
    assert rows(airflow.airflow_db, f"SELECT count(*) FROM xcom WHERE dag_id = '{DAG}'") == [(0,)]

    airflow.rest.answer(DAG, "waiting", "ask", "Approve").expect(200)

    assert orders.ended("waiting", DAG) == "success"
    assert airflow.rest.xcom(DAG, "waiting", "pay") == "paid 14.95"
    assert orders.status("waiting")["state"] == "succeeded"


def clean(home: AirflowHome, *options: str) -> Any:
    now = (datetime.now(timezone.utc) + timedelta(minutes=1)).isoformat()
    return home.cli(
        "db", "clean", "--clean-before-timestamp", now, "--yes", "--error-on-cleanup-failure", *options
    )


@pytest.fixture
def copied(airflow: Any, runs: dict[str, str], tmp_path: Path) -> Iterator[AirflowHome]:
    """A copy of the running Airflow's home, with a run that waits, for what the others should not suffer."""
    airflow.rest.trigger(DAG, {}, run_id="copied")
    parked(airflow, "copied")
    home = AirflowHome(tmp_path / "copy")
    home.prepare()
    for source, target in ((airflow.airflow_db, home.airflow_db), (airflow.ledger_db, home.ledger_db)):
        with (
            closing(sqlite3.connect(source, timeout=30)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    key = airflow.path / "louver_signing_key"
    (home.path / key.name).write_text(key.read_text())
    yield home
    airflow.rest.answer(DAG, "copied", "ask", "Reject").expect(200)


def test_cleaning_everything_leaves_the_ledger_and_its_commands_as_they_were(copied: AirflowHome) -> None:
    with contextlib.closing(sqlite3.connect(copied.ledger_db)) as connection:
        before = list(connection.iterdump())
    assert rows(copied.airflow_db, "SELECT count(*) FROM dag_run") != [(0,)]

    done = clean(copied)

    assert done.code == 0, done
    assert "Encountered error" not in done.stdout + done.stderr
    # Airflow does not ask whether a run is over.
    assert rows(copied.airflow_db, "SELECT count(*) FROM dag_run") == [(0,)]
    with contextlib.closing(sqlite3.connect(copied.ledger_db)) as connection:
        assert list(connection.iterdump()) == before
    finished, waiting, checked = copied.commands(
        [
            ("louver", "status", "finished", "--dag-id", DAG, "--output", "json"),
            ("louver", "status", "copied", "--dag-id", DAG, "--output", "json"),
            CHECK,
        ]
    )
    assert [json.loads(answer.stdout)[0]["state"] for answer in (finished, waiting)] == [
        "succeeded",
        "waiting_approval",
    ]
    assert checked.code == 0
