"""The Postgres server that everything is measured on."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from typing import Any

from support.postgres import PostgresServer

__all__ = ["benchmark_server", "describe"]

# As a server is run in earnest: what is committed is on disk. The rest keeps checkpoints and vacuums, which
# come when they come, from falling into one thing's turn and not into another's.
_SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "max_connections": "100",
    "jit": "off",
    "timezone": "UTC",
}
_TOLD = (
    *("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers"),
    *("commit_delay", "commit_siblings"),
)


def benchmark_server(*, slower_flush: float = 0.0) -> PostgresServer:
    """
    A server of one's own that is as careful as one in earnest; a context manager.

    :param slower_flush: milliseconds by which each flush takes longer than this machine's disk does, as on
        the disks of a network. The server waits as long before it flushes; who comes meanwhile is flushed
        with it, as it would be there.
    """
    delay = {"commit_delay": str(round(slower_flush * 1000)), "commit_siblings": "0"} if slower_flush else {}
    return PostgresServer(settings={**_SETTINGS, **delay})


def describe(server: PostgresServer) -> dict[str, str]:
    """What the figures depend on, and how busy the machine is before they are taken."""
    cores = len(os.sched_getaffinity(0))
    settings = ", ".join(f"{name} {_ask(server, f'SHOW {name}')}" for name in _TOLD)
    packages = ("psycopg2-binary", "SQLAlchemy", "dbos", "psycopg")
    return {
        "Postgres": f"{_ask(server, 'SHOW server_version')}: {settings}",
        "Python": f"{platform.python_version()}: {', '.join(f'{name} {version(name)}' for name in packages)}",
        "machine": f"{cores} cores, {platform.machine()}, {sys.platform}, load {os.getloadavg()[0]:.1f}",
    }


def _ask(server: PostgresServer, question: str) -> Any:
    ((answer,),) = server.execute(question)
    return answer
