"""
Event profiles: what one Dag takes, stricter than CloudEvents itself.

A profile says which event type it is for and turns an event into plain data, or refuses it. Refusals name a
path such as ``data.items[0].quantity`` and the rule, never the value.

An event that :class:`OrderProfile` takes::

    {
      "specversion": "1.0",
      "id": "7f9c0e2a",
      "source": "https://shop.example.com/checkout",
      "type": "com.louver.order.submitted.v1",
      "subject": "order-1001",
      "time": "2026-03-01T09:15:00+01:00",
      "datacontenttype": "application/json",
      "data": {
        "order_id": "order-1001",
        "customer_id": "customer-77",
        "currency": "EUR",
        "amount": "129.90",
        "items": [{"sku": "mug-blue", "quantity": 2}]
      }
    }
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from louver.cloudevents.event import CloudEvent
from louver.cloudevents.structured import event_from_members, shown_name
from louver.errors import EventRejected

__all__ = ["EventProfile", "OrderProfile"]


class EventProfile(Protocol):
    """What a Dag declares to say which events it takes."""

    @property
    def event_type(self) -> str:
        """The ``type`` of the events that belong to this profile."""

    def check(self, event: CloudEvent) -> dict[str, Any]:
        """
        The data of the event, as a plain dict of its own.

        :raises EventRejected: the event is not as the profile wants it.
        """

    def from_form(self, fields: Mapping[str, Any], *, source: str, id: str) -> CloudEvent:
        """
        The event that a person's form stands for; it has passed :meth:`check`.

        :raises EventRejected: as :meth:`check`.
        """


class OrderProfile:
    """
    The strict profile of the order workflow (product row O2).

    - ``type`` is :attr:`event_type`; ``datacontenttype`` is absent or ``application/json`` without
      parameters; there are no extension attributes. ``dataschema`` is not read: the type's version fixes the
      shape.
    - ``id`` has more than white space in it; ``id`` and ``source`` are at most :attr:`max_identity`
      characters.
    - ``subject`` is absent or equal to ``data.order_id``, so that it can never contradict the order.
    - ``data`` has exactly ``order_id``, ``customer_id``, ``currency``, ``amount`` and ``items``.
    - Ids and SKUs are 1 to 128 letters, digits and ``. _ ~ : @ / + -``, beginning with a letter or digit:
      they become part of effect keys and appear in logs, so ``#``, white space and quotes stay out.
    - ``currency`` has the shape of an ISO 4217 code: three capital letters. That it exists is not checked.
    - ``amount`` is a decimal string above zero: 1 to 12 digits without leading zeros, then at most 2 decimals
      whatever the currency. A JSON number is refused: it would be a binary fraction.
    - ``items`` has 1 to 1000 entries of exactly ``sku`` and ``quantity`` (a whole number, 1 to 10000); no SKU
      twice.
    """

    event_type: ClassVar[str] = "com.louver.order.submitted.v1"
    max_identity: ClassVar[int] = 512
    max_items: ClassVar[int] = 1000
    max_quantity: ClassVar[int] = 10_000

    @classmethod
    def check(cls, event: CloudEvent) -> dict[str, Any]:
        """
        The order, as a plain dict of its own with exactly the members above.

        :raises EventRejected: with a path as ``.attribute``, for example ``data.items[0].quantity``.
        """
        cls._check_attributes(event)
        data = event.data
        if not event.has_data or not isinstance(data, dict):
            raise EventRejected("data", "must be an object with the order")
        _require_members("data", data, ("order_id", "customer_id", "currency", "amount", "items"))
        order = {
            "order_id": _require_id("data.order_id", data["order_id"]),
            "customer_id": _require_id("data.customer_id", data["customer_id"]),
            "currency": _require_currency(data["currency"]),
            "amount": _require_amount(data["amount"]),
            "items": cls._check_items(data["items"]),
        }
        if event.subject is not None and event.subject != order["order_id"]:
            raise EventRejected("subject", "must be absent or equal to data.order_id")
        return order

    @classmethod
    def from_form(cls, fields: Mapping[str, Any], *, source: str, id: str) -> CloudEvent:
        """
        The event that a person's form stands for; it has passed :meth:`check`.

        Nothing is repaired: what a sender may not write, a person may not type either.

        :param fields: exactly the members of ``data``.
        :param source: where the form was filled in, a URI-reference.
        :param id: what makes this submission one of its kind at that source.
        :raises EventRejected: as :meth:`check`.
        """
        event = event_from_members(
            {
                "specversion": "1.0",
                "id": id,
                "source": source,
                "type": cls.event_type,
                "datacontenttype": "application/json",
                "data": dict(fields),
            }
        )
        cls.check(event)
        return event

    @classmethod
    def _check_attributes(cls, event: CloudEvent) -> None:
        if event.type != cls.event_type:
            raise EventRejected("type", f"must be {cls.event_type}")
        if not event.id.strip():
            raise EventRejected("id", "must have more than white space in it")
        for name, value in (("id", event.id), ("source", event.source)):
            if len(value) > cls.max_identity:
                raise EventRejected(name, f"must be at most {cls.max_identity} characters")
        for name in event.extensions:
            raise EventRejected(shown_name(name), "extension attributes are not part of this profile")
        if event.datacontenttype is not None and event.datacontenttype.lower() != "application/json":
            raise EventRejected("datacontenttype", "must be absent or application/json")
        if event.data_base64 is not None:
            raise EventRejected("data_base64", "the order must be JSON in the data member")

    @classmethod
    def _check_items(cls, items: Any) -> list[dict[str, Any]]:
        if not isinstance(items, list) or not 1 <= len(items) <= cls.max_items:
            raise EventRejected("data.items", f"must be a list of 1 to {cls.max_items} items")
        checked: list[dict[str, Any]] = []
        seen: set[str] = set()
        for index, item in enumerate(items):
            path = f"data.items[{index}]"
            if not isinstance(item, dict):
                raise EventRejected(path, "must be an object")
            _require_members(path, item, ("sku", "quantity"))
            sku = _require_id(f"{path}.sku", item["sku"])
            if sku in seen:
                raise EventRejected(f"{path}.sku", "occurs twice; give one item with the whole quantity")
            seen.add(sku)
            quantity = item["quantity"]
            # bool is an int in Python, and true is no quantity.
            if type(quantity) is not int or not 1 <= quantity <= cls.max_quantity:
                raise EventRejected(f"{path}.quantity", f"must be a whole number, 1 to {cls.max_quantity}")
            checked.append({"sku": sku, "quantity": quantity})
        return checked


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~:@/+-]{0,127}")
_CURRENCY = re.compile(r"[A-Z]{3}")
_AMOUNT = re.compile(r"(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,2})?")


def _require_members(path: str, value: Mapping[object, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if name not in value:
            raise EventRejected(f"{path}.{name}", "is required")
    for given in value:
        if given not in names:
            shown = shown_name(given)
            where = f"{path}.{shown}" if shown else path
            raise EventRejected(where, f"has no place in this profile; allowed are {', '.join(names)}")


def _require_id(path: str, value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise EventRejected(
            path, "must be 1 to 128 letters, digits and . _ ~ : @ / + -, beginning with a letter or digit"
        )
    return value


def _require_currency(value: Any) -> str:
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise EventRejected("data.currency", "must be three capital letters, such as EUR")
    return value


def _require_amount(value: Any) -> str:
    if not isinstance(value, str) or not _AMOUNT.fullmatch(value):
        raise EventRejected(
            "data.amount", 'must be a decimal string such as "129.90": up to 12 digits, then up to 2 decimals'
        )
    if not value.strip("0."):
        raise EventRejected("data.amount", "must be above zero")
    return value
