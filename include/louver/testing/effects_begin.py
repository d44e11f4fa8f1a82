"""Beginning an effect: one decision, whatever is known of its key (semantics section 3, point 2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from louver.errors import EffectConflict, EffectUnknown, Superseded, ValueRefused
from louver.ledger.names import EffectKind, EffectState, OnUnknown, RunKey
from louver.ledger.requests import BeginOutcome
from louver.testing.scene import Scene, check

__all__ = [
    "check_begin_effect_after_a_failed_one_takes_a_corrected_intent",
    "check_begin_effect_after_an_undone_one_opens_the_next_epoch",
    "check_begin_effect_by_a_superseded_process_is_refused",
    "check_begin_effect_for_the_first_time_registers_everything",
    "check_begin_effect_of_a_committed_one_gives_the_recorded_result",
    "check_begin_effect_of_a_started_one_is_in_progress",
    "check_begin_effect_of_an_unknown_one_says_so",
    "check_begin_effect_repeated_by_another_process_is_in_progress",
    "check_begin_effect_repeated_by_the_same_call_is_begun",
    "check_begin_effect_repeated_once_it_has_ended_finds_how",
    "check_begin_effect_where_the_undo_failed_waits_for_a_person",
    "check_begin_effect_with_a_refused_intent_writes_nothing",
    "check_begin_effect_with_another_intent_is_a_conflict_while_the_known_one_stands",
    "check_begin_effect_with_the_same_key_in_another_scope_is_another_effect",
    "check_get_effect_of_an_unknown_one_is_none",
    "check_list_effects_gives_those_that_the_run_began_in_order",
    "check_load_effect_keeps_epochs_apart",
    "check_retry_effect_by_a_superseded_process_is_refused",
    "check_retry_effect_goes_on_in_the_same_epoch",
    "check_retry_effect_of_what_is_not_unknown_is_none",
]


@check
def check_begin_effect_for_the_first_time_registers_everything(scene: Scene) -> None:
    """Who began it, its lease and its undo are kept before it can happen."""
    token = scene.launch("act")
    request = scene.effect()

    begun = scene.ledger.begin_effect(token, request, now=scene.tick())

    record = begun.record
    scene.equal((begun.outcome, begun.result), (BeginOutcome.BEGUN, None), "the answer")
    scene.equal((record.scope, record.key, record.epoch), (request.scope, "pay", 1), "which effect it is")
    scene.equal((record.state, record.kind), (EffectState.STARTED, EffectKind.FORWARD), "its state")
    scene.equal((record.name, record.intent_hash), ("pay", request.intent_hash), "what it is about to do")
    scene.equal((record.undo, record.verify), ("contract.refund", "contract.look_up"), "its callables")
    scene.equal((record.on_unknown, record.provider_idempotent), (OnUnknown.MANUAL, True), "its policy")
    scene.equal((record.task, record.session, record.process), (token.key, 1, token.process), "who began it")
    scene.equal((record.incarnation, record.generation), (1, 1), "when in the task's life it began")
    scene.equal((record.lease_until, record.quiesce_seconds), (request.lease_until, 30.0), "its lease")
    scene.equal((record.started_at, record.updated_at), (scene.now, scene.now), "its times")
    scene.equal((record.approval_id, record.commit_sequence, record.reason), (None, None, None), "the rest")
    scene.equal(scene.ledger.get_effect(request.scope, "pay"), record, "what is read again")
    scene.equal(scene.ledger.load_effect(record), ({"amount": 5}, None), "its intent and result")


@check
def check_begin_effect_of_a_committed_one_gives_the_recorded_result(scene: Scene) -> None:
    """Another attempt, and another run, get what is recorded; nothing is written."""
    committed = scene.committed(scene.launch("act"), result={"receipt": 7})
    retried = scene.launch("act", try_number=2)
    elsewhere = scene.launch("act", run=RunKey(scene.run.dag_id, "run-2"))

    with scene.unchanged("an effect that is committed"):
        for token in (retried, elsewhere):
            begun = scene.ledger.begin_effect(token, scene.effect(), now=scene.now)
            scene.equal(begun.outcome, BeginOutcome.RECORDED, "the answer")
            scene.equal((begun.record, begun.result), (committed, {"receipt": 7}), "what is recorded")


@check
def check_begin_effect_of_a_started_one_is_in_progress(scene: Scene) -> None:
    """Whoever else wants to begin it, the same task's next session included, is told who is at it."""
    started = scene.started(scene.launch("act"))
    again = scene.launch("act", try_number=2)
    other = scene.launch("look")

    with scene.unchanged("an effect that is in progress"):
        for token in (again, other):
            begun = scene.ledger.begin_effect(token, scene.effect(), now=scene.after(3600))
            scene.equal((begun.outcome, begun.record), (BeginOutcome.IN_PROGRESS, started), "the answer")


@check
def check_begin_effect_repeated_by_the_same_call_is_begun(scene: Scene) -> None:
    """Whose answer was lost calls again, with the same ticket, and finds that it was begun by itself."""
    token = scene.launch("act")
    request = scene.effect()
    first = scene.ledger.begin_effect(token, request, now=scene.tick())

    with scene.unchanged("a begin repeated"):
        again = scene.ledger.begin_effect(token, request, now=scene.tick())
        scene.equal(again, first, "what the repetition is told")
        other = scene.ledger.begin_effect(token, scene.effect(), now=scene.now)
        scene.equal(other.outcome, BeginOutcome.IN_PROGRESS, "what another call of this process is told")

    scene.ledger.keep_effect(token, first.record, lease_until=scene.after(600))
    again = scene.ledger.begin_effect(token, request, now=scene.tick())
    scene.equal(again.outcome, BeginOutcome.BEGUN, "the answer once the lease was renewed")
    scene.equal(again.record, scene.current(first.record), "the effect, as it stands now")


@check
def check_begin_effect_repeated_by_another_process_is_in_progress(scene: Scene) -> None:
    """A ticket names a call of one process; what another one holds by it is another call."""
    request = scene.effect()
    started = scene.ledger.begin_effect(scene.launch("act"), request, now=scene.tick()).record
    again = scene.launch("act", try_number=2)
    other = scene.launch("look")

    with scene.unchanged("an effect that is in progress"):
        for token in (again, other):
            begun = scene.ledger.begin_effect(token, request, now=scene.now)
            scene.equal((begun.outcome, begun.record), (BeginOutcome.IN_PROGRESS, started), "the answer")


@check
def check_begin_effect_repeated_once_it_has_ended_finds_how(scene: Scene) -> None:
    """A call that comes back late performs nothing a second time."""
    token = scene.launch("act")
    done, lost = scene.effect("done"), scene.effect("lost")
    committed = scene.ledger.begin_effect(token, done, now=scene.tick()).record
    scene.ledger.commit_effect(token, committed, "receipt", now=scene.tick())
    unknown = scene.ledger.begin_effect(token, lost, now=scene.tick()).record
    scene.ledger.lose_effect(unknown, reason="its process is dead", now=scene.tick())

    with scene.unchanged("a begin repeated late"):
        begun = scene.ledger.begin_effect(token, done, now=scene.now)
        scene.equal((begun.outcome, begun.result), (BeginOutcome.RECORDED, "receipt"), "what is committed")
        begun = scene.ledger.begin_effect(token, lost, now=scene.now)
        scene.equal(begun.outcome, BeginOutcome.UNKNOWN, "what is unknown")


@check
def check_begin_effect_of_an_unknown_one_says_so(scene: Scene) -> None:
    """It does not begin again by itself."""
    lost = scene.lost(scene.launch("act"))
    token = scene.launch("act", try_number=2)

    with scene.unchanged("an effect that is unknown"):
        begun = scene.ledger.begin_effect(token, scene.effect(), now=scene.now)
        scene.equal((begun.outcome, begun.record), (BeginOutcome.UNKNOWN, lost), "the answer")


@check
def check_begin_effect_with_another_intent_is_a_conflict_while_the_known_one_stands(scene: Scene) -> None:
    """Started, committed, unknown or not undone: the conflict comes before anything else."""
    token = scene.launch("act")
    scene.started(token, "started")
    scene.committed(token, "committed")
    scene.lost(token, "unknown")
    stuck = scene.committed(token, "undo_failed")
    scene.ledger.give_up_undo(token, stuck, reason="refused", now=scene.tick())

    for key in ("started", "committed", "unknown", "undo_failed"):
        with scene.unchanged(f"another intent where the effect is {key}"):
            other = scene.effect(key, intent={"amount": 6})
            error = scene.refused(
                EffectConflict,
                partial(scene.ledger.begin_effect, token, other, now=scene.now),
                key,
            )
            scene.holds("amount" not in str(error), "the message must not show the intent")


@check
def check_begin_effect_after_a_failed_one_takes_a_corrected_intent(scene: Scene) -> None:
    """It is proven that nothing happened, so it begins again in the same epoch, with the intent of now."""
    lost = scene.lost(scene.launch("act"))
    token = scene.launch("look")
    failed = scene.ledger.fail_effect(token, lost, reason="it was refused", now=scene.tick())
    scene.equal(failed.state, EffectState.FAILED, "its state before")

    again = scene.started(token, intent={"amount": 6}, undo="contract.other")

    scene.equal((again.epoch, again.state, again.reason), (1, EffectState.STARTED, None), "the effect")
    scene.equal((again.task, again.undo), (token.key, "contract.other"), "who began it, and its undo")
    scene.equal(scene.ledger.load_effect(again), ({"amount": 6}, None), "its intent")
    scene.equal(scene.ledger.list_effects(scene.run), [again], "the effects of the run")


@check
def check_begin_effect_after_an_undone_one_opens_the_next_epoch(scene: Scene) -> None:
    """The provider gets another key; the epoch that was undone stays as it is."""
    token = scene.launch("act")
    undone = scene.undone(token)
    scene.equal(undone.state, EffectState.UNDONE, "its state before")

    again = scene.started(token, intent={"amount": 6})

    scene.equal((again.epoch, again.provider_key), (2, "pay#2"), "the new epoch")
    scene.equal(scene.current(undone), again, "the newest epoch")
    scene.holds(undone in scene.ledger.list_effects(scene.run), "the undone epoch must stay")

    twice = scene.ledger.commit_effect(token, again, "second", now=scene.tick())
    undo = scene.ledger.begin_effect(token, scene.undo_of(twice), now=scene.tick()).record
    scene.ledger.commit_effect(token, undo, None, now=scene.tick())
    scene.equal(scene.started(token).epoch, 3, "the epoch after that")
    scene.holds(undone in scene.ledger.list_effects(scene.run), "the first epoch must still be as it was")


@check
def check_begin_effect_where_the_undo_failed_waits_for_a_person(scene: Scene) -> None:
    """Nobody knows what stands, so it neither begins nor is it recorded."""
    token = scene.launch("act")
    scene.ledger.give_up_undo(token, scene.committed(token), reason="refused", now=scene.tick())

    with scene.unchanged("an effect whose undo failed"):
        scene.refused(
            EffectUnknown, lambda: scene.ledger.begin_effect(token, scene.effect(), now=scene.now), "begin"
        )


@check
def check_begin_effect_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """The fence is asked in the same transaction; not even what is recorded is given."""
    old = scene.launch("act")
    scene.launch("act", try_number=2)

    with scene.unchanged("a process that was replaced"):
        scene.refused(
            Superseded, lambda: scene.ledger.begin_effect(old, scene.effect(), now=scene.now), "begin"
        )
    scene.equal(scene.ledger.get_effect(scene.effect().scope, "pay"), None, "the effect")


@check
def check_begin_effect_with_a_refused_intent_writes_nothing(scene: Scene) -> None:
    """An intent that cannot be kept could not be undone."""
    token = scene.launch("act")
    request = replace(scene.effect(), intent={"amount": object()})

    with scene.unchanged("a refused intent"):
        scene.refused(
            ValueRefused, lambda: scene.ledger.begin_effect(token, request, now=scene.now), "an object"
        )
    scene.started(token)


@check
def check_begin_effect_with_the_same_key_in_another_scope_is_another_effect(scene: Scene) -> None:
    """A key is unique in its scope alone."""
    token = scene.launch("act")
    for scope in (f"dag:{scene.id}", f"run:{scene.id}:run-1", f"run:{scene.id}:run-2"):
        record = scene.started(token, "pay", scope=scope, intent={"scope": scope})
        scene.equal(record.epoch, 1, "the epoch")
        scene.equal(scene.ledger.load_effect(record)[0], {"scope": scope}, "the intent")


@check
def check_retry_effect_goes_on_in_the_same_epoch(scene: Scene) -> None:
    """The provider sees the same key; the session of now holds the effect."""
    lost = scene.lost(scene.launch("act"))
    token = scene.launch("act", try_number=2)
    lease = scene.after(120)

    again = scene.found(
        scene.ledger.retry_effect(token, lost, lease_until=lease, now=scene.tick()), "the effect"
    )

    scene.equal((again.state, again.epoch), (EffectState.STARTED, 1), "the effect")
    scene.equal(again.provider_key, lost.provider_key, "the provider's key")
    scene.equal((again.session, again.process), (token.session, token.process), "who holds it")
    scene.equal((again.lease_until, again.updated_at), (lease, scene.now), "its lease")
    scene.equal(scene.current(lost), again, "what is read again")
    scene.equal(
        scene.ledger.commit_effect(token, again, "receipt", now=scene.tick()).state,
        EffectState.COMMITTED,
        "the state once it is committed",
    )


@check
def check_retry_effect_of_what_is_not_unknown_is_none(scene: Scene) -> None:
    """Of two that want to retry it, one is quicker; what is committed or failed is not performed again."""
    token = scene.launch("act")
    lost = scene.lost(token, "retried")
    other = scene.launch("look")
    scene.found(scene.ledger.retry_effect(token, lost, lease_until=scene.after(60), now=scene.tick()), "it")
    committed = scene.committed(token, "committed")
    failed = scene.ledger.fail_effect(token, scene.started(token, "failed"), reason="no", now=scene.tick())

    with scene.unchanged("an effect that is not unknown"):
        for record in (lost, committed, failed):
            again = scene.ledger.retry_effect(other, record, lease_until=scene.after(60), now=scene.now)
            scene.equal(again, None, f"the retry of {record.key}")


@check
def check_retry_effect_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """A process that was replaced performs nothing again."""
    old = scene.launch("act")
    lost = scene.lost(old)
    scene.launch("act", try_number=2)

    with scene.unchanged("a process that was replaced"):
        scene.refused(
            Superseded,
            lambda: scene.ledger.retry_effect(old, lost, lease_until=scene.after(60), now=scene.now),
            "retry",
        )


@check
def check_get_effect_of_an_unknown_one_is_none(scene: Scene) -> None:
    """What nobody began is not there."""
    scene.started(scene.launch("act"))
    scope = scene.effect().scope
    scene.equal(scene.ledger.get_effect(scope, "other"), None, "another key")
    scene.equal(scene.ledger.get_effect(f"{scope}-2", "pay"), None, "another scope")


@check
def check_list_effects_gives_those_that_the_run_began_in_order(scene: Scene) -> None:
    """In order of their start, undos included; what another run began belongs to that one."""
    token = scene.launch("act")
    other_run = RunKey(scene.run.dag_id, "run-2")
    other = scene.launch("act", run=other_run)
    later = scene.started(token, "z")
    scene.started(other, "m")
    first = scene.committed(token, "a")
    undo = scene.ledger.begin_effect(token, scene.undo_of(first), now=scene.tick()).record
    scene.ledger.commit_effect(token, later, None, now=scene.tick())

    listed = [(effect.key, effect.kind) for effect in scene.ledger.list_effects(scene.run)]
    forward, undoing = EffectKind.FORWARD, EffectKind.UNDO
    scene.equal(listed, [("z", forward), ("a", forward), (undo.key, undoing)], "those of the run")
    scene.equal([effect.key for effect in scene.ledger.list_effects(other_run)], ["m"], "those of the other")


@check
def check_load_effect_keeps_epochs_apart(scene: Scene) -> None:
    """Each epoch has its own intent and result, so that each can be undone by what it did."""
    token = scene.launch("act")
    first = scene.undone(token)
    second = scene.committed(token, intent={"amount": 6}, result="second receipt")

    scene.equal(scene.ledger.load_effect(first), ({"amount": 5}, "receipt"), "the first epoch")
    scene.equal(scene.ledger.load_effect(second), ({"amount": 6}, "second receipt"), "the second epoch")
