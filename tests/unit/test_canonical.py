"""Typed values come back exactly, or are refused with their path (semantics section 5, case F08)."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from enum import IntEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.canonical import (
    MAX_DEPTH,
    canonical_bytes,
    decode,
    encode,
    fingerprint,
    load_bytes,
    plain_json,
)
from louver.errors import IntegrityError, ValueRefused

OFFSETS = st.integers(min_value=-23 * 60, max_value=23 * 60).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(),
    st.uuids(),
    st.dates(),
    # With a fixed offset, fold means nothing.
    st.datetimes(timezones=OFFSETS).map(lambda moment: moment.replace(fold=0)),
    st.decimals(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=4),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
    ),
    max_leaves=6,
)


def shape(value: Any) -> Any:
    """The value with the types of all its parts: ``1 == True == 1.0`` to Python."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, {key: shape(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return kind, [shape(item) for item in value]
    if isinstance(value, set):
        return kind, {shape(item) for item in value}
    return kind, repr(value)


@settings(max_examples=60)
@given(VALUES)
def test_values_make_the_round_trip_with_their_types(value: Any) -> None:
    assert shape(load_bytes(canonical_bytes(value))) == shape(value)


@settings(max_examples=30)
@given(VALUES)
def test_equal_values_give_equal_bytes(value: Any) -> None:
    raw = canonical_bytes(value)
    assert canonical_bytes(load_bytes(raw)) == raw
    assert len(fingerprint(value)) == 64


@settings(max_examples=20)
@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_key_order_does_not_matter(members: dict[str, int]) -> None:
    assert fingerprint(members) == fingerprint(dict(reversed(members.items())))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, -0.0),
        (1, "1"),
        (None, "None"),
        (["a"], ("a",)),
        ([], {}),
        ({}, set()),
        ("\u00e9", "e\u0301"),
        (Decimal("1.10"), Decimal("1.1")),
        (Decimal("1"), 1),
        (2**53, 2**53 + 1),
        (b"a", "a"),
        (date(2026, 3, 1), "2026-03-01"),
        (UUID(int=1), str(UUID(int=1))),
        ({"int": "1"}, 1),
        ({"a": None}, {}),
        (
            datetime(2026, 3, 1, 12, tzinfo=timezone.utc),
            datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1))),
        ),
    ],
)
def test_what_only_looks_alike_is_kept_apart(left: Any, right: Any) -> None:
    assert fingerprint(left) != fingerprint(right)


def test_the_written_form() -> None:
    """Stored bytes are read by later releases: a change here is a new schema version."""
    value = {"b": [1, 1.5, Decimal("1.10"), ("x", {2, 1}), b"\0"], "a": True, "\0": None}
    assert canonical_bytes(value) == (
        b'{"dict":{"\\u0000":null,"a":true,"b":{"list":[{"int":"1"},{"float":"0x1.8000000000000p+0"},'
        b'{"decimal":"1.10"},{"tuple":["x",{"set":[{"int":"1"},{"int":"2"}]}]},{"bytes":"AA=="}]}}}'
    )


def test_a_decimal_does_not_depend_on_the_threads_context() -> None:
    value = Decimal("1E+5")
    raw = canonical_bytes(value)
    with localcontext() as context:
        context.capitals = 0
        context.prec = 2
        assert canonical_bytes(value) == raw
        assert canonical_bytes(Decimal("123456789.123")) == b'{"decimal":"123456789.123"}'


def test_an_instant_keeps_its_wall_clock_time() -> None:
    berlin = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    again = load_bytes(canonical_bytes(berlin))
    assert (again, again.utcoffset(), again.hour) == (berlin, timedelta(hours=2), 12)


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "$"),
        ([1, float("inf")], "$[1]"),
        ({"a": {"b": (1, float("-inf"))}}, "$.a.b[1]"),
        (Decimal("NaN"), "$"),
        (Decimal("Infinity"), "$"),
        ({1: "a"}, "$"),
        ({"a": {None: 1}}, "$.a"),
        ({"a": {True: 1}}, "$.a"),
        ("\ud800", "$"),
        ({"a": ["\udfff"]}, "$.a[0]"),
        ({"\ud800": 1}, "$ (a key)"),
        (datetime(2026, 3, 1), "$"),  # noqa: DTZ001
        ({"when": [datetime(2026, 3, 1)]}, "$.when[0]"),  # noqa: DTZ001
        (object(), "$"),
        ([frozenset()], "$[0]"),
        ({"f": len}, "$.f"),
        (Level.LOW, "$"),
        (Text("a"), "$"),
        (OrderedDict(), "$"),
        (bytearray(b"a"), "$"),
        (1j, "$"),
        ({float("nan")}, "${}"),
        ({"n": 10**5000}, "$.n"),
        ([-(10**5000)], "$[0]"),
    ],
)
def test_what_would_not_come_back_is_refused_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        canonical_bytes(value)
    assert caught.value.path == path


def test_a_refusal_does_not_repeat_the_value() -> None:
    for value in ({"card": object()}, ["secret\ud800"], Decimal("sNaN4711")):
        with pytest.raises(ValueRefused) as caught:
            encode(value)
        assert "secret" not in str(caught.value)
        assert "4711" not in str(caught.value)


def test_large_ints_have_a_bound_that_does_not_depend_on_the_process() -> None:
    largest = 2**14_000 - 1
    assert load_bytes(canonical_bytes(-largest)) == -largest
    with pytest.raises(ValueRefused, match="14000 bits"):
        encode(largest + 1)


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}], ids=["list", "tuple", "dict"]
)
def test_depth_is_bounded(wrap: Any) -> None:
    value: Any = None
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert load_bytes(canonical_bytes(value)) == value
    with pytest.raises(ValueRefused, match="nested deeper"):
        encode(wrap(value))


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueRefused, match="nested deeper"):
        encode(circle)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"1",
        b"1.5",
        b"[]",
        b"{}",
        b'{"int":1}',
        b'{"int":"x"}',
        b'{"float":"one"}',
        b'{"float":"0x1p+99999"}',
        b'{"datetime":"today"}',
        b'{"date":5}',
        b'{"decimal":"a lot"}',
        b'{"uuid":"1"}',
        b'{"bytes":"*"}',
        b'{"list":5}',
        b'{"set":[{"list":[]}]}',
        b'{"dict":[]}',
        b'{"other":1}',
        b'{"int":"1","float":"1"}',
        b"\xff",
        b'{"list":[' * 100_000,
        b'{"list":[' * 400 + b"]}" * 400,
    ],
)
def test_what_encode_never_writes_is_an_integrity_error(raw: bytes) -> None:
    with pytest.raises(IntegrityError) as caught:
        load_bytes(raw)
    # A cause would be told in tracebacks, and may quote the value; only the JSON reader's does not.
    assert caught.value.__cause__ is None or "JSON" in str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["int", "list", "set", "dict", "date", "x"]), inner)
        ),
        max_leaves=8,
    )
)
def test_decode_gives_a_value_or_an_integrity_error(tagged: Any) -> None:
    try:
        value = decode(tagged)
    except IntegrityError:
        return
    json.dumps(encode(value))


def test_plain_json() -> None:
    assert plain_json({"a": [1, 1.5, None, True, "x", {}]})
    for value in ((1,), {1}, b"a", Decimal(1), [date(2026, 3, 1)], {"a": (1,)}):
        assert not plain_json(value)
