"""
What workflows cost beside plain Airflow: parsing, from task to task, chains, fan-outs (issue 6, 5 and 10).

``scripts/bench-workflows`` runs it. Every Louver workflow has a plain Airflow Dag of the same shape and work
beside it, and they take turns, run by run: what disturbs the machine disturbs both. What is told is as
Airflow records it. The closing tasks of a run are measured apart: they come after the last business step.
"""

from __future__ import annotations
