"""Payloads that no row refers to, found by what their envelopes are bound to: a look by primary key each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from louver.ledger.owners import Owner, binding_in, own_id, owner_of, payloads_of
from louver.ledger.records import AcceptanceRecord, PayloadRecord, Record, RunRecord
from louver.ledger.rows import OPENING_BYTES, Damaged, PayloadHead, Rows, primary_of
from louver.ledger.task_operations import definition_payload

__all__ = ["Stray", "strays"]

_TOGETHER = 100

_UNDER: tuple[tuple[type[Record], str], ...] = (
    (RunRecord, "definition_fingerprint"),
    (AcceptanceRecord, "from_fingerprint"),
)
"""What tells that a run is, or was, under a definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """
    A payload that the row it was made for does not have.

    :param own_id: the id that its binding gives it.
    :param owner: the row that it was made for.
    :param row_is_there: that row, with another payload.
    """

    payload_id: str
    own_id: str
    binding: Mapping[str, Any] = field(repr=False)
    owner: Owner
    row_is_there: bool


def strays(rows: Rows, heads: Iterable[PayloadHead]) -> Iterator[Stray]:
    """
    Those of the payloads that no row refers to.

    What does not open as an envelope of this release is none of them: whose it is, nobody can say.
    """
    by_kind: dict[type[Record], list[Stray]] = {}
    for head in heads:
        binding = _binding_of(rows, head)
        owner = None if binding is None else owner_of(binding)
        name = None if binding is None else own_id(binding)
        if binding is not None and owner is not None and name is not None:
            by_kind.setdefault(owner[0], []).append(
                Stray(
                    payload_id=head.payload_id, own_id=name, binding=binding, owner=owner, row_is_there=True
                )
            )
    for kind, found in by_kind.items():
        for first in range(0, len(found), _TOGETHER):
            yield from _unowned(rows, kind, found[first : first + _TOGETHER])


def _binding_of(rows: Rows, head: PayloadHead) -> Mapping[str, Any] | None:
    binding = binding_in(head.opening)
    if binding is None and head.size > OPENING_BYTES == len(head.opening):
        # Names so long that the opening does not hold them.
        for payload in rows.read(PayloadRecord, [(head.payload_id,)]):
            binding = binding_in(payload.envelope) if isinstance(payload, PayloadRecord) else None
    return binding


def _unowned(rows: Rows, kind: type[Record], found: list[Stray]) -> Iterator[Stray]:
    has = _payloads_by_owner(rows, kind, {stray.owner[1] for stray in found})
    for stray in found:
        primary = stray.owner[1]
        if primary not in has:
            yield replace(stray, row_is_there=False)
        else:
            ids = has[primary]
            if ids is not None and stray.payload_id not in ids:
                yield stray


def _payloads_by_owner(
    rows: Rows, kind: type[Record], primaries: set[tuple[Any, ...]]
) -> Mapping[tuple[Any, ...], tuple[str, ...] | None]:
    """
    Ids of the payloads that each of the rows may have; None where it cannot say.

    Rows that are not there are left out.
    """
    if kind is RunRecord:
        # The owners of a definition are all runs that are, or were, under it.
        return {
            primary: (definition_payload(*primary),)
            for primary in primaries
            if any(rows.page(kind, limit=1, **{name: primary[0]}) for kind, name in _UNDER)
        }
    return {
        primary_of(row): None if isinstance(row, Damaged) else payloads_of(row)
        for row in rows.read(kind, primaries)
    }
