"""Each kind of store, and its rows in the hands of somebody who writes them past the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.records import Record

__all__ = ["STORES", "Store", "store_of"]

T = TypeVar("T", bound=Record)

STORES = ("memory", "sqlite", "postgresql")


class Store:
    """
    A store, of which several ledgers may be opened.

    :param url: of it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: list[Ledger] = []
        self._tables: Any = None

    def open(self, keys: Any = None) -> Ledger:
        """A ledger on the store; closed with it."""
        ledger: Any = open_ledger(self.url, keys)
        if self.url == "memory://":
            self._tables = self._tables or ledger._tables
            ledger._tables = self._tables
        self._opened.append(ledger)
        return ledger

    def close(self) -> None:
        """Close all ledgers on it."""
        for ledger in self._opened:
            ledger.close()

    # Rows, past the ledger

    @contextmanager
    def rows(self) -> Iterator[Any]:
        """Its rows, to be read and written."""
        ledger: Any = self._opened[0] if self._opened else self.open()
        with ledger._transaction(write=True) as rows:
            yield rows

    def find(self, kind: type[T], **equal: Any) -> list[T]:
        """Rows with these values."""
        with self.rows() as rows:
            return list(rows.find(kind, **equal))

    def one(self, kind: type[T], **equal: Any) -> T:
        """The row with these values."""
        (found,) = self.find(kind, **equal)
        return found

    def put(self, *records: Record) -> None:
        """Write rows."""
        with self.rows() as rows:
            for record in records:
                rows.put(record)

    def remove(self, *records: Record) -> None:
        """Remove rows."""
        with self.rows() as rows:
            for record in records:
                primary = {name: getattr(record, name) for name in record.PRIMARY}
                if rows.remove(type(record), **primary) != 1:
                    raise LookupError(f"there is no such {record.TABLE} row")


def store_of(kind: str, request: pytest.FixtureRequest, directory: Path) -> Store:
    """A new store of that kind."""
    if kind == "memory":
        return Store("memory://")
    if kind == "sqlite":
        return Store(f"sqlite:///{directory / 'ledger.db'}")
    return Store(request.getfixturevalue("postgres_url"))
