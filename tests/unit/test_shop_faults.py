"""The shop's providers misbehave as they are told, from another process too, and no oftener."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shop import faults, report
from shop.faults import Mode
from shop.providers import ProviderError, ProviderRefused, ProviderTimeout, mail, payments, stock

INCLUDE = Path(__file__).resolve().parents[2] / "include"
ORDER = "order-1"


@pytest.fixture(autouse=True)
def shop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop.db"
    monkeypatch.setenv("SHOP_DB", str(path))
    return path


def charge(key: str = "key-1", order_id: str = ORDER) -> dict[str, str]:
    return payments.charge(key, order_id=order_id, customer_id="c", amount="1.00", currency="EUR")


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(INCLUDE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def charges() -> tuple[int, int]:
    return report.calls(ORDER)["payments.charge"], report.counts(ORDER)["payments.charge"]


def test_it_fails_before_it_does_anything_as_often_as_it_was_told() -> None:
    faults.tell("payments.charge", Mode.FAIL, times=2)

    for _ in range(2):
        with pytest.raises(ProviderRefused, match=r"payments\.charge: unavailable"):
            charge()
    assert charges() == (2, 0)
    assert payments.find("key-1") is None

    charge()
    assert charges() == (3, 1)


def test_it_fails_for_good_until_that_is_taken_back() -> None:
    faults.tell("payments.charge", "fail_for_good")

    for _ in range(5):
        with pytest.raises(ProviderRefused):
            charge()
    faults.forget()
    charge()

    assert charges() == (6, 1)


def test_it_loses_the_answer_after_the_work() -> None:
    faults.tell("payments.charge", Mode.LOSE_ANSWER)

    with pytest.raises(ProviderTimeout, match="no_answer"):
        charge()

    assert charges() == (1, 1)
    found = payments.find("key-1")
    assert found is not None
    assert charge() == found
    assert charges() == (2, 1)


def test_a_refusal_and_a_lost_answer_are_told_apart() -> None:
    # One proves that nothing was done, the other does not; a caller must not take one for the other.
    assert not issubclass(ProviderTimeout, ProviderRefused)
    assert issubclass(ProviderTimeout, ProviderError)


def test_it_hangs_before_the_work_where_a_kill_leaves_nothing_done() -> None:
    faults.tell("payments.charge", Mode.HANG, seconds=600)
    with start(
        "from shop.providers import payments;"
        f"payments.charge('key-1', order_id='{ORDER}', customer_id='c', amount='1.00', currency='EUR')"
    ) as process:
        try:
            deadline = time.monotonic() + 60
            # The file is all that shows from here how far the other process is.
            while charges() != (1, 0) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert charges() == (1, 0)
            assert process.poll() is None
        finally:
            process.kill()

    assert charges() == (1, 0)
    # The fault was used up by the process that is gone.
    charge()
    assert charges() == (2, 1)


def test_after_a_hang_it_does_the_work_and_answers() -> None:
    faults.tell("payments.charge", Mode.HANG, seconds=0.001)

    assert charge() == payments.find("key-1")


def test_a_fault_may_be_for_one_order_alone() -> None:
    faults.tell("payments.charge", Mode.FAIL_FOR_GOOD, order_id="order-2")

    charge()
    with pytest.raises(ProviderRefused):
        charge("key-2", "order-2")


def test_the_fault_of_an_order_comes_before_the_one_for_all() -> None:
    faults.tell("payments.charge", Mode.FAIL)
    faults.tell("payments.charge", Mode.LOSE_ANSWER, order_id=ORDER)

    with pytest.raises(ProviderTimeout):
        charge()
    with pytest.raises(ProviderRefused):
        charge()
    charge()


def test_an_undo_belongs_to_the_order_of_what_it_undoes() -> None:
    faults.tell("payments.refund", Mode.FAIL, order_id=ORDER)
    reference = charge()["charge"]
    other = charge("key-2", "order-2")["charge"]

    payments.refund("key-3", charge=other)
    with pytest.raises(ProviderRefused, match=r"payments\.refund"):
        payments.refund("key-4", charge=reference)


def test_a_new_fault_replaces_the_old_one() -> None:
    faults.tell("payments.charge", Mode.FAIL_FOR_GOOD)
    faults.tell("payments.charge", Mode.FAIL)

    with pytest.raises(ProviderRefused):
        charge()
    charge()


def test_a_lookup_can_fail_too() -> None:
    charge()
    faults.tell("payments.find", Mode.FAIL, order_id=ORDER)
    faults.tell("stock.find", Mode.LOSE_ANSWER)

    with pytest.raises(ProviderRefused):
        payments.find("key-1")
    with pytest.raises(ProviderTimeout):
        stock.find("key-1")
    assert payments.find("key-1") is not None
    assert mail.find("key-1") is None


@pytest.mark.parametrize(
    ("action", "mode", "numbers"),
    [
        ("payments.pay", "fail", {}),
        ("payments", "fail", {}),
        ("payments.charge", "explode", {}),
        ("payments.charge", "fail", {"times": 0}),
        ("payments.charge", "fail", {"seconds": 1}),
        ("payments.charge", "hang", {}),
        ("payments.charge", "hang", {"seconds": -1}),
    ],
)
def test_a_fault_that_could_never_show_is_refused(action: str, mode: str, numbers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is no action|is not a valid Mode|must be"):
        faults.tell(action, mode, **numbers)


def test_a_process_is_killed_once_at_its_crash_point() -> None:
    faults.kill_after_effect("charge")
    code = (
        "import sys; from shop import faults; print('ready', flush=True); sys.stdin.readline();"
        f"faults.crash_point('charge', order_id='{ORDER}'); print('alive')"
    )
    processes = [start(code), start(code)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        # Both at once: exactly one of them takes the row.
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()

    assert sorted(process.returncode for process in processes) == [-signal.SIGKILL, 0]
    assert sorted(answers) == ["", "alive\n"]
    faults.crash_point("charge", order_id=ORDER)


def test_a_crash_point_kills_no_other_step_and_no_other_order() -> None:
    faults.kill_after_effect("charge", order_id="order-2")

    # This process would not live to fail.
    faults.crash_point("charge", order_id=ORDER)
    faults.crash_point("notify", order_id="order-2")


def test_only_a_step_with_an_effect_can_be_killed_after_it() -> None:
    with pytest.raises(ValueError, match="charge, notify, reserve_inventory"):
        faults.kill_after_effect("validate")


def test_a_held_step_waits_until_it_is_released_and_others_pass() -> None:
    faults.hold("charge", order_id=ORDER)
    faults.start_point("charge", order_id="order-2")
    held = start(
        "from shop import faults; print('there', flush=True); "
        f"faults.start_point('charge', order_id='{ORDER}')"
    )
    try:
        assert held.stdout is not None
        assert held.stdout.readline() == "there\n"
        with pytest.raises(subprocess.TimeoutExpired):
            held.wait(timeout=0.5)
        faults.release("charge", order_id=ORDER)
        assert held.wait(timeout=30) == 0
    finally:
        held.kill()
        held.communicate()


def test_a_held_step_goes_on_by_itself_after_its_time() -> None:
    faults.hold("charge", order_id=ORDER, seconds=0.2)

    faults.start_point("charge", order_id=ORDER)


def test_what_cannot_be_held_is_refused() -> None:
    with pytest.raises(ValueError, match="no step that can be held"):
        faults.hold("validate", order_id=ORDER)
