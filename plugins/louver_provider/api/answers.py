"""Whether an answer to an approval may be passed on to Airflow."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from louver.approvals import OPTIONS
from louver.clock import SystemClock
from louver.ledger.records import ApprovalRecord, Decision, TaskKey
from louver_provider.api.refusal import Refusal
from louver_provider.approval_form import REQUEST_ID
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import load_settings

__all__ = ["judge_answer", "judge_request"]


def judge_answer(*, dag_id: str, run_id: str, task_id: str, map_index: int, body: bytes) -> Refusal | None:
    """
    Why the answer is refused, or None where it is not Louver's to refuse.

    :param body: the PATCH's body, as sent.
    :raises LedgerError: where the ledger cannot be asked.
    """
    key = TaskKey(dag_id, run_id, task_id, map_index)
    asked = [record for record in get_ledger().list_approvals(key.run) if record.task == key]
    if not asked:
        return None
    now = SystemClock().now()
    refusal = judge_request(asked, body, now=now)
    return refusal or _judge_park(key, now=now)


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


def _judge_park(key: TaskKey, *, now: datetime) -> Refusal | None:
    """The resume guard: Airflow fails a task that is answered before its parked process has been reaped."""
    guard = load_settings().resume_guard
    # Not the scoped session: closing that one would take the request's own objects away.
    with create_session(scoped=False) as session:
        row = session.execute(
            select(TaskInstance.state, TaskInstance.updated_at).where(
                TaskInstance.dag_id == key.dag_id,
                TaskInstance.run_id == key.run_id,
                TaskInstance.task_id == key.task_id,
                TaskInstance.map_index == key.map_index,
            )
        ).one_or_none()
    if row is None:
        return None
    if row.state != TaskInstanceState.AWAITING_INPUT:
        if row.state in (TaskInstanceState.RUNNING, TaskInstanceState.QUEUED, TaskInstanceState.SCHEDULED):
            seconds = max(1, math.ceil(guard.total_seconds()))
            return Refusal(status=409, detail="The task is about to wait; answer again.", retry_after=seconds)
        return Refusal(status=409, detail=f"The task is {row.state or 'not started'} and waits for nobody.")
    left = (row.updated_at + guard - now).total_seconds()
    if left > 0:
        return Refusal(
            status=409,
            detail="The task has only just parked; answer again.",
            retry_after=max(1, math.ceil(left)),
        )
    return None
