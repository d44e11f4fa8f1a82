"""Risk models: their form, their fixed evaluation set, and what a bad answer leads to (row O11)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shop.reviewed import WAYS, route
from shop.risk.assessments import DECISIONS, InvalidAnswer, assess, read_answer
from shop.risk.evaluation import evaluate, evaluation_set, fingerprint
from shop.risk.models import MODELS, UnknownModel, find_model

ORDER = {"amount": "129.90", "items": [{"sku": "mug-blue", "quantity": 2}]}


class Talking:
    """A model that answers as it is told, or breaks."""

    name, version, prompt_version, fingerprint = "talking", "7", "prompt-3", "f" * 64

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def answer(self, order: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


BAD = {
    "no object": "accept",
    "no decision": {"score": 0.1},
    "unknown decision": {"decision": "probably fine", "score": 0.1},
    "no score": {"decision": "accept"},
    "a text": {"decision": "accept", "score": "0.1"},
    "a bool": {"decision": "accept", "score": True},
    "not a number": {"decision": "accept", "score": math.nan},
    "out of range": {"decision": "accept", "score": 1.5},
    "something more": {"decision": "accept", "score": 0.1, "reason": "customer-77 is nice"},
    "nothing": None,
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
def test_an_answer_that_breaks_the_form_goes_to_a_person(answer: Any) -> None:
    with pytest.raises(InvalidAnswer):
        read_answer(answer)
    found = assess(ORDER, Talking(answer))
    assert (found.decision, found.score) == ("review", None)
    assert (found.fallback or "").startswith("invalid answer: ")
    assert "customer-77" not in (found.fallback or "")
    assert (found.model, found.model_version, found.prompt_version) == ("talking", "7", "prompt-3")


def test_a_model_that_breaks_sends_the_order_to_a_person_and_tells_no_payload() -> None:
    found = assess(ORDER, Talking(RuntimeError("no route to customer-77")))
    assert (found.decision, found.fallback) == ("review", "the model failed: RuntimeError")


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_good_answer_is_taken(decision: str) -> None:
    found = assess(ORDER, Talking({"decision": decision, "score": 1}))
    assert (found.decision, found.score, found.fallback) == (decision, 1.0, None)


# What each model has shown on the fixed set; another model, or other weights, have to show their own.
SHOWN = {"logistic": (0.83, "ceef828e2071"), "rules": (0.79, "4d0673b277f2")}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_measured_on_the_fixed_set(name: str) -> None:
    report = evaluate(find_model(name))
    accuracy, shown = SHOWN[name]
    assert report.set_fingerprint[:12] == fingerprint()[:12] == "4b9a46f47f12"
    assert (round(report.accuracy, 2), report.model_fingerprint[:12]) == (accuracy, shown)
    assert report.let_through == report.fallbacks == 0
    assert report.sent_to_people < 0.5


def test_the_set_has_all_decisions() -> None:
    assert {decision for _, decision in evaluation_set()} == set(DECISIONS)


def test_a_model_that_nobody_knows_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownModel, match="no risk model 'oracle'; choose one of logistic, rules"):
        find_model("oracle")


@pytest.mark.parametrize("decision", [None, "", "accepted", "ACCEPT", 1, ["accept"]])
def test_a_decision_that_is_not_known_goes_the_safe_way(decision: Any) -> None:
    assert route({"decision": decision}) == "manual_review"
    assert route({}) == "manual_review"
    assert {route({"decision": known}) for known in DECISIONS} == set(WAYS.values())
