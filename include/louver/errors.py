"""
Every error that Louver raises on purpose, under one root.

::

    LouverError
    ├── ConfigurationError          a setting, a URL or a callable that cannot be used
    ├── DefinitionError             a workflow definition that breaks a rule
    ├── EventRejected               an event that is not a strict CloudEvent, or not the profile's
    │   └── EventConflict           the same (source, id) with another payload
    ├── TimestampError              text that is not an RFC 3339 date-time
    ├── ValueRefused                a value outside the typed value rules
    ├── IntegrityError              stored bytes that are not what was signed
    │   └── NoResult                succeeded by hand, so that there never was a result
    ├── IllegalTransition           a state change that the table does not know
    ├── LedgerError
    │   ├── LedgerUnavailable       missing, locked, read-only or unreachable
    │   ├── LedgerClosed            used after close()
    │   ├── LedgerSchemaError       a schema older or newer than this release
    │   └── Superseded              the writer is no longer the task's current process
    ├── EffectError
    │   ├── EffectConflict          the same key with another intent
    │   ├── EffectInProgress        somebody holds a live lease on the effect
    │   ├── EffectUnknown           it may or may not have happened; a person decides
    │   └── EffectNotPerformed      raised by ``perform`` to prove that nothing happened
    ├── ApprovalError
    │   ├── ApprovalStale           what was approved is not what would run
    │   ├── ApprovalRejected        a person said no
    │   ├── ApprovalExpired         nobody said yes in time
    │   └── ApprovalClosed          an answer to a request that is decided, void or unknown
    ├── DefinitionChanged           the run began under another definition
    ├── AttemptsExhausted           a step used up its attempts
    ├── CompensationFailed          an undo failed, or could not be found
    ├── UpstreamUndone              what the step builds on was undone
    ├── NotRun                      the workflow's rules skip or cancel a step
    ├── StepSkipped                 a step's own code wants to be skipped
    ├── CommandRefused              a command that makes no sense in the task's state
    ├── TimeoutReached              a step took longer than it may
    └── TaskCancelled               a stop was asked for, seen at a checkpoint

The docstring of a class is its default message. Messages carry ids, names and states, never payloads
(product row O9).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

__all__ = [
    "ApprovalClosed",
    "ApprovalError",
    "ApprovalExpired",
    "ApprovalRejected",
    "ApprovalStale",
    "AttemptsExhausted",
    "CommandRefused",
    "CompensationFailed",
    "ConfigurationError",
    "DefinitionChanged",
    "DefinitionError",
    "EffectConflict",
    "EffectError",
    "EffectInProgress",
    "EffectNotPerformed",
    "EffectUnknown",
    "EventConflict",
    "EventRejected",
    "IllegalTransition",
    "IntegrityError",
    "LedgerClosed",
    "LedgerError",
    "LedgerSchemaError",
    "LedgerUnavailable",
    "LouverError",
    "NoResult",
    "NotRun",
    "StepSkipped",
    "Superseded",
    "TaskCancelled",
    "TimeoutReached",
    "TimestampError",
    "UpstreamUndone",
    "ValueRefused",
    "describe",
    "require_aware",
    "require_text",
]


class LouverError(Exception):
    """Louver refused to go on."""

    def __init__(self, message: str | None = None) -> None:
        # `python -OO` takes docstrings away, and a subclass need not have one.
        lines = (type(self).__doc__ or type(self).__name__).strip().splitlines()
        super().__init__(message or lines[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled by its attributes: the constructors of most errors take other arguments."""
        return _revive, (type(self), self.args), self.__dict__


def _revive(kind: type[LouverError], args: tuple[Any, ...]) -> LouverError:
    return kind.__new__(kind, *args)


class ConfigurationError(LouverError):
    """A setting or an argument cannot be used."""


class DefinitionError(LouverError):
    """
    The workflow definition breaks a rule.

    :param message: what is wrong and the way out.
    :param source: the file or Dag the definition came from.
    :param node: the step, where one is to blame.
    :param attribute: the attribute of it.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        node: str | None = None,
        attribute: str | None = None,
    ) -> None:
        self.reason = message
        self.source = source
        self.node = node
        self.attribute = attribute
        place = [
            f"step {node!r}" if node is not None else "",
            f"attribute {attribute!r}" if attribute is not None else "",
        ]
        where = ", ".join(part for part in [source or "", *place] if part)
        super().__init__(f"{where}: {message}" if where else message)

    def within(self, source: str) -> DefinitionError:
        """The same error, naming the file or Dag it was found in."""
        return DefinitionError(self.reason, source=source, node=self.node, attribute=self.attribute)


class EventRejected(LouverError):
    """
    The event is refused.

    :param attribute: the attribute to blame, or ``None`` for the document as a whole.
    :param reason: what is wrong with it, without its value.
    """

    def __init__(self, attribute: str | None, reason: str) -> None:
        self.attribute = attribute
        self.reason = reason
        super().__init__(f"event attribute {attribute!r}: {reason}" if attribute else f"event: {reason}")


class EventConflict(EventRejected):
    """The same event identity arrived with another payload."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            "id", f"this (source, id) was accepted before with another payload, for run {run_id}"
        )


class TimestampError(LouverError):
    """The text is not an RFC 3339 date-time."""


class ValueRefused(LouverError):
    """
    The value is outside the typed value rules (semantics, section 5).

    :param path: where in the value, as ``$.items[2].price``.
    :param reason: which rule it breaks.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class IntegrityError(LouverError):
    """The stored bytes are not what was signed."""


class NoResult(IntegrityError):
    """The task was marked as succeeded by hand: there never was a result to be gone."""


class IllegalTransition(LouverError):
    """The state machine has no such transition."""


class LedgerError(LouverError):
    """The ledger could not do it."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be reached or written."""


class LedgerClosed(LedgerError):
    """The ledger was closed; open it again."""


class LedgerSchemaError(LedgerError):
    """The ledger's schema is not the one this release works with."""


class Superseded(LedgerError):
    """This process is no longer the current one of its task and can write nothing more."""


class EffectError(LouverError):
    """The effect was refused."""


class EffectConflict(EffectError):
    """The effect key is in use with another intent; its recorded result is not reused."""


class EffectInProgress(EffectError):
    """
    Another process holds a live lease on this effect.

    :param until: when the lease can be taken for expired, aware UTC.
    """

    def __init__(self, message: str, *, until: datetime) -> None:
        self.until = until
        super().__init__(message)


class EffectUnknown(EffectError):
    """It is unknown whether the effect happened; a person has to decide."""


class EffectNotPerformed(EffectError):
    """Raise it from ``perform`` to prove that nothing happened: the effect may begin again."""


class ApprovalError(LouverError):
    """The approval does not allow this."""


class ApprovalStale(ApprovalError):
    """
    What was approved is no longer what would run.

    :param reason: which bound fact differs.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the approval is stale: {reason}; nothing was done")


class ApprovalRejected(ApprovalError):
    """The approval was rejected."""


class ApprovalExpired(ApprovalError):
    """The approval request expired; expiry never approves."""


class ApprovalClosed(ApprovalError):
    """The approval request is not open for this answer."""


class DefinitionChanged(LouverError):
    """The run began under another definition."""


class AttemptsExhausted(LouverError):
    """The step used up its attempts."""


class CompensationFailed(LouverError):
    """A compensation failed and waits for a person."""


class NotRun(LouverError):
    """The workflow's rules do not let the step run."""


class StepSkipped(LouverError):
    """The step has nothing to do; what depends on it goes by its join."""


class UpstreamUndone(LouverError):
    """What this step builds on was undone; clear the upstream step too."""


class CommandRefused(LouverError):
    """
    The command makes no sense in the task's state.

    :param state: the task's state now.
    """

    def __init__(self, message: str | None = None, *, state: Any = None) -> None:
        self.state = state
        super().__init__(message)


class TimeoutReached(LouverError):
    """
    The step took longer than it may.

    :param overrun: which limit, and by how much; see :class:`louver.timeouts.Overrun`.
    """

    def __init__(self, message: str | None = None, *, overrun: Any = None) -> None:
        self.overrun = overrun
        super().__init__(message)


class TaskCancelled(LouverError):
    """
    The task was asked to stop.

    :param state: how it ended, where the ledger has recorded that already.
    """

    def __init__(self, message: str | None = None, *, state: Any = None) -> None:
        self.state = state
        super().__init__(message)


_LONGEST = 1000


def describe(error: BaseException) -> str:
    """
    What may be written down of an error: its type, and its text only where the text is Louver's own.

    A foreign exception's text may hold payload, so logs and the audit trail get its type alone (row O9). That
    of :class:`EffectNotPerformed` is foreign too: ``perform`` gives it. The text is one that every store can
    hold: at most 1000 characters, without NUL and lone surrogates.
    """
    if not isinstance(error, LouverError) or isinstance(error, EffectNotPerformed):
        return type(error).__name__
    text = str(error).replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def require_aware(name: str, value: datetime) -> datetime:
    """Refuse a naive datetime at construction; returns the value unchanged."""
    if value.tzinfo is None or value.utcoffset() is None:
        raise ConfigurationError(f"{name} must be an aware datetime, not a naive one")
    return value


def require_text(name: str, value: Any) -> str:
    """Refuse anything but a non-empty string; returns it unchanged."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} must be a non-empty string, not {type(value).__name__}")
    return value
