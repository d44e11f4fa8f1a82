"""
Louver's client: submit workflows, follow them, get their results and control them, from anywhere::

    from louver_provider.client import Louver

    client = Louver("http://localhost:8080", username="ann", password=...)
    run = client.submit("billing", {"order_id": "order-1", "amount": "129.90"}, run_id="order-1")
    print(run.get(timeout=60))

It talks to Airflow's API server and needs neither its databases nor its configuration; importing it does not
import Airflow.
"""

from __future__ import annotations

from louver.results import NodeError, NodeResult
from louver_provider.client.errors import (
    ClientError,
    CommandImpossible,
    DagPaused,
    Forbidden,
    NoResult,
    NotFound,
    Refused,
    RunCancelled,
    RunFailed,
    RunStopped,
    RunUnsuccessful,
    ServerError,
    SubmitConflict,
    Unauthenticated,
    Unreachable,
    WaitTimeout,
)
from louver_provider.client.handle import RunHandle
from louver_provider.client.louver import Louver
from louver_provider.client.values import CommandReply, NodeFailure, NodeState, RunStatus, TrailRow

__all__ = [
    "ClientError",
    "CommandImpossible",
    "CommandReply",
    "DagPaused",
    "Forbidden",
    "Louver",
    "NoResult",
    "NodeError",
    "NodeFailure",
    "NodeResult",
    "NodeState",
    "NotFound",
    "Refused",
    "RunCancelled",
    "RunFailed",
    "RunHandle",
    "RunStatus",
    "RunStopped",
    "RunUnsuccessful",
    "ServerError",
    "SubmitConflict",
    "TrailRow",
    "Unauthenticated",
    "Unreachable",
    "WaitTimeout",
]
