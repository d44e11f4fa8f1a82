"""Buckets: the same number for the same key everywhere and for ever, and refusals that name the place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.buckets.policy import (
    LONGEST_KEY,
    MOST_BUCKETS,
    BucketPolicy,
    Epoch,
    key_digest,
    key_text,
    pool_name,
)
from louver.errors import ConfigurationError, ValueRefused

ROOT = Path(__file__).resolve().parents[2]
JANUARY, JUNE = datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 6, 1, tzinfo=timezone.utc)
TICK = timedelta(microseconds=1)

#: What case A16 sends in, and a few more; the numbers are of 64 buckets.
#: Checked with `printf '%s' KEY | b2sum -l 64`.
VECTORS: dict[Any, int] = {
    "tenant-A": 7,
    "tenant-B": 28,
    "caf\u00e9": 35,
    "cafe\u0301": 35,
    "Stra\u00dfe": 18,
    "\u30c6\u30ca\u30f3\u30c8": 61,
    "a/b": 32,
    "a b": 40,
    "\U0001f60e": 25,
    '"; DROP TABLE': 17,
    "x" * 300: 21,
    "0": 53,
    0: 53,
    42: 58,
    "42": 58,
    -7: 24,
}


@pytest.mark.parametrize(("key", "bucket"), VECTORS.items())
def test_the_bucket_of_a_key_never_changes(key: Any, bucket: int) -> None:
    assert BucketPolicy.of(64).bucket(key) == bucket


def test_every_process_finds_the_same_bucket_whatever_its_hash_seed() -> None:
    keys = list(VECTORS)
    program = (
        "import json, sys\n"
        "from louver.buckets.policy import BucketPolicy\n"
        "policy = BucketPolicy.parse('64')\n"
        "print(json.dumps([policy.bucket(key) for key in json.loads(sys.stdin.read())]))"
    )
    for seed in ("0", "1", "4294967295", "random"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(keys),
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "include")},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert json.loads(done.stdout) == list(VECTORS.values())


@given(st.text(min_size=1, max_size=60), st.integers(1, MOST_BUCKETS))
def test_a_string_has_a_bucket_or_is_refused_without_being_shown(text: str, count: int) -> None:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        with pytest.raises(ValueRefused, match=r"^\$: the bucket key has (a NUL|half a surrogate)") as caught:
            BucketPolicy.of(count).bucket(text)
        assert len(str(caught.value)) < 60
    else:
        assert BucketPolicy.of(count).bucket(text) in range(count)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60))
def test_all_spellings_of_one_text_share_a_bucket(text: str) -> None:
    forms = {key_digest(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
    assert forms == {key_digest(text)}


@given(st.integers(-(10**40) + 1, 10**40 - 1))
def test_an_integer_stands_for_its_decimal_digits(number: int) -> None:
    assert key_text(number) == str(number)
    assert key_digest(number) == key_digest(str(number))


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "is empty"),
        ("x" * (LONGEST_KEY + 1), "more than 1024 characters"),
        ("x" * 2**20, "more than 1024 characters"),
        ("\u0301" * 2**20, "more than 1024 characters"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("a\udfff", "surrogate"),
        (None, "not null"),
        (True, "not bool"),
        (False, "not bool"),
        (1.0, "not float"),
        (float("nan"), "not float"),
        (b"tenant-A", "not bytes"),
        (["tenant-A"], "not list"),
        ({"id": "tenant-A"}, "not dict"),
        (date(2026, 1, 1), "not date"),
        (10**40, "more than 40 digits"),
        # Longer than Python would print.
        pytest.param(-(10**5000), "more than 40 digits", id="5000 digits"),
    ],
)
def test_what_is_no_key_is_refused_by_place_and_rule(key: Any, reason: str) -> None:
    with pytest.raises(ValueRefused, match=reason) as caught:
        key_text(key, path="conf.tenant")
    assert caught.value.path == "conf.tenant"
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("key", ["secret-tenant\0", "secret-tenant\ud800", {"secret-tenant": 1}])
def test_a_refusal_never_shows_the_key(key: Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        key_text(key)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret-tenant" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_pool_is_named_by_number_alone() -> None:
    assert [pool_name(bucket) for bucket in (0, 7, 63, 100, MOST_BUCKETS - 1)] == [
        "bucket_00",
        "bucket_07",
        "bucket_63",
        "bucket_100",
        "bucket_4095",
    ]


# Epochs


def test_the_creation_time_picks_the_epoch() -> None:
    policy = BucketPolicy.parse("2026-01-01:16, 2026-06-01:64")

    assert [policy.count_at(moment) for moment in (JANUARY - TICK, JANUARY, JUNE - TICK, JUNE)] == [
        None,
        16,
        16,
        64,
    ]
    assert policy.bucket("tenant-B", created=JANUARY - TICK) is None
    assert policy.bucket("tenant-B", created=JANUARY) == 28 % 16
    assert policy.bucket("tenant-B", created=JUNE) == policy.bucket("tenant-B") == 28


def test_an_epoch_begins_at_one_moment_in_all_time_zones() -> None:
    policy = BucketPolicy.parse("2026-01-01T01:00:00+01:00:16")
    east = timezone(timedelta(hours=9))

    assert policy.epochs[0].since == JANUARY
    assert policy.count_at(JANUARY.astimezone(east)) == 16
    assert policy.count_at((JANUARY - TICK).astimezone(east)) is None


@given(
    st.lists(st.integers(1, MOST_BUCKETS), min_size=1, max_size=5),
    st.integers(1, MOST_BUCKETS),
    st.text("abc", min_size=1),
    st.integers(0, 400),
)
def test_a_new_epoch_moves_no_run_that_is_there(counts: list[int], more: int, key: str, day: int) -> None:
    epochs = tuple(
        Epoch(since=JANUARY + timedelta(days=100 * number), count=count)
        for number, count in enumerate(counts)
    )
    later = JANUARY + timedelta(days=500)
    created = JANUARY + timedelta(days=day)
    grown = BucketPolicy(epochs=(*epochs, Epoch(since=later, count=more)))

    assert grown.bucket(key, created=created) == BucketPolicy(epochs=epochs).bucket(key, created=created)
    assert grown.bucket(key, created=later) == key_digest(key) % more
    assert (grown.newest, grown.most) == (more, max(*counts, more))


def test_what_is_written_is_read_back() -> None:
    for text in ("64", "2026-01-01:16, 2026-06-01T12:30:00Z:64"):
        policy = BucketPolicy.parse(text)
        assert BucketPolicy.parse(str(policy)) == policy


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "-1",
        "4097",
        "99999",
        "1.5",
        "\u0664",
        "64,",
        "16, 64",
        "2026-01-01",
        "2026-01-01:",
        ":16",
        "2026-01-01:0",
        "2026-13-01:16",
        "2026-02-30:16",
        "tomorrow:16",
        "2026-01-01T00:00:00:16",
        "2026-06-01:64, 2026-01-01:16",
        "2026-01-01:16, 2026-01-01:64",
    ],
)
def test_what_is_no_list_of_epochs_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        BucketPolicy.parse(text)


def test_a_naive_beginning_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="aware"):
        Epoch(since=datetime(2026, 1, 1), count=16)  # noqa: DTZ001
    with pytest.raises(ConfigurationError, match="int"):
        Epoch(since=JANUARY, count=True)
    with pytest.raises(ConfigurationError, match="epoch"):
        BucketPolicy(epochs=())
