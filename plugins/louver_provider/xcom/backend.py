"""
The XCom backend: results of Louver's steps are kept in the ledger, and XCom shows them.

``[core] xcom_backend = louver_provider.xcom.backend.LouverXCom``. A step's result is a signed checkpoint in
the ledger before Airflow sees it. The XCom row then carries the plain value, where that is small and made
of JSON types, and a reference otherwise. XComs of other Dags, and of other keys, are left as they are.
"""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.bases.xcom import BaseXCom

from louver.canonical import plain_json
from louver.ledger.names import TaskKey
from louver_provider.current import is_current_step
from louver_provider.hooks.ledger import get_ledger
from louver_provider.settings import load_settings

__all__ = ["REFERENCE", "LouverXCom"]

REFERENCE = "__louver_result__"
"""The one member of a reference; its value names the task whose result it stands for."""


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
            index = -1 if map_index is None else map_index
            if is_current_step(TaskKey(dag_id, run_id, task_id, index)) and not _fits(value):
                shown = {
                    REFERENCE: {
                        "dag_id": dag_id,
                        "run_id": run_id,
                        "task_id": task_id,
                        "map_index": index,
                    }
                }
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

        :raises IntegrityError: where a reference leads to a result that is not what was signed.
        """
        value = BaseXCom.deserialize_value(result)
        if isinstance(value, dict) and set(value) == {REFERENCE}:
            return get_ledger().load_result(TaskKey(**value[REFERENCE]))
        return value


def _fits(value: Any) -> bool:
    """Whether the value can stand in the row itself: small, and shown without loss."""
    if not plain_json(value):
        return False
    return (
        len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        <= load_settings().xcom_inline_bytes
    )
