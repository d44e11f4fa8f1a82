"""What becomes of a run whose definition was changed under it (row O14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.definition import ApprovalNode, Definition, Step
from louver.policies import RetryPolicy
from louver.timeouts import Timeouts
from louver.versions import OPERATIONAL, Verdict, behaviour_of, decide_change

POLICIES = ("fail", "finish_old", "accept_compatible")


def step(name: str, *after: str, **given: Any) -> Step:
    return Step(**{"name": name, "task": f"business:{name}", "after": after, **given})


def work(*nodes: Step | ApprovalNode, version: str = "1", **given: Any) -> Definition:
    return Definition(**{"name": "work", "version": version, "nodes": nodes, **given})


A, B, C = step("a"), step("b", "a"), step("c", "b")
OLD = work(A, B)
LONGER = work(A, B, C, version="2")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_definition_is_no_change(policy):
    decision = decide_change(policy, OLD, work(A, B), ["a"])

    assert decision.verdict is Verdict.KEEP_OLD


def test_fail_refuses_whatever_was_changed():
    decision = decide_change("fail", OLD, work(A, B, version="1.0.1"), ["a"])

    assert decision.verdict is Verdict.REFUSE
    assert "'fail'" in decision.reason


class TestAcceptCompatible:
    @pytest.mark.parametrize(("settled", "begun"), [([], []), (["a"], []), (["a"], ["b"]), (["a", "b"], [])])
    def test_a_step_behind_the_last_one_is_accepted_wherever_the_run_is(self, settled, begun):
        decision = decide_change("accept_compatible", OLD, LONGER, settled, begun=begun)

        assert (decision.verdict, decision.added) == (Verdict.ACCEPT, ("c",))
        assert "c" in decision.reason

    @pytest.mark.parametrize(
        ("changed", "word"),
        [
            (step("b", "a", task="business:other"), "task"),
            (step("b", "a", kwargs={"x": True}), "kwargs"),
            (step("b"), "after"),
            (step("b", "a", deps={"x": "a"}), "deps"),
            (step("b", "a", on_failure="continue"), "on_failure"),
            (step("b", "a", join="all_settled"), "join"),
            (step("b", "a", compensate="business:undo"), "compensate"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    @pytest.mark.parametrize("settled", [[], ["a"], ["a", "b"]])
    def test_a_step_that_does_something_else_is_refused_begun_or_not(self, changed, word, settled):
        decision = decide_change("accept_compatible", OLD, work(A, changed, version="2"), settled)

        assert (decision.verdict, decision.node) == (Verdict.REFUSE, "b")
        assert word in decision.reason

    def test_one_and_true_are_not_the_same(self):
        one, true = (work(step("a", kwargs={"x": value})) for value in (1, True))

        assert decide_change("accept_compatible", one, true, []).verdict is Verdict.REFUSE

    def test_what_is_operational_may_change(self):
        other = step(
            "b",
            "a",
            queue="slow",
            priority=7,
            retry=RetryPolicy(max_attempts=5),
            timeouts=Timeouts(attempt=timedelta(minutes=1)),
            resources={"bank": 1},
        )

        decision = decide_change("accept_compatible", OLD, work(A, other, version="2"), ["a"], begun=["b"])

        assert decision.verdict is Verdict.ACCEPT
        assert "operational" in decision.reason

    def test_a_step_that_is_gone_is_refused_although_it_is_over(self):
        decision = decide_change("accept_compatible", work(A, step("b")), work(A, version="2"), ["a", "b"])

        assert (decision.verdict, decision.node) == (Verdict.REFUSE, "b")
        assert "removed" in decision.reason

    def test_a_step_before_one_that_is_there_is_refused(self):
        new = work(A, step("x", "a"), step("b", "a", "x"), version="2")

        assert decide_change("accept_compatible", OLD, new, ["a"]).node == "b"

    @pytest.mark.parametrize("beside", [step("x"), step("x", "a")], ids=["a root", "behind a passed one"])
    def test_a_step_beside_what_was_passed_is_refused(self, beside):
        decision = decide_change(
            "accept_compatible", OLD, work(A, B, beside, version="2"), ["a"], begun=["b"]
        )

        assert (decision.verdict, decision.node) == (Verdict.REFUSE, "x")
        assert "passed" in decision.reason

    def test_a_step_beside_one_that_has_not_begun_is_accepted(self):
        new = work(A, B, step("x", "a"), version="2")

        assert decide_change("accept_compatible", OLD, new, [], begun=["a"]).verdict is Verdict.ACCEPT

    def test_new_steps_may_stand_behind_new_steps(self):
        new = work(A, B, C, step("d", "c"), version="2")

        assert decide_change("accept_compatible", OLD, new, ["a", "b"]).added == ("c", "d")

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"name": "other"}, "name"),
            ({"params": ["source"]}, "params"),
            ({"aggregation": "fail_fast"}, "aggregation"),
        ],
    )
    def test_what_is_true_of_the_whole_run_may_not_change(self, changes, word):
        decision = decide_change("accept_compatible", OLD, work(A, B, C, version="2", **changes), ["a"])

        assert decision.verdict is Verdict.REFUSE
        assert word in decision.reason

    def test_the_result_may_become_that_of_a_new_step_and_of_no_other(self):
        assert (
            decide_change("accept_compatible", OLD, replace(LONGER, sink="c"), ["a"]).verdict
            is Verdict.ACCEPT
        )
        decision = decide_change("accept_compatible", OLD, replace(LONGER, sink="a"), ["a"])
        assert decision.verdict is Verdict.REFUSE
        assert "result" in decision.reason

    def test_who_may_approve_is_no_operational_setting(self):
        pay = step("pay", "ask", approval="ask")
        asks = ApprovalNode(name="ask", of="pay", payload="business:intent", approvers=["ann"])
        old = work(asks, pay)

        decision = decide_change(
            "accept_compatible", old, work(replace(asks, approvers=["bob"]), pay, version="2"), []
        )

        assert (decision.verdict, decision.node) == (Verdict.REFUSE, "ask")


class TestFinishOld:
    def test_what_steps_do_may_be_anything_now(self):
        new = work(A, step("b", "a", task="business:other", kwargs={"x": 1}), version="2")

        decision = decide_change("finish_old", OLD, new, ["a"])

        assert decision.verdict is Verdict.KEEP_OLD
        assert OLD.fingerprint[:12] in decision.reason

    def test_new_steps_are_left_out_wherever_they_stand(self):
        new = work(step("x"), A, step("y", "a"), step("b", "y"), C, version="2")

        decision = decide_change("finish_old", OLD, new, ["a"])

        assert (decision.verdict, decision.added) == (Verdict.KEEP_OLD, ("x", "y", "c"))
        assert "left out: x, y, c" in decision.reason

    def test_a_step_that_nobody_can_run_any_more_stops_the_run_and_is_named(self):
        decision = decide_change("finish_old", OLD, work(A, version="2"), ["a"], begun=["b"])

        assert (decision.verdict, decision.node) == (Verdict.REFUSE, "b")
        assert "'b'" in decision.reason

    def test_a_step_that_is_over_may_be_gone(self):
        new = work(B, version="2", nodes=[step("b")])

        assert decide_change("finish_old", OLD, new, ["a"]).verdict is Verdict.REFUSE
        assert decide_change("finish_old", OLD, work(A, version="2"), ["a", "b"]).verdict is Verdict.KEEP_OLD

    @pytest.mark.parametrize(
        "changed",
        [
            step("b"),
            step("b", "a", join="all_settled"),
            step("b", "a", branch=True),
            step("b", over={"item": "a"}),
            step("b", "a", "z"),
        ],
        ids=["too early", "another join", "a branch", "mapped", "waits for more"],
    )
    def test_what_airflow_would_start_at_another_time_is_refused(self, changed):
        old = work(A, step("z"), B, C)

        decision = decide_change("finish_old", old, work(A, step("z"), changed, C, version="2"), ["a"])

        assert (decision.verdict, decision.node) == (Verdict.REFUSE, "b")

    def test_a_new_step_that_does_not_hand_on_what_stands_before_it_is_refused(self):
        new = work(A, step("y", "a", join="all_settled"), step("b", "y"), version="2")

        assert decide_change("finish_old", OLD, new, ["a"]).node == "b"

    def test_a_parameter_that_is_gone_is_refused_where_a_step_still_takes_it(self):
        old = work(A, step("b", "a", params={"x": "source"}), params=["source"])

        assert decide_change("finish_old", old, work(A, B, version="2"), ["a"]).node == "b"
        assert decide_change("finish_old", old, work(A, B, version="2"), ["a", "b"]).node is None

    def test_another_aggregation_is_refused(self):
        new = work(A, B, version="2", aggregation="fail_fast")

        assert "aggregation" in decide_change("finish_old", OLD, new, ["a"]).reason


class TestAnOutdatedWorker:
    @pytest.mark.parametrize("policy", POLICIES)
    def test_does_not_take_the_run_back(self, policy):
        decision = decide_change(policy, LONGER, OLD, ["a"], begun=["b"], left=True)

        assert decision.verdict is Verdict.OUTDATED
        assert "'c'" in decision.reason

    @pytest.mark.parametrize("policy", POLICIES)
    def test_goes_on_where_all_that_steps_do_is_the_same(self, policy):
        tuned = work(A, step("b", "a", queue="slow"), version="2")

        assert decide_change(policy, tuned, OLD, ["a"], left=True).verdict is Verdict.KEEP_OLD


@st.composite
def definitions(draw: st.DrawFn, most: int = 6) -> Definition:
    count = draw(st.integers(1, most))
    nodes = []
    for index in range(count):
        after: Sequence[str] = draw(
            st.lists(st.sampled_from([f"n{one}" for one in range(index)]), unique=True)
            if index
            else st.just([])
        )
        nodes.append(
            Step(
                name=f"n{index}",
                task=draw(st.sampled_from(["business:one", "business:two"])),
                after=after,
                queue=draw(st.sampled_from([None, "slow"])),
                join=draw(st.sampled_from(["all_succeeded", "all_settled"])) if after else "all_succeeded",
            )
        )
    return Definition(name="work", version=draw(st.sampled_from(["1", "2"])), nodes=nodes)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Definition, Definition, set[str], set[str]]:
    """Two definitions, often alike, and how far a run under the first has come."""
    old = draw(definitions())
    new = draw(definitions())
    if draw(st.booleans()):
        more = [
            step(f"m{index}", *draw(st.lists(st.sampled_from(old.names), unique=True)))
            for index in range(draw(st.integers(0, 2)))
        ]
        new = Definition(name="work", version="2", nodes=[*old.nodes, *more], sink=old.result_node)
        old = replace(old, sink=old.result_node)
    reached: set[str] = set()
    for node in old.nodes:
        if reached.issuperset(node.upstream) and draw(st.booleans()):
            reached.add(node.name)
    begun = {name for name in reached if not any(name in old.ancestors(other) for other in reached)}
    begun = {name for name in begun if draw(st.booleans())}
    return old, new, reached - begun, begun


@given(situations())
def test_what_is_accepted_takes_nothing_back_and_adds_nothing_before_what_was_reached(situation):
    old, new, settled, begun = situation

    decision = decide_change("accept_compatible", old, new, settled, begun=begun)

    if decision.verdict is Verdict.ACCEPT:
        before, after = behaviour_of(old), behaviour_of(new)
        assert {name: after[name] for name in before} == before
        assert set(decision.added) == set(new.names) - set(old.names)
        for name in settled | begun:
            assert new.ancestors(name) == old.ancestors(name)
    else:
        assert decision.reason


@given(situations())
def test_what_is_finished_is_driven_as_the_old_definition_wants_it(situation):
    old, new, settled, begun = situation

    decision = decide_change("finish_old", old, new, settled, begun=begun)

    if decision.verdict is Verdict.KEEP_OLD:
        for name in set(old.names) - settled:
            if new.fingerprint != old.fingerprint:
                assert set(old.ancestors(name)) - settled <= set(new.ancestors(name))
                assert new.node(name).join == old.node(name).join
    else:
        assert decision.verdict is Verdict.REFUSE


@given(situations(), st.sampled_from(POLICIES))
def test_the_decision_is_told_with_its_reason_and_does_not_change(situation, policy):
    old, new, settled, begun = situation

    decision = decide_change(policy, old, new, settled, begun=begun)

    assert decision == decide_change(policy, old, new, sorted(settled), begun=sorted(begun))
    assert decision.reason
    assert (decision.verdict is Verdict.ACCEPT) <= (policy == "accept_compatible")


@given(situations())
def test_deploying_back_and_forth_is_settled_by_one_acceptance(situation):
    old, new, settled, begun = situation
    there = decide_change("accept_compatible", old, new, settled, begun=begun)

    if there.verdict is Verdict.ACCEPT:
        back = decide_change("accept_compatible", new, old, settled, begun=begun, left=True)
        assert back.verdict in (Verdict.KEEP_OLD, Verdict.OUTDATED)
        assert (back.verdict is Verdict.KEEP_OLD) <= (not there.added)


def test_every_operational_setting_is_one_of_a_step():
    assert set(OPERATIONAL) <= set(OLD.to_json()["steps"][0]) | {"resources", "timeouts"}
