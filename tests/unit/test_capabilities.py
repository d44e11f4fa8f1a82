"""What a feature needs of its store is asked at start."""

from __future__ import annotations

import pytest

from louver.errors import ConfigurationError
from louver.ledger import capabilities, open_ledger
from louver.ledger.capabilities import require
from louver.ledger.memory import MemoryLedger
from louver.ledger.requests import Capability
from louver.ledger.sql.postgres.store import PostgresLedger
from louver.ledger.sql.store import SqlLedger

LISTING, SHARED, DURABLE = Capability.LISTING, Capability.SHARED, Capability.DURABLE
SKIP_LOCKED, NOTIFY = Capability.SKIP_LOCKED, Capability.NOTIFY


@pytest.fixture
def memory():
    with open_ledger("memory://") as ledger:
        yield ledger


class Everything(MemoryLedger):
    CAPABILITIES = frozenset(Capability)


class Nothing(MemoryLedger):
    CAPABILITIES = frozenset()


def refusal(ledger, *needed):
    with pytest.raises(ConfigurationError) as caught:
        require(ledger, *needed, feature="Retention")
    return str(caught.value)


def test_what_each_store_declares():
    assert {kind: kind.CAPABILITIES for kind in (MemoryLedger, SqlLedger, PostgresLedger)} == {
        MemoryLedger: {LISTING},
        SqlLedger: {LISTING, SHARED, DURABLE},
        PostgresLedger: {LISTING, SHARED, DURABLE, SKIP_LOCKED},
    }


def test_what_is_offered_passes(memory):
    require(memory, feature="nothing in particular")
    require(memory, LISTING, feature="ps")
    with Everything(keys=memory._keys) as ledger:
        require(ledger, *Capability, feature="all of it")


def test_the_message_names_the_feature_the_store_what_it_lacks_and_the_way_out(memory):
    assert refusal(memory, LISTING, SHARED, DURABLE, SHARED) == (
        "Retention cannot use MemoryLedger: no other process sees it (shared), it is gone with its process "
        "(durable); give a ledger URL ([louver] ledger_url) that begins with sqlite:/// or postgresql://"
    )


@pytest.mark.parametrize(
    ("needed", "way_out"),
    [
        ([SKIP_LOCKED], "begins with postgresql://"),
        ([SHARED, SKIP_LOCKED], "begins with postgresql://"),
        ([NOTIFY], "no store of this release offers that, so leave the feature off"),
        ([SHARED, NOTIFY], "no store of this release offers that, so leave the feature off"),
    ],
)
def test_the_way_out_is_a_store_that_offers_all_that_is_needed(memory, needed, way_out):
    assert refusal(memory, *needed).endswith(way_out)


def test_a_store_of_others_without_any_is_told_of_all_stores():
    with Nothing(keys=open_ledger("memory://")._keys) as ledger:
        said = refusal(ledger, LISTING)

    assert said.startswith("Retention cannot use Nothing: it cannot list runs (listing);")
    assert said.endswith("begins with memory:// or sqlite:/// or postgresql://")


@pytest.mark.parametrize("capability", Capability, ids=str)
def test_the_ways_out_are_the_stores_that_declare_it(capability):
    stores = {"memory://": MemoryLedger, "sqlite:///": SqlLedger, "postgresql://": PostgresLedger}
    declared = tuple(url for url, kind in stores.items() if capability in kind.CAPABILITIES)

    assert capabilities._OFFERED_BY[capability] == declared


def test_every_capability_stands_in_the_table_of_the_docs():
    rows = [line.split() for line in capabilities.__doc__.splitlines() if line]
    told = {row[0]: tuple(row[1:4]) for row in rows if row[0] in set(map(str, Capability))}

    stores = (MemoryLedger, SqlLedger, PostgresLedger)
    assert told == {
        str(capability): tuple("yes" if capability in kind.CAPABILITIES else "no" for kind in stores)
        for capability in Capability
    }
