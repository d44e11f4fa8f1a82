"""The reconciler as a service, as a command, and as what the scheduler brings with it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.jobs.job import Job
from support.airflow_rows import AirflowRows
from support.processes import alive, children_of

from louver.errors import ConfigurationError, LedgerUnavailable
from louver.ledger.contract import Ledger
from louver_provider.cli.reconcile_commands import reconcile
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.listeners import components
from louver_provider.reconciler import embedded
from louver_provider.reconciler.keeper import PARENT
from louver_provider.reconciler.service import LEASE, Reconciler, Service, until_told
from louver_provider.settings import load_settings

PATIENCE = 30.0


@pytest.fixture(scope="module")
def tables() -> Iterator[AirflowRows]:
    rows = AirflowRows()
    yield rows
    # Schedulers that started here have said so in Airflow's log.
    rows.clear()


@pytest.fixture
def ledger(tables: AirflowRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    with ledger_hook.get_ledger() as opened:
        yield opened


class Turns:
    """Lets a service go through so many waits, then tells it to stop; no time passes."""

    def __init__(self, turns: int) -> None:
        self.left = turns
        self.waited: list[float] = []

    def __call__(self, seconds: float) -> bool:
        if seconds or not self.waited:
            self.waited.append(seconds)
            self.left -= 1
        return self.left < 0


def lines(caplog: pytest.LogCaptureFixture, action: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if f"[{action}]" in record.getMessage()]


# The service


def test_a_service_holds_the_lease_and_gives_it_back(ledger: Ledger) -> None:
    seen: list[str] = []

    def wait(seconds: float) -> bool:
        lease = ledger.get_lease(LEASE)
        if lease is not None:
            seen.append(lease.owner)
        return len(seen) > 3

    Service(wait=wait, open_ledger=lambda: ledger).run()

    assert len(set(seen)) == 1
    assert Reconciler(ledger, load_settings()).take() is not None


def test_of_two_services_one_works_and_the_other_says_once_that_it_waits(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "louver_provider")
    other = Reconciler(ledger, load_settings())
    other.take()
    turns = Turns(4)

    Service(wait=turns, open_ledger=lambda: ledger).run()

    (line,) = lines(caplog, "reconciler.waiting")
    assert other.owner in line
    assert lines(caplog, "reconciler.active") == []
    assert turns.waited[1:] == [5.0] * 4


def test_trouble_is_said_once_and_waited_out(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "louver_provider")
    turns = Turns(6)
    tried: list[int] = []

    def open_ledger() -> Ledger:
        tried.append(1)
        if len(tried) < 4:
            raise LedgerUnavailable("ledger postgresql://somewhere: it does not answer")
        return ledger

    Service(wait=turns, open_ledger=open_ledger).run()

    (line,) = lines(caplog, "reconciler.trouble")
    assert "does not answer" in line
    assert len(lines(caplog, "reconciler.back")) == 1
    # Each time longer, and as configured again once it works.
    assert turns.waited[1:5] == [10.0, 20.0, 40.0, 5.0]


def test_a_fault_of_its_own_stops_no_service(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(*_: Any, **__: Any) -> Any:
        raise RuntimeError("never thought of")

    monkeypatch.setattr(Reconciler, "round", break_down)

    Service(wait=Turns(4), open_ledger=lambda: ledger).run()

    assert len(lines(caplog, "reconciler.trouble")) == 1
    (record,) = [record for record in caplog.records if "reconciler.trouble" in record.getMessage()]
    assert record.exc_info is not None


def test_a_wrong_setting_stops_no_service(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RECONCILE_INTERVAL", "soon")

    Service(wait=Turns(3), open_ledger=lambda: ledger).run()

    (line,) = lines(caplog, "reconciler.trouble")
    assert "reconcile_interval" in line


def test_sigterm_ends_the_waiting_at_once() -> None:
    with until_told() as wait:
        assert wait(0.0) is False
        os.kill(os.getpid(), signal.SIGTERM)
        assert wait(3600.0) is True
    with until_told(also=lambda: True) as wait:
        assert wait(3600.0) is True


# The command


def arguments(**changes: Any) -> Namespace:
    return Namespace(
        **{"watch": False, "dry_run": False, "output": "json", "verbose": False, "subcommand": "", **changes}
    )


def test_one_round_prints_what_was_done(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    reconcile(arguments())

    assert json.loads(capsys.readouterr().out) == []
    lease = ledger.get_lease(LEASE)
    assert lease is not None
    assert Reconciler(ledger, load_settings()).take() is not None


def test_while_another_one_reconciles_a_round_is_refused_and_a_dry_run_is_not(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Reconciler(ledger, load_settings())
    other.take()

    with pytest.raises(SystemExit) as refused:
        reconcile(arguments())
    assert refused.value.code == 1
    assert other.owner in capsys.readouterr().err
    reconcile(arguments(dry_run=True))
    assert json.loads(capsys.readouterr().out) == []


def test_watching_without_doing_anything_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        reconcile(arguments(watch=True, dry_run=True))
    assert refused.value.code == 2


def test_a_reconciler_whose_parent_has_gone_does_not_begin(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PARENT, "1" if os.getppid() != 1 else "2")

    reconcile(arguments(watch=True))

    assert ledger.get_lease(LEASE) is None
    assert PARENT not in os.environ


# Embedded

SCHEDULER = "airflow.cli.commands.scheduler_command"


def in_module(name: str, call: Callable[[], Any]) -> Any:
    """The answer of a call from a module of this name."""
    return eval("call()", {"__name__": name, "call": call})


def test_only_a_job_of_the_schedulers_command_is_the_scheduler(tables: AirflowRows) -> None:
    job = Job()

    assert in_module(SCHEDULER, lambda: embedded.is_scheduler(job)) is True
    assert in_module("airflow.cli.commands.triggerer_command", lambda: embedded.is_scheduler(job)) is False
    # A task's process is a fork of the scheduler's, and has its frames below it.
    assert in_module(SCHEDULER, lambda: embedded.is_scheduler(object())) is False


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of the processes that were to be started; none is."""
    commands: list[list[str]] = []

    class Started:
        pid = 0

        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command)

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(embedded.subprocess, "Popen", Started)
    monkeypatch.setattr(embedded, "_KEEPERS", {})
    return commands


def test_the_scheduler_starts_one_keeper(started: list[list[str]], tables: AirflowRows) -> None:
    job = Job()
    for _ in range(2):
        in_module(SCHEDULER, lambda: components.on_starting(job))

    assert started == [[sys.executable, "-m", "louver_provider.reconciler.keeper", str(os.getpid())]]
    components.before_stopping(job)


@pytest.mark.parametrize("setting", ["service", "off"])
def test_no_keeper_where_somebody_else_reconciles_or_nobody(
    setting: str, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RECONCILER", setting)
    embedded.start_embedded()
    assert started == []


@pytest.mark.parametrize(
    "broken",
    [("AIRFLOW__LOUVER__RECONCILER", "sometimes"), ("AIRFLOW__LOUVER__XCOM_INLINE_BYTES", "many")],
)
def test_a_scheduler_starts_whatever_is_wrong_with_the_reconciler(
    broken: tuple[str, str],
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tables: AirflowRows,
) -> None:
    """Case K02."""
    monkeypatch.setenv(*broken)
    job = Job()

    in_module(SCHEDULER, lambda: components.on_starting(job))

    assert started == []
    (line,) = [record.getMessage() for record in caplog.records if "reconciler is off" in record.getMessage()]
    assert broken[0].rpartition("__")[2].lower() in line
    with pytest.raises(ConfigurationError):
        embedded.start_embedded()


def test_a_scheduler_starts_where_no_process_can_be_started(
    monkeypatch: pytest.MonkeyPatch, tables: AirflowRows, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError("fork: no more processes")

    monkeypatch.setattr(embedded.subprocess, "Popen", refuse)
    monkeypatch.setattr(embedded, "_KEEPERS", {})
    job = Job()

    in_module(SCHEDULER, lambda: components.on_starting(job))

    assert any("reconciler is off" in record.getMessage() for record in caplog.records)


# The keeper, as a process

KEPT = """
import sys, time
print("kept", flush=True)
time.sleep(600)
"""

SCHEDULING = """
import os, subprocess, sys, time
keep = (
    "import os, sys; from louver_provider.reconciler.keeper import keep;"
    "keep([sys.executable, '-c', os.environ['KEPT']], parent=int(sys.argv[1]), env=os.environ)"
)
keeper = subprocess.Popen([sys.executable, "-c", keep, str(os.getpid())])
print(keeper.pid, flush=True)
time.sleep(600)
"""


def wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail("it did not happen")


@pytest.fixture
def scheduling() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that plays the scheduler, and the id of its keeper."""
    environment = {**os.environ, "KEPT": KEPT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-c", SCHEDULING],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def kept_by(keeper: int) -> int:
    return int(wait_for(lambda: [child for child in children_of(keeper) if alive(child)])[0])


def test_what_dies_is_started_again(scheduling: tuple[subprocess.Popen[str], int]) -> None:
    _, keeper = scheduling
    first = kept_by(keeper)

    os.kill(first, signal.SIGKILL)

    second = wait_for(lambda: [child for child in children_of(keeper) if alive(child) and child != first])
    assert second


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_keeper_and_kept_end_with_the_scheduler(
    number: int, scheduling: tuple[subprocess.Popen[str], int]
) -> None:
    process, keeper = scheduling
    kept = kept_by(keeper)

    process.send_signal(number)
    process.wait()

    assert wait_for(lambda: not alive(keeper) and not alive(kept))


def test_a_keeper_that_is_told_to_stop_takes_the_kept_with_it(
    scheduling: tuple[subprocess.Popen[str], int],
) -> None:
    _, keeper = scheduling
    kept = kept_by(keeper)

    os.kill(keeper, signal.SIGTERM)

    assert wait_for(lambda: not alive(keeper) and not alive(kept))
