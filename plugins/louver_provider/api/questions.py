"""Bringing the text of a question up to date in Airflow's table."""

from __future__ import annotations

import json
from uuid import UUID

from airflow.models.hitl import HITLDetail
from airflow.utils.session import create_session
from sqlalchemy import select

from louver.ledger.names import TaskKey
from louver_provider.approval_form import REQUEST_ID
from louver_provider.hooks.ledger import get_ledger

__all__ = ["renew_question"]


def renew_question(ti_id: str, body: bytes) -> None:
    """
    Write what the task has sent over what Airflow kept of an earlier question of the same instance.

    Only questions of Louver's tasks are touched: those that carry a request, or a pause, which the ledger
    knows for exactly this task.

    :param ti_id: Airflow's id of the task instance.
    :param body: what the task sent to the Execution API, accepted there.
    """
    sent = json.loads(body)
    request_id = ((sent.get("params") or {}).get(REQUEST_ID) or {}).get("value")
    if not isinstance(request_id, str):
        return
    # Not the scoped session: closing that one would take the request's own objects away.
    with create_session(scoped=False) as session:
        row = session.scalar(select(HITLDetail).where(HITLDetail.ti_id == UUID(ti_id)))
        if row is None:
            return
        ti = row.task_instance
        key = TaskKey(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)
        if not _asked_by(key, request_id):
            return
        renewed = {name: sent.get(name) for name in ("options", "subject", "body", "defaults", "params")}
        renewed["multiple"] = bool(sent.get("multiple"))
        # Whom it is put to is kept as well: who may approve is not who may resume a pause.
        renewed["assignees"] = sent.get("assigned_users") or []
        for name, value in renewed.items():
            if getattr(row, name) != value:
                setattr(row, name, value)


def _asked_by(key: TaskKey, request_id: str) -> bool:
    """Whether the ledger knows the request, or the pause, for exactly this task."""
    ledger = get_ledger()
    request = ledger.get_approval(request_id)
    if request is not None:
        return request.task == key
    pauses = ledger.list_commands(key.run, task_id=key.task_id)
    return any(pause.command_id == request_id and pause.task == key for pause in pauses)
