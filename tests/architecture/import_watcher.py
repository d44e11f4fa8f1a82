"""
Imports modules and prints, as JSON, what their top level did beyond defining things.

Run as a script, in a process of its own: ``import_watcher.py DIRECTORY WITH_AIRFLOW MODULE ...``. Blamed is
the code below DIRECTORY alone: what a foreign module does when it is imported is its own affair.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

EVENTS = (
    "open",
    "os.listdir",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.scandir",
    "os.system",
    "os.putenv",
    "socket.",
    "sqlite3.connect",
    "subprocess.Popen",
    "signal.",
    "logging.",
)

#: Asked by pydantic whenever a model of ours is defined; its own affair, like what it does when imported.
FOREIGN_SWITCHES = ("PYDANTIC_DISABLE_PLUGINS",)

found: list[str] = []
watched = ""


def blamed() -> str | None:
    """Return the line below the watched directory whose top level led here, or None."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            return None
        if code.co_name == "<module>":
            inside = code.co_filename.startswith(watched)
            return f"{code.co_filename}:{frame.f_lineno}" if inside else None
        frame = frame.f_back
    return None


def note(event: str) -> None:
    """Record ``event`` if the watched code is to blame."""
    if (line := blamed()) is not None:
        found.append(f"{line} {event}")


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Look at one of the interpreter's audit events."""
    if event.startswith(EVENTS):
        note(event)


def noting(function: Callable[..., Any], text: Callable[..., str]) -> Callable[..., Any]:
    """Wrap ``function`` so that its calls are noted."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        note(text(*arguments))
        return function(*arguments, **keywords)

    return wrapped


def watch_environment() -> None:
    """Note each read of an environment variable."""
    kind: Any = type(os.environ)
    read = kind.__getitem__
    watched_read = noting(read, lambda _, name: f"environment {name}")
    kind.__getitem__ = lambda self, name: (read if name in FOREIGN_SWITCHES else watched_read)(self, name)


def watch_threads() -> None:
    """Note each thread that is started (not every supported Python has an audit event for it)."""
    threading.Thread.start = noting(threading.Thread.start, lambda *_: "thread started")  # type: ignore[method-assign]


def watch_sqlalchemy() -> None:
    """Note each engine that is made."""
    try:
        sqlalchemy: Any = importlib.import_module("sqlalchemy")
    except ModuleNotFoundError:
        return
    wrapped = noting(sqlalchemy.create_engine, lambda *_: "create_engine")
    sqlalchemy.create_engine = sqlalchemy.engine.create_engine = wrapped


def setting(_: object, section: str = "", key: str = "", *rest: object) -> str:
    """Return how the reading of a setting is noted."""
    return f"setting {section}.{key}"


def watch_airflow() -> None:
    """Note each setting that is read."""
    parser: Any = importlib.import_module("airflow.configuration").AirflowConfigParser
    importlib.import_module("airflow.sdk")
    for kind in parser.__mro__:
        for name in (
            "get",
            "getboolean",
            "getint",
            "getfloat",
            "getlist",
            "getjson",
            "getimport",
            "has_option",
        ):
            if name in vars(kind) and kind.__module__.startswith("airflow"):
                setattr(kind, name, noting(vars(kind)[name], setting))


def main(argv: list[str]) -> None:
    """Import the modules and print what was found."""
    global watched
    watched = argv[0]
    if argv[1] == "1":
        watch_airflow()
    watch_sqlalchemy()
    watch_threads()
    watch_environment()
    sys.addaudithook(audit)
    for name in argv[2:]:
        importlib.import_module(name)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
