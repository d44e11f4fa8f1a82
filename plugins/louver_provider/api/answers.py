"""Whether an answer to an approval may be passed on to Airflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import select

from louver.approvals import OPTIONS
from louver.clock import SystemClock
from louver.control import is_pause
from louver.ledger.names import CommandState, Decision, TaskKey, Verb
from louver.ledger.records import ApprovalRecord, CommandRecord
from louver_provider.api.refusal import Refusal
from louver_provider.approval_form import REQUEST_ID
from louver_provider.hooks.ledger import get_ledger
from louver_provider.operators.names import WITH_STATES
from louver_provider.parks import guard_park, place_of
from louver_provider.pause_form import PAUSE_OPTIONS

__all__ = ["judge_answer", "judge_pause", "judge_request", "map_index_in"]


def map_index_in(text: str) -> int | None:
    """The map index that Airflow's route reads in its path; None where it reads none."""
    try:
        return TypeAdapter(int).validate_python(text)
    except ValidationError:
        return None


def judge_answer(key: TaskKey, body: bytes) -> Refusal | None:
    """
    Why the answer is refused, or None where it is not Louver's to refuse.

    :param key: the task that it is an answer to.
    :param body: the PATCH's body, as sent.
    :raises LedgerError: where the ledger cannot be asked.
    """
    if not _is_louvers(key):
        # Whatever is the matter with the ledger.
        return None
    ledger = get_ledger()
    now = SystemClock().now()
    record = ledger.get_task(key)
    if is_pause(record):
        commands = ledger.list_commands(key.run, task_id=key.task_id)
        refusal = judge_pause(body, [command for command in commands if command.task == key])
        return refusal or guard_park(key, now=now)
    asked = [record for record in ledger.list_approvals(key.run) if record.task == key]
    if not asked:
        return None
    refusal = judge_request(asked, body, now=now)
    return refusal or guard_park(key, now=now)


def _is_louvers(key: TaskKey) -> bool:
    """Whether Airflow's row of the task is one of Louver's; without a row there is nothing to answer."""
    # Not the scoped session: closing that one would take the request's own objects away.
    with create_session(scoped=False) as session:
        row = session.execute(select(TaskInstance.operator).where(*place_of(key))).one_or_none()
    # A row of before Airflow kept the operator may be anybody's.
    return row is not None and row.operator in (None, *WITH_STATES)


def judge_pause(body: bytes, commands: Sequence[CommandRecord]) -> Refusal | None:
    """
    Whether the answer is one to a paused task: pure.

    :param commands: those of the task.
    """
    try:
        answer: Any = json.loads(body)
        chosen = answer["chosen_options"]
        given = (answer.get("params_input") or {}).get(REQUEST_ID)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    if not isinstance(chosen, list) or len(chosen) != 1 or chosen[0] not in PAUSE_OPTIONS:
        options = ", ".join(PAUSE_OPTIONS)
        return Refusal(status=400, detail=f"Answer with exactly one of {options}; the task stays paused.")
    # The one that it shows: others may have been asked for, and taken back or refused since.
    reached = [
        command for command in commands if command.verb is Verb.PAUSE and command.state is CommandState.DONE
    ]
    newest = max(reached, key=lambda command: command.closed_at or command.sent_at, default=None)
    if given is not None and newest is not None and given != newest.command_id:
        return Refusal(status=409, detail="This answers an earlier pause of the task; read it again.")
    return None


def judge_request(asked: list[ApprovalRecord], body: bytes, *, now: datetime) -> Refusal | None:
    """
    Whether the answer fits the newest request of the task: pure.

    :param asked: the task's requests, in order of asking; at least one.
    """
    newest = asked[-1]
    try:
        answer: Any = json.loads(body)
        chosen = answer["chosen_options"]
        given = (answer.get("params_input") or {}).get(REQUEST_ID)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        # Airflow has its own words for a body that is none.
        return None
    if not isinstance(chosen, list) or len(chosen) != 1 or chosen[0] not in OPTIONS:
        options = ", ".join(OPTIONS)
        return Refusal(status=400, detail=f"Answer with exactly one of {options}; the request stays open.")
    if newest.decision is not Decision.PENDING:
        return Refusal(status=409, detail=f"The request is {newest.decision} already.")
    if newest.expires_at is not None and now >= newest.expires_at:
        return Refusal(status=409, detail="The request has expired; expiry never approves.")
    if given is None and len(asked) > 1:
        return Refusal(
            status=409,
            detail=f"This task has asked more than once. Read the request as it stands now and send its "
            f"{REQUEST_ID} in params_input.",
        )
    if given is not None and given != newest.request_id:
        return Refusal(
            status=409,
            detail="This answers another request than the pending one; read it again.",
        )
    return None
