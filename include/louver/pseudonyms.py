"""
An exported history without people, ids and texts: each is replaced by the same pseudonym wherever it stands.

Which pseudonym, the order of first appearance decides, so the same history gives the same document. Times are
shifted as one, so what lies between them stays. What the code gives (names of steps, effects and functions,
hashes) is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from louver.canonical import fingerprint
from louver.timestamps import format_utc, parse_rfc3339

__all__ = ["BEGINNING", "anonymised"]

BEGINNING = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""When the run of every anonymised history was created."""

_PEOPLE = ("actor", "requester", "decided_by")
_TEXTS = ("reason", "outcome")
_IDS = {"run_id": "run", "request_id": "request", "approval_id": "request", "command_id": "command"}
_SHIFTED = ("at", "created_at", "updated_at", "started_at", "requested_at", "expires_at", "decided_at")
_TIMES = frozenset({*_SHIFTED, "consumed_at", "sent_at", "closed_at", "accepted_at"})
_ROWS = ("transitions", "effects", "approvals", "commands", "acceptances")


def anonymised(document: dict[str, Any]) -> dict[str, Any]:
    """
    The document with pseudonyms; the one given stays as it is.

    :param document: as :func:`louver.exports.export_run` makes it.
    """
    document = copy.deepcopy(document)
    names = _Pseudonyms()
    shift = parse_rfc3339(document["run"]["created_at"]) - BEGINNING
    real_run = document["run"]["run_id"]
    for row in [document["run"], *(row for kind in _ROWS for row in document[kind])]:
        for name, value in row.items():
            row[name] = _replaced(name, value, row, names, real_run, shift)
    for entry in document["definitions"]:
        entry["altered"] = _alter(entry["form"], names)
    return document | {"anonymised": True}


class _Pseudonyms:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._count: dict[str, int] = {}

    def of(self, kind: str, value: str) -> str:
        """The pseudonym of a value; the next one of its kind where it is new."""
        if (kind, value) not in self._known:
            self._count[kind] = self._count.get(kind, 0) + 1
            self._known[kind, value] = f"{kind}-{self._count[kind]}"
        return self._known[kind, value]


def _replaced(
    name: str, value: Any, row: dict[str, Any], names: _Pseudonyms, real_run: str, shift: timedelta
) -> Any:
    if value is None:
        return None
    if name in _TIMES:
        return format_utc(parse_rfc3339(value) - shift)
    if name in _PEOPLE:
        return names.of("person", value)
    if name == "approvers":
        return [names.of("person", one) for one in value]
    if name in _TEXTS:
        return names.of("text", value)
    if name in _IDS:
        return names.of(_IDS[name], value)
    if name == "key":
        return _key(value, lambda key: names.of("key", key))
    if name == "undoes":
        return _reference(value, lambda key: names.of("key", key))
    if name == "consumed_by":
        reference, _, intent = value.rpartition(":")
        return f"{_reference(reference, lambda key: names.of('key', key))}:{intent}"
    if name == "scope" and value.startswith("run:"):
        return value.removesuffix(real_run) + names.of("run", real_run)
    return value


def _key(key: str, replace: Callable[[str], str]) -> str:
    """An undo's key is made of that of what it undoes."""
    if key.startswith("undo:"):
        return f"undo:{_reference(key.removeprefix('undo:'), replace)}"
    return replace(key)


def _reference(reference: str, replace: Callable[[str], str]) -> str:
    key, separator, epoch = reference.rpartition("#")
    return f"{_key(key, replace)}{separator}{epoch}"


def _alter(form: dict[str, Any], names: _Pseudonyms) -> bool:
    """Take literal arguments and people out of a definition; True where there were any."""
    altered = False
    for step in form.get("steps", []):
        for name, value in step.get("kwargs", {}).items():
            step["kwargs"][name] = f"sha256:{fingerprint(value)}"
            altered = True
        approve = step.get("approve", {})
        if approve.get("approvers"):
            approve["approvers"] = [names.of("person", one) for one in approve["approvers"]]
            altered = True
    return altered
