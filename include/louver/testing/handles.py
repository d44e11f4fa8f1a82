"""Closing a handle."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from louver.approvals import Answer
from louver.errors import LedgerClosed
from louver.ledger.names import Decision
from louver.ledger.requests import RunFilter
from louver.semaphores import PermitTerms
from louver.testing.scene import LAUNCHED, Scene, check

__all__ = ["check_close_makes_use_afterwards_a_clear_error", "check_close_twice_is_fine"]


@check
def check_close_makes_use_afterwards_a_clear_error(scene: Scene) -> None:
    """Reading and writing alike; as a context manager the handle closes itself."""
    token = scene.launch("act")
    ledger, now = scene.ledger, scene.now
    with ledger as entered:
        scene.holds(entered is ledger, "with must give the ledger itself")
        scene.found(ledger.get_task(token.key), "the task, inside with")

    answer = Answer(decision=Decision.APPROVED, by="ann")
    for what, action in {
        "get_run": lambda: ledger.get_run(scene.run),
        "open_run": lambda: ledger.open_run(scene.start(), now=now),
        "get_task": lambda: ledger.get_task(token.key),
        "open_task": lambda: ledger.open_task(token.key, scene.claim(), now=now),
        "advance": lambda: ledger.advance(token, LAUNCHED, now=now),
        "begin_effect": lambda: ledger.begin_effect(token, scene.effect(), now=now),
        "list_effects": lambda: ledger.list_effects(scene.run),
        "decide_approval": lambda: ledger.decide_approval("none", answer, now=now),
        "load_event": lambda: ledger.load_event(scene.run.dag_id, "none"),
        "list_runs": lambda: ledger.list_runs(RunFilter()),
        "seal_run": lambda: ledger.seal_run(scene.run, now=now),
        "send_command": lambda: ledger.send_command(scene.command(), now=now),
        "claim_commands": lambda: ledger.claim_commands(token, lease_until=now, now=now),
        "list_commands": lambda: ledger.list_commands(scene.run),
        "touch": lambda: ledger.touch(token, now=now),
        "list_touches": lambda: ledger.list_touches(scene.run),
        "draw_retry": lambda: ledger.draw_retry(token, [], longest_wait=timedelta(0), now=now),
        "list_retry_budgets": ledger.list_retry_budgets,
        "take_permit": lambda: ledger.take_permit(
            token, {"api": 1}, limits={}, priority=1, terms=PermitTerms(), now=now
        ),
        "list_permits": ledger.list_permits,
        "take_lease": lambda: ledger.take_lease("none", "ann", lease_until=now, now=now),
    }.items():
        scene.refused(LedgerClosed, action, f"{what} after close")


@check
def check_close_twice_is_fine(scene: Scene) -> None:
    """Whoever is unsure closes once more; also a handle that nobody has used."""
    other = scene.open_ledger()
    for ledger in (scene.ledger, other):
        ledger.close()
        ledger.close()
        scene.refused(LedgerClosed, partial(ledger.get_run, scene.run), "use after close")
