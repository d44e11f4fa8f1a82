"""Carrying a command out: its transitions and its end are one (semantics section 8)."""

from __future__ import annotations

from functools import partial

from louver.errors import IllegalTransition, Superseded
from louver.ledger.names import CommandState, Decision, Verb
from louver.sessions import Change, Entry
from louver.states import TaskState
from louver.testing.scene import COMPLETED, LAUNCHED, Scene, check

__all__ = [
    "check_obey_appends_its_transitions_and_closes_the_command_together",
    "check_obey_at_once_with_the_next_claim_is_one_of_both",
    "check_obey_by_a_superseded_process_is_refused",
    "check_obey_of_what_another_task_was_told_is_none",
    "check_obey_of_what_somebody_else_has_is_none",
    "check_obey_that_ends_the_task_voids_what_it_asked",
    "check_obey_that_gives_the_slot_back_is_resumed_by_its_nonce",
    "check_obey_that_is_illegal_leaves_the_command_claimed",
    "check_obey_twice_is_none",
    "check_obey_without_a_transition_closes_the_command",
]

_ROUNDS = 10

_PAUSING = Change(to=TaskState.PAUSING, trigger="user:pause", actor="ann", reason="not now")
_PAUSED = Change(to=TaskState.PAUSED, trigger="runtime:pause_reached")
_STOPPING = Change(to=TaskState.STOPPING, trigger="user:stop", actor="ann")


@check
def check_obey_appends_its_transitions_and_closes_the_command_together(scene: Scene) -> None:
    """The rows go on from the task's chain, and the command says what came of it."""
    token = scene.launch("act")
    claimed = scene.commanded(token, verb=Verb.PAUSE)

    written = scene.ledger.obey(token, claimed, _PAUSING, _PAUSED, outcome="paused", now=scene.tick())

    rows = scene.found(written, "the transitions")
    told = [(row.version, row.from_state, row.to_state) for row in rows]
    expected = [(4, TaskState.RUNNING, TaskState.PAUSING), (5, TaskState.PAUSING, TaskState.PAUSED)]
    scene.equal(told, expected, "the transitions")
    scene.equal((rows[0].actor, rows[0].reason, rows[0].at), ("ann", "not now", scene.now), "who and why")
    scene.equal(scene.told("act")[3:], list(rows), "the transitions, read again")
    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.state, record.version, record.nonce), (TaskState.PAUSED, 5, None), "the record")
    (done,) = scene.ledger.list_commands(scene.run)
    scene.equal((done.state, done.outcome, done.closed_at), (CommandState.DONE, "paused", scene.now), "it")
    scene.equal((done.claimed_by, done.session), (claimed.claimed_by, claimed.session), "who did it")


@check
def check_obey_without_a_transition_closes_the_command(scene: Scene) -> None:
    """What it wants is so already."""
    token = scene.launch("act")
    claimed = scene.commanded(token, verb=Verb.RESUME)
    before = scene.ledger.get_task(token.key), scene.ledger.list_transitions(scene.run)

    written = scene.ledger.obey(token, claimed, outcome="it is running", now=scene.tick())

    scene.equal(written, (), "the transitions")
    after = scene.ledger.get_task(token.key), scene.ledger.list_transitions(scene.run)
    scene.equal(after, before, "the task and its transitions")
    (done,) = scene.ledger.list_commands(scene.run)
    scene.equal((done.state, done.outcome), (CommandState.DONE, "it is running"), "the command")


@check
def check_obey_that_ends_the_task_voids_what_it_asked(scene: Scene) -> None:
    """A task that was stopped while it waited for an approval waits for nobody's answer any more."""
    asked = scene.ask(scene.launch("act"))
    token = scene.open("act", nonce="nonce-1").token
    stop = scene.commanded(token, verb=Verb.STOP)

    stopped = Change(to=TaskState.STOPPED, trigger="user:stop", actor="ann")
    scene.ledger.obey(token, stop, stopped, outcome="stopped", now=scene.tick())

    request = scene.found(scene.ledger.get_approval(asked.request_id), "the request")
    scene.equal((request.decision, request.decided_at), (Decision.VOID, scene.now), "the request")


@check
def check_obey_that_gives_the_slot_back_is_resumed_by_its_nonce(scene: Scene) -> None:
    """It works once, as that of every park."""
    token = scene.launch("act")
    claimed = scene.commanded(token, verb=Verb.PAUSE)

    scene.ledger.obey(token, claimed, _PAUSING, _PAUSED, outcome="paused", nonce="nonce-1", now=scene.tick())

    record = scene.found(scene.ledger.get_task(token.key), "the record")
    scene.equal((record.state, record.nonce), (TaskState.PAUSED, "nonce-1"), "the record")
    scene.equal(scene.open("act", nonce="nonce-1").entry, Entry.RESUME, "how it is entered")
    scene.refused(Superseded, lambda: scene.open("act", nonce="nonce-1"), "the nonce once more")


@check
def check_obey_that_is_illegal_leaves_the_command_claimed(scene: Scene) -> None:
    """Of several transitions none is appended where one is illegal; the command can be refused then."""
    token = scene.launch("act")
    claimed = scene.commanded(token, verb=Verb.PAUSE)

    with scene.unchanged("an illegal transition"):
        scene.refused(
            IllegalTransition,
            lambda: scene.ledger.obey(token, claimed, _PAUSING, LAUNCHED, outcome="no", now=scene.now),
            "the second of two",
        )

    refused = scene.ledger.refuse_command(claimed, outcome="it cannot", now=scene.tick())
    scene.equal(scene.found(refused, "the command").state, CommandState.REFUSED, "where it stands")
    scene.ledger.complete(token, COMPLETED, None, now=scene.tick())


@check
def check_obey_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """Whatever it has claimed: the process that holds the task now carries it out."""
    old = scene.launch("act")
    claimed = scene.commanded(old, verb=Verb.STOP)
    token = scene.launch("act", try_number=2)

    with scene.unchanged("a process that was replaced"):
        scene.refused(
            Superseded,
            lambda: scene.ledger.obey(old, claimed, _STOPPING, outcome="stopping", now=scene.now),
            "its obeying",
        )

    (again,) = scene.take_up(token)
    done = scene.ledger.obey(token, again, _STOPPING, outcome="stopping", now=scene.tick())
    scene.equal(len(scene.found(done, "the transitions")), 1, "how many there are")


@check
def check_obey_twice_is_none(scene: Scene) -> None:
    """A command is consumed once, though its transitions would be legal once more."""
    token = scene.launch("act")
    claimed = scene.commanded(token, verb=Verb.PAUSE)
    rolled_back = Change(to=TaskState.RUNNING, trigger="runtime:pause_rolled_back")
    scene.ledger.obey(token, claimed, _PAUSING, rolled_back, outcome="rolled back", now=scene.tick())

    with scene.unchanged("a command carried out twice"):
        again = scene.ledger.obey(token, claimed, _PAUSING, outcome="again", now=scene.now)
        scene.equal(again, None, "the answer")


@check
def check_obey_of_what_somebody_else_has_is_none(scene: Scene) -> None:
    """A claim of the session before, one that has run out and was taken again, one that was given back."""
    first = scene.commanded(scene.launch("act"), verb=Verb.PAUSE)
    token = scene.launch("act", try_number=2)
    with scene.unchanged("a command that the session before has claimed"):
        done = scene.ledger.obey(token, first, _PAUSING, outcome="paused", now=scene.now)
        scene.equal(done, None, "the answer")

    (second,) = scene.take_up(token)
    scene.tick(3600)
    (third,) = scene.take_up(token)
    with scene.unchanged("a command that was claimed anew"):
        for shown in (first, second):
            done = scene.ledger.obey(token, shown, _PAUSING, outcome="paused", now=scene.now)
            scene.equal(done, None, "the answer")

    scene.ledger.release_command(third, now=scene.tick())
    with scene.unchanged("a command that was given back"):
        done = scene.ledger.obey(token, third, _PAUSING, outcome="paused", now=scene.now)
        scene.equal(done, None, "the answer")


@check
def check_obey_of_what_another_task_was_told_is_none(scene: Scene) -> None:
    """A command that is not yours is not yours to carry out, whoever has claimed it."""
    claimed = scene.commanded(scene.launch("act"), verb=Verb.PAUSE)
    look = scene.launch("look")

    with scene.unchanged("a command of another task"):
        done = scene.ledger.obey(look, claimed, _PAUSING, outcome="paused", now=scene.now)
        scene.equal(done, None, "the answer")


@check
def check_obey_at_once_with_the_next_claim_is_one_of_both(scene: Scene) -> None:
    """A slow process obeys while its own claim runs out and is taken again: it is carried out once."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        token = scene.launch(f"act-{number}")
        command = scene.commanded(token, number, Verb.PAUSE)
        now = scene.tick(3600)

        obeyed, claimed = scene.at_once(
            partial(scene.ledger.obey, token, command, _PAUSING, outcome="paused", now=now),
            partial(other.claim_commands, token, lease_until=scene.after(60), now=now),
        )

        scene.all_of([obeyed, claimed])
        (kept,) = scene.ledger.list_commands(scene.run, task_id=token.key.task_id)
        count = len(scene.told(token.key.task_id))
        if obeyed is None:
            scene.equal((claimed, count), ((kept,), 3), "who has it now, and the transitions")
        else:
            scene.equal((claimed, count), ((), 4), "what can be taken up, and the transitions")
            scene.equal(kept.state, CommandState.DONE, "where the command stands")
