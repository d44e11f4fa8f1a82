"""Events into a file: whole lines, from several processes, whatever becomes of the file."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.sinks import an_event

from louver.cloudevents import parse_event
from louver.errors import ConfigurationError, LouverError
from louver.events.cloud import CloudForm
from louver.events.file import FileSink
from louver.events.http import HttpSink
from louver.events.places import sinks_at

ROOT = Path(__file__).resolve().parents[2]
FORM = CloudForm()


def runs(path: Path) -> list[str]:
    return [parse_event(line).data["run_id"] for line in path.read_bytes().splitlines()]


def test_each_event_is_a_line_that_our_own_reader_takes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(FORM.encoded(an_event(0)) + b"\n")
    sink = FileSink(path, FORM)
    sink.emit(an_event(1))
    sink.emit(an_event(2))
    assert runs(path) == ["run-0", "run-1", "run-2"]
    assert path.read_bytes().endswith(b"\n")


def test_a_new_file_is_not_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    FileSink(path, FORM).emit(an_event())
    assert stat.S_IMODE(path.stat().st_mode) & 0o137 == 0


def test_a_file_that_is_moved_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sink = FileSink(path, FORM)
    sink.emit(an_event(1))
    path.rename(tmp_path / "events.1")
    sink.emit(an_event(2))
    assert (runs(tmp_path / "events.1"), runs(path)) == (["run-1"], ["run-2"])


WRITER = """
import sys
from pathlib import Path
from support.sinks import an_event
from louver.events.cloud import CloudForm
from louver.events.file import FileSink

sink = FileSink(Path(sys.argv[1]), CloudForm())
for number in range(300):
    sink.emit(an_event(1000 * int(sys.argv[2]) + number))
"""


def test_several_processes_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    seen = os.pathsep.join([str(ROOT / "include"), str(ROOT / "tests")])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number)],
            env={**os.environ, "PYTHONPATH": seen},
        )
        for number in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    found = runs(path)
    assert sorted(found) == sorted(
        f"run-{1000 * writer + number}" for writer in range(3) for number in range(300)
    )
    # Of one process, in order.
    assert [run for run in found if len(run) == len("run-2000") and run[4] == "2"] == [
        f"run-{2000 + number}" for number in range(300)
    ]


def test_a_directory_that_is_missing_is_said_by_the_systems_word(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "events.jsonl"
    with pytest.raises(LouverError, match="No such file or directory") as caught:
        FileSink(path, FORM).emit(an_event())
    assert str(path) in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_is_said() -> None:
    with pytest.raises(LouverError, match="No space left"):
        FileSink(Path("/dev/full"), FORM).emit(an_event())


CUT = """
import resource, signal, sys
from pathlib import Path
from support.sinks import an_event
from louver.errors import LouverError
from louver.events.cloud import CloudForm
from louver.events.file import FileSink

path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = FileSink(path, CloudForm())
sink.emit(an_event(1))
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, most))
try:
    sink.emit(an_event(2))
except LouverError as error:
    print(str(error).partition(": ")[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
sink.emit(an_event(3))
"""


def test_a_line_that_was_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    seen = os.pathsep.join([str(ROOT / "include"), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(path)],
        env={**os.environ, "PYTHONPATH": seen},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "only a part of a line was written; the disk may be full\n"
    first, cut, third = path.read_bytes().splitlines()
    assert [parse_event(line).data["run_id"] for line in (first, third)] == ["run-1", "run-3"]
    assert cut == FORM.encoded(an_event(2))[:10]


# Where a configuration says


def test_places_are_files_and_urls_in_order(tmp_path: Path) -> None:
    first, second, third = sinks_at(
        f"file://{tmp_path}/a%20b.jsonl, https://events.example.com/louver ,http://localhost:9/", FORM
    )
    assert (type(first), type(second), type(third)) == (FileSink, HttpSink, HttpSink)
    first.emit(an_event())
    assert runs(tmp_path / "a b.jsonl") == ["run-1"]
    assert sinks_at(" , ", FORM) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("events.jsonl", "place 2: give file:"),
        ("ftp://zq7marker/x", "place 2: give file:"),
        ("file://host/events", "file:///absolute"),
        ("file:///", "file:///absolute"),
        ("file:///events#1", "file:///absolute"),
        ("https://", "begins with https:// or http:// and names a host"),
        ("https://host:zq7marker/", "cannot be read"),
        ("https://zq7marker:secret@host/", "no user and no password"),
        ("https://host/ü?zq7marker", "ASCII"),
        ("https://host/#zq7marker", "names a host"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_without_being_shown(place: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        sinks_at(f"file:///tmp/events.jsonl,{place}", FORM)
    assert said in str(caught.value)
    assert "zq7marker" not in str(caught.value)


def test_a_secret_that_is_too_short_and_a_path_that_is_relative_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="16 bytes or more"):
        sinks_at("https://host/", FORM, secret=b"short")
    with pytest.raises(ConfigurationError, match="absolute path"):
        FileSink(Path("events.jsonl"), FORM)
