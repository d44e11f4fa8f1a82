"""
Events that start runs.

The API server runs no code of Dag files, so it checks an event as far as it can without: strictly as a
CloudEvent, by the type that the Dag's definition declares, and by the profile of that type where Louver ships
it. The Dag's own profile is checked by the run's first step.

The code of the answer tells a sender whether to send again (semantics section 10, case I07): after 429 and
503 it should, after 200 and 202 it need not, and after any other it would be refused again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn, cast

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.exceptions import DagNotFound
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from sqlalchemy import select

from louver.clock import SystemClock
from louver.cloudevents import MAX_EVENT_BYTES, CloudEvent, EventProfile, parse_event, run_id_for
from louver.errors import ConfigurationError, EventConflict, EventRejected
from louver.intake import Intake, profile_for
from louver.ledger.records import EventRecord
from louver_provider.api.datamodels import Accepted
from louver_provider.api.problems import EVENT_PROBLEMS
from louver_provider.buckets.intake import submitted_conf
from louver_provider.deployed import deployed_definition
from louver_provider.hooks.ledger import get_ledger
from louver_provider.own_acts import note_event_conflict
from louver_provider.triggering import run_is_there, trigger_once

__all__ = ["MEDIA_TYPE", "event_routes"]

event_routes = APIRouter(prefix="/dags/{dag_id}", tags=["Events"])

MEDIA_TYPE = "application/cloudevents+json"
"""The one that is read: one event, in the JSON format of CloudEvents."""

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One event in the JSON format of CloudEvents 1.0.2.",
        "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
    }
}
_AGAIN: dict[int | str, dict[str, Any]] = {
    200: {"model": Accepted, "description": "The event was taken in before; this is its run."}
}

_AT_ONCE = threading.BoundedSemaphore(128)
"""How many events one process takes in at once; Airflow's own requests share the threads with them."""

_SOON, _LATER = {"Retry-After": "1"}, {"Retry-After": "60"}


@event_routes.post(
    "/events",
    status_code=202,
    openapi_extra=_BODY,
    responses={**EVENT_PROBLEMS, **_AGAIN},
    dependencies=[Depends(requires_access_dag("POST", DagAccessEntity.RUN))],
)
async def submit_event(
    dag_id: str,
    request: Request,
    response: Response,
    user: GetUserDep,
    while_paused: Annotated[
        bool, Query(description="Take it in even where Airflow has paused the Dag; the run then waits.")
    ] = False,
) -> Accepted:
    """
    Take an event in, and start its run, once: a second delivery is answered with the same run.

    The event stays in the ledger. The run's `conf`, which Airflow keeps in its own log table too, holds its
    id and fingerprint alone.
    """
    _check_media_type(request.headers.get("content-type", ""))
    raw = await _read(request)
    with _taking():
        taken = await run_sync(_submit, dag_id, raw, user.get_name(), while_paused)
    if taken.outcome == "duplicate":
        response.status_code = 200
    return taken


def _check_media_type(header: str) -> None:
    media_type, *parameters = (part.strip().lower() for part in header.split(";"))
    if media_type != MEDIA_TYPE:
        raise HTTPException(
            415, f"Send one event in the JSON format of CloudEvents, with Content-Type: {MEDIA_TYPE}"
        )
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "charset" and value.strip('"') != "utf-8":
            raise HTTPException(415, "An event is JSON in UTF-8; leave the charset out")


async def _read(request: Request) -> bytes:
    """The body; one that is too large is not read to its end."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and len(said) < 20 and int(said) > MAX_EVENT_BYTES:
        _refuse_size()
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_EVENT_BYTES:
            _refuse_size()
    return bytes(raw)


def _refuse_size() -> NoReturn:
    raise HTTPException(413, f"An event has at most {MAX_EVENT_BYTES} bytes")


@contextmanager
def _taking() -> Iterator[None]:
    if not _AT_ONCE.acquire(blocking=False):
        raise HTTPException(429, "Too many events are being taken in; send it again", headers=_SOON)
    try:
        yield
    finally:
        _AT_ONCE.release()


def _submit(dag_id: str, raw: bytes, by: str, while_paused: bool) -> Accepted:
    """In a thread: it asks the ledger and Airflow's database."""
    wanted, paused = _event_type(dag_id)
    try:
        event = parse_event(raw)
    except EventRejected as rejected:
        raise HTTPException(400, str(rejected)) from None
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
    if paused and not while_paused and not run_is_there(dag_id, run_id_for(event)):
        raise HTTPException(
            503, f"Airflow has paused the Dag {dag_id!r}; nothing was taken in", headers=_LATER
        )
    ledger = get_ledger()
    try:
        _, record = intake.submit(ledger, raw, now=now())
    except EventConflict as conflict:
        with create_session(scoped=False) as session:
            note_event_conflict(session, dag_id, conflict.run_id, actor=by)
        raise
    made = False
    # Whoever died between the row and the run left half of it: every redelivery completes it.
    if record.triggered_at is None:
        made = _start(record, intake.conf(record) | routed, by=by)
        ledger.confirm_event(record, now=now())
    return Accepted(
        dag_id=dag_id,
        run_id=record.run_id,
        # Of all deliveries exactly one has made the run.
        outcome="accepted" if made else "duplicate",
        identity=record.identity,
        payload_fingerprint=record.payload_fingerprint,
    )


def _start(record: EventRecord, conf: dict[str, Any], *, by: str) -> bool:
    """Make the event's run; False where it is there already."""
    dag_id, through = record.dag_id, DagRunTriggeredByType.REST_API
    try:
        return trigger_once(dag_id, record.run_id, conf, by=by, through=through)
    except DagNotFound:
        raise HTTPException(404, f"Airflow has no Dag {dag_id!r} any more") from None
    except ConfigurationError as refused:
        # The event is kept: sent again when that is mended, it gets its run.
        raise HTTPException(503, str(refused), headers=_LATER) from None


def _event_type(dag_id: str) -> tuple[str, bool]:
    """The type of event that starts a run of the Dag, and whether Airflow has paused it."""
    with create_session(scoped=False) as session:
        model = session.scalar(select(DagModel).where(DagModel.dag_id == dag_id, ~DagModel.is_stale))
        if model is None:
            raise HTTPException(404, f"Airflow has no Dag {dag_id!r}; check the id")
        if model.has_import_errors:
            raise HTTPException(
                503, f"Dag {dag_id!r} has import errors; nothing of it is started", headers=_LATER
            )
        paused = bool(model.is_paused)
    definition = deployed_definition(dag_id)
    if definition is None:
        raise HTTPException(422, f"{dag_id!r} is no Louver Dag, so it takes no events")
    if definition.event_type is None:
        raise HTTPException(422, f"{dag_id!r} is not started by events: its definition has no event_type")
    return definition.event_type, paused


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
