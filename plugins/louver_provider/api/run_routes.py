"""Routes about one run. Who may do what follows Airflow's own routes to the same things."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import APIRouter, Depends, HTTPException, Query, Response

from louver.errors import LedgerError, LedgerUnavailable
from louver.ledger.names import RunKey, Verb
from louver.states import Source
from louver_provider.api import datamodels
from louver_provider.api.datamodels import CommandReply, ControlBody, Form, RunHistory, RunStatus
from louver_provider.api.run_views import look_up, results_json, run_history, run_status
from louver_provider.hooks.ledger import get_ledger
from louver_provider.task_control import Reply, TaskControl

__all__ = ["run_routes"]

run_routes = APIRouter(prefix="/dags/{dag_id}/runs/{run_id}", tags=["Runs"])

_WAITERS = threading.BoundedSemaphore(8)
"""How many requests may wait for a command at once; Airflow's requests share the threads with them."""


@run_routes.get("/status", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE))])
def read_status(dag_id: str, run_id: str) -> RunStatus:
    """What is true of the run and of each of its nodes."""
    status = run_status(RunKey(dag_id, run_id), get_ledger())
    if status is None:
        raise _unknown(dag_id, run_id)
    return status


@run_routes.get(
    "/results",
    response_model=datamodels.RunResults,
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.XCOM))],
)
def read_results(
    dag_id: str,
    run_id: str,
    node: Annotated[list[str] | None, Query(description="These nodes; all where none is named.")] = None,
    form: Form = Form.TYPED,
) -> Response:
    """What the nodes came to. This is payload: it takes the right to read XComs."""
    key, ledger = RunKey(dag_id, run_id), get_ledger()
    if ledger.get_run(key) is None:
        state = look_up(key).state
        if state is None:
            raise _unknown(dag_id, run_id)
        raise HTTPException(
            409,
            f"Run {run_id} of {dag_id} has no results: none of its steps has begun; in Airflow the run "
            f"is {state}",
        )
    try:
        content = results_json(key, ledger, form=form, only=node or ())
    except KeyError as unknown:
        raise HTTPException(404, f"Run {run_id} of {dag_id} has no node {unknown.args[0]}") from None
    # Nobody on the way is to keep it.
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


@run_routes.get("/history", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.AUDIT_LOG))])
def read_history(
    dag_id: str,
    run_id: str,
    node: Annotated[str | None, Query(description="Of this node alone.")] = None,
    stored: Annotated[bool, Query(description="What the ledger holds, without Airflow's tables.")] = False,
) -> RunHistory:
    """The audit trail: what happened, when, by whom, and why."""
    found = run_history(RunKey(dag_id, run_id), get_ledger(), node=node, stored=stored)
    if found is None:
        raise _unknown(dag_id, run_id)
    return found


_MAY_CONTROL = [Depends(requires_access_dag("PUT", DagAccessEntity.TASK_INSTANCE))]


@run_routes.post("/pause", dependencies=_MAY_CONTROL)
def pause(dag_id: str, run_id: str, body: ControlBody, user: GetUserDep) -> list[CommandReply]:
    """Pause a step, or all unfinished ones."""
    return _control(Verb.PAUSE, RunKey(dag_id, run_id), body, user.get_name())


@run_routes.post("/resume", dependencies=_MAY_CONTROL)
def resume(dag_id: str, run_id: str, body: ControlBody, user: GetUserDep) -> list[CommandReply]:
    """Resume what is paused. A step that has only just parked is woken once that is safe."""
    return _control(Verb.RESUME, RunKey(dag_id, run_id), body, user.get_name())


@run_routes.post("/stop", dependencies=_MAY_CONTROL)
def stop(dag_id: str, run_id: str, body: ControlBody, user: GetUserDep) -> list[CommandReply]:
    """Stop a step, or the whole run; what the run has done is undone."""
    return _control(Verb.STOP, RunKey(dag_id, run_id), body, user.get_name())


def _control(verb: Verb, key: RunKey, body: ControlBody, actor: str) -> list[CommandReply]:
    if body.map_index is not None and body.node is None:
        raise HTTPException(422, "body.map_index: it needs the node that it is an index of")
    ledger = get_ledger()
    if ledger.get_run(key) is None:
        state = look_up(key).state
        if state is None:
            raise _unknown(key.dag_id, key.run_id)
        # The definition of a run that has not begun is in the Dag's file alone, and the API server runs no
        # code of Dag files.
        raise HTTPException(
            409,
            f"Run {key.run_id} of {key.dag_id} has not begun: no step of it has started, and in Airflow the "
            f"run is {state}. Ask again later, or use `airflow louver {verb}` where the Dag files are",
        )
    control = TaskControl(actor=actor, source=Source.API, ledger=ledger)
    with _patience(body.wait_seconds) as timeout:
        try:
            replies = control.ask(
                verb,
                key,
                body.node,
                map_index=body.map_index,
                reason=body.reason or None,
                timeout=timeout,
                wait=timeout > timedelta(0),
            )
        except LedgerUnavailable:
            raise
        except LedgerError as unknown:
            raise HTTPException(404, str(unknown)) from None
    if not replies:
        raise HTTPException(
            409, f"Every step of run {key.run_id} of {key.dag_id} is over; there is nothing to {verb}"
        )
    return [_reply(reply) for reply in replies]


@contextmanager
def _patience(seconds: float) -> Iterator[timedelta]:
    """How long to wait; not at all where many others do: the command is recorded, and carried out anyway."""
    if seconds <= 0 or not _WAITERS.acquire(blocking=False):
        yield timedelta(0)
        return
    try:
        yield timedelta(seconds=seconds)
    finally:
        _WAITERS.release()


def _reply(reply: Reply) -> CommandReply:
    return CommandReply(
        node=reply.task.task_id,
        map_index=reply.task.map_index,
        state=str(reply.state),
        command=str(reply.verb),
        became=str(reply.became),
        accepted=reply.became.accepted,
        detail=reply.detail,
        command_id=reply.command_id,
    )


def _unknown(dag_id: str, run_id: str) -> HTTPException:
    return HTTPException(
        404, f"Neither the ledger nor Airflow knows a run {run_id!r} of {dag_id!r}; check both ids"
    )
