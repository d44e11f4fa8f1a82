"""Steps with a retry budget, in the embedded engine: waits, failures, and what draws on nothing (row T4)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.clock import FixedClock
from louver.definition import Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.errors import LedgerUnavailable
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import RunKey
from louver.policies import Backoff, RetryPolicy
from louver.retry_budgets import parse_retry_budgets
from louver.signing import SigningKeys
from louver.states import RunState, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
API = {"api": 1}


class Killed(BaseException):
    """The process ends here."""


class Down:
    """A resource that is down for so many calls, and knows when it was called."""

    def __init__(self, clock: FixedClock, times: int, error: type[BaseException] = OSError) -> None:
        self.clock = clock
        self.times = times
        self.error = error
        self.called: list[float] = []

    def __call__(self) -> str:
        self.called.append((self.clock.now() - NOW).total_seconds())
        if len(self.called) <= self.times:
            raise self.error
        return "up"


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger("memory://") as opened:
        yield opened


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


def run(
    ledger: Ledger,
    clock: FixedClock,
    function: Any,
    budgets: str,
    *,
    run_id: str = "run-1",
    resources: dict[str, int] = API,
    **retry: Any,
) -> RunResult:
    policy = RetryPolicy(**{"max_attempts": 10} | retry)
    step = Step(name="call", task="work:call", retry=policy, resources=resources)
    return run_inline(
        Definition(name="work", version="1", nodes=[step]),
        {"call": function},
        ledger=ledger,
        clock=clock,
        run_id=run_id,
        retry_budgets=parse_retry_budgets(budgets),
    )


def reasons(ledger: Ledger, run_id: str = "run-1") -> list[str]:
    rows = ledger.list_transitions(RunKey("work", run_id))
    return [str(row.reason) for row in rows if row.to_state in (TaskState.RETRY_WAIT, TaskState.FAILED)]


def test_retries_wait_for_their_turn(ledger: Ledger, clock: FixedClock) -> None:
    api = Down(clock, 4)
    result = run(ledger, clock, api, '{"api": "2/min"}')
    assert (result.state, result.value) == (RunState.SUCCEEDED, "up")
    assert api.called == [0, 0, 0, 30, 60]
    assert reasons(ledger) == [
        "exception: OSError; attempt 1 of 10 failed; retry budget: api has 1 of 2/min left",
        "exception: OSError; attempt 2 of 10 failed; retry budget: api has 0 of 2/min left",
        "exception: OSError; attempt 3 of 10 failed; retry budget of api used up (2/min): put off by 30 s",
        "exception: OSError; attempt 4 of 10 failed; retry budget of api used up (2/min): put off by 30 s",
    ]


def test_the_longer_of_both_waits_counts(ledger: Ledger, clock: FixedClock) -> None:
    api = Down(clock, 3)
    run(ledger, clock, api, '{"api": "1/min"}', delay=timedelta(seconds=40), backoff=Backoff.EXPONENTIAL)
    # 40 s by the policy; 20 s more for the budget, but 80 s by the policy; then 160 s.
    assert api.called == [0, 40, 120, 280]


def test_the_budget_is_one_for_all_runs(ledger: Ledger, clock: FixedClock) -> None:
    for number in range(3):
        run(ledger, clock, Down(clock, 1), '{"api": "2/min"}', run_id=f"run-{number}")
    assert [reasons(ledger, f"run-{number}")[0].partition("; retry")[2] for number in range(3)] == [
        " budget: api has 1 of 2/min left",
        " budget: api has 0 of 2/min left",
        " budget of api used up (2/min): put off by 30 s",
    ]


def test_one_that_fails_when_empty_makes_the_failure_final(ledger: Ledger, clock: FixedClock) -> None:
    api = Down(clock, 9)
    result = run(ledger, clock, api, '{"api": {"rate": "2/min", "when_empty": "fail"}}')
    assert result.state is RunState.FAILED
    assert api.called == [0, 0, 0]
    assert reasons(ledger)[-1] == (
        "exception: OSError; attempt 3 of 10 failed; retry budget of api used up (2/min)"
    )


def test_max_delay_bounds_the_wait(ledger: Ledger, clock: FixedClock) -> None:
    api = Down(clock, 9)
    result = run(ledger, clock, api, '{"api": "1/h"}', max_delay=timedelta(minutes=5))
    assert result.state is RunState.FAILED
    assert api.called == [0, 0]
    assert reasons(ledger)[-1].endswith("used up (1/h): the next one is 3600 s away, max_delay is 300 s")


def test_attempts_bound_it_too_and_the_last_failure_takes_nothing(ledger: Ledger, clock: FixedClock) -> None:
    api = Down(clock, 9)
    assert run(ledger, clock, api, '{"api": "9/h"}', max_attempts=3).state is RunState.FAILED
    assert len(api.called) == 3
    assert [(row.drawn, row.refused) for row in ledger.list_retry_budgets()] == [(2, 0)]


@pytest.mark.parametrize(
    ("budgets", "resources"), [("", API), ('{"other": "1/h"}', API), ('{"api": "1/h"}', {})]
)
def test_without_a_budget_of_the_steps_resources_nothing_is_limited(
    ledger: Ledger, clock: FixedClock, budgets: str, resources: dict[str, int]
) -> None:
    api = Down(clock, 5)
    assert run(ledger, clock, api, budgets, resources=resources).state is RunState.SUCCEEDED
    assert api.called == [0] * 6
    assert ledger.list_retry_budgets() == []
    assert "budget" not in reasons(ledger)[0]


def test_a_fatal_error_draws_on_nothing(ledger: Ledger, clock: FixedClock) -> None:
    assert run(ledger, clock, Down(clock, 1), '{"api": "1/h"}', fatal=["OSError"]).state is RunState.FAILED
    assert ledger.list_retry_budgets() == []


def test_a_lost_process_draws_on_nothing(ledger: Ledger, clock: FixedClock) -> None:
    api = Down(clock, 1, error=Killed)
    with pytest.raises(Killed):
        run(ledger, clock, api, '{"api": "1/h"}')
    assert run(ledger, clock, api, '{"api": "1/h"}').state is RunState.SUCCEEDED
    assert len(api.called) == 2
    assert ledger.list_retry_budgets() == []


class Away(MemoryLedger):
    """A ledger that goes away just when the budget is asked."""

    def draw_retry(self, *args: Any, **kwargs: Any) -> Any:
        raise LedgerUnavailable("ledger: it is away")


def test_without_the_ledger_the_retry_is_made_uncounted(clock: FixedClock) -> None:
    api = Down(clock, 1)
    with Away(keys=SigningKeys.unsigned()) as ledger:
        result = run(ledger, clock, api, '{"api": {"rate": "1/h", "when_empty": "fail"}}')
        assert result.state is RunState.SUCCEEDED
        assert reasons(ledger) == [
            "exception: OSError; attempt 1 of 10 failed; its retry budget could not be asked"
        ]


def test_the_log_shows_the_figures(
    ledger: Ledger, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="louver")
    run(ledger, clock, Down(clock, 2), '{"api": "1/min"}')
    told = [(record.__dict__.get("action"), record.getMessage()) for record in caplog.records]
    assert [message.partition(": ")[2] for action, message in told if action == "budget.drawn"] == [
        "retry budget: api has 0 of 1/min left",
        "retry budget of api used up (1/min): put off by 60 s",
    ]
