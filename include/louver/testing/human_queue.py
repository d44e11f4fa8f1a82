"""What people look for, and what they settle (semantics sections 3 and 4)."""

from __future__ import annotations

from louver.errors import LedgerError
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import EffectKind, EffectState, RunKey, Token
from louver.ledger.records import EffectRecord
from louver.ledger.requests import BeginOutcome
from louver.states import RunState, Source, TaskState
from louver.testing.scene import FAILED, Scene, check

__all__ = [
    "check_count_states_counts_what_there_is",
    "check_count_states_live_leaves_out_runs_that_are_over",
    "check_find_effects_finds_by_state_and_key_in_all_runs",
    "check_renew_effect_of_what_is_not_committed_is_an_error",
    "check_renew_effect_opens_the_next_epoch",
    "check_renew_effect_twice_is_none",
    "check_reopen_undo_lets_it_be_undone_again",
    "check_reopen_undo_of_what_was_never_committed_is_unknown_again",
    "check_settle_effect_as_standing_keeps_it_from_being_undone",
    "check_settle_effect_as_undone_commits_its_undo",
    "check_settle_effect_as_undone_without_any_undo",
    "check_settle_effect_leaves_a_row_and_fences_nobody",
    "check_settle_effect_of_what_has_changed_is_none",
    "check_settle_effect_of_what_waits_for_nobody_is_an_error",
    "check_settle_effect_renews_the_seal_of_a_run_that_is_over",
    "check_settle_effect_while_it_is_being_undone_is_none",
]

_WORD = Word(actor="ann", reason="asked the bank", source=Source.CLI)


def _undo_failed(scene: Scene, token: Token, key: str = "pay") -> EffectRecord:
    """An effect whose undo was tried and given up."""
    original = scene.committed(token, key)
    undo = scene.ledger.begin_effect(token, scene.undo_of(original), now=scene.tick()).record
    scene.ledger.fail_effect(token, undo, reason="declined", now=scene.tick())
    return scene.ledger.give_up_undo(token, original, reason="declined", now=scene.tick())


def _undo(scene: Scene, original: EffectRecord) -> EffectRecord:
    found = scene.ledger.get_effect(original.scope, f"undo:{original.reference}")
    return scene.found(found, "the undo")


def _settle(scene: Scene, record: EffectRecord, *, undone: bool) -> EffectRecord:
    settled = scene.ledger.settle_effect(record, undone=undone, word=_WORD, now=scene.tick())
    return scene.found(settled, "an effect that waits can be settled")


@check
def check_settle_effect_as_undone_commits_its_undo(scene: Scene) -> None:
    """What was given up is undone by a person; its key opens the next epoch."""
    token = scene.launch("act")
    waiting = _undo_failed(scene, token)

    settled = _settle(scene, waiting, undone=True)

    scene.equal((settled.state, settled.updated_at), (EffectState.UNDONE, scene.now), "the effect")
    scene.holds("ann" not in (settled.reason or ""), "the trail alone names who said it")
    scene.equal(scene.current(waiting), settled, "what is read again")
    undo = _undo(scene, waiting)
    scene.equal((undo.state, undo.commit_sequence), (EffectState.COMMITTED, 2), "its undo")
    scene.equal(scene.ledger.load_effect(undo)[1], None, "what the undo came to")
    again = scene.ledger.begin_effect(token, scene.effect("pay", intent={"amount": 6}), now=scene.tick())
    scene.equal((again.outcome, again.record.epoch), (BeginOutcome.BEGUN, 2), "the next time")


@check
def check_settle_effect_as_undone_without_any_undo(scene: Scene) -> None:
    """What nobody knew anything of was undone by hand; that is an undo like any other."""
    token = scene.launch("act")
    lost = scene.lost(token)

    settled = _settle(scene, lost, undone=True)

    undo = _undo(scene, lost)
    scene.equal((settled.state, settled.commit_sequence), (EffectState.UNDONE, None), "the effect")
    scene.equal((undo.state, undo.kind), (EffectState.COMMITTED, EffectKind.UNDO), "its undo")
    scene.equal((undo.undoes, undo.task), (lost.reference, lost.task), "what it undoes, and whose it is")
    scene.equal(scene.ledger.load_effect(undo), ({"amount": 5}, None), "its intent and result")


@check
def check_settle_effect_as_standing_keeps_it_from_being_undone(scene: Scene) -> None:
    """It happened and stays; with a result of its own, or with None where nobody knows one."""
    token = scene.launch("act")
    failed, lost = _undo_failed(scene, token, "pay"), scene.lost(token, "ship")

    stands, found = _settle(scene, failed, undone=False), _settle(scene, lost, undone=False)

    for settled in (stands, found):
        scene.equal((settled.state, settled.undo), (EffectState.COMMITTED, None), "the effect")
        scene.equal(scene.current(settled), settled, "what is read again")
    scene.equal((stands.commit_sequence, found.commit_sequence), (1, 2), "their places")
    scene.equal(scene.ledger.load_effect(stands)[1], "receipt", "the result that was recorded")
    scene.equal(scene.ledger.load_effect(found), ({"amount": 5}, None), "what is known of the other")
    again = scene.ledger.begin_effect(token, scene.effect("ship"), now=scene.tick())
    scene.equal((again.outcome, again.result), (BeginOutcome.RECORDED, None), "the next time")


@check
def check_settle_effect_leaves_a_row_and_fences_nobody(scene: Scene) -> None:
    """Who said it, and why, stands in the side chain; the process at work goes on."""
    token = scene.launch("act")
    lost = scene.lost(token)

    _settle(scene, lost, undone=True)

    (row,) = scene.told("act", chain="side")
    scene.equal((row.trigger, row.actor, row.source), ("user:settled", "ann", Source.CLI), "who said it")
    scene.equal((row.from_state, row.to_state), (TaskState.RUNNING, TaskState.RUNNING), "the task's state")
    scene.equal((row.version, row.at), (1, scene.now), "its place, and when")
    reason = row.reason or ""
    scene.holds(lost.reference in reason and "asked the bank" in reason, "the row must say of what, and why")
    scene.ledger.advance(token, FAILED, now=scene.tick())


@check
def check_settle_effect_renews_the_seal_of_a_run_that_is_over(scene: Scene) -> None:
    """What a person said afterwards is sealed too."""
    token = scene.launch("act")
    waiting = _undo_failed(scene, token)
    scene.ledger.advance(token, FAILED, now=scene.tick())
    scene.ledger.set_run_state(scene.run, RunState.COMPENSATION_FAILED, reason=None, now=scene.tick())

    _settle(scene, waiting, undone=True)

    seal = scene.found(scene.ledger.get_seal(scene.run), "the seal")
    scene.equal(seal.sealed_at, scene.now, "when it was sealed")
    scene.equal(scene.ledger.verify_run(scene.run).findings, (), "what verifying the run finds")


@check
def check_settle_effect_of_what_has_changed_is_none(scene: Scene) -> None:
    """Two people settle the same: the second one is told so."""
    waiting = _undo_failed(scene, scene.launch("act"))
    _settle(scene, waiting, undone=True)

    with scene.unchanged("what was settled already"):
        second = scene.ledger.settle_effect(waiting, undone=False, word=_WORD, now=scene.now)
        scene.equal(second, None, "the second answer")


@check
def check_settle_effect_while_it_is_being_undone_is_none(scene: Scene) -> None:
    """Some process is at it, and says itself what comes of it."""
    token = scene.launch("act")
    lost = scene.lost(token)
    scene.ledger.begin_effect(token, scene.undo_of(lost), now=scene.tick())

    with scene.unchanged("what is being undone"):
        answer = scene.ledger.settle_effect(lost, undone=True, word=_WORD, now=scene.now)
        scene.equal(answer, None, "the answer")


@check
def check_settle_effect_of_what_waits_for_nobody_is_an_error(scene: Scene) -> None:
    """Neither what is done, nor an undo: that is settled by what it undoes."""
    token = scene.launch("act")
    done = scene.committed(token, "pay")
    undo = _undo(scene, _undo_failed(scene, token, "ship"))

    with scene.unchanged("what waits for nobody"):
        for record in (done, undo):
            scene.refused(
                LedgerError,
                lambda record=record: scene.ledger.settle_effect(  # type: ignore[misc]
                    record, undone=True, word=_WORD, now=scene.now
                ),
                f"settling {record.reference}",
            )


@check
def check_reopen_undo_lets_it_be_undone_again(scene: Scene) -> None:
    """It is as it was before it was given up; the next try of its undo may succeed."""
    token = scene.launch("act")
    waiting = _undo_failed(scene, token)

    reopened = scene.ledger.reopen_undo(waiting, word=_WORD, now=scene.tick())

    record = scene.found(reopened, "the effect")
    scene.equal((record.state, record.commit_sequence), (EffectState.COMMITTED, 1), "the effect")
    scene.equal([row.trigger for row in scene.told("act", chain="side")], ["user:retried"], "the trail")
    with scene.unchanged("what was reopened already"):
        again = scene.ledger.reopen_undo(waiting, word=_WORD, now=scene.now)
        scene.equal(again, None, "the second time")
    undo = scene.ledger.begin_effect(token, scene.undo_of(record), now=scene.tick()).record
    scene.ledger.commit_effect(token, undo, None, now=scene.tick())
    scene.equal(scene.current(record).state, EffectState.UNDONE, "the effect in the end")


@check
def check_reopen_undo_of_what_was_never_committed_is_unknown_again(scene: Scene) -> None:
    """Nobody has found out meanwhile."""
    token = scene.launch("act")
    lost = scene.lost(token)
    given_up = scene.ledger.give_up_undo(token, lost, reason="nobody can tell", now=scene.tick())

    reopened = scene.ledger.reopen_undo(given_up, word=_WORD, now=scene.tick())

    scene.equal(scene.found(reopened, "the effect").state, EffectState.UNKNOWN, "the effect")
    scene.refused(
        LedgerError,
        lambda: scene.ledger.reopen_undo(scene.current(lost), word=_WORD, now=scene.now),
        "an effect whose undo was not given up",
    )


@check
def check_renew_effect_opens_the_next_epoch(scene: Scene) -> None:
    """The key may be used once more, with another intent; what was done under it before stays done."""
    token = scene.launch("act")
    first = scene.committed(token)

    renewed = scene.ledger.renew_effect(first, word=_WORD, now=scene.tick())

    record = scene.found(renewed, "the new epoch")
    scene.equal((record.epoch, record.state), (2, EffectState.FAILED), "the new epoch")
    scene.equal([row.trigger for row in scene.told("act", chain="side")], ["user:renewed"], "the trail")
    begun = scene.ledger.begin_effect(token, scene.effect(intent={"amount": 7}), now=scene.tick())
    scene.equal((begun.outcome, begun.record.epoch), (BeginOutcome.BEGUN, 2), "the next time")
    known = {effect.epoch: effect for effect in scene.ledger.list_effects(scene.run)}
    scene.equal(known[1], first, "the epoch before")


@check
def check_renew_effect_twice_is_none(scene: Scene) -> None:
    """One word opens one epoch."""
    first = scene.committed(scene.launch("act"))
    scene.ledger.renew_effect(first, word=_WORD, now=scene.tick())

    with scene.unchanged("what was renewed already"):
        again = scene.ledger.renew_effect(first, word=_WORD, now=scene.now)
        scene.equal(again, None, "the second time")


@check
def check_renew_effect_of_what_is_not_committed_is_an_error(scene: Scene) -> None:
    """What failed or was undone may begin again anyway; of what is unknown a person says more than that."""
    token = scene.launch("act")
    records = [scene.lost(token, "lost"), scene.started(token, "begun"), scene.undone(token, "undone")]

    with scene.unchanged("what is not committed"):
        for record in records:
            scene.refused(
                LedgerError,
                lambda record=record: scene.ledger.renew_effect(  # type: ignore[misc]
                    record, word=_WORD, now=scene.now
                ),
                f"renewing what is {record.state}",
            )


@check
def check_find_effects_finds_by_state_and_key_in_all_runs(scene: Scene) -> None:
    """Whatever run it is of, and whatever its scope; other keys are left out."""
    key = f"key-{scene.id}"
    here = scene.launch("act")
    elsewhere = scene.launch("act", run=RunKey(scene.run.dag_id, "run-2"))
    first = scene.committed(here, key)
    second = scene.lost(elsewhere, key, scope=f"run:{scene.run.dag_id}:run-2")
    scene.committed(here, f"{key}-other")

    found = scene.ledger.find_effects

    scene.equal(found(key=key), [first, second], "all of this key")
    scene.equal(found(key=key, states=[EffectState.UNKNOWN]), [second], "those in a state")
    both = [EffectState.COMMITTED, EffectState.UNKNOWN]
    scene.equal(found(key=key, states=both), [first, second], "those in two states")
    scene.equal(found(key=f"{key}-none"), [], "those of a key that nobody has used")
    scene.holds(second in found(states=[EffectState.UNKNOWN]), "a state alone must find it too")


@check
def check_count_states_counts_what_there_is(scene: Scene) -> None:
    """Of each kind, in each state; the store may hold more than this run."""
    before = scene.ledger.count_states()

    token = scene.launch("act")
    scene.committed(token)
    scene.send()
    after = scene.ledger.count_states()

    def more(name: str, state: object) -> int:
        return int(getattr(after, name).get(state, 0)) - int(getattr(before, name).get(state, 0))

    scene.holds(more("runs", RunState.RUNNING) >= 1, "a run more")
    scene.holds(more("tasks", TaskState.RUNNING) >= 1, "a task more")
    scene.holds(more("effects", EffectState.COMMITTED) >= 1, "an effect more")
    scene.holds(sum(after.commands.values()) > sum(before.commands.values()), "a command more")
    scene.holds(0 not in after.runs.values(), "states without any must be left out")


@check
def check_count_states_live_leaves_out_runs_that_are_over(scene: Scene) -> None:
    """What belongs to runs that go on, by Dag too; and effects that wait for a person, of all runs."""
    over = RunKey(scene.run.dag_id, "run-2")
    before = scene.ledger.count_states(live=True)
    token = scene.launch("act", run=over)
    scene.committed(token)
    scene.lost(token, "call")
    scene.ledger.advance(token, FAILED, now=scene.tick())
    scene.ledger.set_run_state(over, RunState.FAILED, reason=None, now=scene.tick())
    scene.committed(scene.launch("act"), "mail")
    scene.ledger.set_run_state(scene.run, RunState.PAUSED, reason=None, now=scene.tick())

    live, every = scene.ledger.count_states(live=True), scene.ledger.count_states()

    dag_id = scene.run.dag_id
    scene.equal(live.workflows.get(dag_id), {RunState.PAUSED: 1}, "the live runs of the Dag")
    both = {RunState.PAUSED: 1, RunState.FAILED: 1}
    scene.equal(every.workflows.get(dag_id), both, "all runs of the Dag")
    scene.equal([state for state in live.runs if state.terminal], [], "states of live runs")

    def more(name: str, state: object) -> int:
        return int(getattr(live, name).get(state, 0)) - int(getattr(before, name).get(state, 0))

    scene.equal(more("runs", RunState.PAUSED), 1, "a live run more")
    tasks = (more("tasks", TaskState.RUNNING), more("tasks", TaskState.FAILED))
    scene.equal(tasks, (1, 0), "tasks of live runs")
    effects = (more("effects", EffectState.COMMITTED), more("effects", EffectState.UNKNOWN))
    scene.equal(effects, (1, 1), "effects of live runs, and those that wait")
