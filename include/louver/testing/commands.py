"""Sending commands, and claiming them (semantics section 8)."""

from __future__ import annotations

from functools import partial

from louver.errors import LedgerError, Superseded, ValueRefused
from louver.ledger.names import CommandState, RunKey, Verb
from louver.states import Source
from louver.testing.scene import FAILED, Scene, check

__all__ = [
    "check_claim_commands_by_a_superseded_process_is_refused",
    "check_claim_commands_for_another_generation_leaves_them_alone",
    "check_claim_commands_gives_no_more_than_the_limit",
    "check_claim_commands_leaves_alone_what_is_claimed",
    "check_claim_commands_leaves_alone_what_is_closed",
    "check_claim_commands_of_another_task_leaves_them_alone",
    "check_claim_commands_takes_them_up_with_a_lease",
    "check_claim_commands_takes_up_again_what_an_earlier_session_claimed",
    "check_claim_commands_takes_up_again_what_has_run_out",
    "check_claim_commands_takes_up_stop_first_then_pause",
    "check_claim_commands_with_a_naive_time_takes_up_none",
    "check_list_commands_gives_those_of_the_run_in_order_of_sending",
    "check_send_command_again_gives_it_as_it_stands",
    "check_send_command_in_a_run_that_is_not_open_is_an_error",
    "check_send_command_is_kept",
    "check_send_command_is_meant_for_the_present_generation",
    "check_send_command_to_a_task_of_a_run_made_again_waits_for_the_new_one",
    "check_send_command_to_a_task_that_nobody_opened_waits_for_it",
]


@check
def check_send_command_is_kept(scene: Scene) -> None:
    """Who wants what of which task, and why; nobody has taken it up yet, and the task is as it was."""
    token = scene.launch("act")
    before = scene.ledger.get_task(token.key)

    sent = scene.send(verb=Verb.STOP, reason=None, source=Source.API)

    scene.equal((sent.command_id, sent.task), (f"{scene.id}-1", token.key), "which command it is")
    scene.equal((sent.verb, sent.generation), (Verb.STOP, 1), "what it wants")
    scene.equal((sent.actor, sent.reason, sent.source), ("ann", None, Source.API), "who wants it, and why")
    scene.equal((sent.sent_at, sent.state), (scene.now, CommandState.PENDING), "where it stands")
    scene.equal((sent.claimed_by, sent.session, sent.lease_until), (None, None, None), "its claim")
    scene.equal((sent.outcome, sent.closed_at), (None, None), "its end")
    scene.equal(scene.ledger.list_commands(scene.run), [sent], "what is read again")
    scene.equal(scene.ledger.get_task(token.key), before, "the task")


@check
def check_send_command_again_gives_it_as_it_stands(scene: Scene) -> None:
    """Who repeats itself sends one command; what it said first stays, also once it is claimed or closed."""
    token = scene.launch("act")
    first = scene.send()

    with scene.unchanged("a command sent twice"):
        scene.equal(
            scene.send(verb=Verb.STOP, actor="eve", task=scene.key("look")), first, "while it is open"
        )

    (claimed,) = scene.take_up(token)
    with scene.unchanged("a command sent again"):
        scene.equal(scene.send(), claimed, "once it is claimed")
    done = scene.ledger.complete_command(claimed, outcome="paused", now=scene.tick())
    with scene.unchanged("a command sent once more"):
        scene.equal(scene.send(), done, "once it is closed")
    scene.equal(scene.take_up(token), (), "what can be taken up")


@check
def check_send_command_in_a_run_that_is_not_open_is_an_error(scene: Scene) -> None:
    """There is nobody who could ever carry it out."""
    scene.refused(LedgerError, scene.send, "a command for a run that nobody opened")
    scene.equal(scene.ledger.list_commands(scene.run), [], "the commands afterwards")


@check
def check_send_command_to_a_task_that_nobody_opened_waits_for_it(scene: Scene) -> None:
    """It is for the task's first generation, and taken up by the process that opens that."""
    scene.begin()

    sent = scene.send()

    scene.equal(sent.generation, 1, "the generation that is meant")
    scene.equal(scene.ledger.get_task(sent.task), None, "the task")
    found = scene.take_up(scene.open("act").token)
    scene.equal([command.command_id for command in found], [sent.command_id], "what can be taken up")


@check
def check_send_command_is_meant_for_the_present_generation(scene: Scene) -> None:
    """A retry does not change it; a clear does."""
    scene.ledger.advance(scene.launch("act"), FAILED, now=scene.tick())
    scene.equal(scene.send(1).generation, 1, "the generation of a task that has ended")
    scene.launch("act", try_number=2, max_tries=4)
    scene.equal(scene.send(2).generation, 2, "the generation of a task that was cleared")
    scene.launch("act", try_number=3, max_tries=4)
    scene.equal(scene.send(3).generation, 2, "the generation of a task that is tried again")


@check
def check_send_command_to_a_task_of_a_run_made_again_waits_for_the_new_one(scene: Scene) -> None:
    """The task of the deleted run is not meant, though its record is still there."""
    scene.launch("act")
    old = scene.send(1)
    scene.begin(marker="another")

    new = scene.send(2)
    token = scene.open("act").token

    scene.equal((old.generation, new.generation), (1, token.generation), "the generations")
    found = scene.take_up(token)
    scene.equal([command.command_id for command in found], [new.command_id], "what can be taken up")


@check
def check_claim_commands_takes_them_up_with_a_lease(scene: Scene) -> None:
    """Each says who has it, by which session, and until when."""
    token = scene.launch("act")
    sent = scene.send()
    lease = scene.after(60)

    claimed = scene.ledger.claim_commands(token, lease_until=lease, now=scene.tick())

    scene.equal(len(claimed), 1, "how many there are")
    (mine,) = claimed
    scene.equal(mine.state, CommandState.CLAIMED, "where it stands")
    scene.equal((mine.claimed_by, mine.session, mine.lease_until), (token.process, 1, lease), "its claim")
    scene.equal((mine.outcome, mine.closed_at), (None, None), "its end")
    scene.equal((mine.verb, mine.sent_at, mine.actor), (sent.verb, sent.sent_at, sent.actor), "the rest")
    scene.equal(scene.ledger.list_commands(scene.run), [mine], "what is read again")
    scene.equal(scene.take_up(scene.launch("look")), (), "what a task has to which nobody sent any")


@check
def check_claim_commands_takes_up_stop_first_then_pause(scene: Scene) -> None:
    """Stop outranks pause, and pause resume; each in order of sending."""
    token = scene.launch("act")
    verbs = [Verb.RESUME, Verb.PAUSE, Verb.STOP, Verb.RESUME, Verb.STOP, Verb.PAUSE]
    for number, verb in enumerate(verbs):
        scene.send(number, verb)

    found = [(command.verb, command.command_id[-1]) for command in scene.take_up(token)]

    stops, pauses, resumes = (Verb.STOP, "24"), (Verb.PAUSE, "15"), (Verb.RESUME, "03")
    expected = [(verb, number) for verb, numbers in (stops, pauses, resumes) for number in numbers]
    scene.equal(found, expected, "the commands, in the order of carrying them out")


@check
def check_claim_commands_gives_no_more_than_the_limit(scene: Scene) -> None:
    """Those that come first in the order, whatever was sent first; the rest stays open."""
    token = scene.launch("act")
    for number, verb in enumerate([Verb.RESUME, Verb.PAUSE, Verb.STOP]):
        scene.send(number, verb)

    found = [[command.verb for command in scene.take_up(token, limit=limit)] for limit in (1, 1, 100, 100)]

    scene.equal(found, [[Verb.STOP], [Verb.PAUSE], [Verb.RESUME], []], "what each claim takes up")


@check
def check_claim_commands_leaves_alone_what_is_claimed(scene: Scene) -> None:
    """While the lease lives, the same session does not get a command twice; a later one it does get."""
    token = scene.launch("act")
    scene.commanded(token, 1)

    with scene.unchanged("what is claimed"):
        scene.equal(scene.take_up(token), (), "what is open")
    later = scene.send(2)
    found = [command.command_id for command in scene.take_up(token)]
    scene.equal(found, [later.command_id], "what is open once another was sent")


@check
def check_claim_commands_takes_up_again_what_has_run_out(scene: Scene) -> None:
    """A claim whose time is over is none: at that very moment, and not before."""
    token = scene.launch("act")
    claimed = scene.commanded(token)
    until = scene.found(claimed.lease_until, "the end of the lease")

    def take_up(seconds: float) -> list[str]:
        scene.now = until
        now = scene.tick(seconds)
        lease = scene.after(60)
        return [found.command_id for found in scene.ledger.claim_commands(token, lease_until=lease, now=now)]

    scene.equal(take_up(-0.000001), [], "what is open just before the end")
    scene.equal(take_up(0), [claimed.command_id], "what is open at the end")
    scene.equal(take_up(1), [], "what is open once the lease is renewed")


@check
def check_claim_commands_takes_up_again_what_an_earlier_session_claimed(scene: Scene) -> None:
    """That process can write nothing more, so its claim is none, however long its lease."""
    claimed = scene.commanded(scene.launch("act"))
    token = scene.launch("act", try_number=2)

    (again,) = scene.take_up(token)

    scene.equal(again.command_id, claimed.command_id, "which command it is")
    scene.equal((again.session, again.claimed_by), (token.session, token.process), "who has it now")


@check
def check_claim_commands_for_another_generation_leaves_them_alone(scene: Scene) -> None:
    """A task that was cleared is not stopped by what was meant for it before; the command stays open."""
    token = scene.launch("act")
    scene.ledger.advance(token, FAILED, now=scene.tick())
    old = scene.send(1)
    cleared = scene.launch("act", try_number=2, max_tries=4)

    with scene.unchanged("a command for the generation before"):
        scene.equal(scene.take_up(cleared), (), "what is open")
    new = scene.send(2)
    found = [command.command_id for command in scene.take_up(cleared)]
    scene.equal(found, [new.command_id], "what is open once another was sent")
    scene.holds(old in scene.ledger.list_commands(scene.run), "the old command must be as it was")


@check
def check_claim_commands_of_another_task_leaves_them_alone(scene: Scene) -> None:
    """Another step, another map index, and the same task of another run have commands of their own."""
    elsewhere = RunKey(scene.run.dag_id, "run-2")
    tokens = [
        scene.launch("act"),
        scene.launch("act", map_index=0),
        scene.launch("look"),
        scene.launch("act", run=elsewhere),
    ]
    for number, token in enumerate(tokens):
        scene.send(number, task=token.key)

    found = [[command.command_id[-1] for command in scene.take_up(token)] for token in tokens]

    scene.equal(found, [["0"], ["1"], ["2"], ["3"]], "what each task takes up")


@check
def check_claim_commands_leaves_alone_what_is_closed(scene: Scene) -> None:
    """Carried out or refused, it is not taken up again, not even by the next session."""
    token = scene.launch("act")
    done, refused = scene.commanded(token, 1), scene.commanded(token, 2)
    scene.ledger.complete_command(done, outcome="paused", now=scene.tick())
    scene.ledger.refuse_command(refused, outcome="it has ended", now=scene.tick())

    scene.tick(3600)
    with scene.unchanged("commands that are closed"):
        scene.equal(scene.take_up(token), (), "what is open to the session that closed them")
    token = scene.launch("act", try_number=2)
    with scene.unchanged("commands that were closed before"):
        scene.equal(scene.take_up(token), (), "what is open to the next session")


@check
def check_claim_commands_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """It could not carry them out; they stay open for the process that holds the task, or will."""
    old = scene.launch("act")
    current = scene.launch("act", try_number=2)
    scene.send()
    claim = partial(scene.ledger.claim_commands, lease_until=scene.after(60), now=scene.now)

    with scene.unchanged("a process that was replaced"):
        scene.refused(Superseded, partial(claim, old), "its claim")
    scene.equal(len(claim(current)), 1, "what the current process takes up")

    scene.send(2)
    scene.begin(marker="another")
    with scene.unchanged("a process of the deleted run"):
        scene.refused(Superseded, partial(claim, current), "its claim")


@check
def check_claim_commands_with_a_naive_time_takes_up_none(scene: Scene) -> None:
    """A lease whose end nobody can tell is refused, and no store takes it for a time of its own zone."""
    token = scene.launch("act")
    scene.send()
    naive, aware = scene.after(60).replace(tzinfo=None), scene.after(60)

    claim = scene.ledger.claim_commands
    with scene.unchanged("a claim with a naive time"):
        scene.refused(ValueRefused, lambda: claim(token, lease_until=naive, now=scene.now), "a naive end")
        scene.refused(ValueRefused, lambda: claim(token, lease_until=aware, now=naive), "a naive now")


@check
def check_list_commands_gives_those_of_the_run_in_order_of_sending(scene: Scene) -> None:
    """Of all tasks or of one, open and closed; those of another run are not in the list."""
    act = scene.launch("act")
    elsewhere = scene.launch("act", run=RunKey(scene.run.dag_id, "run-2"))
    closed = scene.commanded(act, 3, Verb.STOP)
    closed = scene.found(
        scene.ledger.refuse_command(closed, outcome="no", now=scene.tick()), "the refused command"
    )
    look = scene.send(1, task=scene.key("look"))
    mapped = scene.send(2, task=scene.key("act", map_index=4))
    scene.send(4, task=elsewhere.key)

    scene.equal(scene.ledger.list_commands(scene.run), [closed, look, mapped], "those of the run")
    of_act = scene.ledger.list_commands(scene.run, task_id="act")
    scene.equal(of_act, [closed, mapped], "those of a step")
    scene.equal(scene.ledger.list_commands(scene.run, task_id="none"), [], "those of an unknown step")
