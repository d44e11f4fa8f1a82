"""Dead letters: tasks that failed for good or were lost, found over all runs, each once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from louver.ledger.dead_letter_contract import DeadLetter, DeadLetterFilter
from louver.ledger.names import RunKey, Token
from louver.sessions import Change
from louver.states import FailureKind, Source, TaskState
from louver.testing.scene import ERROR, FAILED, LAUNCHED, RESUMED, Scene, check

__all__ = [
    "check_list_dead_letters_by_kind",
    "check_list_dead_letters_leaves_out_what_a_person_ended",
    "check_list_dead_letters_leaves_out_what_was_retried_unless_it_is_asked_for",
    "check_list_dead_letters_of_a_run_made_again_is_of_that_one",
    "check_list_dead_letters_of_one_generation_is_one",
    "check_list_dead_letters_of_one_moment_are_in_order_of_their_names",
    "check_list_dead_letters_page_by_page_gives_each_once",
    "check_list_dead_letters_shows_what_failed_for_good_in_all_runs",
]

_LOST = Change(
    to=TaskState.LOST,
    trigger="runtime:attempt_lost",
    reason="3 processes were lost",
    failure_kind=FailureKind.LOST,
)
_TOO_LONG = Change(
    to=TaskState.FAILED,
    trigger="timeout:attempt",
    reason="timeout_attempt: it ran for 9 s; no attempt is left",
    failure_kind=FailureKind.TIMEOUT_ATTEMPT,
)
_MARKED = Change(to=TaskState.SUCCEEDED, trigger="user:marked", actor="ann")
_REJECTED = Change(
    to=TaskState.FAILED,
    trigger="approval:rejected",
    actor="bob",
    failure_kind=FailureKind.APPROVAL_REJECTED,
)


def _end(scene: Scene, token: Token, change: Change = FAILED, *, now: datetime | None = None) -> Token:
    scene.ledger.advance(token, change, now=now or scene.tick())
    return token


def _listed(scene: Scene, **wanted: Any) -> list[DeadLetter]:
    """Those of this check's Dag that meet the filter."""
    return scene.ledger.list_dead_letters(DeadLetterFilter(dag_id=scene.run.dag_id, **wanted))


def _places(letters: list[DeadLetter]) -> list[tuple[str, str, int]]:
    return [(letter.end.run_id, letter.end.task_id, letter.end.map_index) for letter in letters]


@check
def check_list_dead_letters_shows_what_failed_for_good_in_all_runs(scene: Scene) -> None:
    """Failed and lost, mapped too, the newest first; not what is tried again, nor names that are left out."""
    other = RunKey(scene.run.dag_id, "run-2")
    _end(scene, scene.launch("act"))
    _end(scene, scene.launch("each", map_index=3), _LOST)
    _end(scene, scene.launch("each", map_index=4), ERROR)
    scene.succeed("look")
    _end(scene, scene.launch("closing", run=other))
    last = _end(scene, scene.launch("act", run=other), replace(FAILED, reason="exception: no paper"))

    found = _listed(scene, leave_out=("closing",))

    expected = [("run-2", "act", -1), ("run-1", "each", 3), ("run-1", "act", -1)]
    scene.equal(_places(found), expected, "the dead letters")
    newest = found[0]
    scene.equal(newest.task, scene.ledger.get_task(last.key), "the task as it is now")
    (told,) = (row for row in scene.ledger.list_transitions(other, task_id="act") if row.to_state == "failed")
    scene.equal(newest.end, told, "the row that tells of its end")
    scene.equal((newest.retried, newest.kind), (False, FailureKind.EXCEPTION), "what it is")
    of_run = _listed(scene, run_id="run-2", leave_out=("closing",))
    scene.equal(_places(of_run), expected[:1], "those of a run")
    late = _listed(scene, since=found[1].end.at, leave_out=("closing",))
    scene.equal(_places(late), expected[:2], "those since a time")
    scene.equal(_places(_listed(scene, since=scene.tick())), [], "since a time after all of them")
    everywhere = scene.ledger.list_dead_letters(DeadLetterFilter(limit=10_000))
    scene.equal(len([letter for letter in everywhere if letter.end.dag_id == scene.run.dag_id]), 4, "all")


@check
def check_list_dead_letters_by_kind(scene: Scene) -> None:
    """Any of the kinds that are named, of those that were retried by what their reason tells."""
    _end(scene, scene.launch("act"))
    _end(scene, scene.launch("late"), _TOO_LONG)
    _end(scene, scene.launch("gone"), _LOST)

    def found(*kinds: FailureKind, **wanted: Any) -> list[str]:
        return sorted(letter.end.task_id for letter in _listed(scene, kinds=kinds, **wanted))

    scene.equal(found(FailureKind.TIMEOUT_ATTEMPT), ["late"], "those of one kind")
    scene.equal(found(FailureKind.LOST, FailureKind.EXCEPTION), ["act", "gone"], "those of two kinds")
    scene.equal(found(FailureKind.INTEGRITY), [], "those of a kind that none is of")
    for task_id in ("late", "gone"):
        _end(scene, scene.launch(task_id, try_number=2, max_tries=5))
    scene.equal(found(FailureKind.TIMEOUT_ATTEMPT), [], "those that failed in another way since")
    scene.equal(found(FailureKind.TIMEOUT_ATTEMPT, retried=True), ["late"], "the earlier one, retried")
    scene.equal(found(FailureKind.LOST, retried=True), ["gone"], "the lost one, retried")
    every = found(FailureKind.EXCEPTION, retried=True)
    scene.equal(every, ["act", "gone", "late"], "those that failed so at last")


@check
def check_list_dead_letters_leaves_out_what_was_retried_unless_it_is_asked_for(scene: Scene) -> None:
    """A clear, a mark by a person, and a new attempt: it is no dead letter any more."""
    cleared = _end(scene, scene.launch("cleared"))
    marked = _end(scene, scene.launch("marked"))
    again = _end(scene, scene.launch("again"))
    clear = Change(to=TaskState.PENDING, trigger="user:cleared", actor="ann")
    for token, change in ((cleared, clear), (marked, _MARKED)):
        scene.ledger.mark(
            token.key, change, session=token.session, source=Source.CLI, max_tries=5, now=scene.tick()
        )
    scene.equal(_places(_listed(scene)), [("run-1", "again", -1)], "those that nobody has retried")
    scene.open("again", try_number=2, max_tries=5)

    scene.equal(_listed(scene), [], "those that nobody has retried, then")
    every = _listed(scene, retried=True)
    scene.equal(
        [(letter.end.task_id, letter.retried, letter.task.state) for letter in every],
        [
            ("again", True, TaskState.STARTING),
            ("marked", True, TaskState.SUCCEEDED),
            ("cleared", True, TaskState.PENDING),
        ],
        "all of them",
    )
    scene.equal(every[0].task, scene.ledger.get_task(again.key), "the task as it is now")


@check
def check_list_dead_letters_of_one_generation_is_one(scene: Scene) -> None:
    """What a person marked in between counts once; what failed again after a clear is one of its own."""
    token = _end(scene, scene.launch("act"))
    marks = (_MARKED, Change(to=TaskState.FAILED, trigger="user:marked", actor="ann"))
    for number, change in enumerate(marks):
        scene.ledger.mark(
            token.key, change, session=token.session + number, source=Source.API, now=scene.tick()
        )
    scene.equal(_listed(scene, retried=True), [], "one that a person ended at last")

    second = _end(scene, scene.launch("act", try_number=2, max_tries=5))
    third = _end(scene, scene.launch("act", try_number=3, max_tries=7), _LOST)
    scene.equal((second.generation, third.generation), (2, 3), "generations")
    scene.equal([letter.end.generation for letter in _listed(scene)], [3], "the one that stands")
    every = [(letter.end.generation, letter.retried) for letter in _listed(scene, retried=True)]
    scene.equal(every, [(3, False), (2, True)], "each generation")


@check
def check_list_dead_letters_leaves_out_what_a_person_ended(scene: Scene) -> None:
    """A rejection and a mark are a person's word; an approval that nobody gave in time is not."""
    for number, (task_id, change) in enumerate(
        (
            ("rejected", _REJECTED),
            ("expired", replace(_REJECTED, trigger="approval:expired", actor=None)),
        )
    ):
        asked = scene.ask(scene.launch(task_id), number + 1)
        held = scene.found(scene.ledger.get_task(asked.task), "the parked task")
        _end(scene, scene.open(task_id, nonce=held.nonce).token, change)
    token = scene.launch("marked")
    mark = Change(to=TaskState.FAILED, trigger="user:marked", actor="ann")
    scene.ledger.mark(token.key, mark, session=token.session, source=Source.API, now=scene.tick())
    asked = scene.ask(scene.launch("resumed"), 3)
    held = scene.found(scene.ledger.get_task(asked.task), "the parked task")
    back = scene.open("resumed", nonce=held.nonce).token
    scene.ledger.advance(back, RESUMED, now=scene.tick())

    scene.equal(_places(_listed(scene, retried=True)), [("run-1", "expired", -1)], "the dead letters")


@check
def check_list_dead_letters_of_a_run_made_again_is_of_that_one(scene: Scene) -> None:
    """What failed in a run that was deleted since is none, before its task is opened again and after."""
    _end(scene, scene.launch("act"))
    scene.begin(marker="another")

    scene.equal(_listed(scene), [], "of the run that was made again")
    scene.equal([letter.retried for letter in _listed(scene, retried=True)], [True], "of the deleted one")
    token = scene.open("act").token
    scene.ledger.advance(token, LAUNCHED, now=scene.tick())
    _end(scene, token)
    scene.equal([letter.end.generation for letter in _listed(scene)], [2], "once it has failed, too")


@check
def check_list_dead_letters_of_one_moment_are_in_order_of_their_names(scene: Scene) -> None:
    """Text is ordered by code points and indexes by number, falling as the times do."""
    places = [("Z", -1), ("a", -1), ("a", 2), ("a", 10), ("z", -1), ("é", -1), ("\uff5e", -1)]
    moment = scene.after(60)
    for task_id, map_index in (*places[::2], *places[1::2]):
        _end(scene, scene.launch(task_id, map_index=map_index), now=moment)

    expected = [("run-1", *place) for place in reversed(places)]
    scene.equal(_places(_listed(scene)), expected, "the dead letters")


@check
def check_list_dead_letters_page_by_page_gives_each_once(scene: Scene) -> None:
    """A page goes on behind the last one of the page before, whatever has failed or was retried since."""
    for number in range(3):
        run = RunKey(scene.run.dag_id, f"run-{number}")
        tokens = [scene.launch(task_id, run=run) for task_id in ("act", "look")]
        moment = scene.tick()
        for token in tokens:
            _end(scene, token, now=moment)
    whole = _listed(scene)
    scene.equal(len(whole), 6, "how many there are")

    for limit, sizes in {1: [1] * 6, 2: [2, 2, 2], 4: [4, 2], 100: [6]}.items():
        pages = [_listed(scene, limit=limit)]
        while len(pages[-1]) == limit and (page := _listed(scene, limit=limit, after=pages[-1][-1])):
            pages.append(page)
        scene.equal([len(page) for page in pages], sizes, f"the sizes of pages of {limit}")
        scene.equal([one for page in pages for one in page], whole, f"the dead letters in pages of {limit}")

    first = _listed(scene, limit=3)
    _end(scene, scene.launch("late"))
    scene.open("look", run=RunKey(scene.run.dag_id, "run-1"), try_number=2, max_tries=5)
    rest = _listed(scene, limit=10, after=first[-1])
    scene.equal(rest, [letter for letter in whole[3:] if letter in rest], "the rest, as it was")
    scene.equal(len(rest), 3 if whole[2].end.task_id == "look" else 2, "how many that are")
