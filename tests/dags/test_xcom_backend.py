"""What XCom shows of a step's result, what a reference leads to, and that other XComs are left alone."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import XComResult, XComSequenceSliceResult

from louver.closing import OUTCOME
from louver.definition import Definition, Step
from louver.errors import IntegrityError, LedgerUnavailable
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.sessions import Change, Claim
from louver.states import Source, TaskState
from louver.steps import run_start
from louver_provider import current, settings
from louver_provider.hooks import ledger as hook
from louver_provider.xcom.backend import LouverXCom
from louver_provider.xcom.references import REFERENCE, SHOWN

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
KIB = 1024
KEY = TaskKey("orders", "r1", "one")
ODD = timezone(timedelta(hours=5, minutes=45, seconds=17))


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setattr(settings, "AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setattr(hook, "_LEDGERS", {})
    monkeypatch.setattr(current, "_LIVING", [])
    opened = hook.get_ledger()
    yield opened
    opened.close()


@pytest.fixture
def broken_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, no process of this Airflow finds its ledger."""
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "sqlite:////nowhere/at/all/louver.db")
    monkeypatch.setattr(hook, "_LEDGERS", {})


def succeed(ledger: Ledger, value: Any, key: TaskKey = KEY, *, try_number: int = 1) -> None:
    """A step that succeeded with the value, in the process that is about to push it."""
    definition = Definition(name="orders", version="1", nodes=[Step(name="one", task="json:dumps")])
    ledger.open_run(run_start(definition, RunKey("orders", key.run_id)), now=NOW)
    claim = Claim(try_number=try_number, max_tries=1 + try_number, process="p", source=Source.WORKER)
    token = ledger.open_task(key, claim, now=NOW).token
    ledger.advance(token, Change(to=TaskState.RUNNING, trigger="executor:launched"), now=NOW)
    ledger.complete(token, Change(to=TaskState.SUCCEEDED, trigger="runtime:completed"), value, now=NOW)
    current.remember_step(key)


def pushed(value: Any, key: TaskKey = KEY) -> Any:
    """What goes into the row, after the way through JSON that every row takes."""
    row = LouverXCom.serialize_value(value, key="return_value", **ids(key))
    return json.loads(json.dumps(row))


def ids(key: TaskKey) -> dict[str, Any]:
    return {
        "dag_id": key.dag_id,
        "run_id": key.run_id,
        "task_id": key.task_id,
        "map_index": key.map_index,
    }


def pulled(row: Any) -> Any:
    return LouverXCom.deserialize_value(SimpleNamespace(value=row))


def stored(ledger: Ledger, value: Any, key: TaskKey = KEY) -> Any:
    """The row of a step that succeeded with the value."""
    succeed(ledger, value, key)
    return pushed(value, key)


@pytest.mark.parametrize(
    "value",
    [
        {"amount": "129.90", "items": [1, 2.5, None, True]},
        "text",
        '\u00fc\N{SNOWMAN}\U0001f40d\n"quoted"',
        [],
        {},
        0,
        False,
        {"rate": 1.0},
        2**53 - 1,
        [0.1 + 0.2],
        deep(60),
    ],
    ids=repr,
)
def test_small_plain_values_stand_in_the_row(value: Any, ledger: Ledger) -> None:
    row = stored(ledger, value)
    assert row == BaseXCom.serialize_value(value)
    assert pulled(row) == value
    assert type(pulled(row)) is type(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"price": Decimal("1.10")}, {"price": "1.10"}),
        ((1, (2, "b")), [1, [2, "b"]]),
        ({3, 1, 2}, [1, 2, 3]),
        (datetime(2026, 3, 1, 12, 30, tzinfo=ODD), "2026-03-01T12:30:00+05:45:17"),
        (date(2026, 3, 1), "2026-03-01"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (b"\x00\xff", "00 ff"),
        (b"x" * 65, "65 bytes"),
        # A bare float, in a JSON column of SQLite's.
        (1.0, 1.0),
        (0.1 + 0.2, 0.1 + 0.2),
        # What a jsonb column refuses or changes.
        ("a\0b", "a\\0b"),
        ({"a\0b": None}, {"a\\0b": None}),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (5e-324, "5e-324"),
        # What a browser, or a message to the supervisor, cannot hold.
        (2**53 + 1, "9007199254740993"),
        (-(2**70), "-1180591620717411303424"),
        # What Airflow's serializers would take for their own.
        (
            {"__classname__": "builtins.int", "__version__": 1},
            [["__classname__", "builtins.int"], ["__version__", 1]],
        ),
        ({"__type": "dict", "__var": {"a": 1}}, [["__type", "dict"], ["__var", {"a": 1}]]),
        ([{REFERENCE: {}}], [[[REFERENCE, {}]]]),
        ({REFERENCE: {"dag_id": "orders"}}, [[REFERENCE, {"dag_id": "orders"}]]),
    ],
    ids=repr,
)
def test_other_small_values_are_shown_beside_a_reference_that_leads_to_them(
    value: Any, shown: Any, ledger: Ledger
) -> None:
    row = stored(ledger, value)
    assert row[SHOWN] == shown
    assert pulled(row) == value
    assert repr(pulled(row)) == repr(value)


@pytest.mark.parametrize(
    "value", ["x" * (32 * KIB), deep(150), list(range(20_000))], ids=["text", "deep", "list"]
)
def test_of_large_values_the_row_says_what_and_how_much(value: Any, ledger: Ledger) -> None:
    row = stored(ledger, value)
    assert set(row) == {SHOWN, REFERENCE}
    assert len(json.dumps(row)) < 2 * KIB
    assert pulled(row) == value


def test_a_value_ends_to_be_small_at_the_limit(ledger: Ledger) -> None:
    # Two bytes are the quotes.
    assert isinstance(stored(ledger, "x" * (32 * KIB - 2)), str)
    row = pushed("x" * (32 * KIB - 1))
    assert row[SHOWN] == f"str of {32 * KIB + 1} bytes, kept in Louver's ledger"
    assert isinstance(pushed("\u00fc" * (16 * KIB - 1)), str)
    assert isinstance(pushed("\u00fc" * (16 * KIB)), dict)


def test_the_limit_is_a_setting_and_at_zero_no_value_is_shown(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__XCOM_INLINE_BYTES", "0")
    row = stored(ledger, "customer-77")
    assert "customer-77" not in json.dumps(row)
    assert pulled(row) == "customer-77"


def test_the_outcome_of_a_run_stands_for_itself(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__XCOM_INLINE_BYTES", "0")
    outcome = TaskKey("orders", "r1", OUTCOME)
    current.remember_step(outcome)
    assert pushed({"state": "succeeded"}, outcome) == {"state": "succeeded"}


def changed(row: Any, **facts: Any) -> Any:
    other = copy.deepcopy(row)
    other[REFERENCE].update(facts)
    return other


@pytest.mark.parametrize(
    "facts",
    [
        {"dag_id": "others"},
        {"run_id": "r2"},
        {"task_id": "two"},
        {"map_index": 0},
        {"type": "str"},
        {"bytes": 1},
        {"fingerprint": "0" * 64},
        {"signature": "0" * 64},
        {"signature": "\ud800"},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_a_changed_reference_is_refused(facts: dict[str, Any], ledger: Ledger) -> None:
    row = changed(stored(ledger, (1, 2)), **facts)
    with pytest.raises(IntegrityError, match="was changed"):
        pulled(row)


@pytest.mark.parametrize(
    "reference",
    [None, {}, [], "orders/r1/one", {"dag_id": "orders", "run_id": "r1", "task_id": "one", "map_index": -1}],
    ids=repr,
)
def test_what_only_looks_like_a_reference_is_refused(reference: Any, ledger: Ledger) -> None:
    with pytest.raises(IntegrityError, match="never wrote it"):
        pulled({REFERENCE: reference})


@pytest.mark.parametrize(
    "facts",
    [{"bytes": 2**60}, {"run_id": "\ud800"}, {"map_index": True}, {"more": 1}],
    ids=lambda facts: next(iter(facts)),
)
def test_facts_that_nobody_can_have_signed_are_refused(facts: dict[str, Any], ledger: Ledger) -> None:
    row = changed(stored(ledger, (1, 2)), **facts)
    with pytest.raises(IntegrityError, match="never wrote it"):
        pulled(row)


def test_a_reference_cannot_call_itself_unsigned(ledger: Ledger) -> None:
    row = changed(stored(ledger, (1, 2)), signed_by="-")
    with pytest.raises(IntegrityError, match="'-', which is not configured"):
        pulled(row)


def test_what_is_shown_decides_nothing(ledger: Ledger) -> None:
    row = stored(ledger, (1, 2))
    assert pulled({**row, SHOWN: "something else"}) == (1, 2)


def test_a_reference_signed_with_an_unknown_key_is_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = stored(ledger, (1, 2))
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", "other:0123456789abcdef0123")
    with pytest.raises(IntegrityError, match="'home-1', which is not configured"):
        pulled(row)


def test_rotated_keys_keep_old_references_readable(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    row = stored(ledger, (1, 2))
    old = (settings.airflow_home() / settings.KEY_FILE).read_text().strip()
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", f"new:0123456789abcdef0123,{old}")
    monkeypatch.setattr(hook, "_LEDGERS", {})
    assert pulled(row) == (1, 2)
    assert pushed((1, 2))[REFERENCE]["signed_by"] == "new"


class Supervisor:
    """Answers a task process from rows, as the supervisor does from Airflow's API."""

    def __init__(self, *rows: Any) -> None:
        self._rows = list(rows)

    def send(self, msg: Any) -> Any:
        if "Slice" in type(msg).__name__:
            return XComSequenceSliceResult(root=self._rows)
        return XComResult(key="return_value", value=self._rows[0] if self._rows else None)

    async def asend(self, msg: Any) -> Any:
        return self.send(msg)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def serve_rows(*rows: Any) -> None:
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(*rows), raising=False)

    return serve_rows


ASK: dict[str, Callable[..., Any]] = {
    "get_one": lambda **asked: LouverXCom.get_one(**asked),
    "aget_one": lambda **asked: asyncio.run(LouverXCom.aget_one(**asked)),
    "get_all": lambda **asked: LouverXCom.get_all(**asked)[0],
    "aget_all": lambda **asked: asyncio.run(LouverXCom.aget_all(**asked))[0],
}


def asked(**other: Any) -> dict[str, Any]:
    return {"key": "return_value", "dag_id": "orders", "run_id": "r1", "task_id": "one", **other}


@pytest.mark.parametrize("name", ["aget_one", "aget_all"])
def test_a_coroutine_that_reads_the_ledger_lets_others_go_on(
    name: str, ledger: Ledger, serve: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A triggerer has one event loop for all that wait there."""
    serve(stored(ledger, (1, 2)))
    began, went_on = threading.Event(), threading.Event()

    def slow() -> Ledger:
        began.set()
        assert went_on.wait(10), "nobody else came to anything"
        return ledger

    monkeypatch.setattr("louver_provider.xcom.backend.get_ledger", slow)

    async def other() -> None:
        while not began.is_set():
            await asyncio.sleep(0)
        went_on.set()

    async def both() -> Any:
        found, _ = await asyncio.gather(getattr(LouverXCom, name)(**asked()), other())
        return found

    found = asyncio.run(both())
    assert found == ((1, 2) if name == "aget_one" else [(1, 2)])


@pytest.mark.parametrize("name", ["aget_one", "aget_all"])
def test_a_coroutine_finds_no_row_and_plain_values_too(
    name: str, ledger: Ledger, serve: Callable[..., None]
) -> None:
    serve()
    assert asyncio.run(getattr(LouverXCom, name)(**asked())) is None
    serve(stored(ledger, {"a": 1}))
    assert ASK[name](**asked()) == {"a": 1}


@pytest.mark.parametrize("name", ASK)
def test_a_reference_is_good_where_it_was_put(name: str, ledger: Ledger, serve: Callable[..., None]) -> None:
    serve(stored(ledger, (1, 2)))
    assert ASK[name](**asked()) == (1, 2)


@pytest.mark.parametrize("name", ASK)
@pytest.mark.parametrize("field", ["dag_id", "run_id", "task_id"])
def test_a_reference_copied_to_another_place_is_refused(
    name: str, field: str, ledger: Ledger, serve: Callable[..., None]
) -> None:
    serve(stored(ledger, (1, 2)))
    with pytest.raises(IntegrityError, match=rf"\({field} differ\)"):
        ASK[name](**asked(**{field: "other"}))


def test_a_reference_copied_to_another_map_index_is_refused(
    ledger: Ledger, serve: Callable[..., None]
) -> None:
    serve(stored(ledger, (1, 2)))
    with pytest.raises(IntegrityError, match="map_index"):
        LouverXCom.get_one(**asked(map_index=3))


def test_an_earlier_run_may_be_asked_for(ledger: Ledger, serve: Callable[..., None]) -> None:
    serve(stored(ledger, (1, 2)))
    assert LouverXCom.get_one(**asked(run_id="r7", include_prior_dates=True)) == (1, 2)
    with pytest.raises(IntegrityError, match="task_id"):
        LouverXCom.get_one(**asked(run_id="r7", task_id="two", include_prior_dates=True))


def test_no_row_is_no_value(ledger: Ledger, serve: Callable[..., None]) -> None:
    serve()
    assert LouverXCom.get_one(**asked()) is None


def test_items_read_one_by_one_are_of_the_same_run(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    row = stored(ledger, (1, 2))
    for run_id in ("r1", "r2"):
        context = {"ti": SimpleNamespace(dag_id="orders", run_id=run_id)}
        monkeypatch.setattr("louver_provider.xcom.backend.get_current_context", lambda found=context: found)
        if run_id == "r1":
            assert pulled(row) == (1, 2)
        else:
            with pytest.raises(IntegrityError, match="run_id"):
                pulled(row)


def test_a_result_that_was_recorded_anew_is_not_taken_for_the_old_one(ledger: Ledger) -> None:
    row = stored(ledger, (1, 2))
    succeed(ledger, (3, 4), try_number=2)
    with pytest.raises(IntegrityError, match="is another than the one that an XCom refers to; clear"):
        pulled(row)


def test_a_lost_result_is_named_with_the_way_out(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    row = stored(ledger, (1, 2))
    (settings.airflow_home() / "empty").mkdir()
    monkeypatch.setenv(
        "AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{settings.airflow_home() / 'empty' / 'louver.db'}"
    )
    monkeypatch.setattr(hook, "_LEDGERS", {})
    with pytest.raises(IntegrityError, match=r"orders/r1/one.*restore the ledger.*or clear one"):
        pulled(row)
    hook.get_ledger().close()


def test_without_a_ledger_what_is_committed_can_still_be_pushed(ledger: Ledger, broken_ledger: None) -> None:
    succeed(ledger, (1, 2))
    assert set(pushed((1, 2))) == {SHOWN, REFERENCE}
    assert pushed([1, 2]) == [1, 2]


def test_without_a_ledger_a_reference_is_an_error_and_a_plain_value_is_none(
    ledger: Ledger, broken_ledger: None
) -> None:
    row = stored(ledger, (1, 2))
    with pytest.raises(LedgerUnavailable, match="/nowhere/at/all"):
        pulled(row)
    assert pulled([1, 2]) == [1, 2]


OTHERS: list[Any] = ["x" * 40_000, (1, 2), {"at": NOW}, {"price": Decimal(1)}, {"a": "b\0"}, None]


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_other_dags_xcoms_are_untouched(value: Any, ledger: Ledger, broken_ledger: None) -> None:
    current.remember_step(TaskKey("elsewhere", "r1", "one"))
    row = LouverXCom.serialize_value(value, key="return_value", **ids(KEY))
    assert row == BaseXCom.serialize_value(value)
    assert pulled(row) == value


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_other_keys_of_a_louver_step_are_untouched(value: Any, ledger: Ledger) -> None:
    succeed(ledger, 1)
    assert LouverXCom.serialize_value(value, key="note", **ids(KEY)) == BaseXCom.serialize_value(value)


def test_other_dags_need_no_setting_of_louvers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__XCOM_INLINE_BYTES", "lots")
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", "broken")
    monkeypatch.setattr(current, "_LIVING", [])
    assert pulled(LouverXCom.serialize_value([1], key="return_value", **ids(KEY))) == [1]
