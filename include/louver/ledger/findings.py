"""What verifying, collecting garbage and cleaning come to: ids, hashes and states, never payload."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from louver.ledger.records import EffectRecord

__all__ = ["Checked", "Cleaned", "Finding", "Orphan", "OrphanPage", "StandingPage", "Verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    A row that is not as it was written, or that is missing.

    :param table: of it, without the prefix that all tables of the ledger have.
    :param chain: of a transition: ``main`` or ``side``.
    :param version: of a transition: its number in that chain.
    :param key: what names it within the run or the ledger, where that is neither task nor chain.
    :param what: is wrong.
    """

    table: str
    what: str
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int = -1
    chain: str | None = None
    version: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        index = f"[{self.map_index}]" if self.map_index != -1 else ""
        task = f"{self.task_id}{index}" if self.task_id is not None else None
        place = "/".join(str(part) for part in (self.dag_id, self.run_id, task) if part is not None)
        row = " ".join(str(part) for part in (self.chain, self.version, self.key) if part is not None)
        return f"{' '.join(filter(None, (self.table, place, row)))}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How many rows were looked at."""

    runs: int = 0
    tasks: int = 0
    transitions: int = 0
    seals: int = 0
    effects: int = 0
    approvals: int = 0
    checkpoints: int = 0
    events: int = 0
    payloads: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(
            **{
                entry.name: getattr(self, entry.name) + getattr(other, entry.name)
                for entry in fields(Checked)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    What looking at some rows has shown.

    :param findings: what is broken, in the order in which it was met.
    :param checked: how many rows were looked at, up to the last finding that was wanted.
    :param signed: whether keys are configured; without any, all this protects against accidents alone.
    :param after: where to go on, for what goes by pages; None at the end.
    """

    findings: tuple[Finding, ...]
    checked: Checked
    signed: bool
    after: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """
    A payload that no row refers to.

    :param size: bytes of its envelope.
    """

    payload_id: str
    size: int
    saved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanPage:
    """
    The orphans among some payloads.

    :param after: where to go on; None at the end.
    """

    orphans: tuple[Orphan, ...]
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """
    What cleaning a run removes, or would remove.

    :param kept: why the run stays, where it does; then nothing of it is removed.
    :param standing: effects that stay, since their key guards beyond the run.
    """

    dag_id: str
    run_id: str
    kept: str | None = None
    tasks: int = 0
    transitions: int = 0
    checkpoints: int = 0
    effects: int = 0
    standing: int = 0
    approvals: int = 0
    commands: int = 0
    events: int = 0
    payloads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPage:
    """
    Effects that have outlived their run, for what their key guards.

    :param after: where to go on; None at the end.
    """

    effects: tuple[EffectRecord, ...]
    after: tuple[Any, ...] | None
