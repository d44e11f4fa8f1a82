"""What a person sees under Required Actions of a task that was paused, and what their answer means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from louver.ledger.names import Verb
from louver.ledger.records import CommandRecord
from louver_provider.approval_form import REQUEST_ID, ApprovalForm, table

__all__ = ["PAUSE_OPTIONS", "describe_pause", "option_of", "verb_of"]

PAUSE_OPTIONS = ("Resume", "Stop")
"""The options of a paused task, as Airflow shows them."""

_VERBS = {"Resume": Verb.RESUME, "Stop": Verb.STOP}

# What wakes the task has to be one of its options; the command tells it what is meant.
_SAID_AS = {Verb.CANCEL: Verb.STOP}


def describe_pause(pause: CommandRecord) -> ApprovalForm:
    """The form of a task that was paused by this command."""
    facts = [
        ("Run", pause.run_id),
        ("Step", pause.task_id),
        ("Paused by", pause.actor or "nobody in particular"),
        ("Reason", pause.reason or "none given"),
        ("Asked", pause.sent_at.isoformat(timespec="seconds")),
        ("Pause", pause.command_id),
    ]
    body = "\n\n".join(
        [
            f"**{pause.task_id}** is paused and holds no slot. *Resume* lets it go on where it was, "
            "*Stop* ends it.",
            table("Pause", "", facts),
        ]
    )
    return ApprovalForm(
        subject=f"Paused: {pause.task_id} of {pause.dag_id}",
        body=body,
        params={
            REQUEST_ID: {
                "value": pause.command_id,
                "description": "Ties your answer to this pause; leave it as it is.",
                "schema": {"type": "string", "title": "Pause", "const": pause.command_id},
            }
        },
    )


def verb_of(chosen: Sequence[str]) -> Verb | None:
    """What was chosen; None where it is no single option of a paused task."""
    return _VERBS.get(chosen[0]) if len(chosen) == 1 else None


def option_of(verb: Verb, options: Iterable[str]) -> str | None:
    """The option that means it, of those that a parked task offers; None where none does."""
    said = _SAID_AS.get(verb, verb)
    return next((option for option in options if _VERBS.get(option) is said), None)
