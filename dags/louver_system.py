"""
Louver's own Airflow Dag: ``louver_compensate`` undoes what a run did that was ended from outside.

The reconciler starts it where a run was deleted, timed out or marked, so that the run's own closing tasks
could not do it. Copy this file to your Dags folder.
"""

from __future__ import annotations

from louver_provider.dags import compensation_dag

louver_compensate = compensation_dag()
