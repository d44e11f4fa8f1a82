"""Signs of life: kept apart from the snapshot, so that they never meet a decision (row T11)."""

from __future__ import annotations

from functools import partial

from louver.ledger.names import RunKey
from louver.ledger.records import TouchRecord
from louver.ledger.requests import Progress
from louver.testing.scene import COMPLETED, ERROR, LAUNCHED, Scene, check

__all__ = [
    "check_list_touches_gives_those_of_the_run",
    "check_touch_at_once_leaves_the_newest_session",
    "check_touch_at_once_with_decisions_disturbs_none",
    "check_touch_by_a_superseded_process_is_dropped",
    "check_touch_by_the_next_session_starts_afresh",
    "check_touch_changes_nothing_of_the_task",
    "check_touch_counts_what_could_not_be_written",
    "check_touch_is_kept",
    "check_touch_with_progress_is_no_heartbeat",
]

_ROUNDS = 10


def _newest(scene: Scene) -> TouchRecord:
    touches = scene.ledger.list_touches(scene.run)
    scene.equal(len(touches), 1, "how many tasks gave a sign of life")
    return touches[0]


@check
def check_touch_is_kept(scene: Scene) -> None:
    """By which session, and when; the newest one stands for all before it."""
    token = scene.launch("act")
    scene.equal(scene.ledger.list_touches(scene.run), [], "before the first one")

    for _ in range(2):
        scene.ledger.touch(token, now=scene.tick())

        touch = _newest(scene)
        key = (touch.dag_id, touch.run_id, touch.task_id, touch.map_index)
        scene.equal(key, (scene.run.dag_id, scene.run.run_id, "act", -1), "whose it is")
        scene.equal((touch.session, touch.heartbeat_at), (token.session, scene.now), "the sign of life")
        scene.equal((touch.progress_at, touch.done, touch.total, touch.unit), (None,) * 4, "no progress")
        scene.equal(touch.persist_failures, 0, "what could not be written")


@check
def check_touch_with_progress_is_no_heartbeat(scene: Scene) -> None:
    """Code that reports progress for ever may still be stuck (row T8); a heartbeat leaves progress alone."""
    token = scene.launch("act")
    scene.ledger.touch(token, now=scene.tick())
    heartbeat = scene.now

    scene.ledger.touch(token, progress=Progress(done=2.5, total=10.0, unit="pages"), now=scene.tick())
    progress = scene.now
    touch = _newest(scene)
    scene.equal((touch.heartbeat_at, touch.progress_at), (heartbeat, progress), "the times")
    scene.equal((touch.done, touch.total, touch.unit), (2.5, 10.0, "pages"), "the progress")

    scene.ledger.touch(token, now=scene.tick())
    touch = _newest(scene)
    scene.equal((touch.heartbeat_at, touch.progress_at), (scene.now, progress), "the times, once it lives")
    scene.equal((touch.done, touch.total, touch.unit), (2.5, 10.0, "pages"), "the progress, once it lives")

    scene.ledger.touch(token, progress=Progress(done=3.0), now=scene.tick())
    touch = _newest(scene)
    scene.equal((touch.done, touch.total, touch.unit), (3.0, None, None), "progress of another kind")


@check
def check_touch_counts_what_could_not_be_written(scene: Scene) -> None:
    """The count of a session never falls (row T13)."""
    token = scene.launch("act")
    counts = []
    for failures in (0, 3, 0, 2, 4):
        scene.ledger.touch(token, persist_failures=failures, now=scene.tick())
        counts.append(_newest(scene).persist_failures)

    scene.equal(counts, [0, 3, 3, 3, 4], "the counts")


@check
def check_touch_by_the_next_session_starts_afresh(scene: Scene) -> None:
    """What the process before reported is not this one's."""
    old = scene.launch("act")
    progress = Progress(done=9.0, total=10.0, unit="pages")
    scene.ledger.touch(old, progress=progress, persist_failures=5, now=scene.tick())
    token = scene.launch("act", try_number=2)

    scene.ledger.touch(token, now=scene.tick())

    touch = _newest(scene)
    scene.equal((touch.session, touch.heartbeat_at), (token.session, scene.now), "the sign of life")
    scene.equal((touch.progress_at, touch.done, touch.total, touch.unit), (None,) * 4, "no progress")
    scene.equal(touch.persist_failures, 0, "what could not be written")


@check
def check_touch_by_a_superseded_process_is_dropped(scene: Scene) -> None:
    """Without a word, before the new process has given a sign of life as after it."""
    old = scene.launch("act")
    scene.ledger.touch(old, now=scene.tick())
    token = scene.launch("act", try_number=2)

    def dropped(what: str) -> None:
        with scene.unchanged(what):
            scene.ledger.touch(old, persist_failures=9, now=scene.tick())
            scene.ledger.touch(old, progress=Progress(done=1.0), now=scene.tick())

    dropped("a process that was replaced, before the new one has given a sign of life")
    scene.ledger.touch(token, now=scene.tick())
    dropped("a process that was replaced, after the new one has given a sign of life")
    scene.equal(_newest(scene).session, token.session, "whose sign of life it is")

    scene.begin(marker="another")
    with scene.unchanged("a process of the deleted run"):
        scene.ledger.touch(token, now=scene.tick())


@check
def check_touch_changes_nothing_of_the_task(scene: Scene) -> None:
    """Neither its version nor its time, so no writer of the snapshot ever meets it."""
    token = scene.launch("act")
    before = scene.ledger.get_task(token.key), scene.ledger.list_transitions(scene.run)

    scene.ledger.touch(token, now=scene.tick())
    scene.ledger.touch(token, progress=Progress(done=1.0), now=scene.tick())

    after = scene.ledger.get_task(token.key), scene.ledger.list_transitions(scene.run)
    scene.equal(after, before, "the task and its transitions")


@check
def check_list_touches_gives_those_of_the_run(scene: Scene) -> None:
    """Each map index is a task of its own; those of other runs are not in the list."""
    elsewhere = RunKey(scene.run.dag_id, "run-2")
    tokens = [
        scene.launch("act"),
        scene.launch("look", map_index=0),
        scene.launch("look", map_index=1),
    ]
    scene.ledger.touch(scene.launch("act", run=elsewhere), now=scene.tick())
    for token in reversed(tokens):
        scene.ledger.touch(token, now=scene.tick())

    found = sorted((touch.task_id, touch.map_index) for touch in scene.ledger.list_touches(scene.run))
    scene.equal(found, [("act", -1), ("look", 0), ("look", 1)], "the tasks of the run")
    scene.equal(len(scene.ledger.list_touches(elsewhere)), 1, "how many the other run has")


@check
def check_touch_at_once_with_decisions_disturbs_none(scene: Scene) -> None:
    """A heartbeat comes while the task moves on: both stand, and neither fails."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        token = scene.open(f"act-{number}").token
        now = scene.tick()

        scene.all_of(
            scene.at_once(
                partial(scene.ledger.advance, token, LAUNCHED, now=now),
                partial(other.touch, token, persist_failures=1, now=now),
            )
        )
        scene.all_of(
            scene.at_once(
                partial(scene.ledger.complete, token, COMPLETED, number, now=scene.tick()),
                partial(other.touch, token, progress=Progress(done=1.0), now=scene.now),
            )
        )

        scene.equal(len(scene.told(token.key.task_id)), 4, "how many transitions there are")
        touches = {touch.task_id: touch for touch in scene.ledger.list_touches(scene.run)}
        touch = scene.found(touches.get(token.key.task_id), "the sign of life")
        scene.equal((touch.heartbeat_at, touch.progress_at), (now, scene.now), "its times")
        scene.equal((touch.done, touch.persist_failures), (1.0, 1), "what it says")


@check
def check_touch_at_once_leaves_the_newest_session(scene: Scene) -> None:
    """The first heartbeats of the old and the new process meet: the new one's stands."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        task_id = f"act-{number}"
        old = scene.launch(task_id)
        scene.ledger.advance(old, ERROR, now=scene.tick())
        token = scene.launch(task_id, try_number=2)

        scene.all_of(
            scene.at_once(
                partial(scene.ledger.touch, old, persist_failures=9, now=scene.tick()),
                partial(other.touch, token, now=scene.now),
            )
        )

        touches = {touch.task_id: touch for touch in scene.ledger.list_touches(scene.run)}
        touch = scene.found(touches.get(task_id), "the sign of life")
        scene.equal((touch.session, touch.persist_failures), (token.session, 0), "whose it is")
