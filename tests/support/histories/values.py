"""What histories are made of: few names, so that they meet each other; now and then what no store takes."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

from hypothesis import strategies as st
from hypothesis.stateful import Bundle

from louver.sessions import Change
from louver.states import TRANSITIONS, FailureKind, Precision, TaskState

__all__ = [
    "CHANGES",
    "COMMANDS",
    "COMPLETED",
    "EDGES",
    "EFFECTS",
    "INTENTS",
    "LARGEST",
    "LAUNCHED",
    "NAMES",
    "OWNERS",
    "PARKED",
    "PICKS",
    "PLACES",
    "REASONS",
    "REQUESTS",
    "RESUMED",
    "RUNS",
    "SECONDS",
    "TASKS",
    "TICKETS",
    "TOKENS",
    "VALUES",
    "WHO",
    "Place",
    "mostly",
]

LARGEST = 4096
"""The stores are opened with this limit, in bytes."""

RUNS = ("run-1", "run-2")

Place = tuple[str, str, int]
"""Run, task and map index."""

TASKS: tuple[Place, ...] = (
    ("run-1", "act", -1),
    ("run-1", "look", -1),
    ("run-1", "look", 0),
    ("run-2", "act", -1),
)

TOKENS = Bundle("tokens")
EFFECTS = Bundle("effects")
REQUESTS = Bundle("requests")
COMMANDS = Bundle("commands")

LAUNCHED = Change(to=TaskState.RUNNING, trigger="executor:launched")
PARKED = Change(to=TaskState.PAUSED, trigger="approval:requested")
RESUMED = Change(to=TaskState.RUNNING, trigger="user:resume")
COMPLETED = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")

EDGES = sorted(
    (origin, to, trigger) for (origin, to), triggers in TRANSITIONS.items() for trigger in triggers
)


class Unstorable:
    """No value that a ledger could keep."""

    def __repr__(self):
        return "Unstorable()"


def mostly(usual, *others):
    """The first of the values in two of three cases."""
    return st.sampled_from([usual] * (2 * len(others)) + list(others))


VALUES = st.sampled_from(
    [
        None,
        {"sum": 5},
        (1, "two", 3.0),
        Decimal("1.10"),
        b"\0\xff",
        datetime(2026, 1, 2, tzinfo=timezone.utc),
        2**63,
        'Ünïcødé \U0001f680 "quoted"',
        [Unstorable()],
        {"rate": float("nan")},
        "x" * (LARGEST + 1),
    ]
)
INTENTS = st.sampled_from([{"amount": 5}] * 7 + [{"amount": 6}] * 2 + [{"amount": Unstorable()}])
REASONS = st.sampled_from([None] * 6 + ["why"] * 3 + ["half a pair \ud800"])
NAMES = st.sampled_from(["state"] * 6 + ["page"] * 3 + ["n\0ne"])
OWNERS = st.sampled_from(["ann", "bob", "eve"])
PLACES = st.sampled_from(TASKS)
PICKS = st.integers(0, 99)
SECONDS = st.sampled_from([0.0, 1.0, 60.0])
TICKETS = st.integers(0, 2)
WHO = st.sampled_from(["holder"] * 7 + ["stale"] * 2 + ["overtaken"] * 2 + ["deleted"])
CHANGES = st.builds(
    lambda edge, **given: Change(to=edge[1], trigger=edge[2], **given),
    st.sampled_from(EDGES),
    reason=REASONS,
    actor=mostly(None, "ann"),
    failure_kind=st.sampled_from([None, FailureKind.EXCEPTION, FailureKind.LOST]),
    precision=st.sampled_from(list(Precision)),
    begins_attempt=st.booleans(),
    at=mostly(None, datetime(2026, 1, 2, 3, 4, 6, tzinfo=timezone.utc)),
)
