"""Louver's pure core: states, definitions, effects, approvals and the ledger; no Airflow inside."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
