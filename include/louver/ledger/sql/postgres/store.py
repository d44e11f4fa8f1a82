"""The ledger in Postgres."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg2 import errorcodes
from sqlalchemy import Connection, Text, cast, func, select, text
from sqlalchemy.exc import DBAPIError

from louver.audit import link
from louver.crash_points import reach
from louver.errors import IllegalTransition, LedgerUnavailable, Superseded, ValueRefused
from louver.ledger.control_operations import carried_out_first
from louver.ledger.effect_operations import effect_binding, started
from louver.ledger.names import CommandState, EffectKind, EffectState, RunKey, TaskKey, Token, Verb
from louver.ledger.records import (
    RESULT,
    CommandRecord,
    EffectRecord,
    PayloadRecord,
    RunRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.requests import BeginOutcome, Begun, Capability, EffectRequest, OpenedTask, RunStart
from louver.ledger.sql.faults import lost, place_of
from louver.ledger.sql.postgres.connections import Answer, Prepared
from louver.ledger.sql.postgres.settling import Written, bear_out
from louver.ledger.sql.postgres.statements import (
    ADVANCE,
    BEGIN,
    CHECKPOINT,
    CLAIM,
    COMMIT,
    COMPLETE,
    FENCE,
    values_of,
)
from louver.ledger.sql.rows import SqlRows
from louver.ledger.sql.store import SqlLedger
from louver.ledger.sql.texts import texts_of
from louver.ledger.storable import require_storable, storable
from louver.ledger.task_operations import checkpoint_binding, new_checkpoint
from louver.ledger.transactions import MAX_VALUE_BYTES
from louver.sessions import Change, Claim, apply_change, check_token
from louver.signing import SigningKeys, digest_of
from louver.timestamps import to_utc

__all__ = ["PostgresLedger"]

_SESSIONS = 1000
_SETTLE_TRIES = 20
_SETTLE_WAIT = 0.25

_Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Session:
    """
    What this process knows of a task that it holds: nobody else can have changed it.

    :param definition: fingerprint that its run began under; None until it is needed.
    """

    record: TaskRecord
    definition: str | None = None


class PostgresLedger(SqlLedger):
    """
    Rows in Postgres; the frequent decisions take one round trip.

    :param url: ``postgresql://...``.
    :param keys: sign and verify every payload and every transition.
    :param max_value_bytes: the largest value kept, as it is stored.
    """

    CAPABILITIES = SqlLedger.CAPABILITIES | {Capability.SKIP_LOCKED}

    def __init__(self, url: str, *, keys: SigningKeys, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        super().__init__(url, keys=keys, max_value_bytes=max_value_bytes)
        self._prepared = Prepared(self._engines)
        self._sessions: dict[Token, _Session] = {}
        self._definitions: dict[tuple[RunKey, int], str] = {}

    def close(self) -> None:
        """Close the connections of this process; twice is fine."""
        super().close()
        if hasattr(self, "_prepared"):
            self._prepared.close()

    # Effects

    def begin_effect(self, token: Token, request: EffectRequest, *, now: datetime) -> Begun:
        """One statement where the key is new and no approval guards it."""
        with _what_comes_first():
            if request.guarded_by is None:
                record = storable(started(token, request, epoch=1, now=now))
                values = _token_values(token) | values_of(record, "e")
                binding = effect_binding(record, "intent")
                values |= self._payload(record.intent_payload, request.intent, binding=binding, now=now)
                if self._in_one("begin_effect", BEGIN, values) == [(1,)]:
                    self._wrote(None, record)
                    return Begun(outcome=BeginOutcome.BEGUN, record=record)
        return super().begin_effect(token, request, now=now)

    def commit_effect(
        self, token: Token, record: EffectRecord, result: Any, *, now: datetime
    ) -> EffectRecord:
        """One statement where this session began it, and it undoes nothing."""
        own = (record.task, record.session) == (token.key, token.session)
        with _what_comes_first():
            if own and record.kind is EffectKind.FORWARD and record.state is EffectState.STARTED:
                values = _token_values(token) | {
                    "scope": record.scope,
                    "key": record.key,
                    "epoch": record.epoch,
                    "ticket": record.ticket,
                }
                binding = effect_binding(record, "result")
                values |= self._payload(record.result_payload, result, binding=binding, now=now)
                rows = self._in_one("commit_effect", COMMIT, values)
                if isinstance(rows, list) and rows:
                    ((sequence, lease_until, generation),) = rows
                    committed = replace(
                        record,
                        state=EffectState.COMMITTED,
                        commit_sequence=sequence,
                        lease_until=to_utc(lease_until),
                        generation=generation,
                        reason=None,
                        updated_at=to_utc(now),
                    )
                    self._wrote(record, committed)
                    return committed
        return super().commit_effect(token, record, result, now=now)

    # Tasks

    def open_run(self, start: RunStart, *, now: datetime) -> RunRecord:
        """Remember which definition the run is under: it is what its checkpoints are bound to."""
        run = super().open_run(start, now=now)
        if len(self._definitions) >= _SESSIONS:
            self._definitions.clear()
        self._definitions[run.key, run.incarnation] = run.definition_fingerprint
        return run

    def open_task(self, key: TaskKey, claim: Claim, *, now: datetime) -> OpenedTask:
        """Remember how the task stands: only this session can change it now."""
        opened = super().open_task(key, claim, now=now)
        definition = self._definitions.get((key.run, opened.token.incarnation))
        self._remember(opened.token, _Session(opened.record, definition))
        return opened

    def advance(self, token: Token, *changes: Change, now: datetime) -> tuple[TransitionRecord, ...]:
        """One statement where there is one change, or none: then it only fences."""
        if not changes and self._in_one("advance", FENCE, _token_values(token)) == [(1,)]:
            return ()
        with _what_comes_first():
            if len(changes) == 1:
                moved = self._move("advance", ADVANCE, token, changes[0], {}, now=now)
                if moved is not None:
                    return (moved,)
        written = super().advance(token, *changes, now=now)
        self._forget(token)
        return written

    def complete(self, token: Token, change: Change, result: Any, *, now: datetime) -> TransitionRecord:
        """One statement: the result and the closing transition."""
        with _what_comes_first():
            values = self._checkpoint(token, RESULT, result, now=now)
            if values is not None:
                moved = self._move("complete", COMPLETE, token, change, values, now=now)
                if moved is not None:
                    return moved
        written = super().complete(token, change, result, now=now)
        self._forget(token)
        return written

    def save_checkpoint(self, token: Token, name: str, value: Any, *, now: datetime) -> None:
        """One statement: the fence and the value."""
        with _what_comes_first():
            values = self._checkpoint(token, name, value, now=now)
            if values is not None:
                values |= _token_values(token)
                if self._in_one("save_checkpoint", CHECKPOINT, values) == [(1,)]:
                    return
        super().save_checkpoint(token, name, value, now=now)

    def park(self, token: Token, *given: Any, **named: Any) -> Any:
        """By the common path; what is remembered of the task is no longer true."""
        try:
            return super().park(token, *given, **named)
        finally:
            self._forget(token)

    # Commands

    def obey(self, token: Token, *given: Any, **named: Any) -> Any:
        """By the common path; what is remembered of the task is no longer true."""
        try:
            return super().obey(token, *given, **named)
        finally:
            self._forget(token)

    def claim_commands(
        self, token: Token, *, limit: int = 100, lease_until: datetime, now: datetime
    ) -> tuple[CommandRecord, ...]:
        """One statement, which passes over what somebody else is taking up at this moment."""
        try:
            # The server would take a naive time for one of its own zone.
            require_storable("lease_until", lease_until)
            require_storable("now", now)
        except ValueRefused:
            return super().claim_commands(token, limit=limit, lease_until=lease_until, now=now)
        values = _token_values(token) | {
            "generation": token.generation,
            "process": token.process,
            "most": limit,
            "until": lease_until,
            "now": now,
            "verbs": [verb.value for verb in Verb],
        }
        rows = self._in_one("claim_commands", CLAIM, values)
        if isinstance(rows, Answer) or not rows:
            mine = self._claimed(token, lease_until) if rows is Answer.LOST else []
            left = limit - len(mine)
            more = super().claim_commands(token, limit=left, lease_until=lease_until, now=now)
            return tuple(sorted((*mine, *more), key=carried_out_first))
        texts = texts_of(CommandRecord, "postgresql")
        claimed = [texts.record(row[1:]) for row in rows if row[1] is not None]
        return tuple(sorted(claimed, key=carried_out_first))

    def _claimed(self, token: Token, lease_until: datetime) -> list[CommandRecord]:
        """What was claimed without an answer: by the common path it would be taken up by nobody."""
        held = (CommandState.CLAIMED, token.process, token.session, lease_until)
        return [
            command
            for command in self.list_commands(token.key.run, task_id=token.key.task_id)
            if command.task == token.key
            and (command.state, command.claimed_by, command.session, command.lease_until) == held
        ]

    # How

    def _in_one(self, name: str, statement: Any, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | Answer:
        self._require_open()
        reach(f"{name}.before")
        rows = self._prepared.run(statement, values)
        if isinstance(rows, list) and rows:
            reach(f"{name}.after")
        return rows

    def _payload(self, payload_id: str, value: Any, *, binding: Mapping[str, Any], now: datetime) -> _Values:
        envelope = self._sealed(value, binding=binding)
        record = storable(PayloadRecord(payload_id=payload_id, envelope=envelope, saved_at=now))
        # The one moment of all that the statement writes: each value costs the client and the server.
        return {"p_payload_id": payload_id, "p_envelope": envelope, "now": record.saved_at}

    def _checkpoint(self, token: Token, name: str, value: Any, *, now: datetime) -> _Values | None:
        session = self._session(token, with_definition=True)
        if session is None or session.definition is None:
            return None
        record = storable(new_checkpoint(token, name, now=now))
        binding = checkpoint_binding(record, session.definition)
        values = self._payload(record.payload, value, binding=binding, now=now)
        record = replace(record, digest=digest_of(values["p_envelope"]))
        return values | values_of(record, "c") | {"definition": session.definition}

    def _move(
        self, name: str, statement: Any, token: Token, change: Change, values: _Values, *, now: datetime
    ) -> TransitionRecord | None:
        """Append the transition to the task as this session knows it; None where it stands otherwise."""
        session = self._session(token)
        if session is None:
            return None
        known = session.record
        try:
            after, row = apply_change(known, change, source=token.source, now=now)
        except IllegalTransition:
            return None
        row = storable(link(row, known.head, keys=self._keys))
        after = storable(replace(after, head=row.mac))
        values = values | _token_values(token) | values_of(row, "x")
        values |= {
            "known_version": known.version,
            "known_head": known.head,
            "version": after.version,
            "state": after.state.value,
            "attempt": after.attempt,
            "failures": after.failures,
            "failure_kind": after.failure_kind and after.failure_kind.value,
            "head": after.head,
            "now": now,
        }
        answer = self._in_one(name, statement, values)
        # Until it is certain, also where finding out fails.
        self._forget(token)
        if answer == [(1,)] or (answer is Answer.LOST and self._stands(token, after)):
            self._remember(token, replace(session, record=after))
            self._wrote(None, row)
            return row
        return None

    def _stands(self, token: Token, after: TaskRecord) -> bool:
        """Whether what was written without an answer came about; a server that is away is waited for."""

        def read() -> TaskRecord | None:
            key = token.key
            # Locked: the server may still be at it.
            with self._transaction(write=True) as rows:
                return rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)

        for _ in range(_SETTLE_TRIES):
            with suppress(LedgerUnavailable):
                found = self._tried(read)
                return found is not None and (found.session, found.head) == (token.session, after.head)
            time.sleep(_SETTLE_WAIT)
        raise LedgerUnavailable(
            f"ledger {place_of(self._engines.url)}: the connection was lost in the middle of a statement and "
            "the server does not come back; whether it was written is not known"
        )

    def _session(self, token: Token, *, with_definition: bool = False) -> _Session | None:
        session = self._sessions.get(token)
        if session is None:
            try:
                session = _Session(check_token(self.get_task(token.key), token))
            except Superseded:
                return None
            self._remember(token, session)
        if with_definition and session.definition is None:
            run = self.get_run(token.key.run)
            if run is None or run.incarnation != token.incarnation:
                return None
            session = replace(session, definition=run.definition_fingerprint)
            self._remember(token, session)
        return session

    def _remember(self, token: Token, session: _Session) -> None:
        if len(self._sessions) >= _SESSIONS:
            # Whoever is forgotten is read again.
            self._sessions.clear()
        self._sessions[token] = session

    def _forget(self, token: Token) -> None:
        self._sessions.pop(token, None)

    def _commit(self, connection: Connection, rows: SqlRows) -> bool:
        number = connection.execute(select(cast(func.pg_current_xact_id_if_assigned(), Text))).scalar()
        try:
            return super()._commit(connection, rows)
        except DBAPIError as error:
            if number is None or not lost(error):
                raise
        return self._settled(int(number), rows.written)

    def _settled(self, number: int, written: Written) -> bool:
        """What became of the transaction whose COMMIT was not answered; the server knows when it is back."""
        for _ in range(_SETTLE_TRIES):
            try:
                came_about = self._came_about(number, written)
            except DBAPIError as error:
                if getattr(error.orig, "pgcode", None) not in (None, "57P03"):
                    raise
                came_about = None
            if came_about is not None:
                return came_about
            time.sleep(_SETTLE_WAIT)
        raise LedgerUnavailable(
            f"ledger {place_of(self._engines.url)}: the connection was lost at the end of a transaction and "
            "the server does not come back, or others have written since; whether it was written is not known"
        )

    def _came_about(self, number: int, written: Written) -> bool | None:
        status = text("SELECT pg_xact_status(CAST(:number AS xid8))").bindparams(number=str(number))
        with self._engines.connect(write=False) as connection, connection.begin():
            try:
                found = connection.execute(status).scalar()
            except DBAPIError as error:
                # A number that is still to come: it was not in the log when the server crashed.
                if getattr(error.orig, "pgcode", None) != errorcodes.INVALID_PARAMETER_VALUE:
                    raise
                return False
            if found == "committed":
                return bear_out(connection, number, written)
            return False if found == "aborted" else None


def _what_comes_first() -> AbstractContextManager[None]:
    """
    Around a shortcut, whose values are made ready before anything is asked.

    A value may be refused there; the common path then says so, unless the fence or a conflict comes first.
    """
    return suppress(ValueRefused)


def _token_values(token: Token) -> _Values:
    return {
        "dag_id": token.key.dag_id,
        "run_id": token.key.run_id,
        "task_id": token.key.task_id,
        "map_index": token.key.map_index,
        "incarnation": token.incarnation,
        "session": token.session,
        "try_number": token.try_number,
    }
