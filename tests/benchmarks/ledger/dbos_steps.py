"""
Baseline (b): a step of dbos, in a process of its own.

A process of its own, because dbos has threads that ask the database in the background; so they take no turn
of the interpreter that the ledger is measured in. dbos is set up as its own documentation begins, with what
it defaults to; only its log is quiet.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

__all__ = ["DbosProcess", "dbos_process"]

_START_SECONDS = 60
_SECONDS_PER_STEP = 1.0


class DbosProcess:
    """
    Runs workflows of dbos and tells how long their steps took.

    :param pipe: to the process.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def steps(self, count: int) -> list[float]:
        """
        The seconds of each of so many sequential steps of one workflow.

        Taken inside of the workflow: its own begin and end are not counted.

        :raises RuntimeError: where the process ends or does not answer.
        """
        self._pipe.send(count)
        return list(self.answer(_START_SECONDS + count * _SECONDS_PER_STEP))

    def answer(self, seconds: float) -> list[float]:
        """
        What the process says next.

        :raises RuntimeError: see :meth:`steps`.
        """
        try:
            if self._pipe.poll(seconds):
                return list(self._pipe.recv())
        except EOFError:
            raise RuntimeError("the process of dbos has ended; its words stand above") from None
        raise RuntimeError(f"the process of dbos does not answer within {seconds:.0f} s")


@contextmanager
def dbos_process(url: str) -> Iterator[DbosProcess]:
    """
    A process in which dbos is at work on its system database at ``url``.

    :raises RuntimeError: where it does not start.
    """
    # Spawned: a forked one would share the connections that are open here.
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, url), name="dbos", daemon=True)
    process.start()
    theirs.close()
    try:
        running = DbosProcess(ours)
        running.answer(_START_SECONDS)
        yield running
    finally:
        # It serves until the pipe is closed.
        ours.close()
        process.join(20)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(pipe: Connection, url: str) -> None:
    from dbos import DBOS

    DBOS(config={"name": "bench-ledger", "system_database_url": url, "log_level": "ERROR"})

    @DBOS.step()
    def step(number: int) -> int:
        return number

    @DBOS.workflow()
    def workflow(count: int) -> list[float]:
        samples = []
        for number in range(count):
            began = time.perf_counter()
            step(number)
            samples.append(time.perf_counter() - began)
        return samples

    DBOS.launch()
    try:
        pipe.send([])
        while True:
            try:
                count = pipe.recv()
            except EOFError:
                return
            pipe.send(workflow(count))
    finally:
        DBOS.destroy()
