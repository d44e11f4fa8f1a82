"""Where a private Airflow and its ledger keep what they know, on a Postgres server of the tests."""

from __future__ import annotations

from support.postgres import PostgresServer

__all__ = ["postgres_settings"]


def postgres_settings(server: PostgresServer) -> dict[str, str]:
    """
    The environment of an Airflow whose metadata and whose ledger are on this server, each in a database of
    its own that belongs to a role which is no superuser.
    """
    metadata = server.url(database=server.fresh_database())
    return {
        # SQLAlchemy's own default driver is another one.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2{metadata.removeprefix('postgresql')}",
        "AIRFLOW__LOUVER__LEDGER_URL": server.url(database=server.fresh_database()),
    }
