"""Commands, signs of life, leases: what people and processes ask of each other."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from louver.errors import Superseded
from louver.ledger.names import CommandState, RunKey, TaskKey, Token, Verb
from louver.ledger.records import (
    CommandRecord,
    LeaseRecord,
    TaskRecord,
    TouchRecord,
    TransitionRecord,
)
from louver.ledger.requests import CommandRequest, Progress
from louver.ledger.rows import Rows
from louver.ledger.storable import require_storable
from louver.ledger.task_operations import TaskOperations
from louver.ledger.transactions import decision, question
from louver.sessions import Change

__all__ = ["ControlOperations", "carried_out_first", "claimable"]

_RANK = {verb: rank for rank, verb in enumerate(Verb)}


class ControlOperations(TaskOperations):
    """The part of the contract that concerns control across processes."""

    @decision
    def send_command(self, rows: Rows, request: CommandRequest, *, now: datetime) -> CommandRecord:
        task = request.task
        run = self._run(rows, task.run)
        known = rows.peek(TaskRecord, task.dag_id, task.run_id, task.task_id, task.map_index)
        of_this_run = known is not None and known.incarnation == run.incarnation
        fresh = CommandRecord(
            command_id=request.command_id,
            dag_id=task.dag_id,
            run_id=task.run_id,
            task_id=task.task_id,
            map_index=task.map_index,
            generation=known.generation + (0 if of_this_run else 1) if known is not None else 1,
            verb=request.verb,
            actor=request.actor,
            reason=request.reason,
            source=request.source,
            sent_at=now,
        )
        if rows.insert(fresh):
            return fresh
        return rows.get(CommandRecord, request.command_id) or fresh

    @decision
    def claim_commands(
        self, rows: Rows, token: Token, *, limit: int = 100, lease_until: datetime, now: datetime
    ) -> tuple[CommandRecord, ...]:
        self._hold(rows, token)
        require_storable("lease_until", lease_until)
        require_storable("now", now)
        found = sorted(
            (command for command in self._commands(rows, token.key) if claimable(command, token, now=now)),
            key=carried_out_first,
        )
        claimed = []
        for command in found[:limit]:
            locked = rows.get(CommandRecord, command.command_id)
            if locked is None or not claimable(locked, token, now=now):
                continue
            mine = replace(
                locked,
                state=CommandState.CLAIMED,
                claimed_by=token.process,
                session=token.session,
                lease_until=lease_until,
            )
            rows.update(mine)
            claimed.append(mine)
        return tuple(claimed)

    @staticmethod
    def _commands(rows: Rows, key: TaskKey) -> list[CommandRecord]:
        return rows.find(
            CommandRecord,
            dag_id=key.dag_id,
            run_id=key.run_id,
            task_id=key.task_id,
            map_index=key.map_index,
        )

    @decision
    def obey(
        self,
        rows: Rows,
        token: Token,
        command: CommandRecord,
        *changes: Change,
        outcome: str,
        nonce: str | None = None,
        now: datetime,
    ) -> tuple[TransitionRecord, ...] | None:
        held = self._hold(rows, token)
        current = rows.get(CommandRecord, command.command_id)
        if current is None or current.state is not CommandState.CLAIMED or not _same_claim(current, command):
            return None
        if (current.task, current.session) != (token.key, token.session):
            return None
        record, written = self._append(rows, held, changes, token.source, now)
        rows.update(record if nonce is None else replace(record, nonce=nonce))
        rows.update(replace(current, state=CommandState.DONE, outcome=outcome, closed_at=now))
        if record.state.terminal:
            self._void_requests(rows, token.key, now=now)
        return written

    @decision
    def complete_command(
        self, rows: Rows, command: CommandRecord, *, outcome: str, now: datetime
    ) -> CommandRecord | None:
        current = rows.get(CommandRecord, command.command_id)
        if _is_repeated(current, command, CommandState.DONE, outcome):
            return current
        if current is None or current.state is not CommandState.CLAIMED or not _same_claim(current, command):
            return None
        done = replace(current, state=CommandState.DONE, outcome=outcome, closed_at=now)
        rows.update(done)
        return done

    @decision
    def refuse_command(
        self, rows: Rows, command: CommandRecord, *, outcome: str, now: datetime
    ) -> CommandRecord | None:
        current = rows.get(CommandRecord, command.command_id)
        if _is_repeated(current, command, CommandState.REFUSED, outcome):
            return current
        if current is None or current.closed_at is not None or not _same_claim(current, command):
            return None
        refused = replace(current, state=CommandState.REFUSED, outcome=outcome, closed_at=now)
        rows.update(refused)
        return refused

    @decision
    def release_command(self, rows: Rows, command: CommandRecord, *, now: datetime) -> CommandRecord | None:
        current = rows.get(CommandRecord, command.command_id)
        if current is None or current.state is not CommandState.CLAIMED or not _same_claim(current, command):
            return None
        released = replace(
            current, state=CommandState.PENDING, claimed_by=None, session=None, lease_until=None
        )
        rows.update(released)
        return released

    @question
    def list_commands(self, rows: Rows, run: RunKey, *, task_id: str | None = None) -> list[CommandRecord]:
        wanted = {"dag_id": run.dag_id, "run_id": run.run_id}
        if task_id is not None:
            wanted["task_id"] = task_id
        found = rows.find(CommandRecord, **wanted)
        return sorted(found, key=lambda command: (command.sent_at, command.command_id))

    @decision
    def touch(
        self,
        rows: Rows,
        token: Token,
        *,
        progress: Progress | None = None,
        persist_failures: int = 0,
        now: datetime,
    ) -> None:
        key = token.key
        try:
            # Locked: whoever opens the task at this moment is done before this is written, or comes after it.
            self._hold(rows, token)
        except Superseded:
            return
        fresh = TouchRecord(
            dag_id=key.dag_id,
            run_id=key.run_id,
            task_id=key.task_id,
            map_index=key.map_index,
            session=token.session,
            heartbeat_at=now,
        )
        known = rows.get(TouchRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
        if known is None and not rows.insert(fresh):
            known = rows.get(TouchRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
        if known is not None and known.session > token.session:
            return
        before = known if known is not None and known.session == token.session else fresh
        touched = replace(
            before,
            heartbeat_at=before.heartbeat_at if progress is not None else now,
            persist_failures=max(before.persist_failures, persist_failures),
        )
        if progress is not None:
            touched = replace(
                touched, progress_at=now, done=progress.done, total=progress.total, unit=progress.unit
            )
        rows.update(touched)

    @question
    def list_touches(self, rows: Rows, run: RunKey) -> list[TouchRecord]:
        return rows.find(TouchRecord, dag_id=run.dag_id, run_id=run.run_id)

    @decision
    def take_lease(
        self, rows: Rows, name: str, owner: str, *, lease_until: datetime, now: datetime
    ) -> LeaseRecord | None:
        fresh = LeaseRecord(name=name, owner=owner, term=1, acquired_at=now, lease_until=lease_until)
        known = rows.get(LeaseRecord, name)
        if known is None:
            if rows.insert(fresh):
                return fresh
            known = rows.get(LeaseRecord, name) or fresh
        if known.owner == owner and now < known.lease_until:
            taken = replace(known, lease_until=lease_until)
        elif known.lease_until <= now:
            taken = replace(fresh, term=known.term + 1)
        else:
            return None
        rows.update(taken)
        return taken

    @decision
    def give_lease(self, rows: Rows, name: str, owner: str, *, now: datetime) -> None:
        known = rows.get(LeaseRecord, name)
        if known is not None and known.owner == owner and now < known.lease_until:
            rows.update(replace(known, lease_until=now))

    @question
    def get_lease(self, rows: Rows, name: str) -> LeaseRecord | None:
        return rows.peek(LeaseRecord, name)


def carried_out_first(command: CommandRecord) -> tuple[object, ...]:
    """Sort key: stop before pause before resume, each in order of sending (semantics section 8)."""
    return _RANK[command.verb], command.sent_at, command.command_id


def claimable(command: CommandRecord, token: Token, *, now: datetime) -> bool:
    """Whether the holder of the token may take the command up at ``now``."""
    if command.generation != token.generation:
        return False
    if command.state is CommandState.PENDING:
        return True
    if command.state is not CommandState.CLAIMED:
        return False
    gone = command.lease_until is None or command.lease_until <= now
    return gone or command.session != token.session


def _is_repeated(
    current: CommandRecord | None, shown: CommandRecord, state: CommandState, outcome: str
) -> bool:
    """Whether this very call closed the command, and its answer was lost on the way."""
    return (
        current is not None
        and (current.state, current.outcome) == (state, outcome)
        and _same_claim(current, shown)
    )


def _same_claim(current: CommandRecord, shown: CommandRecord) -> bool:
    def claim(command: CommandRecord) -> tuple[object, ...]:
        return command.claimed_by, command.session, command.lease_until

    return claim(current) == claim(shown)
