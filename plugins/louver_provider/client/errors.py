"""
What the client raises::

    LouverError
    └── ClientError
        ├── Unreachable           nobody answers there, or the answer was cut off
        ├── ServerError           the server failed, or answered something strange
        ├── Unauthenticated       401: no login, or an expired one
        ├── Forbidden             403: the user may not do this
        ├── NotFound              404: no such Dag, run or node
        ├── Refused               any other 4xx, with the server's reason
        │   ├── SubmitConflict    the run is there already, and was started with something else
        │   └── CommandImpossible there is nothing to pause, resume or stop
        ├── DagPaused             Airflow has paused the Dag; a run of it would not start
        ├── NoResult              the run succeeded, but its result node was skipped
        ├── WaitTimeout           the run is not over yet; nothing was changed
        └── RunUnsuccessful       the run is over without success
            ├── RunFailed         it failed, whether or not it was compensated
            ├── RunStopped        somebody stopped it
            └── RunCancelled      as the duplicate of another run, say

Texts carry ids, states and the server's reasons; never a token, a password, a parameter or a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from louver.errors import LouverError

if TYPE_CHECKING:
    from louver_provider.client.values import NodeFailure, RunStatus

__all__ = [
    "ClientError",
    "CommandImpossible",
    "DagPaused",
    "Forbidden",
    "NoResult",
    "NotFound",
    "Refused",
    "RunCancelled",
    "RunFailed",
    "RunStopped",
    "RunUnsuccessful",
    "ServerError",
    "SubmitConflict",
    "Unauthenticated",
    "Unreachable",
    "WaitTimeout",
]


class ClientError(LouverError):
    """The client could not do it."""


class Unreachable(ClientError):
    """The server does not answer."""


class ServerError(ClientError):
    """
    The server failed.

    :param status: of the HTTP answer.
    """

    def __init__(self, message: str, *, status: int) -> None:
        self.status = status
        super().__init__(message)


class Unauthenticated(ClientError):
    """The server does not know who asks."""


class Forbidden(ClientError):
    """The user may not do this."""


class NotFound(ClientError):
    """There is no such Dag, run or node."""


class Refused(ClientError):
    """
    The server refused the request.

    :param status: of the HTTP answer.
    """

    def __init__(self, message: str, *, status: int) -> None:
        self.status = status
        super().__init__(message)


class SubmitConflict(Refused):
    """
    The run is there already, and was started with something else; it is left as it is.

    :param run_id: the run that was submitted.
    """

    def __init__(self, message: str, *, run_id: str | None, status: int = 409) -> None:
        self.run_id = run_id
        super().__init__(message, status=status)


class CommandImpossible(Refused):
    """There is nothing to pause, resume or stop."""


class DagPaused(ClientError):
    """Airflow has paused the Dag; a run of it would not start."""


class WaitTimeout(ClientError):
    """
    The run is not over yet. Waiting changes nothing: ask again, or do something else.

    :param status: of the run, when it was last looked at.
    """

    def __init__(self, message: str, *, status: RunStatus) -> None:
        self.status = status
        super().__init__(message)


class NoResult(ClientError):
    """The run succeeded, but the node whose result is the run's has none."""


class RunUnsuccessful(ClientError):
    """
    The run is over without success.

    :param status: of the run.
    :param failures: the nodes to blame, with the kind of each failure.
    """

    def __init__(self, message: str, *, status: RunStatus, failures: Sequence[NodeFailure]) -> None:
        self.status = status
        self.failures = tuple(failures)
        super().__init__(message)


class RunFailed(RunUnsuccessful):
    """The run failed."""


class RunStopped(RunUnsuccessful):
    """The run was stopped."""


class RunCancelled(RunUnsuccessful):
    """The run was cancelled."""
