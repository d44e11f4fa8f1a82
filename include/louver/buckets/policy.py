"""
Buckets: a stable hash of a tenant's key says in which of N buckets its runs belong (semantics, section 7).

``bucket(key) = int.from_bytes(blake2b(key, digest_size=8), "big") % N``. Keys are hashed as UTF-8, in the
normal form C of Unicode, so that two spellings of one name share a bucket. The ``hash`` of Python would not
do: it differs from process to process.

N changes with time, and a run never moves: the count is a list of epochs, and the moment at which a run was
created picks the one that holds for it, for ever. Append an epoch to change N; never edit one that has begun.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from itertools import pairwise
from typing import Any

from louver.errors import ConfigurationError, TimestampError, ValueRefused, require_aware
from louver.timestamps import parse_rfc3339, to_utc, to_utc_text

__all__ = ["LONGEST_KEY", "MOST_BUCKETS", "BucketPolicy", "Epoch", "key_digest", "key_text", "pool_name"]

LONGEST_KEY = 1024
"""Characters of a key. A name or an id is far shorter; whatever is longer was put there by mistake."""

MOST_BUCKETS = 4096
"""Each is a pool, and the scheduler reads all pools in each of its rounds."""

_LARGEST = 10**40
_COUNT = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_BEGINNING = datetime(1, 1, 1, tzinfo=timezone.utc)


def key_text(key: Any, *, path: str = "$") -> str:
    """
    The text that stands for a key: of a string its normal form C, of an integer its decimal digits.

    :param path: where the key was found, for the error.
    :raises ValueRefused: for anything else, and for a string that is empty, longer than 1024 characters, or
        that UTF-8 or a database cannot hold. The error never shows the key.
    """
    if isinstance(key, int) and not isinstance(key, bool):
        if abs(key) >= _LARGEST:
            raise ValueRefused(path, "the bucket key is an integer of more than 40 digits")
        return str(int(key))
    if not isinstance(key, str):
        raise ValueRefused(path, f"the bucket key must be a string or an integer, not {_kind(key)}")
    if not key:
        raise ValueRefused(path, "the bucket key is empty")
    # Before anything is made of it: a megabyte takes its time to be normalised.
    if len(key) > LONGEST_KEY:
        raise ValueRefused(path, f"the bucket key has more than {LONGEST_KEY} characters")
    text = str(key) if key.isascii() else unicodedata.normalize("NFC", key)
    if "\0" in text:
        raise ValueRefused(path, "the bucket key has a NUL character in it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Without the error that says so: the key stands in it.
        raise ValueRefused(path, "the bucket key has half a surrogate pair in it") from None
    return text


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def key_digest(key: Any, *, path: str = "$") -> int:
    """
    The hash of a key: 64 bits, the same in every process, and whatever the number of buckets.

    :raises ValueRefused: as :func:`key_text`.
    """
    return _digest(key_text(key, path=path))


@lru_cache(maxsize=4096)
def _digest(text: str) -> int:
    # Kept: the scheduler asks for the same key once for each task of a run.
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")


def pool_name(bucket: int) -> str:
    """The pool of a bucket: a fixed prefix and a number, never anything of a key."""
    return f"bucket_{bucket:02d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """
    From when on there are how many buckets.

    :param since: aware; runs created at this moment or later.
    :param count: 1 to 4096.
    """

    since: datetime
    count: int

    def __post_init__(self) -> None:
        require_aware("since", self.since)
        if isinstance(self.count, bool) or not isinstance(self.count, int):
            raise ConfigurationError("a number of buckets must be an int")
        if not 1 <= self.count <= MOST_BUCKETS:
            raise ConfigurationError(f"{self.count} is no number of buckets; give 1 to {MOST_BUCKETS}")

    def __str__(self) -> str:
        return f"{to_utc_text(self.since)}:{self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPolicy:
    """
    In which bucket a key's runs belong.

    :param epochs: by time, each later than the one before. Runs from before the first one are in no bucket.
    """

    epochs: tuple[Epoch, ...]
    _since: tuple[datetime, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.epochs:
            raise ConfigurationError("without an epoch there are no buckets; give one as 2026-01-01:16")
        for earlier, later in pairwise(self.epochs):
            if later.since <= earlier.since:
                raise ConfigurationError(
                    f"epochs must follow each other in time; {later} stands after {earlier}"
                )
        object.__setattr__(self, "_since", tuple(epoch.since for epoch in self.epochs))

    @classmethod
    def of(cls, count: int) -> BucketPolicy:
        """So many buckets, for runs of all times."""
        return cls(epochs=(Epoch(since=_BEGINNING, count=count),))

    @classmethod
    def parse(cls, text: str) -> BucketPolicy:
        """
        Read ``2026-01-01:16, 2026-06-01:64``, or ``64`` alone for runs of all times.

        :param text: a moment is a date, which begins at midnight UTC, or an RFC 3339 date-time.
        :raises ConfigurationError: naming what cannot be read.
        """
        entries = [entry.strip() for entry in text.split(",")]
        if len(entries) == 1 and ":" not in text:
            return cls.of(_count(entries[0], text))
        epochs = []
        for entry in entries:
            since, colon, count = entry.rpartition(":")
            if not colon:
                raise ConfigurationError(f"{entry!r} is no epoch; give it as 2026-01-01:16")
            epochs.append(Epoch(since=_moment(since.strip(), entry), count=_count(count.strip(), entry)))
        return cls(epochs=tuple(epochs))

    def count_at(self, created: datetime) -> int | None:
        """
        How many buckets there are for a run that was created then; None where there were none yet.

        :param created: aware.
        """
        place = bisect_right(self._since, created)
        return self.epochs[place - 1].count if place else None

    @property
    def newest(self) -> int:
        """The number of buckets in the last epoch."""
        return self.epochs[-1].count

    @property
    def most(self) -> int:
        """The largest number of buckets of any epoch: runs of all of them may be under way."""
        return max(epoch.count for epoch in self.epochs)

    def bucket(self, key: Any, *, created: datetime | None = None) -> int | None:
        """
        The bucket of a run.

        :param created: when it was created, aware; without it the last epoch counts.
        :returns: 0 to N - 1; None for a run from before the first epoch.
        :raises ValueRefused: as :func:`key_text`.
        """
        digest = key_digest(key)
        count = self.newest if created is None else self.count_at(created)
        return None if count is None else digest % count

    def __str__(self) -> str:
        if self._since == (_BEGINNING,):
            return str(self.newest)
        return ", ".join(str(epoch) for epoch in self.epochs)


def _count(text: str, entry: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ConfigurationError(f"{entry!r} has no number of buckets; give 1 to {MOST_BUCKETS}")
    return int(text)


def _moment(text: str, entry: str) -> datetime:
    try:
        return to_utc(parse_rfc3339(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text))
    except TimestampError as error:
        raise ConfigurationError(
            f"{entry!r} does not begin with a moment; give 2026-01-01, or an RFC 3339 date-time"
        ) from error
