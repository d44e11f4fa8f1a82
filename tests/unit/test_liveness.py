"""Proof of death, of real processes (semantics section 3, point 5)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from louver.liveness import LocalProcesses

INCLUDE = str(Path(__file__).resolve().parents[2] / "include")
NAME_YOURSELF = (
    "import sys; from louver.liveness import LocalProcesses; print(LocalProcesses().name(), flush=True); "
    "sys.stdin.read()"
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process that lives until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", NAME_YOURSELF],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": INCLUDE},
    ) as process:
        yield process
        process.kill()


def name_of(child: subprocess.Popen[str]) -> str:
    if child.stdout is None:
        pytest.fail("the child has no output")
    return child.stdout.readline().strip()


def changed(name: str, **parts: str) -> str:
    """The name of another process, which differs in the given parts."""
    places = ("host", "boot", "namespace", "pid", "start")
    values = dict(zip(places, name.split("/"), strict=True))
    return "/".join({**values, **parts}.values())


def test_a_process_names_itself_by_machine_and_birth() -> None:
    host, boot, namespace, pid, start = LocalProcesses().name().split("/")
    assert int(pid) == os.getpid()
    assert namespace.isdecimal()
    assert start.isdecimal()
    assert len(boot) == 36
    assert host


def test_another_process_is_alive_then_a_zombie_then_gone(child: subprocess.Popen[str]) -> None:
    processes = LocalProcesses()
    name = name_of(child)
    assert name.split("/")[:3] == processes.name().split("/")[:3]
    assert not processes.proves_dead(name)

    child.kill()
    # Waits for its end and leaves it as it is: nobody has reaped it yet.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert "Z" in Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    assert processes.proves_dead(name)

    child.wait()
    assert not Path(f"/proc/{child.pid}").exists()
    assert processes.proves_dead(name)


def test_another_process_under_the_same_number_proves_the_first_one_dead(
    child: subprocess.Popen[str],
) -> None:
    name = name_of(child)
    assert LocalProcesses().proves_dead(changed(name, start="1"))
    assert not LocalProcesses().proves_dead(name)


def test_this_process_is_alive() -> None:
    processes = LocalProcesses()
    assert not processes.proves_dead(processes.name())
    assert processes.proves_dead(changed(processes.name(), start="1"))


@pytest.mark.parametrize("part", ["host", "namespace"])
def test_elsewhere_nothing_is_proved(child: subprocess.Popen[str], part: str) -> None:
    """Another machine's process, or another container's, may have any number."""
    name = name_of(child)
    child.kill()
    child.wait()
    assert LocalProcesses().proves_dead(name)
    assert not LocalProcesses().proves_dead(changed(name, **{part: "4026531836000"}))


def test_another_boot_proves_nothing(child: subprocess.Popen[str]) -> None:
    """It may be another machine of the same name."""
    name = name_of(child)
    child.kill()
    child.wait()
    another = changed(name, boot="00000000-0000-0000-0000-000000000000")
    assert not LocalProcesses().proves_dead(another)
    assert not LocalProcesses().proves_dead(changed(name, boot="-"))


@pytest.mark.parametrize(
    "name", ["", "host", "a/b/c/d", "a/b/c/d/e", "a/b/c/d/e/f/g", "worker-1:77", "//// ", "/////"]
)
def test_a_name_of_another_kind_proves_nothing(name: str) -> None:
    assert not LocalProcesses().proves_dead(name)


@pytest.mark.parametrize("changes", [{"pid": "-1"}, {"pid": "x"}, {"pid": ""}, {"start": "-"}])
def test_a_name_that_cannot_be_judged_proves_nothing(changes: dict[str, str]) -> None:
    assert not LocalProcesses().proves_dead(changed(LocalProcesses().name(), **changes))


def test_a_call_is_dead_once_it_has_left() -> None:
    processes = LocalProcesses()
    with processes.call() as first, processes.call() as second:
        assert first != second
        assert not processes.proves_dead(first)
        assert not processes.proves_dead(second)
        # Whoever asks: the calls of a process are known to all of it.
        assert not LocalProcesses().proves_dead(first)
    assert processes.proves_dead(first)
    assert processes.proves_dead(second)


def test_a_call_that_was_killed_is_dead() -> None:
    processes = LocalProcesses()
    names: list[str] = []

    def be_killed() -> None:
        with processes.call() as name:
            names.append(name)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        be_killed()
    assert processes.proves_dead(names[0])


def test_a_call_dies_with_its_process(child: subprocess.Popen[str]) -> None:
    name = f"{name_of(child)}/1"
    assert not LocalProcesses().proves_dead(name)
    child.kill()
    child.wait()
    assert LocalProcesses().proves_dead(name)


def test_a_process_that_proc_hides_is_not_taken_for_dead(
    child: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mounted with hidepid, /proc does not show the processes of other users."""
    name = name_of(child)
    for shown in ("sys", "self", str(os.getpid())):
        (tmp_path / shown).symlink_to(Path("/proc") / shown)
    monkeypatch.setattr("louver.liveness._PROC", tmp_path)
    assert not LocalProcesses().proves_dead(name)
    child.kill()
    child.wait()
    assert LocalProcesses().proves_dead(name)


def test_a_live_call_is_alive_to_whoever_asks_in_this_process() -> None:
    with LocalProcesses().call() as first, LocalProcesses().call() as second:
        assert first != second
        assert not LocalProcesses().proves_dead(first)
    assert LocalProcesses().proves_dead(first)
