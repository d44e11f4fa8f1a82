"""A run of a workflow, from outside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from louver.clock import Clock, SystemClock
from louver.results import NodeResult
from louver.states import RunState
from louver_provider.client.errors import (
    CommandImpossible,
    NoResult,
    Refused,
    RunCancelled,
    RunFailed,
    RunStopped,
    RunUnsuccessful,
    WaitTimeout,
)
from louver_provider.client.values import CommandReply, RunStatus, TrailRow, read_results
from louver_provider.client.wire import Wire, reading

__all__ = ["RunHandle", "dag_path"]

_FIRST_LOOK, _LAST_LOOK = timedelta(seconds=0.1), timedelta(seconds=2)

_MOST_WAIT = 20.0
"""Seconds that the server waits for a command at most."""

_LEFT_OPEN = timedelta(seconds=60)
"""
Airflow may end a run over the head of its steps. For so long the reconciler is waited for, which closes it in
the ledger, and undoes what is to be undone, before the run is called failed.
"""

_WORSE = {RunState.STOPPED: RunStopped, RunState.CANCELLED: RunCancelled}


def dag_path(dag_id: str) -> str:
    """The Dag as a part of a path."""
    return f"/dags/{quote(dag_id, safe='')}"


class RunHandle:
    """
    One run. It holds nothing but its name: every call asks the server.

    :param dag_id: the workflow.
    :param run_id: the run.
    """

    def __init__(self, wire: Wire, dag_id: str, run_id: str, *, clock: Clock | None = None) -> None:
        self._wire = wire
        self._clock = clock or SystemClock()
        self.dag_id = dag_id
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"<run {self.run_id} of {self.dag_id} at {self._wire.url}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunHandle):
            return NotImplemented
        return self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    @property
    def _name(self) -> tuple[str, str, str]:
        return self._wire.url, self.dag_id, self.run_id

    # What is true

    def status(self) -> RunStatus:
        """
        What is true of the run and of each of its nodes.

        :raises NotFound: where nobody knows the run.
        """
        found = self._get("status")
        with reading(f"status of {self._words}"):
            return RunStatus.read(found)

    def results(self, *nodes: str) -> dict[str, NodeResult | list[NodeResult]]:
        """
        What the nodes have come to so far, by name in declared order; of a mapped one a list by index.

        :param nodes: these; none for all.
        :raises NotFound: where nobody knows the run, or such a node.
        :raises Refused: where none of its steps has begun.
        """
        params = {"node": list(nodes)} if nodes else None
        found = self._get("results", params)
        with reading(f"results of {self._words}"):
            return read_results(found)

    def history(self, node: str | None = None, *, stored: bool = False) -> list[TrailRow]:
        """
        The audit trail, in order of time.

        :param node: of that one alone.
        :param stored: what the ledger holds alone, without what Airflow's tables tell.
        """
        params = {"stored": str(stored).lower()} | ({} if node is None else {"node": node})
        found = self._get("history", params)
        with reading(f"history of {self._words}"):
            return [TrailRow.read(row) for row in found["rows"]]

    def _get(self, what: str, params: Any = None) -> Any:
        return self._wire.request(
            "GET", f"{self._path}/{what}", params=params, repeatable=True, about=f"{what} of {self._words}"
        )

    @property
    def _path(self) -> str:
        return f"/louver/v1{dag_path(self.dag_id)}/runs/{quote(self.run_id, safe='')}"

    @property
    def _words(self) -> str:
        return f"run {self.run_id} of {self.dag_id}"

    # Waiting

    def wait(self, timeout: float | None = None) -> RunStatus:
        """
        Wait until the run is over, its compensation included.

        :param timeout: seconds; None waits for ever, zero looks once.
        :returns: its last status, whether it succeeded or not.
        :raises WaitTimeout: where it is not over by then; nothing was changed.
        """
        now = self._clock.now
        deadline = None if timeout is None else now() + timedelta(seconds=timeout)
        pause, over_in_airflow_since = _FIRST_LOOK, None
        while True:
            status = self.status()
            if status.over:
                return status
            if status.over_in_airflow:
                over_in_airflow_since = over_in_airflow_since or now()
                if now() - over_in_airflow_since >= _LEFT_OPEN:
                    return status
            else:
                over_in_airflow_since = None
            left = None if deadline is None else deadline - now()
            if left is not None and left <= timedelta(0):
                raise WaitTimeout(_waiting(self._words, status, timeout), status=status)
            self._clock.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, _LAST_LOOK)

    def get(self, timeout: float | None = None) -> Any:
        """
        Wait for the run, and give its result: that of its sink; of a mapped one the list by index.

        :param timeout: seconds; None waits for ever.
        :raises WaitTimeout: where it is not over by then; nothing was changed.
        :raises RunFailed: where it failed; names the nodes to blame.
        :raises RunStopped: where it was stopped.
        :raises RunCancelled: where it was cancelled.
        :raises NoResult: where it succeeded, but its sink was skipped.
        """
        status = self.wait(timeout)
        if status.state is None or not status.state.success:
            raise _unsuccessful(self._words, status)
        sink = status.sink or ""
        found = self.results(sink)[sink]
        whole = found if isinstance(found, list) else [found]
        lacking = next((each for each in whole if not each.ok), None)
        if lacking is not None:
            raise NoResult(
                f"{self._words} {status.state}, but {lacking.place}, whose result is the run's, is "
                f"{lacking.state}; results() has what there is"
            )
        return [each.value for each in whole] if isinstance(found, list) else found.value

    # Control

    def pause(
        self,
        node: str | None = None,
        *,
        map_index: int | None = None,
        reason: str | None = None,
        wait: float = 10.0,
    ) -> list[CommandReply]:
        """
        Pause a node, or all unfinished ones.

        :param node: None for all.
        :param map_index: of a mapped node; None for all of its indexes.
        :param reason: kept in the audit trail.
        :param wait: seconds to wait for the processes that have to act, at most 20. What was recorded is
            carried out whether or not anybody waits.
        :returns: one reply for each task; see ``became`` and ``accepted``.
        :raises CommandImpossible: where there is nothing to pause, or the run has not begun.
        """
        return self._control("pause", node, map_index, reason, wait)

    def resume(
        self,
        node: str | None = None,
        *,
        map_index: int | None = None,
        reason: str | None = None,
        wait: float = 10.0,
    ) -> list[CommandReply]:
        """Resume, as :meth:`pause`. A step that has only just parked is woken as soon as that is safe."""
        return self._control("resume", node, map_index, reason, wait)

    def stop(
        self,
        node: str | None = None,
        *,
        map_index: int | None = None,
        reason: str | None = None,
        wait: float = 10.0,
    ) -> list[CommandReply]:
        """Stop, as :meth:`pause`; what the run has done is undone."""
        return self._control("stop", node, map_index, reason, wait)

    def _control(
        self, verb: str, node: str | None, map_index: int | None, reason: str | None, wait: float
    ) -> list[CommandReply]:
        body = {
            "node": node,
            "map_index": map_index,
            "reason": reason,
            "wait_seconds": max(0.0, min(wait, _MOST_WAIT)),
        }
        try:
            replies = self._wire.request(
                "POST",
                f"{self._path}/{verb}",
                body=body,
                # Given twice, the second one would be told that it came too late.
                repeatable=False,
                about=f"{verb} of {self._words}",
            )
        except Refused as refused:
            if refused.status == 409:
                raise CommandImpossible(str(refused), status=409) from None
            raise
        with reading(f"{verb} of {self._words}"):
            return [CommandReply.read(reply) for reply in replies]


def _waiting(words: str, status: RunStatus, timeout: float | None) -> str:
    unfinished = [f"{node.node} {node.state}" for node in status.nodes.values() if not node.state.terminal]
    state = status.state or f"not begun, {status.airflow_state} in Airflow"
    paused = (
        f"; Airflow has paused the Dag: `airflow dags unpause {status.dag_id}`" if status.dag_paused else ""
    )
    nodes = f" ({', '.join(unfinished)})" if unfinished else ""
    return f"{words} is not over after {timeout:g} s: it is {state}{nodes}{paused}; it goes on, ask again"


def _unsuccessful(words: str, status: RunStatus) -> RunUnsuccessful:
    failures: Sequence[Any] = status.failures
    blamed = f": {', '.join(map(str, failures))}" if failures else ""
    if not status.over:
        there, here = status.airflow_state or "deleted", status.state or "unbegun"
        text = f"{words} is over in Airflow ({there}), and was left {here}{blamed}"
        return RunFailed(text, status=status, failures=failures)
    if not failures and status.reason:
        blamed = f": {status.reason}"
    kind = _WORSE.get(status.state or RunState.FAILED, RunFailed)
    return kind(f"{words} ended {status.state}{blamed}", status=status, failures=failures)
