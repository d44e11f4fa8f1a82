"""
Pure: what the ledger says of a task, what the platform shows of it and the time in; repairs out (section 9).

Nobody is taken for dead by a heartbeat alone (row T14). A process is lost where its death is proven, or where
the platform has given it up and its time to be killed in is over. What a process can still say itself, it
says itself: the reconciler waits for that, and whoever writes first wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from louver.control import ENDING, is_pause
from louver.errors import TimeoutReached
from louver.ledger.names import TaskKey, Verb
from louver.ledger.records import ApprovalRecord, CommandRecord, TaskRecord, TouchRecord
from louver.nodes import Node
from louver.policies import INFRASTRUCTURE_BUDGET, decide_retry
from louver.repairs import (
    Chain,
    CloseCommand,
    Deliver,
    EndOnPlatform,
    Expire,
    Mark,
    PassAnswerOn,
    WakeExpired,
)
from louver.sessions import Change
from louver.sightings import CLEARED, Shown, Sighting, missed_change, occupies, skipped_anew, was_cleared
from louver.states import FailureKind, Precision, TaskState
from louver.supervision import ControlSettings
from louver.timeouts import Overrun, first_overrun, start_overrun

__all__ = ["Patience", "TaskFacts", "Witness", "close_of_whole_step", "decide_task", "state_after"]

_KILLED_WITHIN = timedelta(seconds=30)
_EXPIRED_FOR = timedelta(seconds=30)
_SENDER = timedelta(seconds=5)

_NO_REACTION = "it was asked to stop and does not react"

_REFUSED = frozenset({TaskState.FAILED, TaskState.STOPPED, TaskState.LOST, TaskState.CANCELLED})

_TO_QUEUED = {
    TaskState.PENDING: "orchestrator:dependencies_resolved",
    TaskState.BLOCKED: "orchestrator:dependencies_resolved",
    TaskState.RETRY_WAIT: "policy:retry_due",
    TaskState.PAUSED: "user:resume",
}


class Witness(Protocol):
    """What is asked only where there is a doubt, since finding out takes time."""

    def proves_dead(self, process: str) -> bool:
        """Whether it is certain that the process acts no more."""

    def ran(self, record: TaskRecord) -> timedelta:
        """How long user code of the task's present attempt has run up to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """
    How long to wait for those whose business it is.

    :param silence: a process that gave no sign of life for so long is looked into.
    :param stop_grace: how long a stop or a limit may take to be seen by the process.
    :param killed_within: after the platform gave a task up, how long its process may still be on its way out.
    :param sender: how long who sent a command to a parked task may take to wake it.
    :param expired_for: how late the platform's own time-out of a park may be.
    """

    silence: timedelta
    stop_grace: timedelta
    killed_within: timedelta
    sender: timedelta
    expired_for: timedelta

    @classmethod
    def of(cls, control: ControlSettings, *, resume_guard: timedelta) -> Patience:
        """What goes with these settings."""
        return cls(
            silence=2 * control.heartbeat_interval + control.control_interval,
            stop_grace=control.stop_grace,
            killed_within=control.stop_grace + _KILLED_WITHIN,
            sender=resume_guard + control.control_interval + _SENDER,
            expired_for=_EXPIRED_FOR,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """
    One task, as both sides tell it. The platform was read first, so the ledger is never the older one.

    :param record: None where the ledger has none.
    :param commands: open ones, in order of sending.
    :param asked: its request without a decision, if it has one.
    :param node: None for a closing task, and for one that the definition does not have.
    """

    key: TaskKey
    record: TaskRecord | None
    seen: Sighting
    touch: TouchRecord | None = None
    commands: tuple[CommandRecord, ...] = ()
    asked: ApprovalRecord | None = None
    node: Node | None = None

    @property
    def state(self) -> TaskState:
        """What the ledger holds."""
        return self.record.state if self.record is not None else TaskState.PENDING

    @property
    def alive_at(self) -> datetime | None:
        """The last sign of life of who holds it."""
        if self.record is None:
            return None
        if self.touch is None or self.touch.session != self.record.session:
            return self.record.updated_at
        return max(self.record.updated_at, self.touch.heartbeat_at)


def decide_task(
    facts: TaskFacts,
    *,
    over: bool,
    explained: bool | None,
    patience: Patience,
    witness: Witness,
    now: datetime,
    fast: bool = False,
) -> list[Chain]:
    """
    What has to be repaired about one task.

    :param over: the platform does nothing more about the run.
    :param explained: see :func:`louver.sightings.explains_skip`.
    :param fast: see :func:`louver.sightings.missed_change`.
    """
    record, seen = facts.record, facts.seen
    if record is not None and record.try_number > seen.try_number and seen.shown is not Shown.GONE:
        # Another process has opened it since the platform was read.
        return []
    case = _Case(
        facts=facts, over=over, explained=explained, fast=fast, patience=patience, witness=witness, now=now
    )
    if record is not None and occupies(record):
        chains = case.held(record)
    elif record is not None and record.state.terminal:
        chains = case.ended(record)
    else:
        chains = case.idle()
    return [chain for chain in (*chains, *case.commands(state_after(facts, chains))) if chain]


def close_of_whole_step(
    commands: Iterable[CommandRecord], states: Collection[TaskState | None]
) -> list[Chain]:
    """
    Close what was asked of a mapped step as a whole, before it had indexes, once all of them are over.

    Each of them has met it as it began; one that a clear brings back is not to.

    :param commands: to map index -1, open ones.
    :param states: of all indexes; None of one that nobody has opened.
    """
    if not all(state is not None and state.terminal for state in states):
        return []
    return [
        (CloseCommand(command=command, carried_out=False, why="each index has met it, and all are over"),)
        for command in commands
    ]


def state_after(facts: TaskFacts, chains: Iterable[Chain]) -> TaskState:
    """The task's state once these repairs have come about."""
    marks = [repair for chain in chains for repair in chain if isinstance(repair, Mark)]
    return marks[-1].changes[-1].to if marks else facts.state


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    facts: TaskFacts
    over: bool
    explained: bool | None
    fast: bool
    patience: Patience
    witness: Witness
    now: datetime

    # A process is inside, says the ledger

    def held(self, record: TaskRecord) -> list[Chain]:
        shown = self.facts.seen.shown
        if shown in (Shown.PARKED, Shown.HELD):
            return []
        if shown is Shown.RUNNING:
            if self._quiet_for() < self.patience.silence:
                return []
            if self._is_dead(record):
                return [(self._given_up(record, dead=True, again=True),)]
            return self._insist(record)
        if shown is Shown.SUCCEEDED:
            return [self._missed()]
        if shown is Shown.NOTHING and not self.over:
            return []
        dead = self._is_dead(record)
        if not dead and self._quiet_for(since_change=True) < self.patience.killed_within:
            return []
        return [(self._given_up(record, dead=dead, again=not (shown.over or self.over)),)]

    def _quiet_for(self, *, since_change: bool = False) -> timedelta:
        signs = [self.facts.alive_at]
        if since_change:
            # Whoever opened it after the platform was read is alive, whatever was read.
            signs.append(self.facts.seen.changed_at)
        return min((self.now - sign for sign in signs if sign is not None), default=timedelta.max)

    def _is_dead(self, record: TaskRecord) -> bool:
        return self.witness.proves_dead(record.process or "")

    def _given_up(self, record: TaskRecord, *, dead: bool, again: bool) -> Mark:
        """Its process is gone: by proof, or since the platform has had time enough to end it."""
        proof = "its process is proven dead" if dead else "nobody can prove that its process ended"
        if record.state is TaskState.STOPPING:
            stop = self._ending()
            ending = ENDING[stop.verb if stop is not None else Verb.STOP]
            to, trigger = ending.to, ending.confirmed
            if not dead:
                to, trigger = (TaskState.LOST, "runtime:grace_used_up")
            actor = stop.actor if stop is not None else None
        else:
            again = again and record.losses < INFRASTRUCTURE_BUDGET
            to, trigger = TaskState.RETRY_WAIT if again else TaskState.LOST, "runtime:attempt_lost"
            actor = None
        reason = f"{proof}; Airflow: {self.facts.seen.said}"
        change = Change(
            to=to,
            trigger=trigger,
            reason=reason,
            actor=actor,
            failure_kind=FailureKind.LOST if to is TaskState.LOST else None,
            precision=Precision.BOUNDED,
        )
        seen = self.facts.seen
        # Airflow has ended what the process was in: a clear that it knew of already is none to come.
        max_tries = max(seen.max_tries, record.max_tries) if seen.shown.over else None
        return self._mark(reason, change, max_tries=max_tries)

    def _insist(self, record: TaskRecord) -> list[Chain]:
        """A process that gives no sign: what its own watch would do, were it not stopped itself."""
        if self.facts.seen.try_number != record.try_number:
            # The silent one is not the one that the platform runs; that one has yet to open the task.
            return []
        if record.state is TaskState.STOPPING:
            if self.now - record.updated_at < self.patience.stop_grace:
                return []
            return [(self._end(None, skipped=self._cancels(), why=_NO_REACTION),)]
        stop = self._ending()
        if stop is not None and self.now - stop.sent_at >= self.patience.stop_grace:
            asked = ENDING[stop.verb].asked
            change = Change(to=TaskState.STOPPING, trigger=asked, actor=stop.actor, reason=stop.reason)
            skipped = self._cancels()
            return [(self._mark(_NO_REACTION, change), self._end(None, skipped=skipped, why=_NO_REACTION))]
        overrun = self._overrun(record)
        if overrun is None or self.facts.node is None:
            return []
        why = f"{overrun}; it does not react, so Airflow ends its process"
        error = TimeoutReached(why, overrun=overrun)
        decision = decide_retry(
            self.facts.node.retry, error, failures=record.failures + 1, seed=str(self.facts.key)
        )
        change = Change(
            to=TaskState.RETRY_WAIT if decision.retry else TaskState.FAILED,
            trigger=overrun.trigger,
            reason=f"{decision.kind}: {why}; {decision.reason}",
            failure_kind=decision.kind,
        )
        # Ended first: were only the ledger told, a process that nobody ends would hold its slot for ever.
        return [(self._end(decision.delay if decision.retry else None, why=why), self._mark(why, change))]

    def _overrun(self, record: TaskRecord) -> Overrun | None:
        node = self.facts.node
        if node is None or not node.timeouts.any_while_running:
            return None
        if record.state not in (TaskState.RUNNING, TaskState.PAUSING):
            return None
        quiet = self._quiet_for()
        attempt, grace = node.timeouts.attempt, self.patience.stop_grace
        # While it is silent it makes no checkpoint either, as far as anybody can tell.
        ran = self.witness.ran(record) if attempt is not None else timedelta(0)
        found = first_overrun(node.timeouts, ran=ran, idle=quiet)
        return found if found is not None and found.took - found.limit >= grace else None

    # It is over, says the ledger

    def ended(self, record: TaskRecord) -> list[Chain]:
        seen = self.facts.seen
        if was_cleared(record, seen):
            anew = skipped_anew(record.state, seen, explained=self.explained, fast=self.fast)
            if anew:
                return [(self._mark(anew[-1].reason or seen.said, *anew, max_tries=seen.max_tries),)]
            # Nobody has opened it again yet.
            # Of a run that is over nothing starts, so nothing starts too late.
            return [self._late_to_start(record)] if seen.shown is Shown.WAITING and not self.over else []
        if record.try_number == 0 and (seen.ready_at is None or seen.ready_at > record.updated_at):
            # Ready only since then: a clear may have brought it back, which its own process finds out.
            return []
        if record.state in _REFUSED and seen.shown in (Shown.WAITING, Shown.RETRYING):
            cancelled = record.state is TaskState.CANCELLED
            return [(self._end(None, skipped=cancelled, why=f"it is {record.state} already"),)]
        return []

    # Nobody is inside, says the ledger

    def idle(self) -> list[Chain]:
        seen, record = self.facts.seen, self.facts.record
        # Nothing of a run that is over is begun, woken or tried again.
        if seen.shown.over or (self.over and seen.shown is not Shown.RUNNING):
            return [self._missed()]
        if seen.shown is Shown.PARKED and record is not None:
            return self._parked(record)
        unopened = record is None or record.try_number < seen.try_number
        if seen.shown is Shown.WAITING or (seen.shown is Shown.RUNNING and unopened):
            return [self._late_to_start(record)]
        return []

    def _missed(self) -> Chain:
        seen = self.facts.seen
        if not seen.shown.over:
            seen = Sighting(shown=Shown.SKIPPED, said=f"{seen.said} at the end of the run")
        change = missed_change(self.facts.state, seen, explained=self.explained, fast=self.fast)
        return () if change is None else (self._mark(change.reason or seen.said, change),)

    def _late_to_start(self, record: TaskRecord | None) -> Chain:
        node, seen = self.facts.node, self.facts.seen
        if node is None or seen.ready_at is None:
            return ()
        overrun = start_overrun(node.timeouts, queued_at=seen.ready_at, now=self.now)
        if overrun is None:
            return ()
        state, changes = self.facts.state, []
        if state.terminal:
            changes.append(CLEARED)
            state = TaskState.PENDING
        if state in _TO_QUEUED:
            changes.append(Change(to=TaskState.QUEUED, trigger=_TO_QUEUED[state], at=seen.ready_at))
        changes.append(
            Change(
                to=TaskState.FAILED,
                trigger=overrun.trigger,
                reason=f"{overrun.kind}: {overrun}",
                failure_kind=overrun.kind,
            )
        )
        mark = self._mark(str(overrun), *changes, max_tries=seen.max_tries)
        if seen.shown is not Shown.WAITING:
            # Its process has begun, finds the task over when it opens it, and says so to Airflow itself.
            return (mark,)
        return (mark, self._end(None, why=str(overrun)))

    def _parked(self, record: TaskRecord) -> list[Chain]:
        asked = self.facts.asked
        key = self.facts.key
        if self.facts.seen.answered:
            return [(PassAnswerOn(task=key, why="its answer was recorded and not passed on"),)]
        if asked is not None and asked.expires_at is not None:
            late = self.now - asked.expires_at
            if late >= self.patience.expired_for:
                why = f"request {asked.request_id} expired {late.total_seconds():.0f} s ago"
                expire = Expire(task=key, request_id=asked.request_id, why=why)
                return [(expire, WakeExpired(task=key, why=why))]
        wanted = [
            command
            for command in self.facts.commands
            if command.generation == record.generation
            and (command.verb in ENDING or (command.verb is Verb.RESUME and is_pause(record)))
            and self.now - command.sent_at >= self.patience.sender
        ]
        if wanted:
            why = f"{wanted[0].verb} was asked for and the task still waits"
            return [(Deliver(command=wanted[0], why=why),)]
        return []

    # Both

    def commands(self, after: TaskState) -> list[Chain]:
        record = self.facts.record
        found: list[Chain] = []
        for command in self.facts.commands:
            if record is not None and command.generation < record.generation:
                found.append((self._close(command, "the task was cleared since"),))
            elif after.terminal and after is not self.facts.state:
                ending = ENDING.get(command.verb)
                stopped = ending is not None and after is ending.to
                found.append((self._close(command, f"it is {after}", carried_out=stopped),))
            elif after.terminal and self._quiet_for() >= self.patience.silence:
                found.append((self._close(command, f"it is {after} already"),))
        return found

    def _close(self, command: CommandRecord, why: str, *, carried_out: bool = False) -> CloseCommand:
        return CloseCommand(command=command, carried_out=carried_out, why=why)

    def _mark(self, why: str, *changes: Change, max_tries: int | None = None) -> Mark:
        return Mark(
            task=self.facts.key, seen=self.facts.record, changes=changes, max_tries=max_tries, why=why
        )

    def _end(self, retry_in: timedelta | None, *, skipped: bool = False, why: str) -> EndOnPlatform:
        seen = self.facts.seen
        return EndOnPlatform(
            task=self.facts.key,
            try_number=seen.try_number,
            while_shown=seen.shown,
            retry_in=retry_in,
            skipped=skipped,
            why=why,
        )

    def _ending(self) -> CommandRecord | None:
        """The command that ends the task, if one was given: a person's goes first."""
        return next((found for verb in ENDING if (found := self._first(verb)) is not None), None)

    def _cancels(self) -> bool:
        command = self._ending()
        return command is not None and command.verb is Verb.CANCEL

    def _first(self, verb: Verb) -> CommandRecord | None:
        generation = self.facts.record.generation if self.facts.record is not None else 1
        return next(
            (
                command
                for command in self.facts.commands
                if command.verb is verb and command.generation == generation
            ),
            None,
        )
