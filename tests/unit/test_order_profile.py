from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.cloudevents import (
    CloudEvent,
    EventProfile,
    OrderProfile,
    encode_event,
    parse_event,
    payload_fingerprint,
    run_id_for,
)
from louver.errors import EventRejected

ORDER: dict[str, Any] = {
    "order_id": "order-1001",
    "customer_id": "customer-77",
    "currency": "EUR",
    "amount": "129.90",
    "items": [{"sku": "mug-blue", "quantity": 2}, {"sku": "pen", "quantity": 1}],
}
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "7f9c0e2a",
    "source": "https://shop.example.com/checkout",
    "type": "com.louver.order.submitted.v1",
    "data": ORDER,
}


def event(**members: Any) -> CloudEvent:
    return parse_event(json.dumps({**EVENT, **members}).encode())


def refusal(given_event: CloudEvent) -> EventRejected:
    with pytest.raises(EventRejected) as caught:
        OrderProfile.check(given_event)
    return caught.value


def changed(change: Callable[[dict[str, Any]], Any]) -> CloudEvent:
    data = copy.deepcopy(ORDER)
    change(data)
    return event(data=data)


def test_an_order_comes_out_as_plain_data_of_its_own() -> None:
    given_event = event(
        subject="order-1001",
        time="2026-03-01T09:15:00+01:00",
        datacontenttype="application/json",
    )
    order = OrderProfile.check(given_event)
    assert order == ORDER
    order["items"][0]["quantity"] = 99
    assert given_event.data == ORDER


def test_it_is_an_event_profile() -> None:
    profile: EventProfile = OrderProfile()
    assert profile.event_type == "com.louver.order.submitted.v1"
    assert profile.check(event()) == ORDER


@pytest.mark.parametrize(
    ("members", "attribute"),
    [
        ({"type": "com.louver.order.submitted.v2"}, "type"),
        ({"type": "com.louver.order.submitted.v1 "}, "type"),
        ({"datacontenttype": "application/vnd.order+json"}, "datacontenttype"),
        ({"datacontenttype": "application/json; charset=utf-8"}, "datacontenttype"),
        ({"traceparent": "00-1"}, "traceparent"),
        ({"subject": "order-1002"}, "subject"),
        ({"id": "  "}, "id"),
        ({"id": "x" * 513}, "id"),
        ({"source": "/" + "x" * 512}, "source"),
        ({"data": None}, "data"),
        ({"data": []}, "data"),
        ({"data": json.dumps(ORDER)}, "data"),
    ],
)
def test_attributes_outside_the_profile(members: dict[str, Any], attribute: str) -> None:
    assert refusal(event(**members)).attribute == attribute


def test_no_data_and_binary_data_are_refused() -> None:
    bare = {name: value for name, value in EVENT.items() if name != "data"}
    assert refusal(parse_event(json.dumps(bare).encode())).attribute == "data"
    binary = {**bare, "data_base64": "e30=", "datacontenttype": "application/json"}
    assert refusal(parse_event(json.dumps(binary).encode())).attribute == "data_base64"


@pytest.mark.parametrize("name", ["order_id", "customer_id", "currency", "amount", "items"])
@pytest.mark.parametrize("value", [None, "", 5, True, [], {}, "ABSENT"])
def test_every_member_is_required_and_of_its_type(name: str, value: Any) -> None:
    refused = changed(lambda data: data.pop(name) if value == "ABSENT" else data.update({name: value}))
    assert refusal(refused).attribute == f"data.{name}"


@pytest.mark.parametrize(
    ("change", "attribute"),
    [
        (lambda data: data.update(coupon="x"), "data.coupon"),
        (lambda data: data.update({"a b": "x"}), "data"),
        (lambda data: data.update(items=[5]), "data.items[0]"),
        (lambda data: data["items"][1].pop("sku"), "data.items[1].sku"),
        (lambda data: data["items"][1].pop("quantity"), "data.items[1].quantity"),
        (lambda data: data["items"][1].update(price="1"), "data.items[1].price"),
        (lambda data: data["items"][1].update(sku="mug-blue"), "data.items[1].sku"),
        (lambda data: data["items"][0].update(sku=""), "data.items[0].sku"),
        (
            lambda data: data.update(items=[{"sku": f"s{n}", "quantity": 1} for n in range(1001)]),
            "data.items",
        ),
    ],
)
def test_shapes_outside_the_profile(change: Callable[[dict[str, Any]], Any], attribute: str) -> None:
    assert refusal(changed(change)).attribute == attribute


@pytest.mark.parametrize("quantity", [0, -1, 10_001, 1.0, 1.5, True, "1", None, 2**60])
def test_quantities_refused(quantity: Any) -> None:
    refused = changed(lambda data: data["items"][0].update(quantity=quantity))
    assert refusal(refused).attribute == "data.items[0].quantity"


@pytest.mark.parametrize("quantity", [1, 10_000])
def test_quantities_taken(quantity: int) -> None:
    taken = changed(lambda data: data["items"][0].update(quantity=quantity))
    assert OrderProfile.check(taken)["items"][0]["quantity"] == quantity


@pytest.mark.parametrize(
    "amount",
    [
        "0",
        "0.00",
        "-1",
        "+1",
        "1e3",
        "01",
        "1.",
        ".5",
        "1.234",
        "1,50",
        "1 000",
        " 1",
        "1\n",
        "\N{ARABIC-INDIC DIGIT ONE}",
        "9" * 13,
        "NaN",
        129.9,
    ],
)
def test_amounts_refused(amount: Any) -> None:
    assert refusal(changed(lambda data: data.update(amount=amount))).attribute == "data.amount"


@pytest.mark.parametrize("amount", ["129.90", "1", "10", "0.01", "0.5", "9" * 12 + ".99"])
def test_amounts_taken(amount: str) -> None:
    assert OrderProfile.check(changed(lambda data: data.update(amount=amount)))["amount"] == amount


@pytest.mark.parametrize("currency", ["eur", "EU", "EURO", "E1R", "EUR\n", "ÄÖÜ"])
def test_currencies_refused(currency: str) -> None:
    assert refusal(changed(lambda data: data.update(currency=currency))).attribute == "data.currency"


@pytest.mark.parametrize("text", ["x" * 129, "a b", "a#b", " a", "a\n", "a\x00", "ä", "-a", 'a"b'])
def test_ids_refused(text: str) -> None:
    for name in ("order_id", "customer_id"):
        assert refusal(changed(lambda data, name=name: data.update({name: text}))).attribute == f"data.{name}"  # type: ignore[misc]


def test_the_longest_id_is_taken() -> None:
    OrderProfile.check(changed(lambda data: data.update(order_id="x" * 128)))


def test_errors_carry_no_values() -> None:
    for name in ("order_id", "customer_id", "currency", "amount", "items"):
        error = refusal(changed(lambda data, name=name: data.update({name: "hunter 2"})))  # type: ignore[misc]
        assert "hunter" not in str(error)


def test_a_form_stands_for_an_event() -> None:
    submitted = OrderProfile.from_form(ORDER, source="/forms/order", id="manual-1")
    assert OrderProfile.check(submitted) == ORDER
    assert (submitted.source, submitted.id) == ("/forms/order", "manual-1")
    assert parse_event(encode_event(submitted)) == submitted
    again = OrderProfile.from_form(dict(reversed(ORDER.items())), source="/forms/order", id="manual-1")
    assert run_id_for(again) == run_id_for(submitted)
    assert payload_fingerprint(again) == payload_fingerprint(submitted)


@pytest.mark.parametrize(
    ("fields", "source", "id", "attribute"),
    [
        ({}, "/f", "1", "data.order_id"),
        ({**ORDER, "amount": 129.9}, "/f", "1", "data.amount"),
        ({**ORDER, "amount": float("nan")}, "/f", "1", "data"),
        ({**ORDER, "amount": datetime(2026, 3, 1, tzinfo=timezone.utc)}, "/f", "1", "data"),
        ({**ORDER, "items": '[{"sku": "a", "quantity": 1}]'}, "/f", "1", "data.items"),
        (dict[Any, Any]([*ORDER.items(), (5, "x")]), "/f", "1", "data"),
        (ORDER, "/%zz", "1", "source"),
        (ORDER, "/f", "", "id"),
    ],
)
def test_a_bad_form_is_refused_like_a_bad_event(fields: Any, source: str, id: str, attribute: str) -> None:
    with pytest.raises(EventRejected) as caught:
        OrderProfile.from_form(fields, source=source, id=id)
    assert caught.value.attribute == attribute


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["sku", "quantity", *ORDER]) | st.text(max_size=2), inner, max_size=6
        )
    ),
    max_leaves=10,
)


@given(ANYTHING)
def test_any_data_is_taken_or_refused_and_nothing_else(data: Any) -> None:
    try:
        order = OrderProfile.check(replace(event(), data=data))
    except EventRejected:
        return
    assert set(order) == set(ORDER)


@given(st.sampled_from(list(ORDER)), ANYTHING)
def test_one_member_of_anything_is_taken_or_refused(name: str, value: Any) -> None:
    data = {**copy.deepcopy(ORDER), name: value}
    try:
        order = OrderProfile.check(replace(event(), data=data))
    except EventRejected as error:
        blamed = error.attribute or ""
    else:
        assert order == data
        blamed = f"data.{name}"
    assert blamed.startswith(f"data.{name}")
