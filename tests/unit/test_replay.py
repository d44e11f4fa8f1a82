"""Recorded histories, of this release and of earlier ones, are replayed (row O14)."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from support.recordings import STORIES, record

from louver.ledger.names import EffectKind
from louver.replay import replay
from louver.states import RunState

HISTORIES = sorted((Path(__file__).parents[1] / "data" / "histories").glob("*.json"))
NEEDED = {"succeeded", "failed_compensated", "paused_and_resumed", "retried", "rejected", "cleared"}
SECRET = ("example", "4711", "card", "customer", "carl", "receipt", "cents")


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def kept(story):
    return load(next(path for path in HISTORIES if path.stem.partition("_")[2] == story))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_what_was_recorded_comes_out_the_same_way(path):
    document = load(path)

    seen = replay(document)

    assert seen.problems == ()
    assert seen.state is RunState(document["run"]["state"])
    assert seen.transitions == len(document["transitions"]) > 0
    assert path.stem.startswith(f"{seen.written_by}_")


def test_the_histories_that_matter_are_there():
    assert {path.stem.partition("_")[2] for path in HISTORIES} >= NEEDED


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_no_person_id_or_payload_is_kept(path):
    document = load(path)
    text = path.read_text(encoding="utf-8").lower()

    assert document["anonymised"] is True
    assert [word for word in SECRET if word in text] == []


@pytest.mark.parametrize("story", STORIES)
def test_a_run_of_this_release_is_replayed_as_it_is_and_anonymised(story):
    document, anonymous = record(story)

    for one in (document, anonymous):
        assert replay(one).problems == ()
    assert replay(document).state is replay(anonymous).state


@pytest.mark.parametrize("story", ["approved", "paused_and_resumed"])
def test_the_same_run_has_the_same_pseudonyms(story):
    assert record(story)[1] == record(story)[1]


def test_a_pseudonym_stands_for_the_same_wherever_it_stands():
    document, anonymous = record("approved")

    (real,), (other,) = document["approvals"], anonymous["approvals"]
    assert other["approvers"] == [other["decided_by"]]
    assert other["requester"] == anonymous["run"]["requester"] != other["decided_by"]
    granted = next(row for row in anonymous["transitions"] if row["trigger"] == "approval:granted")
    assert granted["actor"] == other["decided_by"]
    (effect,) = anonymous["effects"]
    assert effect["approval_id"] == other["request_id"] != real["request_id"]
    assert other["consumed_by"] == f"{effect['key']}#1:{effect['intent_hash']}"


def changed(document, how):
    document = copy.deepcopy(document)
    how(document)
    return replay(document).problems


def transitions(document, task, trigger):
    return [row for row in document["transitions"] if (row["task_id"], row["trigger"]) == (task, trigger)]


class TestWhatDoesNotFit:
    def test_a_transition_that_is_missing(self):
        problems = changed(kept("retried"), lambda document: document["transitions"].pop(4))

        assert any("gaps" in problem for problem in problems)

    def test_a_transition_that_this_release_does_not_know(self):
        def how(document):
            transitions(document, "load", "runtime:completed")[0]["trigger"] = "runtime:other"

        assert any("runtime:other" in problem for problem in changed(kept("succeeded"), how))

    def test_a_state_that_does_not_follow(self):
        def how(document):
            transitions(document, "load", "executor:launched")[0]["from_state"] = "queued"

        assert changed(kept("succeeded"), how)

    def test_a_start_before_what_it_waits_for(self):
        def how(document):
            for row in transitions(document, "load", "runtime:completed"):
                row["at"] = "2001-01-01T00:00:00.000000Z"

        problems = changed(kept("succeeded"), how)

        assert any("did not let it start" in problem for problem in problems)

    def test_a_join_that_means_something_else_now(self):
        def how(document):
            for step in document["definitions"][0]["form"]["steps"]:
                step.pop("join", None)

        problems = changed(kept("continued"), how)

        assert any("clean" in problem and "start" in problem for problem in problems)
        assert any("fingerprint" in problem for problem in problems)

    def test_a_run_that_would_end_otherwise(self):
        problems = changed(kept("rejected"), lambda document: document["run"].update(state="succeeded"))

        assert problems == ("the run is recorded as succeeded, and comes out as failed",)

    def test_an_effect_that_was_not_undone(self):
        def how(document):
            forward = (row for row in document["effects"] if row["kind"] == EffectKind.FORWARD.value)
            next(forward)["state"] = "committed"

        problems = changed(kept("failed_compensated"), how)

        assert any("undo" in problem for problem in problems)
        assert any("compensating" in problem for problem in problems)

    def test_an_acceptance_that_is_missing(self):
        assert changed(kept("accepted"), lambda document: document["acceptances"].clear())

    def test_a_definition_that_cannot_be_read_any_more(self):
        def how(document):
            document["definitions"][0]["form"]["steps"][0]["unheard_of"] = 1

        (problem,) = changed(kept("succeeded"), how)

        assert "cannot be read" in problem

    def test_a_format_of_another_release(self):
        (problem,) = changed(kept("succeeded"), lambda document: document.update(louver_history=2))

        assert "format 2" in problem

    def test_who_asked_is_who_approved(self):
        def how(document):
            document["approvals"][0]["decided_by"] = document["approvals"][0]["requester"]

        assert any("who asked" in problem for problem in changed(kept("approved"), how))
