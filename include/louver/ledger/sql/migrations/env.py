"""
Alembic's environment: migrates over the connection that the caller hands in.

Run by :mod:`louver.ledger.sql.schema` alone. It reads no ini file, opens nothing and leaves logging as it is;
the transaction is the caller's.
"""

from __future__ import annotations

from alembic import context

from louver.errors import ConfigurationError
from louver.ledger.sql.tables import METADATA, VERSION_TABLE

connection = context.config.attributes.get("connection")
if connection is None:
    raise ConfigurationError(
        "the ledger is migrated by `airflow louver db upgrade`, not by the alembic command"
    )

context.configure(connection=connection, target_metadata=METADATA, version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
