"""
Every combination of join, aggregation and ``on_failure`` over how an upstream ended: what comes of it.

Computed by :func:`louver.evaluation.evaluate` alone. The page in the docs is written from it, the embedded
engine and a real Airflow are held to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import product
from uuid import uuid4

from louver.context import TaskContext
from louver.definition import Definition, Step
from louver.evaluation import evaluate
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.states import RunState, Source, TaskState

__all__ = [
    "AGGREGATIONS",
    "ENDS",
    "JOINS",
    "ON_FAILURE",
    "Case",
    "cases",
    "end_as",
    "rules_workflow",
    "table",
    "workflow_name",
]

S = TaskState

ENDS = (S.SUCCEEDED, S.FAILED, S.SKIPPED, S.CANCELLED, S.STOPPED)
"""How ``odd`` ends."""

JOINS = {"all": "all_succeeded", "settled": "all_settled", "any": "any_succeeded"}
"""Node to its join; behind each stands one more step, as ``after_all``."""

AGGREGATIONS = ("skip_downstream", "fail_fast")
ON_FAILURE = ("fail", "continue")

_COLOURS = {S.SUCCEEDED: "success", S.FAILED: "failed", S.STOPPED: "failed"}


def workflow_name(aggregation: str, on_failure: str) -> str:
    """What the workflow of these rules is called."""
    return f"rules_{aggregation}_{on_failure}"


def rules_workflow(aggregation: str, on_failure: str) -> Definition:
    """``good`` succeeds, then ``odd`` ends as it is told; three joins wait for both."""
    joins = [
        Step(name=name, task="rules:join", deps={"one": "good", "two": "odd"}, join=join)
        for name, join in JOINS.items()
    ]
    behind = [Step(name=f"after_{name}", task="rules:after", deps={"given": name}) for name in JOINS]
    return Definition(
        name=workflow_name(aggregation, on_failure),
        version="1.0.0",
        aggregation=aggregation,
        params=["end"],
        nodes=[
            Step(name="good", task="rules:good"),
            Step(name="odd", task="rules:odd", after=["good"], params={"end": "end"}, on_failure=on_failure),
            *joins,
            *behind,
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One row.

    :param end: how ``odd`` ends.
    :param states: of all nodes at last.
    :param colours: Airflow's, of the same.
    """

    aggregation: str
    on_failure: str
    end: TaskState
    states: Mapping[str, TaskState]
    colours: Mapping[str, str]
    run: RunState

    @property
    def workflow(self) -> str:
        return workflow_name(self.aggregation, self.on_failure)

    @property
    def run_colour(self) -> str:
        return "success" if self.run.success else "failed"


def cases() -> Iterator[Case]:
    """All of them."""
    for aggregation, on_failure, end in product(AGGREGATIONS, ON_FAILURE, ENDS):
        definition = rules_workflow(aggregation, on_failure)
        states: dict[str, TaskState] = {"good": S.SUCCEEDED, "odd": end}
        while ready := evaluate(definition, states).ready:
            states.update(dict.fromkeys(ready, S.SUCCEEDED))
        seen = evaluate(definition, states)
        yield Case(
            aggregation=aggregation,
            on_failure=on_failure,
            end=end,
            states=seen.states,
            colours=_colours(definition, seen.states),
            run=seen.forward,
        )


def _colours(definition: Definition, states: Mapping[str, TaskState]) -> dict[str, str]:
    colours: dict[str, str] = {}
    for node in definition.nodes:
        state = states[node.name]
        upstream = {colours[name] for name in node.upstream}
        # Airflow's own rule skips a step with all_success; with the other joins its process says so itself.
        failed = node.join == "all_succeeded" and upstream & {"failed", "upstream_failed"}
        colours[node.name] = "upstream_failed" if failed else _COLOURS.get(state, "skipped")
    return colours


def table() -> str:
    """The rows as Markdown."""
    lines = [
        "| aggregation | `on_failure` of `odd` | `odd` ends | join `all_succeeded` | join `all_settled` "
        "| join `any_succeeded` | the run | Dag run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases():
        joins = [f"{case.states[name]} ({case.colours[name]})" for name in JOINS]
        cells = [case.aggregation, case.on_failure, case.end, *joins, case.run, case.run_colour]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def end_as(ctx: TaskContext, end: str, ledger: Ledger) -> None:
    """End as told: by itself, or by a command as others would send it."""
    if end == "failed":
        raise RuntimeError
    if end == "skipped":
        ctx.skip("told to")
    verb = {"stopped": Verb.STOP, "cancelled": Verb.CANCEL}.get(end)
    if verb is not None:
        key = TaskKey(ctx.dag_id, ctx.run_id, ctx.name, ctx.map_index)
        request = CommandRequest(
            command_id=uuid4().hex, task=key, verb=verb, actor="rules", reason=None, source=Source.API
        )
        ledger.send_command(request, now=datetime.now(timezone.utc))
        while True:
            ctx.checkpoint()
