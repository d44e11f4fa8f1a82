"""
The bridge inside the task process: Airflow's context in, the core's lifecycle over it, Airflow's signals out.

Nothing here decides anything about a step; :mod:`louver.lifecycle` does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from airflow.configuration import conf
from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
    TaskDeferred,
)
from airflow.sdk.execution_time.hitl import HITLUser, upsert_hitl_detail

from louver.approvals import OPTIONS, answer_from
from louver.clock import SystemClock
from louver.definition import Definition
from louver.errors import ApprovalClosed, ConfigurationError, describe
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey
from louver.ledger.records import ApprovalRecord
from louver.ledger.requests import RunStart
from louver.lifecycle import Closing, Lifecycle, TaskCall
from louver.liveness import LocalProcesses
from louver.parked import ParkAnswer
from louver.ports import Interrupted, Parked, Waits
from louver.sessions import Change, Claim
from louver.states import FailureKind, Source, TaskState
from louver.steps import run_start
from louver_provider.approval_form import describe_request
from louver_provider.current import remember_step
from louver_provider.hooks.ledger import get_ledger
from louver_provider.pause_form import PAUSE_OPTIONS, describe_pause, verb_of
from louver_provider.settings import load_settings
from louver_provider.triggers.permits import PermitTrigger
from louver_provider.watch import watching

__all__ = [
    "LouverRetryPolicy",
    "ProcessEnded",
    "RetryLater",
    "StepProcess",
    "answer_from_event",
    "request_in",
]

RESUME_METHOD = "louver_resume"
"""The operator's method that Airflow calls after a park."""

_ANYBODY = "Anonymous"
"""The user that Airflow's simple auth manager takes everybody for where all are admins."""

_ALL_ADMINS = (
    "Nobody can approve this: with [core] simple_auth_manager_all_admins Airflow does not know who is who; "
    "turn it off, or stop the run"
)

ENTER_METHOD = "louver_enter"
"""The operator's method that Airflow calls after it waited for a resource."""


class RetryLater(AirflowException):
    """
    The step failed and is tried again; Airflow schedules it.

    :param delay: the wait that the step's policy decided.
    """

    def __init__(self, message: str, delay: timedelta) -> None:
        self.delay = delay
        super().__init__(message)


class ProcessEnded(AirflowException):
    """
    The process was told to end: its worker is shut down, its pod evicted, or Airflow has no use for it.

    No ``AirflowTaskTerminated``, for which Airflow fails the task for good. Where it is Airflow that has
    decided otherwise meanwhile, it does not listen; in all other cases the attempt is as lost as if the
    process had been killed, and there is another one.
    """


class LouverRetryPolicy(RetryPolicy):
    """Hands the delay that the step's own policy decided to Airflow; whether to retry is decided already."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Any = None
    ) -> RetryDecision:
        """Airflow's hook, called in the task process after a failure."""
        if isinstance(exception, RetryLater):
            return RetryDecision.retry(delay=exception.delay, reason=str(exception))
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """There is nothing to keep."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> LouverRetryPolicy:
        """The one there is."""
        return cls()


class _TaskLog:
    """The task's log in the web server: the stable action in brackets, then the words (row B7)."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def tell(self, action: str, message: str, *args: object) -> None:
        level = {"log.warning": logging.WARNING, "log.error": logging.ERROR}.get(action, logging.INFO)
        line = f"louver [%s] {message}"
        self._logger.log(level, line, action, *args)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProcess:
    """
    This task process, as Louver sees it.

    :param key: the task.
    :param start: its run.
    :param claim: what it opens the task with.
    """

    key: TaskKey
    start: RunStart
    claim: Claim
    ledger: Ledger
    lifecycle: Lifecycle
    log: _TaskLog
    task_instance_id: Any
    conf: Mapping[str, Any]

    @classmethod
    def from_context(
        cls,
        context: Mapping[str, Any],
        definition: Definition,
        logger: logging.Logger,
        *,
        nonce: str | None = None,
        tags: Iterable[str] = (),
    ) -> StepProcess:
        """
        Read what Airflow says about this task.

        :param nonce: on a resume, what the park handed to Airflow.
        :param tags: of the step and its Dag, which may imply resources.
        :raises LedgerError: where the ledger cannot be opened.
        """
        ti, dag_run = context["ti"], context["dag_run"]
        processes = LocalProcesses()
        log = _TaskLog(logger)
        settings = load_settings()
        control = settings.control
        ledger = get_ledger()
        process = cls(
            key=TaskKey(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index),
            start=run_start(
                definition,
                RunKey(ti.dag_id, ti.run_id),
                marker=dag_run.run_after.isoformat(),
                requester=getattr(dag_run, "triggering_user_name", None),
            ),
            claim=Claim(
                try_number=ti.try_number,
                max_tries=ti.max_tries,
                process=processes.name(),
                source=Source.WORKER,
                nonce=nonce,
            ),
            ledger=ledger,
            lifecycle=Lifecycle(
                ledger=ledger,
                clock=SystemClock(),
                liveness=processes,
                log=log,
                request_in=request_in,
                control=control,
                watch=watching(control.control_interval),
                budgets=settings.retry_budgets,
                places=settings.artifacts,
                permits=replace(settings.permits, implied=settings.permits.tags.implied(tags)),
            ),
            log=log,
            task_instance_id=ti.id,
            conf=dict(dag_run.conf or {}),
        )
        remember_step(process.key)
        log.tell("run.page", "%s of run %s: %s", ti.task_id, ti.run_id, _run_page(ti.dag_id, ti.run_id))
        return process

    def live(self, call: TaskCall) -> Any:
        """
        Live the task and speak to Airflow about it.

        :returns: the result, where it succeeded.
        :raises TaskAwaitingInput: where it has parked.
        :raises TaskDeferred: where it waits for a resource.
        :raises RetryLater: where it is tried again.
        :raises AirflowSkipException: where it was cancelled or skipped.
        :raises AirflowFailException: where it ended in any other way; Airflow does not try again.
        :raises ProcessEnded: where its process is told to end.
        """
        try:
            closing = self.lifecycle.live(call)
        except Parked as parked:
            signal: BaseException = self._ask(parked)
            # Outside the handler, so that the signal does not carry the other one along.
        except Waits:
            signal = self._defer()
        except Interrupted:
            raise ProcessEnded(f"{self.key.task_id} was ended by SIGTERM") from None
        else:
            return self._close(closing)
        raise signal

    def _defer(self) -> TaskDeferred:
        """Wait without a slot. Nothing is handed over: whose turn it is stands in the ledger."""
        key = self.key
        trigger = PermitTrigger(
            dag_id=key.dag_id, run_id=key.run_id, task=key.task_id, map_index=key.map_index
        )
        return TaskDeferred(trigger=trigger, method_name=ENTER_METHOD)

    def _ask(self, parked: Parked) -> TaskAwaitingInput:
        request, pause = parked.request, parked.pause
        if request is not None:
            form = describe_request(request, self.ledger.load_approval(request))
        elif pause is not None:
            form = describe_pause(pause)
        else:
            raise ConfigurationError(f"{self.key} parked without a reason")
        assigned = request.approvers if request is not None else ()
        body = form.body
        if request is not None and _nobody_may_approve(request):
            self.log.tell("log.error", "approval %s: %s", request.request_id, _ALL_ADMINS)
            body = f"**{_ALL_ADMINS}.**\n\n{body}"
        upsert_hitl_detail(
            ti_id=self.task_instance_id,
            options=list(OPTIONS if request is not None else PAUSE_OPTIONS),
            subject=form.subject,
            body=body,
            params=form.params,
            assigned_users=[HITLUser(id=name, name=name) for name in assigned] or None,
        )
        timeout = None
        if request is not None and request.expires_at is not None:
            timeout = max(request.expires_at - SystemClock().now(), timedelta(seconds=1))
        return TaskAwaitingInput(method_name=RESUME_METHOD, kwargs={"nonce": parked.nonce}, timeout=timeout)

    def _close(self, closing: Closing) -> Any:
        if closing.state is TaskState.SUCCEEDED:
            return closing.value
        message = f"{self.key.task_id} is {closing.state}: {_summary(closing.error)}"
        if closing.left_out:
            # Not skipped in Airflow, which would then skip what the run's own definition wants to be run.
            self.log.tell("step.left_out", "%s", message)
            return None
        if closing.state is TaskState.RETRY_WAIT:
            raise RetryLater(message, closing.delay) from closing.error
        if closing.state in (TaskState.CANCELLED, TaskState.SKIPPED):
            raise AirflowSkipException(message) from closing.error
        raise AirflowFailException(message) from closing.error


def _nobody_may_approve(request: ApprovalRecord) -> bool:
    """Whether all people are the one user to Airflow that may not approve this (case G06)."""
    simple = conf.get("core", "auth_manager", fallback="").endswith(".SimpleAuthManager")
    if not simple or not conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False):
        return False
    named = not request.approvers or _ANYBODY in request.approvers
    return not named or (request.four_eyes and request.requester == _ANYBODY)


def request_in(error: Exception) -> Change | None:
    """What a step asks for by raising one of Airflow's own exceptions, as any Airflow task may."""
    name = type(error).__name__
    if isinstance(error, AirflowSkipException):
        return Change(to=TaskState.SKIPPED, trigger="task:skip", reason=name)
    if isinstance(error, AirflowFailException):
        return Change(
            to=TaskState.FAILED,
            trigger="runtime:error",
            reason=f"{name}: not to be tried again",
            failure_kind=FailureKind.EXCEPTION,
        )
    return None


def _summary(error: BaseException | None) -> str:
    return "no reason given" if error is None else describe(error)


def _run_page(dag_id: str, run_id: str) -> str:
    base = conf.get("api", "base_url", fallback="") or ""
    return f"{base.rstrip('/')}/dags/{dag_id}/runs/{run_id}"


def answer_from_event(event: Mapping[str, Any] | None) -> ParkAnswer:
    """
    What Airflow's resume event says.

    :param event: ``chosen_options``, ``params_input`` and ``responded_by_user``, or ``error`` and
        ``error_type`` after a time-out; nothing where Airflow woke the task without an answer.
    """
    if not event:
        return ParkAnswer()
    if event.get("error_type") == "timeout" or event.get("timedout"):
        return ParkAnswer(timed_out=True)
    user = event.get("responded_by_user") or {}
    given = event.get("params_input") or {}
    chosen = event.get("chosen_options") or []
    name = user.get("name") or user.get("id")
    # Whether it answers a pause or an approval, the park knows; "Stop" is an answer to both.
    verb = verb_of(chosen)
    by = name if verb is not None else None
    try:
        answer = answer_from(chosen, by=name, user_id=user.get("id"))
    except ApprovalClosed:
        return ParkAnswer(verb=verb, by=by)
    return ParkAnswer(request_id=given.get("request_id"), answer=answer, verb=verb, by=by)
