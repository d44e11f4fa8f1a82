"""
Pure: what was asked of a task while nobody ran it, judged before its next process runs any user code
(semantics section 8).

A resume found here was left open by a process that died between waking and running on: that of a park, or
one that was paused in place. It asks for just what this start does, so it is done by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from louver.control import ENDING, ROLLED_BACK, TAKEN_BACK
from louver.ledger.names import CommandState, Verb
from louver.ledger.records import CommandRecord

__all__ = ["NOT_PAUSED", "Intentions", "Settled", "judge_intentions"]

NOT_PAUSED = "it was not paused"
"""Why a resume is refused that has nothing to resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """
    A command that needs no change of the task.

    :param done: it came about; refused otherwise.
    """

    command: CommandRecord
    done: bool
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intentions:
    """
    What is to be carried out, one at most, and what is settled without that.

    :param stop: to be carried out; a person's, else the orchestration's.
    :param pause: to be carried out.
    """

    stop: CommandRecord | None = None
    pause: CommandRecord | None = None
    settled: Sequence[Settled] = ()


def judge_intentions(
    claimed: Sequence[CommandRecord], known: Callable[[], Iterable[CommandRecord]]
) -> Intentions:
    """
    What the process that starts the task has to do first.

    :param claimed: what it has claimed, in the order of carrying out.
    :param known: looks up all commands to this task; asked only where a resume is among the claimed ones.
    """
    settled: list[Settled] = []

    def one(verb: Verb) -> CommandRecord | None:
        found = [command for command in claimed if command.verb is verb]
        settled.extend(_refused(command, f"a {verb} was asked for already") for command in found[1:])
        return found[0] if found else None

    stop, cancel, pause, resume = one(Verb.STOP), one(Verb.CANCEL), one(Verb.PAUSE), one(Verb.RESUME)
    others = [command for command in (cancel, pause, resume) if command is not None]
    if stop is None and cancel is not None:
        stop = others.pop(0)
    if stop is not None:
        settled += [_refused(command, f"it was {ENDING[stop.verb].done}") for command in others]
        return Intentions(stop=stop, settled=settled)
    if resume is None:
        return Intentions(pause=pause, settled=settled)
    if pause is not None and pause.sent_at <= resume.sent_at:
        settled += [Settled(command=resume, done=True, outcome=TAKEN_BACK), _refused(pause, TAKEN_BACK)]
        return Intentions(settled=settled)
    if _was_paused(resume, known()):
        settled.append(Settled(command=resume, done=True, outcome="resumed, by a new process"))
    else:
        settled.append(_refused(resume, NOT_PAUSED))
    return Intentions(pause=pause, settled=settled)


def _was_paused(resume: CommandRecord, known: Iterable[CommandRecord]) -> bool:
    """Whether the last that was carried out before it is a pause, and one that took effect."""
    carried_out = [
        command
        for command in known
        if (command.task, command.generation) == (resume.task, resume.generation)
        and command.state is CommandState.DONE
        and not (command.outcome or "").startswith(ROLLED_BACK)
    ]
    last = max(carried_out, key=lambda command: command.closed_at or command.sent_at, default=None)
    return last is not None and last.verb is Verb.PAUSE


def _refused(command: CommandRecord, outcome: str) -> Settled:
    return Settled(command=command, done=False, outcome=outcome)
