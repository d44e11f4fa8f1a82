"""
The ledger's part in ``airflow db migrate``, ``airflow db check-migrations`` and ``airflow db reset``.

Airflow finds the manager by the provider info (``db-managers``) and calls it after its own migration, in the
same command. Airflow's managers work on Airflow's database; the ledger has one of its own, so this one goes
to ``[louver] ledger_url`` and leaves the session it is given alone.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from airflow.utils.db_manager import BaseDBManager
from sqlalchemy import URL

from louver.errors import LouverError
from louver.ledger.sql.engine import Engines, parse_url
from louver.ledger.sql.faults import explained, place_of
from louver.ledger.sql.schema import HEAD, MIGRATIONS, upgrade
from louver.ledger.sql.tables import METADATA, VERSION_TABLE
from louver_provider.settings import load_settings, load_signing_keys

__all__ = ["LouverDBManager"]

log = logging.getLogger(__name__)

_MEMORY = "memory://"
_NO_LEDGER_FOR_AIRFLOW = (
    "[louver] ledger_url is memory://, which lives and ends with one process. Airflow's processes cannot "
    "share it, and Louver's Dags refuse to start with it; name a SQLite file or a Postgres database"
)
_NOTHING_TO_MIGRATE = f"Louver has no ledger to migrate: {_NO_LEDGER_FOR_AIRFLOW}"
_NOTHING_TO_KEEP = f"Louver has no ledger that could be kept: {_NO_LEDGER_FOR_AIRFLOW}"
_CURE = "run `airflow db migrate` or `airflow louver db upgrade`"


class LouverDBManager(BaseDBManager):
    """
    Makes and migrates the ledger when Airflow's database is.

    **Migration never fails Airflow's.** Airflow makes its default pool after the managers have run, and
    ``airflow standalone`` ends where one raises; so trouble with the ledger is one logged error, and Airflow
    goes on. Louver's Dags then fail closed, with the same words, until ``airflow louver db upgrade`` has
    succeeded. That command exits with 1 where it cannot, which ``airflow db migrate`` does not: use it in a
    deployment.

    **check-migrations** waits for what a migration cures: a ledger without tables, or with those of an
    earlier release. What none cures (a server that does not answer, a newer schema, a setting that cannot be
    used) is one logged error, and no reason to keep Airflow from starting.

    **A ledger in memory** has no schema, so there is nothing to migrate, to wait for or to keep; each command
    says so, and that Airflow cannot work with one.

    **Nothing is ever dropped.** ``airflow db reset`` begins Airflow's database afresh; what was done to other
    people's money and stock is still done, and the ledger alone knows how to undo it and what must not happen
    twice. So the ledger stays, and a line says where it is. Who wants it gone stops Airflow and drops that
    database, or deletes that file, by hand. ``airflow db-manager reset`` and ``downgrade`` are refused for
    the same reason.
    """

    metadata = METADATA
    migration_dir = str(MIGRATIONS)
    alembic_file = ""
    version_table_name = VERSION_TABLE
    supports_table_dropping = False

    _told: ClassVar[set[str]] = set()

    def initdb(self, use_migration_files: bool = False) -> None:
        """
        Bring the ledger up to date, whatever it was; a second time changes nothing.

        :param use_migration_files: the ledger is always made by its migrations.
        """
        try:
            url = load_settings().ledger_url
            if url == _MEMORY:
                log.error(_NOTHING_TO_MIGRATE)
                return
            upgrade(url, keys=load_signing_keys())
            log.info("Louver's ledger %s has the schema of this release", place_of(parse_url(url)))
        except LouverError as error:
            self._tell("Louver's ledger was not migrated: %s", error)
        except Exception:
            # Whatever it is, it must not keep Airflow from its pools.
            log.exception("Louver's ledger was not migrated; Airflow's own database was")

    def upgradedb(
        self,
        to_revision: str | None = None,
        from_revision: str | None = None,
        show_sql_only: bool = False,
        use_migration_files: bool = False,
    ) -> None:
        """
        As :meth:`initdb`.

        :raises SystemExit: where anything but this release's schema is asked for.
        """
        if to_revision or from_revision or show_sql_only:
            _refuse("it goes to the schema of this release only, and shows no SQL")
        self.initdb()

    def check_migration(self) -> bool:
        """Whether nothing is left that a migration would do."""
        try:
            url = load_settings().ledger_url
            if url == _MEMORY:
                self._tell(_NOTHING_TO_MIGRATE)
                return True
            place = parse_url(url)
            found = _revisions(place)
        except LouverError as error:
            self._tell("Louver's ledger could not be checked for migrations: %s", error)
            return True
        if found == (HEAD,):
            return True
        if not found:
            self._tell("Louver's ledger %s has no schema yet; %s", place_of(place), _CURE)
            return False
        named = ", ".join(found)
        if set(found) <= _known():
            self._tell(
                "Louver's ledger %s has revision %s, this release works with %s; %s",
                place_of(place),
                named,
                HEAD,
                _CURE,
            )
            return False
        self._tell(
            "Louver's ledger %s has revision %s, which this release does not know; use the one that made it",
            place_of(place),
            named,
        )
        return True

    def get_current_revision(self) -> str | None:
        """The ledger's revision, or None where it has none."""
        url = load_settings().ledger_url
        return None if url == _MEMORY else next(iter(_revisions(parse_url(url))), None)

    def create_db_from_orm(self) -> None:
        """As :meth:`initdb`."""
        self.initdb()

    def drop_tables(self, connection: Any) -> None:
        """Leave the ledger as it is, and say so."""
        try:
            url = load_settings().ledger_url
            if url == _MEMORY:
                log.warning(_NOTHING_TO_KEEP)
                return
            place = place_of(parse_url(url))
        except LouverError:
            place = "(its setting cannot be used)"
        log.warning(
            "Louver's ledger %s is kept: it holds what must not happen twice and how to undo what was done. "
            "To begin it afresh, stop Airflow and drop that database, or delete that file, by hand",
            place,
        )

    def resetdb(self, skip_init: bool = False, use_migration_files: bool = False) -> None:
        """
        Refuse; see the class.

        :raises SystemExit: always.
        """
        _refuse("no command drops it; stop Airflow and drop its database, or delete its file, by hand")

    def downgrade(
        self, to_revision: str, from_revision: str | None = None, show_sql_only: bool = False
    ) -> None:
        """
        Refuse; a ledger goes forwards only.

        :raises SystemExit: always.
        """
        _refuse("it goes forwards only; restore the backup that was made before the migration")

    def _tell(self, message: str, *args: Any) -> None:
        """Log an error once a process: check-migrations asks every second."""
        if message not in self._told:
            self._told.add(message)
            log.error(message, *args)


def _refuse(why: str) -> NoReturn:
    raise SystemExit(f"Louver's ledger: {why}")


def _revisions(place: URL) -> tuple[str, ...]:
    """
    The revisions of the ledger's database; none where it holds no ledger.

    Asking makes nothing, not even SQLite's empty file.
    """
    from alembic.migration import MigrationContext

    if place.get_backend_name() == "sqlite" and _is_missing(place.database):
        return ()
    engines = Engines(place)
    try:
        with explained(place), engines.begin() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            return tuple(sorted(context.get_current_heads()))
    finally:
        engines.close()


def _is_missing(database: str | None) -> bool:
    """Whether the file of a SQLite URL is not there yet; its directory is, or an error will say so."""
    if database is None or database.startswith("file:"):
        return False
    path = Path(database)
    return path.parent.is_dir() and not path.exists()


def _known() -> set[str]:
    """All revisions that this release can go on from."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}
