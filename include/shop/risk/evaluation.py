"""
The fixed set that every model is measured on before it may decide anything: ``evaluation.jsonl``.

One order in each line, with the decision that people agreed on. The set is never changed for a model; its
fingerprint stands beside the figures, so that figures of two models can be compared::

    python -m shop.risk.evaluation
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shop.risk.assessments import RiskModel, assess
from shop.risk.models import MODELS, find_model

__all__ = ["Report", "evaluate", "evaluation_set", "fingerprint"]

_SET = Path(__file__).with_name("evaluation.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    How a model did.

    :param accuracy: part of the orders that it decided as people did.
    :param let_through: orders to decline that it would have accepted; must be none.
    :param sent_to_people: part of the orders that a person has to look at.
    :param fallbacks: orders that it gave no valid answer for.
    """

    model: str
    version: str
    model_fingerprint: str
    set_fingerprint: str
    orders: int
    accuracy: float
    let_through: int
    sent_to_people: float
    fallbacks: int


def evaluation_set() -> list[tuple[Mapping[str, Any], str]]:
    """Orders, each with the decision that people agreed on."""
    lines = _SET.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line]
    return [(row["order"], row["decision"]) for row in rows]


def fingerprint() -> str:
    """SHA-256 of the set."""
    return hashlib.sha256(_SET.read_bytes()).hexdigest()


def evaluate(model: RiskModel) -> Report:
    """Measure the model on the set."""
    cases = evaluation_set()
    found = [(assess(order, model), wanted) for order, wanted in cases]
    return Report(
        model=model.name,
        version=model.version,
        model_fingerprint=model.fingerprint,
        set_fingerprint=fingerprint(),
        orders=len(cases),
        accuracy=sum(one.decision == wanted for one, wanted in found) / len(cases),
        let_through=sum(one.decision == "accept" and wanted == "decline" for one, wanted in found),
        sent_to_people=sum(one.decision == "review" for one, _ in found) / len(cases),
        fallbacks=sum(one.fallback is not None for one, _ in found),
    )


def main() -> None:
    """Print a report for every model."""
    for name in MODELS:
        print(json.dumps(asdict(evaluate(find_model(name)))))


if __name__ == "__main__":
    main()
