"""
Whether a transaction whose COMMIT was not answered came about: its rows tell.

The server knows by the transaction's number, ``pg_xact_status``; but after a crash it has forgotten what had
not reached its log, and gives the number to another transaction, which may then be the one that committed. So
a number that is said to be committed is believed only where the rows bear it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, Text, cast, literal_column, select

from louver.ledger.records import PayloadRecord, Record
from louver.ledger.sql.rows import SqlRows
from louver.ledger.sql.tables import TABLES

__all__ = ["Written", "bear_out"]

Written = Mapping[tuple[type[Record], tuple[Any, ...]], Record]
"""What a transaction wrote last into each row."""

# https://www.postgresql.org/docs/current/ddl-system-columns.html: a row keeps the lower half of the number.
_HALF = 1 << 32


def bear_out(connection: Connection, number: int, written: Written) -> bool | None:
    """
    Whether the rows are as the transaction left them; None where all of them have been written since.

    :param connection: sees one moment of the ledger.
    :param number: of the transaction, said to be committed.
    """
    rows = SqlRows(connection)
    # The large ones last: mostly the first row tells.
    for (kind, primary), record in sorted(written.items(), key=lambda entry: entry[0][0] is PayloadRecord):
        writer = _writer_of(connection, kind, primary)
        if writer is None:
            return False
        since = (writer - number) % _HALF
        if since == 0:
            return rows.peek(kind, *primary) == record
        if since >= _HALF // 2:
            # Written before, and not since.
            return False
    # A transaction that only locked may be done again; one whose rows are all others' by now may not.
    return None if written else False


def _writer_of(connection: Connection, kind: type[Record], primary: tuple[Any, ...]) -> int | None:
    columns = TABLES[kind].c
    writer = cast(cast(literal_column("xmin"), Text), BigInteger)
    is_it = [columns[name] == value for name, value in zip(kind.PRIMARY, primary, strict=True)]
    return connection.execute(select(writer).where(*is_it)).scalar()
