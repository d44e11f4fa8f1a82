"""
A step that does not react is ended by its own process, children included (case D04).

Each case is a real process with Airflow's handler of SIGTERM and nothing else of Airflow.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest

from louver.control import send
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.states import FailureKind, Source, TaskState

ROOT = Path(__file__).resolve().parents[2]
KEY = TaskKey("work", "run-1", "one")
KEYS = "k1:0123456789abcdef"
PATIENCE = 60.0

PROGRAM = """
import os, signal, subprocess, sys, threading, time
from datetime import timedelta
from louver.binding import bind
from louver.clock import SystemClock
from louver.definition import Definition, Step
from louver.ledger import open_ledger
from louver.ledger.names import RunKey, TaskKey
from louver.lifecycle import Lifecycle
from louver.liveness import LocalProcesses
from louver.policies import RetryPolicy
from louver.ports import Interrupted
from louver.sessions import Claim
from louver.states import Source
from louver.steps import StepCalls, run_start
from louver.supervision import ControlSettings
from louver.timeouts import Timeouts
from louver_provider import watch

watch._INSIST = 1.0

class Log:
    def tell(self, action, message, *args):
        print(action, message % args, flush=True)

def swallow(ctx):
    while True:
        try:
            time.sleep(0.05)
            ctx.checkpoint()
        except Exception:
            pass

def swallow_everything(ctx):
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            pass

def wait_in_c(ctx):
    time.sleep(600)

def child(ctx):
    print("child", subprocess.Popen(["sleep", "600"]).pid, flush=True)
    time.sleep(600)

def join(ctx):
    thread = threading.Thread(target=time.sleep, args=[600])
    thread.start()
    thread.join()

def polite(ctx):
    print("child", subprocess.Popen(["sleep", "600"]).pid, flush=True)
    while True:
        time.sleep(0.05)
        ctx.checkpoint()

def raise_interrupted(*_):
    raise Interrupted

signal.signal(signal.SIGTERM, raise_interrupted)
url, keys, name, attempt, idle = sys.argv[1:6]
second = lambda text: timedelta(seconds=float(text)) if text != "-" else None
step = Step(name="one", task="business:one", timeouts=Timeouts(attempt=second(attempt), idle=second(idle)))
definition = Definition(name="work", version="1", nodes=[step])
run = RunKey("work", "run-1")
processes = LocalProcesses()
ledger = open_ledger(url, keys)
start = run_start(definition, run)
calls = StepCalls(workflow=bind(definition, {"one": globals()[name]}), start=start, params=lambda _: {})
life = Lifecycle(
    ledger=ledger, clock=SystemClock(), liveness=processes, log=Log(),
    control=ControlSettings(control_interval=timedelta(seconds=0.1), stop_grace=timedelta(seconds=1)),
    watch=watch.watching(timedelta(seconds=0.1)),
)
claim = Claim(try_number=1, max_tries=3, process=processes.name(), source=Source.WORKER)
closing = life.live(calls.node("one", key=TaskKey("work", "run-1", "one"), claim=claim))
print("closing", closing.state, type(closing.error).__name__, flush=True)
# As Airflow ends a task's process: whatever its threads are at.
os._exit(0)
"""


class Running:
    """The process of one case, and its ledger."""

    def __init__(self, process: subprocess.Popen[str], ledger: Ledger) -> None:
        self.process = process
        self.ledger = ledger

    def wait_until_running(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            record = self.ledger.get_task(KEY)
            if record is not None and record.state is TaskState.RUNNING:
                return
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.02)
        pytest.fail("it never ran")

    def stop(self) -> None:
        request = CommandRequest(
            command_id=uuid.uuid4().hex, task=KEY, verb=Verb.STOP, actor="ann", reason=None, source=Source.CLI
        )
        send(self.ledger, request, now=datetime.now(timezone.utc))

    def end(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said

    @property
    def state(self) -> TaskState:
        record = self.ledger.get_task(KEY)
        assert record is not None
        return record.state

    @property
    def kind(self) -> FailureKind | None:
        record = self.ledger.get_task(KEY)
        assert record is not None
        return record.failure_kind


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", KEYS) as opened:
        yield opened


@contextmanager
def case(
    tmp_path: Path, ledger: Ledger, name: str, *, attempt: str = "-", idle: str = "-"
) -> Iterator[Running]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    path = os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins")])
    process = subprocess.Popen(
        [sys.executable, str(program), url, KEYS, name, attempt, idle],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    try:
        yield Running(process, ledger)
    finally:
        for left in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []:
            left.kill()
        process.kill()
        process.wait()


def children_of(said: str) -> list[int]:
    """The processes that the step has said it started."""
    return [int(line.split()[1]) for line in said.splitlines() if line.startswith("child ")]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("name", ["swallow", "join"])
def test_code_that_does_not_listen_is_interrupted(tmp_path: Path, ledger: Ledger, name: str) -> None:
    with case(tmp_path, ledger, name) as running:
        running.wait_until_running()
        running.stop()
        code, said = running.end()
    assert (code, running.state) == (0, TaskState.STOPPED), said
    assert "closing stopped TaskCancelled" in said


def test_code_that_swallows_everything_is_killed_and_its_stop_stays_to_be_confirmed(
    tmp_path: Path, ledger: Ledger
) -> None:
    with case(tmp_path, ledger, "swallow_everything") as running:
        running.wait_until_running()
        running.stop()
        code, said = running.end()
    assert (code, running.state) == (-signal.SIGKILL, TaskState.STOPPING), said


@pytest.mark.parametrize("name", ["wait_in_c", "swallow", "child", "join"])
def test_an_attempt_ends_at_its_limit_whatever_it_is_at(tmp_path: Path, ledger: Ledger, name: str) -> None:
    with case(tmp_path, ledger, name, attempt="1") as running:
        code, said = running.end()
    assert (code, running.state, running.kind) == (0, TaskState.FAILED, FailureKind.TIMEOUT_ATTEMPT), said
    row = ledger.list_transitions(RunKey("work", "run-1"))[-1]
    assert (row.trigger, "the limit is 1.0 s" in (row.reason or "")) == ("timeout:attempt", True)
    assert [child for child in children_of(said) if not gone(child)] == []


def test_an_idle_attempt_that_swallows_everything_is_killed_and_recorded(
    tmp_path: Path, ledger: Ledger
) -> None:
    with case(tmp_path, ledger, "swallow_everything", idle="1") as running:
        code, said = running.end()
    assert (code, running.state, running.kind) == (
        -signal.SIGKILL,
        TaskState.FAILED,
        FailureKind.TIMEOUT_IDLE,
    ), said


@pytest.mark.parametrize("name", ["child", "polite"])
def test_children_end_too(tmp_path: Path, ledger: Ledger, name: str) -> None:
    with case(tmp_path, ledger, name) as running:
        running.wait_until_running()
        running.stop()
        code, said = running.end()
    assert (code, running.state) == (0, TaskState.STOPPED), said
    (child,) = children_of(said)
    assert gone(child)
