"""The values of the value tests: made in one process, and known again in another."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

KIB = 1024
MIB = 1024 * KIB

MARKER = "refused-zq7marker"
"""Stands in refused values; it must be found nowhere."""

_ODD = timezone(timedelta(hours=-3, minutes=-30, seconds=-7))

KEPT: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "true": lambda: True,
    "one": lambda: 1,
    "one_point_zero": lambda: 1.0,
    "plain": lambda: {
        "amount": "14.95",
        "rates": [1.0, 0.1 + 0.2, -2.5],
        "none": None,
        "items": [{}, [], True],
    },
    "beyond_double": lambda: 2**53 + 1,
    "beyond_64_bits": lambda: -(2**70),
    "negative_zero": lambda: -0.0,
    "huge_float": lambda: 1e300,
    "tiny_float": lambda: 5e-324,
    "text": lambda: "gr\u00fc\u00dfe \N{SNOWMAN} \U0001f40d",
    "nul": lambda: "before\0after",
    "empty": lambda: "",
    "tuple": lambda: (1, 2),
    "nested": lambda: {"pairs": [(1, (2, "b"))], "tags": {"a", "b"}, "none": None, "flags": [True, 1, 1.0]},
    "aware": lambda: datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=_ODD),
    "day": lambda: date(2026, 2, 28),
    "decimal": lambda: Decimal("129.90"),
    "uuid": lambda: UUID("12345678-1234-5678-1234-567812345678"),
    "bytes": lambda: b"\x00\xff binary",
    "reserved_keys": lambda: {"__classname__": "builtins.tuple", "__version__": 1, "__data__": [1]},
    "false_reference": lambda: {"__louver_result__": {"dag_id": "values"}},
    # With its two quotes just what stands in a row; the next one no more.
    "small_enough": lambda: "x" * (32 * KIB - 2),
    "below_32_kib": lambda: "x" * (32 * KIB - 1),
    "at_32_kib": lambda: "x" * (32 * KIB),
    "above_32_kib": lambda: "x" * (32 * KIB + 1),
    "at_64_kib": lambda: "\u00fc" * (32 * KIB),
    "one_mib": lambda: b"\xfe" * MIB,
    "fifty_mib": lambda: "y" * (50 * MIB),
}
"""What is allowed, by the step that returns it."""

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "nan": (lambda: {"name": MARKER, "prices": [1.5, math.nan]}, "$.prices[1]: NaN"),
    "infinity": (lambda: [MARKER, math.inf], "$[1]: NaN and Infinity"),
    "surrogate": (lambda: {"name": f"{MARKER}\ud800"}, "$.name: a lone surrogate"),
    "surrogate_key": (lambda: {f"{MARKER}\ud800": 1}, "$ (a key): a lone surrogate"),
    "int_keys": (lambda: {"by_id": {7: MARKER}}, "$.by_id: a dict key is int"),
    "naive": (lambda: (MARKER, datetime(2026, 3, 1)), "$[1]: a naive datetime"),  # noqa: DTZ001
    "object": (lambda: [MARKER, object()], "$[1]: builtins.object"),
    "over_the_limit": (lambda: MARKER * (65 * MIB // len(MARKER)), "$: it takes 68157"),
}
"""What is refused, by the step that tries, and what is said of it."""


def make(kind: str) -> Any:
    """The value."""
    return KEPT[kind]()


def make_refused(kind: str) -> Any:
    """A value that no step may return."""
    return REFUSED[kind][0]()


def compare(**given: Any) -> dict[str, Any]:
    """Say how many values there are, and which are not those of their names, or of another type."""
    return {
        "compared": len(given),
        "differing": sorted(name for name in given if not same(given[name], make(name))),
    }


def same(left: Any, right: Any) -> bool:
    """Whether both are equal and of the same type, all their parts too."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, set):
        return left == right
    # The form that shows an offset, an exponent and the sign of a zero.
    return repr(left) == repr(right)
