"""What vouches for an acceptance: its own MAC, and that each goes on from the one before."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from louver.errors import IntegrityError
from louver.ledger.records import AcceptanceRecord, RunRecord
from louver.ledger.storable import storable
from louver.signing import SigningKeys
from louver.timestamps import format_utc

__all__ = ["check_acceptance", "definitions_of", "is_accepted", "sign_acceptance", "what_breaks"]


def sign_acceptance(record: AcceptanceRecord, *, keys: SigningKeys) -> AcceptanceRecord:
    """
    The acceptance, signed.

    :raises ValueRefused: where no store could hold it.
    """
    record = storable(record)
    return replace(record, key_id=keys.current, mac=_mac_of(record, key_id=keys.current, keys=keys))


def check_acceptance(record: AcceptanceRecord, *, keys: SigningKeys) -> AcceptanceRecord:
    """
    The acceptance, which is what a ledger with these keys wrote.

    :raises IntegrityError: where it is not.
    """
    expected = _mac_of(record, key_id=record.key_id, keys=keys)
    if not hmac.compare_digest(expected.encode("ascii"), record.mac.encode("utf-8", "replace")):
        raise IntegrityError(
            f"acceptance {record.number} of run {record.run_id} does not match its signature"
        )
    return record


def is_accepted(record: AcceptanceRecord, *, keys: SigningKeys) -> bool:
    """Whether the acceptance is what a ledger with these keys wrote."""
    try:
        check_acceptance(record, keys=keys)
    except IntegrityError:
        return False
    return True


def what_breaks(run: RunRecord, accepted: Sequence[AcceptanceRecord]) -> str | None:
    """
    Where the way from the definition that the run began under to the one that its record names is broken.

    :param accepted: the run's acceptances, each as signed, by their numbers.
    """
    if [one.number for one in accepted] != list(range(1, len(accepted) + 1)):
        return "an acceptance of another definition is missing"
    for before, after in pairwise(accepted):
        if before.to_fingerprint != after.from_fingerprint:
            return f"acceptance {after.number} does not go on from the one before it"
    if accepted and accepted[-1].to_fingerprint != run.definition_fingerprint:
        return "the run is not under the definition that it accepted last"
    return None


def definitions_of(run: RunRecord, accepted: Sequence[AcceptanceRecord]) -> tuple[str, ...]:
    """
    Fingerprints of the definitions that the run is and was under, the newest first.

    :param accepted: as signed, of this run as it is now.
    :raises IntegrityError: where they do not lead to the one that the run's record names.
    """
    broken = what_breaks(run, accepted)
    if broken is not None:
        raise IntegrityError(f"run {run.run_id} of {run.dag_id}: {broken}")
    return (run.definition_fingerprint, *(one.from_fingerprint for one in reversed(accepted)))


def _mac_of(record: AcceptanceRecord, *, key_id: str, keys: SigningKeys) -> str:
    told = (
        "acceptance",
        record.dag_id,
        record.run_id,
        record.incarnation,
        record.number,
        record.from_version,
        record.from_fingerprint,
        record.to_version,
        record.to_fingerprint,
        record.reason,
        record.task_id,
        record.map_index,
        record.process,
        record.source,
        format_utc(record.accepted_at),
    )
    return keys.mac(key_id, json.dumps(told, separators=(",", ":")).encode("ascii"))
