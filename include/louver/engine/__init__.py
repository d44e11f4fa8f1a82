"""Embedded runs: the same definition and the same rules, without Airflow."""

from __future__ import annotations

from louver.engine.inline import RunResult, run_inline

__all__ = ["RunResult", "run_inline"]
