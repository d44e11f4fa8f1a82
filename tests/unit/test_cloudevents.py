from __future__ import annotations

import copy
import json
import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from louver.cloudevents import (
    MAX_EVENT_BYTES,
    CloudEvent,
    encode_event,
    identity,
    parse_event,
    payload_fingerprint,
    run_id_for,
)
from louver.cloudevents.structured import MAX_NESTING
from louver.errors import ConfigurationError, EventRejected

CASES = Path(__file__).parent.parent / "cases"
MINIMAL: dict[str, Any] = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t"}

ATTRIBUTES = ["specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"]

# A spec-valid row that the reader may refuse cleanly: it lies deeper than MAX_NESTING.
REFUSED_BY_CHOICE = {"deep-nesting-2000"}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


def raw_of(row: dict[str, Any]) -> bytes:
    text: str = row["raw"] if "raw" in row else json.dumps(row["event"])
    return text.encode("utf-8")


def parse(**members: Any) -> CloudEvent:
    return parse_event(json.dumps({**MINIMAL, **members}).encode())


def refusal(raw: bytes) -> EventRejected:
    with pytest.raises(EventRejected) as caught:
        parse_event(raw)
    return caught.value


def refusal_of(**members: Any) -> EventRejected:
    return refusal(json.dumps({**MINIMAL, **members}).encode())


ROWS = [*rows("cloudevents.jsonl"), *rows("cloudevents_raw.jsonl")]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_every_case_comes_out_as_marked(row: dict[str, Any]) -> None:
    if row["spec_valid"] and row["name"] not in REFUSED_BY_CHOICE:
        assert isinstance(parse_event(raw_of(row)), CloudEvent)
    else:
        refusal(raw_of(row))


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("missing-source", "source"),
        ("empty-id", "id"),
        ("numeric-specversion", "specversion"),
        ("source-bad-percent", "source"),
        ("relative-dataschema", "dataschema"),
        ("time-without-offset", "time"),
        ("extension-uppercase", "traceId"),
        ("extension-array-value", "comexampleext"),
        ("extension-float-value", "sequence"),
        ("data-base64-garbage", "data_base64"),
        ("xml-contenttype-object-data", "data"),
        ("datacontenttype-not-a-media-type", "datacontenttype"),
        ("id-with-nul", "id"),
        ("subject-lone-surrogate", "subject"),
        ("uppercase-core-name", "id"),
        ("array-at-top-level", None),
        ("duplicate-member-id", "id"),
        ("big-integer-exponent", "sequence"),
        ("deep-nesting-2000", None),
        ("empty-body", None),
    ],
)
def test_the_refusal_names_the_attribute(name: str, attribute: str | None) -> None:
    row = next(row for row in ROWS if row["name"] == name)
    assert refusal(raw_of(row)).attribute == attribute


def test_all_attributes_arrive() -> None:
    event = parse(
        subject="order/77",
        time="2026-03-01T09:15:00.123456789+01:00",
        datacontenttype="application/json",
        dataschema="https://schemas.example.com/order/2",
        data={"order": 77},
        partitionkey="p",
        sampled=True,
        sequence=-5,
    )
    assert event == CloudEvent(
        id="a",
        source="/s",
        type="t",
        subject="order/77",
        time=datetime.fromisoformat("2026-03-01T09:15:00.123456+01:00"),
        time_text="2026-03-01T09:15:00.123456789+01:00",
        datacontenttype="application/json",
        dataschema="https://schemas.example.com/order/2",
        extensions={"partitionkey": "p", "sampled": True, "sequence": -5},
        data={"order": 77},
        has_data=True,
    )


def test_null_data_and_absent_data_stay_apart() -> None:
    assert (parse(data=None).has_data, parse(data=None).data) == (True, None)
    assert (parse().has_data, parse().data) == (False, None)
    assert parse(data_base64="eyJ4IjoxfQ==").data_base64 == b'{"x":1}'
    assert parse(data_base64="").data_base64 == b""
    assert parse(data_base64=None).data_base64 is None


def test_a_string_in_data_is_not_read_again() -> None:
    assert parse(data='{"a": 1}', datacontenttype="application/json").data == '{"a": 1}'


def test_null_attributes_are_unset() -> None:
    assert parse(subject=None, time=None, comexampleext=None) == parse()
    assert refusal_of(id=None).attribute == "id"


@pytest.mark.parametrize(
    ("members", "attribute"),
    [
        ({"specversion": "1.0.2"}, "specversion"),
        ({"specversion": "0.3"}, "specversion"),
        ({"type": ""}, "type"),
        ({"subject": ""}, "subject"),
        ({"subject": 5}, "subject"),
        ({"subject": "tab\there"}, "subject"),
        ({"subject": "c1\x85"}, "subject"),
        ({"subject": "\U0010ffff"}, "subject"),
        ({"time": 1772366400}, "time"),
        ({"time": "2026-03-01T24:00:00Z"}, "time"),
        ({"dataschema": "https://x.example/y#part"}, "dataschema"),
        ({"sequence": 2**31}, "sequence"),
        ({"sequence": -(2**31) - 1}, "sequence"),
        ({"sequence": 1.0}, "sequence"),
        ({"ext": {"a": 1}}, "ext"),
        ({"ext": "\x00"}, "ext"),
        ({"my_ext": "x"}, "my_ext"),
        ({"my ext": "x"}, None),
        ({"": "x"}, None),
        ({"data": 1, "data_base64": "AA=="}, "data_base64"),
        ({"data": None, "data_base64": None}, "data_base64"),
        ({"data_base64": 5}, "data_base64"),
        ({"data_base64": "AA"}, "data_base64"),
        ({"data_base64": "AB=="}, "data_base64"),
        ({"data_base64": "AA==\n"}, "data_base64"),
        ({"data_base64": "_-8="}, "data_base64"),
        ({"data_base64": "ÄÄ=="}, "data_base64"),
        ({"data": None, "datacontenttype": "text/plain"}, "data"),
        ({"data": {"deep": ["\ud800"]}}, "data"),
        ({"data": {"\ud800": 1}}, "data"),
    ],
)
def test_refused(members: dict[str, Any], attribute: str | None) -> None:
    assert refusal_of(**members).attribute == attribute


@pytest.mark.parametrize(
    "members",
    [
        {"sequence": 2**31 - 1},
        {"sequence": -(2**31)},
        {"ext": ""},
        {"averylongextensionnameisonlyshouldnot": "x"},
        {"data": 10**300},
        {"data": "\x00"},
        {"datacontenttype": "text/plain; charset=utf-8", "data": "x"},
        {"datacontenttype": "application/json", "data_base64": "e30="},
    ],
)
def test_taken(members: dict[str, Any]) -> None:
    assert parse(**members).id == "a"


@pytest.mark.parametrize(
    ("raw", "attribute", "reason"),
    [
        (b"\xef\xbb\xbf{}", None, "byte order mark"),
        (b'{"id": "\xff"}', None, "UTF-8"),
        ('{"specversion": "1.0"}'.encode("utf-16"), None, "UTF-8"),
        (b"{", None, "not JSON at line 1"),
        (b"{} {}", None, "not JSON"),
        (b"null", None, "null"),
        (b"1e999", None, "too large"),
        (b"[" * 200_000, None, "deep"),
        (b" " * (MAX_EVENT_BYTES + 1), None, str(MAX_EVENT_BYTES)),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"t","data":NaN}', "data", "NaN"),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"t","data":[-Infinity]}', "data", "NaN"),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"t","data":{"n":1e400}}', "data", "too large"),
        (
            b'{"specversion":"1.0","id":"a","source":"/s","type":"t","data":{"n":{"k":1,"k":1}}}',
            "data",
            "twice",
        ),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"t","\\u0069d":"a"}', "id", "twice"),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"t","x":null,"x":null}', "x", "twice"),
        (
            b'{"specversion":"1.0","id":"a","source":"/s","type":"t","data":' + b"9" * 5000 + b"}",
            "data",
            "long",
        ),
        (
            b'{"specversion":"1.0","id":"a","source":"/s","type":"t","data":0.' + b"9" * 5000 + b"}",
            "data",
            "long",
        ),
    ],
)
def test_refused_text(raw: bytes, attribute: str | None, reason: str) -> None:
    error = refusal(raw)
    assert error.attribute == attribute
    assert reason in error.reason


def test_only_bytes_are_read() -> None:
    for value in (json.dumps(MINIMAL), None, MINIMAL):
        with pytest.raises(EventRejected, match="bytes"):
            parse_event(value)  # type: ignore[arg-type]


def test_the_limits_themselves_are_taken() -> None:
    raw = json.dumps(MINIMAL).encode()
    assert parse_event(raw + b" " * (MAX_EVENT_BYTES - len(raw))).id == "a"
    nested: Any = 1
    for _ in range(MAX_NESTING):
        nested = [nested]
    event = parse(data=nested)
    assert len(payload_fingerprint(event)) == 64
    assert refusal_of(data=[nested]).attribute == "data"


def test_identity_is_of_the_pair_and_not_of_a_joined_text() -> None:
    one, other = parse(source="/a", id="b::c"), parse(source="/a::b", id="c")
    assert identity(one) == '["/a","b::c"]'
    assert identity(one) != identity(other)
    assert run_id_for(one) != run_id_for(other)
    assert payload_fingerprint(one) != payload_fingerprint(other)


def test_run_id_is_stable() -> None:
    # sha256 of ["/s","a"], worked out with coreutils.
    assert run_id_for(parse()) == "evt-b25518cdf8ce0824f29688a30d194ac8"
    assert run_id_for(parse(data={"x": 1}, subject="other")) == run_id_for(parse())


@given(*[st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1)] * 4)
def test_identity_is_injective(source: str, id: str, other_source: str, other_id: str) -> None:
    one = CloudEvent(id=id, source=source, type="t")
    other = CloudEvent(id=other_id, source=other_source, type="t")
    assert (identity(one) == identity(other)) is ((source, id) == (other_source, other_id))


def test_the_fingerprint_sees_the_event_and_not_its_spelling() -> None:
    plain = b'{"specversion":"1.0","id":"a","source":"/s","type":"t","data":{"x":1,"y":"\xc3\xa9"}}'
    other = b' {"data": {"y": "\\u00e9", "x": 1}, "type":"t", "subject":null,\n"source":"/s",'
    other += b'"id":"a","specversion":"1.0"}'
    assert payload_fingerprint(parse_event(plain)) == payload_fingerprint(parse_event(other))


def test_the_fingerprint_sees_every_difference() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"id": "b"},
        {"source": "/other"},
        {"type": "u"},
        {"subject": "x"},
        {"subject": "y"},
        {"time": "2026-03-01T12:00:00.000000001Z"},
        {"time": "2026-03-01T12:00:00.000000002Z"},
        {"datacontenttype": "application/json"},
        {"dataschema": "urn:x"},
        {"ext": "1"},
        {"ext": 1},
        {"ext": True},
        {"data": None},
        {"data": []},
        {"data": [None]},
        {"data": {}},
        {"data": 1},
        {"data": 1.0},
        {"data": "1"},
        {"data": True},
        {"data": 0.0},
        {"data": -0.0},
        {"data": {"int": "1"}},
        {"data": {"object": {}}},
        {"data": 2**53 + 1},
        {"data": 2**53 + 2},
        {"data": float(2**53 + 2)},
        {"data": 10**300},
        {"data_base64": ""},
        {"data_base64": "AA=="},
        {"data": "AA=="},
    ]
    assert len({payload_fingerprint(parse(**members)) for members in variants}) == len(variants)


def test_a_naive_time_is_no_event() -> None:
    with pytest.raises(ConfigurationError, match="aware"):
        CloudEvent(id="a", source="/s", type="t", time=datetime.fromisoformat("2026-03-01T12:00:00"))


def test_errors_and_repr_carry_no_values() -> None:
    secret = "hunter2"
    for members in (
        {"id": secret + "\x00"},
        {"source": "/%" + secret},
        {"time": secret},
        {"dataschema": secret},
        {"datacontenttype": secret},
        {"ext": [secret]},
        {"data_base64": secret},
        {"data": [secret, "\ud800"]},
        {"a name with " + secret: 1},
    ):
        error = refusal_of(**members)
        assert secret not in str(error)
        assert error.__cause__ is None
    assert secret not in repr(parse(subject=secret, ext=secret, data={"k": secret}))


def test_an_event_can_be_copied_and_pickled() -> None:
    event = parse(data={"x": [1]}, ext="y", time="2026-03-01T12:00:00+01:00")
    assert copy.deepcopy(event) == event
    assert pickle.loads(pickle.dumps(event)) == event


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    JSON, st.dictionaries(st.from_regex(r"\Ax[a-z0-9]+\Z"), st.booleans() | st.integers(-9, 9), max_size=3)
)
def test_an_event_survives_being_written_and_read(data: Any, extensions: dict[str, Any]) -> None:
    event = parse(data=data, time="0001-01-01T00:00:00.1234567+01:00", **extensions)
    again = parse_event(encode_event(event))
    assert again == event
    assert payload_fingerprint(again) == payload_fingerprint(event)


@given(st.binary())
@example(b'"')
@example(b"\x00")
def test_arbitrary_bytes_are_refused_and_nothing_else_is_raised(raw: bytes) -> None:
    refusal(raw)


@given(
    st.dictionaries(
        st.sampled_from([*ATTRIBUTES, "data", "data_base64", "ext", "Ext", ""]),
        JSON | st.text(st.characters()) | st.just("1.0") | st.just("2026-03-01T12:00:00Z"),
    )
)
def test_arbitrary_members_are_read_or_refused(members: dict[str, Any]) -> None:
    try:
        event = parse_event(json.dumps({**MINIMAL, **members}).encode())
    except EventRejected:
        return
    assert run_id_for(event).startswith("evt-")
    assert parse_event(encode_event(event)) == event
