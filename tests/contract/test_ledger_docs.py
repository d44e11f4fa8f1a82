"""The commands in docs/ledger.md make two roles, of which one works on what the other has made."""

from __future__ import annotations

from typing import Any

import pytest
from support.pages import ROOT, blocks
from support.pasts import KEYS
from support.postgres import Role
from support.upkeep import cleaned, lived_all

from louver.errors import LedgerSchemaError
from louver.ledger import open_ledger
from louver.ledger.sql.schema import upgrade
from louver.maintenance import verify_ledger

ADMINISTRATOR, OWNER = blocks(ROOT / "docs" / "ledger.md", "sql")


def statements(text: str) -> list[str]:
    """Each by itself: a database is not made in a transaction."""
    return [statement.strip() for statement in text.split(";") if statement.strip()]


@pytest.fixture
def roles(postgres: Any) -> tuple[Role, Role]:
    """The owner, and the role that works, with a database whose default privileges are set."""
    owner, work = Role("ledger_owner", "choose one"), Role("ledger_work", "choose another")
    # A role and a database of the page's names belong to the tests' own server.
    text = ADMINISTRATOR.replace("louver_", "ledger_").replace("DATABASE louver ", "DATABASE ledger ")
    for statement in statements(text):
        postgres.execute(statement)
    with postgres.connect(role=owner, database="ledger") as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements(OWNER.replace("louver_", "ledger_")):
                cursor.execute(statement)
    return owner, work


def test_the_two_roles_of_the_docs(postgres: Any, roles: tuple[Role, Role]) -> None:
    owner, work = (postgres.url(role=role, database="ledger") for role in roles)
    with pytest.raises(LedgerSchemaError, match="may not create or change tables"):
        upgrade(work)
    upgrade(owner)

    with open_ledger(work, KEYS) as ledger:
        lived_all(ledger, "succeeded")
        assert verify_ledger(ledger).findings == ()
        assert cleaned(ledger)
