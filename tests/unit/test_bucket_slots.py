"""How many slots each bucket's pool has."""

from __future__ import annotations

import pytest

from louver.buckets.slots import BucketSlots
from louver.errors import ConfigurationError


def test_buckets_that_are_not_named_have_the_usual_number() -> None:
    slots = BucketSlots.parse("8, 5:0, 6-7:2")
    assert [slots.of(bucket) for bucket in (0, 4, 5, 6, 7, 8)] == [8, 8, 0, 2, 2, 8]
    assert BucketSlots.parse("0").of(3) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "8,",
        "8, 5",
        "8, 5:",
        "8, 7-6:1",
        "8, 4096:1",
        "8, 5:1, 4-6:2",
        "5:1",
        "8:1, 8",
        "\u0668",
    ],
)
def test_what_is_no_list_of_slots_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        BucketSlots.parse(text)
