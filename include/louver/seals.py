"""
The seal of a finished run: what its chains ended with, and what its rows were (semantics section 1).

A chain tells of its own tail only while its task's record does, and that may be cut with it. So the end of a
run signs both: the ends of all chains, and a digest of each row that is settled then. What goes on afterwards
(a clear, a mark) is told by transitions beyond the seal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from louver.errors import IntegrityError
from louver.ledger.names import Decision, EffectState
from louver.ledger.records import (
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    Record,
    RunRecord,
    TaskRecord,
)
from louver.timestamps import format_utc

__all__ = ["HOLDER", "Ends", "Place", "Seal", "read_seal", "seal_content"]

HOLDER: tuple[str, ...] = ("session", "try_number", "max_tries", "nonce", "process")
"""Fields of a task that say who holds it. Opening it changes them, after its end too, and tells nobody."""

_ENDS = ("version", "head", "side_version", "side_head")

_EFFECT_1 = (
    *("scope", "key", "epoch", "name", "kind", "state", "intent_hash", "task_id", "map_index", "incarnation"),
    *("generation", "session", "process", "ticket", "undo", "undoes", "verify", "on_unknown"),
    *("provider_idempotent", "approval_id", "lease_until", "quiesce_seconds", "started_at", "updated_at"),
    *("commit_sequence", "reason"),
)

# Written out, and by number: a release with more columns adds a layout, and reads older seals as they were
# made. What names the run is in the seal's binding, HOLDER left out, and the ends of chains stand by
# themselves; of a run the count of commits may go on.
_LAYOUT = 1
_LAYOUTS: Mapping[int, Mapping[str, tuple[str, ...]]] = {
    1: {
        "run.origin": (
            *("incarnation", "marker", "definition_name", "definition_version", "definition_fingerprint"),
            *("requester", "created_at"),
        ),
        "run.end": ("state", "reason", "updated_at"),
        "task": (
            *("task_id", "map_index", "incarnation", "generation", "attempt", "failures", "losses", "state"),
            *("failure_kind", "updated_at"),
        ),
        "effect": _EFFECT_1,
        "effect.failed": _EFFECT_1,
        "approval": (
            *("request_id", "sequence", "task_id", "map_index", "generation", "of", "definition_name"),
            *("definition_version", "definition_fingerprint", "payload_fingerprint", "ancestors"),
            *("state_version", "upstream_fingerprint", "approvers", "four_eyes", "requester"),
            *("requested_at", "expires_at", "decision", "decided_by", "decided_at", "consumed_by"),
            "consumed_at",
        ),
        "checkpoint": (*("task_id", "map_index", "generation", "name", "incarnation", "digest", "saved_at"),),
    }
}

_AT_WORK = frozenset({EffectState.STARTED, EffectState.UNKNOWN})

Place = tuple[str, int]
"""Task id and map index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The number and the MAC of the newest row of both chains of a task."""

    version: int
    head: str
    side_version: int
    side_head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """
    What a seal says.

    :param at: when it was made, as :func:`~louver.timestamps.format_utc` writes it; None where an earlier
        release made it, which sealed the ends of chains alone.
    :param marked: whether the run had a marker.
    :param over: whether it was finished.
    :param ends: of the chains of each task.
    """

    at: str | None
    marked: bool
    over: bool
    ends: Mapping[Place, Ends]
    layout: int
    rows: Mapping[tuple[str, tuple[Any, ...]], str] = field(repr=False)

    def keeps(self, part: str, record: Record) -> bool | None:
        """
        Whether the row is as it was sealed; None where it was not sealed.

        :param part: what the row is to the seal: ``run.origin``, ``run.end``, ``task``, ``effect``,
            ``effect.failed``, ``approval`` or ``checkpoint``.
        """
        sealed = self.rows.get((part, self.primary(part, record)))
        return None if sealed is None else sealed == _digest(record, _LAYOUTS[self.layout][part])

    @staticmethod
    def primary(part: str, record: Record) -> tuple[Any, ...]:
        """What tells the row from others of the run."""
        return _primary(part, record)


def seal_content(
    run: RunRecord,
    tasks: Iterable[TaskRecord],
    effects: Iterable[EffectRecord],
    approvals: Iterable[ApprovalRecord],
    checkpoints: Iterable[CheckpointRecord],
    *,
    now: datetime,
) -> dict[str, Any]:
    """
    What the run's seal has to say, as a typed value.

    Sealed are rows that stay as they are unless something goes on in the run: of effects and approvals those
    that nobody works on or may still answer, of checkpoints those of tasks that are over.

    :param tasks: all of the run; read before the others, which a task at work may change meanwhile.
    """
    tasks = list(tasks)
    over = {(task.task_id, task.map_index) for task in tasks if task.state.terminal}
    sealed: list[tuple[str, Record]] = [("run.origin", run), ("run.end", run)]
    sealed += [("task", task) for task in tasks]
    sealed += [(_part_of(effect), effect) for effect in effects if effect.state not in _AT_WORK]
    sealed += [("approval", asked) for asked in approvals if asked.decision is not Decision.PENDING]
    sealed += [("checkpoint", saved) for saved in checkpoints if (saved.task_id, saved.map_index) in over]
    fields = _LAYOUTS[_LAYOUT]
    return {
        "at": format_utc(now),
        "layout": _LAYOUT,
        "marked": run.marker is not None,
        "over": run.state.terminal,
        "tasks": [[task.task_id, task.map_index, *(getattr(task, name) for name in _ENDS)] for task in tasks],
        "rows": [[part, list(_primary(part, row)), _digest(row, fields[part])] for part, row in sealed],
    }


def _part_of(effect: EffectRecord) -> str:
    # A failed one another run may begin again; then it is that run's.
    return "effect.failed" if effect.state is EffectState.FAILED else "effect"


def read_seal(content: Any) -> Seal:
    """
    The seal behind its content.

    :raises IntegrityError: where it is none, or one of a later release.
    """
    try:
        seal = Seal(
            at=content.get("at"),
            marked=content.get("marked", True),
            over=content.get("over", True),
            ends={
                (task_id, map_index): Ends(**dict(zip(_ENDS, ends, strict=True)))
                for task_id, map_index, *ends in content["tasks"]
            },
            layout=content.get("layout", _LAYOUT),
            rows={(part, tuple(primary)): digest for part, primary, digest in content.get("rows", ())},
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise IntegrityError("it says what no release writes into a seal") from None
    if seal.layout not in _LAYOUTS:
        raise IntegrityError(f"its layout is {seal.layout}; this release reads up to {_LAYOUT}")
    return seal


def _primary(part: str, record: Record) -> tuple[Any, ...]:
    """What tells the row from others of the run."""
    if part in ("run.origin", "run.end"):
        return ()
    return tuple(getattr(record, name) for name in record.PRIMARY if name not in ("dag_id", "run_id"))


def _digest(record: Record, names: Iterable[str]) -> str:
    told = [getattr(record, name) for name in names]
    return hashlib.sha256(json.dumps(told, default=_told, separators=(",", ":")).encode("ascii")).hexdigest()


def _told(value: Any) -> Any:
    return format_utc(value) if isinstance(value, datetime) else repr(value)
