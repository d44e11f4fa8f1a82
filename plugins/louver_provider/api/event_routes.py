"""
Events that start runs.

The API server runs no code of Dag files, so it checks an event as far as it can without: strictly as a
CloudEvent, by the type that the Dag's definition declares, and by the profile of that type where Louver ships
it. The Dag's own profile is checked by the run's first step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.exceptions import DagNotFound
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, HTTPException, Request
from sqlalchemy import select

from louver.clock import SystemClock
from louver.cloudevents import MAX_EVENT_BYTES, CloudEvent, EventProfile, parse_event
from louver.errors import ConfigurationError, EventRejected
from louver.intake import Intake, profile_for
from louver.ledger.requests import EventOutcome
from louver_provider.api.datamodels import Accepted
from louver_provider.buckets.intake import submitted_conf
from louver_provider.deployed import deployed_definition
from louver_provider.hooks.ledger import get_ledger
from louver_provider.triggering import trigger_once

__all__ = ["event_routes"]

event_routes = APIRouter(prefix="/dags/{dag_id}", tags=["Events"])

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One event in the JSON format of CloudEvents 1.0.2.",
        "content": {"application/cloudevents+json": {"schema": {"type": "object"}}},
    }
}


@event_routes.post(
    "/events",
    openapi_extra=_BODY,
    dependencies=[Depends(requires_access_dag("POST", DagAccessEntity.RUN))],
)
async def submit_event(dag_id: str, request: Request, user: GetUserDep) -> Accepted:
    """
    Take an event in, and start its run, once: a second delivery is answered with the same run.

    The event stays in the ledger. The run's `conf`, which Airflow keeps in its own log table too, holds its
    id and fingerprint alone.
    """
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_EVENT_BYTES:
            raise HTTPException(413, f"An event has at most {MAX_EVENT_BYTES} bytes")
    return await run_sync(_submit, dag_id, raw, user.get_name())


def _submit(dag_id: str, raw: bytes, by: str) -> Accepted:
    """In a thread: it asks the ledger and Airflow's database."""
    wanted = _event_type(dag_id)
    event = parse_event(raw)
    if event.type != wanted:
        raise HTTPException(
            422, f"{dag_id!r} takes events of type {wanted!r}, and this is one of another type"
        )
    intake = Intake(dag_id=dag_id, profile=cast("EventProfile", _KnownTypes(event_type=event.type)))
    now = SystemClock().now
    # Before anything is kept: what is refused leaves nothing.
    intake.profile.check(event)
    try:
        routed = submitted_conf(dag_id, event.data, now=now())
    except ConfigurationError as refused:
        raise HTTPException(422, str(refused)) from None
    ledger = get_ledger()
    outcome, record = intake.submit(ledger, raw, now=now())
    made = False
    # Whoever died between the row and the run left half of it: every redelivery completes it.
    if record.triggered_at is None:
        try:
            made = trigger_once(
                dag_id,
                record.run_id,
                intake.conf(record) | routed,
                by=by,
                through=DagRunTriggeredByType.REST_API,
            )
        except (DagNotFound, ValueError) as refused:
            raise HTTPException(400, f"Airflow does not start a run of {dag_id!r}: {refused}") from None
        ledger.confirm_event(record, now=now())
    accepted = outcome is EventOutcome.ACCEPTED or made
    return Accepted(
        dag_id=dag_id,
        run_id=record.run_id,
        outcome="accepted" if accepted else "duplicate",
        identity=record.identity,
        payload_fingerprint=record.payload_fingerprint,
    )


def _event_type(dag_id: str) -> str:
    """The type of event that starts a run of the Dag."""
    with create_session(scoped=False) as session:
        model = session.scalar(select(DagModel).where(DagModel.dag_id == dag_id, ~DagModel.is_stale))
        if model is None:
            raise HTTPException(404, f"Airflow has no Dag {dag_id!r}; check the id")
        if model.has_import_errors:
            raise HTTPException(400, f"Dag {dag_id!r} has import errors; nothing of it is started")
    definition = deployed_definition(dag_id)
    if definition is None:
        raise HTTPException(422, f"{dag_id!r} is no Louver Dag, so it takes no events")
    if definition.event_type is None:
        raise HTTPException(422, f"{dag_id!r} is not started by events: its definition has no event_type")
    return definition.event_type


class _KnownTypes:
    """Stands for the Dag's profile: checks what has a shipped one, and lets the rest pass to the Dag."""

    def __init__(self, *, event_type: str) -> None:
        self.event_type = event_type

    def check(self, event: CloudEvent) -> dict[str, Any]:
        try:
            profile = profile_for(event.type)
        except ConfigurationError:
            return {}
        return profile.check(event)

    def from_form(self, fields: Mapping[str, Any], *, source: str, id: str) -> CloudEvent:
        raise EventRejected(None, "forms are read by the run's first step")
