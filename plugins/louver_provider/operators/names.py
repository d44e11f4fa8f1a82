"""What Airflow's rows call Louver's tasks: to be known without the operators themselves, which load much."""

from __future__ import annotations

__all__ = ["WITH_STATES"]

WITH_STATES = ("StepOperator", "ApprovalOperator", "CompensateOperator", "StepTaskOperator")
"""The operators whose tasks have states in the ledger."""
