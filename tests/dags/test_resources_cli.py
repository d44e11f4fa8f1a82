"""``airflow louver resources``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import time_machine

from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Token
from louver.ledger.records import PermitRecord
from louver.nodes import Step
from louver.sessions import Claim
from louver.states import Source
from louver.steps import run_start
from louver_provider.settings import load_settings

Louver = Callable[..., tuple[int, str, str]]
Rows = Callable[..., list[dict[str, Any]]]

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
WORK = Definition(name="work", version="1", nodes=[Step(name="one", task="json:dumps")])


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCES", '{"api": {"limit": 2, "rate": "50/min"}, "other": 1}')


def take(ledger: Ledger, run_id: str, *, now: datetime = NOW, units: int = 1) -> PermitRecord | None:
    run = RunKey("work", run_id)
    ledger.open_run(run_start(WORK, run), now=now)
    claim = Claim(try_number=1, max_tries=1, process="host:1:1", source=Source.WORKER)
    token: Token = ledger.open_task(TaskKey("work", run_id, "one"), claim, now=now).token
    permits = load_settings().permits
    return ledger.take_permit(
        token, {"api": units}, limits=permits.limits, priority=1, terms=permits.terms, now=now
    )


def test_the_list_shows_limits_use_who_waits_and_tags(
    ledger: Ledger, rows_of: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESOURCE_TAGS", "payments=api:2, shop=api")
    take(ledger, "run-1", units=2)
    take(ledger, "run-2")
    with time_machine.travel(NOW + timedelta(seconds=30), tick=False):
        api, other = rows_of("resources")

    assert api == {
        "resource": "api",
        "limit": "2",
        "rate": "50/min",
        "set_by": "configuration",
        "tags": "payments, shop",
        "in_use": "2",
        "waiting": "1",
        "oldest_wait": "30s",
    }
    assert [other[name] for name in ("resource", "limit", "in_use", "tags")] == ["other", "1", "0", None]


def test_the_permits_stand_in_the_order_in_which_they_are_served(ledger: Ledger, rows_of: Rows) -> None:
    for number, units in enumerate((2, 1, 1)):
        take(ledger, f"run-{number}", units=units)
    with time_machine.travel(NOW + timedelta(seconds=30), tick=False):
        found = rows_of("resources", "permits", "api")

    assert [(row["run_id"], row["stage"], row["units"]) for row in found] == [
        ("run-0", "held", "2"),
        ("run-1", "waiting", "1"),
        ("run-2", "waiting", "1"),
    ]
    assert found[0]["until"] == "2026-03-01T12:01:00.000000Z"


def test_set_holds_at_once_and_unset_brings_back_what_is_configured(ledger: Ledger, rows_of: Rows) -> None:
    with time_machine.travel(NOW, tick=False):
        take(ledger, "run-1", units=2)
        waiting = take(ledger, "run-2")
        assert waiting is not None

        (row,) = rows_of("resources", "set", "api", "--limit", "3")
        assert (row["limit"], row["rate"], row["in_use"], row["waiting"]) == ("3", None, "3", "0")
        assert row["set_by"] not in (None, "configuration")

        (row,) = rows_of("resources", "unset", "api")
        assert (row["limit"], row["rate"], row["set_by"]) == ("2", "50/min", "configuration")


def test_between_what_was_set_and_what_is_configured_nobody_slips_in(ledger: Ledger, rows_of: Rows) -> None:
    with time_machine.travel(NOW, tick=False):
        rows_of("resources", "set", "api", "--limit", "0")
        for number in range(5):
            take(ledger, f"run-{number}")

        (row,) = rows_of("resources", "unset", "api")

        assert (row["limit"], row["in_use"], row["waiting"]) == ("2", "2", "3")


def test_a_resource_is_closed_and_opened_again(ledger: Ledger, rows_of: Rows) -> None:
    with time_machine.travel(NOW, tick=False):
        rows_of("resources", "set", "api", "--limit", "0")
        take(ledger, "run-1")
        (row,) = rows_of("resources", "list", "api")
        assert (row["in_use"], row["waiting"]) == ("0", "1")
        (row,) = rows_of("resources", "set", "api", "--limit", "1", "--rate", "5/s")
        assert (row["in_use"], row["waiting"], row["rate"]) == ("1", "0", "5/s")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["set"], 2, "set needs the name of a resource"),
        (["set", "api"], 2, "set needs --limit, --rate, or both"),
        (["set", "a b", "--limit", "1"], 1, "'a b' cannot be a resource"),
        (["set", "api", "--limit", "-1"], 1, "api: limit must be a whole number from 0 to 1000000"),
        (["set", "api", "--rate", "5"], 1, "api: '5' is no rate"),
        (["list", "--limit", "1"], 2, "--limit and --rate belong to set"),
        (["unset", "unknown"], 1, "nothing is set for 'unknown'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    ledger: Ledger, louver: Louver, arguments: list[str], code: int, words: str
) -> None:
    found, out, err = louver("resources", *arguments)
    assert (found, out) == (code, "")
    assert words in err
