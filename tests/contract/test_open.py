"""Opening a ledger: what can be named, and what is said where it cannot be used."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

import psycopg2
import pytest

from louver.errors import (
    ConfigurationError,
    LedgerClosed,
    LedgerError,
    LedgerSchemaError,
    LedgerUnavailable,
)
from louver.ledger import open_ledger
from louver.ledger.records import EventRecord, PayloadRecord
from louver.ledger.sql.schema import upgrade
from louver.signing import SigningKeys

SECRET = "Hunter2-hunter2!"
PAYLOAD = PayloadRecord(payload_id="p", envelope=b"x", saved_at=datetime(2026, 1, 1, tzinfo=timezone.utc))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def url(request, path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{path}"


def accept(ledger, secret="event"):
    given = {"dag_id": "d", "payload_fingerprint": "f" * 64, "run_id": "r", "now": PAYLOAD.saved_at}
    return ledger.accept_event(identity=secret, event={"data": secret}, **given)


def use(ledger):
    with ledger._transaction(write=True) as rows:
        assert rows.insert(PAYLOAD)
    ledger.close()


def test_memory_is_new_each_time():
    one, other = open_ledger("memory://"), open_ledger("memory://")
    use(one)
    use(other)


def test_an_absolute_path(path):
    use(open_ledger(f"sqlite:///{path}"))
    with open_ledger(f"sqlite:///{path}")._transaction(write=True) as rows:
        assert rows.get(PayloadRecord, "p") == PAYLOAD


def test_a_relative_path_keeps_its_meaning(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger("sqlite:///ledger.db")
    monkeypatch.chdir(tmp_path / "other")
    use(ledger)
    assert list((tmp_path / "other").iterdir()) == []
    assert (tmp_path / "ledger.db").exists()


def test_a_file_name_with_unusual_characters(tmp_path):
    directory = tmp_path / "ä b%20c'd"
    directory.mkdir()
    use(open_ledger(f"sqlite:///{quote(str(directory / 'led ger.db'))}"))
    assert (directory / "led ger.db").exists()


def test_sqlite_is_set_up_to_be_safe(path):
    ledger = open_ledger(f"sqlite:///{path}")
    with ledger._engines.begin() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    ledger.close()
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 30_000, "foreign_keys": 0}


@pytest.mark.parametrize(
    ("keys", "current"),
    [
        (None, "-"),
        ("new:0123456789abcdef,old:fedcba9876543210", "new"),
        ({"k": b"0123456789abcdef"}, "k"),
        (SigningKeys.unsigned(), "-"),
    ],
    ids=["none", "text", "mapping", "keys"],
)
@pytest.mark.parametrize("url", ["memory", "sqlite", "postgresql"], indirect=True)
def test_keys_come_in_several_forms(url, keys, current):
    ledger = open_ledger(url, keys=keys)
    assert ledger._keys.current == current
    ledger.close()


@pytest.mark.parametrize("keys", ["", "no-separator", {"k": b"short"}, 5, [("k", b"0123456789abcdef")]])
def test_keys_that_cannot_be_used_are_refused_before_anything_is_opened(keys, path):
    with pytest.raises(ConfigurationError):
        open_ledger(f"sqlite:///{path}", keys=keys)
    assert not path.exists()


@pytest.mark.parametrize(
    ("url", "way_out"),
    [
        (None, "memory://"),
        ("", "memory://"),
        ("  ", "memory://"),
        (Path("ledger.db"), "memory://"),
        ("ledger.db", "sqlite:///"),
        (f"me:{SECRET}@host/db", "postgresql://"),
        (f"mysql://me:{SECRET}@host/db", "postgresql://"),
        (f"postgres://me:{SECRET}@host/db", "postgresql://"),
        (f"postgresql+asyncpg://me:{SECRET}@host/db", "postgresql://"),
        (f"postgresql://me:{SECRET}@host:port/db", "%XX"),
        ("memory://name", "memory://"),
        ("sqlite://", "memory://"),
        ("sqlite:///", "memory://"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///file::memory:?uri=true", "memory://"),
        ("sqlite:///file:x?mode=memory&uri=true", "memory://"),
        ("sqlite://ledger.db", "three slashes"),
        ("sqlite:///ledger.db?mode=ro", "uri=true"),
        ("sqlite:///ledger.db?timeout=long", "number of seconds"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_way_out(url, way_out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        open_ledger(url)
    assert way_out in str(caught.value)
    assert SECRET not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def refused(url):
    """Open, see it refused, and return what was said; it names the place."""
    with pytest.raises(LedgerUnavailable) as caught:
        open_ledger(url)
    return str(caught.value)


def test_a_directory_that_does_not_exist(tmp_path):
    said = refused(f"sqlite:///{tmp_path}/missing/ledger.db")
    assert f"directory {tmp_path}/missing does not exist" in said
    assert not (tmp_path / "missing").exists()


def test_a_path_that_is_a_directory(tmp_path):
    assert "that is a directory" in refused(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("content", [b"no database " * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database(path, content):
    path.write_bytes(content)
    said = refused(f"sqlite:///{path}")
    assert str(path) in said
    assert "damaged" in said
    assert path.read_bytes() == content


def test_a_file_opened_read_only(path):
    open_ledger(f"sqlite:///{path}").close()
    said = refused(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert "let this user write the file and its directory" in said


def test_a_locked_ledger_says_so_at_start_and_in_use(path):
    ledger = open_ledger(f"sqlite:///{path}?timeout=0.05")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert "another process kept it" in refused(f"sqlite:///{path}?timeout=0.05")
    with pytest.raises(LedgerUnavailable, match="another process kept it"):
        accept(ledger)
    holder.execute("ROLLBACK")
    holder.close()
    use(ledger)


def test_a_file_locked_before_it_became_a_ledger(path):
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert "another process kept it" in refused(f"sqlite:///{path}?timeout=0.05")
    holder.close()
    use(open_ledger(f"sqlite:///{path}"))


AS_NOBODY = """
import os, sys
from louver.errors import LedgerUnavailable
from louver.ledger import open_ledger
# Everything is loaded while it may be read; the sources may lie in a directory of root's.
open_ledger(f"sqlite:///{sys.argv[1]}/own.db").close()
os.setgid(65534)
os.setuid(65534)
try:
    open_ledger(f"sqlite:///{sys.argv[1]}/{sys.argv[2]}")
except LedgerUnavailable as error:
    print(error)
else:
    sys.exit("opened")
"""


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become somebody else"
)
@pytest.mark.parametrize(
    ("mode", "file_mode", "expected"),
    [
        (0o777, 0o644, "let this user write"),
        (0o755, 0o666, "let this user write"),
        (0o755, None, "let this user write"),
        (0o700, 0o666, "cannot be entered"),
    ],
    ids=["file", "directory", "new file", "closed directory"],
)
def test_what_another_user_may_not_write(mode, file_mode, expected):
    # Not tmp_path: the directories above it are closed to others.
    with tempfile.TemporaryDirectory(prefix="louver-") as name:
        inside = Path(name) / "inside"
        inside.mkdir()
        if file_mode is not None:
            open_ledger(f"sqlite:///{inside}/ledger.db").close()
            (inside / "ledger.db").chmod(file_mode)
        Path(name).chmod(0o755)
        inside.chmod(mode)
        result = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(inside), "ledger.db"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert f"{inside}/ledger.db" in result.stdout
        assert expected in result.stdout


def test_an_unreachable_server_is_named_without_the_password():
    # Port 1 is never served; refused at once.
    said = refused(f"postgresql://me:{SECRET}@127.0.0.1:1/db?password={SECRET}")
    assert "postgresql://me:***@127.0.0.1:1/db" in said
    assert "check that the server runs" in said
    assert SECRET not in said


def change(url, statement):
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        connection = psycopg2.connect(url)
    with closing(connection), closing(connection.cursor()) as cursor:
        cursor.execute(statement)
        connection.commit()


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_no_error_or_traceback_of_the_database_shows_what_was_to_be_stored(url):
    ledger = open_ledger(url)
    change(url, "ALTER TABLE louver_payload RENAME TO elsewhere")
    with pytest.raises(LedgerSchemaError) as caught:
        accept(ledger, SECRET)
    ledger.close()
    assert "airflow louver db upgrade" in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("table", ["louver_event", "louver_payload"])
def test_what_postgres_quotes_of_a_row_is_not_passed_on(postgres_url, table):
    ledger = open_ledger(postgres_url)
    change(postgres_url, f"ALTER TABLE {table} ADD CONSTRAINT never CHECK (false)")
    with pytest.raises(LedgerError, match="nothing was written") as caught:
        accept(ledger, SECRET)
    assert ledger.load_event("d", SECRET) is None
    ledger.close()
    assert f'"{table}" violates check constraint' in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_full_disk_is_told_and_writes_nothing(path):
    ledger = open_ledger(f"sqlite:///{path}")
    with ledger._engines.begin() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 4}")
    with pytest.raises(LedgerUnavailable, match="disk"):
        accept(ledger, "x" * 1_000_000)
    with ledger._transaction(write=False) as rows:
        assert rows.find(EventRecord) == rows.find(PayloadRecord) == []
    ledger.close()


@pytest.mark.parametrize("url", ["memory", "sqlite", "postgresql"], indirect=True)
def test_use_after_close_is_a_clear_error(url):
    ledger = open_ledger(url)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerClosed, match="open it again"):
        accept(ledger)
    with pytest.raises(LedgerClosed, match="open it again"):
        ledger.load_event("d", "event")


@pytest.mark.parametrize("url", ["memory", "sqlite", "postgresql"], indirect=True)
def test_the_text_form_of_a_ledger_has_no_password(url, path):
    ledger = open_ledger(url, keys=f"k:{SECRET}")
    shown = repr(ledger)
    ledger.close()
    assert SECRET not in shown
    if url.startswith("sqlite"):
        assert shown == f"SqlLedger('sqlite:///{path}')"
    if url.startswith("postgresql"):
        address = url.partition("@")[2].partition("?")[0]
        assert shown == f"PostgresLedger('postgresql://louver:***@{address}')"


@pytest.mark.parametrize("url", ["memory://", "sqlite://", "mysql://host/db", "sqlite:////nowhere/at/all.db"])
def test_upgrade_refuses_what_it_cannot_upgrade(url):
    with pytest.raises((ConfigurationError, LedgerUnavailable)):
        upgrade(url)
