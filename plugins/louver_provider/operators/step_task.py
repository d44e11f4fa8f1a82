"""The operator behind ``@task.step``: a step of a Dag that is not Louver's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator
from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS
from airflow.sdk.execution_time.lazy_sequence import LazyXComSequence

from louver.binding import Workflow
from louver.closing import OUTCOME
from louver.errors import DefinitionError
from louver.marks import StepMark
from louver.parked import ParkAnswer
from louver.policies import RetryPolicy
from louver.ports import Interrupted, StepRuntime
from louver.steps import StepCalls
from louver_provider.operators.base import decided_arguments
from louver_provider.operators.pushed import call_that_fits
from louver_provider.plain_dags import step_form, workflow_of
from louver_provider.runtime import StepProcess, answer_from_event
from louver_provider.task_arguments import refuse_changed

__all__ = ["StepTaskOperator"]


class StepTaskOperator(DecoratedOperator):
    """
    Runs a function through the life of a step; its arguments are Airflow's.

    :param python_callable: the function, without its ``ctx``.
    :param step: what was said of it as a step.
    """

    custom_operator_name = "@task.step"
    ui_color = "#cde4f0"
    shallow_copy_attrs: ClassVar[tuple[str, ...]] = ("python_callable", "step")

    def __init__(self, *, python_callable: Callable[..., Any], step: StepMark, **kwargs: Any) -> None:
        self.step = step
        decided = decided_arguments(step.retry or RetryPolicy())
        refuse_changed(kwargs, decided, node=str(kwargs.get("task_id")))
        super().__init__(python_callable=python_callable, **{**decided, **kwargs})
        if not getattr(self, "_BaseOperator__from_mapped", False):
            # What can be seen here is an error at the line that is wrong.
            step_form(self)
            self._refuse_after_closing()

    def _refuse_after_closing(self) -> None:
        dag = self.get_dag()
        if dag is not None and dag.has_task(OUTCOME) and self.task_id != OUTCOME:
            raise DefinitionError(
                "stands behind close(), which has to know all steps; call close() last",
                source=dag.dag_id,
                node=self.task_id,
            )

    def on_kill(self) -> None:
        """Airflow's hook on SIGTERM; see :class:`~louver_provider.operators.base.LouverOperator`."""
        raise Interrupted

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Live the step from its start."""
        return self._live(context, nonce=None, answer=None)

    def louver_resume(
        self, context: Mapping[str, Any], event: Mapping[str, Any] | None = None, nonce: str | None = None
    ) -> Any:
        """Come back from a park; Airflow calls it with the answer as ``event``."""
        return self._live(context, nonce=nonce, answer=answer_from_event(event))

    def louver_enter(self, context: Mapping[str, Any], event: Mapping[str, Any] | None = None) -> Any:
        """Come back from waiting for a resource; what was meant by it, the ledger knows."""
        return self._live(context, nonce=None, answer=None)

    def _live(self, context: Mapping[str, Any], *, nonce: str | None, answer: ParkAnswer | None) -> Any:
        workflow = workflow_of(context["ti"].task.dag)
        function = getattr(self.python_callable, "__wrapped__", self.python_callable)
        # What Airflow itself gives by name is no part of what the step was asked to do.
        shown = inspect.signature(self.python_callable).parameters
        from_airflow = {
            name: context[name] for name in shown if name in KNOWN_CONTEXT_KEYS and name in context
        }
        functions = {self.task_id: functools.partial(function, **from_airflow) if from_airflow else function}
        process = StepProcess.from_context(
            context,
            workflow.definition,
            self.log,
            nonce=nonce,
            tags={*context["ti"].task.dag.tags, *self.step.tags},
        )
        calls = StepCalls(
            workflow=Workflow(definition=workflow.definition, functions=functions),
            start=process.start,
            params=lambda runtime: {},
            arguments=lambda runtime: self._arguments(runtime),
        )
        call = calls.node(self.task_id, key=process.key, claim=process.claim, answer=answer)
        return process.live(call_that_fits(call, context["ti"]))

    def _arguments(self, runtime: StepRuntime) -> dict[str, Any]:
        """What Airflow has filled in, by parameter."""
        signature = inspect.signature(self.python_callable)
        given = signature.bind_partial(*self.op_args, **self.op_kwargs).arguments
        arguments: dict[str, Any] = {}
        for name, value in given.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                arguments.update({key: _whole(each) for key, each in value.items()})
            else:
                arguments[name] = _whole(value)
        return arguments


def _whole(value: Any) -> Any:
    """The results of a mapped task come as something that reads them one by one."""
    return list(value) if isinstance(value, LazyXComSequence) else value
