"""What every check of the store contract plays in: a run of its own, and a clock of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import wraps
from typing import Any
from uuid import uuid4

from louver.approvals import Answer
from louver.canonical import fingerprint
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, EffectKind, OnUnknown, RunKey, TaskKey, Token, Verb
from louver.ledger.records import ApprovalRecord, CommandRecord, EffectRecord, RunRecord, TransitionRecord
from louver.ledger.requests import (
    ApprovalRequest,
    BeginOutcome,
    Capability,
    CommandRequest,
    EffectRequest,
    OpenedTask,
    RunStart,
)
from louver.sessions import Change, Claim
from louver.states import FailureKind, Source, TaskState
from louver.testing.judge import ContractBroken, Judge

__all__ = [
    "COMPLETED",
    "ERROR",
    "FAILED",
    "LAUNCHED",
    "PARKED",
    "RESUMED",
    "Check",
    "OpenLedger",
    "Scene",
    "check",
]

OpenLedger = Callable[[], Ledger]
"""Opens a handle on the store under test; see :func:`louver.testing.run_contract`."""

Check = Callable[[OpenLedger], None]
"""Proves one meaning of one operation, or raises :class:`~louver.testing.judge.ContractBroken`."""

LAUNCHED = Change(to=TaskState.RUNNING, trigger="executor:launched")
COMPLETED = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
FAILED = Change(to=TaskState.FAILED, trigger="runtime:error", failure_kind=FailureKind.EXCEPTION)
ERROR = Change(to=TaskState.RETRY_WAIT, trigger="runtime:error", failure_kind=FailureKind.EXCEPTION)
PARKED = Change(to=TaskState.PAUSED, trigger="approval:requested")
RESUMED = Change(to=TaskState.RUNNING, trigger="user:resume")

_INTENT: dict[str, Any] = {"amount": 5}


def check(body: Callable[[Scene], None]) -> Check:
    """Turn a body that plays in a :class:`Scene` into a check that takes the store alone."""
    name = body.__name__

    @wraps(body)
    def prove(open_ledger: OpenLedger) -> None:
        try:
            body(Scene(name=name, open_ledger=open_ledger))
        except ContractBroken:
            raise
        except Exception as error:
            raise ContractBroken(name, f"unexpected {type(error).__name__}: {error}") from error

    return prove


class Scene(Judge):
    """
    One check at work in the store under test.

    Every id in it is new, so checks may share a store with each other and with what is in it already.

    :param name: of the check, for complaints.
    :param open_ledger: opens a handle on the store.
    """

    def __init__(self, *, name: str, open_ledger: OpenLedger) -> None:
        super().__init__(name=name)
        self.open_ledger = open_ledger
        self.ledger = open_ledger()
        self.id = uuid4().hex
        self.run = RunKey(f"contract-{self.id}", "run-1")
        self.definition_fingerprint = hashlib.sha256(self.id.encode()).hexdigest()
        self.now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
        self._begun: set[RunKey] = set()

    @contextmanager
    def unchanged(self, what: str) -> Iterator[None]:
        """
        Around what must write nothing about the run.

        :raises ContractBroken: where the run, or anything that belongs to it, has changed.
        """
        before = self._everything()
        yield
        for name, value in self._everything().items():
            self.equal(value, before[name], f"{what}: {name} must be as before")

    def _everything(self) -> dict[str, object]:
        return {
            "the run": self.ledger.get_run(self.run),
            "its tasks": self.ledger.list_tasks(self.run),
            "its transitions": self.ledger.list_transitions(self.run),
            "its effects": self.ledger.list_effects(self.run),
            "its approvals": self.ledger.list_approvals(self.run),
            "its commands": self.ledger.list_commands(self.run),
            "its signs of life": self.ledger.list_touches(self.run),
            "its seal": self.ledger.get_seal(self.run),
        }

    def offers(self, capability: Capability) -> bool:
        """Whether the store says that it can do this."""
        return capability in self.ledger.CAPABILITIES

    # Time

    def tick(self, seconds: float = 1) -> datetime:
        """Let time pass, and say what time it is now."""
        self.now += timedelta(seconds=seconds)
        return self.now

    def after(self, seconds: float) -> datetime:
        """The time so much later; it does not become so."""
        return self.now + timedelta(seconds=seconds)

    # Runs and tasks

    def start(self, **changes: Any) -> RunStart:
        """What the run begins with."""
        start = RunStart(
            key=self.run,
            definition_name="contract",
            definition_version="1",
            definition_fingerprint=self.definition_fingerprint,
            definition={"name": "contract", "steps": ["look", "act"]},
            marker="2026-01-02T03:04:05Z",
            requester="ann",
        )
        return replace(start, **changes)

    def begin(self, **changes: Any) -> RunRecord:
        """Open the run."""
        start = self.start(**changes)
        self._begun.add(start.key)
        return self.ledger.open_run(start, now=self.tick())

    def key(self, task_id: str = "act", *, map_index: int = -1) -> TaskKey:
        """Name a task of the run."""
        return TaskKey(self.run.dag_id, self.run.run_id, task_id, map_index)

    def claim(self, *, try_number: int = 1, max_tries: int = 3, nonce: str | None = None) -> Claim:
        """What a process says when it opens a task."""
        return Claim(
            try_number=try_number,
            max_tries=max_tries,
            process=f"host:{try_number}:{max_tries}",
            source=Source.WORKER,
            nonce=nonce,
        )

    def open(
        self,
        task_id: str = "act",
        *,
        map_index: int = -1,
        run: RunKey | None = None,
        try_number: int = 1,
        max_tries: int = 3,
        nonce: str | None = None,
    ) -> OpenedTask:
        """Open a task as a new process would; the run is opened too where it is not yet."""
        place = run or self.run
        if place not in self._begun:
            self.begin(key=place)
        claim = self.claim(try_number=try_number, max_tries=max_tries, nonce=nonce)
        key = TaskKey(place.dag_id, place.run_id, task_id, map_index)
        return self.ledger.open_task(key, claim, now=self.tick())

    def launch(self, task_id: str = "act", **given: Any) -> Token:
        """Open a task and bring it to running."""
        token = self.open(task_id, **given).token
        self.ledger.advance(token, LAUNCHED, now=self.tick())
        return token

    def succeed(self, task_id: str = "act", result: Any = None, **given: Any) -> Token:
        """Bring a task to its committed result."""
        token = self.launch(task_id, **given)
        self.ledger.complete(token, COMPLETED, result, now=self.tick())
        return token

    def told(self, task_id: str = "act", *, chain: str = "main") -> list[TransitionRecord]:
        """The rows of one chain of a task, in their order."""
        rows = self.ledger.list_transitions(self.run, task_id=task_id)
        return sorted((row for row in rows if row.chain == chain), key=lambda row: row.version)

    # Effects

    def effect(self, key: str = "pay", *, intent: Any = _INTENT, **changes: Any) -> EffectRequest:
        """An effect that wants to begin, its key unique within this Dag."""
        request = EffectRequest(
            scope=f"dag:{self.run.dag_id}",
            key=key,
            name="pay",
            intent=intent,
            intent_hash=fingerprint(intent),
            undo="contract.refund",
            verify="contract.look_up",
            on_unknown=OnUnknown.MANUAL,
            provider_idempotent=True,
            lease_until=self.after(60),
            quiesce_seconds=30.0,
        )
        return replace(request, **changes)

    def undo_of(self, effect: EffectRecord) -> EffectRequest:
        """The undo of an effect."""
        return self.effect(
            f"undo:{effect.reference}", kind=EffectKind.UNDO, undo=None, undoes=effect.reference
        )

    def started(self, token: Token, key: str = "pay", **changes: Any) -> EffectRecord:
        """Begin an effect, which must be possible."""
        begun = self.ledger.begin_effect(token, self.effect(key, **changes), now=self.tick())
        self.equal(begun.outcome, BeginOutcome.BEGUN, f"effect {key} can begin")
        return begun.record

    def committed(
        self, token: Token, key: str = "pay", *, result: Any = "receipt", **changes: Any
    ) -> EffectRecord:
        """Begin an effect and commit it."""
        record = self.started(token, key, **changes)
        return self.ledger.commit_effect(token, record, result, now=self.tick())

    def lost(self, token: Token, key: str = "pay", **changes: Any) -> EffectRecord:
        """Begin an effect, and let nobody know what became of it."""
        record = self.started(token, key, **changes)
        lost = self.ledger.lose_effect(record, reason="its process is dead", now=self.tick())
        return self.found(lost, "a started effect can be lost")

    def undone(self, token: Token, key: str = "pay") -> EffectRecord:
        """Begin an effect, commit it and undo it."""
        original = self.committed(token, key)
        undo = self.ledger.begin_effect(token, self.undo_of(original), now=self.tick()).record
        self.ledger.commit_effect(token, undo, None, now=self.tick())
        return self.current(original)

    def current(self, effect: EffectRecord) -> EffectRecord:
        """The effect's newest epoch, read again."""
        return self.found(self.ledger.get_effect(effect.scope, effect.key), f"effect {effect.key}")

    # Approvals

    def question(self, number: int = 1, **changes: Any) -> ApprovalRequest:
        """A request for a decision about the effect that :meth:`effect` describes."""
        request = ApprovalRequest(
            request_id=f"{self.id}-{number}",
            of="act",
            payload=_INTENT,
            payload_fingerprint=fingerprint(_INTENT),
            ancestors=("look",),
            approvers=("ann", "bob"),
            four_eyes=False,
            expires_at=self.after(3600),
        )
        return replace(request, **changes)

    def ask(self, token: Token, number: int = 1, **changes: Any) -> ApprovalRecord:
        """Park a running task with a request."""
        asked, _ = self.ledger.park(
            token, PARKED, nonce=f"nonce-{number}", request=self.question(number, **changes), now=self.tick()
        )
        return asked

    def ask_again(self, asked: ApprovalRecord, number: int, **changes: Any) -> ApprovalRecord:
        """Resume the parked task, and park it with another request."""
        held = self.ledger.get_task(asked.task)
        nonce = held.nonce if held is not None else None
        token = self.open(asked.task_id, nonce=nonce).token
        self.ledger.advance(token, RESUMED, now=self.tick())
        return self.ask(token, number, **changes)

    def approved(self, number: int = 1, **changes: Any) -> ApprovalRecord:
        """Ask by a task of its own, and let bob approve."""
        asked = self.ask(self.launch(f"approve-{number}"), number, **changes)
        return self.decide(asked)

    def decide(
        self, asked: ApprovalRecord, decision: Decision = Decision.APPROVED, *, by: str | None = "bob"
    ) -> ApprovalRecord:
        """Answer a request."""
        answer = Answer(decision=decision, by=by)
        return self.ledger.decide_approval(asked.request_id, answer, now=self.tick())

    # Commands

    def command(self, number: int = 1, verb: Verb = Verb.PAUSE, **changes: Any) -> CommandRequest:
        """What somebody wants of the task ``act``; its number names it within the check."""
        request = CommandRequest(
            command_id=f"{self.id}-{number}",
            task=self.key(),
            verb=verb,
            actor="ann",
            reason="not now",
            source=Source.CLI,
        )
        return replace(request, **changes)

    def send(self, number: int = 1, verb: Verb = Verb.PAUSE, **changes: Any) -> CommandRecord:
        """Send a command."""
        return self.ledger.send_command(self.command(number, verb, **changes), now=self.tick())

    def take_up(self, token: Token, *, limit: int = 100, seconds: float = 60) -> tuple[CommandRecord, ...]:
        """Claim the open commands of the token's task, for so long."""
        now = self.tick()
        return self.ledger.claim_commands(token, limit=limit, lease_until=self.after(seconds), now=now)

    def commanded(self, token: Token, number: int = 1, verb: Verb = Verb.PAUSE) -> CommandRecord:
        """Send a command to the token's task and take it up; no other must be open."""
        self.send(number, verb, task=token.key)
        found = self.take_up(token)
        self.equal(len(found), 1, "how many commands can be taken up")
        return found[0]
