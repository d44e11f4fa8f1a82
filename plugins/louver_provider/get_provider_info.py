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
        "db-managers": ["louver_provider.db_manager.LouverDBManager"],
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
                    "control_interval": _option(
                        "Seconds between two looks of a running step at what people want of it.",
                        kind="float",
                        default="1.0",
                    ),
                    "pause_window": _option(
                        "Seconds that a pause may take to be reached; then it is rolled back.",
                        kind="float",
                        default="30.0",
                    ),
                    "stop_grace": _option(
                        "Seconds that a step may take to see a stop or a timeout by itself; then its process"
                        " is ended.",
                        kind="float",
                        default="10.0",
                    ),
                    "heartbeat_interval": _option(
                        "Seconds between two signs of life of a running step.",
                        kind="float",
                        default="5.0",
                    ),
                    "reconciler": _option(
                        "Who repairs what no process could do itself: embedded, a process that the"
                        " scheduler brings with it; service, 'airflow louver reconcile --watch' run by you;"
                        " off, nobody.",
                        default="embedded",
                    ),
                    "reconcile_interval": _option(
                        "Seconds between two rounds of the reconciler.",
                        kind="float",
                        default="5.0",
                    ),
                    "xcom_inline_bytes": _option(
                        "Results up to this many bytes stand in the XCom row, where everybody who may see"
                        " XComs reads them; of larger ones the row holds a signed reference to the ledger."
                        " 0 keeps all values out of XCom.",
                        kind="integer",
                        default="32768",
                    ),
                    "max_value_bytes": _option(
                        "The largest result, checkpoint or intent that the ledger takes, in bytes as stored;"
                        " a larger one fails its step as result_invalid before anything is written. Store it"
                        " elsewhere and return its place. From 1024 to 268435456.",
                        kind="integer",
                        default="67108864",
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
