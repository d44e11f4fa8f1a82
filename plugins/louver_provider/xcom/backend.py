"""
The XCom backend: results of Louver's steps are kept in the ledger, and XCom shows them.

``[core] xcom_backend = louver_provider.xcom.backend.LouverXCom``. A step's result is a signed checkpoint in
the ledger before Airflow sees it. The XCom row then carries the plain value, where that is small and nothing
on its way changes it, and a signed reference otherwise, with something for people to read in either case.
Pushing asks nothing of the ledger, so no step fails for it once its result is committed; Airflow's web server
and API read the row alone. XComs of other Dags, and of other keys, are left as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.bases.xcom import BaseXCom

from louver.closing import OUTCOME
from louver.ledger.names import TaskKey
from louver_provider.current import is_current_step
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import load_settings, load_signing_keys
from louver_provider.xcom.references import Asked, Reference, is_reference, reference_to
from louver_provider.xcom.shown import described, survives_row

__all__ = ["LouverXCom"]

# deserialize_value gets the row's value alone; whose XCom was asked for, only its callers know.
_ASKED: ContextVar[Asked | None] = ContextVar("louver_xcom_asked", default=None)

_LATER: ContextVar[bool] = ContextVar("louver_xcom_later", default=False)


class LouverXCom(BaseXCom):
    """Shows results of Louver's steps, and resolves references to them."""

    @staticmethod
    def serialize_value(
        value: Any,
        *,
        key: str | None = None,
        task_id: str | None = None,
        dag_id: str | None = None,
        run_id: str | None = None,
        map_index: int | None = None,
        **others: Any,
    ) -> Any:
        """What goes into the XCom row."""
        shown = value
        if key == BaseXCom.XCOM_RETURN_KEY and dag_id and run_id and task_id:
            step = TaskKey(dag_id, run_id, task_id, -1 if map_index is None else map_index)
            # The outcome is no step: its two words are in no ledger and stand for themselves.
            if is_current_step(step) and task_id != OUTCOME:
                shown = _row(step, value)
        return BaseXCom.serialize_value(
            shown,
            key=key,
            task_id=task_id,
            dag_id=dag_id,
            run_id=run_id,
            map_index=map_index,
            **others,
        )

    @staticmethod
    def deserialize_value(result: Any) -> Any:
        """
        The value that the row stands for.

        :raises IntegrityError: where a reference was changed or copied from elsewhere, or leads to a result
            that is gone or not what was signed.
        :raises LedgerError: where it leads to a ledger that cannot be read.
        """
        if not is_reference(result.value):
            return BaseXCom.deserialize_value(result)
        if _LATER.get():
            return _Unread(result.value)
        return _read(result.value)

    # Each names what it asks for, so that a reference of somebody else is found out.

    @classmethod
    def get_one(cls, **asked: Any) -> Any:
        """As Airflow's; see :meth:`deserialize_value`."""
        with _asking(asked, mapped=False):
            return super().get_one(**asked)

    @classmethod
    async def aget_one(cls, **asked: Any) -> Any:
        """As Airflow's; see :meth:`deserialize_value`. The ledger is read beside the event loop."""
        with _asking(asked, mapped=False):
            with _later():
                found = await super().aget_one(**asked)
            return (await _read_all([found]))[0]

    @classmethod
    def get_all(cls, **asked: Any) -> Any:
        """As Airflow's; see :meth:`deserialize_value`."""
        with _asking(asked, mapped=True):
            return super().get_all(**asked)

    @classmethod
    async def aget_all(cls, **asked: Any) -> Any:
        """As Airflow's; see :meth:`deserialize_value`. The ledger is read beside the event loop."""
        with _asking(asked, mapped=True):
            with _later():
                found = await super().aget_all(**asked)
            return found if found is None else await _read_all(found)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A reference on its way out of a coroutine."""

    row: Any


@contextmanager
def _later() -> Iterator[None]:
    """References are handed on inside the block, and not followed."""
    token = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(token)


async def _read_all(found: Sequence[Any]) -> list[Any]:
    """The values with the references among them followed, in a thread: a triggerer has one loop for all."""
    if not any(isinstance(each, _Unread) for each in found):
        return list(found)
    # It takes the context along, and in it what was asked for.
    return await asyncio.to_thread(
        lambda: [_read(each.row) if isinstance(each, _Unread) else each for each in found]
    )


def _read(row: Any) -> Any:
    """The result that a reference leads to."""
    reference = Reference.read(row, load_signing_keys())
    reference.check(_ASKED.get() or _current_run())
    return reference.load(get_ledger())


def _row(step: TaskKey, value: Any) -> Any:
    limit = load_settings().xcom_inline_bytes
    if survives_row(value, limit=limit):
        return value
    reference = reference_to(step, value)
    if reference.bytes <= limit:
        shown = described(value)
    else:
        shown = f"{reference.type} of {reference.bytes} bytes, kept in Louver's ledger"
    return reference.row(load_signing_keys(), shown=shown)


@contextmanager
def _asking(asked: dict[str, Any], *, mapped: bool) -> Iterator[None]:
    map_index = asked.get("map_index")
    token = _ASKED.set(
        Asked(
            dag_id=asked.get("dag_id"),
            task_id=asked.get("task_id"),
            run_id=None if asked.get("include_prior_dates") else asked.get("run_id"),
            map_index=None if mapped else -1 if map_index is None else map_index,
        )
    )
    try:
        yield
    finally:
        _ASKED.reset(token)


def _current_run() -> Asked:
    """
    Where nobody said what is asked for: the run of the task in this process.

    Airflow reads XComs of mapped tasks so, item by item, and those are of the same run.
    """
    try:
        context = get_current_context()
    except RuntimeError:
        return Asked()
    return Asked(dag_id=context["ti"].dag_id, run_id=context["ti"].run_id)
