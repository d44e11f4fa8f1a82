"""What every group of ledger operations shares: the transaction, the fence, and payloads in envelopes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from louver.errors import IntegrityError, LedgerError, Superseded
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, Token
from louver.ledger.records import PayloadRecord, RunRecord, TaskRecord
from louver.ledger.rows import Rows
from louver.sessions import check_token
from louver.signing import SigningKeys, digest_of, seal, unseal

__all__ = ["Transactional"]


class Transactional(Ledger):
    """
    The base of the operations: what a store must add, and what it gets.

    :param keys: sign and verify every payload.
    """

    def __init__(self, *, keys: SigningKeys) -> None:
        self._keys = keys

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Rows]:
        """One atomic transaction; any exception, ``BaseException`` included, rolls it back."""

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
        """Seal and store, replacing what was there; returns the envelope's digest."""
        envelope = seal(value, binding=binding, keys=self._keys)
        record = PayloadRecord(payload_id=payload_id, envelope=envelope, saved_at=now)
        if not rows.insert(record):
            rows.update(record)
        return digest_of(envelope)

    def _load(
        self, rows: Rows, payload_id: str, *, binding: Mapping[str, Any], digest: str | None = None
    ) -> Any:
        payload = rows.peek(PayloadRecord, payload_id)
        if payload is None:
            raise IntegrityError("a stored value is gone: its payload row is missing")
        if digest is not None and digest_of(payload.envelope) != digest:
            raise IntegrityError("a stored value is not the one that was recorded")
        return unseal(payload.envelope, binding=binding, keys=self._keys)
