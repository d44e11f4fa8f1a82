"""Events go out while the work goes on, and nothing of that reaches the work."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.sinks import Broken, Hanging, Seen, an_event

from louver.errors import ConfigurationError
from louver.events.background import Background

ROOT = Path(__file__).resolve().parents[2]
SOON = 30.0


def test_all_is_delivered_in_order_by_another_thread() -> None:
    threads: set[str] = set()

    class Where(Seen):
        def emit(self, event: object) -> None:
            threads.add(threading.current_thread().name)
            self.append(event)  # type: ignore[arg-type]

    seen = Where()
    line = Background(seen, patience=0)
    for number in range(200):
        line.emit(an_event(number))
    assert line.flush(SOON)
    assert [event.run_id for event in seen] == [f"run-{number}" for number in range(200)]
    assert threads == {"louver-events"}
    assert (line.delivered, line.failed, line.dropped) == (200, 0, 0)


def test_a_sink_that_raises_is_counted_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    sink = Broken()
    line = Background(sink, patience=0)
    with caplog.at_level(logging.WARNING, "louver.events"):
        for number in range(5):
            line.emit(an_event(number))
        assert line.flush(SOON)
    assert (sink.asked, line.failed, line.delivered) == (5, 5, 0)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "louver [events.failed] an event was not taken: OSError",
        "louver [events.lost] 5 events not delivered: 5 refused, 0 too many, 0 not in time",
    ]


def test_a_sink_that_hangs_keeps_nobody_waiting_and_what_is_too_much_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Hanging()
    line = Background(sink, most=3, patience=0)
    line.emit(an_event(0))
    assert sink.inside.wait(SOON)
    for number in range(1, 10):
        line.emit(an_event(number))
    with caplog.at_level(logging.WARNING, "louver.events"):
        assert line.flush(0.01) is False
    assert line.dropped == 6
    assert "10 events not delivered: 0 refused, 6 too many, 4 not in time" in caplog.text
    sink.let_go.set()
    assert line.flush(SOON)
    assert [event.run_id for event in sink.taken] == ["run-0", "run-1", "run-2", "run-3"]


def test_nothing_is_started_before_the_first_event() -> None:
    before = threading.active_count()
    line = Background(Seen(), patience=0)
    assert line.flush(0)
    assert threading.active_count() == before
    assert (line.delivered, line.failed, line.dropped) == (0, 0, 0)


def test_a_line_without_room_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one event"):
        Background(Seen(), most=0)


FORKING = """
import os, sys
from support.sinks import Hanging, Seen, an_event
from louver.events.background import Background

class Told:
    def emit(self, event):
        os.write(1, f"{event.run_id} {os.getpid() == parent}\\n".encode())

parent = os.getpid()
line = Background(Told())
line.emit(an_event(1))
line.flush(30)
child = os.fork()
if child == 0:
    assert line.flush(30)
    line.emit(an_event(2))
    delivered = line.flush(30)
    os._exit(0 if delivered else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
line.emit(an_event(3))
# Python's own end delivers what is left.
"""

HANGING = """
from support.sinks import Hanging, an_event
from louver.events.background import Background

line = Background(Hanging(), patience=0.05)
line.emit(an_event(1))
print("over")
"""


def in_child(code: str) -> str:
    path = os.pathsep.join([str(ROOT / "include"), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_delivers_by_itself_and_the_end_of_a_process_waits() -> None:
    assert in_child(FORKING).splitlines() == ["run-1 True", "run-2 False", "run-3 True"]


def test_a_sink_that_hangs_does_not_keep_a_process_from_ending() -> None:
    assert in_child(HANGING) == "over\n"
