"""What happens in the demo: five runs, a killed process, a restart, answers and refusals."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_home import ROOT, AirflowHome, CliResult
from airflow_rest import FINISHED

from shop import faults, prices, report

__all__ = ["DAGS", "Run", "Story", "add_short_definition"]

ORDER = "order_workflow"
SHORT = "order_workflow_short"
DAGS = (ORDER, SHORT)

SHORT_EXPIRY_SECONDS = 60
"""Long enough for a slow machine to answer the first request, short enough to see the second one expire."""

SOURCE = "https://shop.example.com/demo"


@dataclass(slots=True, kw_only=True)
class Run:
    """
    One run of the demo and what was found out about it.

    :param before: what the providers had done for its order before it began.
    :param status: as ``airflow louver status --output json`` prints it; the run with its tables.
    :param trail: as ``airflow louver history --output json`` prints it.
    :param counts: what the providers really did during the run.
    :param calls: requests that reached the providers, over the order's whole life.
    :param happened: the order's real effects, as they came.
    :param notes: what else was seen.
    """

    letter: str
    title: str
    dag_id: str
    event: dict[str, Any]
    run_id: str = ""
    before: dict[str, int] = field(default_factory=dict)
    airflow_state: str = ""
    status_code: int | None = None
    status: dict[str, Any] = field(default_factory=dict)
    trail: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    happened: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def order_id(self) -> str:
        """The order it is about."""
        return str(self.event["data"]["order_id"])


def add_short_definition(folder: Path) -> None:
    """The shipped definition under another name, with approvals that expire soon; run D waits for one to."""
    definition = json.loads((ROOT / "dags" / "order.json").read_text())
    definition["name"] = SHORT
    for step in definition["steps"]:
        if "approve" in step:
            step["approve"]["expires_after_seconds"] = SHORT_EXPIRY_SECONDS
    (folder / f"{SHORT}.json").write_text(json.dumps(definition, indent=2))
    (folder / f"{SHORT}.py").write_text(
        f'"""An Airflow Dag of the demo: {ORDER} with approvals that expire soon."""\n\n'
        "from pathlib import Path\n\n"
        "from louver_provider.dag_builder import dag_from_file\n\n"
        f'dag = dag_from_file(Path(__file__).with_name("{SHORT}.json"))\n'
    )


class Story:
    """
    The demo's plot.

    :param home: an Airflow that runs.
    :param say: prints progress.
    """

    def __init__(self, home: AirflowHome, say: Callable[[str], None]) -> None:
        self._home = home
        self._say = say
        self.runs: list[Run] = []
        self.problems: list[str] = []
        self.resubmission: dict[str, Any] = {}
        self._token = secrets.token_hex(3)

    def tell(self) -> None:
        """Let it happen."""
        a = self._new("A", "killed, parked, restarted, approved", sku="teapot", quantity=1, amount="100.00")
        b = self._new("B", "the mail fails for good", sku="mug-blue", quantity=2, amount="29.90")
        c = self._new("C", "the approval is rejected", sku="mug-blue", quantity=1, amount="14.95")
        d = self._new(
            "D",
            "the price changes after the approval",
            sku="notebook",
            quantity=2,
            amount="15.00",
            dag_id=SHORT,
        )
        faults.kill_after_effect("reserve_inventory", order_id=a.order_id)
        faults.tell("mail.send", "fail_for_good", order_id=b.order_id)
        faults.hold("charge", order_id=d.order_id)
        self._say("submitting four orders by `airflow louver submit`")
        with self._submitting([d, a, b, c]):
            # D's requests are short-lived, so it is answered while the others are still on their way.
            self._change_the_price(d)
        self._answer(b, "approve_charge", "Approve")
        self._answer(c, "approve_charge", "Reject")
        self._park_after_kill(a)
        self._await_new_question(d)
        self._await_end(c)
        self._await_end(b)
        self._say("stopping Airflow, with A and D parked")
        self._home.restart(dags=DAGS)
        self._answer(a, "approve_charge", "Approve")
        self._await_end(a)
        e = self._another_amount_under_the_same_key(a)
        with self._submitting([e]):
            self._submit_again(a)
        self._answer(e, "approve_charge", "Approve")
        self._await_end(e)
        self._say("D: waiting until its second request expires")
        self._await_end(d, timeout=SHORT_EXPIRY_SECONDS + 90.0)
        self._read_ledger()

    # Submitting

    def _new(
        self, letter: str, title: str, *, sku: str, quantity: int, amount: str, dag_id: str = ORDER
    ) -> Run:
        order_id = f"order-{self._token}-{letter.lower()}"
        data = {
            "order_id": order_id,
            "customer_id": f"customer-{self._token}",
            "currency": prices.CURRENCY,
            "amount": amount,
            "items": [{"sku": sku, "quantity": quantity}],
        }
        run = Run(letter=letter, title=title, dag_id=dag_id, event=_event(f"{self._token}-{letter}", data))
        self.runs.append(run)
        return run

    @contextmanager
    def _submitting(self, runs: list[Run]) -> Iterator[None]:
        """Submitted, the first of them before the block, the others before its end."""
        for run in runs:
            run.before = report.counts(run.order_id)
        results = self._hand_in([(run.dag_id, run.event) for run in runs])
        submitted = (self._accepted(run, done) for run, done in zip(runs, results, strict=True))
        next(submitted)
        yield
        for _ in submitted:
            pass

    def _accepted(self, run: Run, done: CliResult) -> None:
        if done.code != 0:
            raise ValueError(f"submitting the event of run {run.letter} failed: {done.stderr.strip()}")
        run.run_id = done.json()[0]["run_id"]
        self._say(f"{run.letter}: run {run.run_id} for {run.order_id}, {run.title}")

    def _hand_in(self, events: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[CliResult]:
        commands = []
        for dag_id, event in events:
            file = self._home.path / f"event-{secrets.token_hex(4)}.json"
            file.write_text(json.dumps(event))
            commands.append(["louver", "submit", dag_id, "--event", str(file), "--output", "json"])
        return self._home.commands(commands)

    def _submit_again(self, run: Run) -> None:
        """The same event, and the same identity with another amount."""
        self._say("submitting A's event again, and the same identity with another amount")
        changed = {**run.event, "data": {**run.event["data"], "amount": "99.00"}}
        again, conflict = self._hand_in([(run.dag_id, run.event), (run.dag_id, changed)])
        answer = again.json()[0] if again.code == 0 else {}
        matching = [run_id for run_id in self._home.rest.run_ids(run.dag_id) if run_id == run.run_id]
        self.resubmission = {
            "same_event": {"code": again.code, "run_id": answer.get("run_id"), "runs": len(matching)},
            "same_identity_other_amount": {"code": conflict.code, "refusal": conflict.stderr.strip()},
        }
        self._expect(answer.get("run_id") == run.run_id, "the same event again names the same run")
        self._expect(answer.get("outcome") == "duplicate", "the same event again is called a duplicate")
        self._expect(len(matching) == 1, "the same event again starts no second run")
        self._expect(conflict.code == 1, "the same identity with another amount is refused, exit code 1")
        self._expect(run.run_id in conflict.stderr, "that refusal names the run it conflicts with")
        self._say(f"   same event: {answer.get('outcome')}, run {answer.get('run_id')}")
        self._say(f"   other amount: {conflict.stderr.strip()}")

    # The plot of single runs

    def _park_after_kill(self, run: Run) -> None:
        """A: the task process was killed after its effect; the retry went on, and the run is parked."""
        self._await_question(run, "approve_charge")
        task = self._home.rest.task(run.dag_id, run.run_id, "reserve_inventory")
        run.notes["reserve_tries"] = task["try_number"]
        log = self._home.rest.log(run.dag_id, run.run_id, "reserve_inventory", task["try_number"])
        run.notes["recorded_result_returned"] = "[effect.recorded]" in log
        self._say(f"{run.letter}: reserve_inventory was killed; try {task['try_number']} went on; now parked")

    def _change_the_price(self, run: Run) -> None:
        """D: approved, and another price before the charge looks."""
        self._answer(run, "approve_charge", "Approve")
        self._await_task(run, "charge", "running")
        prices.set_price("notebook", "8.00")
        self._say(f"{run.letter}: approved; the notebook costs more now; the charge goes on")
        faults.release("charge", order_id=run.order_id)

    def _await_new_question(self, run: Run) -> None:
        self._await_question(run, "charge")
        self._say(f"{run.letter}: the charge was refused as stale and has asked anew")

    def _another_amount_under_the_same_key(self, first: Run) -> Run:
        """E: another event for A's order, at a new price; the key of its charge is in use with the old."""
        prices.set_price("teapot", "110.00")
        data = {**first.event["data"], "amount": "110.00"}
        run = Run(
            letter="E",
            title="another amount under the effect key of A's charge",
            dag_id=first.dag_id,
            event=_event(f"{self._token}-E", data),
        )
        self.runs.append(run)
        return run

    # Waiting and answering

    def _answer(self, run: Run, task_id: str, option: str) -> None:
        self._await_question(run, task_id)
        said = self._home.rest.answer(run.dag_id, run.run_id, task_id, option)
        said.expect(200)
        self._say(f"{run.letter}: answered {option} over REST, as {said.body['responded_by']['name']}")

    def _await_question(self, run: Run, task_id: str) -> None:
        self._await_task(run, task_id, "awaiting_input")

    def _await_task(self, run: Run, task_id: str, state: str) -> None:
        place = f"{run.letter}: {task_id} to be {state}"
        self._say(f"{run.letter}: waiting for {task_id} to be {state}")

        def reached() -> bool:
            states = self._home.rest.task_states(run.dag_id, run.run_id)
            ended = states.get("outcome") in FINISHED and states.get(task_id) != state
            if ended:
                raise ValueError(f"run {run.letter} ended, with {task_id} {states.get(task_id)}, not {state}")
            return states.get(task_id) == state

        self._home.wait_for(place, reached)

    def _await_end(self, run: Run, *, timeout: float = 90.0) -> None:
        self._say(f"{run.letter}: waiting for the end of the run")
        rest = self._home.rest

        def over() -> str | None:
            state = rest.run_state(run.dag_id, run.run_id)
            return state if state in FINISHED else None

        run.airflow_state = self._home.wait_for(f"the end of run {run.letter}", over, timeout=timeout)
        run.happened = report.sequence(run.order_id)
        run.calls = report.calls(run.order_id)
        now = report.counts(run.order_id)
        run.counts = {action: now[action] - run.before[action] for action in now}
        self._say(f"{run.letter}: over, {run.airflow_state} in Airflow")

    def _read_ledger(self) -> None:
        self._say("reading states and audit trails by `airflow louver status` and `history`")
        commands = [
            ["louver", command, run.run_id, "--dag-id", run.dag_id, "--output", "json"]
            for run in self.runs
            for command in ("status", "history")
        ]
        results = self._home.commands(commands)
        for run, status, trail in zip(self.runs, results, results, strict=True):
            run.status_code = status.code
            (run.status,) = status.json()
            run.trail = trail.json()

    def _expect(self, truth: bool, words: str) -> None:
        if not truth:
            self.problems.append(f"not so: {words}")


def _event(identity: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": identity,
        "source": SOURCE,
        "type": "com.louver.order.submitted.v1",
        "subject": data["order_id"],
        "datacontenttype": "application/json",
        "data": data,
    }
