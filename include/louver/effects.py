"""
Effects: acts on the world outside, each begun once at a time and committed once (semantics section 3).

:func:`decide_begin` is the rule; :func:`run_effect` drives one effect against a ledger. Louver does not claim
exactly-once in somebody else's system: where a process dies between the act and its record the outcome is
*unknown*, and what happens then is the author's explicit choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any

from louver.canonical import Canonical
from louver.crash_points import reach
from louver.errors import (
    ConfigurationError,
    EffectConflict,
    EffectInProgress,
    EffectNotPerformed,
    EffectUnknown,
    LedgerUnavailable,
    ValueRefused,
    describe,
)
from louver.leases import kept_alive
from louver.ledger.names import EffectKind, EffectState, OnUnknown
from louver.ledger.records import EffectRecord
from louver.ledger.requests import BeginOutcome, EffectRequest
from louver.plain_functions import check_returned
from louver.ports import StepRuntime
from louver.references import resolve

__all__ = [
    "ACTS",
    "LEASE",
    "QUIESCE",
    "BeginStep",
    "EffectCall",
    "Verification",
    "decide_begin",
    "quiet_time",
    "run_effect",
    "settle_in_progress",
    "verify_effect",
]

LEASE = timedelta(seconds=60)
"""How long a process may be inside ``perform`` without a sign of life."""

QUIESCE = timedelta(seconds=30)
"""How long after the lease a killed process and its provider may still act, unless the author says."""

ACTS: Mapping[EffectKind, str] = MappingProxyType(
    {EffectKind.FORWARD: "perform", EffectKind.UNDO: "undo.perform"}
)
"""What the crash points before and after the act itself are called after."""

_POLL = timedelta(seconds=1)


class BeginStep(str, Enum):
    """What beginning an effect comes to."""

    FIRST = "first"
    AGAIN = "again"
    NEXT_EPOCH = "next_epoch"
    RECORDED = "recorded"
    IN_PROGRESS = "in_progress"
    UNKNOWN = "unknown"


def decide_begin(known: EffectRecord | None, *, intent_hash: str) -> BeginStep:
    """
    What beginning an effect comes to, given what is known of its key (section 3, point 2).

    :param known: its newest epoch.
    :raises EffectConflict: another intent while the known one stands; checked first (case F07).
    :raises EffectUnknown: where its undo failed and a person has not resolved it yet.
    """
    if known is None:
        return BeginStep.FIRST
    if known.state is EffectState.UNDONE:
        return BeginStep.NEXT_EPOCH
    if known.state is EffectState.FAILED:
        return BeginStep.AGAIN
    if known.intent_hash != intent_hash:
        raise EffectConflict(
            f"effect key {known.key!r} is {known.state} with intent {known.intent_hash[:12]}; this is intent "
            f"{intent_hash[:12]}. Nothing was done and the recorded result is not reused: take another key"
        )
    if known.state is EffectState.UNDO_FAILED:
        raise EffectUnknown(f"effect {known.reference}: its undo failed; a person has to resolve that first")
    return {
        EffectState.STARTED: BeginStep.IN_PROGRESS,
        EffectState.COMMITTED: BeginStep.RECORDED,
        EffectState.UNKNOWN: BeginStep.UNKNOWN,
    }[known.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a provider says when it is asked whether an effect happened."""

    state: EffectState
    result: Any = field(default=None, repr=False)

    @classmethod
    def committed(cls, result: Any) -> Verification:
        """It happened, with this result."""
        return cls(state=EffectState.COMMITTED, result=result)

    @classmethod
    def absent(cls) -> Verification:
        """It did not happen."""
        return cls(state=EffectState.FAILED)

    @classmethod
    def unknown(cls) -> Verification:
        """The provider cannot tell."""
        return cls(state=EffectState.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectCall:
    """
    What a step wants done.

    :param scope: ``dag:<dag_id>``, ``run:<dag_id>:<run_id>`` or ``global``.
    :param perform: is handed the provider's idempotency key and returns a typed value.
    :param undo: import path of the compensation.
    :param verify: import path of ``verify(key) -> Verification``.
    :param quiesce: how long the provider may still act after the process is gone (section 3, point 5).
    """

    scope: str
    key: str
    name: str
    intent: Any = field(repr=False)
    perform: Callable[[str], Any]
    undo: str | None = None
    verify: str | None = None
    on_unknown: OnUnknown = OnUnknown.MANUAL
    provider_idempotent: bool = False
    guarded_by: str | None = None
    kind: EffectKind = EffectKind.FORWARD
    undoes: str | None = None
    quiesce: timedelta = QUIESCE

    def __post_init__(self) -> None:
        if self.on_unknown is OnUnknown.RETRY and not self.provider_idempotent:
            raise ConfigurationError(
                f"effect {self.name!r}: on_unknown='retry' performs again and needs provider_idempotent=True"
            )
        if self.on_unknown is OnUnknown.VERIFY and self.verify is None:
            raise ConfigurationError(f"effect {self.name!r}: on_unknown='verify' needs verify=")


def run_effect(call: EffectCall, runtime: StepRuntime) -> Any:
    """
    Bring the effect about, once, and return its recorded result.

    :raises EffectConflict: the key is in use with another intent.
    :raises EffectInProgress: another process is at it and its lease will not end soon.
    :raises EffectUnknown: nobody knows whether it happened, and the author chose a person.
    :raises ApprovalStale: the approval that guards it does not allow this intent now.
    :raises Superseded: this process has been replaced.
    """
    # Written canonically once: for its hash, and for the envelope it is kept in.
    call = replace(call, intent=Canonical.of(call.intent))
    # From before it begins: another thread of the step may come to a checkpoint meanwhile.
    with _not_parking(runtime):
        return _bring_about(call, runtime)


def _bring_about(call: EffectCall, runtime: StepRuntime) -> Any:
    intent_hash = call.intent.fingerprint
    since = runtime.now()
    while True:
        begun = runtime.ledger.begin_effect(
            runtime.token, _request(call, intent_hash, runtime), now=runtime.now()
        )
        record = begun.record
        if begun.outcome is BeginOutcome.RECORDED:
            runtime.log.tell("effect.recorded", "effect %s: returned what is recorded", record.reference)
            return begun.result
        if begun.outcome is BeginOutcome.BEGUN:
            runtime.log.tell("effect.started", "effect %s: started", record.reference)
            return _perform(call, record, runtime)
        if begun.outcome is BeginOutcome.IN_PROGRESS:
            if settle_in_progress(record, runtime) is None:
                # Were its process dead, its lease and the quiet time would be over by now.
                if runtime.now() >= since + LEASE + quiet_time(record):
                    until = record.lease_until + quiet_time(record)
                    raise EffectInProgress(
                        f"effect {record.reference} is in progress elsewhere until {until.isoformat()}",
                        until=until,
                    )
                runtime.clock.sleep(_POLL)
            continue
        answer = _resolve_unknown(call, record, runtime)
        if answer is not None:
            return answer()


def _request(call: EffectCall, intent_hash: str, runtime: StepRuntime) -> EffectRequest:
    return EffectRequest(
        scope=call.scope,
        key=call.key,
        name=call.name,
        kind=call.kind,
        intent=call.intent,
        intent_hash=intent_hash,
        undo=call.undo,
        undoes=call.undoes,
        verify=call.verify,
        on_unknown=call.on_unknown,
        provider_idempotent=call.provider_idempotent,
        guarded_by=call.guarded_by,
        lease_until=runtime.now() + LEASE,
        quiesce_seconds=call.quiesce.total_seconds(),
    )


def quiet_time(record: EffectRecord) -> timedelta:
    """How long after its lease the effect may still happen."""
    return timedelta(seconds=record.quiesce_seconds)


def settle_in_progress(record: EffectRecord, runtime: StepRuntime) -> EffectRecord | None:
    """
    Started to unknown, if the effect cannot happen any more; None while it may.

    That takes proof of death, or lease and quiesce to be over (section 3, point 5). The proof is about the
    process alone: where the author says that the provider goes on for longer, it is waited for all the same.
    """
    if quiet_time(record) <= QUIESCE and runtime.liveness.proves_dead(record.process):
        reason = "its process is dead"
    elif runtime.now() >= record.lease_until + quiet_time(record):
        reason = "its lease and the quiesce time are over"
    else:
        return None
    lost = runtime.ledger.lose_effect(record, reason=reason, now=runtime.now())
    if lost is not None:
        runtime.log.tell("effect.unknown", "effect %s: unknown, %s", record.reference, reason)
    return lost


def _resolve_unknown(
    call: EffectCall, record: EffectRecord, runtime: StepRuntime
) -> Callable[[], Any] | None:
    """How to get at the result of an unknown effect; None to look again at what is known of it."""
    if call.on_unknown is OnUnknown.RETRY:
        again = runtime.ledger.retry_effect(
            runtime.token, record, lease_until=runtime.now() + LEASE, now=runtime.now()
        )
        if again is None:
            return None
        runtime.log.tell("effect.retried", "effect %s: performed again, same key", record.reference)
        return lambda: _perform(call, again, runtime)
    if call.on_unknown is OnUnknown.VERIFY:
        # The newest author's choice counts, not the one that was recorded.
        asked = replace(record, verify=call.verify)
        if verify_effect(asked, runtime) is not asked:
            # What counts is what is recorded: another process may have settled it, or begun it again.
            return None
    raise EffectUnknown(
        f"effect {record.reference} may or may not have happened ({record.reason}); it waits for a person"
    )


def verify_effect(record: EffectRecord, runtime: StepRuntime) -> EffectRecord:
    """
    Ask the provider about an unknown effect and record the answer.

    :returns: the effect afterwards: ``record`` itself where the provider cannot tell; what another process
        has made of it, where it was settled or begun again while the provider was asked.
    :raises ConfigurationError: where ``verify`` cannot be imported.
    """
    if record.verify is None:
        return record
    answer = resolve(record.verify, what=f"verify of effect {record.name!r}")(record.provider_key)
    if not isinstance(answer, Verification):
        raise ConfigurationError(f"verify of effect {record.name!r} must return a Verification")
    runtime.log.tell("effect.verified", "effect %s: the provider says %s", record.reference, answer.state)
    if answer.state is EffectState.COMMITTED:
        return runtime.ledger.commit_effect(runtime.token, record, answer.result, now=runtime.now())
    if answer.state is EffectState.FAILED:
        reason = "verified: it did not happen"
        return runtime.ledger.fail_effect(runtime.token, record, reason=reason, now=runtime.now())
    return record


def _perform(call: EffectCall, record: EffectRecord, runtime: StepRuntime) -> Any:
    def renew() -> None:
        runtime.ledger.keep_effect(runtime.token, record, lease_until=runtime.now() + LEASE)

    act = ACTS[call.kind]
    try:
        with kept_alive(renew, every=LEASE.total_seconds() / 3):
            reach(f"{act}.before")
            result = call.perform(record.provider_key)
            reach(f"{act}.after")
        check_returned(result)
    except EffectNotPerformed as error:
        runtime.ledger.fail_effect(runtime.token, record, reason=describe(error), now=runtime.now())
        runtime.log.tell("effect.failed", "effect %s: failed, nothing happened", record.reference)
        raise
    except Exception as error:
        # It may have happened before the error.
        reason = f"perform raised {describe(error)}"
        if quiet_time(record) > QUIESCE and not call.provider_idempotent:
            # Or after it: whoever asks the provider, or begins again, waits until it can act no more.
            runtime.log.tell("effect.open", "effect %s: may still happen, %s", record.reference, reason)
        elif _lose_own(record, runtime, reason=reason) is not None:
            runtime.log.tell("effect.unknown", "effect %s: unknown, %s", record.reference, reason)
        raise
    try:
        _commit(record, result, runtime)
    except ValueRefused:
        # It did happen, so it is committed and can be undone; only its result cannot be told.
        _commit(record, None, runtime)
        raise
    runtime.log.tell("effect.committed", "effect %s: committed", record.reference)
    return result


def _not_parking(runtime: StepRuntime) -> AbstractContextManager[None]:
    """A park would leave the effect behind half way: a pause that is met inside keeps the slot."""
    supervision = runtime.supervision
    return nullcontext() if supervision is None else supervision.performing()


def _commit(record: EffectRecord, result: Any, runtime: StepRuntime) -> None:
    """Record that it happened; a ledger that is away is waited for, as long as the lease holds."""
    deadline = runtime.now() + LEASE
    while True:
        try:
            runtime.ledger.commit_effect(runtime.token, record, result, now=runtime.now())
            return
        except LedgerUnavailable as error:
            if runtime.now() >= deadline:
                raise
            runtime.log.tell(
                "effect.waiting", "effect %s: happened, not recorded yet: %s", record.reference, error
            )
            runtime.clock.sleep(_POLL)


def _lose_own(record: EffectRecord, runtime: StepRuntime, *, reason: str) -> EffectRecord | None:
    """Started to unknown, by the process that began it; None where another one is at it by now."""
    # The lease has moved on if it was renewed, so read it again.
    current = runtime.ledger.get_effect(record.scope, record.key)
    if current is None or (current.epoch, current.task, current.session) != (
        record.epoch,
        record.task,
        record.session,
    ):
        return None
    return runtime.ledger.lose_effect(current, reason=reason, now=runtime.now())
