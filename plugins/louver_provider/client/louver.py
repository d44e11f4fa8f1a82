"""The way in: an Airflow with Louver, from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from louver.canonical import plain_json
from louver.clock import Clock
from louver.cloudevents import parse_event, run_id_for
from louver.errors import ConfigurationError, require_aware
from louver_provider.client.connection import login_of
from louver_provider.client.errors import DagPaused, NotFound, Refused, ServerError, SubmitConflict
from louver_provider.client.handle import RunHandle, dag_path
from louver_provider.client.wire import Wire, reading

if TYPE_CHECKING:
    import httpx

__all__ = ["Louver"]


class Louver:
    """
    Submits workflows and finds their runs, over the API server of Airflow.

    Usable as a context manager, which closes its connections, and by several threads.

    :param url: of Airflow's web server, as ``http://localhost:8080``.
    :param token: a token, or a function that gives one; that is called again when a token has expired.
    :param username: with ``password``, instead of a token.
    :param timeout: seconds for one answer; more than the 20 that a command may wait.
    :param patience: seconds in which a request is tried again where the server is away or busy. What cannot
        be told from having been done already, as a command, is not.
    :param verify: as httpx takes it.
    :param transport: of httpx.
    :param clock: waits by this one.
    :raises ConfigurationError: where this is no URL, or no login.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str] | None = None,
        username: str | None = None,
        password: str | None = None,
        timeout: float = 30.0,
        patience: float = 30.0,
        verify: Any = True,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock
        self._wire = Wire(
            url,
            token=token,
            username=username,
            password=password,
            timeout=timeout,
            patience=patience,
            verify=verify,
            transport=transport,
            clock=clock,
        )

    @classmethod
    def from_connection(cls, conn_id: str = "louver_default", **options: Any) -> Louver:
        """
        By a connection of Airflow, of type HTTP; in a task of another Dag, say.

        Its host (with port, schema, and a path in the host) is Airflow's web server; the login is its login
        and password, or a ``token`` in its extra.

        :param options: as the constructor has them.
        :raises ConfigurationError: where the connection lacks something.
        """
        return cls(**{**login_of(conn_id), **options})

    def __enter__(self) -> Louver:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Louver at {self._wire.url}>"

    def close(self) -> None:
        """Close its connections; twice is fine."""
        self._wire.close()

    def run(self, dag_id: str, run_id: str) -> RunHandle:
        """A run that there is; the server is asked when something is wanted of it."""
        return RunHandle(self._wire, dag_id, run_id, clock=self._clock)

    def submit(
        self,
        dag_id: str,
        params: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        logical_date: datetime | None = None,
        event: Mapping[str, Any] | bytes | str | None = None,
        while_paused: bool = False,
    ) -> RunHandle:
        """
        Start a run, once: the same ``run_id`` with the same parameters gives the same run, however often and
        by however many it is submitted. So an answer that was lost is found again.

        :param params: parameters, of JSON's types. Airflow keeps them, in its audit log too: they are no
            place for secrets. Louver's events are.
        :param run_id: made up where there is none; then every call starts another run.
        :param logical_date: aware; a Dag has one run for each.
        :param event: for a workflow that takes events, in the place of ``params``: a CloudEvent as a dict, or
            as the JSON text of one. It names its run itself, by source and id.
        :param while_paused: start it even where Airflow has paused the Dag; it waits until that ends.
        :raises NotFound: where there is no such Dag.
        :raises DagPaused: where Airflow has paused the Dag, and there is no such run yet.
        :raises SubmitConflict: where the run is there, and was started with something else; or another run
            has this logical date.
        :raises Refused: where Airflow, or the workflow, does not take this; says why.
        :raises EventRejected: where it is no strict CloudEvent.
        :raises ConfigurationError: for parameters that are no JSON, and combinations that make no sense.
        """
        if event is not None:
            if params is not None or run_id is not None or logical_date is not None:
                raise ConfigurationError(
                    "an event names its run by source and id, and has the run's data: give it alone"
                )
            return self._submit_event(dag_id, _event_bytes(event), while_paused=while_paused)
        given = dict(params or {})
        if not plain_json(given):
            raise ConfigurationError(
                f"params of {dag_id}: Airflow keeps parameters as JSON, so they are str, bool, int, finite "
                f"float, None, list or dict; not {_foreign(given)}. Write it as text, or keep it in an event"
            )
        if logical_date is not None:
            require_aware("logical_date", logical_date)
        # Made up here: only what has a name can be found again.
        name = run_id if run_id is not None else f"louver__{uuid4()}"
        if self._is_paused(dag_id) and not while_paused:
            return self._found(dag_id, name, given, logical_date, paused=True)
        body = {
            "dag_run_id": name,
            "logical_date": None if logical_date is None else logical_date.isoformat(),
            "conf": given,
        }
        try:
            self._wire.request(
                "POST",
                f"/api/v2{dag_path(dag_id)}/dagRuns",
                body=body,
                # By its name: a second one is refused with 409.
                repeatable=True,
                about=f"submit of run {name} of {dag_id}",
            )
        except Refused as refused:
            if refused.status != 409:
                raise
            return self._found(dag_id, name, given, logical_date, paused=False)
        return self.run(dag_id, name)

    def _is_paused(self, dag_id: str) -> bool:
        dag = self._wire.request("GET", f"/api/v2{dag_path(dag_id)}", repeatable=True, about=f"Dag {dag_id}")
        with reading(f"Dag {dag_id}"):
            return bool(dag["is_paused"])

    def _found(
        self,
        dag_id: str,
        run_id: str,
        params: Mapping[str, Any] | None,
        logical_date: datetime | None,
        *,
        paused: bool,
    ) -> RunHandle:
        """
        The run of that name, where it was started with the same.

        :param params: None for the run of an event, whose name says all.
        """
        about = f"run {run_id} of {dag_id}"
        try:
            run = self._wire.request(
                "GET",
                f"/api/v2{dag_path(dag_id)}/dagRuns/{quote(run_id, safe='')}",
                repeatable=True,
                about=about,
            )
        except NotFound:
            if paused:
                raise _paused(dag_id) from None
            raise SubmitConflict(
                f"{about}: another run of the Dag has the logical date {logical_date}; one each",
                run_id=run_id,
            ) from None
        if params is None:
            return self.run(dag_id, run_id)
        differs = [
            what
            for what, same in (
                ("params", _text(run.get("conf") or {}) == _text(params)),
                ("logical_date", _same_moment(run.get("logical_date"), logical_date)),
            )
            if not same
        ]
        if differs:
            raise SubmitConflict(
                f"{about} is there already, and was started with other {' and '.join(differs)}; it is left "
                "as it is. Choose another run_id, or submit the same",
                run_id=run_id,
            )
        return self.run(dag_id, run_id)

    def _submit_event(self, dag_id: str, raw: bytes, *, while_paused: bool) -> RunHandle:
        # Strictly, as the server reads it: what is no event is found out here.
        name = run_id_for(parse_event(raw))
        if not while_paused and self._is_paused(dag_id):
            return self._found(dag_id, name, None, None, paused=True)
        try:
            taken = self._wire.request(
                "POST",
                f"/louver/v1{dag_path(dag_id)}/events",
                content=raw,
                content_type="application/cloudevents+json",
                params={"while_paused": "true"} if while_paused else None,
                # By its source and id.
                repeatable=True,
                about=f"submit of an event to {dag_id}",
            )
        except Refused as refused:
            if refused.status != 409:
                raise
            raise SubmitConflict(str(refused), run_id=None) from None
        except ServerError as failed:
            # It was paused after it was looked at.
            if failed.status == 503 and not while_paused and self._is_paused(dag_id):
                return self._found(dag_id, name, None, None, paused=True)
            raise
        with reading(f"submit of an event to {dag_id}"):
            return self.run(dag_id, taken["run_id"])


def _paused(dag_id: str) -> DagPaused:
    return DagPaused(
        f"Airflow has paused the Dag {dag_id}: its runs do not start. `airflow dags unpause {dag_id}`, or "
        "submit with while_paused=True and the run waits"
    )


def _event_bytes(event: Mapping[str, Any] | bytes | str) -> bytes:
    if isinstance(event, bytes):
        return event
    if isinstance(event, str):
        return event.encode("utf-8")
    if not plain_json(dict(event)):
        raise ConfigurationError(f"event: a CloudEvent is JSON; {_foreign(dict(event))} is not")
    return json.dumps(dict(event), ensure_ascii=False).encode("utf-8")


def _text(value: Any) -> str:
    """One text for each JSON value: 1, 1.0 and true are three."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _same_moment(text: str | None, wanted: datetime | None) -> bool:
    if text is None or wanted is None:
        return text is None and wanted is None
    return datetime.fromisoformat(text.replace("Z", "+00:00")) == wanted


def _foreign(value: Any, path: str = "$") -> str:
    """The place and type of the first part that is no JSON."""
    if isinstance(value, dict):
        for name, item in value.items():
            if type(name) is not str:
                return f"a key that is {type(name).__name__} at {path}"
            if not plain_json(item):
                return _foreign(item, f"{path}.{name}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            if not plain_json(item):
                return _foreign(item, f"{path}[{index}]")
    return f"{type(value).__name__} at {path}"
