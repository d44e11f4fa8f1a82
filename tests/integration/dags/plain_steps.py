"""Airflow Dags of the tests: single tasks of plain Dags with the life of a step."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import noted_acts
from airflow.sdk import dag, task

from louver.policies import RetryPolicy
from louver.timeouts import Timeouts
from louver_provider.decorators import close
from shop.orders import release_inventory
from shop.providers import stock

HOME = Path(os.environ["AIRFLOW_HOME"])


@dag(schedule=None, params={"fail": "no"}, max_active_runs=8)
def plain_steps():
    @task
    def load(run_id: str | None = None) -> dict[str, Any]:
        return {"order": str(run_id), "amount": 7}

    @task
    def numbers() -> list[int]:
        return [1, 2, 3]

    @task.step(retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=1)))
    def flaky(ctx, order):
        done = ctx.restore(0)
        noted_acts.note(act="flaky", order=order["order"], attempt=ctx.attempt, done=done)
        ctx.checkpoint(done + 1)
        if ctx.attempt == 1:
            raise RuntimeError("once")
        return done

    @task.step(timeouts=Timeouts(attempt=timedelta(minutes=5)))
    def charge(order, ctx=None):
        return ctx.effect(
            "charge",
            intent=order,
            perform=lambda key: noted_acts.pay(order, key),
            compensate=noted_acts.refund,
        )

    @task.step(compensate=noted_acts.unpack)
    def pack(order):
        return {"packed": order["order"]}

    @task.step
    def patient(ctx):
        """Go on until the test says that it has seen enough."""
        number = ctx.restore(0)
        while not (HOME / f"enough-{ctx.run_id}").exists():
            number += 1
            ctx.checkpoint(number)
            time.sleep(0.1)
        return number

    @task.step
    def times(number, factor=1):
        return number * factor

    @task
    def added(products) -> int:
        return sum(products)

    @task.step
    def ship(receipt, packed, waited, total, params=None):
        if params["fail"] == "yes":
            raise ValueError("no ship today")
        return {"receipt": receipt["receipt"], "packed": packed["packed"], "total": total}

    order = load()
    waited = patient()
    flaky(order) >> waited
    total = added(times.partial(factor=10).expand(number=numbers()))
    ship(charge(order), pack(order), waited, total)
    close()


plain_steps()


@dag(schedule=None)
def unclosed_steps():
    """No closing tasks: the reconciler settles the run."""

    @task.step
    def reserve(run_id=None, ctx=None):
        wanted = {"order_id": run_id, "items": [{"sku": "mug-blue", "quantity": 1}]}
        # What undoes it is on PYTHONPATH: the task that does so is one of another Dag, in another folder.
        return ctx.effect(
            "reserve",
            intent=wanted,
            perform=lambda key: stock.reserve(key, **wanted),
            compensate=release_inventory,
        )

    @task.step
    def ship(receipt):
        raise ValueError("no ship today")

    ship(reserve())


unclosed_steps()
