"""Typed values come back exactly, or are refused with their path (semantics section 5, case F08)."""

from __future__ import annotations

import base64
import copy
import pickle
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from louver.canonical import (
    Canonical,
    canonical_bytes,
    encode,
    fingerprint,
    load_bytes,
    plain_json,
)
from louver.errors import IntegrityError, ValueRefused

OFFSETS = st.one_of(
    st.integers(min_value=-23 * 60, max_value=23 * 60).map(lambda minutes: timedelta(minutes=minutes)),
    # Time zones of former days have seconds, and Python takes microseconds.
    st.timedeltas(min_value=timedelta(hours=-23), max_value=timedelta(hours=23)),
).map(timezone)
# Where canonical JSON is easily got wrong: escapes, what only looks like control, and UTF-16 order.
AWKWARD = st.text(st.sampled_from('a"\\/\0\b\x1f\x7f\u2028\ud7ff\ue000\ufb01\uffff\U00010000\U0010ffff'))
TEXT = st.text() | AWKWARD
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.binary(),
    st.uuids(),
    st.dates(),
    # With a fixed offset, fold means nothing.
    st.datetimes(timezones=OFFSETS).map(lambda moment: moment.replace(fold=0)),
    st.decimals(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    HASHABLE | st.sets(HASHABLE | st.tuples(HASHABLE, st.tuples(HASHABLE)), max_size=4),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(TEXT, inner, max_size=4),
    ),
    max_leaves=6,
)


def shape(value: Any) -> Any:
    """The value with the types of all its parts: ``1 == True == 1.0`` to Python."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, {key: shape(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return kind, tuple(shape(item) for item in value)
    if isinstance(value, set):
        return kind, {shape(item) for item in value}
    return kind, repr(value)


def tree(value: Any) -> Any:
    """The tagged form, as plainly as it can be said."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, dict):
        return {"dict": {key: tree(item) for key, item in value.items()}}
    if isinstance(value, set):
        return {"set": sorted((tree(item) for item in value), key=rfc8785.dumps)}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [tree(item) for item in value]}
    texts: dict[type, Callable[[Any], str]] = {
        float: float.hex,
        bytes: lambda raw: base64.b64encode(raw).decode(),
        datetime: datetime.isoformat,
        date: date.isoformat,
    }
    return {type(value).__name__.lower(): texts.get(type(value), str)(value)}


@settings(max_examples=150)
@given(VALUES)
@example({"\ue000": 1, "\U00010000": {"\uffff": 2, "\U0010ffff": 3, "\ud7ff": 4}, "a": 5})
@example("".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)])))
def test_the_bytes_are_rfc_8785_of_the_tagged_form(value: Any) -> None:
    raw = canonical_bytes(value)
    assert raw == rfc8785.dumps(tree(value))
    assert encode(value) == tree(value)


@settings(max_examples=60)
@given(VALUES)
def test_values_make_the_round_trip_with_their_types(value: Any) -> None:
    assert shape(load_bytes(canonical_bytes(value))) == shape(value)


@pytest.mark.parametrize("microseconds", [1, -1, 999_999, -999_999, 60_000_001, -3_599_999_995])
def test_an_offset_of_less_than_a_second_comes_back(microseconds: int) -> None:
    value = datetime(2000, 1, 1, 0, 0, 0, 5, tzinfo=timezone(timedelta(microseconds=microseconds)))
    back = load_bytes(canonical_bytes(value))
    assert (back, back.utcoffset(), back.microsecond) == (value, value.utcoffset(), 5)


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


@pytest.mark.parametrize(
    "value",
    [
        "\0",
        {"\0": "\0"},
        "\x7f\u2028\u2029\ufeff\ufffe",
        -0.0,
        5e-324,
        1.7976931348623157e308,
        0.1,
        True,
        [1, True, 1.0, Decimal(1), "1"],
        10**4000,
        -(2**2000),
        Decimal("-0.00"),
        Decimal("0E-10"),
        Decimal("1E+999999"),
        Decimal("1e-999999"),
        Decimal("1" * 5000),
        UUID(int=0),
        UUID(int=2**128 - 1),
        date.min,
        date.max,
        datetime.min.replace(tzinfo=timezone.utc),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-23, minutes=-59))),
        datetime(1880, 3, 1, tzinfo=timezone(timedelta(minutes=53, seconds=28))),
        datetime(1880, 3, 1, 1, 2, 3, 4, tzinfo=timezone(-timedelta(seconds=1, microseconds=5))),
        b"",
        bytes(range(256)),
        (),
        ((),),
        set(),
        {(), (1, (2.0, ("a", None))), None, b""},
        {"": {"": []}},
        {"list": [], "dict": {"dict": {"int": "1"}}},
    ],
    # A set is spelled in another order each time.
    ids=lambda value: "a set" if isinstance(value, set) else ascii(value)[:40],
)
def test_edges_of_every_type_come_back(value: Any) -> None:
    again = load_bytes(canonical_bytes(value))
    assert again == value
    assert shape(again) == shape(value)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
        datetime(2026, 3, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 3, 1, tzinfo=timezone.utc, fold=1),
        UUID(int=5, is_safe=SafeUUID.safe),
    ],
    ids=["the name of an offset", "the zone", "a fold without a meaning", "how a UUID was made"],
)
def test_what_does_not_count_when_values_are_compared_is_not_kept(value: Any) -> None:
    again = load_bytes(canonical_bytes(value))
    assert (again, type(again)) == (value, type(value))


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("day", [datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30)])  # noqa: DTZ001
def test_the_hour_that_a_clock_shows_twice_or_never_comes_back_as_its_instant(
    day: datetime, fold: int
) -> None:
    moment = day.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    again = load_bytes(canonical_bytes(moment))
    assert again.astimezone(timezone.utc) == moment.astimezone(timezone.utc)
    assert (again.replace(tzinfo=None), again.utcoffset()) == (day, moment.utcoffset())


def test_datetimes_that_would_come_back_as_one_are_no_set() -> None:
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    instant = twice.astimezone(timezone.utc)
    value = {"at": [{("a", twice), ("a", instant)}]}
    assert len(value["at"][0]) == 2
    with pytest.raises(ValueRefused, match="come back as one") as caught:
        canonical_bytes(value)
    assert caught.value.path == "$.at[0]"
    assert canonical_bytes({instant, instant + timedelta(seconds=1)})


class Level(IntEnum):
    LOW = 1


class Colour(str, Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Moment(datetime):
    """As pendulum has one."""


class Identifier(UUID):
    """As asyncpg has one."""


class Silent(tzinfo):
    """A time zone that was left unfinished."""


class Unknowing(tzinfo):
    def utcoffset(self, moment: datetime | None) -> None:
        return None


Pair = namedtuple("Pair", "left right")


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
        ([defaultdict(list)], "$[0]"),
        (Counter(), "$"),
        (MappingProxyType({}), "$"),
        ({"a": (Pair(1, 2),)}, "$.a[0]"),
        (range(3), "$"),
        (iter([1]), "$"),
        ({frozenset()}, "${}"),
        ({"a": {(1, (2, frozenset()))}}, "$.a{}[1][1]"),
        (Colour.RED, "$"),
        ({Text("a"): 1}, "$"),
        ({Colour.RED: 1}, "$"),
        ({b"a": 1}, "$"),
        ({("a",): 1}, "$"),
        ([{"a": 1, 2: "b"}], "$[0]"),
        ({"a": {"\ue000": 1, "\U00010000": object()}}, "$.a.\U00010000"),
        (bytearray(b"a"), "$"),
        (memoryview(b"a"), "$"),
        (timedelta(1), "$"),
        (datetime(2026, 3, 1).time(), "$"),  # noqa: DTZ001
        (Moment(2026, 3, 1, tzinfo=timezone.utc), "$"),
        (Identifier(int=1), "$"),
        ([datetime(2026, 3, 1, tzinfo=Silent())], "$[0]"),
        ([datetime(2026, 3, 1, tzinfo=Unknowing())], "$[0]"),
        ([Canonical.of(1)], "$[0]"),
        (type(None), "$"),
        (NotImplemented, "$"),
        (..., "$"),
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


@pytest.mark.parametrize(
    ("value", "way_out"),
    [
        (Moment(2026, 3, 1, tzinfo=timezone.utc), "Moment would come back as datetime; convert it"),
        (Level.LOW, "Level would come back as int; convert it"),
        (Pair(1, 2), "Pair would come back as tuple; convert it"),
        (OrderedDict(), "collections.OrderedDict would come back as dict; convert it"),
        (frozenset(), "builtins.frozenset does not survive a round trip; allowed are str, "),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_says_the_way_out(value: Any, way_out: str) -> None:
    with pytest.raises(ValueRefused, match=way_out):
        canonical_bytes(value)


def test_a_refusal_does_not_repeat_the_value() -> None:
    for value in ({"card": object()}, ["secret\ud800"], Decimal("sNaN4711"), Text("secret")):
        with pytest.raises(ValueRefused) as caught:
            canonical_bytes(value)
        assert "secret" not in str(caught.value)
        assert "4711" not in str(caught.value)


@settings(max_examples=100)
@given(VALUES, st.data())
def test_no_change_of_the_bytes_gives_the_same_value(value: Any, data: st.DataObject) -> None:
    raw = canonical_bytes(value)
    place = data.draw(st.integers(min_value=0, max_value=len(raw) - 1))
    changed = raw[:place] + data.draw(st.binary(max_size=2)) + raw[place + 1 :]
    try:
        again = load_bytes(changed)
    except IntegrityError:
        return
    assert changed == raw or shape(again) != shape(value)


def test_a_value_is_written_once_for_its_fingerprint_and_its_bytes() -> None:
    value = {"order_id": "order-77", "amount": 4500}
    written = Canonical.of(value)
    assert written.fingerprint == fingerprint(value) == fingerprint(written)
    assert canonical_bytes(written) == written.raw == canonical_bytes(value)
    assert written == Canonical.of(dict(reversed(value.items())))
    assert pickle.loads(pickle.dumps(written)) == copy.deepcopy(written) == written
    assert "order-77" not in repr(written)
    with pytest.raises(ValueRefused, match=r"\$\.a: NaN"):
        Canonical.of({"a": float("nan")})


def test_plain_json() -> None:
    assert plain_json({"a": [1, 1.5, None, True, "x", {}]})
    for value in ((1,), {1}, b"a", Decimal(1), [date(2026, 3, 1)], {"a": (1,)}, {1: "a"}, [float("nan")]):
        assert not plain_json(value)
