"""
The models: fixed rules, and a small logistic regression whose weights stand in ``logistic.json``.

Which one assesses an order is a parameter of the run. A model is chosen by name, so that a run says which
one it was, and a name that nobody knows is an error before anything is done.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from shop.risk.assessments import RiskModel

__all__ = ["MODELS", "LogisticModel", "RuleModel", "UnknownModel", "features", "find_model"]

_WEIGHTS = Path(__file__).with_name("logistic.json")

_DECLINE_FROM = 0.8
_REVIEW_FROM = 0.35


class UnknownModel(ValueError):
    """No model of this name."""


def features(order: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that models look at; money as its logarithm, since ten times more is one step."""
    items = order["items"]
    quantities = [int(item["quantity"]) for item in items]
    return {
        "log_amount": math.log10(1 + float(Decimal(order["amount"]))),
        "lines": float(len(items)),
        "largest_quantity": math.log10(1 + max(quantities, default=0)),
    }


def decide(score: float) -> str:
    """The decision that a score stands for."""
    return "decline" if score >= _DECLINE_FROM else "review" if score >= _REVIEW_FROM else "accept"


@dataclass(frozen=True, slots=True)
class RuleModel:
    """Fixed rules, as a person would write them down."""

    name: str = "rules"
    version: str = "1"
    prompt_version: str | None = None

    @property
    def fingerprint(self) -> str:
        """Of its name and version: its rules are code."""
        return hashlib.sha256(f"{self.name}:{self.version}".encode()).hexdigest()

    def answer(self, order: Mapping[str, Any]) -> Any:
        """By amount, largest quantity and number of lines."""
        amount = Decimal(order["amount"])
        largest = max((int(item["quantity"]) for item in order["items"]), default=0)
        score = 0.6 if amount >= 5000 else 0.4 if amount >= 1000 else 0.2 if amount >= 250 else 0.0
        score += 0.3 if largest >= 50 else 0.0
        score += 0.2 if len(order["items"]) >= 20 else 0.0
        score = min(score, 1.0)
        return {"decision": decide(score), "score": score}


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """
    A logistic regression over :func:`features`.

    :param weights: by feature, and ``bias``.
    """

    weights: Mapping[str, float]
    version: str
    name: str = "logistic"
    prompt_version: str | None = None

    @property
    def fingerprint(self) -> str:
        """Of its weights."""
        return hashlib.sha256(json.dumps(dict(self.weights), sort_keys=True).encode()).hexdigest()

    def answer(self, order: Mapping[str, Any]) -> Any:
        """The probability that the order is one to decline."""
        given = features(order)
        sum_ = self.weights["bias"] + sum(self.weights[name] * value for name, value in given.items())
        score = 1 / (1 + math.exp(-sum_))
        return {"decision": decide(score), "score": round(score, 6)}


@cache
def _logistic() -> LogisticModel:
    content = json.loads(_WEIGHTS.read_text(encoding="utf-8"))
    return LogisticModel(weights=content["weights"], version=content["version"])


MODELS = ("logistic", "rules")
"""Names to choose from."""


def find_model(name: str) -> RiskModel:
    """
    The model of that name.

    :raises UnknownModel: naming those there are.
    """
    if name == "rules":
        return RuleModel()
    if name == "logistic":
        return _logistic()
    raise UnknownModel(f"there is no risk model {name!r}; choose one of {', '.join(MODELS)}")
