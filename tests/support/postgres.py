"""
A Postgres server of one's own, for tests, benchmarks and crash tests.

It listens on a free port of 127.0.0.1 and takes passwords only, by SCRAM. What it keeps is in a temporary
directory. However its starter ends, it is stopped and its directory removed (see :mod:`.guard`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg2
from psycopg2 import sql

from support.postgres_binaries import PostgresUnavailable, User, find_binaries, server_user
from support.processes import alive, children_of, free_port

__all__ = ["AWKWARD", "PostgresServer", "PostgresUnavailable", "Role", "sql"]

AWKWARD = "p@ss:w/ö rd%41'\"#?&=\\$`;--{x}"
"""A password with all that is special in a URL, a DSN, SQL or a shell."""

_HOST = "127.0.0.1"
_GUARD = Path(__file__).with_name("guard.py")
_START_SECONDS = 60.0
_STEP_SECONDS = 0.02

# A crash of the server, not of the machine, is what tests make: the system keeps what was written without a
# sync. The server's own time zone is none that a test could take for UTC, and needs no zone files.
_SETTINGS = {
    "autovacuum": "off",
    "dynamic_shared_memory_type": "mmap",
    "fsync": "off",
    "full_page_writes": "off",
    "log_min_messages": "warning",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "shared_buffers": "32MB",
    "timezone": "<+0545>-05:45",
}


@dataclass(frozen=True, slots=True)
class Role:
    """Who connects."""

    name: str
    password: str


class PostgresServer:
    """
    A server with one role that is no superuser, :attr:`role`, and one database of that role.

    :param settings: of ``postgresql.conf``, over those that make it small and fast; for a benchmark, say,
        ``{"fsync": "on", "full_page_writes": "on"}``.
    :param tls: certificate and key in PEM, as text; then connections may be encrypted.
    :param packaged: run the package's programs, even where the system has some.

    It is a context manager, which starts and stops it.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        tls: tuple[str, str] | None = None,
        packaged: bool = False,
    ) -> None:
        self.role = Role("louver", AWKWARD)
        self.database = "louver"
        self.port = 0
        self._settings = {**_SETTINGS, **(settings or {})}
        self._tls = tls
        self._packaged = packaged
        self._superuser = Role("admin", secrets.token_urlsafe())
        self._numbers = itertools.count(1)
        self._user: User | None = None
        self._programs = Path()
        self._directory: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """
        Start it; again after :meth:`kill` or :meth:`shut_down`, with the same port and data.

        :raises PostgresUnavailable: where there are no programs, or nobody to run them.
        """
        if self.running:
            return
        if self._directory is None:
            try:
                self._prepare()
                self._launch()
                self._furnish()
            except BaseException:
                self.stop()
                raise
        else:
            self._launch()

    def stop(self) -> None:
        """Stop it for good, and remove what it kept; twice is fine."""
        if self._guard is not None:
            # No word: nothing is worth keeping. The guard may remove the directory, or leave it to us.
            self._guard.stdin.close()
            self._gone()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def shut_down(self) -> None:
        """Stop it, ending all sessions; :meth:`start` brings it back."""
        if self._guard is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(b"k")
                self._guard.stdin.flush()
            self._gone()

    def kill(self) -> None:
        """Kill all of its processes at once, as a crash does; :meth:`start` brings it back."""
        if not self.running:
            return
        server = int((self._data / "postmaster.pid").read_text().split("\n")[0])
        # It must not see its children die and begin to recover by itself.
        os.kill(server, signal.SIGSTOP)
        children = children_of(server)
        for process in (*children, server):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # Closing its end of the pipe only now: the guard would have stopped the server in good order.
        self._gone()
        while any(alive(child) for child in children):
            time.sleep(_STEP_SECONDS)

    def restart(self) -> None:
        """Stop it in good order, ending all sessions, and start it again."""
        self.shut_down()
        self.start()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._guard is not None and self._guard.poll() is None

    def url(self, *, database: str | None = None, role: Role | None = None, **query: str) -> str:
        """
        The URL of a ledger there.

        :param query: of the URL, as ``sslmode="verify-full"``.
        """
        who = role or self.role
        name = f"{quote(who.name, safe='')}:{quote(who.password, safe='')}"
        asked = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return f"postgresql://{name}@{_HOST}:{self.port}/{quote(database or self.database, safe='')}{asked}"

    def fresh_schema(self, *, role: Role | None = None, **query: str) -> str:
        """Make an empty schema that belongs to the role, and return the URL that leads into it."""
        schema = f"s{next(self._numbers)}"
        who = role or self.role
        self.execute(
            sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(
                sql.Identifier(schema), sql.Identifier(who.name)
            ),
            database=self.database,
        )
        return self.url(role=who, **{"options": f"-csearch_path={schema}", **query})

    def fresh_database(self, name: str | None = None, *, role: Role | None = None) -> str:
        """Make an empty database that belongs to the role, and return its name."""
        name = name or f"d{next(self._numbers)}"
        self.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier((role or self.role).name)
            )
        )
        return name

    def fresh_role(self, name: str | None = None, *, password: str = AWKWARD) -> Role:
        """Make a role that may connect and nothing more."""
        role = Role(name or f"r{next(self._numbers)}", password)
        self.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(role.name), sql.Literal(role.password)
            )
        )
        return role

    def execute(
        self, statement: str | sql.Composable, values: Sequence[Any] = (), *, database: str = "postgres"
    ) -> list[tuple[Any, ...]]:
        """Run one statement as superuser, in autocommit, and return its rows."""
        with self.connect(role=self._superuser, database=database) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return [] if cursor.description is None else cursor.fetchall()

    @contextlib.contextmanager
    def connect(
        self, *, database: str | None = None, role: Role | None = None, **options: Any
    ) -> Iterator[Any]:
        """A connection of psycopg2; closed at the end, and nothing committed by it."""
        who = role or self.role
        connection = psycopg2.connect(
            host=_HOST,
            port=self.port,
            user=who.name,
            password=who.password,
            dbname=database or self.database,
            connect_timeout=10,
            **options,
        )
        try:
            yield connection
        finally:
            connection.close()

    def sessions(self, role: Role | None = None) -> list[int]:
        """Process ids of the role's sessions."""
        found = self.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = %s", [(role or self.role).name]
        )
        return [process for (process,) in found]

    def end_sessions(self, role: Role | None = None) -> int:
        """End all of the role's sessions, as an administrator may; return how many there were."""
        ended = self.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = %s",
            [(role or self.role).name],
        )
        return len(ended)

    def log(self) -> str:
        """What the server wrote since it was made."""
        path = self._home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def _home(self) -> Path:
        if self._directory is None:
            raise RuntimeError("the server was not started")
        return self._directory

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _prepare(self) -> None:
        """Make the directory and the cluster in it."""
        self._user = server_user()
        self._directory = _directory_for(self._user)
        self._programs = find_binaries(self._user, copies=self._directory, packaged=self._packaged)
        password = self._file("password", self._superuser.password)
        command = [
            self._programs / "initdb",
            f"--pgdata={self._data}",
            f"--username={self._superuser.name}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
            user=None if self._user is None else self._user.uid,
            group=None if self._user is None else self._user.gid,
            extra_groups=None if self._user is None else [],
            check=False,
        )
        password.unlink()
        if done.returncode != 0:
            raise PostgresUnavailable(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")
        if self._tls is not None:
            certificate, key = self._tls
            self._settings |= {
                "ssl": "on",
                "ssl_cert_file": str(self._file("server.crt", certificate)),
                "ssl_key_file": str(self._file("server.key", key)),
            }

    def _launch(self) -> None:
        """Start the server; at a port of its own, which it keeps."""
        if self.port:
            self._run()
            return
        # A port that was free a moment ago may be taken by now.
        for last in (False, False, True):
            self.port = free_port()
            try:
                self._run()
                return
            except PostgresUnavailable as error:
                if last or "could not bind" not in str(error):
                    raise

    def _run(self) -> None:
        settings = {
            **self._settings,
            "listen_addresses": _HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        user = "" if self._user is None else f"{self._user.uid}:{self._user.gid}"
        command = [self._programs / "postgres", "-D", self._data, *options]
        with (self._home / "log").open("ab") as log:
            # A session of its own: Ctrl-C in a terminal is for its starter, who then stops it in good order.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", _GUARD, self._home, user, *command],
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with self.connect(role=self._superuser, database="postgres"):
                    return
            except psycopg2.OperationalError as error:
                if not self.running or time.monotonic() > deadline:
                    self.shut_down()
                    said = "\n".join(self.log().splitlines()[-10:])
                    raise PostgresUnavailable(f"the server does not start: {error}{said}") from None
            time.sleep(_STEP_SECONDS)

    def _furnish(self) -> None:
        self.fresh_role(self.role.name, password=self.role.password)
        self.fresh_database(self.database)

    def _gone(self) -> None:
        """Wait for the guard, and with it for the server."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.wait()
            with contextlib.suppress(BrokenPipeError):
                guard.stdin.close()

    def _file(self, name: str, content: str) -> Path:
        path = self._home / name
        path.touch(mode=0o600)
        path.write_text(content)
        if self._user is not None:
            os.chown(path, self._user.uid, self._user.gid)
        return path


def _directory_for(user: User | None) -> Path:
    """A temporary directory of the user's, whose parents it may enter."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        directory = Path(tempfile.mkdtemp(prefix="louver-postgres-", dir=place))
        if user is None:
            return directory
        os.chown(directory, user.uid, user.gid)
        entered = subprocess.run(
            ["test", "-w", directory], user=user.uid, group=user.gid, extra_groups=[], cwd="/", check=False
        )
        if entered.returncode == 0:
            return directory
        directory.rmdir()
    raise PostgresUnavailable(f"there is no temporary directory that the user {user.name} may enter")


def _environment() -> dict[str, str]:
    """Nothing of the starter's: PGDATA, PGPORT or a locale would change what the server is."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
