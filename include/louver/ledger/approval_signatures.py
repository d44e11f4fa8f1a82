"""
What vouches for a request's row: its own MAC (semantics section 6).

A row is signed whole each time that the ledger writes it, so nobody without the keys can change who may
decide, what was decided, or what it was used for.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from datetime import datetime

from louver.errors import IntegrityError
from louver.ledger.records import ApprovalRecord
from louver.ledger.storable import storable
from louver.signing import SigningKeys
from louver.timestamps import format_utc

__all__ = ["check_signature", "is_as_signed", "sign_approval"]


def sign_approval(record: ApprovalRecord, *, keys: SigningKeys) -> ApprovalRecord:
    """
    The request, signed as it is now.

    :raises ValueRefused: where no store could hold it.
    """
    record = storable(record)
    return replace(record, key_id=keys.current, mac=_mac_of(record, key_id=keys.current, keys=keys))


def is_as_signed(record: ApprovalRecord, *, keys: SigningKeys) -> bool:
    """Whether the request is what a ledger with these keys wrote."""
    try:
        check_signature(record, keys=keys)
    except IntegrityError:
        return False
    return True


def check_signature(record: ApprovalRecord, *, keys: SigningKeys) -> ApprovalRecord:
    """
    The request, which is what a ledger with these keys wrote.

    :raises IntegrityError: where it is not.
    """
    expected = _mac_of(record, key_id=record.key_id, keys=keys)
    if not hmac.compare_digest(expected.encode("ascii"), record.mac.encode("utf-8", "replace")):
        raise IntegrityError(f"approval request {record.request_id} does not match its signature")
    return record


def _mac_of(record: ApprovalRecord, *, key_id: str, keys: SigningKeys) -> str:
    told = (
        "approval",
        record.request_id,
        record.sequence,
        record.dag_id,
        record.run_id,
        record.task_id,
        record.map_index,
        record.generation,
        record.of,
        record.definition_name,
        record.definition_version,
        record.definition_fingerprint,
        record.payload_fingerprint,
        record.ancestors,
        record.state_version,
        record.upstream_fingerprint,
        record.approvers,
        record.four_eyes,
        record.requester,
        _moment(record.requested_at),
        _moment(record.expires_at),
        record.decision,
        record.decided_by,
        _moment(record.decided_at),
        record.consumed_by,
        _moment(record.consumed_at),
    )
    return keys.mac(key_id, json.dumps(told, separators=(",", ":")).encode("ascii"))


def _moment(value: datetime | None) -> str | None:
    return None if value is None else format_utc(value)
