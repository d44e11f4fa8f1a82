"""An Airflow Dag of the tests, with nothing of Louver in it: a retry, mapped tasks, a pool of their own."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag, get_current_context, task


@dag(schedule=None)
def bucketed() -> None:
    """What is routed."""

    @task(retries=1, retry_delay=timedelta(seconds=1))
    def retried() -> None:
        if get_current_context()["ti"].try_number == 1:
            raise RuntimeError("as told")

    @task
    def numbers() -> list[int]:
        return [1, 2, 3]

    @task
    def mapped(number: int) -> int:
        return number

    @task(pool="own")
    def own() -> None:
        return

    retried() >> own()
    mapped.expand(number=numbers())


bucketed()
