"""The schema: tables, migrations and records are one and the same thing, and an unfit one is refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import typing
from contextlib import closing
from dataclasses import fields
from types import NoneType

import psycopg2
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from louver.errors import LedgerError, LedgerSchemaError
from louver.ledger import open_ledger
from louver.ledger.records import RECORDS
from louver.ledger.sql.schema import HEAD, MIGRATIONS, upgrade
from louver.ledger.sql.tables import METADATA, PREFIX, TABLES, VERSION_TABLE


class Sqlite:
    """A file, looked at from outside."""

    def __init__(self, path):
        self.path = path
        self.url = f"sqlite:///{path}"

    def execute(self, statement):
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def tables(self):
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def everything(self):
        return self.path.read_bytes()


class Postgres:
    """A schema, looked at from outside."""

    def __init__(self, url):
        self.url = url

    def execute(self, statement):
        with closing(psycopg2.connect(self.url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []

    def tables(self):
        found = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return {name for (name,) in found}

    def everything(self):
        # xmin is the transaction that wrote the row last.
        return self.execute(
            "SELECT oid, relname, xmin::text FROM pg_class "
            "WHERE relnamespace = current_schema()::regnamespace "
            f"UNION ALL SELECT 0, version_num, xmin::text FROM {VERSION_TABLE} ORDER BY 1"
        )


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return Sqlite(tmp_path / "ledger.db")
    return Postgres(request.getfixturevalue("postgres_url"))


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


def test_the_migrations_lead_to_the_tables(database):
    ledger = open_ledger(database.url)
    with ledger._engines.begin() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": VERSION_TABLE}
        )
        assert compare_metadata(context, METADATA) == []
        # What autogeneration does not compare.
        for table in METADATA.tables.values():
            made = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
            assert made == [column.name for column in table.primary_key]
    ledger.close()


def test_no_index_in_postgres_depends_on_how_the_system_sorts(postgres_url):
    # A later C library may sort otherwise, and an index that was built by the earlier one is corrupt then.
    open_ledger(postgres_url).close()
    found = Postgres(postgres_url).execute(
        "SELECT relname, collname FROM pg_index "
        "JOIN pg_class ON pg_class.oid = indexrelid, unnest(indcollation) AS used "
        "JOIN pg_collation ON pg_collation.oid = used "
        f"WHERE relnamespace = current_schema()::regnamespace AND relname LIKE '{PREFIX}%' "
        f"AND indrelid <> '{VERSION_TABLE}'::regclass"
    )
    assert found
    assert [row for row in found if row[-1] != "C"] == []


def test_the_head_that_is_known_without_alembic_is_alembics():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_an_open_of_a_finished_ledger_does_not_load_alembic(database):
    upgrade(database.url)
    code = (
        "import sys\nfrom louver.ledger import open_ledger\n"
        "open_ledger(sys.argv[1]).close()\nprint('alembic' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, database.url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout == "False\n"


def test_upgrade_makes_the_schema_and_may_be_repeated(database):
    upgrade(database.url)
    before = database.everything()
    upgrade(database.url)
    assert database.everything() == before
    assert database.tables() == {*METADATA.tables, VERSION_TABLE}


def test_tables_of_others_are_left_alone(database):
    database.execute("CREATE TABLE alembic_version (version_num TEXT)")
    database.execute("INSERT INTO alembic_version VALUES ('x')")
    open_ledger(database.url).close()
    assert database.execute("SELECT * FROM alembic_version") == [("x",)]


@pytest.mark.parametrize("revision", ["0000", "9999"])
def test_another_revision_is_refused_and_left_alone(database, revision):
    upgrade(database.url)
    database.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    with pytest.raises(LedgerSchemaError, match="airflow louver db upgrade") as caught:
        open_ledger(database.url)
    assert revision in str(caught.value)
    with pytest.raises(LedgerSchemaError, match="unknown to this release"):
        upgrade(database.url)
    assert database.execute(f"SELECT version_num FROM {VERSION_TABLE}") == [(revision,)]


@pytest.mark.parametrize("change", [f"DROP TABLE {VERSION_TABLE}", f"DELETE FROM {VERSION_TABLE}"])
@pytest.mark.parametrize("way", [open_ledger, upgrade])
def test_tables_without_a_revision_are_refused(database, change, way):
    upgrade(database.url)
    database.execute(change)
    with pytest.raises(LedgerSchemaError, match="no revision"):
        way(database.url)


def test_a_migration_that_fails_leaves_nothing_behind(database):
    database.execute("CREATE TABLE t (a INTEGER)")
    database.execute(f"CREATE INDEX {PREFIX}event_by_run ON t (a)")
    with pytest.raises(LedgerError, match=r'event_by_run"? already exists'):
        upgrade(database.url)
    assert database.tables() == {"t"}


def test_processes_that_open_an_empty_ledger_at_once_all_succeed(database):
    code = (
        "import sys\nfrom louver.ledger import open_ledger\nimport louver.ledger.sql.store\n"
        "print('ready', flush=True)\nsys.stdin.readline()\nopen_ledger(sys.argv[1]).close()"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, database.url],
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
    assert database.execute(f"SELECT version_num FROM {VERSION_TABLE}") == [(HEAD,)]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_threads_that_open_empty_ledgers_at_once_all_succeed(store, tmp_path, request):
    if store == "sqlite":
        urls = [f"sqlite:///{tmp_path / name}.db" for name in "ab"]
    else:
        server = request.getfixturevalue("postgres")
        urls = [server.fresh_schema() for _ in "ab"]
    failures = []

    def work(url):
        try:
            open_ledger(url).close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(url,)) for url in urls * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_directory_of_the_process_does_not_matter(database, tmp_path, monkeypatch):
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = nowhere\n")
    monkeypatch.chdir(tmp_path)
    open_ledger(database.url).close()
    assert VERSION_TABLE in database.tables()
