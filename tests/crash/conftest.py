"""The nursery that the processes of this tier come from, and the places where they work."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from support.nursery import Nursery

Place = dict[str, str]
"""URL of a ledger, and the shop's file."""


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where processes are brought up that have imported all that they need."""
    with Nursery("crash.children", "louver.ledger.sql.postgres.store") as nursery:
        yield nursery


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """
    A directory, in memory where there is such a one.

    What a process has written stays when it is killed; only a power cut would take what is not on a disk.
    """
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    directory = Path(tempfile.mkdtemp(prefix="louver-crash-", dir=memory if usable else None))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    """The kind of store."""
    return str(request.param)


@pytest.fixture
def new_place(request: pytest.FixtureRequest, store: str, scratch: Path) -> Callable[[], Place]:
    """Return how to make a place with a new ledger and a new shop."""

    def make() -> Place:
        number = next(_NUMBERS)
        if store == "sqlite":
            url = f"sqlite:///{scratch / f'ledger-{number}.db'}"
        else:
            url = request.getfixturevalue("postgres").fresh_schema()
        return {"url": url, "shop": str(scratch / f"shop-{number}.db")}

    return make


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    """A new ledger and a new shop."""
    return new_place()


_NUMBERS = count(1)
