"""
Compensation: undoing what a run has done, in reverse order of commit, once each (semantics section 4).

An undo is an effect of its own, under the key ``undo:<key>#<epoch>``, so everything that makes an effect safe
makes its undo safe too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from louver.effects import QUIESCE, EffectCall, quiet_time, run_effect, settle_in_progress, verify_effect
from louver.errors import EffectInProgress, EffectUnknown, IntegrityError, LedgerError, describe
from louver.ledger.names import EffectKind, EffectState, OnUnknown, RunKey
from louver.ledger.records import EffectRecord
from louver.policies import CompensationPolicy, RetryPolicy, decide_retry
from louver.ports import StepRuntime
from louver.references import resolve

__all__ = ["CompensationReport", "Tally", "Undo", "compensate_run", "plan_undos", "tally"]

_POLL = timedelta(seconds=1)

_PATIENCE = timedelta(minutes=10)
"""How long to wait for a process that keeps its lease alive, before the closing task is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """
    What a compensation is given.

    :param key: the provider's idempotency key of this undo.
    :param effect_key: the one that the effect was performed under.
    :param name: the effect's name.
    :param intent: as it was recorded.
    :param result: as it was recorded; ``None`` where the effect is unknown.
    :param status: ``committed``, or ``unknown``: then find out first whether there is anything to undo.
    """

    key: str
    effect_key: str
    name: str
    intent: Any = field(repr=False)
    result: Any = field(repr=False)
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationReport:
    """
    What became of a run's effects.

    :param undone: effects undone by this call, in the order it undid them.
    :param failed: effects that wait for a person.
    :param standing: effects without a recorded compensation; they are left as they are.

    Where an undo that failed ends it, the effects that it did not come to are in none of them.
    """

    undone: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many of a run's effects are undone, wait for a person, or still have to be undone."""

    undone: int
    failed: int
    outstanding: int


def tally(effects: Iterable[EffectRecord]) -> Tally:
    """Count the run's own effects; undos are counted by what they undo."""
    forward = _forward(effects)
    return Tally(
        undone=sum(effect.state is EffectState.UNDONE for effect in forward),
        failed=sum(effect.state is EffectState.UNDO_FAILED for effect in forward),
        # An unknown one is outstanding until compensation has found out, or given it up.
        outstanding=sum(
            effect.state in (EffectState.STARTED, EffectState.UNKNOWN)
            or (effect.state is EffectState.COMMITTED and effect.undo is not None)
            for effect in forward
        ),
    )


def _forward(effects: Iterable[EffectRecord]) -> list[EffectRecord]:
    """What the run has done; undos are not, nor is what a run that had its id before has left standing."""
    return [effect for effect in effects if effect.kind is EffectKind.FORWARD and not effect.outlived]


def plan_undos(effects: Iterable[EffectRecord]) -> list[EffectRecord]:
    """
    What has to be undone, in the order to do it: unknown effects first, then the newest commit first.

    An unknown one began after everything that its step knew to be committed.
    """
    standing = [
        effect for effect in _forward(effects) if effect.state in (EffectState.COMMITTED, EffectState.UNKNOWN)
    ]
    return sorted(
        standing,
        key=lambda effect: (
            effect.state is EffectState.UNKNOWN,
            effect.commit_sequence or 0,
            effect.started_at,
        ),
        reverse=True,
    )


def compensate_run(
    run: RunKey, runtime: StepRuntime, policy: CompensationPolicy | None = None
) -> CompensationReport:
    """
    Undo the run's effects. Resumable at every point: called again, it goes on with what is left.

    Where an undo fails after its attempts, the effect waits for a person, and the policy says whether the
    rest goes on (case E06). With ``stop`` nothing is undone while an effect of the run waits so.

    :param policy: by default the rest goes on.
    :raises EffectInProgress: while some process may still be inside a ``perform``.
    :raises LedgerError: where the ledger fails; nothing is taken for undone then.
    """
    policy = policy or CompensationPolicy()
    _quiesce(run, runtime)
    effects = runtime.ledger.list_effects(run)
    undone: list[str] = []
    # An earlier call may have given some up already: they still wait for a person.
    failed = [one.reference for one in _forward(effects) if one.state is EffectState.UNDO_FAILED]
    standing: list[str] = []
    for effect in plan_undos(effects):
        if failed and policy.stops:
            runtime.log.tell("compensation.stopped", "the rest stands: %s waits for a person", failed[0])
            break
        outcome = _compensate(effect, runtime, policy.retry)
        {EffectState.UNDONE: undone, EffectState.UNDO_FAILED: failed}.get(outcome, standing).append(
            effect.reference
        )
    return CompensationReport(undone=tuple(undone), failed=tuple(failed), standing=tuple(standing))


def _quiesce(run: RunKey, runtime: StepRuntime) -> None:
    """Wait until no process can be inside a ``perform``; verify what is unknown then."""
    patience = runtime.now() + _PATIENCE
    for effect in runtime.ledger.list_effects(run):
        current: EffectRecord | None = effect
        # Of a process that lives no more, nothing is in progress then.
        deadline = max(patience, effect.lease_until + quiet_time(effect))
        while current is not None and current.state is EffectState.STARTED:
            if settle_in_progress(current, runtime) is None:
                if runtime.now() >= deadline:
                    raise EffectInProgress(
                        f"effect {current.reference} is still in progress", until=current.lease_until
                    )
                runtime.clock.sleep(_POLL)
            current = runtime.ledger.get_effect(effect.scope, effect.key)
        if (
            current is not None
            and current.state is EffectState.UNKNOWN
            and current.kind is EffectKind.FORWARD
        ):
            try:
                # Nobody is asked by a function that was exchanged in the effect's row.
                runtime.ledger.load_effect(current)
                verify_effect(current, runtime)
            except LedgerError:
                raise
            except Exception as error:
                # A provider that does not answer leaves the effect unknown; the person is told below.
                runtime.log.tell(
                    "effect.unverified", "effect %s: verify raised %s", current.reference, describe(error)
                )


def _compensate(effect: EffectRecord, runtime: StepRuntime, retry: RetryPolicy) -> EffectState:
    try:
        # What its row says is believed only where the ledger vouches for it.
        intent, result = runtime.ledger.load_effect(effect)
    except IntegrityError as error:
        return _give_up(effect, runtime, describe(error))
    if effect.undo is None and effect.state is EffectState.COMMITTED:
        runtime.log.tell("undo.none", "effect %s: it has no compensation and stands", effect.reference)
        return effect.state
    if effect.undo is None or (effect.state is EffectState.UNKNOWN and not effect.provider_idempotent):
        return _give_up(effect, runtime, "unknown, and nobody can find out but a person")
    attempt = 0
    while True:
        attempt += 1
        try:
            run_effect(_undo_call(effect, intent, result), runtime)
        except (LedgerError, EffectInProgress):
            # Another process may be undoing it at this moment; it is not for this one to give it up.
            raise
        except EffectUnknown as error:
            return _give_up(effect, runtime, describe(error))
        except Exception as error:
            decision = decide_retry(retry, error, failures=attempt, seed=effect.reference)
            reason = f"{decision.reason}: {describe(error)}"
            runtime.log.tell("undo.attempt_failed", "undo of effect %s: %s", effect.reference, reason)
            if not decision.retry:
                return _give_up(effect, runtime, reason)
            runtime.clock.sleep(decision.delay)
        else:
            runtime.log.tell("undo.done", "effect %s: undone", effect.reference)
            return EffectState.UNDONE


def _undo_call(effect: EffectRecord, intent: Any, result: Any) -> EffectCall:
    function = resolve(effect.undo or "", what=f"compensation of effect {effect.name!r}")

    def perform(key: str) -> Any:
        return function(
            Undo(
                key=key,
                effect_key=effect.provider_key,
                name=effect.name,
                intent=intent,
                result=result,
                status=str(effect.state),
            )
        )

    return EffectCall(
        scope=effect.scope,
        key=f"undo:{effect.reference}",
        name=f"undo:{effect.name}",
        kind=EffectKind.UNDO,
        undoes=effect.reference,
        intent=intent,
        perform=perform,
        provider_idempotent=effect.provider_idempotent,
        on_unknown=OnUnknown.RETRY if effect.provider_idempotent else OnUnknown.MANUAL,
        # It is the same provider.
        quiesce=max(QUIESCE, quiet_time(effect)),
    )


def _give_up(effect: EffectRecord, runtime: StepRuntime, reason: str) -> EffectState:
    settled = runtime.ledger.give_up_undo(runtime.token, effect, reason=reason, now=runtime.now())
    if settled.state is EffectState.UNDONE:
        # It was done and is recorded, whatever went wrong afterwards, as with what the undo returned.
        runtime.log.tell("undo.done", "effect %s: undone (%s)", effect.reference, reason)
        return settled.state
    runtime.log.tell(
        "undo.failed", "effect %s: not undone (%s); it waits for a person", effect.reference, reason
    )
    return EffectState.UNDO_FAILED
