"""
Starting the embedded reconciler: once, in a process that is Airflow's scheduler, and only there.

Nothing here may keep a scheduler from starting (case K02): what goes wrong is one line in its log.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

__all__ = ["is_scheduler", "start_embedded", "stop_embedded"]

log = logging.getLogger(__name__)

_JOB = "airflow.jobs.job"
_SCHEDULER = "airflow.cli.commands.scheduler_command"

# By process id: a fork of the scheduler is another process, and the keeper is none of its own.
_KEEPERS: dict[int, subprocess.Popen[bytes]] = {}


def is_scheduler(component: Any) -> bool:
    """
    Whether it is the scheduler's job that starts in this process.

    Airflow tells of a job before it knows its type, and of every task, whose process is a fork of the
    scheduler's with the same command line. So: a job, made by the scheduler's command.
    """
    # By its name: a task's process has no use for the module.
    if type(component).__module__ != _JOB:
        return False
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == _SCHEDULER:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def start_embedded() -> None:
    """
    Start it, where ``[louver] reconciler`` says ``embedded``.

    :raises ConfigurationError: where the settings cannot be used.
    :raises OSError: where no process can be started.
    """
    from louver_provider.settings import load_settings

    if load_settings().reconciler != "embedded" or os.getpid() in _KEEPERS:
        return
    parent = os.getpid()
    command = [sys.executable, "-m", "louver_provider.reconciler.keeper", str(parent)]
    _KEEPERS.clear()
    _KEEPERS[parent] = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    log.info("louver [reconciler.started] embedded, kept by process %s", _KEEPERS[parent].pid)


def stop_embedded() -> None:
    """Tell it to stop; it would notice by itself too."""
    keeper = _KEEPERS.pop(os.getpid(), None)
    if keeper is not None and keeper.poll() is None:
        keeper.terminate()
