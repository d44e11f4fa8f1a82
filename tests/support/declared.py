"""Workflows declared in tests: functions for their steps, at the top of a module as an undo has to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from louver.builder import WorkflowTemplate, workflow
from louver.marks import step


def extract(source: str, limit: int = 10) -> list[int]:
    return list(range(limit))[: len(source)]


def clean(row: int, factor: int = 2) -> int:
    return row * factor


def load(rows: list[int], ctx: Any) -> dict[str, Any]:
    return {"rows": rows, "by": ctx.name}


def add(x: Any, y: Any = 0) -> Any:
    return x + y


def listed(parts: list[Any]) -> list[Any]:
    return parts


def choose(total: int) -> str:
    return "large" if total > 5 else "small"


def nothing() -> None:
    pass


def by_order(ctx: Any, *, order: Any = None) -> Any:
    return order


def anything(**values: Any) -> Any:
    return values


def intent(order: Any) -> Any:
    return {"order": order}


def pay(order: Any) -> Any:
    return order


def refund(undo: Any) -> None:
    pass


def built(declare: Callable[..., Any], **arguments: Any) -> WorkflowTemplate:
    return workflow(**{"name": "etl", "version": "1.0.0", **arguments})(declare)


def gathers(parts: Any = None, item: Any = None, x: Any = None, y: Any = None) -> Any:
    return parts, item, x, y


async def waits(order: Any = None) -> Any:
    return order


def yields(order: Any = None) -> Any:
    yield order


async def yields_and_waits(order: Any = None) -> Any:
    yield order


@step(tags=["slow"])
async def marked_waits(order: Any = None) -> Any:
    return order
