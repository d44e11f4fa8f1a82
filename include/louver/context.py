"""The one way from user code to the runtime: ``ctx``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

from louver.effects import QUIESCE, EffectCall, Verification, run_effect
from louver.errors import ApprovalStale, ConfigurationError, StepSkipped, require_text
from louver.ledger.names import OnUnknown
from louver.ledger.records import STATE
from louver.plain_functions import why_not_plain
from louver.ports import StepRuntime
from louver.references import path_of
from louver.timeouts import duration_in

__all__ = ["ContextLog", "TaskContext"]

_MAX_KEY = 1000
"""Longest key in bytes: every store has to be able to index it."""


class _AskAnew(Protocol):
    """Asks a person again for an intent that no approval allows, and parks."""

    def __call__(self, intent: Any, why: ApprovalStale) -> NoReturn: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLog:
    """
    ``ctx.log``: a line in the task's log.

    Give ids and states as arguments, never payload: the log is read by people who may not see the data (O9).
    """

    _tell: Callable[..., None]

    def __call__(self, message: str, *args: object) -> None:
        """An information."""
        self._tell("log.info", message, *args)

    def info(self, message: str, *args: object) -> None:
        """An information."""
        self._tell("log.info", message, *args)

    def warning(self, message: str, *args: object) -> None:
        """Something odd."""
        self._tell("log.warning", message, *args)

    def error(self, message: str, *args: object) -> None:
        """Something wrong."""
        self._tell("log.error", message, *args)


class TaskContext:
    """
    What a step's function may ask of Louver; handed in as ``ctx`` where the function names it.

    :param runtime: the process at work.
    :param upstream: results of the upstream nodes that succeeded, by node name.
    :param guard: the step itself, where an approval must allow its effects.
    :param approval: that approval's name.
    :param ask_anew: what happens where the approval does not.
    """

    def __init__(
        self,
        *,
        runtime: StepRuntime,
        upstream: Mapping[str, Any],
        guard: str | None = None,
        approval: str | None = None,
        ask_anew: _AskAnew | None = None,
    ) -> None:
        self._runtime = runtime
        self._guard = guard
        self._approval = approval
        self._ask_anew = ask_anew
        self.upstream: Mapping[str, Any] = MappingProxyType(upstream)
        self.log = ContextLog(_tell=runtime.log.tell)

    @property
    def name(self) -> str:
        """The step's name."""
        return self._runtime.token.key.task_id

    @property
    def task_id(self) -> str:
        """The step's name, as Airflow calls it."""
        return self._runtime.token.key.task_id

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._runtime.token.key.run_id

    @property
    def dag_id(self) -> str:
        """The workflow's name, as Airflow calls it."""
        return self._runtime.token.key.dag_id

    @property
    def map_index(self) -> int:
        """The map index; -1 where the step is not mapped."""
        return self._runtime.token.key.map_index

    @property
    def attempt(self) -> int:
        """Which attempt of this generation runs, from 1."""
        return self._runtime.token.attempt

    @property
    def artifact_dir(self) -> Path:
        """
        A directory for this attempt's files, made when it is first asked for (row T8).

        No other attempt has it, of this task or another; after a pause the attempt finds it again. Only its
        owner may look into it. It is removed when the run is cleaned from the ledger. What another step needs
        does not belong here: that may run on another machine.

        :raises ConfigurationError: where it cannot be made.
        """
        places = self._runtime.places
        if places is None:
            raise ConfigurationError("this process was given no place for artifacts")
        return places.make(self._runtime.token)

    def input(self, node: str, default: Any = None) -> Any:
        """The result of an upstream node, or ``default`` where it did not succeed."""
        return self.upstream.get(node, default)

    def checkpoint(self, state: Any = ...) -> None:
        """
        A point where the step may be interrupted; with ``state``, also one to go on from.

        :param state: a typed value (:mod:`louver.canonical`), replacing the one saved before.
        :raises TaskCancelled: where somebody wants the step to stop.
        :raises TimeoutReached: where the step took longer than it may.
        :raises Superseded: where this process has been replaced.
        :raises ValueRefused: where the state is outside the typed value rules.
        """
        runtime = self._runtime
        supervision = runtime.supervision
        if state is not ...:
            runtime.ledger.save_checkpoint(runtime.token, STATE, state, now=runtime.now())
            runtime.log.tell("checkpoint.saved", "checkpoint saved")
            if supervision is not None:
                supervision.saved()
        if supervision is not None:
            supervision.checkpoint()

    async def acheckpoint(self, state: Any = ...) -> None:
        """As :meth:`checkpoint`, for ``async`` code: the event loop goes on meanwhile."""
        await asyncio.get_running_loop().run_in_executor(None, self.checkpoint, state)

    def skip(self, reason: str) -> NoReturn:
        """
        End the step without a result: it has nothing to do.

        What depends on it goes by its join; the effects that it has done stay.

        :param reason: for the task's log; ids and states, never payload.
        :raises StepSkipped: always.
        """
        self.log.info("skipped: %s", reason)
        raise StepSkipped(reason)

    def heartbeat(self) -> None:
        """As :meth:`checkpoint` without a state."""
        self.checkpoint()

    @property
    def is_stop_requested(self) -> bool:
        """Whether somebody wants the step to stop; the next checkpoint raises."""
        supervision = self._runtime.supervision
        return supervision is not None and supervision.stop_requested

    @property
    def is_pause_requested(self) -> bool:
        """Whether somebody wants the step to pause; the next checkpoint does."""
        supervision = self._runtime.supervision
        return supervision is not None and supervision.pause_requested

    def progress(
        self, done: float, total: float | None = None, unit: str | None = None, message: str | None = None
    ) -> None:
        """
        Tell how far the step is; a side path that never fails it, and no sign of life (row T8).

        What cannot be kept (a number that is none or not finite, a unit with a NUL) is left out, and the log
        says so.

        :param done: how much, in ``unit``.
        :param total: of how much.
        :param message: goes to the task's log alone.
        """
        if message is not None:
            self.log.info("%s", message)
        supervision = self._runtime.supervision
        if supervision is not None:
            supervision.tell_progress(done, total, unit)

    def restore(self, default: Any = None) -> Any:
        """
        The newest state that this generation saved, on a retry too; ``default`` where there is none.

        :raises IntegrityError: where what is stored is not what was signed.
        """
        return self._runtime.ledger.load_checkpoint(self._runtime.token, STATE, default)

    def effect(
        self,
        name: str,
        *,
        intent: Any,
        perform: Callable[[str], Any],
        compensate: Callable[..., Any] | None = None,
        key: str | None = None,
        scope: str = "dag",
        provider_idempotent: bool = False,
        verify: Callable[[str], Verification] | None = None,
        on_unknown: str | None = None,
        approval: str | bool | None = None,
        provider_timeout: float | timedelta | None = None,
    ) -> Any:
        """
        Act on the world, once (semantics section 3).

        :param name: what is done, as ``charge``.
        :param intent: typed value: everything that decides what will happen. It is hashed; the same key with
            another intent is refused.
        :param perform: called with the provider's idempotency key; returns a typed value. Raise
            :class:`~louver.errors.EffectNotPerformed` to prove that nothing happened.
        :param compensate: module-level function that undoes it, called with an
            :class:`~louver.compensation.Undo`; registered before the effect can happen.
        :param key: business key; by default one of this run, step and name.
        :param scope: what the key is unique in: ``dag``, ``run`` or ``global``.
        :param provider_idempotent: the provider acts once per key.
        :param verify: module-level function that asks the provider about a key.
        :param on_unknown: ``verify`` (the default where ``verify`` is given), ``retry`` (needs an idempotent
            provider) or ``manual`` (the default otherwise).
        :param approval: by default the step's approval guards every effect of it; ``False`` says that this
            one needs none.
        :param provider_timeout: how long the provider may still act after this process is gone, in seconds or
            as a timedelta; by default 30 s. So long, after its lease, the effect counts as in progress.
        :returns: the recorded result, on every later call too.
        :raises EffectConflict: the key is in use with another intent.
        :raises EffectInProgress: another process is at it.
        :raises EffectUnknown: nobody knows whether it happened; it waits for a person.
        :raises ConfigurationError: arguments that cannot be used.
        """
        if (why := why_not_plain(perform)) is not None:
            raise ConfigurationError(f"effect {name!r}: perform {why}")
        call = self._effect_call(
            name=require_text("name", name),
            key=key,
            scope=scope,
            intent=intent,
            perform=perform,
            compensate=compensate,
            verify=verify,
            on_unknown=on_unknown,
            provider_idempotent=provider_idempotent,
            guarded_by=self._guarded_by(name, approval),
            quiesce=_quiesce(name, provider_timeout),
        )
        try:
            return run_effect(call, self._runtime)
        except ApprovalStale as stale:
            self._runtime.log.tell("approval.stale", "effect %s: %s", name, stale)
            if self._ask_anew is None:
                raise
            self._ask_anew(intent, stale)

    def _guarded_by(self, name: str, approval: str | bool | None) -> str | None:
        if approval is False:
            return None
        if approval is not None and (self._guard is None or approval not in (True, self._approval)):
            raise ConfigurationError(
                f"effect {name!r} wants an approval that the definition does not give its step; "
                f"the step's is {self._approval!r}"
            )
        return self._guard

    def _effect_call(
        self,
        *,
        name: str,
        key: str | None,
        scope: str,
        compensate: Callable[..., Any] | None,
        verify: Callable[[str], Verification] | None,
        on_unknown: str | None,
        **others: Any,
    ) -> EffectCall:
        token = self._runtime.token
        scopes = {
            "dag": f"dag:{token.key.dag_id}",
            "run": f"run:{token.key.dag_id}:{token.key.run_id}",
            "global": "global",
        }
        if scope not in scopes:
            raise ConfigurationError(f"effect {name!r}: scope must be one of {', '.join(scopes)}")
        choice = on_unknown or ("verify" if verify is not None else "manual")
        if choice not in {str(option) for option in OnUnknown}:
            raise ConfigurationError(f"effect {name!r}: on_unknown must be verify, retry or manual")
        if key is None:
            # A run that was deleted and made again is another run, though it has the same id.
            again = "" if token.incarnation == 1 else f"~{token.incarnation}"
            key = f"{token.key.run_id}{again}::{token.key.task_id}::{token.key.map_index}::{name}"
        if require_text("key", key).startswith("undo:"):
            raise ConfigurationError(f"effect {name!r}: a key that begins with 'undo:' is that of an undo")
        if len(key.encode("utf-8", "replace")) > _MAX_KEY:
            raise ConfigurationError(
                f"effect {name!r}: its key is longer than {_MAX_KEY} bytes; hash the long part"
            )
        return EffectCall(
            name=name,
            key=key,
            scope=scopes[scope],
            undo=None if compensate is None else path_of(compensate, what=f"compensate of effect {name!r}"),
            verify=None if verify is None else path_of(verify, what=f"verify of effect {name!r}"),
            on_unknown=OnUnknown(choice),
            **others,
        )


def _quiesce(name: str, provider_timeout: Any) -> timedelta:
    if provider_timeout is None:
        return QUIESCE
    given = duration_in(provider_timeout)
    if given is None:
        raise ConfigurationError(
            f"effect {name!r}: provider_timeout must be a time of 1 ms to 3650 days, or nothing"
        )
    return given
