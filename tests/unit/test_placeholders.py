"""What only a run knows cannot be looked into before: whoever tries is told so, and the way out (row W1)."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from louver.errors import DefinitionError
from louver.placeholders import NodeRef, Placeholder, holds_reference

USES: dict[str, Callable[[Any], object]] = {
    "if": lambda value: 1 if value else 2,
    "not": lambda value: not value,
    "for": lambda value: [(item, 1) for item in value],
    "list()": list,
    "unpacking": lambda value: {**{"a": 1}, "b": [*value]},
    "len()": len,
    "in": lambda value: "x" in value,
    "an index": lambda value: value[0],
    "a key": lambda value: {"a": 1}.get(value),
    "a range": lambda value: range(value),
    "an index of a list": lambda value: [1, 2][value],
    "==": lambda value: value == "x",
    "!=": lambda value: value != "x",
    "== from the right": lambda value: value == "x",
    "<": lambda value: value < 1,
    ">=": lambda value: value >= 1,
    "sorted": lambda value: sorted([value, 1]),
    "match": lambda value: [1].index(value),
    "+": lambda value: value + 1,
    "+ from the left": lambda value: "s3://" + value,
    "*": lambda value: 2 * value,
    "%": lambda value: value % 2,
    "unary minus": lambda value: -value,
    "round": round,
    "an f-string": lambda value: f"s3://{value}",
    "str()": str,
    "% formatting": lambda value: "s3://%s" % value,  # noqa: UP031 - it is what is tried
    "str.format": "s3://{}".format,
    "int()": int,
    "float()": float,
    "math": math.floor,
    "bytes()": bytes,
    "a path": os.fspath,
    "an attribute": lambda value: value.lower,
    "a method": lambda value: value.split(","),
    "a call": lambda value: value(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_parameter_of_the_run_is_not_used_as_a_value(use: Callable[[Any], object]) -> None:
    source = Placeholder(workflow="etl", parameter="source")

    with pytest.raises(DefinitionError) as refused:
        use(source)

    assert refused.value.source == "etl"
    assert refused.value.attribute == "params.source"
    assert "'source'" in refused.value.reason
    assert "wf.map" in refused.value.reason
    assert "wf.branch" in refused.value.reason


@pytest.mark.parametrize(
    "use",
    [use for name, use in USES.items() if name != "a key"],
    ids=[name for name in USES if name != "a key"],
)
def test_a_result_to_come_is_not_used_as_a_value(use: Callable[[Any], object]) -> None:
    rows = NodeRef(workflow="etl", name="extract")

    with pytest.raises(DefinitionError) as refused:
        use(rows)

    assert (refused.value.source, refused.value.node) == ("etl", "extract")
    assert "wf.map" in refused.value.reason


def test_nodes_can_be_told_apart() -> None:
    one, same, other = (NodeRef(workflow="etl", name=name) for name in ("a", "a", "b"))

    assert one == same
    assert one != other
    assert {one, same, other} == {one, other}
    assert one in [other, same]


@pytest.mark.parametrize(
    "value",
    [Placeholder(workflow="etl", parameter="source"), NodeRef(workflow="etl", name="extract")],
    ids=repr,
)
def test_what_python_itself_asks_is_answered(value: Any) -> None:
    assert "etl" in repr(value)
    assert not hasattr(value, "__wrapped__")
    assert repr(copy.copy(value)) == repr(value)
    assert repr(copy.deepcopy([value])) == repr([value])
    assert repr(pickle.loads(pickle.dumps(value))) == repr(value)


def test_a_reference_is_found_however_deep_it_lies() -> None:
    rows = NodeRef(workflow="etl", name="extract")
    ring: list[Any] = [1]
    ring.append(ring)

    assert holds_reference({"a": [(1, {"b": rows})]})
    assert holds_reference({rows: 1})
    assert not holds_reference({"a": [(1, {"b": 2})], "c": "text"})
    assert not holds_reference(ring)
