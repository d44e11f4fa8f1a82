"""
Airflow's public REST interface, as far as the demo and the integration tests need it.

Answers that carry an HTTP status are never exceptions here: a test wants to see a 409.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

__all__ = ["AirflowRest", "Answer", "RestError", "TimedOut", "Unreachable", "wait_for"]

# Straight to the server, whatever proxy the caller's environment names.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

TIMEOUT = 60.0
"""Seconds for one answer; on SQLite the API server may have to wait for the write lock."""

LOCKED_TRIES = 5
"""How often a request is sent again that the server could not even write down."""

FINISHED = ("success", "failed")
"""States in which a Dag run is over."""


class RestError(Exception):
    """Airflow answered with a status that the caller cannot go on with."""


class Unreachable(RestError):
    """Nobody answers there."""


class TimedOut(Exception):
    """What was waited for did not come in time."""


class Answer(NamedTuple):
    """
    What the server said.

    :param body: the JSON, or the text where it is none.
    """

    status: int
    body: Any
    headers: Mapping[str, str]

    def expect(self, *statuses: int) -> Any:
        """
        The body.

        :raises RestError: for another status.
        """
        if self.status not in statuses:
            raise RestError(f"status {self.status}: {self.body}")
        return self.body


def wait_for(what: str, probe: Callable[[], Any], *, timeout: float, every: float = 0.3) -> Any:
    """
    Ask ``probe`` until it answers with something true, and return that.

    :raises TimedOut: naming ``what``.
    """
    deadline = time.monotonic() + timeout
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise TimedOut(f"waited {timeout:.0f} s in vain for {what}")
        time.sleep(every)


class AirflowRest:
    """
    A client with a login.

    :param url: base URL, without a slash at the end.
    :param user: of the simple auth manager.
    """

    def __init__(self, url: str, *, user: str, password: str) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        self._token: str | None = None

    def request(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Answer:
        """
        One request, logged in.

        :param path: below the base URL.
        :param token: instead of an own one; empty for none at all.
        :raises Unreachable: where there is no answer.
        """
        if token is None:
            token = self._token = self._token or self._log_in()
        answer = self._send(method, path, body, token)
        for _ in range(LOCKED_TRIES):
            if answer.status != 500:
                break
            # On SQLite the server may not have got the write lock; then nothing was done.
            time.sleep(1.0)
            answer = self._send(method, path, body, token)
        if answer.status == 401 and token and token == self._token:
            self._token = self._log_in()
            answer = self._send(method, path, body, self._token)
        return answer

    def get(self, path: str) -> Any:
        """The body of a GET that has to succeed."""
        return self.request("GET", path).expect(200)

    def _log_in(self) -> str:
        return str(self._send("POST", "/auth/token", self._login, "").expect(201)["access_token"])

    def _send(self, method: str, path: str, body: Any, token: str) -> Answer:
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=content, headers=headers, method=method)
        try:
            with _OPENER.open(request, timeout=TIMEOUT) as response:
                return Answer(response.status, _parse(response.read()), response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _parse(error.read()), error.headers)
        except (OSError, ValueError) as error:
            raise Unreachable(f"{self.url} does not answer: {error}") from None

    # What it is made of

    def health(self, since: datetime) -> dict[str, str]:
        """
        State of each part; a part whose last heartbeat is older than ``since`` is ``starting``.

        After a restart the heartbeat of the process before still counts as healthy to Airflow.
        """
        parts = self._send("GET", "/api/v2/monitor/health", None, "").expect(200)
        return {name: _state(name, part or {}, since) for name, part in parts.items()}

    def reachable(self) -> bool:
        """Whether the API for task processes answers there."""
        self._send("GET", "/execution/health", None, "").expect(200)
        return True

    def dag_ids(self) -> set[str]:
        """Dags that Airflow knows."""
        return {dag["dag_id"] for dag in self.get("/api/v2/dags?limit=100")["dags"]}

    def import_errors(self) -> dict[str, str]:
        """Stack trace by file name, relative to its bundle."""
        found = self.get("/api/v2/importErrors?limit=100")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    # Runs

    def trigger(self, dag_id: str, conf: Mapping[str, Any], *, run_id: str | None = None) -> str:
        """Start a run by hand; returns its id."""
        body = {"logical_date": None, "conf": dict(conf), "dag_run_id": run_id}
        return str(self.request("POST", f"{_dag(dag_id)}/dagRuns", body).expect(200, 201)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """The Dag run."""
        return dict(self.get(_run(dag_id, run_id)))

    def run_state(self, dag_id: str, run_id: str) -> str:
        """The Dag run's state."""
        return str(self.run(dag_id, run_id)["state"])

    def run_ids(self, dag_id: str) -> list[str]:
        """Ids of the Dag's runs, the newest first; at most 100."""
        found = self.get(f"{_dag(dag_id)}/dagRuns?limit=100&order_by=-id")["dag_runs"]
        return [run["dag_run_id"] for run in found]

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """The task instance."""
        return dict(self.get(_task(dag_id, run_id, task_id)))

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State of each task; None where Airflow has none yet."""
        found = self.get(f"{_run(dag_id, run_id)}/taskInstances?limit=100")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The task's log, as the web server shows it: one line for each message."""
        content = self.get(f"{_task(dag_id, run_id, task_id)}/logs/{try_number}?full_content=true")["content"]
        return "\n".join(entry if isinstance(entry, str) else _line(entry) for entry in content)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """The value that the web server shows for an XCom."""
        return self.get(f"{_task(dag_id, run_id, task_id)}/xcomEntries/{quote(key, safe='')}")["value"]

    # Approvals

    def question(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any] | None:
        """What stands under Required Actions for this task; None where it asks nothing."""
        answer = self.request("GET", _hitl(dag_id, run_id, task_id))
        return None if answer.status == 404 else dict(answer.expect(200))

    def reply(self, dag_id: str, run_id: str, task_id: str, body: Mapping[str, Any]) -> Answer:
        """Send an answer to a question, once."""
        return self.request("PATCH", _hitl(dag_id, run_id, task_id), dict(body))

    def answer(
        self, dag_id: str, run_id: str, task_id: str, option: str, *, request_id: str | None = None
    ) -> Answer:
        """
        Answer a question as a polite client does: where the server says "later", later.

        :param request_id: which request is meant; by default the one that is shown.
        :returns: the first answer that is not 409 with Retry-After.
        """
        if request_id is None:
            shown = self.question(dag_id, run_id, task_id)
            if shown is None:
                raise RestError(f"{task_id} of run {run_id} asks nothing")
            request_id = shown["params"]["request_id"]["value"]
        body = {"chosen_options": [option], "params_input": {"request_id": request_id}}
        deadline = time.monotonic() + TIMEOUT
        while True:
            said = self.reply(dag_id, run_id, task_id, body)
            later = said.headers.get("Retry-After")
            if said.status not in (409, 503) or later is None or time.monotonic() >= deadline:
                return said
            time.sleep(float(later))


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")


def _state(name: str, part: Mapping[str, Any], since: datetime) -> str:
    beat = part.get(f"latest_{name}_heartbeat")
    if beat is not None and datetime.fromisoformat(beat.replace("Z", "+00:00")) < since:
        return "starting"
    return str(part.get("status") or "starting")


def _line(entry: Mapping[str, Any]) -> str:
    """Everything in the message, not its text alone: a test looks for what must not be there."""
    others = {name: value for name, value in entry.items() if name not in ("event", "timestamp")}
    return f"{entry.get('event')} {json.dumps(others, default=str)}"


def _dag(dag_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id, safe='')}"


def _run(dag_id: str, run_id: str) -> str:
    return f"{_dag(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _task(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_run(dag_id, run_id)}/taskInstances/{quote(task_id, safe='')}"


def _hitl(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_task(dag_id, run_id, task_id)}/-1/hitlDetails"
