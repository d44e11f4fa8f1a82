"""What all operators of Louver share."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from louver.binding import Workflow
from louver.policies import INFRASTRUCTURE_BUDGET, RetryPolicy
from louver.ports import Interrupted
from louver_provider.runtime import LouverRetryPolicy

__all__ = ["LouverOperator", "decided_arguments"]

_NEUTRAL = {
    # Airflow's limit raises something in the middle of the step that is no failure of it.
    "execution_timeout": None,
    # What is mapped over a step fails the step where it has pushed nothing, and what is no dictionary does
    # with several outputs: after the ledger holds it for succeeded.
    "do_xcom_push": True,
    "multiple_outputs": False,
    # Without it max_retry_delay means nothing.
    "retry_exponential_backoff": 0,
}
"""What a Dag's ``default_args`` may say otherwise, and Airflow's configuration of the first."""


def decided_arguments(retry: RetryPolicy) -> dict[str, Any]:
    """
    What Louver decides of every task of its own, so that it is said, whatever ``default_args`` say.

    :param retry: how often the task is tried.
    """
    return {
        **_NEUTRAL,
        "retries": retry.max_attempts - 1 + INFRASTRUCTURE_BUDGET,
        "retry_delay": retry.delay,
        "retry_policy": LouverRetryPolicy(),
    }


class LouverOperator(BaseOperator):
    """
    A task of a Louver Dag.

    Airflow's ``retries`` are the step's own plus a budget for lost processes; Louver counts the attempts and
    ends them (semantics section 8). Callbacks stay Airflow's.

    What it does not do: read the configuration or the ledger before it is executed.

    :param workflow: the definition and its functions.
    :param retry: how often the task is tried.
    """

    shallow_copy_attrs: ClassVar[tuple[str, ...]] = ("workflow",)

    def __init__(self, *, workflow: Workflow, retry: RetryPolicy, **kwargs: Any) -> None:
        super().__init__(**{**decided_arguments(retry), **kwargs})
        self.workflow = workflow

    def on_kill(self) -> None:
        """
        Airflow's hook on SIGTERM, called in the middle of whatever the step is doing.

        Airflow itself would let the code run on until it is killed.
        """
        raise Interrupted
