"""What Airflow's rows call Louver's tasks: to be known without the operators themselves, which load much."""

from __future__ import annotations

__all__ = ["WITH_STATES"]

WITH_STATES = ("StepOperator", "ApprovalStepOperator", "CompensateOperator", "StepTaskOperator")
"""
The operators whose tasks have states in the ledger. Airflow keeps the class's name alone, so no operator of
Airflow's own may be called like one of them: it has an ``ApprovalOperator``.
"""
