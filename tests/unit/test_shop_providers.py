"""The shop's providers do each request once per key, and their file counts what was really done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shop import prices, report
from shop.database import database_path, transaction
from shop.providers import KeyReused, ProviderRefused, mail, payments, stock

INCLUDE = Path(__file__).resolve().parents[2] / "include"
ORDER = "order-1"
CUSTOMER = "customer-4711"
ITEMS = [{"sku": "teapot", "quantity": 3}]


@pytest.fixture(autouse=True)
def shop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop.db"
    monkeypatch.setenv("SHOP_DB", str(path))
    return path


def reserve(key: str, **other: Any) -> dict[str, str]:
    return stock.reserve(key, **{"order_id": ORDER, "items": ITEMS, **other})


def charge(key: str, **other: Any) -> dict[str, str]:
    intent = {"order_id": ORDER, "customer_id": CUSTOMER, "amount": "129.90", "currency": "EUR"}
    return payments.charge(key, **{**intent, **other})


def send(key: str, **other: Any) -> dict[str, str]:
    return mail.send(key, **{"order_id": ORDER, "customer_id": CUSTOMER, "template": "hello", **other})


def release(key: str, *, of: str = "first") -> dict[str, str]:
    return stock.release(key, reservation=reserve(of)["reservation"])


def refund(key: str, *, of: str = "first") -> dict[str, str]:
    return payments.refund(key, charge=charge(of)["charge"])


Request = Callable[..., dict[str, str]]

ACTIONS = [
    pytest.param("stock.reserve", reserve, id="reserve"),
    pytest.param("stock.release", release, id="release"),
    pytest.param("payments.charge", charge, id="charge"),
    pytest.param("payments.refund", refund, id="refund"),
    pytest.param("mail.send", send, id="send"),
]


@pytest.mark.parametrize(("action", "request_"), ACTIONS)
def test_the_same_key_and_body_is_done_once_and_answered_alike(action: str, request_: Request) -> None:
    first = request_("key-1")

    assert request_("key-1") == first
    assert report.counts(ORDER)[action] == 1
    assert report.calls(ORDER)[action] == 2


@pytest.mark.parametrize(("action", "request_"), ACTIONS)
def test_another_key_is_another_request(action: str, request_: Request) -> None:
    # Even a second refund of one charge: a workflow that makes that mistake must show in the count.
    assert request_("key-1") != request_("key-2")
    assert report.counts(ORDER)[action] == 2


@pytest.mark.parametrize(
    ("action", "request_", "other"),
    [
        ("stock.reserve", reserve, {"items": [{"sku": "teapot", "quantity": 4}]}),
        ("stock.reserve", reserve, {"order_id": "order-2"}),
        ("stock.release", release, {"of": "second"}),
        ("payments.charge", charge, {"amount": "129.91"}),
        ("payments.charge", charge, {"currency": "USD"}),
        ("payments.charge", charge, {"customer_id": "customer-2"}),
        ("payments.refund", refund, {"of": "second"}),
        ("mail.send", send, {"template": "goodbye"}),
    ],
)
def test_the_same_key_with_another_body_is_refused(
    action: str, request_: Request, other: dict[str, Any]
) -> None:
    first = request_("key-1")

    with pytest.raises(KeyReused) as caught:
        request_("key-1", **other)

    assert (caught.value.action, caught.value.code) == (action, "key_reused")
    assert report.counts(ORDER)[action] == 1
    assert report.counts("order-2")[action] == 0
    assert request_("key-1") == first


def test_one_key_may_serve_two_providers() -> None:
    reserve("key-1")
    charge("key-1")

    assert report.sequence(ORDER) == ["stock.reserve", "payments.charge"]


@pytest.mark.parametrize(
    ("request_", "find"), [(reserve, stock.find), (charge, payments.find), (send, mail.find)]
)
def test_a_lookup_returns_what_the_request_returned(
    request_: Request, find: Callable[[str], dict[str, str] | None]
) -> None:
    assert find("key-1") is None

    answer = request_("key-1")

    assert find("key-1") == answer
    assert find("key-2") is None


@pytest.mark.parametrize(
    "undo",
    [lambda: payments.refund("key-1", charge="charge-0"), lambda: stock.release("key-1", reservation="r-0")],
)
def test_what_was_never_done_cannot_be_undone(undo: Callable[[], object]) -> None:
    with pytest.raises(ProviderRefused, match="unknown_reference"):
        undo()

    with transaction() as shop:
        assert shop.execute("SELECT count(*) FROM done").fetchone() == (0,)


def test_the_report_keeps_orders_apart_and_tells_the_order_of_events() -> None:
    reserve("a")
    reserve("b", order_id="order-10")
    taken = charge("c")
    payments.refund("d", charge=taken["charge"])
    stock.release("e", reservation=reserve("a")["reservation"])

    assert report.sequence(ORDER) == ["stock.reserve", "payments.charge", "payments.refund", "stock.release"]
    assert report.sequence("order-10") == ["stock.reserve"]
    assert report.counts(ORDER) == {
        "stock.reserve": 1,
        "payments.charge": 1,
        "mail.send": 0,
        "payments.refund": 1,
        "stock.release": 1,
    }
    assert report.calls(ORDER)["stock.reserve"] == 2


def test_the_file_keeps_no_personal_data(shop_file: Path) -> None:
    charge("key-1")
    send("key-2")

    kept = b"".join(path.read_bytes() for path in shop_file.parent.iterdir())

    assert ORDER.encode() in kept
    assert CUSTOMER.encode() not in kept
    assert b"129.90" not in kept


def test_processes_that_use_one_key_at_once_do_it_once(shop_file: Path) -> None:
    # They begin by making the file, all at the same moment.
    code = (
        "import sys; from shop.providers import payments; print('ready', flush=True); sys.stdin.readline(); "
        "print(payments.charge('key-1', order_id='order-1', customer_id='c', amount='1.00', currency='EUR'))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(INCLUDE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        assert not shop_file.exists()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()

    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert len(set(answers)) == 1
    assert report.counts(ORDER)["payments.charge"] == 1
    assert report.calls(ORDER)["payments.charge"] == 4


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    assert database_path() == tmp_path / "shop.db"

    monkeypatch.delenv("SHOP_DB")
    assert database_path() == tmp_path / "home" / "shop.db"

    monkeypatch.delenv("AIRFLOW_HOME")
    monkeypatch.chdir(tmp_path)
    assert database_path() == tmp_path / "shop.db"


def test_a_missing_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "nowhere" / "shop.db"))

    with pytest.raises(FileNotFoundError, match=r"nowhere.*SHOP_DB"):
        charge("key-1")


def test_a_block_that_raises_leaves_nothing_behind() -> None:
    def fail_half_way() -> None:
        with transaction() as shop:
            shop.execute("DELETE FROM prices")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()

    assert str(prices.total(ITEMS)) == "300.00"


def test_prices_are_exact() -> None:
    prices.set_price("penny", "0.1")

    assert str(prices.total([{"sku": "penny", "quantity": 3}])) == "0.30"
    with pytest.raises(prices.NotSold, match=r"items\[0\]"):
        prices.total([{"sku": "unicorn", "quantity": 1}])


@pytest.mark.parametrize("price", ["0", "-1.00", "1.001", "NaN", "sNaN", "Infinity", "", "ten", "1e99"])
def test_what_is_no_price_is_refused(price: str) -> None:
    with pytest.raises(ValueError, match="decimal string"):
        prices.set_price("teapot", price)

    assert str(prices.total(ITEMS)) == "300.00"
