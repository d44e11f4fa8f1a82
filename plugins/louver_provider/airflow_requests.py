"""
Pure: what people asked Airflow for, from the rows of its audit log.

A row there is written when a request arrives, before it is carried out: it says who wanted what, and not that
it came about. Dry runs are no requests: opening the Clear dialog asks for nothing (case C02).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from louver.ledger.names import RunKey
from louver.states import Source
from louver_provider.airflow_rows import LogRow
from louver_provider.own_acts import CLEARED, source_of

__all__ = ["WITHOUT_RUN", "Request", "Verb", "asked_by", "cleared_by", "requests_in"]

WITHIN = timedelta(seconds=60)
"""A request that changed something did so within that time."""

AT_ONCE = timedelta(seconds=5)
"""Usually it does so within that time; one that came earlier is then looked at no more."""

_CLI_CLEAR = "cli_task_clear"

WITHOUT_RUN = (
    *(_CLI_CLEAR, "cli_dag_delete", "delete_dag", "post_clear_task_instances", "clear_dag_runs"),
    *("clear_dag_run_partitions", "bulk_dag_runs", "bulk_task_instances"),
)
"""Events that may concern a run without naming it in the row's own column."""

_WIDE = ("include_downstream", "include_upstream", "include_future", "include_past")


class Verb(str, Enum):
    """What somebody wanted."""

    MARK = "mark"
    MARK_RUN = "mark run"
    CLEAR = "clear"
    DELETE = "delete"
    ANSWER = "answer"
    OTHER = "other"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    What somebody asked for.

    :param tasks: the tasks that it names; None where it names none, so that it may be any.
    :param map_index: of the one task that it names.
    :param wide: it may concern more tasks than it names.
    :param state: Airflow's state that was asked for.
    :param named: it names the run, so it was surely about this one.
    :param reason: why, where it was said.
    """

    at: datetime
    verb: Verb
    event: str
    actor: str | None
    source: Source
    tasks: frozenset[str] | None = None
    map_index: int = -1
    wide: bool = False
    state: str | None = None
    named: bool = True
    reason: str | None = None

    def may_concern(self, task_id: str) -> bool:
        """Whether it may be about this task."""
        return self.tasks is None or self.wide or task_id in self.tasks

    @property
    def words(self) -> str:
        """What it was, in Airflow's own words."""
        if self.verb is Verb.MARK_RUN:
            return f"{self.event}: the whole run {self.state}"
        return self.event if self.state is None else f"{self.event}: {self.state}"

    @property
    def words_of_clear(self) -> str:
        """What it was, where it cleared a task."""
        if self.verb is Verb.MARK:
            return f"{self.event} upstream: {self.state}"
        return self.event if self.reason is None else f"{self.event}: {self.reason}"


def requests_in(rows: Iterable[LogRow], key: RunKey) -> list[Request]:
    """What was asked for about the run, in order of time."""
    return [request for row in rows for request in _requests(row, key)]


def asked_by(
    requests: Sequence[Request],
    verbs: Iterable[Verb],
    task_id: str,
    *,
    at: datetime,
    since: datetime | None = None,
    state: str | None = None,
    downstream: bool = False,
) -> tuple[Request, ...]:
    """
    The requests that may have changed the task at that moment, the latest of each person.

    :param at: when the task was changed; where only bounds are known, the later one.
    :param since: the earlier one.
    :param state: what it was changed to; of a whole run some tasks are skipped whatever was asked for.
    :param downstream: they changed it by what they did to a task upstream of it.
    """
    wanted = set(verbs)
    found = [
        request
        for request in requests
        if request.verb in wanted
        and (downstream or request.may_concern(task_id))
        and (since or at - WITHIN) <= request.at <= at
        and _may_bring(request, state)
    ]
    near = [request for request in found if request.at >= at - AT_ONCE]
    latest = {(request.actor, request.source): request for request in near or found}
    return tuple(sorted(latest.values(), key=lambda request: request.at))


def cleared_by(
    requests: Sequence[Request], task_id: str, *, at: datetime, since: datetime | None = None
) -> tuple[Request, ...]:
    """
    The requests that may have cleared the task by that moment, as :func:`asked_by`.

    Whoever marks a task has Airflow clear what had failed downstream of it.
    """
    asked = asked_by(requests, (Verb.CLEAR,), task_id, at=at, since=since)
    if asked:
        return asked
    upstream = [
        request for request in requests if request.verb is Verb.MARK and request.tasks != frozenset([task_id])
    ]
    return asked_by(upstream, (Verb.MARK,), task_id, at=at, since=since, downstream=True)


def _may_bring(request: Request, state: str | None) -> bool:
    """Whether what was asked for may bring a task to that state; None is any."""
    if state is None or request.verb not in (Verb.MARK, Verb.MARK_RUN):
        return True
    # Of a whole run those are skipped that have not begun.
    return request.state == state or (request.verb is Verb.MARK_RUN and state == "skipped")


def _requests(row: LogRow, key: RunKey) -> list[Request]:
    extra, event = row.extra, row.event
    if _is_dry(row):
        return []
    if event == CLEARED:
        return [_own_clear(row)]
    if event in ("bulk_task_instances", "bulk_dag_runs"):
        return [request for action in _dicts(extra.get("actions")) for request in _bulk(row, action, key)]
    if event == "clear_dag_runs" and not _lists_run(extra, key):
        return []
    verb = _VERBS.get(event, Verb.OTHER)
    if verb is Verb.OTHER and (row.run_id is None or not _is_asked(row)):
        return []
    state = extra.get("new_state") if verb is Verb.MARK else extra.get("state")
    if event == "patch_dag_run" and state not in ("success", "failed"):
        verb = Verb.OTHER
    tasks = frozenset([row.task_id]) if row.task_id is not None else _tasks(extra)
    if event == _CLI_CLEAR:
        # It takes a regular expression; which tasks that hit, nobody has written down.
        tasks = None
    return [
        Request(
            at=row.at,
            verb=verb,
            event=event,
            actor=row.owner,
            source=Source.CLI if event.startswith("cli_") else Source.API,
            tasks=tasks,
            map_index=_index(extra.get("map_index")),
            wide=any(extra.get(name) for name in _WIDE) or "group_id" in extra,
            state=str(state) if state and verb in (Verb.MARK, Verb.MARK_RUN) else None,
            named=row.run_id is not None or event == "clear_dag_runs",
        )
    ]


def _own_clear(row: LogRow) -> Request:
    """What a command of Louver's cleared; written down with the deed, so it came about."""
    return Request(
        at=row.at,
        verb=Verb.CLEAR,
        event=str(row.extra.get("asked")),
        actor=row.owner,
        source=source_of(row.extra),
        tasks=None if row.task_id is None else frozenset([row.task_id]),
        map_index=-1 if row.map_index is None else row.map_index,
        reason=row.extra.get("reason"),
    )


_VERBS = {
    "patch_task_instance": Verb.MARK,
    "patch_task_group_instances": Verb.MARK,
    "patch_dag_run": Verb.MARK_RUN,
    "post_clear_task_instances": Verb.CLEAR,
    "clear_dag_run": Verb.CLEAR,
    "clear_dag_runs": Verb.CLEAR,
    "clear_dag_run_partitions": Verb.CLEAR,
    _CLI_CLEAR: Verb.CLEAR,
    "delete_dag_run": Verb.DELETE,
    "delete_task_instance": Verb.DELETE,
    "delete_dag": Verb.DELETE,
    "cli_dag_delete": Verb.DELETE,
    "update_hitl_detail": Verb.ANSWER,
    "trigger_dag_run": Verb.OTHER,
}

_DRY_UNLESS_SAID = (
    "post_clear_task_instances",
    "clear_dag_run",
    "clear_dag_runs",
    "clear_dag_run_partitions",
)
"""What these do without a word about it is to show what they would do."""


def _is_dry(row: LogRow) -> bool:
    return bool(row.extra.get("dry_run", row.event in _DRY_UNLESS_SAID))


def _is_asked(row: LogRow) -> bool:
    """Whether a person sent it, rather than Airflow writing down what a task did."""
    return "method" in row.extra


def _lists_run(extra: Mapping[str, Any], key: RunKey) -> bool:
    listed = _dicts(extra.get("dag_runs"))
    if not listed:
        # By partition: whether this run was among them, only its tasks can tell.
        return True
    return any(_is_run(entry, key) for entry in listed)


def _is_run(entry: Mapping[str, Any], key: RunKey) -> bool:
    return entry.get("dag_run_id") == key.run_id and entry.get("dag_id") in (None, "~", key.dag_id)


def _bulk(row: LogRow, action: Mapping[str, Any], key: RunKey) -> list[Request]:
    """One action of a request about many things."""
    runs = row.event == "bulk_dag_runs"
    verbs = {"update": Verb.MARK_RUN if runs else Verb.MARK, "delete": Verb.DELETE}
    verb = verbs.get(str(action.get("action")))
    if verb is None:
        return []
    return [
        Request(
            at=row.at,
            verb=verb,
            event=row.event,
            actor=row.owner,
            source=Source.API,
            tasks=None if runs else frozenset([str(entity.get("task_id"))]),
            map_index=_index(entity.get("map_index")),
            wide=any(entity.get(name) for name in _WIDE),
            state=str(entity.get("state" if runs else "new_state")) if verb is not Verb.DELETE else None,
        )
        for entity in _entities(action, "dag_run_id" if runs else "task_id")
        if row.run_id == key.run_id or _is_run(entity, key)
    ]


def _entities(action: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """What a bulk action is about; to be deleted may be names alone."""
    entities = action.get("entities")
    if not isinstance(entities, list):
        return []
    return [{name: entity} if isinstance(entity, str) else entity for entity in entities if entity]


def _tasks(extra: Mapping[str, Any]) -> frozenset[str] | None:
    listed = extra.get("task_ids")
    if not isinstance(listed, list):
        return None
    # A mapped task stands there with its index.
    return frozenset(str(entry[0]) if isinstance(entry, list) and entry else str(entry) for entry in listed)


def _index(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return -1


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
