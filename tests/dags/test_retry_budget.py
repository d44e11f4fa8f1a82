"""A step's resources in a real Airflow: retries that wait for their budget, and files of each attempt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import time_machine
from support.airflow_by_hand import AirflowByHand

from louver.definition import Definition
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.nodes import Step
from louver.policies import RetryPolicy
from louver.states import TaskState
from louver_provider.dag_builder import build_dag

SECOND = timedelta(seconds=1)

CALLING = Definition(
    name="calling",
    version="1",
    nodes=[
        Step(
            name="call",
            task="tests:call",
            retry=RetryPolicy(max_attempts=6, delay=2 * SECOND),
            resources={"payments-api": 1},
        )
    ],
)

LIVING: list[Callable[[Any], Any]] = []


def call(ctx: Any) -> Any:
    """What the step does: what the test says."""
    return LIVING[-1](ctx)


def down(ctx: Any) -> None:
    raise OSError


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    # In the past: SQLite's own clock, which the scheduler asks too, cannot be set.
    with (
        time_machine.travel(datetime(2026, 4, 1, 12, tzinfo=timezone.utc), tick=False) as clock,
        AirflowByHand.up(pass_time=clock.shift) as by_hand,
    ):
        by_hand.deploy(build_dag(CALLING, tasks={"tests:call": call}))
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    LIVING.clear()
    airflow.empty()


def begin(airflow: AirflowByHand, run_id: str) -> TaskKey:
    airflow.trigger("ann", RunKey("calling", run_id))
    return TaskKey("calling", run_id, "call")


def attempt(airflow: AirflowByHand, key: TaskKey) -> str:
    """The task's next attempt, which must be due."""
    airflow.pass_time(SECOND)
    airflow.schedule()
    airflow.schedule()
    return airflow.work(key)


def waits(airflow: AirflowByHand, key: TaskKey) -> timedelta:
    """How long Airflow waits before the next try."""
    row = airflow.task(key)
    if row is None or row.retry_delay_override is None:
        pytest.fail(f"{key} waits for no retry: {row}")
    return timedelta(seconds=row.retry_delay_override)


def reasons(ledger: Ledger, key: TaskKey) -> list[str]:
    rows = ledger.list_transitions(key.run)
    return [str(row.reason) for row in rows if row.to_state in (TaskState.RETRY_WAIT, TaskState.FAILED)]


def test_airflow_waits_as_long_as_the_budget_says(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RETRY_BUDGETS", '{"payments-api": "2/min"}')
    LIVING.append(down)
    keys = [begin(airflow, f"run-{number}") for number in range(4)]
    airflow.schedule()

    states = [attempt(airflow, key) for key in keys]

    assert states == ["up_for_retry"] * 4
    # Each comes a second after the one before it; the third has to wait for the first to be back at 30 s.
    assert [waits(airflow, key).total_seconds() for key in keys] == [2, 2, 28, 57]
    last = reasons(ledger, keys[3])
    assert last == [
        "exception: OSError; attempt 1 of 6 failed; "
        "retry budget of payments-api used up (2/min): put off by 57 s"
    ]

    airflow.pass_time(10 * SECOND)
    airflow.schedule()
    assert airflow.waiting() == keys[:2]
    airflow.pass_time(50 * SECOND)
    LIVING.append(lambda ctx: "up")
    airflow.schedule()
    assert airflow.waiting() == keys
    assert [airflow.work(key) for key in keys] == ["success"] * 4


def test_one_that_fails_when_empty_is_not_tried_again_by_airflow(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = '{"payments-api": {"rate": "1/h", "when_empty": "fail"}}'
    monkeypatch.setenv("AIRFLOW__LOUVER__RETRY_BUDGETS", budgets)
    LIVING.append(down)
    one, other = begin(airflow, "run-1"), begin(airflow, "run-2")

    assert [attempt(airflow, key) for key in (one, other)] == ["up_for_retry", "failed"]

    assert reasons(ledger, other) == [
        "exception: OSError; attempt 1 of 6 failed; retry budget of payments-api used up (1/h)"
    ]


def test_status_says_why_a_step_waits_and_stats_counts(
    airflow: AirflowByHand,
    ledger: Ledger,
    louver: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RETRY_BUDGETS", '{"payments-api": "1/min"}')
    LIVING.append(down)
    for key in (begin(airflow, "run-1"), begin(airflow, "run-2")):
        attempt(airflow, key)

    code, out, err = louver("status", "run-2", "--output", "json")
    assert (code, err) == (0, "")
    (step,) = json.loads(out)[0]["steps"]
    assert (step["state"], step["attempt"]) == ("retry_wait", 1)
    assert step["reason"].endswith("retry budget of payments-api used up (1/min): put off by 59 s")

    code, out, err = louver("stats", "--output", "json")
    counted = {row["state"]: int(row["count"]) for row in json.loads(out) if row["what"] == "retries"}
    assert counted == {"let through by payments-api (1/min)": 2, "refused by payments-api (1/min)": 0}


def test_each_attempt_has_a_directory_of_its_own(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__ARTIFACT_DIR", str(tmp_path / "artifacts"))
    seen: list[Path] = []

    def write(ctx: Any) -> str:
        seen.append(ctx.artifact_dir)
        (ctx.artifact_dir / "part").touch(exist_ok=False)
        if len(seen) == 1:
            raise OSError
        return str(ctx.artifact_dir)

    LIVING.append(write)
    key = begin(airflow, "manual__2026-04-01T12:00:00+00:00")
    assert attempt(airflow, key) == "up_for_retry"
    airflow.pass_time(2 * SECOND)
    assert attempt(airflow, key) == "success"

    assert [place.name for place in seen] == ["generation-1.attempt-1", "generation-1.attempt-2"]
    assert all(place.parents[3] == tmp_path / "artifacts" for place in seen)
    assert seen[0].parents[1].name.startswith("manual__2026-04-01T12_00_00_00_00~")
    assert ledger.load_result(key) == str(seen[1])
