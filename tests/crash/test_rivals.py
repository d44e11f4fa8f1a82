"""Processes that are after the same thing: one of them does it, and the others are told."""

from __future__ import annotations

import time

import pytest
from support.nursery import ChildFailed

MET = 100
"""How many times two processes are to call within 10 ms of each other."""

MOST = 2000


def test_of_two_processes_that_claim_an_effect_in_the_same_moment_one_begins_it(store, place, nursery):
    url = place["url"]
    rivals = [nursery.start("crash.rivals:begin_at", url=url, task_id=name) for name in ("one", "two")]
    assert [rival.said() for rival in rivals] == ["ready", "ready"]
    met = rounds = 0
    winners = {0: [], 1: []}
    while met < MET:
        assert rounds < MOST, f"only {met} of {rounds} times they came together"
        for rival in rivals:
            rival.say((f"effect-{rounds}", time.monotonic() + 0.004))
        (called, told, record), (other_called, other_told, other_record) = [rival.said() for rival in rivals]
        assert sorted([told, other_told]) == ["begun", "in_progress"], f"round {rounds}"
        assert record == other_record
        winners[told != "begun"].append(record)
        met += abs(called - other_called) < 0.010
        rounds += 1
    for rival in rivals:
        rival.say(None)

    # Each believes to have begun what the other was told that it has begun.
    assert [rival.result() for rival in rivals] == [winners[0], winners[1]]
    rows = nursery.call("crash.rivals:snapshot", url=url)
    assert len(rows["EffectRecord"]) == rounds


def test_a_process_whose_attempt_was_superseded_writes_nothing(store, place, nursery):
    url = place["url"]
    stale = nursery.start("crash.rivals:hold_and_try", url=url)
    assert stale.said() == "holding"
    successor = nursery.start("crash.rivals:take_over", url=url)
    assert successor.said() == "taken over"
    before = nursery.call("crash.rivals:snapshot", url=url)

    stale.say("try")
    refusals = stale.result()

    assert refusals.pop("touch") == "written"
    assert refusals == dict.fromkeys(refusals, "Superseded")
    assert nursery.call("crash.rivals:snapshot", url=url) == before
    successor.say("enough")
    successor.result()


@pytest.mark.parametrize(
    ("story", "point"),
    [("checkpoints", "perform.after"), ("answer lost, performed again", "perform.before")],
)
def test_a_process_that_comes_back_after_it_was_given_up_spoils_nothing(story, point, store, place, nursery):
    slow = nursery.start("crash.rivals:play_in_the_way", story=story, case="slow", stand_at=point, **place)
    assert slow.said() == "standing"
    # It lives, so nobody can prove its death: lease and quiet time have to pass, and the clock skips them.
    assert nursery.call("crash.children:play", story=story, case="slow", turn=2, **place) == []

    slow.say("go on")

    with pytest.raises(ChildFailed, match=r"louver\.errors\.Superseded"):
        slow.result()
    assert nursery.call("crash.children:look_at", story=story, cases=["slow"], **place) == []
