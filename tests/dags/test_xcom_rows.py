"""What may stand in an XCom row comes back from it, by every way that Airflow has for a row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from airflow.models.xcom import XComModel
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time.comms import SetXCom
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue, TypeAdapter
from sqlalchemy import Column, Engine, Integer, MetaData, Table, create_engine, insert, select

from louver.ledger.sql.engine import parse_url
from louver_provider.xcom.shown import described, survives_row

ROWS = Table(
    "rows", MetaData(), Column("id", Integer, primary_key=True), Column("value", XComModel.value.type)
)
"""A table with Airflow's own column: JSON, on Postgres jsonb."""

# Named ones are those that some way loses or refuses.
KEYS = st.one_of(st.text(max_size=3), st.sampled_from(["__classname__", "__type", "__var", "a\0"]))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**66), 2**66),
    st.floats(),
    st.sampled_from([1.0, -0.0, 1e22, 1e16, 1e-7, 5e-324, 0.1 + 0.2]),
    st.text(max_size=5),
    st.just("a\0"),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    """Equal and of the same types; the order of keys is nobody's."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "sqlite":
        made = create_engine("sqlite://")
    else:
        url = request.getfixturevalue("postgres").fresh_schema()
        made = create_engine(parse_url(url))
    ROWS.create(made)
    yield made
    made.dispose()


def through_airflow(value: Any, engine: Engine) -> Any:
    """From a task to the row, and from the row to another task."""
    pushed = SetXCom(
        key="k", value=BaseXCom.serialize_value(value), dag_id="d", run_id="r", task_id="t", map_index=-1
    )
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(pushed.model_dump()))["value"]
    received = TypeAdapter(JsonValue).validate_json(json.dumps(told))
    with engine.begin() as connection:
        (row,) = connection.execute(insert(ROWS).values(value=received)).inserted_primary_key
        kept = connection.execute(select(ROWS.c.value).where(ROWS.c.id == row)).scalar_one()
    return BaseXCom.deserialize_value(SimpleNamespace(value=json.loads(json.dumps(kept))))


@settings(max_examples=300)
@given(value=VALUES)
@example(value=[1.0, {"a": 2.5}])
@example(value=[0.1 + 0.2])
@example(value=2**53 - 1)
def test_what_survives_comes_back(value: Any, engine: Engine) -> None:
    if survives_row(value, limit=1000):
        assert same(through_airflow(value, engine), value)


@settings(max_examples=300)
@given(value=VALUES)
def test_what_is_shown_of_a_value_survives_wherever_it_stands(value: Any, engine: Engine) -> None:
    shown = [described(value)]
    assert same(through_airflow(shown, engine), shown)


def test_most_values_survive() -> None:
    for value in ("text", 7, True, None, ["a", 1.5], {"order": {"items": [], "amount": "14.95"}}):
        assert survives_row(value, limit=100)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "limit", "survives"),
    [
        ("x" * 98, 100, True),
        ("x" * 99, 100, False),
        ("\u00fc" * 49, 100, True),
        ("\u00fc" * 50, 100, False),
        ('"' * 49, 100, True),
        ('"' * 50, 100, False),
        ([[]] * 1000, 100, False),
        (None, 3, False),
        ("", 0, False),
        (deep(64), 10_000, True),
        (deep(65), 10_000, False),
    ],
)
def test_size_and_depth_have_limits(value: Any, limit: int, survives: bool) -> None:
    assert survives_row(value, limit=limit) is survives
