"""Background processes of the scripts: found again, noticed when they die, ended with all they started."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "processes.py"

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]

STUBBORN_FAMILY = [
    sys.executable,
    "-c",
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.fork()\n"
    "print('up', flush=True)\n"
    "time.sleep(600)\n",
]


@pytest.fixture(scope="module")
def processes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("script_processes", SCRIPT)
    if spec is None or spec.loader is None:
        raise ImportError(SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def components(processes: ModuleType, tmp_path: Path) -> Iterator[object]:
    made = processes.Components(tmp_path / "processes.json", logs=tmp_path)
    yield made
    made.end(patience=0.0)


def start(components, name: str, command: list[str], folder: Path, *, lines: int = 1) -> int:
    components.start(name, command, env={}, folder=folder)
    log = folder / f"{name}.log"
    wait_until(lambda: log.read_text().count("up") == lines)
    return int(components.known()[name]["pid"])


def wait_until(probe: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not probe():
        if time.monotonic() > deadline:
            pytest.fail("it did not come")
        time.sleep(0.02)


def test_one_that_dies_is_noticed_and_its_log_is_at_hand(components, tmp_path: Path) -> None:
    start(components, "good", SLEEP, tmp_path)
    components.start("bad", [sys.executable, "-c", "raise SystemExit('no luck')"], env={}, folder=tmp_path)

    wait_until(lambda: components.dead() == ["bad"])

    assert components.tail("bad") == "no luck"


def test_another_process_finds_and_ends_them(processes: ModuleType, components, tmp_path: Path) -> None:
    pid = start(components, "one", SLEEP, tmp_path)
    later = processes.Components(tmp_path / "processes.json", logs=tmp_path)

    assert later.dead() == []
    assert later.end(patience=10.0)
    assert components.dead() == []
    assert later.known() == {}
    assert not later.end(patience=10.0)
    assert pid not in processes._members(pid)


def test_a_whole_family_that_ignores_sigterm_is_ended(
    processes: ModuleType, components, tmp_path: Path
) -> None:
    pid = start(components, "family", STUBBORN_FAMILY, tmp_path, lines=2)
    assert len(processes._members(pid)) == 2

    components.end(patience=0.3)

    assert processes._members(pid) == []


def test_a_stale_file_never_ends_a_stranger(processes: ModuleType, tmp_path: Path) -> None:
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    try:
        stale = {"old": {"pid": stranger.pid, "born": "1"}}
        (tmp_path / "processes.json").write_text(json.dumps(stale))
        components = processes.Components(tmp_path / "processes.json", logs=tmp_path)

        assert components.dead() == ["old"]
        assert not components.end(patience=0.1)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
