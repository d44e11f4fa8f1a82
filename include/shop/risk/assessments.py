"""
What a model's answer must look like to be believed, and what happens where it does not.

An answer that breaks the form is never repaired: the order goes to a person, and the assessment says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    "DECISIONS",
    "REVIEW",
    "Assessment",
    "InvalidAnswer",
    "RiskModel",
    "assess",
    "read_answer",
]

ACCEPT, REVIEW, DECLINE = "accept", "review", "decline"

DECISIONS = (ACCEPT, REVIEW, DECLINE)
"""``accept``: charge without asking. ``review``: a person decides. ``decline``: the order is refused."""


class InvalidAnswer(ValueError):
    """The model's answer breaks the form; the text names the member, never its value."""


class RiskModel(Protocol):
    """
    What a model is to the shop: rules, weights in a file, or something behind a network.

    ``prompt_version`` is None where there is no prompt.
    """

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def version(self) -> str:
        """Its version."""

    @property
    def prompt_version(self) -> str | None:
        """The version of its prompt."""

    @property
    def fingerprint(self) -> str:
        """Hash of what it decides by: two models that differ have another one."""

    def answer(self, order: Mapping[str, Any]) -> Any:
        """
        What it says about an order: ``{"decision": ..., "score": ...}``, if all is well.

        :param order: ``amount`` (decimal text) and ``items`` (``sku``, ``quantity``).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """
    What is known about an order's risk, and how.

    :param decision: one of :data:`DECISIONS`.
    :param score: 0 (harmless) to 1; None where the model gave none that can be believed.
    :param fallback: why the model's answer was not taken; None where it was.
    """

    decision: str
    score: float | None
    model: str
    model_version: str
    model_fingerprint: str
    prompt_version: str | None
    fallback: str | None = None


def read_answer(answer: Any) -> tuple[str, float]:
    """
    Decision and score of an answer, read strictly.

    :raises InvalidAnswer: where a member is missing, unknown, of another type or out of range.
    """
    if not isinstance(answer, Mapping):
        raise InvalidAnswer("it is no object")
    unknown = set(answer) - {"decision", "score"}
    if unknown:
        raise InvalidAnswer(f"it has {len(unknown)} unknown members")
    decision, score = answer.get("decision"), answer.get("score")
    if not isinstance(decision, str) or decision not in DECISIONS:
        raise InvalidAnswer("its decision is none of the known ones")
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise InvalidAnswer("its score is no number")
    if not math.isfinite(score) or not 0 <= score <= 1:
        raise InvalidAnswer("its score is not from 0 to 1")
    return decision, float(score)


def assess(order: Mapping[str, Any], model: RiskModel) -> Assessment:
    """
    Ask the model; a person is to look where it does not give an answer that can be believed.

    :param order: see :meth:`RiskModel.answer`.
    """
    decision: str
    score: float | None
    fallback: str | None = None
    try:
        decision, score = read_answer(model.answer(order))
    except InvalidAnswer as error:
        decision, score, fallback = REVIEW, None, f"invalid answer: {error}"
    except Exception as error:
        decision, score, fallback = REVIEW, None, f"the model failed: {type(error).__name__}"
    return Assessment(
        decision=decision,
        score=score,
        model=model.name,
        model_version=model.version,
        model_fingerprint=model.fingerprint,
        prompt_version=model.prompt_version,
        fallback=fallback,
    )
