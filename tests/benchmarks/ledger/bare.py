"""Baseline (a): the least that anything durable in Postgres can cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg2

__all__ = ["BareInserts", "bare_inserts"]

_TABLE = "CREATE TABLE IF NOT EXISTS bare_insert (id text PRIMARY KEY, note text NOT NULL)"
_INSERT = "INSERT INTO bare_insert (id, note) VALUES (%s, %s) RETURNING id"


class BareInserts:
    """
    One ``INSERT ... RETURNING`` in autocommit on a connection of its own, again and again.

    :param connection: of psycopg2.
    """

    def __init__(self, connection: Any) -> None:
        self._cursor = connection.cursor()

    def prepare(self, count: int) -> Callable[[int], object]:
        """An insert to call so many times."""
        cursor = self._cursor
        prefix = uuid4().hex

        def insert(number: int) -> object:
            cursor.execute(_INSERT, (f"{prefix}-{number:06}", "a note of usual length"))
            return cursor.fetchone()

        return insert


@contextmanager
def bare_inserts(url: str) -> Iterator[BareInserts]:
    """Inserts into the database at ``url``, whose table is made where it is not there yet."""
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(_TABLE)
        yield BareInserts(connection)
    finally:
        connection.close()
