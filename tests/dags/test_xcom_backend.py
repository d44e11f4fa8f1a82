"""What XCom shows of a step's result, and that other Dags' XComs are left as they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases.xcom import BaseXCom

from louver.definition import Definition, Step
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.sessions import Change, Claim
from louver.states import Source, TaskState
from louver.steps import run_start
from louver_provider import current, settings
from louver_provider.hooks.ledger import get_ledger
from louver_provider.xcom.backend import REFERENCE, LouverXCom

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
KEY = TaskKey("orders", "r1", "one")
IDS: dict[str, Any] = {
    "key": "return_value",
    "dag_id": "orders",
    "run_id": "r1",
    "task_id": "one",
    "map_index": -1,
}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    from louver_provider.hooks import ledger as hook

    monkeypatch.setattr(settings, "AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setattr(hook, "_LEDGERS", {})
    monkeypatch.setattr(current, "_LIVING", [])
    opened = get_ledger()
    yield opened
    opened.close()


def succeed(ledger: Ledger, value: Any) -> None:
    """A step that succeeded with the value, in the process that is about to push it."""
    definition = Definition(name="orders", version="1", nodes=[Step(name="one", task="json:dumps")])
    ledger.open_run(run_start(definition, RunKey("orders", "r1")), now=NOW)
    claim = Claim(try_number=1, max_tries=2, process="p", source=Source.WORKER)
    token = ledger.open_task(KEY, claim, now=NOW).token
    ledger.advance(token, Change(to=TaskState.RUNNING, trigger="executor:launched"), now=NOW)
    ledger.complete(token, Change(to=TaskState.SUCCEEDED, trigger="runtime:completed"), value, now=NOW)
    current.remember_step(KEY)


def pulled(serialized: Any) -> Any:
    return LouverXCom.deserialize_value(SimpleNamespace(value=serialized))


@pytest.mark.parametrize("value", [{"amount": "129.90", "items": [1, 2.5, None, True]}, "text", [], 0])
def test_small_plain_values_stand_in_the_row(value: Any, ledger: Ledger) -> None:
    succeed(ledger, value)
    shown = LouverXCom.serialize_value(value, **IDS)
    assert shown == BaseXCom.serialize_value(value)
    assert pulled(shown) == value


@pytest.mark.parametrize(
    "value", ["x" * 40_000, {"price": Decimal("1.10")}, (1, 2), {"at": NOW}, b"\x00", {1, 2}]
)
def test_other_values_are_a_reference_that_leads_to_the_signed_result(value: Any, ledger: Ledger) -> None:
    succeed(ledger, value)
    shown = LouverXCom.serialize_value(value, **IDS)
    assert set(BaseXCom.deserialize_value(SimpleNamespace(value=shown))) == {REFERENCE}
    assert pulled(shown) == value
    assert type(pulled(shown)) is type(value)


def test_other_dags_xcoms_are_untouched(ledger: Ledger) -> None:
    current.remember_step(TaskKey("elsewhere", "r1", "one"))
    for value in ("x" * 40_000, (1, 2), {"at": NOW}):
        assert LouverXCom.serialize_value(value, **IDS) == BaseXCom.serialize_value(value)


def test_other_keys_of_a_louver_step_are_untouched(ledger: Ledger) -> None:
    succeed(ledger, 1)
    value = "x" * 40_000
    assert LouverXCom.serialize_value(value, **{**IDS, "key": "note"}) == BaseXCom.serialize_value(value)
