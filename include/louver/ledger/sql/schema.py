"""The schema of a ledger's database: is it the one of this release, and how it gets there."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.exc import DBAPIError

from louver.errors import LedgerSchemaError, LedgerUnavailable
from louver.ledger.sql.engine import Engines, parse_url
from louver.ledger.sql.faults import UPGRADE, explained, place_of
from louver.ledger.sql.tables import METADATA, VERSION_TABLE
from louver.signing import SigningKeys

__all__ = ["HEAD", "MIGRATIONS", "migrate", "prepare", "upgrade"]

HEAD = "0008"
"""The revision this release works with; known without loading Alembic, which only a migration needs."""

MIGRATIONS = Path(__file__).parent / "migrations"
"""Alembic's script directory."""

# As text, like all else that every process asks (see `.texts`).
_REVISION = f"SELECT version_num FROM {VERSION_TABLE}"

_ADVISORY_LOCK = 0x6C6F75766572  # "louver"; any number that nobody else takes

# Alembic keeps what it works on in module variables. By process id, as a forked child may find it locked.
_ALEMBIC: dict[int, Lock] = {}


def prepare(engines: Engines, *, keys: SigningKeys) -> None:
    """
    See that the schema is this release's; make it where the database is empty and the role may.

    :param keys: of the ledger.
    :raises LedgerSchemaError: where it is older, newer or unknown, or cannot be made.
    """
    try:
        with engines.begin() as connection:
            # Without looking for the table first: that takes as long as all else that a process asks here.
            revision = _recorded(connection)
            if revision is not None:
                _refuse_read_only(connection)
    except DBAPIError as error:
        if not _lacks_table(error):
            raise
        revision = None
    if revision is None:
        migrate(engines, keys=keys)
    elif revision != HEAD:
        raise LedgerSchemaError(
            f"ledger {place_of(engines.url)}: its schema has revision {revision}, this release works with "
            f"{HEAD}; run `{UPGRADE}`, or use the release that made it where it is newer"
        )


def upgrade(url: str, *, keys: SigningKeys | None = None) -> None:
    """
    Bring the ledger at ``url`` to this release's schema, from an empty database or any earlier revision.

    :param keys: of the ledger; they sign what an earlier revision had not signed.
    :raises ConfigurationError: for a URL that is not one of SQLite or Postgres.
    :raises LedgerUnavailable: where the database is missing, locked, read-only or unreachable.
    :raises LedgerSchemaError: where the revision is unknown, or the role may not change tables.
    """
    engines = Engines(parse_url(url))
    try:
        with explained(engines.url):
            migrate(engines, keys=keys or SigningKeys.unsigned())
    finally:
        engines.close()


def migrate(engines: Engines, *, keys: SigningKeys) -> None:
    """
    Run the migrations that are missing, in one transaction.

    Of several processes that do so at once, one works and the others wait and find nothing left to do.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        with _ALEMBIC.setdefault(os.getpid(), Lock()), engines.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            _revision(connection)
            config.attributes["connection"] = connection
            config.attributes["keys"] = keys
            command.upgrade(config, "head")
    except CommandError:
        raise LedgerSchemaError(
            f"ledger {place_of(engines.url)}: its revision is unknown to this release; "
            f"`{UPGRADE}` of the release that made it can go on"
        ) from None
    except DBAPIError as error:
        if getattr(error.orig, "pgcode", None) != "42501":
            raise
        raise LedgerSchemaError(
            f"ledger {place_of(engines.url)}: the role may not create or change tables; "
            f"run `{UPGRADE}` once with a role that may"
        ) from None


def _revision(connection: Connection) -> str | None:
    """The revision of the database; None where it holds no ledger yet."""
    inspector = inspect(connection)
    found = _recorded(connection) if inspector.has_table(VERSION_TABLE) else None
    if found is not None:
        return found
    if any(inspector.has_table(name) for name in METADATA.tables):
        raise LedgerSchemaError(
            f"ledger {place_of(connection.engine.url)}: it has tables but no revision; "
            f"empty it or restore a backup, then run `{UPGRADE}`"
        )
    return None


def _recorded(connection: Connection) -> str | None:
    """What the table of revisions holds; None where it is empty."""
    found = connection.exec_driver_sql(_REVISION).scalars().all()
    return ", ".join(sorted(found)) or None


def _lacks_table(error: DBAPIError) -> bool:
    return getattr(error.orig, "pgcode", None) == "42P01" or "no such table" in str(error.orig)


def _refuse_read_only(connection: Connection) -> None:
    """Have a database that cannot be written say so now, not in the middle of a run."""
    if connection.dialect.name == "sqlite":
        # Changes nothing, but asks for the right to write; BEGIN IMMEDIATE on a read-only file does not.
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = NULL WHERE false")
    elif connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "on":
        raise LedgerUnavailable(
            f"ledger {place_of(connection.engine.url)}: the server is read-only; "
            "name the primary, not a standby"
        )
