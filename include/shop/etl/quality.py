"""
The quality gate: a batch with too much wrong in it waits for a person.

What a person has looked at once is not asked again: the review is kept by the content of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from louver.canonical import fingerprint
from louver.effects import Verification
from louver.results import NodeResult
from shop.etl.warehouse import transaction

if TYPE_CHECKING:
    from louver.compensation import Undo
    from louver.context import TaskContext

__all__ = [
    "MOST_BROKEN",
    "accept",
    "find_review",
    "quality_gate",
    "release",
    "review_intent",
    "sign_off",
    "withdraw",
]

Data = dict[str, Any]

MOST_BROKEN = 0.05
"""Part of a file's rows that may be broken before a person looks at it."""


def quality_gate(checked: list[Data]) -> str:
    """Which way the batch goes: ``accept`` or ``review``."""
    return "review" if any(_suspicious(partition) for partition in checked) else "accept"


def _suspicious(partition: Data) -> bool:
    if partition["reviewed"]:
        return False
    good, broken = int(partition["good"]), int(partition["broken"])
    return partition["state"] != "ok" or broken > MOST_BROKEN * (good + broken)


def accept(checked: list[Data]) -> list[Data]:
    """What may be loaded: what can be read."""
    return [partition for partition in checked if partition["state"] == "ok"]


def review_intent(checked: list[Data]) -> Data:
    """What a person is shown, and what ``sign_off`` then does: it lets exactly this content pass."""
    shown = ("day", "region", "content_hash", "state", "good", "broken", "duplicates", "reasons")
    return {"partitions": [{name: partition[name] for name in shown} for partition in checked]}


def sign_off(ctx: TaskContext, checked: list[Data]) -> list[Data]:
    """Keep that the batch was approved; withdrawn where the run does not succeed."""
    intent = review_intent(checked)
    ctx.effect(
        "sign_off",
        key=f"review:{fingerprint(intent)}",
        scope="global",
        intent=intent,
        perform=lambda key: _keep(key, intent["partitions"]),
        compensate=withdraw,
        verify=find_review,
        provider_idempotent=True,
    )
    return accept(checked)


def release(ways: Sequence[NodeResult]) -> list[Data]:
    """
    The partitions that go on, whichever way the gate chose.

    :param ways: ``accept`` first: where a run is repeated, that is the newer one, since a review is asked for
        once.
    """
    released: list[Data] = next(way.unwrap() for way in ways if way.ok)
    return released


def _keep(key: str, partitions: Sequence[Data]) -> Data:
    with transaction() as warehouse:
        warehouse.executemany(
            "INSERT OR IGNORE INTO reviewed VALUES (?, ?, ?, ?)",
            ((key, each["day"], each["region"], each["content_hash"]) for each in partitions),
        )
    return {"partitions": len(partitions)}


def withdraw(undo: Undo) -> Data:
    """Undo of ``sign_off``."""
    with transaction() as warehouse:
        withdrawn = warehouse.execute("DELETE FROM reviewed WHERE key = ?", (undo.effect_key,)).rowcount
    return {"partitions": withdrawn}


def find_review(key: str) -> Verification:
    """Whether a review was kept under ``key``."""
    with transaction() as warehouse:
        (count,) = warehouse.execute("SELECT count(*) FROM reviewed WHERE key = ?", (key,)).fetchone()
    return Verification.committed({"partitions": count}) if count else Verification.absent()
