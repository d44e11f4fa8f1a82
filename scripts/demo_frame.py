"""
What every demo has around its story: a private Airflow, its end, the verdict.

Everything happens in a home of its own, which is removed at the end where all went as described, and kept
where it did not. The last line is ``DEMO`` and a JSON object; the exit code is 0 only where every expectation
was met.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from airflow_home import AirflowHome, HomeError
from airflow_rest import RestError, TimedOut

__all__ = ["Say", "Story", "play", "print_table"]

Say = Callable[[str], None]


class Story(Protocol):
    """What happens in a demo."""

    def prepare(self) -> None:
        """Put files in the home, before Airflow is started."""

    def tell(self) -> None:
        """Let it happen."""

    def show(self) -> list[str]:
        """Print what was found; returns what is not as described."""

    def as_json(self, problems: list[str]) -> dict[str, Any]:
        """The demo's last line."""


def play(
    argv: Sequence[str],
    *,
    name: str,
    description: str,
    dags: Iterable[str],
    story: Callable[[AirflowHome, Say], Story],
    settings: Callable[[Path], Mapping[str, str]] | None = None,
) -> int:
    """
    Play a demo from the command line.

    :param name: of the script, ``demo``; also in the name of the home.
    :param dags: waited for before the story begins.
    :param story: made of the home and of what prints progress.
    :param settings: more environment variables of Airflow, for the home's folder.
    :returns: the exit code.
    """
    parser = argparse.ArgumentParser(prog=f"scripts/{name}", description=description)
    parser.add_argument("--keep", action="store_true", help="keep the home of this Airflow afterwards")
    options = parser.parse_args(argv)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

    folder = Path(tempfile.mkdtemp(prefix=f"louver-{name}-"))
    home = AirflowHome(folder, settings=settings(folder) if settings else None, say=say)
    told = story(home, say)
    problems: list[str] = []
    try:
        say(f"starting a private Airflow in {folder}")
        home.prepare()
        told.prepare()
        with home.kept_running(dags=dags):
            told.tell()
    except (HomeError, RestError, TimedOut, OSError, ValueError) as error:
        problems.append(f"the demo broke off: {error}")
    except (KeyboardInterrupt, SystemExit):
        problems.append("the demo was interrupted")
    problems += told.show()
    if options.keep or problems:
        print(f"\nThe home is kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        print(f"NOT AS DESCRIBED: {problem}")
    if not problems:
        print(f"\nAll of it is as described, after {time.monotonic() - began:.0f} s.")
    print(f"DEMO {json.dumps(told.as_json(problems))}", flush=True)
    return 1 if problems else 0


def print_table(title: str, rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> None:
    """Rows under the names of these columns; nothing where there are none."""
    if not rows:
        return
    names = list(columns)
    cells = [["" if row[name] is None else str(row[name])[:60] for name in names] for row in rows]
    widths = [max(len(name), *(len(row[index]) for row in cells)) for index, name in enumerate(names)]
    print(f"\n{title}")
    for row in (names, ["-" * width for width in widths], *cells):
        print("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
