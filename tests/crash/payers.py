"""What processes do that pay, and what became of it; see :class:`support.nursery.Nursery`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from support.nursery import Talk

from crash.proofs import faults_in
from crash.steps import PAYING
from crash.story import KEYS, Clock, Scene
from louver.ledger import open_ledger
from louver.ledger.names import TaskKey
from louver.testing import crashes
from shop import faults, report
from shop.database import transaction

__all__ = ["Paid", "pay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """
    What became of it.

    :param run: its state.
    :param step: the step's state, and why it failed where it did.
    :param effect: its state.
    :param done: how often the provider took the money.
    :param asked: how often it was asked to.
    :param keys: how many keys it was asked under.
    :param faults: what is wrong with the run.
    """

    run: str
    step: str
    effect: str
    done: int
    asked: int
    keys: int
    faults: tuple[str, ...]


def pay(
    talk: Talk,
    *,
    way: str,
    url: str,
    shop: str,
    case: str,
    turn: int = 1,
    answer_lost: bool = False,
    killed_at: str | None = None,
) -> Paid:
    """
    Run the workflow that pays, to its end.

    :param way: what is done where nobody knows, see :func:`crash.steps.pay`.
    :param answer_lost: the provider does the work and loses the answer, once.
    :param killed_at: the point at which this process ends.
    """
    os.environ["SHOP_DB"] = shop
    if answer_lost:
        faults.tell("payments.charge", "lose_answer", order_id=case)
    with open_ledger(url, KEYS) as ledger:
        scene = Scene(ledger=ledger, clock=Clock(timedelta(seconds=10) * turn), case=case)
        if killed_at is not None:
            crashes.kill_at(killed_at)
        result = scene.run(PAYING, order=case, way=way)
        run = scene.key(PAYING)
        task = ledger.get_task(TaskKey(run.dag_id, run.run_id, "pay"))
        effect = ledger.get_effect(f"dag:{run.dag_id}", f"pay:{case}")
        wrong = tuple(faults_in(ledger, run, keys=KEYS, state=result.state))
    kind = f" ({task.failure_kind})" if task and task.failure_kind else ""
    with transaction() as rows:
        keys = rows.execute(
            "SELECT count(DISTINCT key) FROM calls WHERE order_id = ? AND action = 'charge'", (case,)
        )
        under = keys.fetchone()[0]
    return Paid(
        run=str(result.state),
        step=f"{task and task.state}{kind}",
        effect=str(effect and effect.state.value),
        done=report.counts(case)["payments.charge"],
        asked=report.calls(case)["payments.charge"],
        keys=under,
        faults=wrong,
    )
