"""
Who may answer an approval, and whose hand voids it: over Airflow's own scheduler, APIs and auth manager.

Cases G06 and G09, and the end of semantics section 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from airflow.models.hitl import HITLDetail
from airflow.utils.session import create_session
from support.airflow_by_hand import AirflowByHand
from support.story import MINUTE, Story, act, intent, now, stage

from louver.definition import ApprovalNode, Definition, Step
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision
from louver.ledger.records import ApprovalRecord
from louver.states import TaskState
from louver.steps import run_start
from louver_provider.dag_builder import build_dag
from louver_provider.runtime import _nobody_may_approve
from louver_provider.task_control import Became, TaskControl

PENDING, APPROVED, VOID = Decision.PENDING, Decision.APPROVED, Decision.VOID


def asking(name: str, **approve: Any) -> Definition:
    """A workflow that asks before it pays."""
    nodes = [
        ApprovalNode(name="ask", of="pay", payload="tests:intent", **approve),
        Step(name="pay", task="tests:act", after=["ask"], approval="ask"),
    ]
    return Definition(name=name, version="1", nodes=nodes)


ASKING = [
    asking("asks_anybody"),
    asking("asks_alice", approvers=["alice"]),
    asking("asks_two", four_eyes=True),
    asking("asks_two_of_them", approvers=["alice", "ann"], four_eyes=True),
]


@pytest.fixture(scope="module")
def airflow() -> Iterator[AirflowByHand]:
    tasks = {"tests:act": act, "tests:intent": intent}
    with stage(*(build_dag(definition, tasks=tasks) for definition in ASKING)) as by_hand:
        yield by_hand


@pytest.fixture(autouse=True)
def emptied(airflow: AirflowByHand) -> Iterator[None]:
    yield
    airflow.empty()


class Asking(Story):
    """A run that ann has started, of a Dag that asks."""

    def park(self) -> None:
        """Its approval parks; a minute later Airflow has seen the process end."""
        self.work("ask")
        self.pass_time(MINUTE)
        self.airflow.schedule()

    def answer(self, user: str, option: str = "Approve", *, role: str = "admin") -> httpx.Response:
        """What the web page sends when somebody presses a button."""
        given = {"request_id": self.shown()["params"]["request_id"]["value"]}
        body = {"chosen_options": [option], "params_input": given}
        return self.airflow.web.patch(self._question, json=body, headers=self._login(user, role))

    def shown(self) -> dict[str, Any]:
        """What the web page shows under Required Actions."""
        found: dict[str, Any] = self.airflow.web.get(
            self._question, headers=self._login("ann", "admin")
        ).json()
        return found

    @property
    def _question(self) -> str:
        return f"/api/v2{self._path}/taskInstances/ask/-1/hitlDetails"

    def _login(self, user: str, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.airflow.token(user, role=role)}"}

    def go_on(self) -> None:
        """The scheduler sees the answer, and a worker takes the task up."""
        self.pass_time()
        self.airflow.schedule()
        self.park()

    def requests(self) -> list[ApprovalRecord]:
        """In order of asking."""
        return self.ledger.list_approvals(self.run)

    def decisions(self) -> list[tuple[Decision, str | None]]:
        """Of each request, what was decided and by whom."""
        return [(request.decision, request.decided_by) for request in self.requests()]

    def pause(self) -> None:
        """Somebody wants the approval to pause, also where nothing of the run has begun."""
        run = self.airflow.run(self.run)
        assert run is not None
        (definition,) = [one for one in ASKING if one.name == self.run.dag_id]
        start = run_start(definition, self.run, marker=run.run_after.isoformat(), requester="ann")
        self.ledger.open_run(start, now=now())
        control = TaskControl(actor="cid", ledger=self.ledger)
        (reply,) = control.pause(self.run, "ask", timeout=timedelta(0))
        assert reply.became is Became.RECORDED

    def state(self, task_id: str = "ask") -> TaskState:
        record = self.ledger.get_task(self.key(task_id))
        assert record is not None
        return record.state

    def in_airflow(self) -> str | None:
        row = self.airflow.task(self.key("ask"))
        assert row is not None
        return row.state

    def is_answered(self) -> bool:
        """Whether Airflow has taken an answer."""
        row = self.airflow.task(self.key("ask"))
        assert row is not None
        with create_session(scoped=False) as session:
            asked = session.get(HITLDetail, row.id)
            assert asked is not None
            return asked.response_received


def waiting(airflow: AirflowByHand, ledger: Ledger, name: str) -> Asking:
    """A run that waits for an answer."""
    story = Asking(airflow, ledger, name)
    story.park()
    return story


# Those that are named


@pytest.mark.parametrize("option", ["Approve", "Reject", "Stop"])
def test_who_is_not_named_is_refused_and_the_request_stays_open(
    airflow: AirflowByHand, ledger: Ledger, option: str
) -> None:
    story = waiting(airflow, ledger, "asks_alice")

    said = story.answer("bob", option)

    assert said.status_code == 403, said.text
    assert (story.decisions(), story.is_answered()) == ([(PENDING, None)], False)
    assert (story.in_airflow(), story.state()) == ("awaiting_input", TaskState.PAUSED)


def test_who_is_named_decides_after_another_was_refused(airflow: AirflowByHand, ledger: Ledger) -> None:
    story = waiting(airflow, ledger, "asks_alice")
    assert story.answer("bob").status_code == 403

    assert story.answer("alice", role="user").status_code == 200
    story.finish()

    assert story.decisions() == [(APPROVED, "alice")]
    assert (story.state("ask"), story.state("pay")) == (TaskState.SUCCEEDED, TaskState.SUCCEEDED)
    assert story.only("ask", "approval:granted").actor == "alice"
    assert str(airflow.run(story.run).state) == "success"  # type: ignore[union-attr]


def test_to_be_named_gives_no_right_that_airflow_has_not_given(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    """Case G09: a viewer answers nothing."""
    story = waiting(airflow, ledger, "asks_alice")

    assert story.answer("alice", role="viewer").status_code == 403

    assert (story.decisions(), story.is_answered()) == ([(PENDING, None)], False)


def test_airflow_shows_who_is_asked(airflow: AirflowByHand, ledger: Ledger) -> None:
    story = waiting(airflow, ledger, "asks_alice")

    assert [user["id"] for user in story.shown()["assigned_users"]] == ["alice"]


def test_where_nobody_is_named_anybody_decides(airflow: AirflowByHand, ledger: Ledger) -> None:
    story = waiting(airflow, ledger, "asks_anybody")

    assert story.answer("bob").status_code == 200
    story.finish()

    assert story.decisions() == [(APPROVED, "bob")]


class TestWhereAllAreAdmins:
    """Airflow's simple auth manager then takes everybody for the same user, whoever is named."""

    @pytest.fixture(autouse=True)
    def all_admins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")

    def test_a_request_that_nobody_can_approve_says_so(self, airflow: AirflowByHand, ledger: Ledger) -> None:
        story = waiting(airflow, ledger, "asks_alice")

        assert "Nobody can approve this" in story.shown()["body"]
        # Airflow takes anybody's answer; the task has the last word.
        assert story.answer("Anonymous").status_code == 200
        story.go_on()
        assert (story.decisions(), story.is_answered()) == ([(PENDING, None)], False)

    def test_under_another_auth_manager_the_option_says_nothing(
        self, airflow: AirflowByHand, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = waiting(airflow, ledger, "asks_alice").requests()[-1]
        assert _nobody_may_approve(request)

        monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "company.auth.CompanyAuthManager")

        assert not _nobody_may_approve(request)

    def test_one_that_anybody_can_approve_says_nothing_of_it(
        self, airflow: AirflowByHand, ledger: Ledger
    ) -> None:
        story = waiting(airflow, ledger, "asks_anybody")

        assert "Nobody can approve this" not in story.shown()["body"]
        assert story.answer("Anonymous").status_code == 200
        story.finish()
        assert story.decisions() == [(APPROVED, "Anonymous")]


# Who has started the run


@pytest.mark.parametrize("name", ["asks_two", "asks_two_of_them"])
def test_who_started_the_run_does_not_approve_it_and_it_is_asked_again(
    airflow: AirflowByHand, ledger: Ledger, name: str
) -> None:
    story = waiting(airflow, ledger, name)

    # Airflow knows of no four eyes; the task does, once it has the answer.
    story.answer("ann")
    story.go_on()

    assert {decision for decision, _ in story.decisions()} <= {PENDING, VOID}
    assert story.requests()[-1].decision is PENDING
    assert (story.in_airflow(), story.state()) == ("awaiting_input", TaskState.PAUSED)
    assert not story.is_answered()
    assert story.answer("alice").status_code == 200
    story.finish()
    assert story.decisions()[-1] == (APPROVED, "alice")
    assert story.state("pay") is TaskState.SUCCEEDED
    assert not ledger.verify_run(story.run).findings


@pytest.mark.parametrize(
    ("option", "decision", "state"),
    [("Reject", Decision.REJECTED, TaskState.FAILED), ("Stop", Decision.STOPPED, TaskState.STOPPED)],
)
def test_who_started_the_run_may_still_say_no(
    airflow: AirflowByHand, ledger: Ledger, option: str, decision: Decision, state: TaskState
) -> None:
    story = waiting(airflow, ledger, "asks_two")

    assert story.answer("ann", option).status_code == 200
    story.finish()

    assert (story.decisions(), story.state()) == ([(decision, "ann")], state)


# By hand


@pytest.mark.parametrize(
    ("mark", "state"),
    [
        ("success", TaskState.SUCCEEDED),
        ("failed", TaskState.FAILED),
        ("skipped", TaskState.SKIPPED),
    ],
)
def test_a_mark_by_hand_voids_the_request_and_an_answer_comes_too_late(
    airflow: AirflowByHand, ledger: Ledger, mark: str, state: TaskState
) -> None:
    story = waiting(airflow, ledger, "asks_anybody")

    assert story.mark("bob", "ask", mark) == 200

    assert (story.decisions(), story.state()) == ([(VOID, None)], state)
    said = story.answer("cid")
    assert said.status_code == 409, said.text
    assert "Retry-After" not in said.headers
    assert "void" in said.json()["detail"]
    story.finish()
    assert (story.decisions(), story.state()) == ([(VOID, None)], state)
    assert not ledger.verify_run(story.run).findings


def test_what_was_marked_as_done_has_not_approved_anything(airflow: AirflowByHand, ledger: Ledger) -> None:
    story = waiting(airflow, ledger, "asks_anybody")
    paid: list[str] = []

    def pay(ctx: Any) -> None:
        ctx.effect("pay", intent=intent(), perform=paid.append)

    assert story.mark("bob", "ask", "success") == 200
    story.pass_time()
    story.airflow.schedule()
    story.work("pay", pay)

    # The acting step finds no approval, and asks for one itself.
    assert paid == []
    assert story.state("pay") is TaskState.PAUSED
    assert [(request.decision, request.task_id) for request in story.requests()] == [
        (VOID, "ask"),
        (PENDING, "pay"),
    ]


def test_a_whole_run_that_is_marked_voids_what_it_asks(airflow: AirflowByHand, ledger: Ledger) -> None:
    story = waiting(airflow, ledger, "asks_anybody")

    assert story.mark_run("bob", "failed") == 200

    assert story.answer("cid").status_code == 409
    story.finish()
    assert story.decisions() == [(VOID, None)]


def test_who_clears_a_task_that_asks_voids_its_request_and_is_asked_anew(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    story = waiting(airflow, ledger, "asks_anybody")

    assert story.clear("bob", "ask") == 200
    assert story.answer("cid").status_code == 409
    story.pass_time()
    story.airflow.schedule()
    story.park()

    assert story.decisions() == [(VOID, None), (PENDING, None)]
    said = story.answer("cid")
    assert said.status_code == 200, said.text
    story.finish()
    assert story.decisions() == [(VOID, None), (APPROVED, "cid")]


# One task instance that asks for one thing and then for another


def test_after_a_pause_it_is_those_that_are_named_who_decide(airflow: AirflowByHand, ledger: Ledger) -> None:
    """Airflow keeps what it has of an earlier question of the task, also whom it was put to."""
    story = Asking(airflow, ledger, "asks_alice")
    story.pause()
    story.park()
    assert (story.state(), story.requests()) == (TaskState.PAUSED, [])
    assert story.answer("bob", "Resume").status_code == 200
    story.go_on()
    assert story.decisions() == [(PENDING, None)]

    assert story.answer("bob").status_code == 403

    assert story.answer("alice").status_code == 200
    story.finish()
    assert story.decisions() == [(APPROVED, "alice")]


def test_whom_an_approval_is_put_to_has_no_say_in_a_pause_after_it(
    airflow: AirflowByHand, ledger: Ledger
) -> None:
    story = waiting(airflow, ledger, "asks_alice")
    story.pause()
    assert story.answer("alice").status_code == 200
    story.go_on()
    assert (story.state(), story.decisions()) == (TaskState.PAUSED, [(APPROVED, "alice")])

    assert story.answer("bob", "Resume").status_code == 200
    story.finish()

    assert story.state("pay") is TaskState.SUCCEEDED
