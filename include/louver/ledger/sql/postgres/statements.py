"""
The frequent decisions as one statement each, prepared once for each connection.

Each does the whole of the common case or nothing at all; where it did nothing, the common path over rows
decides what is the matter and does what is to be done. So the meaning of an operation stays in one place, and
these are shortcuts of it. A statement fences first: without a row in ``held`` nothing below it is written.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, TypeVar

from sqlalchemy.dialects import postgresql

from louver.ledger.records import (
    CheckpointRecord,
    CommandRecord,
    EffectRecord,
    PayloadRecord,
    Record,
    TransitionRecord,
)
from louver.ledger.sql.tables import PREFIX, TABLES
from louver.ledger.sql.types import EnumText
from louver.ledger.storable import FIELDS, VALUES

__all__ = [
    "ADVANCE",
    "BEGIN",
    "CHECKPOINT",
    "CLAIM",
    "COMMIT",
    "COMPLETE",
    "FENCE",
    "Statement",
    "values_of",
]

T = TypeVar("T", bound=Record)

_KINDS: dict[Hashable, type[Record]] = {kind.TABLE: kind for kind in TABLES}

_DIALECT: Any = postgresql.psycopg2.dialect()  # type: ignore[no-untyped-call]

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")

_TYPES: dict[str, str] = {
    "dag_id": "text",
    "run_id": "text",
    "task_id": "text",
    "map_index": "bigint",
    "incarnation": "bigint",
    "session": "bigint",
    "try_number": "bigint",
    "generation": "bigint",
    "now": "timestamptz",
}


def _types_of(kind: type[Record], prefix: str) -> dict[str, str]:
    columns = TABLES[kind].c
    compiled = {name: columns[name].type.compile(_DIALECT) for name in FIELDS[kind]}
    return {f"{prefix}_{name}": text.split(" COLLATE ")[0] for name, text in compiled.items()}


class Statement:
    """
    One prepared statement.

    :param name: of it on the server.
    :param text: SQL with ``:name`` where a value stands.
    :param types: the values' types, beside those that all of them share.
    """

    def __init__(self, name: str, text: str, types: Mapping[str, str]) -> None:
        self.name = f"{PREFIX}{name}"
        known = {**_TYPES, **types}
        self.parameters = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        numbers = {parameter: f"${number}" for number, parameter in enumerate(self.parameters, 1)}
        declared = ", ".join(known[parameter] for parameter in self.parameters)
        body = _PARAMETER.sub(lambda found: numbers[found.group(1)], text)
        self.prepare = f"PREPARE {self.name} ({declared}) AS {body}"
        self.execute = f"EXECUTE {self.name} ({', '.join(['%s'] * len(self.parameters))})"
        unprepared = _PARAMETER.sub(
            lambda found: f"%({found.group(1)})s::{known[found.group(1)]}", text.replace("%", "%%")
        )
        # So that who looks at the server sees what it is doing.
        self.unprepared = f"/* {self.name} */ {unprepared}"


def values_of(record: Record, prefix: str) -> dict[str, Any]:
    """The record's fields as the driver takes them."""
    kind = type(record)
    values = dict(zip(_names(kind.TABLE, prefix), VALUES[kind](record), strict=True))
    for name in _enums(kind.TABLE, prefix):
        member = values[name]
        if member is not None:
            values[name] = member.value
    return values


@cache
def _names(kind: Hashable, prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{name}" for name in FIELDS[_KINDS[kind]])


@cache
def _enums(kind: Hashable, prefix: str) -> tuple[str, ...]:
    record = _KINDS[kind]
    columns = TABLES[record].c
    return tuple(f"{prefix}_{name}" for name in FIELDS[record] if isinstance(columns[name].type, EnumText))


_PLACE = {name: f":{name}" for name in ("dag_id", "run_id", "task_id", "map_index")}


def _insert(kind: type[Record], prefix: str, known: Mapping[str, str] | None = None) -> str:
    """
    An insert of a record's fields; ``SELECT`` is its last part.

    :param known: SQL for fields that need no value of their own. Each value costs the client and the server.
    """
    names = FIELDS[kind]
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join((known or {}).get(name) or f":{prefix}_{name}" for name in names)
    return f"INSERT INTO {TABLES[kind].name} ({columns}) SELECT {values}"


def _replacing(kind: type[Record]) -> str:
    names = [name for name in FIELDS[kind] if name not in kind.PRIMARY]
    taken = ", ".join(f'"{name}" = EXCLUDED."{name}"' for name in names)
    return f"ON CONFLICT ({', '.join(kind.PRIMARY)}) DO UPDATE SET {taken}"


_TASK = "t.dag_id = :dag_id AND t.run_id = :run_id AND t.task_id = :task_id AND t.map_index = :map_index"
_TOKEN = f"{_TASK} AND t.incarnation = :incarnation AND t.session = :session AND t.try_number = :try_number"
_RUN = "r.dag_id = :dag_id AND r.run_id = :run_id AND r.incarnation = :incarnation"
_FENCE = f"""
    SELECT 1 FROM louver_task t
    WHERE {_TOKEN} AND EXISTS (SELECT 1 FROM louver_run r WHERE {_RUN})
"""
_PAYLOAD = f"{_insert(PayloadRecord, 'p', {'saved_at': ':now'})} FROM {{source}} {_replacing(PayloadRecord)}"

_PAYLOAD_TYPES = _types_of(PayloadRecord, "p")
_EFFECT_TYPES = _types_of(EffectRecord, "e")
_CHECKPOINT_TYPES = _types_of(CheckpointRecord, "c")
_MOVED_TYPES = {
    **_types_of(TransitionRecord, "x"),
    "known_version": "bigint",
    "known_head": "text",
    "version": "bigint",
    "state": "text",
    "attempt": "bigint",
    "failures": "bigint",
    "failure_kind": "text",
    "head": "text",
}

_BEGUN = {
    **_PLACE,
    "incarnation": ":incarnation",
    "session": ":session",
    "epoch": "1",
    "state": "'started'",
    "approval_id": "NULL",
    "commit_sequence": "NULL",
    "reason": "NULL",
    "started_at": ":now",
    "updated_at": ":now",
}

FENCE = Statement("fence", f"{_FENCE}", {})
"""Whether the token still holds its task."""

BEGIN = Statement(
    "begin_effect",
    f"""
    WITH held AS ({_FENCE} FOR UPDATE OF t),
    begun AS (
        {_insert(EffectRecord, "e", _BEGUN)} FROM held
        WHERE NOT EXISTS (SELECT 1 FROM louver_effect o WHERE o.scope = :e_scope AND o.key = :e_key)
        ON CONFLICT DO NOTHING RETURNING 1
    ),
    kept AS ({_PAYLOAD.format(source="begun")})
    SELECT count(*) FROM begun
    """,
    {**_EFFECT_TYPES, **_PAYLOAD_TYPES},
)
"""
Begin an effect whose key nobody has used.

It is looked for under each epoch: the first one may have been cleaned away while a later one stands.
"""

COMMIT = Statement(
    "commit_effect",
    f"""
    WITH held AS ({_FENCE} FOR UPDATE OF t),
    mine AS (
        SELECT 1 FROM louver_effect e, held
        WHERE e.scope = :scope AND e.key = :key AND e.epoch = :epoch AND e.ticket = :ticket
            AND e.state = 'started' AND e.kind = 'forward' AND e.session = :session
        FOR UPDATE OF e
    ),
    placed AS (
        UPDATE louver_run r SET commits = r.commits + 1 FROM mine
        WHERE r.dag_id = :dag_id AND r.run_id = :run_id RETURNING r.commits
    ),
    done AS (
        UPDATE louver_effect e
        SET state = 'committed', commit_sequence = placed.commits, reason = NULL, updated_at = :now
        FROM placed
        WHERE e.scope = :scope AND e.key = :key AND e.epoch = :epoch
        RETURNING e.commit_sequence, e.lease_until, e.generation
    ),
    kept AS ({_PAYLOAD.format(source="done")})
    SELECT commit_sequence, lease_until, generation FROM done
    """,
    {"scope": "text", "key": "text", "epoch": "bigint", "ticket": "text", **_PAYLOAD_TYPES},
)
"""
Commit a started effect of this very session.

Its ticket tells whose it is: nobody else has the same one. Were its run compared too, the server might look
for it among all effects of the run, by a plan that it made when there were few.
"""

_MOVED = f"""
    UPDATE louver_task t
    SET version = :version, state = :state, attempt = :attempt, failures = :failures,
        failure_kind = :failure_kind, head = :head, updated_at = :now
    WHERE {_TOKEN} AND t.version = :known_version AND t.head = :known_head
        AND EXISTS (SELECT 1 FROM louver_run r WHERE {_RUN} {{more}})
    RETURNING 1
"""

ADVANCE = Statement(
    "advance",
    f"""
    WITH moved AS ({_MOVED.format(more="")}),
    told AS ({_insert(TransitionRecord, "x", _PLACE)} FROM moved)
    SELECT count(*) FROM moved
    """,
    _MOVED_TYPES,
)
"""Append one transition to the task as this session last left it."""

_SAVED = (
    f"{_insert(CheckpointRecord, 'c', _PLACE)} FROM {{source}} {_replacing(CheckpointRecord)} RETURNING 1"
)
_DEFINITION = "AND r.definition_fingerprint = :definition"

COMPLETE = Statement(
    "complete",
    f"""
    WITH moved AS ({_MOVED.format(more=_DEFINITION)}),
    told AS ({_insert(TransitionRecord, "x", _PLACE)} FROM moved),
    saved AS ({_SAVED.format(source="moved")}),
    kept AS ({_PAYLOAD.format(source="saved")})
    SELECT count(*) FROM moved
    """,
    {**_MOVED_TYPES, **_CHECKPOINT_TYPES, **_PAYLOAD_TYPES, "definition": "text"},
)
"""Keep the result and append the closing transition."""

CHECKPOINT = Statement(
    "save_checkpoint",
    f"""
    WITH held AS (
        SELECT 1 FROM louver_task t
        WHERE {_TOKEN} AND EXISTS (SELECT 1 FROM louver_run r WHERE {_RUN} {_DEFINITION})
        FOR UPDATE OF t
    ),
    saved AS ({_SAVED.format(source="held")}),
    kept AS ({_PAYLOAD.format(source="saved")})
    SELECT count(*) FROM saved
    """,
    {**_CHECKPOINT_TYPES, **_PAYLOAD_TYPES, "definition": "text"},
)
"""Keep a value under a name."""

CLAIM = Statement(
    "claim_commands",
    f"""
    WITH held AS ({_FENCE}),
    open AS (
        SELECT c.command_id FROM louver_command c, held
        WHERE c.dag_id = :dag_id AND c.run_id = :run_id
            AND c.task_id = :task_id AND c.map_index = :map_index
            AND c.generation = :generation
            AND (c.state = 'pending' OR (c.state = 'claimed' AND (
                c.lease_until <= :now OR c.session IS DISTINCT FROM :session)))
        ORDER BY array_position(:verbs, c.verb), c.sent_at, c.command_id
        LIMIT :most
        FOR UPDATE OF c SKIP LOCKED
    ),
    mine AS (
        UPDATE louver_command c
        SET state = 'claimed', claimed_by = :process, session = :session, lease_until = :until
        FROM open WHERE c.command_id = open.command_id
        RETURNING {", ".join(f'c."{name}"' for name in FIELDS[CommandRecord])}
    )
    SELECT held.*, mine.* FROM held LEFT JOIN mine ON true
    """,
    {"most": "bigint", "process": "text", "until": "timestamptz", "verbs": "text[]"},
)
"""Take up the open commands of a task; those that somebody else is taking up are passed over."""
