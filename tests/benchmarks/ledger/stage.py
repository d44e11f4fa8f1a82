"""Runs and tasks for the operations to work on, each with an id of its own."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

from louver.canonical import fingerprint
from louver.ledger.contract import Ledger
from louver.ledger.names import OnUnknown, RunKey, TaskKey, Token
from louver.ledger.requests import EffectRequest, RunStart
from louver.liveness import LocalProcesses
from louver.sessions import Claim
from louver.states import Source
from louver.testing.scene import LAUNCHED

__all__ = ["INTENT", "RESULT", "Stage", "effect_key"]

INTENT: dict[str, Any] = {"order": "o-4711", "amount": 1250, "currency": "EUR"}
"""What a charge of usual size wants."""

RESULT: dict[str, Any] = {"receipt": "r-4711", "amount": 1250, "currency": "EUR"}
"""What comes of it."""


class Stage:
    """
    Sets up what an operation needs, outside of what is measured.

    :param ledger: that all of it is in.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.processes = LocalProcesses()
        self._process = self.processes.name()
        self._intent_hash = fingerprint(INTENT)

    def now(self) -> datetime:
        """The current time, aware UTC."""
        return datetime.now(timezone.utc)

    def run(self) -> RunKey:
        """A new run."""
        key = RunKey("bench", f"run-{uuid4().hex}")
        start = RunStart(
            key=key,
            definition_name="bench",
            definition_version="1",
            definition_fingerprint=fingerprint("bench"),
            definition={"name": "bench", "steps": ["step"]},
        )
        self.ledger.open_run(start, now=self.now())
        return key

    def task(self, run: RunKey | None = None) -> Token:
        """A new task at running, in a new run where none is given."""
        run = run or self.run()
        claim = Claim(try_number=1, max_tries=3, process=self._process, source=Source.WORKER)
        key = TaskKey(run.dag_id, run.run_id, f"step-{uuid4().hex[:12]}")
        token = self.ledger.open_task(key, claim, now=self.now()).token
        self.ledger.advance(token, LAUNCHED, now=self.now())
        return token

    def request(self, token: Token, number: int) -> EffectRequest:
        """An effect of that task that wants to begin, as :func:`louver.effects.run_effect` would ask."""
        return EffectRequest(
            scope=f"dag:{token.key.dag_id}",
            key=effect_key(token, number),
            name="charge",
            intent=INTENT,
            intent_hash=self._intent_hash,
            undo="shop.payments.refund",
            on_unknown=OnUnknown.MANUAL,
            provider_idempotent=False,
            lease_until=self.now() + timedelta(seconds=60),
            quiesce_seconds=30.0,
        )


def effect_key(token: Token, number: int) -> str:
    """A key of the form that an effect has where its author gives none, with a number."""
    return f"{token.key.run_id}::{token.key.task_id}::-1::charge-{number}"
