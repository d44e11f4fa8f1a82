"""The order workflow of the examples, run embedded against the shop's real file."""

from __future__ import annotations

import copy
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from louver.approvals import Answer
from louver.canonical import fingerprint
from louver.clock import FixedClock
from louver.cloudevents import OrderProfile, parse_event
from louver.definition import ApprovalNode, Definition, Step
from louver.effects import Verification
from louver.engine import RunResult, run_inline
from louver.errors import EventRejected
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision
from louver.states import RunState, TaskState
from shop import faults, orders, prices, report
from shop.faults import Mode
from shop.providers import payments

ROOT = Path(__file__).resolve().parents[2]
EVENT_FILE = ROOT / "dags" / "examples" / "order_event.json"
ORDER_ID = "order-1001"
CUSTOMER = "customer-77"


@pytest.fixture(autouse=True)
def shop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop.db"
    monkeypatch.setenv("SHOP_DB", str(path))
    return path


@pytest.fixture
def definition() -> Definition:
    return Definition.from_json((ROOT / "dags" / "order.json").read_bytes(), source="order.json")


@pytest.fixture
def event() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(EVENT_FILE.read_text(encoding="utf-8"))
    return loaded


class Shop:
    """One run of the workflow, and the person who decides."""

    def __init__(self, definition: Definition, ledger: Ledger, event: dict[str, Any]) -> None:
        self.definition = definition
        self.ledger = ledger
        self.event = event
        self.clock: FixedClock = FixedClock(datetime(2026, 3, 1, 9, 0, tzinfo=timezone.utc))

    def run(self) -> RunResult:
        return run_inline(
            self.definition,
            params={"event": self.event},
            ledger=self.ledger,
            clock=self.clock,
            run_id="run-1",
        )

    def decide(self, result: RunResult, decision: Decision = Decision.APPROVED) -> None:
        (request,) = result.waiting
        self.ledger.decide_approval(
            request.request_id, Answer(decision=decision, by="alice"), now=self.clock.now()
        )

    def run_approved(self) -> RunResult:
        self.decide(self.run())
        return self.run()


@pytest.fixture
def shop(definition: Definition, event: dict[str, Any]) -> Iterator[Shop]:
    with open_ledger("memory://") as ledger:
        yield Shop(definition, ledger, event)


def test_the_definition_is_the_order_workflow(definition: Definition) -> None:
    assert (definition.name, definition.version) == ("order_workflow", "1.0.0")
    assert definition.event_type == OrderProfile.event_type
    assert definition.root == "validate"
    assert definition.result_node == "notify"
    upstream = {node.name: set(node.upstream) for node in definition.nodes}
    # Two that are ready together, and an approval that has seen both.
    assert upstream["reserve_inventory"] == upstream["risk_check"] == {"validate"}
    assert {"reserve_inventory", "risk_check"} <= upstream["approve_charge"]
    assert "approve_charge" in upstream["charge"]
    approval, charge = definition.node("approve_charge"), definition.node("charge")
    assert isinstance(approval, ApprovalNode)
    assert isinstance(charge, Step)
    assert (approval.of, charge.approval) == ("charge", "approve_charge")


def test_the_example_event_is_one_of_the_profile_and_at_todays_prices() -> None:
    order = OrderProfile.check(parse_event(EVENT_FILE.read_bytes()))

    assert order["amount"] == str(prices.total(order["items"]))


def test_an_approved_order_is_reserved_charged_and_confirmed_once(shop: Shop) -> None:
    waiting = shop.run()
    assert waiting.state is RunState.WAITING_APPROVAL
    assert report.sequence(ORDER_ID) == ["stock.reserve"]

    shop.decide(waiting)
    result = shop.run()

    assert result.state is RunState.SUCCEEDED, result.errors
    assert report.sequence(ORDER_ID) == ["stock.reserve", "payments.charge", "mail.send"]
    assert set(result.value) == {"order_id", "reservation", "charge", "mail"}


def test_a_person_sees_exactly_what_will_be_charged(shop: Shop) -> None:
    (request,) = shop.run().waiting

    assert shop.ledger.load_approval(request) == {
        "order_id": ORDER_ID,
        "customer_id": CUSTOMER,
        "currency": "EUR",
        "amount": "129.90",
        "risk": "low",
    }


def test_a_rejected_order_gives_the_stock_back(shop: Shop) -> None:
    shop.decide(shop.run(), Decision.REJECTED)

    result = shop.run()

    assert result.state is RunState.FAILED_COMPENSATED
    assert report.sequence(ORDER_ID) == ["stock.reserve", "stock.release"]


def test_where_the_mail_fails_for_good_the_money_goes_back_first(shop: Shop) -> None:
    faults.tell("mail.send", Mode.FAIL_FOR_GOOD)

    result = shop.run_approved()

    assert result.state is RunState.FAILED_COMPENSATED
    assert report.sequence(ORDER_ID) == [
        "stock.reserve",
        "payments.charge",
        "payments.refund",
        "stock.release",
    ]
    assert report.calls(ORDER_ID)["mail.send"] == 2


class PriceRise(FixedClock):
    """A clock by which the teapot's price rises while somebody waits."""

    def sleep(self, duration: timedelta) -> None:
        prices.set_price("teapot", "120.00")
        super().sleep(duration)


def test_a_price_that_changes_after_the_approval_is_not_charged(shop: Shop) -> None:
    shop.clock = PriceRise(shop.clock.now())
    shop.decide(shop.run())
    # The approved charge is refused once, and the price rises while it waits for its retry.
    faults.tell("payments.charge", Mode.FAIL)

    again = shop.run()

    assert again.state is RunState.WAITING_APPROVAL
    assert report.calls(ORDER_ID)["payments.charge"] == 1
    assert report.counts(ORDER_ID)["payments.charge"] == 0
    (request,) = again.waiting
    assert request.task_id == "charge"
    assert shop.ledger.load_approval(request)["amount"] == "149.90"

    shop.clock.advance(timedelta(days=2))
    result = shop.run()

    assert result.state is RunState.FAILED_COMPENSATED
    assert report.sequence(ORDER_ID) == ["stock.reserve", "stock.release"]
    assert report.calls(ORDER_ID)["payments.charge"] == 1


def test_a_price_that_changes_before_the_answer_is_seen_needs_a_new_answer(shop: Shop) -> None:
    shop.decide(shop.run())
    prices.set_price("teapot", "120.00")

    again = shop.run()

    assert again.state is RunState.WAITING_APPROVAL
    assert report.calls(ORDER_ID)["payments.charge"] == 0
    (request,) = again.waiting
    assert shop.ledger.load_approval(request)["amount"] == "149.90"

    shop.decide(again)
    assert shop.run().state is RunState.SUCCEEDED


@pytest.mark.parametrize("action", ["stock.reserve", "payments.charge", "mail.send"])
@pytest.mark.parametrize("mode", [Mode.FAIL, Mode.LOSE_ANSWER])
def test_one_mishap_costs_a_retry_and_nothing_else(shop: Shop, action: str, mode: Mode) -> None:
    faults.tell(action, mode)

    result = shop.run_approved()

    assert result.state is RunState.SUCCEEDED, result.errors
    assert report.sequence(ORDER_ID) == ["stock.reserve", "payments.charge", "mail.send"]
    # After a refusal it is asked again. A lost answer is looked up.
    assert report.calls(ORDER_ID)[action] == (2 if mode is Mode.FAIL else 1)


@pytest.mark.parametrize("action", ["payments.refund", "stock.release"])
@pytest.mark.parametrize("mode", [Mode.FAIL, Mode.LOSE_ANSWER])
def test_one_mishap_of_an_undo_costs_a_retry_and_nothing_else(shop: Shop, action: str, mode: Mode) -> None:
    faults.tell("mail.send", Mode.FAIL_FOR_GOOD)
    faults.tell(action, mode)

    result = shop.run_approved()

    assert result.state is RunState.FAILED_COMPENSATED
    assert report.sequence(ORDER_ID)[2:] == ["payments.refund", "stock.release"]
    assert report.calls(ORDER_ID)[action] == 2


def test_an_undo_that_fails_for_good_leaves_the_rest_undone(shop: Shop) -> None:
    faults.tell("mail.send", Mode.FAIL_FOR_GOOD)
    faults.tell("payments.refund", Mode.FAIL_FOR_GOOD)

    result = shop.run_approved()

    assert result.state is RunState.COMPENSATION_FAILED
    assert report.sequence(ORDER_ID)[2:] == ["stock.release"]


def test_what_nobody_could_find_out_is_undone_after_asking_the_provider(shop: Shop) -> None:
    # The charge happened, its answer was lost, and every lookup until the undo's own fails.
    shop.decide(shop.run())
    faults.tell("payments.charge", Mode.LOSE_ANSWER)
    faults.tell("payments.find", Mode.FAIL, times=3)

    result = shop.run()

    assert result.state is RunState.FAILED_COMPENSATED
    assert report.sequence(ORDER_ID)[1:] == ["payments.charge", "payments.refund", "stock.release"]


def test_a_second_run_for_the_order_does_nothing_again(
    shop: Shop, definition: Definition, event: dict[str, Any]
) -> None:
    shop.run_approved()
    again = run_inline(
        definition, params={"event": event}, ledger=shop.ledger, clock=shop.clock, run_id="run-2"
    )
    shop.decide(again)

    result = run_inline(
        definition, params={"event": event}, ledger=shop.ledger, clock=shop.clock, run_id="run-2"
    )

    assert result.state is RunState.SUCCEEDED, result.errors
    assert report.sequence(ORDER_ID) == ["stock.reserve", "payments.charge", "mail.send"]


def test_a_process_killed_after_its_effect_loses_nothing(
    shop_file: Path, tmp_path: Path, definition: Definition, event: dict[str, Any]
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    faults.kill_after_effect("reserve_inventory")
    code = (
        "import json, sys; from pathlib import Path; from louver.definition import Definition;"
        "from louver.engine import run_inline; from louver.ledger import open_ledger;"
        "definition = Definition.from_json(Path(sys.argv[1]).read_bytes());"
        "event = json.loads(Path(sys.argv[2]).read_text());"
        "ledger = open_ledger(sys.argv[3]);"
        "run_inline(definition, params={'event': event}, ledger=ledger, run_id='run-1')"
    )

    killed = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "dags" / "order.json"), str(EVENT_FILE), url],
        env={**os.environ, "PYTHONPATH": str(ROOT / "include")},
        timeout=60,
        check=False,
    )

    assert killed.returncode == -signal.SIGKILL
    with open_ledger(url) as ledger:
        result = run_inline(definition, params={"event": event}, ledger=ledger, run_id="run-1")
    assert result.state is RunState.WAITING_APPROVAL, result.errors
    assert result.states["reserve_inventory"] is TaskState.SUCCEEDED
    assert report.calls(ORDER_ID)["stock.reserve"] == report.counts(ORDER_ID)["stock.reserve"] == 1


def test_no_payload_is_logged(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    faults.tell("payments.charge", Mode.FAIL)
    faults.tell("mail.send", Mode.FAIL_FOR_GOOD)

    shop.run_approved()

    assert ORDER_ID in caplog.text
    for secret in (CUSTOMER, "129.90", "teapot", "mug-blue"):
        assert secret not in caplog.text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data.update(currency="USD"), "takes EUR alone"),
        (lambda data: data.update(amount="129.89"), "is not what its items cost"),
        (lambda data: data.update(amount="129.91"), "is not what its items cost"),
        (lambda data: data["items"][0].update(quantity=3), "is not what its items cost"),
        (lambda data: data["items"][0].update(sku="unicorn"), "items[0] is not sold"),
    ],
)
def test_an_order_that_the_shop_does_not_take_is_refused(
    shop: Shop, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    change(shop.event["data"])

    result = shop.run()

    assert result.state is RunState.FAILED
    error = result.errors["validate"]
    assert isinstance(error, orders.OrderRefused)
    assert reason in str(error)
    assert "129" not in str(error)
    assert report.calls(ORDER_ID) == dict.fromkeys(report.ACTING, 0)


def test_an_order_at_the_price_of_yesterday_is_refused(shop: Shop) -> None:
    prices.set_price("mug-blue", "15.95")

    assert isinstance(shop.run().errors["validate"], orders.OrderRefused)


@pytest.mark.parametrize("amount", ["129.9", "129.90"])
def test_the_amount_is_compared_as_a_number(shop: Shop, amount: str) -> None:
    shop.event["data"]["amount"] = amount

    assert shop.run().state is RunState.WAITING_APPROVAL


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("customer_id"),
        lambda data: data.update(note="leave it at the door"),
        lambda data: data.update(amount=129.9),
        lambda data: data.update(items=[]),
        lambda data: data["items"][0].update(quantity=True),
    ],
)
def test_data_that_break_the_profile_are_refused(
    shop: Shop, change: Callable[[dict[str, Any]], object]
) -> None:
    change(shop.event["data"])

    result = shop.run()

    assert isinstance(result.errors["validate"], EventRejected)
    assert report.calls(ORDER_ID) == dict.fromkeys(report.ACTING, 0)


def order_of(*items: tuple[str, int], amount: str) -> dict[str, Any]:
    return {
        "order_id": ORDER_ID,
        "customer_id": CUSTOMER,
        "currency": "EUR",
        "amount": amount,
        "items": [{"sku": sku, "quantity": quantity} for sku, quantity in items],
    }


@pytest.mark.parametrize(
    ("order", "decision", "score"),
    [
        (order_of(("teapot", 1), amount="100.00"), "low", 0),
        (order_of(("teapot", 2), ("notebook", 6), amount="249.99"), "low", 0),
        (order_of(("teapot", 2), amount="250.00"), "low", 20),
        (order_of(("notebook", 49), amount="249.00"), "low", 0),
        (order_of(("notebook", 50), amount="249.00"), "medium", 30),
        (order_of(("teapot", 10), amount="1000.00"), "medium", 50),
        (order_of(("teapot", 50), amount="5000.00"), "high", 80),
        (order_of(*((f"sku-{number}", 50) for number in range(20)), amount="9000.00"), "high", 100),
    ],
)
def test_risk_follows_fixed_rules(order: dict[str, Any], decision: str, score: int) -> None:
    before = copy.deepcopy(order)

    assert orders.risk_check(order) == {"decision": decision, "score": score}
    assert order == before


def test_a_price_change_changes_the_intent_and_changing_it_back_restores_it() -> None:
    order, risk = order_of(("teapot", 1), amount="100.00"), {"decision": "low", "score": 0}
    approved = fingerprint(orders.charge_intent(order, risk))

    prices.set_price("teapot", "100.01")
    assert fingerprint(orders.charge_intent(order, risk)) != approved

    # Another spelling of the same price is the same intent.
    prices.set_price("teapot", "100.0")
    assert fingerprint(orders.charge_intent(order, risk)) == approved


def test_verify_says_what_the_provider_knows() -> None:
    assert orders.verify_charge("key-1") == Verification.absent()

    done = payments.charge("key-1", order_id=ORDER_ID, customer_id="c", amount="1.00", currency="EUR")
    assert orders.verify_charge("key-1") == Verification.committed(done)
    assert orders.verify_reservation("key-1") == orders.verify_mail("key-1") == Verification.absent()
