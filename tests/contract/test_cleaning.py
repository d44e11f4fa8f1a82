"""Retention over a whole ledger: what is removed, what never is, and what happens at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from support.pasts import FATES, KEYS, History
from support.stores import Store
from support.upkeep import LATER, cleaned, collected, everything, lived_all

from louver.crash_points import at_every_point
from louver.engine import run_inline
from louver.ledger.contract import Ledger
from louver.ledger.records import (
    EffectRecord,
    EventRecord,
    PayloadRecord,
    RunRecord,
)
from louver.maintenance import clean_standing_effects, verify_ledger
from louver.states import RunState
from louver.testing.scene import ERROR


def test_what_is_over_goes_and_all_else_stays(store: Store, ledger: Ledger) -> None:
    runs = dict(zip(FATES, lived_all(ledger), strict=True))
    planned = cleaned(ledger, remove=False)
    done = cleaned(ledger)
    assert planned == done
    kept = {(one.dag_id, one.run_id): one.kept for one in done}
    named = {fate: kept[run.dag_id, run.run_id] for fate, run in runs.items()}
    assert named == {
        "succeeded": None,
        "compensated": None,
        "given_up": "effect pay#1 is undo_failed",
        "unfinished": "it is running",
        "cleared": None,
        "reopened": None,
        "marked": None,
        "made_again": "it is running",
    }
    left = {run.key for run in store.find(RunRecord)}
    assert left == {runs[fate] for fate in ("given_up", "unfinished", "made_again")}
    assert set(ledger.list_run_keys()) == left | {effect.task.run for effect in store.find(EffectRecord)}
    assert verify_ledger(ledger, limit=9).findings == ()
    assert collected(ledger) == []
    assert cleaned(ledger) == [one for one in done if one.kept is not None]


def test_with_their_effects_nothing_of_the_runs_is_left(store: Store, ledger: Ledger) -> None:
    history = History(ledger).succeeded()
    payloads = len(store.find(PayloadRecord))
    (one,) = cleaned(ledger, effects=True)
    assert (one.effects, one.standing, one.payloads) == (3, 0, payloads - 1)
    left = everything(store)
    assert [row.payload_id for row in left.pop("payload")] == [f"definition:{history.definition.fingerprint}"]
    assert set(map(len, left.values())) == {0}
    assert collected(ledger) == [f"definition:{history.definition.fingerprint}"]
    assert store.find(PayloadRecord) == []


def test_effects_that_have_outlived_their_runs_go_when_that_is_asked(store: Store, ledger: Ledger) -> None:
    lived_all(ledger, "succeeded", "compensated", "given_up")
    cleaned(ledger)
    standing = [effect for effect in store.find(EffectRecord) if effect.state != "undo_failed"]
    for remove in (False, True):
        assert list(clean_standing_effects(ledger, before=LATER, remove=remove)) == standing
    assert [effect.state for effect in store.find(EffectRecord)] == ["undo_failed"]
    assert verify_ledger(ledger, limit=9).findings == ()


def test_a_dag_or_a_time_alone(store: Store, ledger: Ledger) -> None:
    one, other = lived_all(ledger, "succeeded", "succeeded")
    assert [found.dag_id for found in cleaned(ledger, dag_id=one.dag_id)] == [one.dag_id]
    assert ledger.get_run(one) is None
    ended = ledger.get_run(other).updated_at
    assert cleaned(ledger, before=ledger.get_run(other).created_at) == []
    assert [found.kept for found in cleaned(ledger, before=ended)] == ["something of it is younger"]
    assert [found.kept for found in cleaned(ledger, before=ended + timedelta(microseconds=1))] == [None]


def test_retention_never_removes_the_state_of_a_step_that_will_be_tried_again(
    store: Store, ledger: Ledger
) -> None:
    """A retry after 31 days, and somebody has written into the ledger that the run is over (case H04)."""
    history = History(ledger)
    history.succeed("look")
    token = history.launch("act")
    ledger.save_checkpoint(token, "state", {"job": 7}, now=history.tick())
    ledger.advance(token, ERROR, now=history.tick())
    for state in RunState:
        store.put(replace(store.one(RunRecord), state=state))
        (one,) = cleaned(ledger, before=history.now + timedelta(days=31))
        assert one.kept
    history.now += timedelta(days=31)
    again = history.launch("act", try_number=2)
    assert ledger.load_checkpoint(again, "state", None) == {"job": 7}


def test_an_event_is_forgotten_with_its_run(store: Store, ledger: Ledger) -> None:
    history = History(ledger).succeeded()
    waiting = History(ledger)
    pending = waiting.event()
    assert cleaned(ledger)[0].events == 1
    # One whose run has not begun stays whatever its age: the run will look for it.
    assert store.find(EventRecord) == [pending]
    assert history.event().accepted_at == history.now


def test_cleaning_goes_by_pages(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("louver.maintenance._PAGE", 2)
    keys = lived_all(ledger, *(["cleared", "unfinished"] * 4))
    assert len(cleaned(ledger, remove=False)) == 8
    assert len(cleaned(ledger)) == 8
    assert [ledger.get_run(key) is None for key in keys] == [True, False] * 4


def test_cleaning_that_was_interrupted_is_gone_on_with(ledger: Ledger) -> None:
    keys = lived_all(ledger, "succeeded", "compensated", "cleared")
    seen = []

    def interrupt(point: str) -> None:
        seen.append(point)
        if seen.count("clean_run.inside") == 2:
            raise KeyboardInterrupt

    at_every_point(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            cleaned(ledger)
    finally:
        at_every_point(None)
    assert [ledger.get_run(key) is None for key in keys].count(True) == 1
    assert verify_ledger(ledger, limit=9).findings == ()
    cleaned(ledger)
    assert [ledger.get_run(key) for key in keys] == [None] * 3


def test_two_that_clean_and_collect_at_once_leave_a_sound_ledger(store: Store, ledger: Ledger) -> None:
    other = ledger if store.url == "memory://" else store.open(KEYS)
    judge = History(ledger)
    for _ in range(3):
        lived_all(ledger, *(["succeeded", "compensated"] * 3))
        answers = judge.at_once(
            lambda: cleaned(ledger),
            lambda: cleaned(other),
            lambda: collected(ledger),
            lambda: collected(other),
        )
        assert [answer for answer in answers if isinstance(answer, Exception)] == []
        assert verify_ledger(ledger, limit=9).findings == ()
    assert store.find(RunRecord) == []


def act(ctx: Any) -> Any:
    return ctx.effect("pay", intent={"a": 1}, perform=lambda key: key, compensate=undo)


def undo(undone: Any) -> None:
    return None


def look(act: Any) -> Any:
    raise OSError


def test_a_run_of_the_engine_is_sound_and_can_be_cleaned(store: Store, ledger: Ledger) -> None:
    from louver.definition import Definition, Step

    flow = Definition(
        name="flow",
        version="1",
        nodes=(Step(name="act", task="a:b"), Step(name="look", task="a:c", deps={"act": "act"})),
    )
    result = run_inline(flow, {"act": act, "look": look}, ledger=ledger)
    assert result.state is RunState.FAILED_COMPENSATED
    assert verify_ledger(ledger, limit=9).findings == ()
    now = datetime.now(timezone.utc)
    assert [one.kept for one in cleaned(ledger, before=now)] == [None]
    assert verify_ledger(ledger, limit=9).findings == ()
