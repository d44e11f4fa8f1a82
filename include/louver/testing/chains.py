"""
The audit trail: rows that are signed, and the ends of their chains (semantics section 1).

What it does not do: compute a MAC, since the suite does not know the store's keys. Whoever opens the store
does, and can hold each row against :func:`louver.audit.mac_of` and the row before it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from louver.ledger.records import TaskRecord
from louver.sessions import Change
from louver.states import Precision, Source, TaskState
from louver.testing.scene import COMPLETED, ERROR, FAILED, LAUNCHED, PARKED, RESUMED, Scene, check

__all__ = [
    "check_advance_keeps_the_time_when_it_happened",
    "check_get_task_knows_the_end_of_each_chain",
    "check_list_transitions_are_signed_each_by_itself",
    "check_mark_keeps_the_time_when_it_happened",
]

_SKIP = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="ann", reason="not needed")


def _ends(scene: Scene, task_id: str) -> None:
    """The task's record must know the newest row of both of its chains."""
    record = scene.found(scene.ledger.get_task(scene.key(task_id)), "the record")
    for chain, version, head in (
        ("main", record.version, record.head),
        ("side", record.side_version, record.side_head),
    ):
        rows = scene.told(task_id, chain=chain)
        last = (rows[-1].version, rows[-1].mac) if rows else (0, "")
        scene.equal((version, head), last, f"the end of the {chain} chain that the record knows")


@check
def check_list_transitions_are_signed_each_by_itself(scene: Scene) -> None:
    """Every row names its key and has a MAC of its own, also where two tasks have lived the same."""
    for task_id in ("act", "look"):
        held = scene.ledger.get_task(scene.key(task_id))
        scene.equal(held, None, "a task that nobody opened")
    # Both at the same moments: nothing but their names tells their rows apart.
    begun = scene.tick()
    scene.begin()
    for task_id in ("act", "look"):
        scene.now = begun
        scene.ledger.advance(scene.launch(task_id), ERROR, now=scene.tick())
        token = scene.launch(task_id, try_number=2)
        scene.ledger.complete(token, COMPLETED, "result", now=scene.tick())
        token = scene.launch(task_id, try_number=3, max_tries=5)
        for session in (token.session, token.session + 1):
            scene.ledger.mark(token.key, _SKIP, session=session, source=Source.API, now=scene.tick())

    rows = scene.ledger.list_transitions(scene.run)
    scene.equal(len(scene.told("act")), len(scene.told("look")), "the rows of one and the other task")
    scene.equal({type(row.mac) for row in rows} | {type(row.key_id) for row in rows}, {str}, "their types")
    scene.holds(all(row.mac for row in rows), "every row must have a MAC")
    scene.holds(all(row.key_id for row in rows), "every row must name its key")
    scene.equal(len({row.mac for row in rows}), len(rows), "how many MACs there are")


@check
def check_get_task_knows_the_end_of_each_chain(scene: Scene) -> None:
    """After every kind of write: version and MAC of the newest row, so that a cut tail is found."""
    token = scene.open("act").token
    _ends(scene, "act")
    scene.ledger.advance(token, LAUNCHED, now=scene.tick())
    _ends(scene, "act")
    scene.ask(token, 1)
    _ends(scene, "act")
    token = scene.open("act", nonce="nonce-1").token
    scene.ledger.advance(token, RESUMED, ERROR, now=scene.tick())
    _ends(scene, "act")
    token = scene.launch("act", try_number=2)
    scene.ledger.complete(token, COMPLETED, "result", now=scene.tick())
    _ends(scene, "act")
    cleared = scene.launch("act", try_number=3, max_tries=5)
    scene.ledger.mark(cleared.key, _SKIP, session=cleared.session, source=Source.API, now=scene.tick())
    _ends(scene, "act")
    scene.begin(marker="another")
    scene.launch("act")
    _ends(scene, "act")
    record = scene.found(scene.ledger.get_task(cleared.key), "the record")
    scene.holds(record.version > 12, "the main chain must have gone on")
    scene.equal(record.side_version, 1, "the rows of the side chain")


@check
def check_advance_keeps_the_time_when_it_happened(scene: Scene) -> None:
    """A row that is filled in afterwards stands at its own time, in a chain that counts as it was written."""
    token = scene.open("act").token
    happened = scene.after(-0.5)
    late = replace(LAUNCHED, at=happened, precision=Precision.BOUNDED)

    (row,) = scene.ledger.advance(token, late, now=scene.tick(60))

    scene.equal((row.at, row.precision, row.version), (happened, Precision.BOUNDED, 3), "the row")
    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.updated_at, record.version), (scene.now, 3), "the record")
    _told_by_time(scene, row_at=happened, record=record)

    parked = replace(PARKED, at=scene.after(-1))
    request = scene.question()
    _, row = scene.ledger.park(token, parked, nonce="nonce-1", request=request, now=scene.tick(60))
    scene.equal(row.at, parked.at, "the time of a park")
    token = scene.open("act", nonce="nonce-1").token
    scene.ledger.advance(token, RESUMED, now=scene.tick())
    done = replace(COMPLETED, at=scene.after(-0.25))
    scene.equal(
        scene.ledger.complete(token, done, None, now=scene.tick()).at, done.at, "the time of the result"
    )


def _told_by_time(scene: Scene, *, row_at: object, record: TaskRecord) -> None:
    rows = scene.ledger.list_transitions(scene.run)
    scene.equal([row.at for row in rows], sorted(row.at for row in rows), "the times")
    # It happened before the rows that opening the task has written.
    scene.equal((rows[0].at, rows[0].version), (row_at, record.version), "the first row")
    scene.equal([row.version for row in scene.told("act")], [1, 2, 3], "the versions")


@check
def check_mark_keeps_the_time_when_it_happened(scene: Scene) -> None:
    """Whoever sees it late says when it was, as far as that is known."""
    token = scene.launch("act")
    scene.ledger.advance(token, FAILED, now=scene.tick())
    happened = scene.now - timedelta(seconds=30)
    late = replace(_SKIP, at=happened, precision=Precision.UNKNOWN)

    row = scene.ledger.mark(
        token.key, late, session=token.session, source=Source.RECONCILER, now=scene.tick()
    )

    marked = scene.found(row, "the row")
    scene.equal((marked.at, marked.precision), (happened, Precision.UNKNOWN), "the row")
    scene.equal(scene.told("act", chain="side"), [marked], "the side chain, read again")
    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.updated_at, record.state), (scene.now, TaskState.SKIPPED), "the record")
