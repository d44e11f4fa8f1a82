"""Tasks of the steps that Louver itself puts into a workflow: they hand lists on, before and after others."""

from __future__ import annotations

from typing import Any

from louver.errors import ConfigurationError

__all__ = ["gathered", "items"]


def items(items: Any) -> Any:
    """
    A parameter of the run, as the list that a mapped step goes through.

    :raises ConfigurationError: where it is no list; the value is not shown.
    """
    if not isinstance(items, (list, tuple)):
        raise ConfigurationError(f"a step can be mapped over a list, not over a {type(items).__name__}")
    return list(items)


def gathered(results: list[Any]) -> list[Any]:
    """The results of a group, in declared order."""
    return results
