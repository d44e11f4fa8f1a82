"""
Airflow Dags of the tests and of the benchmark of tenants, with nothing of Louver in them: work in parts.

The run's ``conf`` says how much: ``parts`` tasks, in a row or at once, as there are slots, after one that
lists them; each waits for ``seconds``, as work does that is done elsewhere.

Twice the same, so that one of them can be left out of the buckets.
"""

from __future__ import annotations

import time

from airflow.sdk import dag, get_current_context, task


def crowd() -> None:
    """The work."""

    @task
    def parts() -> list[int]:
        return list(range(get_current_context()["dag_run"].conf["parts"]))

    @task
    def work(part: int) -> None:
        time.sleep(get_current_context()["dag_run"].conf["seconds"])

    work.expand(part=parts())


for name in ("crowd", "crowd_in_one_pool"):
    # No task is favoured for its place in the Dag: slots go to the run with the earliest date.
    dag(name, schedule=None, max_active_runs=1000, default_args={"weight_rule": "absolute"})(crowd)()
