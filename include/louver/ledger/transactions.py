"""
What every group of ledger operations shares: the transaction, the fence, and payloads in envelopes.

An operation is written as a function of the rows that one transaction sees, and marked as a :func:`decision`,
which may write, or a :func:`question`, which only reads. Beginning, committing and trying again are the
store's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from louver.crash_points import reach
from louver.errors import IntegrityError, LedgerError, Superseded, ValueRefused
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, Token
from louver.ledger.records import PayloadRecord, Record, RunRecord, TaskRecord
from louver.ledger.rows import Rows
from louver.ledger.witness import Observer, RowChange, witnessed
from louver.sessions import check_token
from louver.signing import SigningKeys, digest_of, seal, unseal

__all__ = ["MAX_VALUE_BYTES", "Transactional", "decision", "question"]

MAX_VALUE_BYTES = 64 * 1024 * 1024
"""The largest value that a ledger keeps unless it is opened with another limit (semantics section 5)."""

S = TypeVar("S", bound="Transactional")
P = ParamSpec("P")
R = TypeVar("R")


def decision(body: Callable[Concatenate[S, Rows, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make an operation that may write out of what it does with the rows of one transaction."""
    name = body.__name__

    def operation(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        def work(rows: Rows) -> R:
            return body(self, rows, *args, **kwargs)

        reach(f"{name}.before")
        observer = self._observer
        if observer is None:
            answer = self._decide(name, work)
        else:
            now: Any = kwargs.get("now")
            answer = witnessed(self._decide, name, work, observer, now=now)
        reach(f"{name}.after")
        return answer

    named = _named_after(body, operation)
    named.__dict__["crash_points"] = (f"{name}.before", f"{name}.inside", f"{name}.after")
    return named


def question(body: Callable[Concatenate[S, Rows, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make an operation that only reads out of what it does with the rows of one transaction."""

    def operation(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._answer(lambda rows: body(self, rows, *args, **kwargs))

    return _named_after(body, operation)


def _named_after(body: Callable[..., Any], operation: Callable[P, R]) -> Callable[P, R]:
    update_wrapper(operation, body)
    # The body has one parameter more, which is nobody's business who looks at the operation's signature.
    del operation.__wrapped__  # type: ignore[attr-defined]
    return operation


class Transactional(Ledger):
    """
    The base of the operations: what a store must add, and what it gets.

    :param keys: sign and verify every payload and every transition.
    :param max_value_bytes: the largest value kept, as it is stored.
    """

    _observer: Observer | None = None

    def __init__(self, *, keys: SigningKeys, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        self._keys = keys
        self._max_value_bytes = max_value_bytes

    def observe(self, observer: Observer) -> None:
        """Have the observer told of what this ledger object writes, in place of an earlier observer."""
        self._observer = observer

    def _wrote(self, before: Record | None, after: Record) -> None:
        """Tell of a row that was written without a transaction over rows, by a store's faster statement."""
        if self._observer is not None:
            self._observer.saw((RowChange(before=before, after=after),))

    @abstractmethod
    def _transaction(self, *, write: bool) -> AbstractContextManager[Rows]:
        """
        One atomic transaction; any exception, ``BaseException`` included, rolls it back.

        :param write: it may write; one that only reads sees one moment of the ledger and waits for nobody.
        """

    def _decide(self, name: str, work: Callable[[Rows], R]) -> R:
        """Do the work in a transaction; a store may do it again where nothing of it was committed."""
        with self._transaction(write=True) as rows:
            answer = work(rows)
            reach(f"{name}.inside")
            return answer

    def _answer(self, work: Callable[[Rows], R]) -> R:
        """Do the work in a transaction that only reads."""
        with self._transaction(write=False) as rows:
            return work(rows)

    def _hold(self, rows: Rows, token: Token) -> TaskRecord:
        key = token.key
        record = rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
        held = check_token(record, token)
        # The task's own record tells of another run only once a process of that one has opened it.
        if self._run(rows, key.run).incarnation != token.incarnation:
            raise Superseded(f"{key}: the run was deleted and made again; this process is of the old one")
        return held

    def _run(self, rows: Rows, key: RunKey) -> RunRecord:
        run = rows.peek(RunRecord, key.dag_id, key.run_id)
        if run is None:
            raise LedgerError(f"run {key.run_id} of {key.dag_id} is not in the ledger; open it first")
        return run

    def _keep(
        self, rows: Rows, payload_id: str, value: Any, *, binding: Mapping[str, Any], now: datetime
    ) -> str:
        """
        Seal and store, replacing what was there; returns the envelope's digest.

        :raises ValueRefused: where it is too large, before anything is written.
        """
        envelope = self._sealed(value, binding=binding)
        rows.put(PayloadRecord(payload_id=payload_id, envelope=envelope, saved_at=now))
        return digest_of(envelope)

    def _sealed(self, value: Any, *, binding: Mapping[str, Any]) -> bytes:
        envelope = seal(value, binding=binding, keys=self._keys)
        if len(envelope) > self._max_value_bytes:
            raise ValueRefused(
                "$",
                f"it takes {len(envelope)} bytes and the ledger keeps at most {self._max_value_bytes} "
                "([louver] max_value_bytes); store it elsewhere and keep where that is",
            )
        return envelope

    def _load(
        self, rows: Rows, payload_id: str, *, binding: Mapping[str, Any], digest: str | None = None
    ) -> Any:
        payload = rows.peek(PayloadRecord, payload_id)
        if payload is None:
            raise IntegrityError("a stored value is gone: its payload row is missing")
        if digest is not None and digest_of(payload.envelope) != digest:
            raise IntegrityError("a stored value is not the one that was recorded")
        return unseal(payload.envelope, binding=binding, keys=self._keys)
