"""
Runs whose histories are kept in ``tests/data/histories``, to be replayed by every later release (row O14).

A recording is never made again for its own sake: what an earlier release wrote is what is tested. For a new
story, or a new release, record beside what is there::

    PYTHONPATH=include:tests python -m support.recordings DIRECTORY [STORY ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from louver import __version__
from louver.approvals import Answer
from louver.clock import FixedClock
from louver.compensation import Undo
from louver.context import TaskContext
from louver.control import send
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import RunResult, run_inline
from louver.exports import export_run
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey, TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.policies import RetryPolicy
from louver.pseudonyms import anonymised
from louver.states import Source

__all__ = ["STORIES", "record"]

TWICE = RetryPolicy(max_attempts=2, delay=timedelta(seconds=5))


class _Ticking(FixedClock):
    """Every look at it takes a millisecond."""

    def now(self) -> datetime:
        self.sleep(timedelta(milliseconds=1))
        return super().now()


class _Stage:
    """One run, in a ledger and by a clock of its own."""

    def __init__(self, definition: Definition, ledger: Ledger) -> None:
        self.definition = definition
        self.ledger = ledger
        self.clock = _Ticking(datetime(2026, 3, 1, 12, tzinfo=timezone.utc))
        self.run = RunKey(definition.name, "order 4711 of Ms Example")
        self.failures = 0

    def go(self) -> RunResult:
        return run_inline(
            self.definition,
            {name: self.act for name in self.definition.names if name not in OWN},
            ledger=self.ledger,
            clock=self.clock,
            run_id=self.run.run_id,
            requester="carl@example.com",
        )

    def act(self, ctx: TaskContext) -> Any:
        """What steps do here, by their names."""
        name = ctx.name
        if name.startswith("pay"):
            ctx.effect(
                name,
                intent={"cents": 4200},
                perform=lambda key: f"receipt {key}",
                compensate=give_back,
                key="card 1234",
                **({"approval": "ask"} if name == "pay_approved" else {}),
            )
        if name.startswith("fail") or (name.startswith("flaky") and ctx.attempt < 2):
            raise RuntimeError(f"{name} of customer Example failed")
        if name.startswith("pause") and self.failures == 0:
            self.failures = 1
            self.send(name, Verb.PAUSE)
            self.clock.sleep(timedelta(seconds=5))
            ctx.checkpoint({"at": 1})
        return [1, 2, 3] if name == "list" else "left" if name == "branch" else {"customer": "Example"}

    def send(self, task: str, verb: Verb) -> None:
        request = CommandRequest(
            command_id=f"command {verb} of ann",
            task=TaskKey(self.run.dag_id, self.run.run_id, task),
            verb=verb,
            actor="ann@example.com",
            reason="the customer called",
            source=Source.CLI,
        )
        send(self.ledger, request, now=self.clock.now())

    def answer(self, result: RunResult, decision: Decision) -> None:
        (asked,) = result.waiting
        answer = Answer(decision=decision, by="bob@example.com")
        self.ledger.decide_approval(asked.request_id, answer, now=self.clock.now())


def give_back(undo: Undo) -> None:
    """Undo a payment."""


def intent() -> dict[str, int]:
    """What is to be approved."""
    return {"cents": 4200}


def item(row: int) -> int:
    """One index of a mapped step."""
    return row * 2


def total(rows: list[int]) -> int:
    """All indexes of a mapped step."""
    return sum(rows)


OWN = {"ask": intent, "each": item, "all": total}
"""Nodes with a function that is found by import."""


def _step(name: str, *after: str, **given: Any) -> Step:
    return Step(
        name=name, task=f"support.recordings:{getattr(OWN.get(name), '__name__', name)}", after=after, **given
    )


def _work(*nodes: Step | ApprovalNode, version: str = "1.0.0", **given: Any) -> Definition:
    return Definition(name="recorded", version=version, nodes=nodes, **given)


_ASK = ApprovalNode(
    name="ask",
    of="pay_approved",
    payload="support.recordings:intent",
    after=["load"],
    approvers=["bob@example.com"],
    four_eyes=True,
)
_APPROVED = (_step("load"), _ASK, _step("pay_approved", "ask", approval="ask"), _step("tell", "pay_approved"))


def succeeded(ledger: Ledger) -> _Stage:
    """Two branches that meet, and an effect."""
    stage = _Stage(
        _work(_step("load"), _step("pay", "load"), _step("count", "load"), _step("tell", "pay", "count")),
        ledger,
    )
    stage.go()
    return stage


def retried(ledger: Ledger) -> _Stage:
    """A step that needs two attempts."""
    stage = _Stage(_work(_step("load"), _step("flaky", "load", retry=TWICE), _step("tell", "flaky")), ledger)
    stage.go()
    return stage


def failed_compensated(ledger: Ledger) -> _Stage:
    """A payment that is given back, since what comes behind it failed."""
    stage = _Stage(
        _work(_step("load"), _step("pay", "load"), _step("fail", "pay", retry=TWICE), _step("tell", "fail")),
        ledger,
    )
    stage.go()
    return stage


def continued(ledger: Ledger) -> _Stage:
    """A failure that is no failure of the run, and a join that goes on whatever came out."""
    stage = _Stage(
        _work(
            _step("load"),
            _step("fail", "load", on_failure="continue"),
            _step("skipped", "fail"),
            _step("clean", "fail", "load", join="all_settled"),
        ),
        ledger,
    )
    stage.go()
    return stage


def failed_fast(ledger: Ledger) -> _Stage:
    """A failure that cancels what has not begun."""
    stage = _Stage(
        _work(
            _step("load"),
            _step("fail", "load"),
            _step("other", "load"),
            _step("more", "other"),
            aggregation="fail_fast",
        ),
        ledger,
    )
    stage.go()
    return stage


def mapped(ledger: Ledger) -> _Stage:
    """A step for each item of a list, and one for all of them; a branch behind it."""
    stage = _Stage(
        _work(
            _step("list"),
            _step("each", over={"row": "list"}),
            _step("all", deps={"rows": "each"}),
            _step("branch", "all", branch=True),
            _step("left", "branch"),
            _step("right", "branch"),
        ),
        ledger,
    )
    stage.go()
    return stage


def paused_and_resumed(ledger: Ledger) -> _Stage:
    """A step that a person pauses at a checkpoint and has go on."""
    stage = _Stage(_work(_step("load"), _step("pause", "load"), _step("tell", "pause")), ledger)
    stage.go()
    stage.clock.sleep(timedelta(minutes=10))
    stage.send("pause", Verb.RESUME)
    stage.go()
    return stage


def stopped(ledger: Ledger) -> _Stage:
    """A paid run that a person stops."""
    stage = _Stage(_work(_step("pay"), _step("pause", "pay"), _step("tell", "pause")), ledger)
    stage.go()
    stage.send("pause", Verb.STOP)
    stage.go()
    return stage


def approved(ledger: Ledger) -> _Stage:
    """A payment that somebody has to allow, and does."""
    stage = _Stage(_work(*_APPROVED), ledger)
    stage.answer(stage.go(), Decision.APPROVED)
    stage.go()
    return stage


def rejected(ledger: Ledger) -> _Stage:
    """A payment that somebody has to allow, and does not."""
    stage = _Stage(_work(*_APPROVED), ledger)
    stage.answer(stage.go(), Decision.REJECTED)
    stage.go()
    return stage


def waiting(ledger: Ledger) -> _Stage:
    """A run that is not over."""
    stage = _Stage(_work(*_APPROVED), ledger)
    stage.go()
    return stage


def accepted(ledger: Ledger) -> _Stage:
    """A run that goes on under a later version, under which people are asked once more."""
    stage = _Stage(_work(*_APPROVED), ledger)
    stage.answer(stage.go(), Decision.APPROVED)
    stage.definition = replace(
        stage.definition,
        version="1.1.0",
        nodes=[*_APPROVED, _step("report", "tell")],
        on_change="accept_compatible",
    )
    stage.answer(stage.go(), Decision.APPROVED)
    stage.go()
    return stage


STORIES: dict[str, Callable[[Ledger], _Stage]] = {
    story.__name__: story
    for story in (
        *(succeeded, retried, failed_compensated, continued, failed_fast, mapped, paused_and_resumed),
        *(stopped, approved, rejected, waiting, accepted),
    )
}
"""What can be recorded in this process, by name."""


def record(story: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The history of a story, as it is and anonymised."""
    with open_ledger("memory://") as ledger:
        stage = STORIES[story](ledger)
        document = export_run(stage.run, ledger)
    return document, anonymised(document)


def main(directory: str, *wanted: str) -> None:
    """Write the histories of the stories, all of them by default; one that is there is left alone."""
    for story in wanted or STORIES:
        path = Path(directory) / f"{__version__}_{story}.json"
        if not path.exists():
            text = json.dumps(record(story)[1], indent=1, sort_keys=True, ensure_ascii=False)
            path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    # By its own name: what undoes an effect is found by import.
    from support import recordings

    recordings.main(*sys.argv[1:])
