"""What the REST interface says of mapped nodes and of values of every kind; read back by the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from support.airflow_rows import AirflowRows

from louver.definition import Definition
from louver.engine import run_inline
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.nodes import Step
from louver_provider.api.datamodels import Form
from louver_provider.api.run_views import results_json, run_status
from louver_provider.client.values import RunStatus, read_results

RUN = RunKey("mapped", "r1")
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))

KINDS: list[Any] = [
    None,
    True,
    2**70,
    0.1,
    "text with \u2028, \x00, \N{GRINNING FACE} and \\",
    NOON,
    date(2026, 3, 1),
    Decimal("1.50"),
    UUID(int=7),
    b"\x00\xff",
    (1, 1.0, [None]),
    {"a", "b"},
    {"\U00010000": 1, "\ue000": {"decimal": "no tag"}},
]

MAPPED = Definition(
    name="mapped",
    version="1",
    nodes=[
        Step(name="items", task="tests:items"),
        Step(name="each", task="tests:each", over={"item": "items"}, on_failure="continue"),
        Step(name="never", task="tests:never", deps={"found": "each"}),
    ],
)


def each(item: Any) -> Any:
    """A mapped step; it refuses one of its items."""
    if item == "bad":
        raise ValueError("zq7marker")
    return item


@pytest.fixture
def lived(ledger: Ledger) -> Callable[[list[Any]], Ledger]:
    """The run, lived to its end over these items."""
    AirflowRows()

    def live(items: list[Any]) -> Ledger:
        tasks = {"tests:items": lambda: items, "tests:each": each, "tests:never": lambda found: found}
        run_inline(MAPPED, tasks, ledger=ledger, run_id=RUN.run_id)
        return ledger

    return live


def test_a_mapped_node_counts_its_indexes(lived) -> None:
    model = run_status(RUN, lived([1, "bad", 3]))

    assert model is not None
    status = RunStatus.read(json.loads(model.model_dump_json()))
    node = status.nodes["each"]
    assert (str(node.state), node.mapped, node.expected) == ("failed", {"succeeded": 2, "failed": 1}, 3)
    assert node.failure_kind == "exception"
    assert status.nodes["items"].mapped is None
    assert "zq7marker" not in model.model_dump_json()


def test_mapped_results_are_by_index_and_a_failure_shifts_none(lived) -> None:
    results = read_results(json.loads(results_json(RUN, lived([1, "bad", None]), form=Form.TYPED)))

    each_ = results["each"]
    assert isinstance(each_, list)
    assert [(one.map_index, one.tag, one.value) for one in each_] == [
        (0, "ok", 1),
        (1, "failed", None),
        (2, "ok", None),
    ]


def test_every_kind_of_value_comes_back_as_what_it_was(lived) -> None:
    results = read_results(json.loads(results_json(RUN, lived(KINDS), form=Form.TYPED)))

    back = [one.value for one in results["each"]]
    assert [(type(value), value) for value in back] == [(type(value), value) for value in KINDS]


def test_deep_values_come_back(lived) -> None:
    deep: Any = "end"
    for _ in range(190):
        deep = [deep]

    results = read_results(json.loads(results_json(RUN, lived([deep]), form=Form.TYPED, only=["each"])))

    assert [one.value for one in results["each"]] == [deep]


def test_the_plain_form_is_for_people(lived) -> None:
    body = json.loads(results_json(RUN, lived(KINDS), form=Form.PLAIN, only=["each"]))

    assert [one["value"] for one in body["nodes"]["each"]] == [
        *KINDS[:5],
        "2026-03-01T12:00:00+02:00",
        "2026-03-01",
        "1.50",
        "00000000-0000-0000-0000-000000000007",
        "AP8=",
        [1, 1.0, [None]],
        ["a", "b"],
        KINDS[12],
    ]
