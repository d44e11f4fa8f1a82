"""Louver's pure core: states, definitions, effects, approvals and the ledger; no Airflow inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from louver.marks import step

__version__ = "0.1.0"

__all__ = ["__version__", "step"]


def __getattr__(name: str) -> Any:
    # On first use: who imports louver for its version, or for a module of it, loads nothing else.
    if name == "step":
        from louver.marks import step

        return step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
