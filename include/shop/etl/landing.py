"""
Where files arrive: ``<day>/<region>.csv``, one partition each.

``SHOP_LANDING`` names the folder; by default it is the one with the sample files. A file may come late, and
may come again with other content, so a partition is named by day, region and the hash of what is in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

__all__ = ["Arrival", "PartitionChanged", "arrivals", "arrived_on", "content_of", "landing_folder"]


class PartitionChanged(Exception):
    """The file is not the one that the run began with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """
    A file that is there.

    :param content_hash: SHA-256 of its bytes, in hex.
    """

    day: date
    region: str
    content_hash: str


def landing_folder() -> Path:
    """The folder, as the environment names it now."""
    named = os.environ.get("SHOP_LANDING")
    return Path(named) if named else Path(__file__).with_name("data") / "landing"


def arrived_on(day: date) -> list[Arrival]:
    """What is there for a day, by region; empty where nothing has come yet."""
    files = sorted((landing_folder() / day.isoformat()).glob("*.csv"))
    return [Arrival(day=day, region=path.stem, content_hash=_hash(path.read_bytes())) for path in files]


def arrivals() -> Iterator[Arrival]:
    """All that is there, day by day."""
    for folder in sorted(landing_folder().iterdir()):
        try:
            day = date.fromisoformat(folder.name)
        except ValueError:
            # Other things may lie in a landing folder.
            continue
        # Python reads other spellings of a day too, from 3.11 on.
        if folder.name == day.isoformat():
            yield from arrived_on(day)


def content_of(day: date, region: str, *, content_hash: str) -> bytes:
    """
    What is in the file.

    :raises PartitionChanged: where that is not what the run saw first; the next run takes the new content.
    """
    content = (landing_folder() / day.isoformat() / f"{region}.csv").read_bytes()
    if _hash(content) != content_hash:
        raise PartitionChanged(f"{region} of {day} has changed since this run began; start another run")
    return content


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
