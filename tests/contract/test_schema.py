"""The schema: tables, migrations and records are one and the same thing, and an unfit one is refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import typing
from dataclasses import fields
from types import NoneType

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from louver.errors import LedgerError, LedgerSchemaError
from louver.ledger import open_ledger
from louver.ledger.records import RECORDS
from louver.ledger.sql.schema import HEAD, MIGRATIONS, upgrade
from louver.ledger.sql.tables import METADATA, PREFIX, TABLES, VERSION_TABLE


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def execute(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    found = [connection.execute(statement).fetchall() for statement in statements]
    connection.close()
    return found[-1]


def tables(path):
    return {name for (name,) in execute(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_each_record_class_has_a_table_with_its_fields_and_its_primary_key():
    assert set(TABLES) == set(RECORDS)
    for kind, table in TABLES.items():
        assert table.name == PREFIX + kind.TABLE
        assert [column.name for column in table.columns] == [entry.name for entry in fields(kind)]
        assert tuple(column.name for column in table.primary_key) == kind.PRIMARY
        assert not table.foreign_keys
        for name, hint in typing.get_type_hints(kind).items():
            if name in table.c:
                assert table.c[name].nullable == (NoneType in typing.get_args(hint)), f"{table.name}.{name}"


def test_every_name_has_the_prefix():
    names = [
        name for table in METADATA.tables.values() for name in (table.name, *(i.name for i in table.indexes))
    ]
    assert [name for name in names if not name.startswith(PREFIX)] == []


def test_the_migrations_lead_to_the_tables(path):
    ledger = open_ledger(f"sqlite:///{path}")
    with ledger._engines.begin() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": VERSION_TABLE}
        )
        assert compare_metadata(context, METADATA) == []
        # What autogeneration does not compare.
        for table in METADATA.tables.values():
            made = connection.exec_driver_sql(f"PRAGMA table_info({table.name})").all()
            in_key = [row.name for row in sorted(made, key=lambda row: row.pk) if row.pk]
            assert in_key == [column.name for column in table.primary_key]
    ledger.close()


def test_the_head_that_is_known_without_alembic_is_alembics():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_an_open_of_a_finished_ledger_does_not_load_alembic(path):
    upgrade(f"sqlite:///{path}")
    code = (
        "import sys\nfrom louver.ledger import open_ledger\n"
        f"open_ledger('sqlite:///{path}').close()\nprint('alembic' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout == "False\n"


def test_upgrade_makes_the_schema_and_may_be_repeated(path):
    upgrade(f"sqlite:///{path}")
    before = path.read_bytes()
    upgrade(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert tables(path) == {*METADATA.tables, VERSION_TABLE}


def test_tables_of_others_are_left_alone(path):
    execute(
        path, "CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('x')"
    )
    open_ledger(f"sqlite:///{path}").close()
    assert execute(path, "SELECT * FROM alembic_version") == [("x",)]


@pytest.mark.parametrize("revision", ["0000", "9999"])
def test_another_revision_is_refused_and_left_alone(path, revision):
    upgrade(f"sqlite:///{path}")
    execute(path, f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    with pytest.raises(LedgerSchemaError, match="airflow louver db upgrade") as caught:
        open_ledger(f"sqlite:///{path}")
    assert revision in str(caught.value)
    with pytest.raises(LedgerSchemaError, match="unknown to this release"):
        upgrade(f"sqlite:///{path}")
    assert execute(path, f"SELECT version_num FROM {VERSION_TABLE}") == [(revision,)]


@pytest.mark.parametrize("change", [f"DROP TABLE {VERSION_TABLE}", f"DELETE FROM {VERSION_TABLE}"])
@pytest.mark.parametrize("way", [open_ledger, upgrade])
def test_tables_without_a_revision_are_refused(path, change, way):
    upgrade(f"sqlite:///{path}")
    execute(path, change)
    with pytest.raises(LedgerSchemaError, match="no revision"):
        way(f"sqlite:///{path}")


def test_a_migration_that_fails_leaves_nothing_behind(path):
    execute(path, "CREATE TABLE t (a)", f"CREATE INDEX {PREFIX}event_by_run ON t (a)")
    with pytest.raises(LedgerError, match="event_by_run already exists"):
        upgrade(f"sqlite:///{path}")
    assert tables(path) == {"t"}


def test_processes_that_open_an_empty_ledger_at_once_all_succeed(path):
    code = (
        "import sys\nfrom louver.ledger import open_ledger\nimport louver.ledger.sql.store\n"
        "print('ready', flush=True)\nsys.stdin.readline()\nopen_ledger(sys.argv[1]).close()"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"sqlite:///{path}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors
    assert execute(path, f"SELECT version_num FROM {VERSION_TABLE}") == [(HEAD,)]


def test_threads_that_open_empty_ledgers_at_once_all_succeed(tmp_path):
    failures = []

    def work(name):
        try:
            open_ledger(name).close()
        except Exception as error:
            failures.append(error)

    names = [f"sqlite:///{tmp_path / str(number % 2)}.db" for number in range(6)]
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_directory_of_the_process_does_not_matter(path, tmp_path, monkeypatch):
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = nowhere\n")
    monkeypatch.chdir(tmp_path)
    open_ledger(f"sqlite:///{path}").close()
    assert VERSION_TABLE in tables(path)
