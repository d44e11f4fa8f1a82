"""
One after the other: who wakes a parked task, where Airflow's database cannot see to that.

Airflow locks the task instance while it takes an answer. SQLite has no such locks: of two answers at the same
moment both read that the task is parked, and the later one writes over a task that may be running again by
then. Airflow on SQLite lives on one machine, so a lock on a file in its home does instead.
"""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from airflow.configuration import conf

from louver_provider.settings import airflow_home

__all__ = ["Turn", "turn"]

log = logging.getLogger(__name__)

_LOCK_FILE = "louver_answers.lock"
_PATIENCE = 5.0
_LOOK = 0.02


class Turn:
    """The right to wake a task; as long as one has it, no other process of this Airflow has."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    @staticmethod
    def needed() -> bool:
        """Whether Airflow's database leaves it to us."""
        return conf.get("database", "sql_alchemy_conn", fallback="").startswith("sqlite")

    def take(self, patience: float = _PATIENCE) -> bool:
        """
        Wait for it.

        :param patience: seconds.
        :returns: False where others have had it all that time.
        """
        try:
            file = (airflow_home() / _LOCK_FILE).open("ab")
        except OSError:
            # Then it is as Airflow alone would have it.
            log.warning("louver: %s in Airflow's home cannot be written", _LOCK_FILE)
            return True
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    file.close()
                    return False
                time.sleep(_LOOK)
            else:
                self._file = file
                return True

    def give(self) -> None:
        """Let others have it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


@contextmanager
def turn() -> Iterator[bool]:
    """Have the turn inside the block; False where it could not be had."""
    mine = Turn()
    if not mine.needed():
        yield True
        return
    try:
        yield mine.take()
    finally:
        mine.give()
