"""
Which node owns which buckets (semantics, section 7): ``node-a:0-31, node-b:32-63``.

Mistakes are kept and not refused: a process that will not start because two nodes claim one bucket helps
nobody. Of a bucket that is claimed twice the first node named is the owner, in every process alike; gaps and
overlaps are told by the doctor (row T17).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from louver.buckets.policy import MOST_BUCKETS
from louver.errors import ConfigurationError

__all__ = ["BucketOwners", "Claim", "ranges_text"]

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,199}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    Buckets of one node.

    :param node: its name, which is also the executor queue that it serves.
    :param first: the first bucket.
    :param last: the last one, inclusive.
    """

    node: str
    first: int
    last: int

    def __post_init__(self) -> None:
        if not _NODE.fullmatch(self.node):
            raise ConfigurationError(
                f"{self.node!r} is no name of a node; use letters, digits and _ . @ - alone, 200 at most"
            )
        if not 0 <= self.first <= self.last < MOST_BUCKETS:
            raise ConfigurationError(
                f"{self.node}:{self.first}-{self.last} is no range of buckets; "
                f"they are numbered from 0 to {MOST_BUCKETS - 1}"
            )

    def __str__(self) -> str:
        return f"{self.node}:{ranges_text(range(self.first, self.last + 1))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOwners:
    """
    Who owns what.

    :param claims: in the order in which they were named; none where buckets have no owners.
    """

    claims: tuple[Claim, ...] = ()
    _owners: Mapping[int, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owners: dict[int, str] = {}
        for claim in self.claims:
            for bucket in range(claim.first, claim.last + 1):
                owners.setdefault(bucket, claim.node)
        object.__setattr__(self, "_owners", MappingProxyType(owners))

    @classmethod
    def parse(cls, text: str) -> BucketOwners:
        """
        Read ``node-a:0-31, node-b:32-63``; a node may be named several times, a range be one number.

        :raises ConfigurationError: naming what cannot be read.
        """
        if not text.strip():
            return cls()
        claims = []
        for entry in (entry.strip() for entry in text.split(",")):
            node, _, buckets = entry.rpartition(":")
            match = _RANGE.fullmatch(buckets.strip())
            if match is None:
                raise ConfigurationError(f"{entry!r} is no owner with buckets; give it as node-a:0-31")
            first = int(match[1])
            claims.append(Claim(node=node.strip(), first=first, last=int(match[2] or first)))
        return cls(claims=tuple(claims))

    def __bool__(self) -> bool:
        return bool(self.claims)

    def owner_of(self, bucket: int) -> str | None:
        """The node that owns the bucket; None where nobody does."""
        return self._owners.get(bucket)

    def buckets_of(self, node: str) -> list[int]:
        """The buckets that a node owns."""
        return sorted(bucket for bucket, owner in self._owners.items() if owner == node)

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that are named."""
        return tuple(dict.fromkeys(claim.node for claim in self.claims))

    def gaps(self, count: int) -> list[int]:
        """The buckets, of so many, that nobody owns; none where there are no owners at all."""
        return [bucket for bucket in range(count) if self and bucket not in self._owners]

    def overlaps(self) -> dict[int, tuple[str, ...]]:
        """The buckets that several nodes claim, with them."""
        claimed: dict[int, dict[str, None]] = {}
        for claim in self.claims:
            for bucket in range(claim.first, claim.last + 1):
                claimed.setdefault(bucket, {})[claim.node] = None
        return {bucket: tuple(nodes) for bucket, nodes in sorted(claimed.items()) if len(nodes) > 1}

    def beyond(self, count: int) -> list[int]:
        """The buckets that are owned though there are only so many."""
        return sorted(bucket for bucket in self._owners if bucket >= count)

    def __str__(self) -> str:
        return ", ".join(str(claim) for claim in self.claims)


def ranges_text(buckets: Iterable[int]) -> str:
    """Numbers as ranges, for people: ``0-3, 7``."""
    parts: list[list[int]] = []
    for bucket in sorted(set(buckets)):
        if parts and bucket == parts[-1][1] + 1:
            parts[-1][1] = bucket
        else:
            parts.append([bucket, bucket])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
