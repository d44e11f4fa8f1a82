"""What ``ctx.checkpoint()`` takes while nobody asks for anything."""

from __future__ import annotations

import gc
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from benchmarks.control.extent import Extent
from benchmarks.ledger.extent import KEYS
from benchmarks.ledger.stage import Stage
from benchmarks.ledger.stats import Series
from louver.clock import SystemClock
from louver.context import TaskContext
from louver.ledger import open_ledger
from louver.ports import StepRuntime
from louver.supervision import ControlSettings, Supervision
from louver.timeouts import Timeouts
from louver_provider.watch import watching

__all__ = ["measure_checkpoints"]

_LIMITS = Timeouts(attempt=timedelta(hours=1), idle=timedelta(hours=1))


class _Silent:
    """A step's log that nobody reads."""

    def tell(self, action: str, message: str, *args: object) -> None:
        pass


def measure_checkpoints(extent: Extent) -> Series:
    """
    Seconds of one checkpoint of a step with limits, mean of each block.

    As under Airflow: a thread watches the step, and asks a ledger on SQLite every second.
    """
    control = ControlSettings()
    with (
        tempfile.TemporaryDirectory(prefix="louver-bench-") as folder,
        open_ledger(f"sqlite:///{Path(folder) / 'ledger.db'}", keys=KEYS) as ledger,
    ):
        stage = Stage(ledger)
        token, clock, log = stage.task(), SystemClock(), _Silent()
        supervision = Supervision(
            ledger=ledger,
            token=token,
            clock=clock,
            log=log,
            settings=control,
            timeouts=_LIMITS,
            watched=True,
        )
        runtime = StepRuntime(
            ledger=ledger,
            token=token,
            clock=clock,
            liveness=stage.processes,
            log=log,
            supervision=supervision,
        )
        ctx = TaskContext(runtime=runtime, upstream={})
        supervision.running()
        with watching(control.control_interval)(supervision):
            blocks = [_block(ctx, extent.checkpoints) for _ in range(extent.checkpoint_rounds + 1)]
    # The first one warms up.
    return Series(name="ctx.checkpoint()", rounds=tuple((block,) for block in blocks[1:]))


def _block(ctx: TaskContext, count: int) -> float:
    gc.collect()
    checkpoint, calls = ctx.checkpoint, range(count)
    began = time.perf_counter()
    for _ in calls:
        checkpoint()
    return (time.perf_counter() - began) / count
