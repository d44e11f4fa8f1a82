"""
Answers and triggers on their way through the whole API server: whom Louver's guards speak to, and whose tasks
and spellings they know. Airflow's own routes, auth manager and tables; what a person sends is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
import pytest
from airflow.models.hitl import HITLDetail
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, task
from airflow.utils.session import create_session
from sqlalchemy import text, update
from support.airflow_by_hand import AirflowByHand, TestClient, create_app
from support.bucketed import bucketed
from support.story import MINUTE, Story, act, now, stage

from louver.definition import ApprovalNode, Definition, Step
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.steps import run_start
from louver_provider.dag_builder import build_dag
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.task_control import TaskControl

SECRET = "zq7marker"

GUARDED = Definition(
    name="guarded",
    version="1",
    nodes=[
        ApprovalNode(name="ask", of="pay", payload="tests:intent"),
        Step(name="pay", task="tests:act", after=["ask"], approval="ask"),
    ],
)


def intent() -> dict[str, str]:
    """What is to be approved."""
    return {"note": SECRET}


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    with DAG(dag_id="stock_asking", schedule=None) as stock:
        ApprovalOperator(task_id="ask", subject="May it?")
    with DAG(dag_id="plain_steps", schedule=None) as plain:
        task.step(task_id="ask")(lambda: None)()
        task.step(task_id="each")(lambda one: one).expand(one=[1, 2])
    guarded = build_dag(GUARDED, tasks={"tests:act": act, "tests:intent": intent})
    with stage(guarded, stock, plain) as by_hand:
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    airflow.empty()


class Asked(Story):
    """A run whose ``ask`` waits for an answer."""

    def park(self) -> None:
        """It asks; a minute later Airflow has seen the process end."""
        self.work("ask")
        self.pass_time(MINUTE)
        self.airflow.schedule()

    def answer(
        self, option: str = "Approve", *, index: str = "-1", end: str = "", token: str | None = None
    ) -> httpx.Response:
        """What somebody sends, without the id of the request."""
        path = f"/api/v2/dags/{self.run.dag_id}/dagRuns/{self.run.run_id}/taskInstances/ask/{index}"
        given = self.airflow.token("cid") if token is None else token
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        body = {"chosen_options": [option]}
        return self.airflow.web.patch(f"{path}/hitlDetails{end}", json=body, headers=headers)


@pytest.fixture
def decided(airflow: AirflowByHand, ledger: Ledger) -> Asked:
    """An approval that was given."""
    story = Asked(airflow, ledger, "guarded")
    story.park()
    assert story.answer().status_code == 200
    story.finish()
    return story


# Whom they speak to


@pytest.mark.parametrize(
    ("sender", "status"), [("nobody", 401), ("nonsense", 403), ("viewer", 403), ("expired", 401)]
)
def test_who_may_not_answer_learns_nothing_of_the_request(
    airflow: AirflowByHand, decided: Asked, sender: str, status: int
) -> None:
    assert decided.answer().status_code == 409
    tokens = {
        **{"nobody": "", "nonsense": "nonsense", "viewer": airflow.token("vic", role="viewer")},
        "expired": airflow.token("cid", seconds=-100),
    }

    said = decided.answer(token=tokens[sender])

    assert said.status_code == status
    assert "already" not in said.text


def test_who_is_logged_in_by_cookie_is_told_of_the_request(airflow: AirflowByHand, decided: Asked) -> None:
    airflow.web.cookies.set("_token", airflow.token("cid"))
    try:
        said = decided.answer(token="")
    finally:
        airflow.web.cookies.clear()
    assert (said.status_code, said.json()["detail"]) == (409, "The request is approved already.")


def test_whom_airflow_lets_in_without_a_login_is_held_to_the_request_too(
    airflow: AirflowByHand, decided: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
    monkeypatch.setattr(airflow, "_web", TestClient(create_app(apps="core")))

    said = decided.answer(token="")

    assert (said.status_code, said.json()["detail"]) == (409, "The request is approved already.")


@pytest.mark.parametrize(
    ("sender", "status"), [("nobody", 401), ("nonsense", 403), ("viewer", 403), ("admin", 422)]
)
def test_who_may_not_start_a_run_learns_nothing_of_its_bucket(
    airflow: AirflowByHand, sender: str, status: int
) -> None:
    tokens = {"nobody": "", "nonsense": "nonsense"}
    token = tokens.get(sender) if sender in tokens else airflow.token("vic", role=sender)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = {"logical_date": None, "conf": {"tenant": "tenant-B"}}
    with bucketed(bucket_owners="node-a:0-20"):
        said = airflow.web.post("/api/v2/dags/stock/dagRuns", json=body, headers=headers)
    assert said.status_code == status
    assert ("node-a" in said.text) is (sender == "admin")


# Spellings of a task


@pytest.mark.parametrize(
    ("index", "end"),
    [("-1", ""), ("-1.0", ""), ("%20-1", ""), ("-01%20", ""), ("-1.000", "%0A"), ("-1", "%0A")],
)
def test_no_spelling_of_the_map_index_passes_the_guard(decided: Asked, index: str, end: str) -> None:
    """Airflow's route reads a number as a form does, and lets a path end in a line break."""
    with create_session(scoped=False) as session:
        # What a second answer would do, were it let in.
        session.execute(update(HITLDetail).values(responded_at=None, chosen_options=None))

    said = decided.answer("Reject", index=index, end=end)

    assert (said.status_code, said.json()["detail"]) == (409, "The request is approved already.")
    with create_session(scoped=False) as session:
        assert [row.chosen_options for row in session.query(HITLDetail)] == [None]


# Whose tasks they are


@contextmanager
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside of it nobody finds the ledger."""
    with monkeypatch.context() as patch:
        patch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "sqlite:////nowhere/at/all/louver.db")
        patch.setattr(ledger_hook, "_LEDGERS", {})
        yield


def test_a_task_that_is_not_louvers_is_answered_without_the_ledger(
    airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Asked(airflow, ledger, "stock_asking")
    with away(monkeypatch):
        story.park()

        said = story.answer()

        assert said.status_code == 200, said.text
        story.finish()
    row = airflow.task(story.key("ask"))
    assert row is not None
    assert row.state == "success"


@pytest.mark.parametrize(
    ("dag_id", "task_id", "index"),
    [("guarded", "ask", -1), ("plain_steps", "ask", -1), ("plain_steps", "each", 1)],
)
def test_a_task_of_louvers_is_not_answered_without_the_ledger(
    airflow: AirflowByHand,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    dag_id: str,
    task_id: str,
    index: int,
) -> None:
    story = Asked(airflow, ledger, dag_id)
    key = TaskKey(dag_id, story.run.run_id, task_id, index)
    airflow.rows.ask(key, options=["Resume"], now=now())
    path = f"/dags/{dag_id}/dagRuns/{story.run.run_id}/taskInstances/{task_id}/{index}/hitlDetails"
    with away(monkeypatch):
        said = airflow.ask("cid", "PATCH", path, {"chosen_options": ["Resume"]})
    assert (said.status_code, said.headers["Retry-After"]) == (503, "5")
    assert "the request stays open" in said.json()["detail"]


# What is written down


def test_no_payload_stands_in_the_log_where_a_question_cannot_be_brought_up_to_date(
    airflow: AirflowByHand, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    story = Asked(airflow, ledger, "guarded")
    run = airflow.run(story.run)
    assert run is not None
    start = run_start(GUARDED, story.run, marker=run.run_after.isoformat(), requester="ann")
    ledger.open_run(start, now=now())
    TaskControl(actor="cid", ledger=ledger).pause(story.run, "ask", timeout=timedelta(0))
    story.park()
    assert story.answer("Resume").status_code == 200
    with create_session(scoped=False) as session:
        session.execute(
            text(
                "CREATE TRIGGER full BEFORE UPDATE OF subject ON hitl_detail "
                "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
            )
        )
    try:
        story.pass_time()
        airflow.schedule()
        story.park()
    finally:
        with create_session(scoped=False) as session:
            session.execute(text("DROP TRIGGER full"))

    told = [record for record in caplog.records if "could not be brought up to date" in record.getMessage()]
    assert [record.getMessage().rpartition(": ")[2] for record in told] == ["IntegrityError"]
    assert SECRET not in caplog.text
