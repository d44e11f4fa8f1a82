"""Ledgers as earlier releases had them."""

from __future__ import annotations

from alembic import command
from alembic.config import Config

from louver.ledger.sql.engine import Engines, parse_url
from louver.ledger.sql.schema import MIGRATIONS
from louver.signing import SigningKeys

__all__ = ["at_revision"]


def at_revision(url: str, revision: str) -> None:
    """Make the tables as they were at that revision."""
    engines = Engines(parse_url(url))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engines.begin() as connection:
        config.attributes["connection"] = connection
        config.attributes["keys"] = SigningKeys.unsigned()
        command.upgrade(config, revision)
    engines.close()
