"""
The chain that the audit trail is made of, and the seal of a finished run (semantics section 1).

Each transition carries a MAC over itself and the MAC of the one before it in the same chain of the same task,
so an edit, a removal or a swap breaks the chain where it was made. A cut tail breaks nothing; it is found by
the task's own record, and in a finished run by its seal.
"""

from __future__ import annotations

import json
from dataclasses import replace

from louver.ledger.records import TransitionRecord
from louver.signing import SigningKeys
from louver.timestamps import format_utc

__all__ = ["link", "mac_of"]


def link(row: TransitionRecord, previous: str, *, keys: SigningKeys) -> TransitionRecord:
    """
    The row, chained to the one before it.

    :param previous: MAC of that one; empty for the first of its chain.
    """
    return replace(row, key_id=keys.current, mac=mac_of(row, previous, key_id=keys.current, keys=keys))


def mac_of(row: TransitionRecord, previous: str, *, key_id: str, keys: SigningKeys) -> str:
    """
    The MAC that belongs to the row.

    :raises IntegrityError: where no key of that id is configured.
    """
    told = (
        previous,
        row.dag_id,
        row.run_id,
        row.task_id,
        row.map_index,
        row.chain,
        row.version,
        row.generation,
        row.attempt,
        row.from_state,
        row.to_state,
        format_utc(row.at),
        row.trigger,
        row.actor,
        row.reason,
        row.source,
        row.precision,
    )
    return keys.mac(key_id, json.dumps(told, separators=(",", ":")).encode("ascii"))
