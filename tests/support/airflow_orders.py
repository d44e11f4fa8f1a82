"""Order events, and their runs on a real Airflow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_rest import FINISHED

from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.requests import RunFilter
from louver_provider.cli.views import history_rows, run_view

if TYPE_CHECKING:
    from airflow_home import AirflowHome, CliResult

__all__ = ["ORDER", "Orders"]

ORDER = "order_workflow"
_RUN_SECONDS = 120.0


class Orders:
    """
    Order events, and their runs on the shared Airflow.

    :param home: the Airflow.
    :param folder: for event files.
    """

    def __init__(self, home: AirflowHome, folder: Path) -> None:
        self.home = home
        self.rest = home.rest
        self._folder = folder

    def event(self, name: str, *, source: str = "https://shop.example.com", **data: Any) -> dict[str, Any]:
        """An order event: of one blue mug, unless ``data`` says otherwise."""
        order_id = f"order-{name}"
        return {
            "specversion": "1.0",
            "id": f"{name}",
            "source": source,
            "type": "com.louver.order.submitted.v1",
            "subject": order_id,
            "data": {
                "order_id": order_id,
                "customer_id": "customer-1",
                "currency": "EUR",
                "amount": "14.95",
                "items": [{"sku": "mug-blue", "quantity": 1}],
                **data,
            },
        }

    def submit(self, event: dict[str, Any]) -> CliResult:
        """``airflow louver submit``, with the event in a file."""
        return self.home.cli(*self._submission(event))

    def submit_all(self, events: Iterable[dict[str, Any]]) -> list[str]:
        """Submit events that have to be accepted, in one process; returns the ids of their runs."""
        results = list(self.home.commands(self._submission(event) for event in events))
        assert {result.code for result in results} == {0}, results
        return [str(result.json()[0]["run_id"]) for result in results]

    def _submission(self, event: dict[str, Any]) -> list[str]:
        path = self._folder / f"{uuid4().hex}.json"
        path.write_text(json.dumps(event))
        return ["louver", "submit", ORDER, "--event", str(path), "--output", "json"]

    def parked(self, run_id: str, task_id: str = "approve_charge") -> dict[str, Any]:
        """Wait until the task waits for a person; returns what it asks."""

        def waits() -> bool:
            states = self.rest.task_states(ORDER, run_id)
            assert states.get("outcome") not in FINISHED, f"the run is over: {states}"
            return states.get(task_id) == "awaiting_input"

        self.home.wait_for(f"{task_id} of {run_id} to ask", waits, timeout=_RUN_SECONDS)
        question = self.rest.question(ORDER, run_id, task_id)
        assert question is not None
        return question

    def answered(self, run_id: str, option: str, task_id: str = "approve_charge") -> None:
        """Wait until the task asks, and answer."""
        self.parked(run_id, task_id)
        self.rest.answer(ORDER, run_id, task_id, option).expect(200)

    def ended(self, run_id: str, dag_id: str = ORDER) -> str:
        """Wait until the run is over; returns its state in Airflow."""

        def over() -> str | None:
            state = self.rest.run_state(dag_id, run_id)
            return state if state in FINISHED else None

        return str(self.home.wait_for(f"the end of {run_id}", over, timeout=_RUN_SECONDS))

    def status(self, run_id: str) -> dict[str, Any]:
        """What ``airflow louver status`` shows of the run, without the seconds that a command takes."""
        with self._ledger() as ledger:
            (run,) = ledger.list_runs(RunFilter(run_id=run_id))
            _, tables = run_view(ledger, run)
        return tables.pop("run")[0] | tables

    def history(self, run_id: str, task_id: str | None = None) -> list[dict[str, Any]]:
        """What ``airflow louver history`` shows, likewise."""
        with self._ledger() as ledger:
            (run,) = ledger.list_runs(RunFilter(run_id=run_id))
            return history_rows(ledger.list_transitions(run.key, task_id=task_id))

    def _ledger(self) -> Ledger:
        key = (self.home.path / "louver_signing_key").read_text().strip()
        return open_ledger(self.home.ledger_url, key)

    def steps(self, run_id: str) -> dict[str, dict[str, Any]]:
        """The steps of :meth:`status`, by name."""
        return {step["step"]: step for step in self.status(run_id)["steps"]}

    def effects(self, run_id: str) -> dict[str, str]:
        """State by reference, of :meth:`status`."""
        return {effect["effect"]: effect["state"] for effect in self.status(run_id)["effects"]}
