"""
Ledgers with a past: runs of every fate, written by the ledger's own operations.

Everything is named anew in each, so that several lie in one ledger.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from louver.canonical import fingerprint
from louver.cloudevents import OrderProfile
from louver.definition import Definition
from louver.intake import Intake
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.records import EventRecord, RunRecord
from louver.ledger.requests import RunStart
from louver.sessions import Change
from louver.states import RunState, Source, TaskState
from louver.testing.scene import ERROR, FAILED, LAUNCHED, RESUMED, Scene

__all__ = ["FATES", "KEYS", "History", "definition"]

KEYS = {"k2": b"fedcba9876543210", "k1": b"0123456789abcdef"}
"""Signing keys, the newest first."""

_EVENT = Path(__file__).resolve().parents[2] / "dags" / "examples" / "order_event.json"

SKIP = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="ann", reason="not needed")


def definition(version: str = "1", *, name: str = "story") -> Definition:
    """Look, then act."""
    return Definition.from_json(
        json.dumps(
            {
                "louver": 1,
                "name": name,
                "version": version,
                "steps": [
                    {"name": "look", "task": "story:look"},
                    {"name": "act", "task": "story:act", "deps": {"seen": "look"}},
                ],
            }
        )
    )


class History(Scene):
    """
    One run and what becomes of it.

    :param ledger: to write into.
    :param run_id: of the run; its Dag is one of its own.
    :param now: when it begins.
    """

    def __init__(
        self, ledger: Ledger, *, run_id: str = "run-1", version: str = "1", now: datetime | None = None
    ) -> None:
        super().__init__(name="history", open_ledger=lambda: ledger)
        self.definition = definition(version)
        self.run = RunKey(f"dag-{self.id[:8]}", run_id)
        if now is not None:
            self.now = now

    def start(self, **changes: Any) -> RunStart:
        """What the run begins with: a definition that can be read again."""
        start = replace(
            super().start(),
            definition_name=self.definition.name,
            definition_version=self.definition.version,
            definition_fingerprint=self.definition.fingerprint,
            definition=self.definition.to_json(),
        )
        return replace(start, **changes)

    def end(self, state: RunState = RunState.SUCCEEDED, *, reason: str | None = None) -> RunRecord:
        """Close the run."""
        self.ledger.set_run_state(self.run, state, reason=reason, now=self.tick())
        return self.found(self.ledger.get_run(self.run), "the run")

    def event(self) -> EventRecord:
        """Take in an event that starts the run."""
        body = json.loads(_EVENT.read_text())
        body["id"] = self.id
        intake = Intake(dag_id=self.run.dag_id, profile=OrderProfile)
        _, record = intake.submit(self.ledger, json.dumps(body).encode(), now=self.tick())
        self.run = RunKey(self.run.dag_id, record.run_id)
        return record

    # Fates

    def succeeded(self) -> History:
        """Looked, was approved, acted under both scopes, in two mapped tasks too; an event began it."""
        event = self.event()
        self.ledger.save_checkpoint(self.launch("each", map_index=0), "state", [1, 2], now=self.tick())
        self.ledger.confirm_event(event, now=self.tick())
        self.succeed("each", {"index": 1}, map_index=1)
        self.succeed("each", {"index": 0}, map_index=0, try_number=2)
        self.succeed("look", {"price": 5})
        approval = self.approved()
        asking = self.open(approval.task_id, nonce="nonce-1").token
        self.ledger.advance(asking, RESUMED, now=self.tick())
        self.complete(asking, None)
        token = self.launch("act")
        self.ledger.save_checkpoint(token, "state", {"page": 3}, now=self.tick())
        self.committed(token, "pay", guarded_by="act")
        self.committed(token, "note", scope=f"run:{self.run.dag_id}:{self.run.run_id}", intent=["note"])
        again = self.launch("act", try_number=2)
        self.committed(again, "mail", intent="mail")
        self.complete(again, {"paid": True})
        self.end()
        return self

    def complete(self, token: Any, result: Any) -> None:
        """Commit the task's result."""
        done = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
        self.ledger.complete(token, done, result, now=self.tick())

    def compensated(self) -> History:
        """Acted, failed, and undid what it had done; one effect was proven not to have happened."""
        self.succeed("look", 1)
        token = self.launch("act")
        self.committed(token, "pay")
        self.committed(token, "ship", intent={"order": 7})
        failed = self.started(token, "call", intent={"number": 1})
        self.ledger.fail_effect(token, failed, reason="it did not answer", now=self.tick())
        self.ledger.advance(token, FAILED, now=self.tick())
        closing = self.launch("compensate")
        for key in ("ship", "pay"):
            effect = self.found(
                self.ledger.get_effect(f"dag:{self.run.dag_id}", key), "the effect that is undone"
            )
            undo = self.undo_of(effect)
            undo = replace(undo, intent=key, intent_hash=fingerprint(key))
            begun = self.ledger.begin_effect(closing, undo, now=self.tick())
            self.ledger.commit_effect(closing, begun.record, None, now=self.tick())
        self.complete(closing, {"undone": 2})
        self.end(RunState.FAILED_COMPENSATED, reason="act failed")
        return self

    def given_up(self) -> History:
        """An effect whose undo failed: a person has to see to it."""
        self.succeed("look", 1)
        token = self.launch("act")
        self.committed(token, "pay")
        self.ledger.advance(token, FAILED, now=self.tick())
        closing = self.launch("compensate")
        effect = self.found(self.ledger.get_effect(f"dag:{self.run.dag_id}", "pay"), "the effect")
        self.ledger.give_up_undo(closing, effect, reason="nobody knows how", now=self.tick())
        self.ledger.advance(closing, FAILED, now=self.tick())
        self.end(RunState.COMPENSATION_FAILED, reason="act failed")
        return self

    def unfinished(self) -> History:
        """Still at it: a step waits for its next try, one for an answer; an effect is unknown, one begun."""
        self.succeed("look", [1, (2, 3)])
        token = self.launch("act")
        self.committed(token, "pay")
        self.lost(token, "call", intent="call")
        self.ledger.save_checkpoint(token, "state", {"page": 1}, now=self.tick())
        self.ledger.advance(token, ERROR, now=self.tick())
        self.started(self.launch("other"), "ship", intent="ship")
        self.ask(self.launch("approve"))
        return self

    def cleared(self) -> History:
        """Ended, and a step of it was cleared and run again since."""
        self.succeed("look", 1)
        self.succeed("act", 2)
        self.end()
        self.succeed("act", 3, try_number=2, max_tries=5)
        return self

    def reopened(self) -> History:
        """Ended, cleared, and ended again."""
        self.cleared()
        self.end(RunState.SUCCEEDED)
        return self

    def marked(self) -> History:
        """Ended, and a person marked a step of it afterwards."""
        self.succeed("look", 1)
        token = self.launch("act")
        self.ledger.advance(token, FAILED, now=self.tick())
        self.end(RunState.FAILED, reason="act failed")
        done = replace(SKIP, to=TaskState.SUCCEEDED)
        self.ledger.mark(token.key, done, session=token.session, source=Source.API, now=self.tick())
        return self

    def made_again(self) -> History:
        """Ended, deleted, and made again under its id with another definition; at work."""
        self.succeed("look", 1)
        self.committed(self.launch("act"), "pay")
        self.succeed("act", 2, try_number=2)
        self.end()
        self.definition = definition("2")
        self.begin(marker="another")
        self.ledger.advance(self.open("look").token, LAUNCHED, now=self.tick())
        return self


FATES: dict[str, Callable[[History], History]] = {
    fate.__name__: fate
    for fate in (
        History.succeeded,
        History.compensated,
        History.given_up,
        History.unfinished,
        History.cleared,
        History.reopened,
        History.marked,
        History.made_again,
    )
}
"""What may become of a run."""
