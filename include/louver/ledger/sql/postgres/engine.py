"""Connections to Postgres, set up as the ledger needs them; nothing here costs an operation a round trip."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, create_engine, event

from louver.errors import ConfigurationError
from louver.ledger.sql.faults import place_of

__all__ = ["postgres_engine"]

# libpq's, where the URL does not name them. Without those of TCP, a client whose network falls silent waits
# for some two hours: here a lost answer shows after some ten seconds.
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_OPTIONS = {
    "fallback_application_name": "louver",
    "client_encoding": "utf8",
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

# READ COMMITTED whatever the server's default is: rows that are read to be changed are locked, and the
# stricter levels would only add failures that have to be tried again.
# The limits only where neither the URL's options nor an administrator set them: a process that freezes in the
# middle of a transaction would keep its rows locked for ever, and all who want them waiting.
_SETUP = """
    SELECT set_config('default_transaction_isolation', 'read committed', false)
    UNION ALL
    SELECT set_config(name, wanted, false)
    FROM (VALUES ('lock_timeout', '30s'), ('idle_in_transaction_session_timeout', '60s')) AS l (name, wanted)
    JOIN pg_catalog.pg_settings USING (name) WHERE source = 'default'
"""


def postgres_engine(url: URL) -> Engine:
    """
    The engine for this URL; it connects when it is first used.

    A connection is not tried before it is used: one that is gone shows at its first statement, and the store
    does the work again on a new one.

    :raises ConfigurationError: when it connects, for a database that cannot hold all text.
    """
    given = {name: value for name, value in _OPTIONS.items() if name not in url.query}
    # SQLAlchemy would ask every new connection for the type hstore, which no table here has. Values of rows
    # never stand in an error message (product row O9).
    engine = create_engine(url, connect_args=given, hide_parameters=True, use_native_hstore=False)

    def connected(connection: Any, _: Any) -> None:
        try:
            _require_unicode(connection, url)
            # Outside a transaction, which would be two more round trips.
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(_SETUP)
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise

    def returned(connection: Any, _: Any) -> None:
        # SQLAlchemy leaves a level behind after a transaction that had another. Whenever autocommit ends,
        # psycopg2 would reset that level on the server: a round trip more for each decision.
        if connection is not None and not connection.closed:
            connection.isolation_level = None

    event.listen(engine, "connect", connected)
    event.listen(engine, "checkin", returned)
    return engine


def _require_unicode(connection: Any, url: URL) -> None:
    """Refuse a database that would fail in the middle of a run, at the first name that it cannot spell."""
    encoding = connection.get_parameter_status("server_encoding")  # the server said so when it let us in
    if encoding != "UTF8":
        raise ConfigurationError(
            f"ledger {place_of(url)}: the database has the encoding {encoding}, which cannot hold all text; "
            "name one that was made WITH ENCODING 'UTF8'"
        )
