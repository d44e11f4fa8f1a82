"""Where a run's bucket key is found, and what stands for it where ``conf`` is a reference."""

from __future__ import annotations

from typing import Any

import pytest

from louver.buckets.keys import BUCKET_REFERENCE, BucketKeys, KeyRule
from louver.buckets.policy import key_digest
from louver.errors import ConfigurationError, ValueRefused
from louver.intake import EVENT

TENANT = KeyRule.parse("tenant")
CUSTOMER = KeyRule.parse("customer.id")


def test_the_key_is_found_at_its_path() -> None:
    assert TENANT.digest({"tenant": "tenant-A"}) == key_digest("tenant-A")
    assert CUSTOMER.digest({"customer": {"id": 42}}) == key_digest("42")


@pytest.mark.parametrize("conf", [None, {}, [], "tenant", 5, {"other": 1}, {"customer": {}}])
def test_a_run_without_a_key_has_none(conf: Any) -> None:
    assert TENANT.digest(conf) is None
    assert CUSTOMER.digest(conf) is None


@pytest.mark.parametrize("conf", [{"customer": None}, {"customer": "id"}, {"customer": [{"id": "a"}]}])
def test_a_path_through_what_is_no_object_is_refused(conf: Any) -> None:
    with pytest.raises(ValueRefused, match="no object") as caught:
        CUSTOMER.digest(conf)
    assert caught.value.path == "conf.customer.id"


@pytest.mark.parametrize("key", [None, "", True, 1.5, [], {}, "x" * 2**20])
def test_a_bad_key_is_refused_with_its_path(key: Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        CUSTOMER.digest({"customer": {"id": key}})
    assert caught.value.path == "conf.customer.id"


def test_the_key_may_be_in_the_data_of_a_whole_event() -> None:
    event = {"id": "1", "data": {"customer": {"id": "tenant-A"}}}
    assert CUSTOMER.digest({EVENT: event}) == key_digest("tenant-A")
    assert KeyRule.parse("event.id").digest({EVENT: event}) == key_digest("1")
    # What stands in conf itself is nearer.
    assert CUSTOMER.digest({EVENT: event, "customer": {"id": "tenant-B"}}) == key_digest("tenant-B")
    for other in (None, "text", [], {}, {"data": None}, {"data": "text"}, {"data": {}}):
        assert CUSTOMER.digest({EVENT: other}) is None


def test_a_reference_leads_to_the_bucket_of_the_key_and_does_not_hold_it() -> None:
    reference = CUSTOMER.reference({"customer": {"id": "tenant-A"}})

    assert list(reference) == [BUCKET_REFERENCE]
    assert "tenant-A" not in reference[BUCKET_REFERENCE]
    assert CUSTOMER.digest(reference) == TENANT.digest(reference) == key_digest("tenant-A")
    assert CUSTOMER.reference({}) == {}


@pytest.mark.parametrize("text", [None, 7, "", "tenant-A", "0" * 15, "0" * 17, "G" * 16, "\u0664" * 16])
def test_what_is_no_reference_is_refused(text: Any) -> None:
    with pytest.raises(ValueRefused, match=BUCKET_REFERENCE):
        TENANT.digest({BUCKET_REFERENCE: text})


def test_each_dag_may_have_a_path_a_fixed_key_or_no_buckets() -> None:
    keys = BucketKeys.parse(
        "tenant", {"billing": "customer.id", "nightly": {"key": "tenant-A"}, "imports": None}
    )
    conf = {"tenant": "t", "customer": {"id": "c"}}

    assert keys.of("any").digest(conf) == key_digest("t")
    assert keys.of("billing").digest(conf) == key_digest("c")
    assert keys.of("nightly").digest(None) == key_digest("tenant-A")
    assert keys.of("imports").digest(conf) is None
    assert keys.of("imports").digest({BUCKET_REFERENCE: "0" * 16}) is None
    assert keys.of("nightly").reference(conf) == {}


def test_without_a_usual_path_only_named_dags_have_buckets() -> None:
    keys = BucketKeys.parse(" ", {"billing": "tenant"})
    assert keys.of("any").digest({"tenant": "t"}) is None
    assert keys.of("billing").digest({"tenant": "t"}) == key_digest("t")


@pytest.mark.parametrize(
    "by_dag",
    [
        [],
        "billing",
        {"billing": ""},
        {"billing": "a..b"},
        {"billing": 5},
        {"billing": {}},
        {"billing": {"key": ""}},
        {"billing": {"key": None}},
        {"billing": {"key": "a", "path": "b"}},
    ],
)
def test_a_rule_that_cannot_be_read_names_its_dag(by_dag: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        BucketKeys.parse("tenant", by_dag)
    assert not isinstance(by_dag, dict) or "'billing'" in str(caught.value)


def test_a_path_is_not_empty_and_not_beside_a_fixed_key() -> None:
    with pytest.raises(ConfigurationError, match="no path"):
        KeyRule.parse("tenant.")
    with pytest.raises(ConfigurationError, match="not both"):
        KeyRule(path=("tenant",), fixed="a")
