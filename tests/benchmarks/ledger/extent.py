"""How much is done in a run of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "KEYS", "QUICK", "THREADS", "Extent"]

KEYS = {"bench": b"a secret of 32 bytes for figures"}
"""Everything is signed, as in earnest."""

THREADS = (1, 2, 4, 8)
"""How many work at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """
    How often.

    :param rounds: turns of everything that is measured.
    :param count: how often a thing is done in its turn; so many steps has a workflow of dbos, and so many
        effects a task of Louver's.
    :param crowd_rounds: turns of everything that threads do together.
    :param crowd_count: how often they do it in a turn, all of them together.
    :param runs: in the full ledger.
    :param asking_rounds: turns of every question to it.
    :param asked: how often it is asked each question in a turn.
    """

    rounds: int
    count: int
    crowd_rounds: int
    crowd_count: int
    runs: int
    asking_rounds: int
    asked: int


FULL = Extent(rounds=80, count=25, crowd_rounds=15, crowd_count=240, runs=100_000, asking_rounds=20, asked=5)
"""The figures that count. Many short turns: what disturbs the machine seldom ends with one of them."""

QUICK = Extent(rounds=3, count=20, crowd_rounds=2, crowd_count=80, runs=2_000, asking_rounds=3, asked=2)
"""Only to see that it runs."""
