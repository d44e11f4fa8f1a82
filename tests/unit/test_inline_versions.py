"""A run goes on after a deploy by the policy of the deployed definition (row O14)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from louver.approvals import Answer
from louver.clock import FixedClock
from louver.closing import overview
from louver.compensation import Undo
from louver.context import TaskContext
from louver.control import send
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.errors import DefinitionChanged
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey, TaskKey, Verb
from louver.ledger.records import ApprovalRecord
from louver.ledger.requests import CommandRequest
from louver.maintenance import verify_ledger
from louver.states import RunState, Source, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("work", "run-1")
DONE: list[str] = []
KEYS = {"k1": b"0123456789abcdef"}


@pytest.fixture(params=["memory://", "sqlite"])
def ledger(request, tmp_path) -> Iterator[Ledger]:
    DONE.clear()
    url = f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else request.param
    with open_ledger(url, KEYS) as opened:
        yield opened


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


def first() -> dict[str, int]:
    DONE.append("first")
    return {"rows": 3}


def pay(ctx: TaskContext, data: dict[str, int], how: str = "by hand") -> str:
    ctx.effect(
        "pay", intent={"rows": data["rows"]}, perform=lambda key: key, compensate=unpay, approval="ask"
    )
    DONE.append(f"pay {how}")
    return how


def pay_otherwise(ctx: TaskContext, data: dict[str, int]) -> str:
    DONE.append("pay otherwise")
    return "otherwise"


def unpay(undo: Undo) -> None:
    DONE.append("unpay")


def tell(how: str) -> str:
    DONE.append(f"tell {how}")
    return how


def intent(data: dict[str, int]) -> dict[str, int]:
    return {"rows": data["rows"]}


TASKS = {"b:first": first, "b:pay": pay, "b:intent": intent}
FIRST = Step(name="first", task="b:first")
ASK = ApprovalNode(name="ask", of="pay", payload="b:intent", deps={"data": "first"})
PAY = Step(name="pay", task="b:pay", deps={"data": "first"}, after=["ask"], approval="ask")
TELL = Step(name="tell", task="b:tell", deps={"how": "pay"})
OLD = Definition(name="work", version="1", nodes=[FIRST, ASK, PAY])
LONGER = Definition(name="work", version="2", nodes=[FIRST, ASK, PAY, TELL], on_change="accept_compatible")


def go(definition: Definition, ledger: Ledger, clock: FixedClock) -> RunResult:
    tasks = {**TASKS, "b:tell": tell, "b:other": pay_otherwise}
    used = {node.payload if isinstance(node, ApprovalNode) else node.task for node in definition.nodes}
    return run_inline(
        definition,
        {name: task for name, task in tasks.items() if name in used},
        ledger=ledger,
        clock=clock,
        run_id=RUN.run_id,
        requester="carl",
    )


def approve(waiting: tuple[ApprovalRecord, ...], ledger: Ledger, clock: FixedClock) -> None:
    (asked,) = waiting
    answer = Answer(decision=Decision.APPROVED, by="ann")
    ledger.decide_approval(asked.request_id, answer, now=clock.now())


def recorded(ledger: Ledger) -> tuple[str, str]:
    run = ledger.get_run(RUN)
    return run.definition_version, run.definition_fingerprint


class TestFinishOld:
    def test_the_run_goes_on_under_the_definition_that_it_began_with(self, ledger, clock):
        waiting = go(OLD, ledger, clock).waiting
        approve(waiting, ledger, clock)
        new = Definition(
            name="work",
            version="2",
            nodes=[FIRST, replace(ASK, deps={"data": "first"}), replace(PAY, kwargs={"how": "new"}), TELL],
            on_change="finish_old",
        )

        result = go(new, ledger, clock)

        assert (result.state, result.value) == (RunState.SUCCEEDED, "by hand")
        assert DONE == ["first", "pay by hand"]
        assert recorded(ledger) == ("1", OLD.fingerprint)
        assert ledger.list_acceptances(RUN) == []
        assert "tell" not in result.states
        assert len(ledger.list_approvals(RUN)) == 1

    def test_a_function_at_another_path_is_that_of_the_old_path(self, ledger, clock):
        """What is deployed under the old definition's path runs, and never what the new one calls."""
        approve(go(OLD, ledger, clock).waiting, ledger, clock)
        new = Definition(
            name="work",
            version="2",
            nodes=[FIRST, ASK, replace(PAY, task="b:other")],
            on_change="finish_old",
        )

        result = go(new, ledger, clock)

        # No import finds b:pay, so nothing runs, least of all the other function.
        assert isinstance(result.errors["pay"], DefinitionChanged)
        assert "code is not deployed" in str(result.errors["pay"])
        assert DONE == ["first"]
        assert result.state is RunState.FAILED

    def test_a_step_that_is_gone_stops_the_run_and_what_it_did_is_undone(self, ledger, clock):
        def act(ctx: TaskContext) -> None:
            ctx.effect("pay", intent={}, perform=lambda key: key, compensate=unpay)
            DONE.append("acted")

        def fine() -> None:
            DONE.append("never")

        old = Definition(
            name="work",
            version="1",
            nodes=[
                Step(name="act", task="b:act"),
                PARK,
                Step(name="gone", task="b:fine", after=["end"]),
                END,
            ],
        )
        new = Definition(
            name="work",
            version="2",
            nodes=[Step(name="act", task="b:act"), PARK, END],
            on_change="finish_old",
        )
        tasks = {"b:act": act, "b:intent2": lambda: {}, "b:fine": fine}

        def live(definition: Definition) -> RunResult:
            return run_inline(definition, tasks, ledger=ledger, clock=clock, run_id=RUN.run_id)

        approve(live(old).waiting, ledger, clock)
        result = live(new)

        assert isinstance(result.errors["park"], DefinitionChanged)
        assert "'gone'" in str(result.errors["park"])
        assert "compensate" not in result.errors
        assert DONE == ["acted", "unpay"]
        assert overview(RUN, ledger).evaluation.states["gone"] is TaskState.SKIPPED
        assert result.state is RunState.FAILED_COMPENSATED


PARK = ApprovalNode(name="park", of="end", payload="b:intent2", after=["act"])
END = Step(name="end", task="b:fine", after=["park"], approval="park")


class TestAcceptCompatible:
    def test_the_run_goes_on_under_the_new_one_and_says_so(self, ledger, clock):
        waiting = go(OLD, ledger, clock).waiting
        approve(waiting, ledger, clock)

        stale = go(LONGER, ledger, clock)

        # What was approved was another version of the workflow: people are asked anew.
        assert stale.state is RunState.WAITING_APPROVAL
        assert stale.waiting[0].request_id != waiting[0].request_id
        assert stale.waiting[0].definition_fingerprint == LONGER.fingerprint
        approve(stale.waiting, ledger, clock)
        result = go(LONGER, ledger, clock)
        assert (result.state, result.value) == (RunState.SUCCEEDED, "by hand")
        assert DONE == ["first", "pay by hand", "tell by hand"]
        assert recorded(ledger) == ("2", LONGER.fingerprint)
        (accepted,) = ledger.list_acceptances(RUN)
        assert (accepted.from_version, accepted.to_version, accepted.task_id) == ("1", "2", "ask")
        assert "tell" in accepted.reason
        assert ledger.verify_run(RUN).findings == ()
        assert ledger.load_result(TaskKey("work", "run-1", "first")) == {"rows": 3}

    def test_a_run_that_is_cleaned_away_leaves_no_acceptance(self, ledger, clock):
        approve(go(OLD, ledger, clock).waiting, ledger, clock)
        approve(go(LONGER, ledger, clock).waiting, ledger, clock)
        go(LONGER, ledger, clock)
        clock.sleep(timedelta(days=1))

        assert ledger.clean_run(RUN, before=clock.now()).kept is None

        # What is left of a run that is gone would be found.
        assert verify_ledger(ledger).findings == ()
        go(OLD, ledger, clock)
        assert ledger.list_acceptances(RUN) == []

    def test_a_change_that_is_not_compatible_stops_the_run_with_the_reason(self, ledger, clock):
        approve(go(OLD, ledger, clock).waiting, ledger, clock)
        changed = replace(LONGER, nodes=[FIRST, ASK, replace(PAY, kwargs={"how": "new"}), TELL])

        result = go(changed, ledger, clock)

        assert isinstance(result.errors["ask"], DefinitionChanged)
        assert "'pay' was changed (kwargs)" in str(result.errors["ask"])
        assert recorded(ledger) == ("1", OLD.fingerprint)
        assert ledger.list_acceptances(RUN) == []

    def test_an_outdated_process_does_nothing_to_the_run(self, ledger, clock):
        approve(go(OLD, ledger, clock).waiting, ledger, clock)
        waiting = go(LONGER, ledger, clock).waiting
        before = ledger.list_transitions(RUN)

        with pytest.raises(DefinitionChanged, match="outdated"):
            go(OLD, ledger, clock)

        assert ledger.list_transitions(RUN) == before
        approve(waiting, ledger, clock)
        assert go(LONGER, ledger, clock).state is RunState.SUCCEEDED
        assert len(ledger.list_acceptances(RUN)) == 1

    def test_deploying_operational_settings_back_and_forth_is_one_acceptance(self, ledger, clock):
        tuned = replace(
            OLD, nodes=[FIRST, ASK, replace(PAY, priority=5)], on_change="accept_compatible", version="2"
        )
        go(OLD, ledger, clock)
        approve(go(OLD, ledger, clock).waiting, ledger, clock)
        approve(go(tuned, ledger, clock).waiting, ledger, clock)

        result = go(OLD, ledger, clock)

        assert result.state is RunState.SUCCEEDED
        assert recorded(ledger) == ("2", tuned.fingerprint)
        assert len(ledger.list_acceptances(RUN)) == 1


class TestAPausedStep:
    """What it saved before the deploy it gets back, under whichever definition it goes on."""

    STEPS = (Step(name="count", task="b:count"), Step(name="tell", task="b:tell", deps={"how": "count"}))
    PAUSED = Definition(name="work", version="1", nodes=STEPS)

    def go(self, definition: Definition, ledger: Ledger, clock: FixedClock) -> RunResult:
        def count(ctx: TaskContext, how: str = "old") -> str:
            at = ctx.restore(0)
            DONE.append(f"count from {at} {how}")
            if at == 0:
                self.send(ledger, clock, Verb.PAUSE)
                clock.sleep(timedelta(seconds=5))
            ctx.checkpoint(7)
            return how

        def more(ctx: TaskContext) -> None:
            DONE.append("more")

        known = {"b:count": count, "b:tell": tell, "b:more": more}
        tasks = {node.task: known[node.task] for node in definition.nodes if isinstance(node, Step)}
        return run_inline(definition, tasks, ledger=ledger, clock=clock, run_id=RUN.run_id)

    def send(self, ledger: Ledger, clock: FixedClock, verb: Verb) -> None:
        request = CommandRequest(
            command_id=f"{verb}",
            task=TaskKey("work", "run-1", "count"),
            verb=verb,
            actor="ann",
            reason=None,
            source=Source.CLI,
        )
        send(ledger, request, now=clock.now())

    @pytest.mark.parametrize("policy", ["finish_old", "accept_compatible"])
    def test_goes_on_where_it_was(self, ledger, clock, policy):
        assert self.go(self.PAUSED, ledger, clock).paused == ("count",)
        new = replace(
            self.PAUSED,
            version="2",
            nodes=[*self.STEPS, Step(name="more", task="b:more", after=["tell"])],
            on_change=policy,
        )
        self.send(ledger, clock, Verb.RESUME)

        result = self.go(new, ledger, clock)

        assert result.state is RunState.SUCCEEDED
        accepted = policy == "accept_compatible"
        assert DONE[:3] == ["count from 0 old", "count from 7 old", "tell old"]
        assert DONE[3:] == (["more"] if accepted else [])
        assert recorded(ledger)[0] == ("2" if accepted else "1")
        assert ledger.verify_run(RUN).findings == ()

    def test_is_refused_by_default_and_runs_no_further(self, ledger, clock):
        self.go(self.PAUSED, ledger, clock)
        self.send(ledger, clock, Verb.RESUME)

        result = self.go(replace(self.PAUSED, version="2"), ledger, clock)

        assert isinstance(result.errors["count"], DefinitionChanged)
        assert DONE == ["count from 0 old"]
        assert result.state is RunState.FAILED
