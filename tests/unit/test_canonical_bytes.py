"""Bytes are read to the value they were written from, or not at all; how large and deep a value may be."""

from __future__ import annotations

import inspect
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.canonical import MAX_DEPTH, canonical_bytes, load_bytes
from louver.errors import IntegrityError, ValueRefused


@pytest.fixture(params=[None, 640, 0], ids=["as it is", "as low as it goes", "none"])
def _limit_of_digits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Python's limit on the digits of an int, which everybody can set for a process."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(before if request.param is None else request.param)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("_limit_of_digits")
def test_large_ints_have_a_bound_that_does_not_depend_on_the_process() -> None:
    largest = 2**14_000 - 1
    for value in (largest, -largest, 10**602, -(10**602), 10**603, 2**2000, 2**2001, -(2**2001)):
        assert load_bytes(canonical_bytes(value)) == value
    with pytest.raises(ValueRefused, match="14000 bits"):
        canonical_bytes(largest + 1)
    for content in (b"1" * 4216, b"9" * 4217, b"0" * 700 + b"1E+999999999", b"-" * 700 + b"5"):
        with pytest.raises(IntegrityError):
            load_bytes(b'{"int":"' + content + b'"}')


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}], ids=["list", "tuple", "dict"]
)
def test_depth_is_bounded(wrap: Any) -> None:
    value: Any = None
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    raw = canonical_bytes(value)
    assert load_bytes(raw) == value
    with pytest.raises(ValueRefused, match="nested deeper"):
        canonical_bytes(wrap(value))
    deeper = raw.replace(b"null", canonical_bytes(wrap(None)))
    with pytest.raises(IntegrityError):
        load_bytes(deeper)


@pytest.mark.parametrize("empty", [[], (), {}, set()], ids=lambda value: type(value).__name__)
def test_what_is_empty_may_stand_where_nothing_deeper_may(empty: Any) -> None:
    value = empty
    for _ in range(MAX_DEPTH):
        value = [value]
    assert load_bytes(canonical_bytes(value)) == value


@pytest.fixture
def limited_stack() -> Iterator[Callable[[int], None]]:
    """Leave so many frames to what is called."""
    before = sys.getrecursionlimit()
    yield lambda frames: sys.setrecursionlimit(len(inspect.stack(0)) + frames)
    sys.setrecursionlimit(before)


def test_the_deepest_value_takes_little_of_the_stack(limited_stack: Callable[[int], None]) -> None:
    """One frame for each level: a step may be deep in calls of its own when it saves."""
    value: Any = [None]
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    limited_stack(MAX_DEPTH + 30)
    raw = canonical_bytes(value)
    again = load_bytes(raw)
    limited_stack(500)
    assert again == value


def test_a_stack_that_is_used_up_is_no_damage(limited_stack: Callable[[int], None]) -> None:
    value: Any = [None]
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    raw = canonical_bytes(value)
    limited_stack(100)
    with pytest.raises(RecursionError):
        load_bytes(raw)


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueRefused, match="nested deeper"):
        canonical_bytes(circle)


STRANGE = [
    b"",
    b"{",
    b"1",
    b"1.5",
    b"[]",
    b"{}",
    b"nul",
    b"nullnull",
    b"True",
    b'"',
    b'"a',
    b'"\\',
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\\u0041"',
    b'"\\u001F"',
    b'"\\/"',
    b'"\t"',
    b'"a" ',
    b'"a"\n',
    b' "a"',
    b'\xef\xbb\xbf"a"',
    b'"\xed\xa0\x80"',
    b'"\xc0\x80"',
    '"a"'.encode("utf-16"),
    b'{"int":1}',
    b'{"int":null}',
    b'{"int":"x"}',
    b'{"int":""}',
    b'{"int":"5',
    b'{"int":"5"',
    b'{"int" :"5"}',
    b'{"int":"05"}',
    b'{"int":"+5"}',
    b'{"int":"5_0"}',
    b'{"int":" 5"}',
    b'{"int":"-0"}',
    b'{"int":"\xd9\xa5"}',
    b'{"int":"\\u0035"}',
    b'{"float":"one"}',
    b'{"float":"nan"}',
    b'{"float":"inf"}',
    b'{"float":"1.5"}',
    b'{"float":"0X1P+0"}',
    b'{"float":"0x1p+99999"}',
    b'{"datetime":"today"}',
    b'{"datetime":"2026-03-01"}',
    b'{"datetime":"2026-03-01T12:00:00"}',
    b'{"datetime":"2026-03-01T12:00:00Z"}',
    b'{"datetime":"2026-03-01 12:00:00+00:00"}',
    b'{"datetime":"2026-03-01T12:00+00:00"}',
    b'{"date":5}',
    b'{"date":"20260301"}',
    b'{"decimal":"a lot"}',
    b'{"decimal":"NaN"}',
    b'{"decimal":"1e5"}',
    b'{"decimal":"1_0"}',
    b'{"uuid":"1"}',
    b'{"uuid":"{00000000-0000-0000-0000-000000000001}"}',
    b'{"uuid":"00000000-0000-0000-0000-00000000000A"}',
    b'{"bytes":"*"}',
    b'{"bytes":"AB=="}',
    b'{"bytes":"AAA"}',
    b'{"bytes":"AA A"}',
    b'{"bytes":"AA==\xc3\xa9"}',
    b'{"list":5}',
    b'{"list":"a"}',
    b'{"list":{}}',
    b'{"list":["a"',
    b'{"list":["a"]',
    b'{"list":["a",]}',
    b'{"list":[,"a"]}',
    b'{"list":["a" "b"]}',
    b'{"list":["a", "b"]}',
    b'{"list":["a"}}',
    b'{"tuple":[1]}',
    b'{"set":[{"list":[]}]}',
    b'{"set":["b","a"]}',
    b'{"set":["a","a"]}',
    b'{"dict":[]}',
    b'{"dict":"a"}',
    b'{"dict":{"a"}}',
    b'{"dict":{"a":}}',
    b'{"dict":{"a":null,}}',
    b'{"dict":{"a":null]}',
    b'{"dict":{a:null}}',
    b'{"dict":{1:null}}',
    b'{"dict":{"a" :null}}',
    b'{"dict":{"b":null,"a":null}}',
    b'{"dict":{"a":null,"a":null}}',
    b'{"dict":{"a":null,"a":true}}',
    b'{"dict":{"\\u0061":null}}',
    b'{"dict":{"\\ud800":null}}',
    b'{"dict":{"\xee\x80\x80":null,"\xf0\x90\x80\x80":null}}',
    b'{"dict":{}}x',
    b'{"other":1}',
    b'{"other":"1"}',
    b'{"int":"1","float":"1"}',
    b"\xff",
    b'{"list":[' * 100_000,
    b'{"list":[' * 400 + b"]}" * 400,
]


@pytest.mark.parametrize("raw", STRANGE, ids=lambda raw: repr(raw)[:40])
def test_what_is_never_written_is_an_integrity_error(raw: bytes) -> None:
    with pytest.raises(IntegrityError) as caught:
        load_bytes(raw)
    # A cause would be told in tracebacks, and may quote the value.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_decimal_is_read_alike_where_the_thread_has_no_traps() -> None:
    with localcontext(Context(prec=1, Emin=0, Emax=0, traps=[])):
        assert load_bytes(b'{"decimal":"12.345"}') == Decimal("12.345")
        for raw in (b'{"decimal":"a lot"}', b'{"int":"%b"}' % (b"-" * 700 + b"5")):
            with pytest.raises(IntegrityError):
                load_bytes(raw)


WORDS = st.sampled_from(
    ["int", "float", "list", "tuple", "set", "dict", "date", "bytes", "decimal", "x", "1", ""]
)


@settings(max_examples=200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | WORDS | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(WORDS, inner) | st.dictionaries(WORDS, inner, max_size=1)
        ),
        max_leaves=8,
    )
)
def test_bytes_are_read_as_what_is_written_so_or_not_at_all(tagged: Any) -> None:
    raw = json.dumps(tagged, ensure_ascii=False, separators=(",", ":")).encode()
    try:
        value = load_bytes(raw)
    except IntegrityError:
        return
    assert canonical_bytes(value) == raw


def test_a_key_that_comes_again_is_kept_once() -> None:
    first, second = load_bytes(canonical_bytes([{"name": 1}, {"name": 2}]))
    assert next(iter(first)) is next(iter(second))


def test_a_large_value_takes_a_few_times_its_size() -> None:
    """Not a tree of tagged objects beside it, which took ten times as much."""
    value = [{"id": index, "name": f"item {index}", "sold": index % 2 == 0} for index in range(3_000)]
    tracemalloc.start()
    try:
        raw = canonical_bytes(value)
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        again = load_bytes(raw)
        kept, reading = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert again == value
    assert writing < 5 * len(raw)
    assert reading - kept < 5 * len(raw)
