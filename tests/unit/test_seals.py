"""What a seal says, and what becomes of one that another release has made."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone

import pytest

from louver import seals
from louver.errors import IntegrityError
from louver.ledger.records import (
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    Record,
    RunRecord,
    TaskRecord,
)
from louver.seals import HOLDER, read_seal, seal_content
from louver.states import RunState, TaskState

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)

RUN = RunRecord(
    dag_id="d",
    run_id="r",
    incarnation=1,
    marker="m",
    definition_name="d",
    definition_version="1",
    definition_fingerprint="f" * 64,
    state=RunState.SUCCEEDED,
    reason=None,
    requester="ann",
    created_at=NOW,
    updated_at=NOW,
)
TASK = TaskRecord(
    dag_id="d",
    run_id="r",
    task_id="t",
    map_index=-1,
    state=TaskState.SUCCEEDED,
    version=3,
    head="m",
    updated_at=NOW,
)
SAVED = CheckpointRecord(
    dag_id="d",
    run_id="r",
    task_id="t",
    map_index=-1,
    generation=1,
    name="state",
    incarnation=1,
    digest="x",
    saved_at=NOW,
)


@pytest.mark.parametrize(
    ("kind", "parts", "elsewhere"),
    [
        # Commits are counted by the effects that have them.
        (RunRecord, ("run.origin", "run.end"), {"commits"}),
        (TaskRecord, ("task",), {*HOLDER, "version", "head", "side_version", "side_head"}),
        (EffectRecord, ("effect",), set()),
        (EffectRecord, ("effect.failed",), set()),
        # Its signature may be renewed under a newer key, and says itself that the rest is as it was.
        (ApprovalRecord, ("approval",), {"key_id", "mac"}),
        (CheckpointRecord, ("checkpoint",), set()),
    ],
)
def test_the_newest_layout_has_every_field_of_a_row(
    kind: type[Record], parts: tuple[str, ...], elsewhere: set[str]
) -> None:
    """A field that is added to a record needs a layout of its own; older seals keep theirs."""
    sealed = [name for part in parts for name in seals._LAYOUTS[seals._LAYOUT][part]]
    assert sorted(sealed) == sorted({field.name for field in fields(kind)} - {"dag_id", "run_id"} - elsewhere)


def test_a_seal_is_read_as_it_was_written() -> None:
    seal = read_seal(seal_content(RUN, [TASK], [], [], [SAVED], now=NOW))
    assert (seal.at, seal.marked, seal.over) == ("2026-01-02T03:04:05.000000Z", True, True)
    assert (seal.ends["t", -1].version, seal.ends["t", -1].head) == (3, "m")
    for part, row in (("run.origin", RUN), ("run.end", RUN), ("task", TASK), ("checkpoint", SAVED)):
        assert seal.keeps(part, row) is True


@pytest.mark.parametrize("name", ["state", "reason", "updated_at"])
def test_the_end_of_a_run_is_apart_from_its_beginning(name: str) -> None:
    seal = read_seal(seal_content(RUN, [], [], [], [], now=NOW))
    other = {"state": RunState.FAILED, "reason": "x", "updated_at": NOW + timedelta(microseconds=1)}[name]
    changed = replace(RUN, **{name: other})  # type: ignore[arg-type]
    assert (seal.keeps("run.end", changed), seal.keeps("run.origin", changed)) == (False, True)


def test_who_holds_a_task_is_not_sealed() -> None:
    seal = read_seal(seal_content(RUN, [TASK], [], [], [], now=NOW))
    assert (
        seal.keeps("task", replace(TASK, session=9, try_number=9, max_tries=9, nonce="n", process="p"))
        is True
    )
    assert seal.keeps("task", replace(TASK, failures=1)) is False


def test_checkpoints_of_a_step_that_is_not_over_are_not_sealed() -> None:
    at_work = replace(TASK, state=TaskState.RUNNING)
    seal = read_seal(seal_content(RUN, [at_work], [], [], [SAVED], now=NOW))
    assert seal.keeps("checkpoint", SAVED) is None


@pytest.mark.parametrize(
    "content", [None, [], {}, {"tasks": 1}, {"tasks": [["t"]]}, {"tasks": [], "rows": [1]}, {"tasks": [[]]}]
)
def test_what_is_no_seal_is_refused(content: object) -> None:
    with pytest.raises(IntegrityError, match="into a seal"):
        read_seal(content)


def test_a_seal_of_a_later_release_is_refused() -> None:
    with pytest.raises(IntegrityError, match="layout is 99"):
        read_seal({"tasks": [], "layout": 99})


def test_a_seal_of_an_earlier_release_vouches_for_the_ends_of_chains_alone() -> None:
    seal = read_seal({"tasks": [["t", -1, 3, "m", 0, ""]]})
    assert seal.ends["t", -1].head == "m"
    assert (seal.at, seal.over, dict(seal.rows)) == (None, True, {})
    assert seal.keeps("task", TASK) is None
