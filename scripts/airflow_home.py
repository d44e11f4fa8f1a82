"""
A private Airflow: a home of its own, and four processes that live in it.

Used by ``make up``, ``make demo`` and the integration tests. Nothing of the caller's Airflow shines through:
settings come from ``config/airflow.demo.env``; port, secrets and login are made once and kept in the home.
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from airflow_rest import AirflowRest, RestError, TimedOut, wait_for
from airflow_settings import (
    COMPONENTS,
    ROOT,
    airflow_environment,
    component_settings,
    suited_to_database,
)
from processes import Components, ended_by_all_means, last_lines, read_json, write_json

__all__ = ["ROOT", "AirflowHome", "CliResult", "HomeError"]

HEALTHY_PARTS = ("metadatabase", "scheduler", "dag_processor")

#: Measured: 10 to 40 s, most of it imports. A busy machine takes longer.
START_SECONDS = 240.0
#: Measured: 5 to 8 s. Airflow itself gives a running task five seconds before it kills it.
STOP_SECONDS = 20.0


class HomeError(Exception):
    """Airflow cannot be started, or did not stay up; the message says what to look at."""


class CliResult(NamedTuple):
    """What an ``airflow ...`` command answered."""

    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.stdout)


def _say_nothing(text: str) -> None:
    pass


class AirflowHome:
    """
    One Airflow, started and stopped as a whole.

    What it does not do: install anything, or start itself again. A component that dies is an error at the
    next wait, with the end of its log. Commands run in the home, so file names among their arguments have to
    be absolute.

    :param path: the home; made where it is missing, for its owner alone.
    :param python: interpreter that has Airflow and Louver; by default this one.
    :param users: roles of the simple auth manager by user; passwords are random.
    :param settings: more environment variables, which win over all others.
    :param say: prints progress.
    """

    def __init__(
        self,
        path: Path,
        *,
        python: Path | str = sys.executable,
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        say: Callable[[str], None] = _say_nothing,
    ) -> None:
        self.path = path.absolute()
        # Not resolved: a virtual environment is found by the place of its link.
        self.python = Path(python).absolute()
        self._users = dict(users or {"admin": "admin"})
        self._settings = dict(settings or {})
        self._say = say
        self._components = Components(self.path / "processes.json", logs=self.logs)
        self._rest: AirflowRest | None = None

    # What is kept in the home

    @property
    def own_dags(self) -> Path:
        """Folder for Dags of this home, beside those of the checkout."""
        return self.path / "dags"

    @property
    def logs(self) -> Path:
        """Where the components write; task logs are Airflow's, in ``logs`` beside it."""
        return self.path / "component_logs"

    @property
    def shop_db(self) -> Path:
        """The SQLite file behind the shop."""
        return self.path / "shop.db"

    @property
    def ledger_db(self) -> Path:
        """Louver's ledger."""
        return self.path / "louver.db"

    @property
    def ledger_url(self) -> str:
        """Where the ledger is: that file, unless the settings say otherwise."""
        return self.env()["AIRFLOW__LOUVER__LEDGER_URL"]

    @property
    def airflow_db(self) -> Path:
        """Airflow's metadata database."""
        return self.path / "airflow.db"

    @property
    def url(self) -> str:
        """Where Airflow's web server listens."""
        return f"http://127.0.0.1:{self._kept()['port']}"

    def password(self, user: str = "admin") -> str:
        """The password of a user of this home."""
        return str(self._kept()["passwords"][user])

    @property
    def rest(self) -> AirflowRest:
        """Its REST interface, as the administrator."""
        if self._rest is None or self._rest.url != self.url:
            self._rest = self.rest_as("admin")
        return self._rest

    def rest_as(self, user: str) -> AirflowRest:
        """Its REST interface, as another user."""
        return AirflowRest(self.url, user=user, password=self.password(user))

    def _kept(self) -> dict[str, Any]:
        self.prepare()
        return read_json(self.path / "home.json")

    def prepare(self) -> None:
        """Make what is missing: folders, secrets, a port, the password file. Nothing is made twice."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.own_dags, self.logs, self.path / "plugins"):
            folder.mkdir(exist_ok=True)
        kept_file = self.path / "home.json"
        kept = read_json(kept_file)
        fresh = {
            "port": _free_port,
            "task_port": _free_port,
            # HS512 signs with 64 bytes.
            "jwt_secret": lambda: secrets.token_urlsafe(64),
            "api_secret": lambda: secrets.token_urlsafe(32),
            "fernet_key": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "passwords": dict,
        }
        wanted = {name: kept[name] if name in kept else make() for name, make in fresh.items()}
        for user in self._users:
            wanted["passwords"].setdefault(user, secrets.token_urlsafe(12))
        if wanted != kept:
            write_json(kept_file, wanted)
        passwords = self.path / "passwords.json"
        if read_json(passwords) != wanted["passwords"]:
            write_json(passwords, wanted["passwords"])

    def env(self) -> dict[str, str]:
        """The environment of every process of this Airflow."""
        own = airflow_environment(self.path, self._kept(), python=self.python, users=self._users)
        return suited_to_database({**own, **self._settings})

    # Commands

    def cli(self, *arguments: str, stdin: str = "", timeout: float = 180) -> CliResult:
        """Run ``airflow ARGUMENTS...`` in this home."""
        done = subprocess.run(
            self._command(*arguments),
            env=self.env(),
            cwd=self.path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return CliResult(done.returncode, done.stdout, done.stderr)

    def commands(self, commands: Iterable[Sequence[str]]) -> Iterator[CliResult]:
        """
        Run several ``airflow ARGUMENTS...`` one after the other in one process, from the first ``next`` on.

        :returns: the result of each, as soon as it is there.
        :raises HomeError: where the process ends before the last one.
        """
        wanted = [list(arguments) for arguments in commands]
        with (
            (self.logs / "commands.log").open("ab") as log,
            subprocess.Popen(
                [str(self.python), str(ROOT / "scripts" / "airflow_commands.py")],
                env=self.env(),
                cwd=self.path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as child,
        ):
            if child.stdin is None or child.stdout is None:
                raise HomeError("the process has no pipes")
            try:
                json.dump(wanted, child.stdin)
                child.stdin.close()
                for arguments in wanted:
                    line = child.stdout.readline()
                    if not line:
                        raise HomeError(f"`airflow {' '.join(arguments)}` broke off; see {log.name}")
                    yield CliResult(*json.loads(line))
            finally:
                child.kill()

    def _command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-m", "airflow", *arguments]

    # Processes

    def running(self) -> bool:
        """Whether every component of this home is alive."""
        return set(self._components.known()) == set(COMPONENTS) and not self._components.dead()

    def start(self, *, dags: Iterable[str] = (), migrate: bool = True) -> None:
        """
        Start the components, and wait until they are healthy and these Dags are known.

        :param migrate: bring Airflow's database up to date first; needless where it has just been in use.
        :raises HomeError: where a component dies, or it takes too long; then nothing is left running.
        """
        if self.running():
            raise HomeError(f"an Airflow is running in {self.path} already")
        self.stop()
        self._find_ports()
        began = time.monotonic()
        since = datetime.now(timezone.utc)
        try:
            if migrate:
                self._migrate()
            for name, arguments in COMPONENTS.items():
                if name == "scheduler":
                    self._await_task_api()
                env = suited_to_database({**self.env(), **component_settings(name, self._kept())})
                self._components.start(name, self._command(*arguments), env=env, folder=self.path)
            self._await_health(since)
            self._await_dags(list(dags))
        except BaseException:
            self.stop()
            raise
        self._say(f"Airflow is up at {self.url} after {time.monotonic() - began:.0f} s")

    def stop(self) -> bool:
        """
        End the components and everything they started.

        :returns: whether there was anything to end.
        :raises HomeError: where something does not end.
        """
        began = time.monotonic()
        try:
            ended = self._components.end(patience=STOP_SECONDS)
        except TimeoutError as error:
            raise HomeError(str(error)) from None
        if ended:
            self._say(f"Airflow stopped after {time.monotonic() - began:.0f} s")
        return ended

    def restart(self, *, dags: Iterable[str] = ()) -> None:
        """Stop it, and start it again with the same home and the same secrets."""
        self.stop()
        self.start(dags=dags, migrate=False)

    @contextmanager
    def kept_running(self, *, dags: Iterable[str] = ()) -> Iterator[AirflowHome]:
        """Started inside the block, stopped after it, whatever ends it: an error, Ctrl-C, SIGTERM or exit."""
        with ended_by_all_means(self.stop):
            self.start(dags=dags)
            yield self

    def check_alive(self) -> None:
        """
        Say at once where a component has died.

        :raises HomeError: with the end of its log.
        """
        known = self._components.known()
        if not known:
            raise HomeError(f"no Airflow is running in {self.path}")
        for name in self._components.dead():
            raise HomeError(f"Airflow's {name} has died; the end of its log:\n{self._components.tail(name)}")

    def wait_for(
        self, what: str, probe: Callable[[], Any], *, timeout: float = 90.0, every: float = 0.3
    ) -> Any:
        """
        Ask ``probe`` until it answers with something true, and return that.

        An answer of the server that is an error is no answer yet.

        :param what: what is waited for, for people.
        :raises HomeError: where a component died meanwhile.
        :raises TimedOut: where the time is over; names the last error.
        """
        trouble: list[RestError] = []

        def alive_probe() -> Any:
            self.check_alive()
            try:
                return probe()
            except RestError as error:
                trouble[:] = [error]
                return None

        try:
            return wait_for(what, alive_probe, timeout=timeout, every=every)
        except TimedOut as late:
            raise TimedOut(f"{late}; last error: {trouble[0]}" if trouble else str(late)) from None

    def _migrate(self) -> None:
        self._say("making Airflow's database, or bringing it up to date")
        done = self.cli("db", "migrate", timeout=START_SECONDS)
        (self.logs / "migrate.log").write_text(done.stdout + done.stderr)
        if done.code != 0:
            raise HomeError(f"`airflow db migrate` failed:\n{last_lines(done.stdout + done.stderr)}")

    def _find_ports(self) -> None:
        kept = self._kept()
        for name in ("port", "task_port"):
            with socket.socket() as probe:
                # As the server does: a port whose last connections are in TIME_WAIT is free.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", kept[name]))
                except OSError:
                    taken, kept[name] = kept[name], _free_port()
                    self._say(f"port {taken} is taken; using {kept[name]}")
        write_json(self.path / "home.json", kept)

    def _await_task_api(self) -> None:
        api = AirflowRest(f"http://127.0.0.1:{self._kept()['task_port']}", user="", password="")
        self.wait_for("the API for tasks", api.reachable, timeout=START_SECONDS)

    def _await_health(self, since: datetime) -> None:
        seen: dict[str, str] = {}

        def healthy() -> bool:
            parts = self.rest.health(since)
            wanted = {name: parts.get(name, "starting") for name in HEALTHY_PARTS}
            if wanted != seen:
                seen.update(wanted)
                self._say("waiting for Airflow: " + ", ".join(f"{n} {s}" for n, s in wanted.items()))
            return all(state == "healthy" for state in wanted.values())

        self.wait_for("a healthy Airflow", healthy, timeout=START_SECONDS)

    def _await_dags(self, dags: list[str]) -> None:
        if not dags:
            return

        def known() -> bool:
            if not set(dags) - self.rest.dag_ids():
                return True
            for place, trace in self.rest.import_errors().items():
                if place.startswith(tuple(dags)):
                    raise HomeError(f"Airflow cannot import {place}:\n{last_lines(trace)}")
            return False

        self._say(f"waiting for the Dags: {', '.join(dags)}")
        self.wait_for(f"Dags {', '.join(dags)}", known, timeout=90.0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
