"""What a database's errors mean to a user of the ledger, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from louver.errors import LedgerError, LedgerSchemaError, LedgerUnavailable

__all__ = ["UPGRADE", "contended", "explained", "lost", "place_of"]

UPGRADE = "airflow louver db upgrade"
"""The command that brings a schema up to this release."""

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_UNDEFINED = {"42P01", "42703"}  # undefined_table, undefined_column
_CONTENTION = {"40001", "40P01"}  # serialization_failure, deadlock_detected
_LOCKED = {"55P03"}  # lock_not_available, after the whole lock_timeout
_GONE = {"57P01", "57P02", "57P03"}  # admin_shutdown, crash_shutdown, cannot_connect_now
_FORBIDDEN = {"42501"}  # insufficient_privilege
_NOWHERE = {"3F000"}  # invalid_schema_name
_READ_ONLY = {"25006"}  # read_only_sql_transaction
_PASSING = ("53", "55", "57", "58")  # classes: resources, object state, operator intervention, system error

_Meaning = tuple[type[LedgerError], str]


def contended(error: DBAPIError) -> bool:
    """Whether the database gave the transaction up for another one's sake: nothing of it was written."""
    return getattr(error.orig, "pgcode", None) in _CONTENTION


def lost(error: DBAPIError) -> bool:
    """Whether the connection is gone, and with it the answer to what was asked last."""
    code = getattr(error.orig, "pgcode", None)
    return error.connection_invalidated or code in _GONE


def place_of(url: URL) -> str:
    """The URL as it may be shown: without the password, and without the query, which may hold another."""
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


@contextmanager
def explained(url: URL) -> Iterator[None]:
    """
    Turn the database's errors into the ledger's.

    :param url: of the ledger; shown without its password.
    :raises LedgerUnavailable: where the database cannot be reached, locked or written.
    :raises LedgerSchemaError: where a table or a column is missing.
    :raises LedgerError: for anything else that a database can say.
    """
    try:
        yield
    except PoolTimeout as error:
        raise LedgerUnavailable(
            f"ledger {place_of(url)}: all connections of this process are in use; use fewer threads"
        ) from error
    except DBAPIError as error:
        found = _explain(error, url)
        # Of other errors the driver's text may quote the row, so the chain ends here (product row O9).
        raise found from (error if isinstance(found, LedgerUnavailable) else None)
    except SQLAlchemyError as error:
        raise LedgerError(f"ledger {place_of(url)}: {type(error).__name__}") from None


def _explain(error: DBAPIError, url: URL) -> LedgerError:
    # The first line alone: Postgres quotes rows in those that follow it.
    said = (str(error.orig).strip().splitlines() or [type(error.orig).__name__])[0]
    kind, advice = _sqlite(error, said, url) if url.get_backend_name() == "sqlite" else _postgres(error)
    return kind(f"ledger {place_of(url)}: {said}; {advice}")


def _postgres(error: DBAPIError) -> _Meaning:
    code = getattr(error.orig, "pgcode", None) or ""
    if code in _UNDEFINED:
        return LedgerSchemaError, f"run `{UPGRADE}`"
    if code in _CONTENTION | _LOCKED:
        return LedgerUnavailable, "another process was in the way; try again"
    if code in _READ_ONLY:
        return LedgerUnavailable, "the server is read-only; name the primary, not a standby"
    if code in _NOWHERE:
        return LedgerSchemaError, "make the schema that search_path names, and grant the role USAGE on it"
    if code in _FORBIDDEN:
        return LedgerUnavailable, (
            "grant the role SELECT, INSERT and UPDATE on the ledger's tables, and DELETE for resources and "
            "for what removes something (`airflow louver gc`, `clean` and `checkpoints reset`)"
        )
    if not code and "certificate" in str(error.orig):
        return LedgerUnavailable, "check the host, and that sslrootcert names who signed its certificate"
    if error.connection_invalidated or (not code and isinstance(error, OperationalError | InterfaceError)):
        return LedgerUnavailable, "check that the server runs, and host, port, database, user and password"
    if code.startswith(_PASSING):
        return LedgerUnavailable, "see to the server, then try again"
    return LedgerError, "nothing was written"


def _sqlite(error: DBAPIError, said: str, url: URL) -> _Meaning:
    if "no such table" in said or "no such column" in said or "has no column" in said:
        return LedgerSchemaError, f"run `{UPGRADE}`"
    if "locked" in said or "busy" in said:
        return LedgerUnavailable, "another process kept it for the whole waiting time; let that one finish"
    if "not a database" in said or "malformed" in said:
        return LedgerUnavailable, "the file is damaged or no SQLite database; restore it, or name another"
    if "unable to open" in said or "readonly" in said or "read-only" in said:
        return LedgerUnavailable, _about_file(Path((url.database or "").removeprefix("file:")))
    if isinstance(error, OperationalError):
        return LedgerUnavailable, "see to the disk it is on, then try again"
    return LedgerError, "nothing was written"


def _about_file(path: Path) -> str:
    try:
        if not path.parent.is_dir():
            return f"the directory {path.parent} does not exist; make it, or correct the URL"
        if path.is_dir():
            return "that is a directory; name a file in it"
    except OSError:
        return f"the directory {path.parent} cannot be entered by this user; allow it"
    return "let this user write the file and its directory, where SQLite keeps its journal"
