"""
What a private Airflow is made of: its processes, and the environment they run in.

The tuning is in ``config/airflow.demo.env``; here is what depends on the home and on the checkout.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["COMPONENTS", "ROOT", "airflow_environment", "component_settings", "suited_to_database"]

ROOT = Path(__file__).resolve().parent.parent

#: No triggerer: parked approvals do without. No log server: its port is fixed and may be taken, and the API
#: server reads the logs from the shared folder.
#:
#: Two API servers, one for people and one for task processes. Airflow commits its audit log on the event
#: loop; on SQLite that waits for the write lock, and where another request of the same process holds it, that
#: one cannot go on and give it back: the server stands still until the wait is over. Apart, they do not meet.
#:
#: In the order of starting. The scheduler comes last, and only once its tasks can reach their API: a task
#: that was due while Airflow was down would use up its tries.
COMPONENTS = {
    "task-api-server": ("api-server",),
    "api-server": ("api-server",),
    "dag-processor": ("dag-processor",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
}

LOCAL_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"

#: What a caller's Python settings would change in Airflow's processes. Without bytecode each task would
#: compile what its Dag imports anew.
HIDDEN = (
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME",
    "PYTHONOPTIMIZE",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONWARNINGS",
)


def airflow_environment(
    home: Path, kept: Mapping[str, Any], *, python: Path, users: Mapping[str, str]
) -> dict[str, str]:
    """
    The environment of every process of the Airflow in ``home``, without the caller's own Airflow settings.

    :param kept: ``port``, ``task_port``, ``fernet_key``, ``api_secret`` and ``jwt_secret``.
    :param users: roles of the simple auth manager by user.
    """
    base = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW_", "_AIRFLOW_")) and name not in HIDDEN
    }
    near = ",".join(filter(None, [base.get("no_proxy") or base.get("NO_PROXY"), "127.0.0.1,localhost"]))
    bundles = [
        {"name": "dags-folder", "classpath": LOCAL_BUNDLE, "kwargs": {}},
        {"name": "home", "classpath": LOCAL_BUNDLE, "kwargs": {"path": str(home / "dags")}},
    ]
    return {
        **base,
        **_read_env(ROOT / "config" / "airflow.demo.env"),
        "PATH": f"{python.parent}{os.pathsep}{base.get('PATH', os.defpath)}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "config"), str(ROOT / "include")]),
        "PYTHONUNBUFFERED": "1",
        # A task reaches the API server directly, whatever proxy the caller uses.
        "NO_PROXY": near,
        "no_proxy": near,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        # Empty: Louver registers once, as an installed distribution.
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__CORE__FERNET_KEY": kept["fernet_key"],
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{kept['task_port']}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
            f"{user}:{role}" for user, role in users.items()
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__XCOM_BACKEND": "louver_provider.xcom.backend.LouverXCom",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(kept["port"]),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{kept['port']}/",
        "AIRFLOW__API__SECRET_KEY": kept["api_secret"],
        "AIRFLOW__API_AUTH__JWT_SECRET": kept["jwt_secret"],
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOUVER__LEDGER_URL": f"sqlite:///{home / 'louver.db'}",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SHOP_DB": str(home / "shop.db"),
    }


def component_settings(name: str, kept: Mapping[str, Any]) -> dict[str, str]:
    """What one component has beside the common environment."""
    if name == "task-api-server":
        return {"AIRFLOW__API__PORT": str(kept["task_port"])}
    if name == "api-server":
        # Two people who write at the same moment can still meet; then a short wait ends the standstill.
        short = "airflow_local_settings.SQLITE_API_CONNECT_ARGS"
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": short}
    return {}


def suited_to_database(environment: Mapping[str, str]) -> dict[str, str]:
    """The same, without the wait for a lock that only SQLite knows where Airflow's database is another."""
    if environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith("sqlite:"):
        return dict(environment)
    alone = "airflow_local_settings.SQLITE_"
    return {name: value for name, value in environment.items() if not value.startswith(alone)}


def _read_env(path: Path) -> dict[str, str]:
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
