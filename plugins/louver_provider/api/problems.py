"""
Errors of Louver's REST interface: problem details (RFC 9457), which say what, where, and what to do.

``detail`` is where Airflow's own errors have their text. No value that somebody sent, or that a step
returned, stands in one.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from louver.errors import (
    ConfigurationError,
    EventConflict,
    EventRejected,
    IntegrityError,
    LedgerUnavailable,
    LouverError,
    ValueRefused,
    describe,
)

__all__ = ["EVENT_PROBLEMS", "PROBLEMS", "Problem", "handle_problems", "problem"]

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error."""

    type: str = "about:blank"
    title: str = Field(description="The name of the HTTP status.")
    status: int
    detail: str = Field(description="What is wrong, where, and the way out.")


def _documented(description: str) -> dict[str, Any]:
    return {"description": description, "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: _documented("No token, or an expired one."),
    403: _documented("The user may not do this."),
    404: _documented("There is no such Dag, run or step."),
    409: _documented("It does not fit what is there already."),
    422: _documented("The request cannot be understood."),
    503: _documented("A database does not answer; try again after `Retry-After` seconds."),
}
"""What every route may answer, for the OpenAPI document."""

EVENT_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: _documented("The body is empty, or no CloudEvent."),
    409: _documented("An event of this source and id was taken in before, with another payload."),
    413: _documented("The body is larger than an event may be."),
    415: _documented("The body is not said to be one event in the JSON format of CloudEvents."),
    422: _documented("The Dag takes no such event, or its key fits no bucket."),
    429: _documented("Too many events at once; send it again after `Retry-After` seconds."),
    503: _documented("The Dag is paused, or a database does not answer; again after `Retry-After` seconds."),
}
"""What the route that takes events may answer beside that."""


def problem(status: int, detail: str, *, headers: dict[str, str] | None = None) -> JSONResponse:
    """The answer to a request that failed."""
    found = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(found.model_dump(), status, headers, media_type=MEDIA_TYPE)


def handle_problems(app: FastAPI) -> None:
    """Have the app answer errors so."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(LouverError, _louver)
    app.add_exception_handler(SQLAlchemyError, _database)
    app.add_exception_handler(Exception, _unforeseen)


def _http(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    return problem(error.status_code, str(error.detail), headers=dict(error.headers or {}))


def _invalid(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    # Place and rule; what was sent is not sent back.
    wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return problem(422, "; ".join(wrong))


def _louver(request: Request, error: Exception) -> JSONResponse:
    detail = describe(error)
    if isinstance(error, LedgerUnavailable):
        return problem(503, detail, headers={"Retry-After": "5"})
    if isinstance(error, EventConflict):
        return problem(409, detail)
    if isinstance(error, EventRejected | ValueRefused):
        return problem(422, detail)
    if isinstance(error, ConfigurationError | IntegrityError):
        log.error("louver: %s: %s", request.url.path, detail)
    else:
        log.error("louver: %s: %s", request.url.path, detail, exc_info=error)
    return problem(500, detail)


def _database(request: Request, error: Exception) -> JSONResponse:
    log.error("louver: %s: Airflow's database: %s", request.url.path, type(error).__name__)
    return problem(503, "Airflow's database does not answer; try again", headers={"Retry-After": "5"})


def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    return problem(
        500, f"Louver failed ({type(error).__name__}); the log of the API server has the place it happened at"
    )
