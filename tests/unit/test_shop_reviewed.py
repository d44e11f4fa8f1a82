"""The reviewed orders of the examples, run embedded against the shop's real file (row O11)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from louver.approvals import Answer
from louver.binding import bind
from louver.engine.inline import RunResult, run_inline
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey
from louver.results import NodeResult, run_results
from louver.states import RunState, TaskState
from shop import prices, report
from shop.reviewed_workflow import reviewed_orders

RUN = RunKey("reviewed_orders", "run-1")
DEFINITION = reviewed_orders.definition()
S = TaskState


@pytest.fixture(autouse=True)
def _shop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as ledger:
        yield ledger


def order(price: str, **given: Any) -> dict[str, Any]:
    """An order of one piece that costs this much."""
    prices.set_price("teapot", price)
    return {
        "order_id": "order-2001",
        "customer_id": "customer-77",
        "currency": "EUR",
        "amount": price,
        "items": [{"sku": "teapot", "quantity": 1}],
        "model": "rules",
        "notify_within": 60,
        **given,
    }


def run(ledger: Ledger, params: dict[str, Any], **tasks: Any) -> RunResult:
    functions = {**reviewed_orders.tasks, **tasks}
    return run_inline(DEFINITION, functions, params, ledger=ledger, run_id=RUN.run_id)


def risk(ledger: Ledger) -> dict[str, Any]:
    found = run_results(DEFINITION, RUN, ledger)["risk_check"]
    assert isinstance(found, NodeResult)
    value: dict[str, Any] = found.unwrap()
    return value


def test_a_harmless_order_is_charged_without_asking(ledger: Ledger) -> None:
    done = run(ledger, order("19.90"))
    assert done.state is RunState.SUCCEEDED
    assert done.states["charge"] is S.SUCCEEDED
    assert {done.states[name] for name in ("manual_review", "charge_reviewed", "decline")} == {S.SKIPPED}
    assert done.value["mail"]
    assert risk(ledger)["model"] == "rules"
    assert len(risk(ledger)["evaluation_set"]) == len(risk(ledger)["model_fingerprint"]) == 64


def test_a_person_decides_about_a_risky_one(ledger: Ledger) -> None:
    params = order("1200.00")
    asked = run(ledger, params)
    assert asked.state is RunState.WAITING_APPROVAL
    (request,) = asked.waiting
    ledger.decide_approval(
        request.request_id, Answer(decision=Decision.APPROVED, by="anna"), now=datetime.now(timezone.utc)
    )
    done = run(ledger, params)
    assert done.state is RunState.SUCCEEDED
    assert done.states["charge"] is S.SKIPPED
    assert done.states["charge_reviewed"] is S.SUCCEEDED
    assert done.value["charge"]


def test_one_that_is_declined_gives_back_what_was_reserved(ledger: Ledger) -> None:
    params = order("9000.00", items=[{"sku": "teapot", "quantity": 60}], amount="540000.00")
    done = run(ledger, params)
    assert done.states["decline"] is S.FAILED
    assert done.state is RunState.FAILED_COMPENSATED
    assert {done.states[name] for name in ("charge", "charge_reviewed", "notify")} == {S.SKIPPED}
    assert report.sequence("order-2001") == ["stock.reserve", "stock.release"]


@pytest.mark.parametrize("decision", ["who knows", None])
def test_what_nobody_understands_is_for_a_person(ledger: Ledger, decision: Any) -> None:
    strange = {"decision": decision, "score": 0.0, "model": "m", "model_version": "1"}
    seen = run(ledger, order("19.90"), risk_check=lambda order, model: strange)
    assert seen.state is RunState.WAITING_APPROVAL
    assert seen.states["manual_review"] is S.PAUSED


def test_a_confirmation_that_would_be_late_is_not_sent(ledger: Ledger) -> None:
    done = run(ledger, order("19.90", notify_within=-1))
    assert done.states["notify"] is S.SKIPPED
    assert done.state is RunState.SUCCEEDED
    assert done.value is None
    assert report.sequence("order-2001") == ["stock.reserve", "payments.charge"]


def test_the_functions_fit_the_workflow() -> None:
    assert bind(DEFINITION, reviewed_orders.tasks).definition.fingerprint == DEFINITION.fingerprint
