"""
What Airflow wants of a result that it pushes for others. It looks once the step has returned: a step that has
succeeded by then fails in Airflow all the same, again and again. So it is looked at before, in the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow.configuration import conf
from airflow.sdk.definitions.mappedoperator import is_mappable_value

from louver.errors import ConfigurationError, ValueRefused
from louver.ledger.contract import Ledger
from louver.ledger.records import RunRecord
from louver.lifecycle import TaskCall
from louver.ports import StepRuntime
from louver_provider.settings import load_settings

__all__ = ["call_that_fits", "check_outputs", "check_pushed"]


def call_that_fits(call: TaskCall, ti: Any) -> TaskCall:
    """
    The call with its result held to what Airflow wants of it.

    :param ti: Airflow's runtime task instance.
    """
    under = call.under

    def body(runtime: StepRuntime) -> Any:
        check_outputs(ti.task)
        value = call.body(runtime)
        mapped_over = not ti.is_mapped and next(ti.task.iter_mapped_dependants(), None) is not None
        check_pushed(
            value,
            apart=ti.task.multiple_outputs,
            mapped_over=mapped_over,
            most=conf.getint("core", "max_map_length"),
        )
        return value

    def other(asked: TaskCall, run: RunRecord, ledger: Ledger) -> TaskCall:
        return call_that_fits(under(asked, run, ledger), ti) if under is not None else asked

    return replace(call, body=body, under=None if under is None else other)


def check_outputs(task: Any) -> None:
    """
    Whether the members of its result may become XComs of their own; asked before anything is done.

    :raises ConfigurationError: where no value is to stand in XCom.
    """
    if task.multiple_outputs and load_settings().xcom_inline_bytes == 0:
        raise ConfigurationError(
            f"{task.task_id}: multiple_outputs puts the members of its result into XCom in full, and "
            "[louver] xcom_inline_bytes = 0 keeps all values out of it; take the members from the result"
        )


def check_pushed(value: Any, *, apart: bool, mapped_over: bool, most: int) -> None:
    """
    Hold a result to what Airflow wants: pure.

    :param apart: whether its members become XComs of their own.
    :param mapped_over: whether other tasks are mapped over it.
    :param most: over how many items.
    :raises ValueRefused: where Airflow would not take it.
    """
    if mapped_over:
        if not is_mappable_value(value):
            raise ValueRefused("$", "must be a list or a dict, since a task is mapped over it")
        if len(value) > most:
            raise ValueRefused("$", f"has {len(value)} items; a task may be mapped over {most} at most")
    if apart and value is not None:
        if not isinstance(value, Mapping):
            raise ValueRefused("$", "must be a dict: its members are to be outputs of their own")
        if not all(isinstance(key, str) for key in value):
            raise ValueRefused("$", "must have text for its keys: its members are to be outputs of their own")
