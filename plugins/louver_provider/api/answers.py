"""Whether an answer to an approval may be passed on to Airflow."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from louver.approvals import OPTIONS
from louver.clock import SystemClock
from louver.control import is_pause
from louver.ledger.names import Decision, TaskKey, Verb
from louver.ledger.records import ApprovalRecord, CommandRecord
from louver.liveness import LocalProcesses
from louver_provider.api.refusal import Refusal
from louver_provider.approval_form import REQUEST_ID
from louver_provider.hooks.ledger import get_ledger
from louver_provider.pause_form import PAUSE_OPTIONS
from louver_provider.settings import load_settings

__all__ = ["guard_park", "judge_answer", "judge_park", "judge_pause", "judge_request"]

_SETTLED = timedelta(seconds=30)
"""After this long in its park, whatever there was to notice has been noticed, or nobody is there to."""

_PAUSE = timedelta(seconds=1)


def judge_answer(*, dag_id: str, run_id: str, task_id: str, map_index: int, body: bytes) -> Refusal | None:
    """
    Why the answer is refused, or None where it is not Louver's to refuse.

    :param body: the PATCH's body, as sent.
    :raises LedgerError: where the ledger cannot be asked.
    """
    key = TaskKey(dag_id, run_id, task_id, map_index)
    ledger = get_ledger()
    now = SystemClock().now()
    record = ledger.get_task(key)
    if is_pause(record):
        refusal = judge_pause(body, ledger.list_commands(key.run, task_id=task_id))
        return refusal or guard_park(key, now=now)
    asked = [record for record in ledger.list_approvals(key.run) if record.task == key]
    if not asked:
        return None
    refusal = judge_request(asked, body, now=now)
    return refusal or guard_park(key, now=now)


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
    pauses = [command.command_id for command in commands if command.verb is Verb.PAUSE]
    if given is not None and pauses and given != pauses[-1]:
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


def guard_park(key: TaskKey, *, now: datetime) -> Refusal | None:
    """Why the task cannot be woken now, or None: :func:`judge_park` over what Airflow knows."""
    # Not the scoped session: closing that one would take the request's own objects away.
    with create_session(scoped=False) as session:
        row = session.execute(
            select(TaskInstance.state, TaskInstance.updated_at, DagRun.last_scheduling_decision)
            .join(TaskInstance.dag_run)
            .where(
                TaskInstance.dag_id == key.dag_id,
                TaskInstance.run_id == key.run_id,
                TaskInstance.task_id == key.task_id,
                TaskInstance.map_index == key.map_index,
            )
        ).one_or_none()
    if row is None:
        return None
    record = get_ledger().get_task(key)
    processes = LocalProcesses()
    process = (record.process if record else None) or ""
    return judge_park(
        state=row.state,
        parked_at=row.updated_at,
        examined_at=row.last_scheduling_decision,
        lingering=processes.is_neighbour(process) and not processes.proves_dead(process),
        guard=load_settings().resume_guard,
        now=now,
    )


def judge_park(
    *,
    state: str | None,
    parked_at: datetime,
    examined_at: datetime | None,
    lingering: bool,
    guard: timedelta,
    now: datetime,
) -> Refusal | None:
    """
    The resume guard: Airflow fails a task that is answered before it has noticed its parked process end.

    A time alone is not enough on a busy machine. So, for the first half minute, the process has to be gone as
    far as this machine can tell, and the scheduler has to have looked at the run since.

    :param state: of Airflow's task instance.
    :param parked_at: when it came into that state.
    :param examined_at: when the scheduler last looked at the run.
    :param lingering: whether the parked process is known to be alive still.
    """
    if state != TaskInstanceState.AWAITING_INPUT:
        if state in (TaskInstanceState.RUNNING, TaskInstanceState.QUEUED, TaskInstanceState.SCHEDULED):
            return _too_early("The task is about to wait; answer again.", guard)
        return Refusal(status=409, detail=f"The task is {state or 'not started'} and waits for nobody.")
    age = now - parked_at
    if age < guard:
        return _too_early("The task has only just parked; answer again.", guard - age)
    unnoticed = examined_at is None or examined_at < parked_at + guard
    if age < _SETTLED and (lingering or unnoticed):
        return _too_early("The task's process is just ending; answer again.", _PAUSE)
    return None


def _too_early(detail: str, wait: timedelta) -> Refusal:
    return Refusal(status=409, detail=detail, retry_after=max(1, math.ceil(wait.total_seconds())))
