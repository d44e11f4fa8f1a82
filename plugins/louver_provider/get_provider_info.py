"""What Airflow learns about the provider without importing anything else of it."""

from __future__ import annotations

from typing import Any

__all__ = ["get_provider_info"]


def get_provider_info() -> dict[str, Any]:
    """Airflow's provider metadata; loaded by every ``airflow`` command, so it must stay light."""
    return {
        "package-name": "airflow-provider-louver",
        "name": "Louver",
        "description": "Sagas with compensation, effects that happen once, bound approvals, an audit trail.",
        "cli": ["louver_provider.cli.definition.get_louver_cli_commands"],
        "config": {
            "louver": {
                "description": "Settings of Louver.",
                "options": {
                    "ledger_url": _option(
                        "Where the ledger is: sqlite:////absolute/file.db or postgresql://user:password@host/database."
                        " Empty means louver.db in AIRFLOW_HOME. Every Airflow component needs the same.",
                        default="",
                        sensitive=True,
                    ),
                    "signing_keys": _option(
                        "Keys that sign what the ledger keeps: id:secret,id:secret, the newest first; older"
                        " ones stay readable. Empty means a key made at first use in AIRFLOW_HOME.",
                        default="",
                        sensitive=True,
                    ),
                    "resume_guard": _option(
                        "Seconds that a task must have been parked before an answer is delivered to it;"
                        " Airflow can fail a task that is answered before its parked process has gone.",
                        kind="float",
                        default="2.0",
                    ),
                    "xcom_inline_bytes": _option(
                        "Results up to this size stand in the XCom row; larger ones refer to the ledger.",
                        kind="integer",
                        default="32768",
                    ),
                },
            }
        },
    }


def _option(
    description: str, *, default: str, kind: str = "string", sensitive: bool = False
) -> dict[str, Any]:
    option: dict[str, Any] = {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": None,
        "default": default,
    }
    return option | {"sensitive": True} if sensitive else option
