"""
An Airflow Dag of the control benchmark, whose file knows no Louver: what its import costs a task is seen.
"""

from __future__ import annotations

from airflow.sdk import DAG, task


def nothing() -> None:
    """What a task does that costs nothing."""


with DAG("alone", schedule=None, max_active_runs=1) as alone:
    before = None
    for number in range(10):
        plain = task(task_id=f"plain_{number}")(nothing)()
        if before is not None:
            plain.set_upstream(before)
        before = plain
