"""
How many tasks of a bucket may run at once: ``8``, or ``8, 5:0, 6-7:2`` where some buckets differ.

Zero slots drain a bucket: what runs goes on, and nothing new begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from louver.buckets.policy import MOST_BUCKETS
from louver.errors import ConfigurationError

__all__ = ["BucketSlots"]

_SLOTS = re.compile(r"[0-9]{1,6}", re.ASCII)
_SPECIAL = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?\s*:\s*([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSlots:
    """
    The slots of each bucket's pool.

    :param usual: of buckets that are not named; 0 to 999999.
    :param special: of those that are, by number.
    """

    usual: int
    special: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def parse(cls, text: str) -> BucketSlots:
        """
        Read ``8, 5:0, 6-7:2``: the usual number, then the buckets that differ.

        :raises ConfigurationError: naming what cannot be read; also where a bucket is named twice.
        """
        usual, *others = (entry.strip() for entry in text.split(","))
        if not _SLOTS.fullmatch(usual):
            raise ConfigurationError(f"{usual!r} is no number of slots; give it as 8, or as 8, 5:0, 6-7:2")
        special: dict[int, int] = {}
        for entry in others:
            match = _SPECIAL.fullmatch(entry)
            if match is None:
                raise ConfigurationError(f"{entry!r} is no bucket with slots; give it as 5:0 or 6-7:2")
            first, last = int(match[1]), int(match[2] or match[1])
            if not first <= last < MOST_BUCKETS:
                raise ConfigurationError(f"{entry!r} names no buckets; they are 0 to {MOST_BUCKETS - 1}")
            for bucket in range(first, last + 1):
                if bucket in special:
                    raise ConfigurationError(f"bucket {bucket} is given slots twice")
                special[bucket] = int(match[3])
        return cls(usual=int(usual), special=MappingProxyType(special))

    def of(self, bucket: int) -> int:
        """The slots of a bucket."""
        return self.special.get(bucket, self.usual)
