"""
A private Airflow: a home of its own, and three processes that live in it.

Used by ``make up``, ``make demo`` and the integration tests. Nothing of the caller's Airflow shines through:
settings come from ``config/airflow.demo.env``; port, secrets and login are made once and kept in the home.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import processes
from airflow_rest import AirflowRest, Unreachable, wait_for

__all__ = ["ROOT", "AirflowHome", "CliResult", "HomeError"]

ROOT = Path(__file__).resolve().parent.parent

#: No triggerer: parked approvals do without. No log server: its port is fixed and may be taken, and the API
#: server reads the logs from the shared folder.
COMPONENTS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
HEALTHY_PARTS = ("metadatabase", "scheduler", "dag_processor")

#: Measured: 10 to 40 s, most of it imports. A busy machine takes longer.
START_SECONDS = 240.0
#: Measured: 5 to 8 s. Airflow itself gives a running task five seconds before it kills it.
STOP_SECONDS = 20.0

LOCAL_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"


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

    What it does not do: install anything, or start itself again. A component that dies is an error at the next
    wait, with the end of its log.

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
        self._children: dict[str, subprocess.Popen[bytes]] = {}
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
        return _read(self.path / "home.json")

    def prepare(self) -> None:
        """Make what is missing: folders, secrets, a port, the password file. Nothing is made twice."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.own_dags, self.logs, self.path / "plugins"):
            folder.mkdir(exist_ok=True)
        kept_file = self.path / "home.json"
        kept = _read(kept_file)
        fresh = {
            "port": _free_port,
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
            _write(kept_file, wanted)
        passwords = self.path / "passwords.json"
        if _read(passwords) != wanted["passwords"]:
            _write(passwords, wanted["passwords"])

    def env(self) -> dict[str, str]:
        """The environment of every process of this Airflow."""
        kept = self._kept()
        hidden = ("PYTHONPATH", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONSTARTUP")
        base = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW_", "_AIRFLOW_")) and name not in hidden
        }
        near = ",".join(filter(None, [base.get("no_proxy") or base.get("NO_PROXY"), "127.0.0.1,localhost"]))
        bundles = [
            {"name": "dags-folder", "classpath": LOCAL_BUNDLE, "kwargs": {}},
            {"name": "home", "classpath": LOCAL_BUNDLE, "kwargs": {"path": str(self.own_dags)}},
        ]
        return {
            **base,
            **_read_env(ROOT / "config" / "airflow.demo.env"),
            "PATH": f"{self.python.parent}{os.pathsep}{base.get('PATH', os.defpath)}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "config"), str(ROOT / "include")]),
            "PYTHONUNBUFFERED": "1",
            # A task reaches the API server directly, whatever proxy the caller uses.
            "NO_PROXY": near,
            "no_proxy": near,
            "AIRFLOW_HOME": str(self.path),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            # Empty: Louver registers once, as an installed distribution.
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.path / "plugins"),
            "AIRFLOW__CORE__FERNET_KEY": kept["fernet_key"],
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{kept['port']}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                f"{user}:{role}" for user, role in self._users.items()
            ),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.path / "passwords.json"),
            "AIRFLOW__CORE__XCOM_BACKEND": "louver_provider.xcom.backend.LouverXCom",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(kept["port"]),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{kept['port']}/",
            "AIRFLOW__API__SECRET_KEY": kept["api_secret"],
            "AIRFLOW__API_AUTH__JWT_SECRET": kept["jwt_secret"],
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.airflow_db}",
            "AIRFLOW__LOUVER__LEDGER_URL": f"sqlite:///{self.ledger_db}",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "SHOP_DB": str(self.shop_db),
            **self._settings,
        }

    # Commands

    def cli(self, *arguments: str, stdin: str = "", timeout: float = 180) -> CliResult:
        """Run ``airflow ARGUMENTS...`` in this home."""
        done = subprocess.run(
            [str(self.python), "-m", "airflow", *arguments],
            env=self.env(),
            cwd=self.path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return CliResult(done.returncode, done.stdout, done.stderr)

    # Processes

    def running(self) -> bool:
        """Whether every component of this home is alive."""
        known = self._components()
        return len(known) == len(COMPONENTS) and not self._dead(known)

    def start(self, *, dags: Iterable[str] = ()) -> None:
        """
        Start the components, and wait until they are healthy and these Dags are known.

        :raises HomeError: where a component dies, or it takes too long; then nothing is left running.
        """
        if self.running():
            raise HomeError(f"an Airflow is running in {self.path} already")
        self.stop()
        self._find_port()
        began = time.monotonic()
        since = datetime.now(timezone.utc)
        try:
            self._migrate()
            for name, arguments in COMPONENTS.items():
                self._launch(name, arguments)
            self._await_health(since)
            self._await_dags(list(dags))
        except BaseException:
            self.stop()
            raise
        self._say(f"Airflow is up at {self.url} after {time.monotonic() - began:.0f} s")

    def stop(self) -> None:
        """End the components and everything they started; without an Airflow there is nothing to do."""
        known = self._components()
        groups = {entry["pid"] for entry in known.values() if processes.is_group(entry["pid"], entry["born"])}
        if not groups:
            self._forget()
            return
        began = time.monotonic()
        for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 10.0)):
            processes.signal_groups(groups, number)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                # A child of ours that nobody waited for is still a member of its group.
                for child in self._children.values():
                    child.poll()
                groups = {group for group in groups if processes.members(group)}
                if not groups:
                    self._forget()
                    self._say(f"Airflow stopped after {time.monotonic() - began:.0f} s")
                    return
                time.sleep(0.1)
        raise HomeError(f"process groups {sorted(groups)} do not end, not even by SIGKILL")

    def restart(self, *, dags: Iterable[str] = ()) -> None:
        """Stop it, and start it again with the same home and the same secrets."""
        self.stop()
        self.start(dags=dags)

    @contextlib.contextmanager
    def kept_running(self, *, dags: Iterable[str] = ()) -> Iterator[AirflowHome]:
        """Started inside the block, stopped after it, whatever ends it: an error, Ctrl-C, SIGTERM or exit."""

        def leave(number: int, frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
        atexit.register(self.stop)
        try:
            self.start(dags=dags)
            yield self
        finally:
            # A second signal must not interrupt the stop.
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            self.stop()
            atexit.unregister(self.stop)
            for number, handler in before.items():
                signal.signal(number, handler)

    def check_alive(self) -> None:
        """
        Say at once where a component has died.

        :raises HomeError: with the end of its log.
        """
        known = self._components()
        for name in COMPONENTS:
            if name not in known:
                raise HomeError(f"Airflow's {name} is not running in {self.path}")
        for name in self._dead(known):
            raise HomeError(f"Airflow's {name} has died; the end of its log:\n{self._tail(name)}")

    def wait_for(
        self, what: str, probe: Callable[[], Any], *, timeout: float = 90.0, every: float = 0.3
    ) -> Any:
        """
        Ask ``probe`` until it answers with something true, and return that.

        :param what: what is waited for, for people.
        :raises HomeError: where a component died meanwhile, or the time is over.
        """

        def alive_probe() -> Any:
            self.check_alive()
            return probe()

        return wait_for(what, alive_probe, timeout=timeout, every=every)

    def _migrate(self) -> None:
        if self.airflow_db.exists() and _read(self.path / "migrated.json"):
            return
        self._say("making Airflow's database")
        done = self.cli("db", "migrate", timeout=START_SECONDS)
        (self.logs / "migrate.log").write_text(done.stdout + done.stderr)
        if done.code != 0:
            raise HomeError(f"`airflow db migrate` failed:\n{_last_lines(done.stdout + done.stderr)}")
        _write(self.path / "migrated.json", {"done": True})

    def _launch(self, name: str, arguments: tuple[str, ...]) -> None:
        with (self.logs / f"{name}.log").open("ab") as log:
            # A session and group of its own: Ctrl-C and a closed terminal do not reach it, one signal to the
            # group reaches all it starts.
            child = subprocess.Popen(
                [str(self.python), "-m", "airflow", *arguments],
                env=self.env(),
                cwd=self.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[name] = child
        entry = {"pid": child.pid, "born": processes.born(child.pid)}
        _write(self.path / "processes.json", {**self._components(), name: entry})

    def _components(self) -> dict[str, dict[str, Any]]:
        return _read(self.path / "processes.json")

    def _forget(self) -> None:
        (self.path / "processes.json").unlink(missing_ok=True)
        self._children.clear()

    def _dead(self, known: Mapping[str, Mapping[str, Any]]) -> list[str]:
        for child in self._children.values():
            child.poll()
        return [name for name, entry in known.items() if not processes.alive(entry["pid"], entry["born"])]

    def _tail(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return _last_lines(path.read_text(errors="replace")) if path.exists() else "(it wrote none)"

    def _find_port(self) -> None:
        kept = self._kept()
        with socket.socket() as probe:
            # As the server does: a port whose last connections are in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", kept["port"]))
            except OSError:
                _write(self.path / "home.json", {**kept, "port": _free_port()})
                self._say(f"port {kept['port']} is taken; using {self._kept()['port']}")

    def _await_health(self, since: datetime) -> None:
        seen: dict[str, str] = {}

        def healthy() -> bool:
            try:
                parts = self.rest.health(since)
            except Unreachable:
                parts = {}
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
                    raise HomeError(f"Airflow cannot import {place}:\n{_last_lines(trace)}")
            return False

        self._say(f"waiting for the Dags: {', '.join(dags)}")
        self.wait_for(f"Dags {', '.join(dags)}", known, timeout=90.0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise HomeError(f"{path} is not what it was written as; remove {path.parent} to start afresh") from None
    return dict(content)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """For its owner alone, and whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(dict(content), file)
    draft.replace(path)


def _read_env(path: Path) -> dict[str, str]:
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _last_lines(text: str, count: int = 25) -> str:
    return "\n".join(text.rstrip().splitlines()[-count:])
