"""Resources with limits, and those who stand in line for them, for the checks about permits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from louver.ledger.names import RunKey, Token
from louver.ledger.permit_contract import Settled
from louver.ledger.records import PermitRecord
from louver.semaphores import PermitTerms, ResourceLimit, Stage
from louver.testing.scene import Scene

__all__ = ["TERMS", "Line", "limit_of"]

TERMS = PermitTerms(lease=timedelta(seconds=60), grant_ttl=timedelta(seconds=90))
"""Of all these checks."""


class Line:
    """A resource that no other check has, and those who want it."""

    def __init__(self, scene: Scene, **limits: ResourceLimit) -> None:
        self.scene = scene
        self.limits = {self.name(key): self.of(key, limit) for key, limit in limits.items()}

    def name(self, key: str) -> str:
        """The resource that the check calls so."""
        return f"{self.scene.id}-{key}"

    def of(self, key: str, limit: ResourceLimit) -> ResourceLimit:
        """The limit, under that name."""
        return ResourceLimit(resource=self.name(key), limit=limit.limit, rate=limit.rate)

    def needs(self, **units: int) -> Mapping[str, int]:
        """What somebody needs."""
        return {self.name(key): number for key, number in units.items()}

    def take(self, token: Token, *, priority: int = 1, **units: int) -> PermitRecord | None:
        """Ask for it."""
        scene = self.scene
        return scene.ledger.take_permit(
            token,
            self.needs(**units),
            limits=self.limits,
            priority=priority,
            terms=TERMS,
            now=scene.tick(),
        )

    def taken(self, token: Token, *, priority: int = 1, **units: int) -> Stage:
        """Ask for it, and say how one stands then."""
        return self.scene.found(self.take(token, priority=priority, **units), "a permit").stage

    def give(self, token: Token) -> Settled | None:
        """Give it back."""
        scene = self.scene
        return scene.ledger.release_permit(token.key, session=token.session, terms=TERMS, now=scene.tick())

    def settle(self) -> None:
        """Do what time has brought."""
        scene = self.scene
        scene.ledger.settle_permits(limits=self.limits, terms=TERMS, now=scene.now)

    def stands(self) -> dict[str, Stage]:
        """Who has a place, by task and run."""
        return {
            f"{row.run_id}/{row.task_id}": row.stage
            for row in self.scene.ledger.list_permits()
            if row.dag_id == self.scene.run.dag_id
        }

    def crowd(self, count: int) -> list[Token]:
        """So many tasks, each of a run of its own."""
        dag = self.scene.run.dag_id
        return [self.scene.launch("act", run=RunKey(dag, f"run-{number}")) for number in range(count)]


def limit_of(text: str | int) -> ResourceLimit:
    if isinstance(text, int):
        return ResourceLimit.checked("any", limit=text)
    return ResourceLimit.checked("any", rate=text)
