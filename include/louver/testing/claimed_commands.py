"""What becomes of a command that was claimed: carried out, refused, or open again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, Verb
from louver.ledger.records import CommandRecord
from louver.testing.scene import Scene, check

__all__ = [
    "check_claim_commands_at_once_gives_each_to_one",
    "check_complete_command_at_once_with_the_next_claim_is_one_of_both",
    "check_complete_command_closes_it",
    "check_complete_command_of_what_is_open_is_none",
    "check_complete_command_of_what_somebody_else_has_is_none",
    "check_complete_command_repeated_is_told_what_is_recorded",
    "check_complete_command_with_another_outcome_is_none",
    "check_refuse_command_closes_it",
    "check_refuse_command_of_an_open_one_may_be_done_by_anybody",
    "check_refuse_command_of_what_is_closed_is_none",
    "check_refuse_command_of_what_somebody_else_has_is_none",
    "check_refuse_command_repeated_is_told_what_is_recorded",
    "check_release_command_of_what_is_not_claimed_is_none",
    "check_release_command_of_what_somebody_else_has_is_none",
    "check_release_command_opens_it_again",
    "check_send_command_at_once_sends_one",
]

_ROUNDS = 10

_Closing = Callable[[CommandRecord], CommandRecord | None]


def _complete(scene: Scene, ledger: Ledger | None = None) -> _Closing:
    return partial((ledger or scene.ledger).complete_command, outcome="paused", now=scene.tick())


def _refuse(scene: Scene) -> _Closing:
    return partial(scene.ledger.refuse_command, outcome="it has ended", now=scene.tick())


def _release(scene: Scene) -> _Closing:
    return partial(scene.ledger.release_command, now=scene.tick())


def _passed_on(scene: Scene, closing: _Closing) -> None:
    """Whoever shows a claim that is no longer the command's does nothing to it."""
    first = scene.commanded(scene.launch("act"))
    token = scene.launch("act", try_number=2)
    (second,) = scene.take_up(token)
    scene.now = scene.after(3600)
    (third,) = scene.take_up(token)
    scene.equal((first.command_id, third.session), (second.command_id, token.session), "the claims")

    with scene.unchanged("a command that was claimed anew"):
        scene.equal(closing(first), None, "the answer to the session before")
        scene.equal(closing(second), None, "the answer to the claim that has run out")
    scene.found(closing(third), "the command, for who has it now")


@check
def check_complete_command_closes_it(scene: Scene) -> None:
    """It is done, with what came of it; who did it stays."""
    claimed = scene.commanded(scene.launch("act"))

    done = scene.found(
        scene.ledger.complete_command(claimed, outcome="paused", now=scene.tick()), "the command"
    )

    scene.equal((done.state, done.outcome, done.closed_at), (CommandState.DONE, "paused", scene.now), "it")
    scene.equal((done.claimed_by, done.session), (claimed.claimed_by, claimed.session), "who did it")
    scene.equal((done.verb, done.sent_at), (claimed.verb, claimed.sent_at), "the rest of it")
    scene.equal(scene.ledger.list_commands(scene.run), [done], "what is read again")


@check
def check_complete_command_repeated_is_told_what_is_recorded(scene: Scene) -> None:
    """Whose answer was lost may say the same once more, and again once it has been told."""
    claimed = scene.commanded(scene.launch("act"))
    done = scene.found(_complete(scene)(claimed), "the command")

    with scene.unchanged("a command carried out twice"):
        for shown in (claimed, done):
            scene.equal(_complete(scene)(shown), done, "what the repetition is told")


@check
def check_complete_command_with_another_outcome_is_none(scene: Scene) -> None:
    """The first outcome stays; what was refused is not carried out."""
    refused = scene.commanded(scene.launch("look"), 2)
    _refuse(scene)(refused)
    with scene.unchanged("a command that was refused"):
        again = scene.ledger.complete_command(refused, outcome="it has ended", now=scene.tick())
        scene.equal(again, None, "the answer where it was refused with these words")
    claimed = scene.commanded(scene.launch("act"))
    done = _complete(scene)(claimed)

    with scene.unchanged("a command carried out twice"):
        for shown in (claimed, scene.found(done, "the command")):
            again = scene.ledger.complete_command(shown, outcome="something else", now=scene.tick())
            scene.equal(again, None, "the answer")


@check
def check_complete_command_of_what_is_open_is_none(scene: Scene) -> None:
    """Nobody has taken it up, so nobody has carried it out."""
    scene.launch("act")
    sent = scene.send()

    with scene.unchanged("an open command"):
        scene.equal(_complete(scene)(sent), None, "the answer")


@check
def check_complete_command_of_what_somebody_else_has_is_none(scene: Scene) -> None:
    """A process that was slow does not close what another one is at."""
    _passed_on(scene, _complete(scene))


@check
def check_refuse_command_closes_it(scene: Scene) -> None:
    """It is refused, with the reason."""
    claimed = scene.commanded(scene.launch("act"), verb=Verb.RESUME)

    refused = scene.found(
        scene.ledger.refuse_command(claimed, outcome="it is not paused", now=scene.tick()), "the command"
    )

    scene.equal((refused.state, refused.outcome), (CommandState.REFUSED, "it is not paused"), "the command")
    scene.equal((refused.closed_at, refused.verb), (scene.now, Verb.RESUME), "its time, and what it wanted")
    scene.equal(scene.ledger.list_commands(scene.run), [refused], "what is read again")


@check
def check_refuse_command_of_an_open_one_may_be_done_by_anybody(scene: Scene) -> None:
    """Also for a task that nobody opened, or one of a generation that is over."""
    token = scene.launch("act")
    for number, task in enumerate((token.key, scene.key("never-opened"))):
        sent = scene.send(number, task=task)
        refused = scene.found(_refuse(scene)(sent), "the command")
        scene.equal((refused.state, refused.claimed_by), (CommandState.REFUSED, None), "the command")
    scene.equal(scene.take_up(token), (), "what can be taken up")


@check
def check_refuse_command_of_what_is_closed_is_none(scene: Scene) -> None:
    """What was done is not refused afterwards, nor refused twice."""
    token = scene.launch("act")
    done, refused = scene.commanded(token, 1), scene.commanded(token, 2)
    closed = [_complete(scene)(done), _refuse(scene)(refused)]

    with scene.unchanged("commands that are closed"):
        for shown in (done, refused, *(scene.found(command, "the command") for command in closed)):
            again = scene.ledger.refuse_command(shown, outcome="paused", now=scene.tick())
            scene.equal(again, None, "the answer")


@check
def check_refuse_command_repeated_is_told_what_is_recorded(scene: Scene) -> None:
    """By its claimer, and by who saw it open."""
    token = scene.launch("act")
    for shown in (scene.commanded(token, 1), scene.send(2)):
        refused = scene.found(_refuse(scene)(shown), "the command")
        with scene.unchanged("a command refused twice"):
            for again in (shown, refused):
                scene.equal(_refuse(scene)(again), refused, "what the repetition is told")


@check
def check_refuse_command_of_what_somebody_else_has_is_none(scene: Scene) -> None:
    """What is claimed may be refused by its claimer alone; who saw it open does not know that."""
    token = scene.launch("act")
    sent = scene.send(1)
    (claimed,) = scene.take_up(token)
    with scene.unchanged("a command that is claimed"):
        scene.equal(_refuse(scene)(sent), None, "the answer to who saw it open")
    scene.found(_refuse(scene)(claimed), "the command, for its claimer")

    other = Scene(name=scene.name, open_ledger=scene.open_ledger)
    _passed_on(other, _refuse(other))


@check
def check_release_command_opens_it_again(scene: Scene) -> None:
    """A command that is not yours is released, not completed; it can be taken up at once."""
    token = scene.launch("act")
    sent = scene.send()
    (claimed,) = scene.take_up(token)

    released = scene.found(scene.ledger.release_command(claimed, now=scene.tick()), "the command")

    scene.equal(released, sent, "the command, which is as it was sent")
    scene.equal(scene.ledger.list_commands(scene.run), [released], "what is read again")
    (again,) = scene.take_up(token)
    scene.equal(again.command_id, sent.command_id, "what can be taken up")


@check
def check_release_command_of_what_is_not_claimed_is_none(scene: Scene) -> None:
    """What is open or closed stays so."""
    token = scene.launch("act")
    done = scene.commanded(token, 1)
    shown = [done, scene.found(_complete(scene)(done), "the command"), scene.send(2)]

    with scene.unchanged("commands that are not claimed"):
        for command in shown:
            scene.equal(_release(scene)(command), None, "the answer")


@check
def check_release_command_of_what_somebody_else_has_is_none(scene: Scene) -> None:
    """A claim that has passed on is not given back by who had it."""
    _passed_on(scene, _release(scene))


@check
def check_send_command_at_once_sends_one(scene: Scene) -> None:
    """A client that repeats itself while its first call is still under way sends one command."""
    other = scene.open_ledger()
    scene.launch("act")
    for number in range(_ROUNDS):
        one, two = scene.command(number, actor="ann"), scene.command(number, actor="bob")

        sent = scene.all_of(
            scene.at_once(
                partial(scene.ledger.send_command, one, now=scene.tick()),
                partial(other.send_command, two, now=scene.now),
            )
        )

        scene.equal(sent[0], sent[1], "the command that both were told of")
        scene.equal(scene.ledger.list_commands(scene.run)[number:], [sent[0]], "the command that is kept")


@check
def check_claim_commands_at_once_gives_each_to_one(scene: Scene) -> None:
    """Two threads of the process that holds the task claim: no command is taken up twice, or by nobody."""
    other = scene.open_ledger()
    token = scene.launch("act")
    for number in range(_ROUNDS):
        sent = {scene.send(10 * number + one).command_id for one in range(4)}
        lease = scene.after(60)

        claimed = scene.all_of(
            scene.at_once(
                partial(scene.ledger.claim_commands, token, limit=2, lease_until=lease, now=scene.tick()),
                partial(other.claim_commands, token, limit=2, lease_until=lease, now=scene.now),
            )
        )

        found = [command.command_id for commands in claimed for command in commands]
        scene.equal(len(set(found)), len(found), "how many were taken up, each counted once")
        # Who passes over what the other is taking up may come away with fewer; they stay open.
        found += [command.command_id for command in scene.take_up(token)]
        scene.equal(sorted(found), sorted(sent), "all that were taken up, in the end")


@check
def check_complete_command_at_once_with_the_next_claim_is_one_of_both(scene: Scene) -> None:
    """The next process claims while the one before says that it is done: one of them is first."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        key = scene.key(f"act-{number}")
        command = scene.commanded(scene.launch(key.task_id), number)
        token = scene.launch(key.task_id, try_number=2)
        claim = partial(other.claim_commands, token, lease_until=scene.after(60), now=scene.tick())

        done, claimed = scene.all_of(
            scene.at_once(lambda command=command: _complete(scene)(command), claim)  # type: ignore[misc]
        )

        (kept,) = scene.ledger.list_commands(scene.run, task_id=key.task_id)
        if done is None:
            scene.equal(claimed, (kept,), "what the next process has")
        else:
            scene.equal((kept, claimed), (done, ()), "what is closed, and what the next process has")
