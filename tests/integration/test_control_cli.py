"""Pause, resume and stop on a real Airflow, by the commands and by the web UI's own way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.airflow_control import Control, controlled

from shop import faults

pytestmark = pytest.mark.integration

# Around the park: before it landed, as it lands (a running step looks every second), and up to long after it.
GAPS = (0.0, 0.6, 0.9, 1.1, 1.3, 2.0, 3.2)


@pytest.fixture(scope="module")
def gaps() -> tuple[float, ...]:
    return GAPS


@pytest.fixture(scope="module")
def control(airflow) -> Iterator[Control]:
    with controlled(airflow) as found:
        yield found


def test_a_paused_step_gives_its_slot_to_another_and_goes_on_where_it_was(control) -> None:
    run_id = control.start("sharing", rows=300, seconds=0.1)
    control.await_rows(run_id, 5)
    assert control.state("sharing", run_id, "other") in (None, "scheduled")

    code, rows = control.louver("pause", run_id, "work", "--reason", "month end")
    assert (code, rows[0]["became"], rows[0]["state"]) == (0, "done", "paused")
    assert rows[0]["detail"] == "paused, slot given back"
    control.await_state("sharing", run_id, "awaiting_input")
    control.await_state("sharing", run_id, "success", "other")
    done = control.rows(run_id)
    assert 5 <= len(done) < 300

    assert control.one("pause", run_id, "work") == (1, "refused", "paused")
    code, found = control.louver("ps", "--dag-id", "sharing")
    (row,) = [row for row in found if row["run_id"] == run_id]
    assert (row["step"], row["waits_for"], row["progress"]) == ("work", "resume", f"{len(done)}/300 rows")
    code, (status,) = control.louver("status", run_id)
    assert (code, status["state"], status["dag_paused_in_airflow"]) == (0, "paused", False)
    assert [(pause["step"], pause["reason"], pause["slot"]) for pause in status["pauses"]] == [
        ("work", "month end", "given back")
    ]
    assert control.rows(run_id) == done

    control.hurry(run_id)
    assert control.one("resume", run_id, "work")[:2] == (0, "done")
    assert control.ended("sharing", run_id) == "success"
    assert control.rows(run_id) == list(range(300))
    assert control.one("resume", run_id, "work") == (1, "refused", "succeeded")
    assert [row["attempt"] for row in control.trail(run_id) if row["to"] == "succeeded"] == ["1"]


def test_people_resume_a_paused_step_under_required_actions(control) -> None:
    run_id = control.start("counting", rows=300, seconds=0.1)
    control.await_rows(run_id, 3)
    assert control.one("pause", run_id, "work")[:2] == (0, "done")
    control.await_state("counting", run_id, "awaiting_input")
    question = control.rest.question("counting", run_id, "work")
    assert question["options"] == ["Resume", "Stop"]

    control.hurry(run_id)
    control.rest.answer("counting", run_id, "work", "Resume").expect(200)

    assert control.ended("counting", run_id) == "success"
    assert control.rows(run_id) == list(range(300))
    (resumed,) = [row for row in control.trail(run_id) if row["trigger"] == "user:resume"]
    assert resumed["actor"] == "admin"


def test_a_paused_step_that_is_cleared_stays_paused_until_somebody_resumes_it(control) -> None:
    run_id = control.start("counting", rows=300, seconds=0.1)
    control.await_rows(run_id, 3)
    assert control.one("pause", run_id, "work", "--reason", "month end")[:2] == (0, "done")
    control.await_state("counting", run_id, "awaiting_input")
    before = control.rows(run_id)

    control.clear("counting", run_id)

    def pauses() -> list[dict[str, Any]]:
        return [row for row in control.trail(run_id) if row["to"] == "paused"]

    control.home.wait_for("the second pause", lambda: len(pauses()) == 2, timeout=90)
    control.await_state("counting", run_id, "awaiting_input")
    again = pauses()[1]
    assert (again["trigger"], again["reason"]) == ("user:pause", "month end")
    assert control.rows(run_id) == before
    assert control.rest.question("counting", run_id, "work")["options"] == ["Resume", "Stop"]

    control.hurry(run_id)
    assert control.one("resume", run_id, "work")[:2] == (0, "done")
    assert control.ended("counting", run_id) == "success"
    # Cleared, it begins with no state.
    assert control.rows(run_id) == [*before, *range(300)]


def test_a_step_without_a_checkpoint_pauses_in_place(control) -> None:
    run_id = control.start("ticking", rows=300, seconds=0.1)
    control.await_rows(run_id, 3)

    code, (row, later) = control.louver("pause", run_id)
    assert (code, row["became"], row["detail"]) == (0, "done", "paused in place")
    assert (later["step"], later["became"]) == ("finish", "recorded")
    assert control.state("ticking", run_id) == "running"
    code, rows = control.louver("resume", run_id)
    assert (code, [row["became"] for row in rows]) == (0, ["done", "taken_back"])

    control.hurry(run_id)
    assert control.ended("ticking", run_id) == "success"
    assert control.rows(run_id) == list(range(300))


def test_a_step_is_stopped_while_it_runs_while_it_is_parked_and_before_it_starts(control) -> None:
    running, parked, early = (control.start("counting", rows=300, seconds=0.1) for _ in range(3))
    for run_id in (running, parked, early):
        control.await_rows(run_id, 2)

    assert control.one("stop", early, "finish") == (0, "recorded", "pending")
    assert control.one("pause", parked, "work")[1:] == ("done", "paused")
    assert control.one("stop", running, "work", "--wait", "--reason", "enough") == (0, "done", "stopped")
    assert control.one("stop", parked, "work", "--wait") == (0, "done", "stopped")
    assert control.one("stop", running, "work") == (1, "refused", "stopped")

    control.hurry(early)
    for run_id in (running, parked, early):
        assert control.ended("counting", run_id) == "failed"
    assert control.rows(early) == list(range(300))
    assert len(control.rows(running)) < 300
    last = control.trail(running)[-1]
    assert (last["to"], last["trigger"], last["reason"]) == ("stopped", "runtime:stop_confirmed", "enough")
    assert [row["to"] for row in control.trail(early, "finish")] == ["queued", "starting", "stopped"]
    code, (status,) = control.louver("status", running)
    assert (code, status["state"]) == (3, "stopped")
    code, (said,) = control.louver("stop", running)
    assert code == 1
    assert "every step" in said["said"]


def test_stopping_a_run_ends_its_request_for_approval(control) -> None:
    run_id = control.start("asking")
    control.await_state("asking", run_id, "awaiting_input", "ask")
    code, found = control.louver("approvals", run_id)
    assert [(row["of"], row["decision"], row["allowed"]) for row in found] == [
        ("pay", "pending", ["anybody"])
    ]

    code, rows = control.louver("stop", run_id)

    asked, waiting = (row["became"] for row in rows)
    # Whether the step has ended by the time the command tells of it is a race that both may win.
    assert (code, asked in ("delivered", "done"), waiting) == (0, True, "recorded")
    assert control.ended("asking", run_id) == "failed"
    code, found = control.louver("approvals", run_id, "--all")
    assert [row["decision"] for row in found] == ["void"]
    assert control.louver("approvals", run_id)[1] == []


def test_a_run_that_airflow_has_not_started_can_be_paused(control) -> None:
    def switch(paused: bool) -> None:
        control.rest.request("PATCH", "/api/v2/dags/counting", {"is_paused": paused}).expect(200)

    switch(True)
    try:
        run_id = control.start("counting", rows=3, seconds=0.0)
        code, rows = control.louver("pause", run_id)
        assert (code, [(row["step"], row["became"]) for row in rows]) == (
            0,
            [("work", "recorded"), ("finish", "recorded")],
        )
        code, (status,) = control.louver("status", run_id)
        assert (code, status["dag_paused_in_airflow"]) == (0, True)
        assert [command["command"] for command in status["commands"]] == ["pause", "pause"]
    finally:
        switch(False)

    control.await_state("counting", run_id, "awaiting_input")
    assert control.rows(run_id) == []
    assert {row["became"] for row in control.louver("resume", run_id)[1]} == {"done", "taken_back"}
    assert control.ended("counting", run_id) == "success"


def test_resumes_at_every_moment_around_the_park_never_strand_a_step(control, gaps) -> None:
    # As many as it takes to come to the last gap on a slow machine.
    rows = 300 * len(gaps)
    run_ids = [control.start("counting", rows=rows, seconds=0.1) for _ in range(3)]
    for run_id in run_ids:
        control.await_rows(run_id, 1)

    told, answers = control.hammer(run_ids, gaps)

    assert len(told) == 2 * len(gaps) * len(run_ids)
    assert {reply["became"] for reply in told} <= {"done", "taken_back", "refused"}, told
    assert answers[200] > 0
    assert set(answers) <= {200, 404, 409}
    control.hurry(*run_ids)
    for run_id in run_ids:
        assert control.ended("counting", run_id) == "success"
        assert control.rows(run_id) == list(range(rows))
        assert control.rest.task("counting", run_id, "work")["try_number"] == 1


def test_the_history_of_a_run_puts_ledger_and_airflow_on_one_clock(control) -> None:
    run_id = control.start("counting", rows=3, seconds=0.0)
    assert control.ended("counting", run_id) == "success"

    code, rows = control.louver("history", run_id)

    assert code == 0, rows
    run = control.rest.run("counting", run_id)
    times = [moment(row["at"]) for row in rows]
    assert times == sorted(times)
    assert moment(run["queued_at"]) <= times[0]
    assert times[-1] <= moment(run["end_date"])
    work = [row for row in rows if row["step"] == "work"]
    assert [row["to"] for row in work if row["recorded_by"]] == ["queued", "starting", "running", "succeeded"]
    both = [row for row in work if row["airflow_at"] and row["recorded_at"]]
    apart = [abs(moment(row["airflow_at"]) - moment(row["recorded_at"])) for row in both]
    assert apart
    assert max(apart) < timedelta(minutes=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_what_could_not_be_undone_is_retried_and_settled_by_a_person(control, orders) -> None:
    names = ("order-retried", "order-settled")
    for name in names:
        faults.tell("stock.release", "fail_for_good", order_id=name)
    retried, settled = (
        orders.rest.trigger("order_workflow", {"event": orders.event(name)}, run_id=name)
        for name in ("retried", "settled")
    )
    for run_id in (retried, settled):
        orders.answered(run_id, "Reject")
        assert orders.ended(run_id) == "failed"
    code, waiting = control.louver("compensations", "list")
    assert code == 0
    assert {"reserve:order-retried#1", "reserve:order-settled#1"} <= {row["effect"] for row in waiting}

    faults.tell("stock.release", "fail", order_id="order-retried")
    code, rows = control.louver("compensations", "retry", retried, "--reason", "the stock answers again")
    assert (code, [row["task_id"] for row in rows]) == (0, ["compensate", "outcome"])
    note = ["--note", "put back by hand"]
    code, rows = control.louver("compensations", "resolve", "reserve:order-settled", *note)
    assert (code, rows[0]["state"], rows[0]["run_state"]) == (0, "undone", "failed_compensated")

    assert orders.ended(retried) == "failed"
    for run_id, trigger in ((retried, "user:retried"), (settled, "user:settled")):
        assert orders.status(run_id)["state"] == "failed_compensated"
        (row,) = [row for row in control.trail(run_id, "reserve_inventory") if row["trigger"] == trigger]
        assert (row["source"], row["from"]) == ("cli", row["to"])
        assert control.louver("verify", run_id)[0] == 0
    assert control.louver("compensations", "resolve", "reserve:order-settled", *note)[0] == 1
