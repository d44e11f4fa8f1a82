"""What the demo expects of each run, what it found, and both as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo_frame import print_table
from demo_story import Run, Story

__all__ = ["as_json", "compensations", "differences", "print_run"]

RESERVE, CHARGE, MAIL = "stock.reserve", "payments.charge", "mail.send"
REFUND, RELEASE = "payments.refund", "stock.release"

UNDOES = {"charge": REFUND, "reserve": RELEASE}
"""What the undo of an effect asks a provider for, by the first part of the effect's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """
    How a run has to end.

    :param done: what the providers really do during the run, in order; each of them once.
    :param compensations: what the undos ask the providers for, in the order in which the ledger has them.
    :param steps: states of the steps that matter.
    :param failure: step and failure kind, where one fails.
    :param decisions: of the requests, in order of asking: who asks, the decision, and whether it was used.
    """

    state: str
    airflow_state: str
    done: tuple[str, ...]
    compensations: tuple[str, ...] = ()
    steps: Mapping[str, str]
    failure: tuple[str, str] | None = None
    decisions: tuple[tuple[str, str, bool], ...]


EXPECTED: Mapping[str, Expected] = {
    "A": Expected(
        state="succeeded",
        airflow_state="success",
        done=(RESERVE, CHARGE, MAIL),
        steps={"reserve_inventory": "succeeded", "charge": "succeeded", "notify": "succeeded"},
        decisions=(("approve_charge", "approved", True),),
    ),
    "B": Expected(
        state="failed_compensated",
        airflow_state="failed",
        done=(RESERVE, CHARGE, REFUND, RELEASE),
        compensations=(REFUND, RELEASE),
        steps={"charge": "succeeded", "notify": "failed"},
        failure=("notify", "exception"),
        decisions=(("approve_charge", "approved", True),),
    ),
    "C": Expected(
        state="failed_compensated",
        airflow_state="failed",
        done=(RESERVE, RELEASE),
        compensations=(RELEASE,),
        steps={"approve_charge": "failed", "charge": "skipped", "notify": "skipped"},
        failure=("approve_charge", "approval_rejected"),
        decisions=(("approve_charge", "rejected", False),),
    ),
    "D": Expected(
        state="failed_compensated",
        airflow_state="failed",
        done=(RESERVE, RELEASE),
        compensations=(RELEASE,),
        steps={"approve_charge": "succeeded", "charge": "failed", "notify": "skipped"},
        failure=("charge", "approval_expired"),
        decisions=(("approve_charge", "approved", False), ("charge", "expired", False)),
    ),
    "E": Expected(
        state="failed",
        airflow_state="failed",
        done=(),
        steps={"reserve_inventory": "succeeded", "charge": "failed", "notify": "skipped"},
        failure=("charge", "effect_conflict"),
        decisions=(("approve_charge", "approved", False),),
    ),
}


def compensations(run: Run) -> list[str]:
    """What was undone according to the ledger, in order, as the request to the provider that undid it."""
    undos = [
        effect
        for effect in run.status.get("effects", ())
        if effect["kind"] == "undo" and effect["state"] == "committed"
    ]
    undos.sort(key=lambda effect: effect["committed_as"])
    # The key of an undo is undo:<key of the effect>#<epoch>.
    return [UNDOES.get(undo["effect"].split(":")[1], undo["effect"]) for undo in undos]


def differences(run: Run) -> list[str]:
    """Where the run is not as described; empty where it is."""
    expected = EXPECTED[run.letter]
    found: list[str] = []

    def same(what: str, seen: Any, wanted: Any) -> None:
        if seen != wanted:
            found.append(f"run {run.letter}: {what} is {seen!r}, expected {wanted!r}")

    if not run.status:
        return [f"run {run.letter}: its end was not seen"]
    steps = {step["step"]: step for step in run.status["steps"]}
    same("its state", run.status["state"], expected.state)
    same("its state in Airflow", run.airflow_state, expected.airflow_state)
    same("exit code of status", run.status_code, 0 if expected.airflow_state == "success" else 3)
    same(
        "what was really done",
        {action: count for action, count in run.counts.items() if count},
        dict.fromkeys(expected.done, 1),
    )
    if run.letter != "E":
        # E is about A's order, whose effects stand before it.
        same("the order of what was done", tuple(run.happened), expected.done)
    same("what was undone", tuple(compensations(run)), expected.compensations)
    for name, state in expected.steps.items():
        same(f"step {name}", steps[name]["state"], state)
    kinds = {name: step["failure_kind"] for name, step in steps.items() if step["failure_kind"]}
    same("what failed", kinds, dict([expected.failure]) if expected.failure else {})
    decisions = tuple(
        (request["asked_by"], request["decision"], request["used_by"] is not None)
        for request in run.status["approvals"]
    )
    same("its approvals", decisions, expected.decisions)
    if run.letter == "A":
        same("tries of the killed step", run.notes.get("reserve_tries"), 2)
        same("attempts of the killed step", steps["reserve_inventory"]["attempt"], 2)
        lost = [row["step"] for row in run.trail if row["trigger"] == "runtime:attempt_lost"]
        same("attempts lost according to the audit trail", lost, ["reserve_inventory"])
        same("the retry returned the recorded result", run.notes.get("recorded_result_returned"), True)
        same("requests to reserve that reached the stock", run.calls.get(RESERVE), 1)
    if run.letter == "D":
        parked = [row["reason"] for row in run.trail if (row["step"], row["to"]) == ("charge", "paused")]
        same("why the charge has parked", [str(why).partition(":")[0] for why in parked], ["approval_stale"])
        same("requests to charge that reached the provider", run.calls.get(CHARGE), 0)
    return found


def print_run(run: Run) -> None:
    """The run's states, effects, approvals and audit trail as tables."""
    print(f"\n=== {run.letter}: {run.title}")
    print(f"run {run.run_id or '(not started)'} of {run.dag_id}, order {run.order_id}")
    if not run.status:
        print("its end was not seen")
        return
    print(f"state {run.status['state']}, in Airflow {run.airflow_state}")
    print(f"the shop's providers did: {', '.join(_done(run.counts)) or 'nothing'}")
    print_table("steps", run.status["steps"], ("step", "state", "attempt", "try_number", "failure_kind"))
    print_table("effects", run.status["effects"], ("effect", "step", "state", "committed_as"))
    print_table(
        "approvals",
        run.status["approvals"],
        ("request", "asked_by", "of", "decision", "decided_by", "used_by"),
    )
    print_table(
        "audit trail",
        run.trail,
        ("at", "step", "from", "to", "trigger", "actor", "attempt", "source", "reason"),
    )


def _done(counts: Mapping[str, int]) -> list[str]:
    return [f"{action} {count}x" for action, count in counts.items() if count]


def as_json(story: Story, problems: list[str]) -> dict[str, Any]:
    """The demo's last line."""
    return {
        "ok": not problems,
        "runs": [
            {
                "name": run.letter,
                "dag_id": run.dag_id,
                "run_id": run.run_id,
                "order_id": run.order_id,
                "state": run.status.get("state"),
                "airflow_state": run.airflow_state or None,
                "counts": run.counts,
                "compensations": compensations(run),
            }
            for run in story.runs
        ],
        "resubmission": story.resubmission,
        "problems": problems,
    }
