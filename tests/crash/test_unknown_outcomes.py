"""
Nobody knows whether an effect happened: what its author chose is done, and nothing else.

The provider did the work and lost the answer, or the process died between the act and its record.
"""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from crash.payers import Paid

PAID = Paid(run="succeeded", step="succeeded", effect="committed", done=1, asked=1, keys=1, faults=())
PAID_ONCE_ASKED_TWICE = replace(PAID, asked=2)
# A person has to find out; the run is over and says so.
OPEN = Paid(
    run="compensation_failed",
    step="failed (effect_unknown)",
    effect="undo_failed",
    done=1,
    asked=1,
    keys=1,
    faults=(),
)
OPEN_AND_NOT_DONE = replace(OPEN, done=0, asked=0, keys=0)

DIED_BEFORE, DIED_AFTER = "perform.before", "perform.after"


@pytest.fixture
def pay(nursery, place):
    """Return how to pay, by one process after the other where the first one is killed."""

    def act(way, *, answer_lost=False, killed_at=None):
        given = {"way": way, "case": "it", **place}
        first = nursery.start("crash.payers:pay", answer_lost=answer_lost, killed_at=killed_at, **given)
        if killed_at is None:
            paid = first.result()
        else:
            assert first.code() == -signal.SIGKILL
            paid = nursery.call("crash.payers:pay", turn=2, **given)
        # Called again, a run that is over does nothing more.
        assert nursery.call("crash.payers:pay", turn=3, **given) == paid
        return paid

    return act


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("retry", PAID_ONCE_ASKED_TWICE),
        ("verify", PAID),
        ("verify careless", PAID),
        ("verify in vain", OPEN),
        ("manual", OPEN),
    ],
)
def test_the_provider_did_it_and_lost_the_answer(way, expected, store, pay):
    assert pay(way, answer_lost=True) == expected


@pytest.mark.parametrize("killed_at", [DIED_AFTER, "commit_effect.before"])
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("retry", PAID_ONCE_ASKED_TWICE),
        ("verify", PAID),
        ("verify careless", PAID),
        ("verify in vain", OPEN),
        ("manual", OPEN),
    ],
)
def test_the_process_died_between_the_act_and_its_record(way, expected, killed_at, store, pay):
    assert pay(way, killed_at=killed_at) == expected


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("retry", PAID),
        ("verify", PAID),
        ("verify careless", PAID),
        ("verify in vain", OPEN_AND_NOT_DONE),
        ("manual", OPEN_AND_NOT_DONE),
    ],
)
def test_the_process_died_before_the_act_which_nobody_knows_either(way, expected, store, pay):
    assert pay(way, killed_at=DIED_BEFORE) == expected


@pytest.mark.parametrize("way", ["retry", "verify", "verify careless", "verify in vain", "manual"])
def test_the_process_died_once_it_was_recorded_and_nobody_has_to_be_asked(way, store, pay):
    assert pay(way, killed_at="commit_effect.after") == PAID
