"""
The chain that the audit trail is made of, and the walk along it that finds where it is broken (semantics
section 1).

Each transition carries a MAC over itself and the MAC of the one before it in the same chain of the same task,
so an edit, a removal or a swap breaks the chain where it was made. A cut tail breaks nothing; it is found by
the task's own record, and in a finished run by its seal (:mod:`louver.seals`).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from dataclasses import replace

from louver.errors import IntegrityError
from louver.ledger.records import TransitionRecord
from louver.signing import SigningKeys
from louver.timestamps import format_utc

__all__ = ["ChainWalk", "link", "mac_of"]


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


class ChainWalk:
    """
    Follows one chain of one task from its first row, and says which rows of it are not as they were written.

    :param keys: of the ledger.

    ``version`` and ``last`` are the number and the row it has come to; None where it could not be read.
    """

    def __init__(self, *, keys: SigningKeys) -> None:
        self._keys = keys
        # What the next row may be chained to; None where that row is missing, so that nobody can tell.
        self._before: tuple[str, ...] | None = ("",)
        self.version = 0
        self.last: TransitionRecord | None = None

    @property
    def mac(self) -> str:
        """MAC of the row it has come to; empty where there is none."""
        return "" if self.last is None else self.last.mac

    def follow(self, row: TransitionRecord) -> Iterator[tuple[int, str]]:
        """
        The next row of the chain, by its number.

        :returns: the numbers of rows that are broken, and what is wrong with each.
        """
        yield from self._gap(row.version)
        fault, expected = self._fault(row)
        if fault is not None:
            yield row.version, fault
        # A row whose MAC was changed breaks itself; the next one is chained to the MAC that it had.
        self._before = (row.mac,) if expected is None else (row.mac, expected)
        self.version, self.last = row.version, row

    def skip(self, version: int) -> Iterator[tuple[int, str]]:
        """The next row is there and cannot be read."""
        yield from self._gap(version)
        yield version, "it holds what no ledger writes"
        self._before, self.version, self.last = None, version, None

    def _gap(self, version: int) -> Iterator[tuple[int, str]]:
        if version != self.version + 1:
            yield self.version + 1, f"it is missing: row {version} follows row {self.version}"
            self._before = None

    def _fault(self, row: TransitionRecord) -> tuple[str | None, str | None]:
        """What is wrong with the row, and the MAC that it should have, as far as that can be told."""
        if self._before is None:
            return None, None
        expected = None
        for before in self._before:
            try:
                expected = mac_of(row, before, key_id=row.key_id, keys=self._keys)
            except IntegrityError as error:
                return str(error), None
            except (TypeError, ValueError):
                return "it holds what no ledger writes", None
            if hmac.compare_digest(expected.encode("ascii"), str(row.mac).encode("utf-8", "replace")):
                return None, None
        return "it does not match its signature: it was changed, or belongs elsewhere", expected
