"""What a person sees under Required Actions, and what their answer carries back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from louver.ledger.records import ApprovalRecord

__all__ = ["REQUEST_ID", "ApprovalForm", "describe_request", "table"]

REQUEST_ID = "request_id"
"""The form's field that ties an answer to the request it was given to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalForm:
    """Subject, Markdown body, and the form's fields in Airflow's own shape."""

    subject: str
    body: str = field(repr=False)
    params: dict[str, dict[str, Any]]


def describe_request(request: ApprovalRecord, payload: Any) -> ApprovalForm:
    """
    The form for a request.

    The payload stands in it: who approves has to see what. So it is readable by everybody who may see the
    task, in Airflow's own table; the docs say so.
    """
    facts = [
        ("Run", request.run_id),
        ("Step that will act", request.of),
        ("Definition", f"{request.definition_name} {request.definition_version}"),
        ("Definition fingerprint", request.definition_fingerprint),
        ("Payload fingerprint", request.payload_fingerprint),
        ("Upstream results", f"{request.state_version}, fingerprint {request.upstream_fingerprint[:16]}"),
        ("Expires", request.expires_at.isoformat(timespec="seconds") if request.expires_at else "never"),
        ("Request", request.request_id),
    ]
    body = "\n\n".join(
        [
            f"**{request.of}** will do exactly this, once, if you approve:",
            table("What", "Value", _rows(payload)),
            table("Bound to", "", facts),
            "If any of it changes before the step acts, nothing is done and you are asked again.",
        ]
    )
    return ApprovalForm(
        subject=f"Approve {request.of} of {request.dag_id}?",
        body=body,
        params={
            REQUEST_ID: {
                "value": request.request_id,
                "description": "Ties your answer to this request; leave it as it is.",
                "schema": {"type": "string", "title": "Request", "const": request.request_id},
            }
        },
    )


def _rows(payload: Any) -> list[tuple[str, str]]:
    if isinstance(payload, Mapping):
        return [(str(name), str(value)) for name, value in payload.items()]
    return [("payload", str(payload))]


def table(left: str, right: str, rows: list[tuple[str, str]]) -> str:
    """A Markdown table of two columns, whatever stands in the cells."""
    lines = [f"| {left} | {right} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows)])


def _cell(text: str) -> str:
    """The text as it is: nothing in it may end the cell or become a link, an image or markup."""
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in r"\`*_{}[]<>()#+-!|~" else char for char in flat)
