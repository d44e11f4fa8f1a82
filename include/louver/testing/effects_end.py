"""How an effect ends: committed, failed, lost, undone, or given up."""

from __future__ import annotations

from louver.errors import LedgerError, Superseded, ValueRefused
from louver.ledger.names import EffectKind, EffectState, RunKey, Token
from louver.ledger.records import EffectRecord
from louver.testing.scene import Scene, check

__all__ = [
    "check_commit_effect_by_an_older_record_answers_what_is_kept",
    "check_commit_effect_by_another_session_is_refused",
    "check_commit_effect_keeps_the_result",
    "check_commit_effect_of_an_undo_settles_what_it_undoes",
    "check_commit_effect_of_an_unknown_one_by_whoever_verified_it",
    "check_commit_effect_of_an_unknown_one_of_another_run_counts_in_that_run",
    "check_commit_effect_of_an_unknown_one_that_was_begun_again_changes_nothing",
    "check_commit_effect_of_what_has_ended_is_refused",
    "check_commit_effect_orders_the_run",
    "check_commit_effect_repeated_by_whoever_verified_it_is_one_commit",
    "check_commit_effect_repeated_is_one_commit",
    "check_commit_effect_with_a_refused_value_leaves_it_started",
    "check_fail_effect_by_another_session_is_refused",
    "check_fail_effect_of_an_unknown_one_by_whoever_verified_it",
    "check_fail_effect_of_an_unknown_one_that_was_begun_again_changes_nothing",
    "check_fail_effect_proves_that_nothing_happened",
    "check_fail_effect_repeated_is_told_what_is_recorded",
    "check_give_up_undo_by_a_superseded_process_is_refused",
    "check_give_up_undo_of_what_nobody_has_to_undo_is_an_error",
    "check_give_up_undo_repeated_keeps_the_first_reason",
    "check_give_up_undo_waits_for_a_person",
    "check_keep_effect_by_another_session_is_refused",
    "check_keep_effect_renews_the_lease",
    "check_lose_effect_is_conditional_on_lease_and_session",
    "check_lose_effect_of_what_is_not_started_is_none",
    "check_lose_effect_turns_started_into_unknown",
    "check_retry_effect_by_another_run_leaves_nothing_to_whoever_began_it",
]


def _refused_to(scene: Scene, token: Token, record: EffectRecord, what: str) -> None:
    """Neither commit, fail nor keep is this token's to do."""
    ledger, now = scene.ledger, scene.now
    with scene.unchanged(what):
        scene.refused(
            Superseded, lambda: ledger.commit_effect(token, record, "mine", now=now), f"commit: {what}"
        )
        scene.refused(
            Superseded, lambda: ledger.fail_effect(token, record, reason="mine", now=now), f"fail: {what}"
        )
        scene.refused(
            Superseded,
            lambda: ledger.keep_effect(token, record, lease_until=scene.after(99)),
            f"keep: {what}",
        )


@check
def check_commit_effect_keeps_the_result(scene: Scene) -> None:
    """State and result are there together; who began it stays."""
    token = scene.launch("act")
    started = scene.started(token)

    committed = scene.ledger.commit_effect(token, started, {"receipt": 7}, now=scene.tick())

    scene.equal((committed.state, committed.commit_sequence), (EffectState.COMMITTED, 1), "the effect")
    scene.equal((committed.started_at, committed.updated_at), (started.started_at, scene.now), "its times")
    scene.equal((committed.task, committed.session), (token.key, token.session), "who began it")
    scene.equal(scene.current(started), committed, "what is read again")
    scene.equal(scene.ledger.load_effect(committed), ({"amount": 5}, {"receipt": 7}), "intent and result")


@check
def check_commit_effect_by_an_older_record_answers_what_is_kept(scene: Scene) -> None:
    """A record names the epoch; who shows one from before it began anew is told how it stands now."""
    token, other = scene.launch("act"), scene.launch("look")
    first = scene.started(token, "failed")
    scene.ledger.fail_effect(token, first, reason="no", now=scene.tick())
    scene.started(token, "failed", intent={"amount": 6}, undo="contract.other")
    kept = scene.started(token, "kept")
    scene.ledger.keep_effect(token, kept, lease_until=scene.after(600))
    lost = scene.started(token, "retried")
    scene.ledger.lose_effect(lost, reason="its process is dead", now=scene.tick())
    scene.ledger.retry_effect(other, lost, lease_until=scene.after(60), now=scene.tick())

    for holder, shown in ((token, first), (token, kept), (other, lost)):
        committed = scene.ledger.commit_effect(holder, shown, "receipt", now=scene.tick())
        scene.equal(
            committed, scene.current(shown), f"the effect {shown.key}, as it is told and as it is kept"
        )
        scene.equal(committed.state, EffectState.COMMITTED, f"the state of {shown.key}")


@check
def check_commit_effect_orders_the_run(scene: Scene) -> None:
    """The sequence is that of the commits, not of the starts, over all tasks of the run and of it alone."""
    act, look = scene.launch("act"), scene.launch("look")
    elsewhere = scene.launch("act", run=RunKey(scene.run.dag_id, "run-2"))
    first = scene.started(act, "first")
    second = scene.started(look, "second")
    other = scene.started(elsewhere, "other")

    sequence = [
        scene.ledger.commit_effect(token, record, None, now=scene.tick()).commit_sequence
        for token, record in ((look, second), (elsewhere, other), (act, first))
    ]

    scene.equal(sequence, [1, 1, 2], "the sequence of second, other and first")


@check
def check_commit_effect_by_another_session_is_refused(scene: Scene) -> None:
    """That a started one is done may be said by the session that began it alone."""
    old = scene.launch("act")
    started = scene.started(old)
    current = scene.launch("act", try_number=2)
    other = scene.launch("look")

    _refused_to(scene, old, started, "by the process that was replaced")
    _refused_to(scene, current, started, "by the process that replaced it")
    _refused_to(scene, other, started, "by another task")


@check
def check_commit_effect_of_an_unknown_one_by_whoever_verified_it(scene: Scene) -> None:
    """The provider was asked; the effect is committed though its own process is gone."""
    lost = scene.lost(scene.launch("act"))
    verifier = scene.launch("look")

    committed = scene.ledger.commit_effect(verifier, lost, "found", now=scene.tick())

    scene.equal((committed.state, committed.reason), (EffectState.COMMITTED, None), "the effect")
    scene.equal((committed.task, committed.commit_sequence), (lost.task, 1), "whose it is")
    scene.equal(scene.ledger.load_effect(committed), ({"amount": 5}, "found"), "intent and result")


@check
def check_commit_effect_of_an_unknown_one_of_another_run_counts_in_that_run(scene: Scene) -> None:
    """Who verifies it may be another run; the effect is undone with the run that began it, in its order."""
    token = scene.launch("act")
    scene.committed(token, "before")
    lost = scene.lost(token)
    verifier = scene.launch("act", run=RunKey(scene.run.dag_id, "run-2"))

    committed = scene.ledger.commit_effect(verifier, lost, "found", now=scene.tick())

    scene.equal(
        (committed.task, committed.commit_sequence), (lost.task, 2), "whose it is, and its place there"
    )
    scene.equal(scene.committed(verifier, "own").commit_sequence, 1, "the verifier's own place")


@check
def check_commit_effect_of_what_has_ended_is_refused(scene: Scene) -> None:
    """An effect is committed once; what was proven not to have happened is not."""
    token = scene.launch("act")
    committed = scene.committed(token, "committed")
    failed = scene.ledger.fail_effect(token, scene.started(token, "failed"), reason="no", now=scene.tick())

    _refused_to(scene, scene.launch("look"), committed, "a committed one")
    _refused_to(scene, token, failed, "a failed one")
    scene.equal(scene.ledger.load_effect(committed)[1], "receipt", "the result")


@check
def check_commit_effect_repeated_is_one_commit(scene: Scene) -> None:
    """Whose answer was lost may commit again, and is told what is recorded."""
    token = scene.launch("act")
    started = scene.started(token)
    committed = scene.ledger.commit_effect(token, started, "receipt", now=scene.tick())

    with scene.unchanged("a commit repeated"):
        again = scene.ledger.commit_effect(token, started, "another", now=scene.tick())

    scene.equal(again, committed, "what the repetition is told")
    scene.equal(scene.ledger.load_effect(committed)[1], "receipt", "the result")


@check
def check_commit_effect_repeated_by_whoever_verified_it_is_one_commit(scene: Scene) -> None:
    """The provider says the same again, to the same asker or the next one; another answer changes nothing."""
    lost = scene.lost(scene.launch("act"))
    verifier = scene.launch("look")
    committed = scene.ledger.commit_effect(verifier, lost, {"found": (1, None)}, now=scene.tick())

    with scene.unchanged("a commit repeated"):
        for token in (verifier, scene.launch("other", run=RunKey(scene.run.dag_id, "run-2"))):
            again = scene.ledger.commit_effect(token, lost, {"found": (1, None)}, now=scene.tick())
            scene.equal(again, committed, "what the repetition is told")
            again = scene.ledger.commit_effect(token, lost, "another", now=scene.tick())
            scene.equal(again, committed, "what another answer is told")
    scene.equal(scene.ledger.load_effect(committed)[1], {"found": (1, None)}, "the result")


@check
def check_commit_effect_with_a_refused_value_leaves_it_started(scene: Scene) -> None:
    """It can still be committed with another value."""
    token = scene.launch("act")
    started = scene.started(token)

    with scene.unchanged("a refused result"):
        scene.refused(
            ValueRefused,
            lambda: scene.ledger.commit_effect(token, started, object(), now=scene.now),
            "an object",
        )

    scene.equal(scene.ledger.load_effect(started)[1], None, "the result")
    scene.equal(
        scene.ledger.commit_effect(token, started, None, now=scene.tick()).commit_sequence, 1, "its place"
    )


@check
def check_commit_effect_of_an_undo_settles_what_it_undoes(scene: Scene) -> None:
    """The undo and what it undoes change together, and nothing else does."""
    token = scene.launch("act")
    original, other = scene.committed(token), scene.committed(token, "other")
    undo = scene.ledger.begin_effect(token, scene.undo_of(original), now=scene.tick()).record
    scene.equal((undo.kind, undo.undoes), (EffectKind.UNDO, "pay#1"), "the undo")
    scene.equal(undo.provider_key, "undo:pay#1", "the provider's key of the undo")
    scene.equal(scene.current(original), original, "the original while the undo is at work")

    done = scene.ledger.commit_effect(token, undo, "refunded", now=scene.tick())

    scene.equal(done.state, EffectState.COMMITTED, "the undo")
    settled = scene.current(original)
    scene.equal((settled.state, settled.updated_at), (EffectState.UNDONE, scene.now), "the original")
    scene.equal(settled.commit_sequence, original.commit_sequence, "the original's place")
    scene.equal(scene.current(other), other, "another effect")
    scene.equal(scene.ledger.load_effect(settled), ({"amount": 5}, "receipt"), "what the original did")


@check
def check_fail_effect_proves_that_nothing_happened(scene: Scene) -> None:
    """It is failed, with the reason, and has no result."""
    token = scene.launch("act")
    started = scene.started(token)

    failed = scene.ledger.fail_effect(token, started, reason="the provider refused", now=scene.tick())

    scene.equal((failed.state, failed.reason), (EffectState.FAILED, "the provider refused"), "the effect")
    scene.equal((failed.updated_at, failed.commit_sequence), (scene.now, None), "its time and place")
    scene.equal(scene.current(started), failed, "what is read again")


@check
def check_fail_effect_of_an_unknown_one_by_whoever_verified_it(scene: Scene) -> None:
    """The provider says that it did not happen."""
    lost = scene.lost(scene.launch("act"))
    verifier = scene.launch("look")

    failed = scene.ledger.fail_effect(verifier, lost, reason="absent", now=scene.tick())

    scene.equal((failed.state, failed.reason, failed.task), (EffectState.FAILED, "absent", lost.task), "it")


@check
def check_fail_effect_repeated_is_told_what_is_recorded(scene: Scene) -> None:
    """By who began it, for whom another reason is another word; and by who asked the provider."""
    token, verifier = scene.launch("act"), scene.launch("look")
    started, lost = scene.started(token, "started"), scene.lost(token, "lost")
    for holder, record in ((token, started), (verifier, lost)):
        failed = scene.ledger.fail_effect(holder, record, reason="no", now=scene.tick())
        with scene.unchanged("a failure repeated"):
            again = scene.ledger.fail_effect(holder, record, reason="no", now=scene.tick())
            scene.equal(again, failed, "what the repetition is told")
    with scene.unchanged("another reason"):
        scene.refused(
            Superseded,
            lambda: scene.ledger.fail_effect(token, started, reason="another", now=scene.now),
            "by who began it",
        )
        again = scene.ledger.fail_effect(verifier, lost, reason="another", now=scene.now)
        scene.equal(again, scene.current(lost), "what who asked the provider is told")


@check
def check_commit_effect_of_an_unknown_one_that_was_begun_again_changes_nothing(scene: Scene) -> None:
    """The provider was asked about an earlier act: what is known of the newer one stays."""
    asker = scene.launch("ask")
    for what, shown in _begun_again(scene):
        known = scene.current(shown)
        with scene.unchanged(what):
            told = scene.ledger.commit_effect(asker, shown, "found", now=scene.tick())
            scene.equal(told, known, f"what is told of one that is {what}")
            scene.equal(scene.ledger.load_effect(known)[1], None, f"the result of one that is {what}")


@check
def check_fail_effect_of_an_unknown_one_that_was_begun_again_changes_nothing(scene: Scene) -> None:
    """It may have happened since it was absent; were it taken for failed, it would be performed once more."""
    asker = scene.launch("ask")
    for what, shown in _begun_again(scene):
        known = scene.current(shown)
        with scene.unchanged(what):
            told = scene.ledger.fail_effect(asker, shown, reason="absent", now=scene.tick())
            scene.equal(told, known, f"what is told of one that is {what}")


def _begun_again(scene: Scene) -> list[tuple[str, EffectRecord]]:
    """Effects as they were shown when they were unknown; others have begun them again since."""
    shown = []
    for what, again in (("begun again", "begin"), ("lost again", "begin"), ("retried and lost", "retry")):
        token, other = scene.launch(f"{what} 1"), scene.launch(f"{what} 2")
        lost = scene.lost(token, what)
        shown.append((what, lost))
        if again == "retry":
            record = scene.ledger.retry_effect(other, lost, lease_until=lost.lease_until, now=scene.tick())
            record = scene.found(record, "the effect, retried")
        else:
            scene.ledger.fail_effect(other, lost, reason="absent", now=scene.tick())
            record = scene.started(other, what)
        if what != "begun again":
            # At the very moment of the first time, as far as clocks can tell.
            scene.ledger.lose_effect(record, reason="its process is dead", now=lost.updated_at)
    return shown


@check
def check_retry_effect_by_another_run_leaves_nothing_to_whoever_began_it(scene: Scene) -> None:
    """Both hold a task in a session of the same number; whose the effect is now, its ticket tells."""
    token = scene.launch("act")
    began = scene.started(token)
    lost = scene.found(scene.ledger.lose_effect(began, reason="late", now=scene.tick()), "the effect")
    other_run = RunKey(scene.run.dag_id, "run-2")
    other = scene.launch("act", run=other_run)
    scene.equal(other.session, token.session, "the other's session")

    again = scene.ledger.retry_effect(other, lost, lease_until=began.lease_until, now=scene.tick())

    again = scene.found(again, "the effect, retried")
    scene.holds(again.ticket != began.ticket, "who performs it again must have a ticket of its own")
    scene.equal(scene.current(began), again, "what is read again")
    _refused_to(scene, token, began, "by the run that began it")
    with scene.unchanged("a loss that comes late"):
        scene.equal(scene.ledger.lose_effect(began, reason="late", now=scene.now), None, "the answer")
    committed = scene.ledger.commit_effect(other, again, "receipt", now=scene.tick())
    scene.equal((committed.task, committed.commit_sequence), (other.key, 1), "whose it is, and its place")
    for run in (scene.run, other_run):
        scene.equal(scene.ledger.verify_run(run).findings, (), f"what verifying {run.run_id} finds")


@check
def check_fail_effect_by_another_session_is_refused(scene: Scene) -> None:
    """Also for an unknown one the token must be current."""
    old = scene.launch("act")
    lost = scene.lost(old)
    scene.launch("act", try_number=2)

    _refused_to(scene, old, lost, "an unknown one, by the process that was replaced")


@check
def check_lose_effect_turns_started_into_unknown(scene: Scene) -> None:
    """Nobody has to hold the task for it; afterwards the process that began it can commit no more."""
    token = scene.launch("act")
    started = scene.started(token)
    scene.launch("act", try_number=2)

    lost = scene.found(
        scene.ledger.lose_effect(started, reason="its lease is over", now=scene.tick()), "the effect"
    )

    scene.equal((lost.state, lost.reason), (EffectState.UNKNOWN, "its lease is over"), "the effect")
    scene.equal(scene.current(started), lost, "what is read again")
    _refused_to(scene, token, lost, "by the process that lost it")


@check
def check_lose_effect_is_conditional_on_lease_and_session(scene: Scene) -> None:
    """A lease that was renewed, or another session at work, shows that somebody is alive."""
    token = scene.launch("act")
    seen = scene.started(token)
    scene.ledger.keep_effect(token, seen, lease_until=scene.after(600))
    with scene.unchanged("a lease that was renewed"):
        scene.equal(scene.ledger.lose_effect(seen, reason="late", now=scene.now), None, "the answer")

    renewed = scene.current(seen)
    scene.found(scene.ledger.lose_effect(renewed, reason="dead", now=scene.tick()), "the effect as it is now")
    again = scene.launch("act", try_number=2)
    scene.ledger.retry_effect(again, renewed, lease_until=renewed.lease_until, now=scene.tick())
    with scene.unchanged("another session at work"):
        scene.equal(scene.ledger.lose_effect(renewed, reason="late", now=scene.now), None, "the answer")


@check
def check_lose_effect_of_what_is_not_started_is_none(scene: Scene) -> None:
    """What has ended is not lost."""
    token = scene.launch("act")
    seen = [scene.started(token, "committed"), scene.started(token, "failed"), scene.started(token, "lost")]
    scene.ledger.commit_effect(token, seen[0], None, now=scene.tick())
    scene.ledger.fail_effect(token, seen[1], reason="no", now=scene.tick())
    scene.ledger.lose_effect(seen[2], reason="first", now=scene.tick())

    with scene.unchanged("an effect that is not started"):
        for record in seen:
            lost = scene.ledger.lose_effect(record, reason="late", now=scene.now)
            scene.equal(lost, None, f"losing {record.key}")


@check
def check_keep_effect_renews_the_lease(scene: Scene) -> None:
    """The lease moves on, the rest stays, and the effect can be committed."""
    token = scene.launch("act")
    started = scene.started(token)
    lease = scene.after(600)

    scene.ledger.keep_effect(token, started, lease_until=lease)

    kept = scene.current(started)
    scene.equal((kept.lease_until, kept.state), (lease, EffectState.STARTED), "the effect")
    scene.equal((kept.session, kept.started_at), (started.session, started.started_at), "the rest of it")
    scene.ledger.commit_effect(token, started, None, now=scene.tick())


@check
def check_keep_effect_by_another_session_is_refused(scene: Scene) -> None:
    """What was declared unknown has no lease to renew."""
    token = scene.launch("act")
    lost = scene.lost(token)

    with scene.unchanged("an unknown effect"):
        scene.refused(
            Superseded, lambda: scene.ledger.keep_effect(token, lost, lease_until=scene.after(60)), "keep"
        )


@check
def check_give_up_undo_waits_for_a_person(scene: Scene) -> None:
    """What should have been undone says so, with the reason."""
    token = scene.launch("act")
    original = scene.committed(token)

    stuck = scene.ledger.give_up_undo(token, original, reason="3 attempts", now=scene.tick())

    scene.equal((stuck.state, stuck.reason), (EffectState.UNDO_FAILED, "3 attempts"), "the effect")
    scene.equal((stuck.commit_sequence, stuck.updated_at), (1, scene.now), "its place and time")
    scene.equal(scene.current(original), stuck, "what is read again")


@check
def check_give_up_undo_repeated_keeps_the_first_reason(scene: Scene) -> None:
    """An unknown one, and one that is undone by now; nothing changes the second time."""
    token = scene.launch("act")
    lost, undone = scene.lost(token, "lost"), scene.undone(token, "undone")
    stuck = scene.ledger.give_up_undo(token, lost, reason="nobody can tell", now=scene.tick())

    with scene.unchanged("what was given up, and what is undone"):
        for record, expected in ((lost, stuck), (stuck, stuck), (undone, undone)):
            again = scene.ledger.give_up_undo(token, record, reason="late", now=scene.tick())
            scene.equal(again, expected, f"what is told of {record.key}")


@check
def check_give_up_undo_of_what_nobody_has_to_undo_is_an_error(scene: Scene) -> None:
    """What a process is at, what never happened, and an undo."""
    token = scene.launch("act")
    started = scene.started(token, "started")
    failed = scene.ledger.fail_effect(token, scene.started(token, "failed"), reason="no", now=scene.tick())
    undo = scene.ledger.begin_effect(token, scene.undo_of(scene.lost(token, "lost")), now=scene.tick()).record

    with scene.unchanged("what nobody has to undo"):
        for record in (started, failed, undo):
            scene.refused(
                LedgerError,
                lambda record=record: scene.ledger.give_up_undo(  # type: ignore[misc]
                    token, record, reason="no", now=scene.now
                ),
                f"giving up {record.reference}",
            )


@check
def check_give_up_undo_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """A closing task that was replaced decides nothing."""
    old = scene.launch("act")
    original = scene.committed(old)
    scene.launch("act", try_number=2)

    with scene.unchanged("a process that was replaced"):
        scene.refused(
            Superseded,
            lambda: scene.ledger.give_up_undo(old, original, reason="late", now=scene.now),
            "giving up",
        )
