"""
Pause, resume and stop, in a process that may use Airflow's own models and the ledger: a command, the API
server, a service. From anywhere else, :mod:`louver_provider.client` asks the API server to.

A command is written into the ledger and carried out by the process that holds the task; nobody else claims
it. A parked task has no such process, so it is woken first. What became of a command is read from the ledger
and never guessed: until the owner has acted, it is unconfirmed (row T12).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from uuid import uuid4

from airflow.utils.state import State

from louver.clock import Clock, SystemClock
from louver.closing import definition_of
from louver.control import ROLLED_BACK, TAKEN_BACK, Sent, send, taken_back
from louver.errors import CommandRefused, LedgerError
from louver.evaluation import Evaluation
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, RunKey, TaskKey, Verb
from louver.ledger.records import CommandRecord, TaskRecord
from louver.ledger.requests import CommandRequest
from louver.results import RunResults
from louver.states import Source, TaskState
from louver_provider.addressees import addressees, expanded_indexes
from louver_provider.adoption import open_from_airflow
from louver_provider.delivery import Delivery, wake
from louver_provider.hooks.ledger import get_ledger
from louver_provider.parks import read_park

__all__ = ["Became", "Reply", "TaskControl"]

TIMEOUT = timedelta(seconds=60)
"""How long a command is followed unless the caller says otherwise."""

_LOOK = timedelta(seconds=0.25)

# A stop ends a park. Where the reconciler delivered it first, the task's process has yet to say so.
_TELLS_WITHIN = timedelta(seconds=15)

_SILENT = "its process has not acted yet"

_HELD = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSING, TaskState.STOPPING})


class Became(str, Enum):
    """
    What became of a command.

    ``recorded``: nobody runs the task; who starts it carries the command out before any user code.
    ``taken_back``: a pause that nobody had taken up yet, by this resume. ``done``: the owner has acted.
    ``delivered``: the parked task was woken, and its process has not acted yet. ``unconfirmed``: the owner
    has not acted yet. ``rolled_back``: the pause was not reached in time. ``refused``: it makes no sense, or
    came too late.
    """

    RECORDED = "recorded"
    TAKEN_BACK = "taken_back"
    DONE = "done"
    DELIVERED = "delivered"
    UNCONFIRMED = "unconfirmed"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value

    @property
    def accepted(self) -> bool:
        """Whether what was asked for has happened, or still will."""
        return self not in (Became.ROLLED_BACK, Became.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """
    What became of a command to one task.

    :param state: the task's state now.
    :param detail: why, or how, in words.
    :param command_id: of what was recorded; None where nothing was.
    """

    task: TaskKey
    verb: Verb
    became: Became
    state: TaskState
    detail: str | None = None
    command_id: str | None = None


@dataclass(slots=True, kw_only=True)
class _Errand:
    """One command on its way."""

    key: TaskKey
    command: CommandRecord
    reply: Reply | None = None
    delivery: Delivery | None = None
    try_at: datetime | None = None
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskControl:
    """
    Controls tasks.

    :param actor: who wants it: stands in the audit trail, and in Airflow as the one who answered.
    :param ledger: by default the configured one.
    """

    actor: str | None = None
    source: Source = Source.API
    ledger: Ledger = field(default_factory=get_ledger)
    clock: Clock = field(default_factory=SystemClock)

    def pause(
        self,
        run: RunKey,
        task_id: str | None = None,
        *,
        map_index: int | None = None,
        reason: str | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> list[Reply]:
        """
        Pause one step, or all unfinished ones.

        :param task_id: None for all.
        :param map_index: of a mapped step; None for all of its indexes.
        :param timeout: how long to wait for the owners; zero does not wait.
        :returns: one reply for each task.
        :raises LedgerError: where there is no such run or step.
        """
        return self.ask(Verb.PAUSE, run, task_id, map_index=map_index, reason=reason, timeout=timeout)

    def resume(
        self,
        run: RunKey,
        task_id: str | None = None,
        *,
        map_index: int | None = None,
        reason: str | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> list[Reply]:
        """Resume, as :meth:`pause`; a task that is parked is woken once the resume guard lets it through."""
        return self.ask(Verb.RESUME, run, task_id, map_index=map_index, reason=reason, timeout=timeout)

    def stop(
        self,
        run: RunKey,
        task_id: str | None = None,
        *,
        map_index: int | None = None,
        reason: str | None = None,
        timeout: timedelta = TIMEOUT,
        wait: bool = False,
    ) -> list[Reply]:
        """
        Stop, as :meth:`pause`.

        :param wait: until the owners have acted, within the timeout; otherwise only until a parked task is
            woken.
        """
        return self.ask(
            Verb.STOP, run, task_id, map_index=map_index, reason=reason, timeout=timeout, wait=wait
        )

    def ask(
        self,
        verb: Verb,
        run: RunKey,
        task_id: str | None = None,
        *,
        map_index: int | None = None,
        reason: str | None = None,
        timeout: timedelta = TIMEOUT,
        wait: bool = True,
    ) -> list[Reply]:
        """Any of these three, by its name."""
        deadline = self.clock.now() + timeout
        wanted = self._wanted(run, task_id, map_index)
        commands = self.ledger.list_commands(run)
        if verb is Verb.RESUME and map_index is None:
            expanded = {key.task_id for key, _ in wanted if key.map_index >= 0}
            commands = [self._taken_back_as_a_whole(command, expanded) for command in commands]
        known: dict[str, list[CommandRecord]] = defaultdict(list)
        for command in commands:
            known[command.task_id].append(command)
        sent = [self._send(verb, key, over, reason, known[key.task_id]) for key, over in wanted]
        errands = [errand for errand in sent if isinstance(errand, _Errand)]
        while True:
            self._follow(run, errands, patient=wait)
            left = deadline - self.clock.now()
            if left <= timedelta(0) or all(errand.reply for errand in errands):
                break
            self.clock.sleep(min(_LOOK, left))
        return self._replies(run, sent)

    def _replies(self, run: RunKey, sent: Sequence[_Errand | Reply]) -> list[Reply]:
        tasks = {record.key: record for record in self.ledger.list_tasks(run)}
        replies = []
        for entry in sent:
            if isinstance(entry, Reply):
                replies.append(entry)
            elif entry.reply is not None:
                replies.append(entry.reply)
            elif entry.delivery is not None and entry.delivery.woken:
                replies.append(_reply(entry, tasks.get(entry.key), Became.DELIVERED, _SILENT))
            else:
                why = entry.delivery.why if entry.delivery is not None else _SILENT
                replies.append(_reply(entry, tasks.get(entry.key), Became.UNCONFIRMED, why))
        return replies

    # To whom

    def _wanted(
        self, run: RunKey, task_id: str | None, map_index: int | None
    ) -> list[tuple[TaskKey, TaskState | None]]:
        """The tasks that are meant, each with the state it ended in, where it has ended."""
        if self.ledger.get_run(run) is None:
            open_from_airflow(self.ledger, run, now=self.clock.now())
        definition = definition_of(run, self.ledger)
        names = definition.names
        if task_id is not None and task_id not in names:
            raise LedgerError(
                f"run {run.run_id} of {run.dag_id} has no step {task_id!r}; it has {', '.join(names)}"
            )
        results = RunResults(definition, run, self.ledger, strict=False)
        nodes = [node for node in definition.nodes if task_id in (None, node.name)]
        expanded = expanded_indexes(run, [node.name for node in nodes if node.mapped])
        keys = [
            key
            for node in nodes
            for key in addressees(
                TaskKey(run.dag_id, run.run_id, node.name),
                node,
                indexes=(*results.indexes(node.name), *expanded.get(node.name, ())),
                map_index=map_index if task_id is not None else None,
            )
        ]
        wanted = [(key, _over(key, results.tasks, results.evaluation)) for key in keys]
        return [(key, over) for key, over in wanted if over is None or task_id is not None]

    def _taken_back_as_a_whole(self, command: CommandRecord, expanded: Collection[str]) -> CommandRecord:
        """Take back a pause that a mapped step was asked before it had indexes: all of them are to go on."""
        whole = command.task_id in expanded and command.map_index == -1
        if not whole or command.verb is not Verb.PAUSE or command.closed_at is not None:
            return command
        outcome = taken_back(self.actor)
        return self.ledger.refuse_command(command, outcome=outcome, now=self.clock.now()) or command

    def _send(
        self,
        verb: Verb,
        key: TaskKey,
        over: TaskState | None,
        reason: str | None,
        known: Sequence[CommandRecord],
    ) -> _Errand | Reply:
        request = CommandRequest(
            command_id=uuid4().hex,
            task=key,
            verb=verb,
            actor=self.actor,
            reason=reason,
            source=self.source,
        )
        try:
            if over is not None:
                raise CommandRefused(f"it is {over}; {verb} comes too late", state=over)
            sent: Sent = send(self.ledger, request, known=known, now=self.clock.now())
        except CommandRefused as refused:
            state = TaskState(refused.state)
            if verb is Verb.RESUME and state is TaskState.PENDING and _was_taken_back(key, known):
                return Reply(task=key, verb=verb, became=Became.TAKEN_BACK, state=state)
            return Reply(task=key, verb=verb, became=Became.REFUSED, state=state, detail=str(refused))
        if sent.command is None:
            return Reply(task=key, verb=verb, became=Became.TAKEN_BACK, state=sent.state)
        return _Errand(key=key, command=sent.command)

    # On their way

    def _follow(self, run: RunKey, errands: Sequence[_Errand], *, patient: bool) -> None:
        """Look once how far each errand is, and wake who is parked."""
        open_ones = [errand for errand in errands if errand.reply is None]
        if not open_ones:
            return
        # Tasks first: who obeys closes the command with it, so that a task which has moved on by a command
        # is never beside one that looks open.
        tasks = {record.key: record for record in self.ledger.list_tasks(run)}
        commands = {command.command_id: command for command in self.ledger.list_commands(run)}
        for errand in open_ones:
            errand.command = commands.get(errand.command.command_id, errand.command)
            if errand.command.closed_at is None:
                record = tasks.get(errand.key)
            else:
                record = self.ledger.get_task(errand.key)
            errand.reply = self._reply(errand, record, patient=patient)

    def _reply(self, errand: _Errand, record: TaskRecord | None, *, patient: bool) -> Reply | None:
        """What became of it; None where that is still to be seen."""
        command = errand.command
        if command.closed_at is not None:
            return _reply(errand, record, _ended(command), command.outcome)
        verb = command.verb
        if record is not None and record.state.terminal:
            # It has ended meanwhile; whoever saw to that closes the command as well.
            return None
        if _is_parked(record) and verb is not Verb.PAUSE:
            return self._deliver(errand, record, patient=patient)
        if not _is_held(record) and verb is not Verb.RESUME:
            return _reply(errand, record, Became.RECORDED, "to be honoured before it starts")
        if not patient and verb is Verb.STOP:
            return _reply(errand, record, Became.UNCONFIRMED, "its process sees it at its next checkpoint")
        return None

    def _deliver(self, errand: _Errand, record: TaskRecord | None, *, patient: bool) -> Reply | None:
        now = self.clock.now()
        if errand.delivery is not None and errand.delivery.woken:
            return None if patient else _reply(errand, record, Became.DELIVERED, _SILENT)
        if errand.try_at is not None and now < errand.try_at:
            return None
        delivery = errand.delivery = wake(
            errand.key, errand.command.verb, by=self.actor, source=self.source, now=now
        )
        if delivery.woken:
            return None
        errand.try_at = now + timedelta(seconds=min(delivery.retry_after or 1.0, 1.0))
        park = read_park(errand.key)
        if park is None or park.state in State.finished:
            errand.gone_at = errand.gone_at or now
            stops = errand.command.verb is Verb.STOP
            if patient and stops and now - errand.gone_at < _TELLS_WITHIN:
                return None
            return _reply(errand, record, Became.UNCONFIRMED, delivery.why)
        return None


def _was_taken_back(key: TaskKey, known: Sequence[CommandRecord]) -> bool:
    """Whether the last that its step was told as a whole is a pause that somebody took back."""
    whole = [command for command in known if command.task == replace(key, map_index=-1) != key]
    last = max(whole, key=lambda command: command.sent_at, default=None)
    return last is not None and last.verb is Verb.PAUSE and (last.outcome or "").startswith(TAKEN_BACK)


def _over(key: TaskKey, records: Mapping[TaskKey, TaskRecord], evaluation: Evaluation) -> TaskState | None:
    """The state in which the task has ended; None where it has not, or still will."""
    record = records.get(key)
    state = record.state if record is not None else TaskState.PENDING
    if state in (TaskState.PENDING, TaskState.BLOCKED):
        # It never will where an upstream has not delivered, though nobody has written that down yet.
        state = evaluation.states.get(key.task_id, state)
    return state if state.terminal else None


def _is_parked(record: TaskRecord | None) -> bool:
    return record is not None and record.state is TaskState.PAUSED and record.nonce is not None


def _is_held(record: TaskRecord | None) -> bool:
    """Whether a process is inside the task."""
    if record is None:
        return False
    return record.state in _HELD or (record.state is TaskState.PAUSED and record.nonce is None)


def _ended(command: CommandRecord) -> Became:
    if command.state is CommandState.REFUSED:
        return Became.REFUSED
    return Became.ROLLED_BACK if (command.outcome or "").startswith(ROLLED_BACK) else Became.DONE


def _reply(errand: _Errand, record: TaskRecord | None, became: Became, detail: str | None) -> Reply:
    return Reply(
        task=errand.key,
        verb=errand.command.verb,
        became=became,
        state=record.state if record is not None else TaskState.PENDING,
        detail=detail,
        command_id=errand.command.command_id,
    )
