"""What all operators of Louver share."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from louver.binding import Workflow
from louver.policies import INFRASTRUCTURE_BUDGET, RetryPolicy
from louver.ports import Interrupted
from louver_provider.runtime import LouverRetryPolicy

__all__ = ["LouverOperator", "retry_arguments"]


def retry_arguments(retry: RetryPolicy) -> dict[str, Any]:
    """What Airflow is told of a retry policy."""
    return {
        "retries": retry.max_attempts - 1 + INFRASTRUCTURE_BUDGET,
        "retry_delay": retry.delay,
        "retry_policy": LouverRetryPolicy(),
    }


class LouverOperator(BaseOperator):
    """
    A task of a Louver Dag.

    Airflow's ``retries`` are the step's own plus a budget for lost processes; Louver counts the attempts and
    ends them (semantics section 8). ``execution_timeout`` and callbacks stay Airflow's.

    What it does not do: read the configuration or the ledger before it is executed.

    :param workflow: the definition and its functions.
    :param retry: how often the task is tried.
    """

    shallow_copy_attrs: ClassVar[tuple[str, ...]] = ("workflow",)

    def __init__(self, *, workflow: Workflow, retry: RetryPolicy, **kwargs: Any) -> None:
        super().__init__(**{**retry_arguments(retry), **kwargs})
        self.workflow = workflow

    def on_kill(self) -> None:
        """
        Airflow's hook on SIGTERM, called in the middle of whatever the step is doing.

        Airflow itself would let the code run on until it is killed.
        """
        raise Interrupted
