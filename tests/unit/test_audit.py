"""The walk along a chain: which rows it calls broken, and that it goes on behind them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from louver.audit import ChainWalk, link
from louver.ledger.records import TransitionRecord
from louver.signing import SigningKeys
from louver.states import Precision, Source, TaskState

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
KEYS = SigningKeys(secrets={"k1": b"0123456789abcdef"})


def chain_of(length: int) -> list[TransitionRecord]:
    rows: list[TransitionRecord] = []
    for version in range(1, length + 1):
        row = TransitionRecord(
            dag_id="d",
            run_id="r",
            task_id="t",
            map_index=-1,
            chain="main",
            version=version,
            generation=1,
            attempt=1,
            from_state=TaskState.RUNNING,
            to_state=TaskState.RETRY_WAIT,
            at=NOW + timedelta(seconds=version),
            trigger="runtime:error",
            actor=None,
            reason=None,
            source=Source.WORKER,
            precision=Precision.EXACT,
        )
        rows.append(link(row, rows[-1].mac if rows else "", keys=KEYS))
    return rows


def walked(rows: list[TransitionRecord], keys: SigningKeys = KEYS) -> tuple[ChainWalk, list[tuple[int, str]]]:
    walk = ChainWalk(keys=keys)
    return walk, [broken for row in rows for broken in walk.follow(row)]


def test_a_whole_chain_has_nothing_broken_and_its_end_is_known() -> None:
    rows = chain_of(5)
    walk, broken = walked(rows)
    assert broken == []
    assert (walk.version, walk.mac, walk.last) == (5, rows[-1].mac, rows[-1])


def test_an_empty_chain_ends_at_0() -> None:
    walk, broken = walked([])
    assert (walk.version, walk.mac, broken) == (0, "", [])


@given(length=st.integers(1, 8), data=st.data())
def test_one_edited_row_is_the_only_broken_one(length: int, data: st.DataObject) -> None:
    rows = chain_of(length)
    at = data.draw(st.integers(0, length - 1))
    changes: dict[str, object] = data.draw(
        st.sampled_from(
            [
                {"reason": "x"},
                {"actor": ""},
                {"to_state": TaskState.FAILED},
                {"at": NOW - timedelta(microseconds=1)},
                {"dag_id": "e"},
                {"generation": 2},
                {"mac": ""},
                {"mac": "ü" * 64},
            ]
        )
    )
    rows[at] = replace(rows[at], **changes)  # type: ignore[arg-type]
    _, broken = walked(rows)
    assert [version for version, _ in broken] == [at + 1]


@given(length=st.integers(2, 8), data=st.data())
def test_a_missing_row_is_named_unless_it_is_the_last(length: int, data: st.DataObject) -> None:
    rows = chain_of(length)
    at = data.draw(st.integers(0, length - 2))
    walk, broken = walked(rows[:at] + rows[at + 1 :])
    assert [version for version, _ in broken] == [at + 1]
    assert walk.mac == rows[-1].mac


def test_a_row_that_cannot_be_read_hides_only_whether_the_next_one_fits() -> None:
    rows = chain_of(4)
    walk = ChainWalk(keys=KEYS)
    broken = [*walk.follow(rows[0]), *walk.skip(2), *walk.follow(rows[2]), *walk.follow(rows[3])]
    assert [version for version, _ in broken] == [2]
    assert walk.version == 4


def test_a_key_that_is_not_known_is_named_for_each_row() -> None:
    _, broken = walked(chain_of(2), SigningKeys(secrets={"k2": b"fedcba9876543210"}))
    assert [version for version, _ in broken] == [1, 2]
    assert all("'k1', which is not configured" in what for _, what in broken)
