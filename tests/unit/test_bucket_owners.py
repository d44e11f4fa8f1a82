"""Owners of buckets: gaps and overlaps are told, and never keep a process from its work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.buckets.owners import BucketOwners, Claim, ranges_text
from louver.errors import ConfigurationError

TWO = BucketOwners.parse("node-a:0-31, node-b:32-63")


def test_each_bucket_has_its_owner() -> None:
    assert [TWO.owner_of(bucket) for bucket in (0, 31, 32, 63, 64)] == [
        "node-a",
        "node-a",
        "node-b",
        "node-b",
        None,
    ]
    assert TWO.nodes == ("node-a", "node-b")
    assert TWO.buckets_of("node-b") == list(range(32, 64))
    assert TWO.buckets_of("node-c") == []


def test_a_node_may_own_several_ranges_and_single_buckets() -> None:
    owners = BucketOwners.parse("a:0-1, b:2, a:3")
    assert (owners.buckets_of("a"), owners.buckets_of("b")) == ([0, 1, 3], [2])
    assert owners.nodes == ("a", "b")


def test_gaps_are_what_nobody_owns() -> None:
    assert TWO.gaps(64) == []
    assert TWO.gaps(66) == [64, 65]
    assert BucketOwners.parse("a:1-2, b:4").gaps(6) == [0, 3, 5]
    assert TWO.beyond(62) == [62, 63]


def test_the_first_claim_counts_and_overlaps_are_told() -> None:
    owners = BucketOwners.parse("a:0-2, b:2-4, c:2")
    assert owners.owner_of(2) == "a"
    assert owners.overlaps() == {2: ("a", "b", "c")}
    assert TWO.overlaps() == {}


def test_one_node_that_claims_twice_is_no_overlap() -> None:
    assert BucketOwners.parse("a:0-2, a:1").overlaps() == {}


def test_without_owners_nothing_is_missing() -> None:
    nobody = BucketOwners.parse("  ")
    assert not nobody
    assert nobody == BucketOwners()
    assert nobody.gaps(64) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "node-c.d"]), st.integers(0, 60), st.integers(0, 60)),
        min_size=1,
        max_size=8,
    )
)
def test_owned_and_missing_buckets_are_all_there_are(drawn: list[tuple[str, int, int]]) -> None:
    owners = BucketOwners(
        claims=tuple(
            Claim(node=node, first=min(one, other), last=max(one, other)) for node, one, other in drawn
        )
    )
    owned = {bucket for bucket in range(64) if owners.owner_of(bucket)}

    assert owned | set(owners.gaps(64)) == set(range(64))
    assert not owned & set(owners.gaps(64))
    assert sorted(bucket for node in owners.nodes for bucket in owners.buckets_of(node)) == sorted(owned)
    assert set(owners.overlaps()) <= owned
    assert BucketOwners.parse(str(owners)) == owners


@pytest.mark.parametrize(
    "text",
    [
        "node-a",
        "node-a:",
        ":0-3",
        "node-a:3-1",
        "node-a:-1",
        "node-a:0-",
        "node-a:0-4096",
        "node-a:x",
        "node a:0",
        "node-a:0,,node-b:1",
        "node-a:0,",
        "n\u00f6de:0",
        "-a:0",
        "a:\u0664",
    ],
)
def test_what_is_no_list_of_owners_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        BucketOwners.parse(text)


def test_numbers_are_shown_as_ranges() -> None:
    assert ranges_text([7, 0, 1, 3, 2, 3]) == "0-3, 7"
    assert ranges_text([]) == ""
