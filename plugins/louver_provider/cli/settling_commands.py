"""Bodies of ``effects renew``, ``compensations retry`` and ``compensations resolve``: a person's word."""

from __future__ import annotations

from argparse import Namespace

from louver.clock import SystemClock
from louver.closing import close_run, overview
from louver.ledger.contract import Ledger
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import EffectKind, EffectState, RunKey
from louver.ledger.records import EffectRecord
from louver.states import Source
from louver_provider.cli.common import BAD_USAGE, fail, find_run, louver_command, show, user
from louver_provider.cli.listings import effect_row
from louver_provider.closing_tasks import compensate_again
from louver_provider.hooks.ledger import get_ledger

__all__ = ["compensations_resolve", "compensations_retry", "effects_renew"]

_WAITING = (EffectState.UNKNOWN, EffectState.UNDO_FAILED)


def _word(text: str, option: str) -> Word:
    if not text.strip():
        fail(f"{option} must say something: it is what the audit trail keeps", BAD_USAGE)
    return Word(actor=user(), reason=text, source=Source.CLI)


def _effect(ledger: Ledger, args: Namespace) -> EffectRecord:
    """The effect that KEY names: its newest epoch, or the one behind ``#``."""
    named = [effect for effect in ledger.find_effects(key=args.key) if _is_meant(effect, args)]
    if not named and "#" in args.key:
        same = ledger.find_effects(key=args.key.rpartition("#")[0])
        named = [effect for effect in same if effect.reference == args.key and _is_meant(effect, args)]
    scopes = sorted({effect.scope for effect in named})
    if len(scopes) > 1:
        fail(
            f"effect key {args.key!r} is used in several scopes: {', '.join(scopes)}; name one with --scope",
            2,
        )
    if not named:
        fail(f"there is no effect {args.key!r}; see airflow louver effects list")
    return max(named, key=lambda effect: effect.epoch)


def _is_meant(effect: EffectRecord, args: Namespace) -> bool:
    return effect.kind is EffectKind.FORWARD and args.scope in (None, effect.scope)


@louver_command
def effects_renew(args: Namespace) -> None:
    """``airflow louver effects renew KEY --reason TEXT``"""
    word = _word(args.reason, "--reason")
    ledger = get_ledger()
    effect = _effect(ledger, args)
    if effect.state in (EffectState.FAILED, EffectState.UNDONE):
        fail(f"effect {effect.reference} is {effect.state}: it may be begun again as it is")
    if effect.state in _WAITING:
        fail(f"effect {effect.reference} is {effect.state}; first settle it by compensations resolve")
    renewed = ledger.renew_effect(effect, word=word, now=SystemClock().now())
    if renewed is None:
        fail(f"effect {effect.reference} has changed meanwhile; look at it again")
    show(args, [effect_row(renewed)])


@louver_command
def compensations_resolve(args: Namespace) -> None:
    """``airflow louver compensations resolve KEY --note TEXT``"""
    word = _word(args.note, "--note")
    ledger = get_ledger()
    effect = _effect(ledger, args)
    if effect.state not in _WAITING:
        fail(f"effect {effect.reference} is {effect.state} and waits for nobody")
    undone = args.settled_as == "undone"
    settled = ledger.settle_effect(effect, undone=undone, word=word, now=SystemClock().now())
    if settled is None:
        fail(f"effect {effect.reference} has changed meanwhile, or is being undone; look at it again")
    show(args, [effect_row(settled) | {"run_state": _close(ledger, settled.task.run)}])


def _close(ledger: Ledger, run: RunKey) -> str:
    """What has become of the run; that is written down again where it is over."""
    record = ledger.get_run(run)
    if record is not None and record.state.terminal:
        return str(close_run(run, ledger, now=SystemClock().now()).state)
    return str(overview(run, ledger).state)


@louver_command
def compensations_retry(args: Namespace) -> None:
    """``airflow louver compensations retry RUN``"""
    ledger = get_ledger()
    run = find_run(ledger, args)
    seen = overview(run.key, ledger)
    if not seen.evaluation.forward.terminal:
        fail(f"run {run.run_id} is {seen.state}: it has not come to its compensation yet")
    given_up = [
        effect
        for effect in ledger.list_effects(run.key)
        if effect.kind is EffectKind.FORWARD and effect.state is EffectState.UNDO_FAILED
    ]
    if seen.state.terminal and not given_up:
        fail(f"run {run.run_id} is {seen.state}: there is nothing left to undo")
    word = Word(actor=user(), reason=args.reason or None, source=Source.CLI)

    def reopen() -> None:
        for effect in given_up:
            ledger.reopen_undo(effect, word=word, now=SystemClock().now())

    cleared = compensate_again(run.key, reopen, word=word)
    show(
        args,
        [
            {"dag_id": key.dag_id, "run_id": key.run_id, "task_id": key.task_id, "became": "cleared"}
            for key in cleared
        ],
    )
