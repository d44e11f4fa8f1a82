"""
Exists so that Airflow calls cluster policies; keep it on ``PYTHONPATH`` or in ``$AIRFLOW_HOME/config``.

Airflow calls ``task_instance_mutation_hook`` at the creation of a task instance only after some module of
this name was imported; a policy that comes by the ``airflow.policy`` entry point alone is silently left out
(Louver's own buckets are not: they see to it themselves).
Own cluster policies may be added here: what is named in ``__all__`` replaces Airflow's default.
"""

from __future__ import annotations

__all__: list[str] = []

#: For ``[database] sql_alchemy_connect_args``: seconds to wait for SQLite's write lock. The default of five
#: ends the scheduler with "database is locked" when many tasks finish at once. Not for other databases.
SQLITE_CONNECT_ARGS = {"timeout": 120}

#: The same for the API server that people use. It writes its audit log on its event loop: where that waits
#: for the lock, and the lock's holder waits for the loop to let it commit, all stands still until the time is
#: up. So it is short; the refused request answers 500, nothing of it is done, and the client tries again.
SQLITE_API_CONNECT_ARGS = {"timeout": 3}
