"""Engines: from a ledger's URL to connections that are set up as the ledger needs them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy import __version__ as sqlalchemy_version
from sqlalchemy.exc import ArgumentError

from louver.errors import ConfigurationError, LedgerUnavailable
from louver.ledger.sql.faults import place_of
from louver.ledger.sql.forks import taking, watch

__all__ = ["Engines", "parse_url"]

_BUSY_SECONDS = 30
_READING = "louver_reading"
_ONE_MOMENT = "REPEATABLE READ"
_SQLITE_OPTIONS = {"uri", "timeout", "check_same_thread", "cached_statements"}


def parse_url(text: str) -> URL:
    """
    The URL, with the driver that Louver uses and, for SQLite, an absolute path.

    A relative path is taken from where the process stands now: it must name the same file after a fork and a
    change of directory.

    :raises ConfigurationError: for a URL that cannot be used; the message never repeats it, for its password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "the ledger URL cannot be read; write special characters of a password as %XX"
        ) from None
    if url.database and sqlalchemy_version.startswith("2.0."):
        # Python 3.10 has no SQLAlchemy 2.1, which reads the database's name as a URL's part should be read.
        url = url.set(database=unquote(url.database))
    if url.drivername in ("postgresql", "postgresql+psycopg2"):
        return url.set(drivername="postgresql+psycopg2")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return _sqlite_url(url)
    raise ConfigurationError(
        f"the ledger has no driver {url.drivername!r}; begin its URL with sqlite:/// or postgresql://"
    )


def _sqlite_url(url: URL) -> URL:
    if url.host or url.username or url.password or url.port:
        raise ConfigurationError(
            "a SQLite URL has three slashes before a relative path and four before an absolute one"
        )
    options = dict(url.query)
    as_uri = str(options.get("uri", "")).lower() in ("true", "1", "yes", "on")
    if not url.database or ":memory:" in url.database or (as_uri and options.get("mode") == "memory"):
        raise ConfigurationError(
            "SQLite in memory is no ledger: each connection would see its own; use memory://"
        )
    unknown = sorted(set(options) - _SQLITE_OPTIONS)
    if unknown and not as_uri:
        raise ConfigurationError(
            f"SQLite options {', '.join(unknown)} need the form sqlite:///file:/path?{unknown[0]}=...&uri=true"
        )
    try:
        float(str(options.get("timeout", _BUSY_SECONDS)))
    except ValueError:
        raise ConfigurationError("the timeout in a SQLite URL is a number of seconds") from None
    if as_uri:
        return url.set(drivername="sqlite+pysqlite")
    return url.set(drivername="sqlite+pysqlite", database=str(Path(url.database).absolute()))


class Engines:
    """
    The engine of this process, made when it is first asked for.

    A forked child must not touch the pool it inherited: two processes would talk over one socket, and a lock
    that was held at the fork stays locked for ever. So engines are kept by process id, without a lock, and an
    inherited one is left alone, not even closed. For SQLite that is not enough, see :mod:`.forks`.

    :param url: what :func:`parse_url` returned.
    """

    def __init__(self, url: URL) -> None:
        self.url = url
        self._engines: dict[int, Engine] = {}
        self._held: set[object] = set()
        self._spoiled = False
        self._sqlite = url.get_backend_name() == "sqlite"
        if self._sqlite:
            watch(self)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction that may write: committed at the end, rolled back by any exception."""
        with self.connect(write=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def connect(self, *, write: bool) -> Iterator[Connection]:
        """
        A connection without a transaction yet.

        :param write: the transaction may write; one that only reads sees one moment throughout.
        """
        if not self._sqlite:
            with self._current().connect() as connection:
                yield connection if write else connection.execution_options(isolation_level=_ONE_MOMENT)
            return
        if self._spoiled:
            raise LedgerUnavailable(
                f"ledger {place_of(self.url)}: this process was forked in the middle of a transaction of its "
                "parent's, after which SQLite cannot be trusted in it; start it by spawn, or fork earlier"
            )
        holding = object()
        try:
            with taking():
                self._held.add(holding)
                taken = self._current().connect()
            with taken as connection:
                yield connection.execution_options(**{_READING: not write})
        finally:
            self._held.discard(holding)

    @property
    def current(self) -> Engine:
        """The engine of this process."""
        return self._current()

    def release(self) -> bool:
        """Close the connections that are idle; False, and nothing done, while one is in use."""
        if self._held:
            return False
        self.close()
        return True

    def spoil(self) -> None:
        """Refuse to work from now on."""
        self._spoiled = True

    def close(self) -> None:
        """Close the connections of this process; twice is fine."""
        engine = self._engines.pop(os.getpid(), None)
        if engine is not None:
            engine.dispose()

    def _current(self) -> Engine:
        process = os.getpid()
        # Of two threads that get here at once one makes an engine that nobody uses; it never connects.
        return self._engines.get(process) or self._engines.setdefault(process, _make_engine(self.url))


def _make_engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    # Only now: who has SQLite alone needs nothing of it.
    from louver.ledger.sql.postgres.engine import postgres_engine

    return postgres_engine(url)


def _sqlite_engine(url: URL) -> Engine:
    waiting = float(str(url.query.get("timeout", _BUSY_SECONDS)))
    # Values of rows never stand in an error message (product row O9). Connections are cheap here and wait for
    # each other at BEGIN anyway, so the pool has no limit.
    engine = create_engine(url, connect_args={"timeout": waiting}, hide_parameters=True, max_overflow=-1)

    def connected(connection: Any, _: Any) -> None:
        # The driver must not begin transactions by itself; `begun` does it (see there).
        connection.isolation_level = None
        try:
            _use_wal(connection, waiting)
            # In WAL mode, NORMAL could lose the last commits at a power cut: an effect that was done would be
            # forgotten. FULL makes every commit wait for the disk.
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=OFF")
        except BaseException:
            connection.close()
            raise

    def begun(connection: Connection) -> None:
        # The sqlite3 driver's own transactions begin at the first INSERT or UPDATE, not at the SELECT that
        # decides what to write, and none at all for DDL. SQLAlchemy's documented way around it is to switch
        # them off and emit BEGIN here ("Enabling Non-Legacy SQLite Transactional Modes"); `autocommit=False`
        # needs Python 3.12 and begins DEFERRED. IMMEDIATE takes the write lock at once and waits for it: a
        # DEFERRED one fails without waiting when it wants to write what another has changed meanwhile.
        # Who only reads takes no lock and waits for nobody: WAL shows it the last commit throughout.
        reading = connection.get_execution_options().get(_READING, False)
        connection.exec_driver_sql("BEGIN DEFERRED" if reading else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


def _use_wal(connection: Any, waiting: float) -> None:
    """Switch to the write-ahead log; kept in the file, so this does something only once."""
    deadline = time.monotonic() + waiting
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except Exception as error:
            # Two processes that switch a new file at once would deadlock, so SQLite refuses one of them
            # without the usual waiting.
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.02)
