"""The ledger in Airflow's database commands: made, migrated, never dropped, and never in their way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.utils.db_manager import RunDBManager
from sqlalchemy import text

from louver.ledger import open_ledger
from louver.ledger.sql.engine import Engines, parse_url
from louver.ledger.sql.schema import HEAD
from louver.ledger.sql.tables import VERSION_TABLE
from louver_provider import settings
from louver_provider.db_manager import LouverDBManager


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "AIRFLOW_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def manager(home: Path, monkeypatch: pytest.MonkeyPatch) -> LouverDBManager:
    """A manager as Airflow makes it; Airflow's session is nothing that it needs."""
    monkeypatch.setattr(LouverDBManager, "_told", set())
    return LouverDBManager(None)


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty ledger, which is configured."""
    if request.param == "sqlite":
        url = f"sqlite:///{home / 'louver.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", url)
    return str(url)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was logged since the last call, as ``LEVEL text``."""
    caplog.set_level(logging.INFO, "louver_provider")

    def lines() -> list[str]:
        found = [
            f"{record.levelname} {record.getMessage()}"
            for record in caplog.records
            if record.name.startswith("louver_provider")
        ]
        caplog.clear()
        return found

    return lines


def set_revision(url: str, revision: str) -> None:
    """As if another release had made the ledger."""
    engines = Engines(parse_url(url))
    try:
        with engines.begin() as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :new"), {"new": revision})
    finally:
        engines.close()


def test_airflow_finds_the_manager_and_takes_it() -> None:
    found = RunDBManager()
    found.validate()
    assert LouverDBManager in found._managers
    assert {"louver_run", "louver_alembic_version"} <= found.get_required_table_names()


@pytest.mark.parametrize("method", ["initdb", "upgradedb"])
def test_an_empty_ledger_is_made_and_a_second_time_changes_nothing(
    method: str, manager: LouverDBManager, ledger_url: str, told: Callable[[], list[str]]
) -> None:
    for _ in range(2):
        getattr(manager, method)(use_migration_files=True)
        assert manager.get_current_revision() == HEAD
        assert manager.check_migration()
    assert {line.split()[0] for line in told()} == {"INFO"}
    open_ledger(ledger_url, settings.load_signing_keys()).close()


def test_of_a_ledger_in_memory_each_command_says_that_there_is_none(
    manager: LouverDBManager, monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "memory://")
    why = "[louver] ledger_url is memory://, which lives and ends with one process."
    cure = "name a SQLite file or a Postgres database"
    manager.initdb()
    manager.upgradedb()
    manager.create_db_from_orm()
    lines = told()
    assert [line.startswith(f"ERROR Louver has no ledger to migrate: {why}") for line in lines] == [True] * 3
    assert [line.endswith(cure) for line in lines] == [True] * 3

    # It keeps nobody from starting, is asked every second, and says so once.
    assert manager.check_migration()
    assert manager.check_migration()
    (line,) = told()
    assert line == lines[0]

    manager.drop_tables(None)
    (line,) = told()
    assert line.startswith(f"WARNING Louver has no ledger that could be kept: {why}")
    assert manager.get_current_revision() is None


def test_a_ledger_without_tables_is_pending_and_asking_makes_nothing(
    manager: LouverDBManager, home: Path, ledger_url: str, told: Callable[[], list[str]]
) -> None:
    assert not manager.check_migration()
    assert not manager.check_migration()
    (line,) = told()
    assert line.startswith("ERROR Louver's ledger")
    assert "has no schema yet; run `airflow db migrate` or `airflow louver db upgrade`" in line
    assert manager.get_current_revision() is None
    assert not (home / "louver.db").exists()


def test_an_earlier_schema_is_pending(
    manager: LouverDBManager, ledger_url: str, told: Callable[[], list[str]]
) -> None:
    manager.initdb()
    told()
    set_revision(ledger_url, "0001")
    assert not manager.check_migration()
    (line,) = told()
    assert f"has revision 0001, this release works with {HEAD}; run `airflow db migrate`" in line


def test_a_newer_schema_is_an_error_and_nothing_to_wait_for(
    manager: LouverDBManager, ledger_url: str, told: Callable[[], list[str]]
) -> None:
    manager.initdb()
    told()
    set_revision(ledger_url, "9999")
    assert manager.check_migration()
    manager.upgradedb()
    checked, migrated = told()
    assert "has revision 9999, which this release does not know" in checked
    assert migrated.startswith("ERROR Louver's ledger was not migrated: ")
    assert "unknown to this release" in migrated
    assert manager.get_current_revision() == "9999"


BROKEN = {
    "sqlite:////nowhere/at/all/louver.db": "the directory /nowhere/at/all does not exist",
    "postgresql://u:secret-zq7@127.0.0.1:1/none": "check that the server runs",
    "mysql://u:secret-zq7@host/db": "no driver",
}


@pytest.mark.parametrize("url", BROKEN)
def test_trouble_with_the_ledger_is_one_error_and_never_airflows(
    url: str, manager: LouverDBManager, monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", url)
    manager.initdb()
    manager.upgradedb(use_migration_files=True)
    assert manager.check_migration()
    assert manager.check_migration()
    migrated, checked = told()
    for line in (migrated, checked):
        assert line.startswith("ERROR Louver's ledger ")
        assert BROKEN[url] in line
        assert "secret-zq7" not in line


def test_settings_that_cannot_be_used_are_not_airflows_trouble_either(
    manager: LouverDBManager, monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__MAX_VALUE_BYTES", "lots")
    manager.initdb()
    assert manager.check_migration()
    manager.drop_tables(None)
    assert [line.split()[0] for line in told()] == ["ERROR", "ERROR", "WARNING"]


def test_a_defect_in_the_migration_is_not_airflows_trouble_either(
    manager: LouverDBManager, monkeypatch: pytest.MonkeyPatch, told: Callable[[], list[str]]
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("louver_provider.db_manager.upgrade", broken)
    manager.initdb()
    assert told() == ["ERROR Louver's ledger was not migrated; Airflow's own database was"]


def test_a_reset_of_airflow_keeps_the_ledger_and_says_where_it_is(
    manager: LouverDBManager, ledger_url: str, told: Callable[[], list[str]]
) -> None:
    manager.initdb()
    told()
    manager.drop_tables(None)
    manager.initdb()
    assert manager.get_current_revision() == HEAD
    kept, migrated = told()
    assert kept.startswith("WARNING Louver's ledger ")
    assert "is kept" in kept
    assert "by hand" in kept
    assert migrated.startswith("INFO")


@pytest.mark.parametrize(
    "command",
    [
        lambda manager: manager.resetdb(),
        lambda manager: manager.resetdb(skip_init=True),
        lambda manager: manager.downgrade("0001"),
        lambda manager: manager.upgradedb(to_revision="0001"),
        lambda manager: manager.upgradedb(show_sql_only=True),
        lambda manager: manager.upgradedb(from_revision="0001"),
    ],
)
def test_what_would_drop_or_turn_back_is_refused(
    command: Callable[[LouverDBManager], None], manager: LouverDBManager, ledger_url: str
) -> None:
    manager.initdb()
    with pytest.raises(SystemExit, match="Louver's ledger: "):
        command(manager)
    assert manager.get_current_revision() == HEAD
