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
        "task-decorators": [{"name": "step", "class-name": "louver_provider.decorators.task_step.step_task"}],
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
                    "retry_budgets": _option(
                        "How many retries each resource takes, over all Dags and workers, as JSON:"
                        ' {"payments-api": "20/min", "search": {"rate": "5/s", "when_empty": "fail"}}.'
                        " Per s, min, h or d. Steps name their resources. A retry that a budget does not have"
                        " waits for it, or with when_empty fail is not made. Every worker needs the same.",
                        default="",
                    ),
                    "resources": _option(
                        "What resources take, over all Dags and workers, as JSON: how much at a time, how"
                        ' much may begin in a time, or both: {"payments-api": {"limit": 4, "rate": "50/min"},'
                        ' "licence": 1, "search": "5/s"}. Steps name their resources; one that finds nothing'
                        " free waits without a slot. Every component needs the same.",
                        default="",
                    ),
                    "resource_tags": _option(
                        "Resources that tags imply: payments=payments-api:1, batch=licence. A Louver step"
                        " whose Dag, or whose own mark, has the tag uses so many units, 1 where none are"
                        " said. Every worker needs the same.",
                        default="",
                    ),
                    "resource_lease": _option(
                        "Seconds after which what a step had of a resource is free again, where its process"
                        " has died. It renews it three times as often.",
                        kind="float",
                        default="60.0",
                    ),
                    "grant_ttl": _option(
                        "Seconds that a step whose turn at a resource has come may take to begin; then it is"
                        " the next one's turn.",
                        kind="float",
                        default="120.0",
                    ),
                    "resource_interval": _option(
                        "Seconds between two looks of a triggerer at who has a turn.",
                        kind="float",
                        default="1.0",
                    ),
                    "artifact_dir": _option(
                        "Absolute path of the directory below which every attempt of a step has one of its"
                        " own, ctx.artifact_dir. Empty means louver_artifacts in AIRFLOW_HOME.",
                        default="",
                    ),
                    "buckets": _option(
                        "How many buckets there are, by the time at which a run was created: 64, or"
                        " 2026-01-01:16, 2026-06-01:64. The hash of a run's key says in which of them, and so"
                        " in which pool, its tasks are. Append to it; what has begun must stay. Empty means"
                        " none. Every Airflow component needs the same, as of all options of buckets.",
                        default="",
                    ),
                    "bucket_key": _option(
                        "Where the key is in a run's conf: tenant, or customer.id. Empty means that only Dags"
                        " of bucket_key_by_dag have buckets.",
                        default="tenant",
                    ),
                    "bucket_key_by_dag": _option(
                        'The same for single Dags, as JSON: {"billing": "customer.id", "nightly": {"key":'
                        ' "tenant-A"}, "imports": null}. An object gives all runs of a Dag one key; null'
                        " leaves the Dag alone.",
                        default="",
                    ),
                    "bucket_owners": _option(
                        "Which node owns which buckets: node-a:0-31, node-b:32-63. The node's name is the"
                        " executor queue of their tasks. Empty means that buckets have no owners.",
                        default="",
                    ),
                    "bucket_slots": _option(
                        "Slots of each bucket's pool: 8, or 8, 5:0, 6-7:2 where some differ. None drains a"
                        " bucket.",
                        default="8",
                    ),
                    "bucket_override_pools": _option(
                        "Whether tasks that name a pool of their own go into their bucket's pool too.",
                        kind="boolean",
                        default="False",
                    ),
                    "bucket_provision": _option(
                        "Whether buckets without a pool get one: from the scheduler when it starts and when"
                        " a run needs one, from the reconciler when one is gone. A pool that is there stays"
                        " as it is.",
                        kind="boolean",
                        default="True",
                    ),
                    "events": _option(
                        "Where events go: file:///path/events.jsonl, or https://host/path; several, separated"
                        " by commas. Empty means nowhere. Every Airflow component needs the same, as of all"
                        " options of events.",
                        default="",
                        sensitive=True,
                    ),
                    "events_types": _option(
                        "Which events go there: workflow.*, effect.unknown. Empty means all.",
                        default="",
                    ),
                    "events_secret": _option(
                        "Signs events that go over HTTP, 16 bytes or more: the header Louver-Signature."
                        " Empty means no signature.",
                        default="",
                        sensitive=True,
                    ),
                    "events_source": _option(
                        "What the source of every event begins with: a URI or a path that names this"
                        " installation.",
                        default="/louver",
                    ),
                    "events_timeout": _option(
                        "Seconds that a receiver may take for an event, and that the end of a task waits for"
                        " events that are under way. From 0.05 to 60.",
                        kind="float",
                        default="2.0",
                    ),
                    "xcom_inline_bytes": _option(
                        "Results up to this many bytes stand in the XCom row, where everybody who may see"
                        " XComs reads them; of larger ones the row holds a signed reference to the ledger."
                        " 0 keeps all values out of XCom, and refuses multiple_outputs of @task.step. What a"
                        " @task.step is called with stands in Airflow's rendered fields all the same, as of"
                        " every task.",
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
