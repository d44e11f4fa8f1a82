"""
What a process that begins a task meets although it was asked before: a pause still in force, and what was
asked of a mapped step before it had indexes (semantics section 8, case B08).
"""

from __future__ import annotations

from louver.control import PAUSE_NONCE
from louver.ledger.names import CommandState, Token, Verb
from louver.ledger.records import CommandRecord
from louver.sessions import Change, Entry
from louver.states import Source, TaskState
from louver.testing.scene import RESUMED, Scene, check

__all__ = [
    "check_mark_of_a_cleared_one_that_was_paused_keeps_the_pause",
    "check_mark_of_a_lost_one_that_was_paused_in_place_keeps_the_pause",
    "check_open_task_after_a_resume_that_died_keeps_no_pause_that_was_left",
    "check_open_task_of_a_cleared_one_keeps_the_pause_that_was_not_met_yet",
    "check_open_task_of_a_new_index_meets_no_more_what_its_step_was_told_before_it_ended",
    "check_open_task_of_a_new_index_meets_what_the_whole_step_was_told",
    "check_open_task_of_a_paused_one_keeps_it_paused_after_a_clear",
    "check_open_task_of_a_paused_one_keeps_it_paused_for_the_next_process",
    "check_open_task_of_a_paused_one_that_is_to_go_on_or_end_keeps_no_pause",
    "check_open_task_of_a_run_made_again_keeps_no_pause",
    "check_open_task_of_a_run_made_again_meets_what_its_whole_step_was_told",
    "check_open_task_of_one_that_waits_for_an_approval_keeps_no_pause",
]

_PAUSING = Change(to=TaskState.PAUSING, trigger="user:pause", actor="ann", reason="not now")
_PAUSED = Change(to=TaskState.PAUSED, trigger="runtime:pause_reached")


def _paused(scene: Scene, *, nonce: str | None) -> tuple[Token, CommandRecord]:
    token = scene.launch("act")
    pause = scene.commanded(token, verb=Verb.PAUSE)
    scene.ledger.obey(token, pause, _PAUSING, _PAUSED, outcome="paused", nonce=nonce, now=scene.tick())
    return token, pause


def _met_again(scene: Scene, token: Token, pause: CommandRecord, what: str) -> None:
    """The one command that the process meets is that pause, as it was asked for."""
    found = scene.take_up(token)
    scene.equal([command.verb for command in found], [Verb.PAUSE], f"{what}: what it meets")
    (kept,) = found
    scene.equal(
        (kept.actor, kept.reason, kept.source, kept.sent_at, kept.generation),
        (pause.actor, pause.reason, pause.source, pause.sent_at, token.generation),
        f"{what}: who wanted it, why and when",
    )
    again = Change(to=TaskState.PAUSED, trigger="user:pause", actor=kept.actor)
    nonce = f"{PAUSE_NONCE}{token.session}"
    done = scene.ledger.obey(token, kept, again, outcome="paused", nonce=nonce, now=scene.tick())
    scene.equal(len(scene.found(done, f"{what}: the transitions")), 1, f"{what}: how many there are")


@check
def check_open_task_of_a_paused_one_keeps_it_paused_for_the_next_process(scene: Scene) -> None:
    """Paused in place, its process died; or parked, and tried once more: twice, and twice it is met."""
    _, pause = _paused(scene, nonce=None)

    second = scene.open("act", try_number=2)
    scene.equal(second.entry, Entry.START, "how it is entered")
    _met_again(scene, second.token, pause, "after its process died")
    third = scene.open("act", try_number=3)
    scene.equal(third.entry, Entry.START, "how it is entered once more")
    _met_again(scene, third.token, pause, "parked, and tried once more")


@check
def check_open_task_of_a_paused_one_keeps_it_paused_after_a_clear(scene: Scene) -> None:
    """In its new generation; what was pending in the old one is no longer."""
    _, pause = _paused(scene, nonce=f"{PAUSE_NONCE}1")

    opened = scene.open("act", try_number=2, max_tries=4)

    scene.equal(opened.token.generation, 2, "its generation")
    _met_again(scene, opened.token, pause, "cleared")
    states = [command.state for command in scene.ledger.list_commands(scene.run)]
    scene.equal(states, [CommandState.DONE] * 2, "the commands")


@check
def check_open_task_of_a_cleared_one_keeps_the_pause_that_was_not_met_yet(scene: Scene) -> None:
    """Asked for while nobody ran it; once it is met, and the old one is closed."""
    token = scene.launch("act")
    waiting = Change(to=TaskState.RETRY_WAIT, trigger="runtime:error")
    scene.ledger.advance(token, waiting, now=scene.tick())
    pause = scene.send(1, Verb.PAUSE, task=token.key)

    opened = scene.open("act", try_number=2, max_tries=4)

    scene.equal(opened.token.generation, 2, "its generation")
    _met_again(scene, opened.token, pause, "cleared")
    found = {command.generation: command.state for command in scene.ledger.list_commands(scene.run)}
    scene.equal(found, {1: CommandState.REFUSED, 2: CommandState.DONE}, "the commands")


@check
def check_open_task_of_a_paused_one_that_is_to_go_on_or_end_keeps_no_pause(scene: Scene) -> None:
    """Somebody has resumed or stopped it since; who opens it meets that, where it is of this generation."""
    for number, verb in enumerate((Verb.RESUME, Verb.STOP), 10):
        token = scene.launch(f"act-{verb}")
        pause = scene.commanded(token, number, Verb.PAUSE)
        scene.ledger.obey(token, pause, _PAUSING, _PAUSED, outcome="paused", now=scene.tick())
        scene.send(number + 10, verb, task=token.key)

        again = scene.open(token.key.task_id, try_number=2)

        found = [command.verb for command in scene.take_up(again.token)]
        scene.equal(found, [verb], f"what it meets after a {verb}")


@check
def check_open_task_of_one_that_waits_for_an_approval_keeps_no_pause(scene: Scene) -> None:
    """It is paused as well, but by nobody."""
    token = scene.launch("act")
    scene.ask(token)

    again = scene.open("act", try_number=2)

    scene.equal(scene.take_up(again.token), (), "what it meets")


@check
def check_open_task_of_a_run_made_again_keeps_no_pause(scene: Scene) -> None:
    """What was wanted of the deleted run is not wanted of this one."""
    _paused(scene, nonce=f"{PAUSE_NONCE}1")
    scene.begin(marker="2026-02-03T04:05:06Z")

    again = scene.open("act", try_number=1)

    scene.equal(scene.take_up(again.token), (), "what it meets")


@check
def check_open_task_of_a_new_index_meets_what_the_whole_step_was_told(scene: Scene) -> None:
    """Each index once, when it is opened for the first time; what was taken back meets nobody."""
    scene.begin()
    stop = scene.send(1, Verb.STOP, task=scene.key("act"))
    taken_back = scene.send(2, Verb.PAUSE, task=scene.key("act"))
    scene.ledger.refuse_command(taken_back, outcome="taken back", now=scene.tick())

    found: list[str] = []
    for index in (0, 1):
        token = scene.open("act", map_index=index).token
        (met,) = scene.take_up(token)
        found.append(met.command_id)
        scene.equal(
            (met.verb, met.actor, met.reason, met.sent_at, met.map_index),
            (Verb.STOP, stop.actor, stop.reason, stop.sent_at, index),
            f"what index {index} meets",
        )
    again = scene.open("act", map_index=1, try_number=2).token
    scene.equal([c.command_id for c in scene.take_up(again)], found[1:], "what its next process meets")
    whole = [c for c in scene.ledger.list_commands(scene.run) if c.command_id == stop.command_id]
    scene.equal(whole, [stop], "what the whole step was told stays open for the others")


@check
def check_open_task_of_a_new_index_meets_no_more_what_its_step_was_told_before_it_ended(scene: Scene) -> None:
    """The step never ran, and its run was cleared: what it was told before is over."""
    scene.begin()
    whole = scene.key("act")
    scene.send(1, Verb.STOP, task=whole)
    skipped = Change(to=TaskState.SKIPPED, trigger="orchestrator:upstream")
    for change, session in ((skipped, 0), (Change(to=TaskState.PENDING, trigger="user:cleared"), 1)):
        marked = scene.ledger.mark(whole, change, session=session, source=Source.RECONCILER, now=scene.tick())
        scene.found(marked, f"the transition to {change.to}")

    token = scene.open("act", map_index=0).token

    scene.equal(scene.take_up(token), (), "what it meets")


@check
def check_open_task_of_a_run_made_again_meets_what_its_whole_step_was_told(scene: Scene) -> None:
    """Also an index that the deleted run had; what that one's step was told is over."""
    scene.begin()
    scene.send(1, Verb.PAUSE, task=scene.key("act"))
    scene.open("act", map_index=0)
    scene.begin(marker="2026-02-03T04:05:06Z")
    scene.send(2, Verb.STOP, task=scene.key("act"))

    for index in (0, 1):
        found = scene.take_up(scene.open("act", map_index=index).token)
        scene.equal([command.verb for command in found], [Verb.STOP], f"what index {index} meets")


@check
def check_mark_of_a_lost_one_that_was_paused_in_place_keeps_the_pause(scene: Scene) -> None:
    """The reconciler may find the death of the process before the next one begins."""
    token, pause = _paused(scene, nonce=None)
    lost = Change(to=TaskState.RETRY_WAIT, trigger="runtime:attempt_lost")
    scene.ledger.mark(token.key, lost, session=token.session, source=Source.RECONCILER, now=scene.tick())

    again = scene.open("act", try_number=2)

    _met_again(scene, again.token, pause, "after the mark")
    cleared = scene.open("act", try_number=3, max_tries=5)
    _met_again(scene, cleared.token, pause, "and after a clear")


@check
def check_open_task_after_a_resume_that_died_keeps_no_pause_that_was_left(scene: Scene) -> None:
    """The process that was woken died before it went on; by an answer in a form there is no command."""
    for number, then in enumerate(("approval", "pause"), 1):
        nonce = f"{PAUSE_NONCE}{number}"
        token = scene.launch(f"act-{then}")
        pause = scene.commanded(token, number, Verb.PAUSE)
        scene.ledger.obey(token, pause, _PAUSING, _PAUSED, outcome="paused", nonce=nonce, now=scene.tick())
        resumed = scene.open(token.key.task_id, nonce=nonce).token
        if then == "approval":
            scene.ledger.advance(resumed, RESUMED, now=scene.tick())
            scene.ask(resumed, number)
            scene.open(token.key.task_id, nonce=f"nonce-{number}")

        again = scene.open(token.key.task_id, try_number=2)

        scene.equal(scene.take_up(again.token), (), f"what it meets after a {then}")


@check
def check_mark_of_a_cleared_one_that_was_paused_keeps_the_pause(scene: Scene) -> None:
    """The platform may tell of a clear before a process begins the task anew."""
    cleared = Change(to=TaskState.PENDING, trigger="user:cleared", actor="bob")
    token, pause = _paused(scene, nonce=f"{PAUSE_NONCE}1")
    scene.ledger.mark(
        token.key, cleared, session=token.session, source=Source.LISTENER, max_tries=4, now=scene.tick()
    )

    again = scene.open("act", try_number=2, max_tries=4)

    scene.equal(again.token.generation, 2, "its generation")
    _met_again(scene, again.token, pause, "cleared")
