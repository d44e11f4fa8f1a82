"""Removing what is over: what every store does with it, and what it never touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from louver.errors import LedgerError
from louver.ledger.findings import Cleaned
from louver.ledger.names import EffectState, RunKey, TaskKey
from louver.ledger.records import EffectRecord
from louver.ledger.requests import BeginOutcome, OpenedTask
from louver.states import RunState
from louver.testing.scene import ERROR, FAILED, Scene, check
from louver.testing.stories import begin, live, start_of

__all__ = [
    "check_clean_effects_leaves_what_is_in_use_or_waits",
    "check_clean_run_at_once_removes_it_once",
    "check_clean_run_at_once_with_a_clear_removes_nothing_that_is_at_work",
    "check_clean_run_keeps_what_is_not_over",
    "check_clean_run_leaves_an_effect_in_its_newest_epoch",
    "check_clean_run_leaves_effects_that_guard_beyond_it",
    "check_clean_run_makes_room_for_another_of_its_id",
    "check_clean_run_removes_all_of_it_and_nothing_else",
    "check_list_standing_effects_are_those_without_a_run",
    "check_open_run_made_again_at_once_is_one_run",
    "check_open_run_made_again_leaves_what_is_settled_behind",
    "check_open_run_made_again_takes_over_what_an_unfinished_one_left",
    "check_plan_cleaning_tells_what_clean_run_does",
]

_ROUNDS = 10


def _clean(scene: Scene, run: RunKey, **given: Any) -> Cleaned:
    cleaned = scene.ledger.clean_run(run, before=scene.after(1), **given)
    return scene.found(cleaned, f"what became of {run.run_id}")


@check
def check_clean_run_removes_all_of_it_and_nothing_else(scene: Scene) -> None:
    """Steps, trail, seal, checkpoints, effects of its own, approvals, commands, events and their payloads."""
    live(scene, scene.run.run_id, state=None)
    gone = live(scene, "gone")
    scene.send(1)
    scene.send(2, task=TaskKey(gone.dag_id, gone.run_id, "act"))
    for run in (scene.run, gone):
        scene.ledger.accept_event(
            dag_id=run.dag_id,
            identity=run.run_id,
            payload_fingerprint="f" * 64,
            run_id=run.run_id,
            event={"of": run.run_id},
            now=scene.tick(),
        )

    with scene.unchanged("cleaning another run"):
        cleaned = _clean(scene, gone)

    scene.equal((cleaned.dag_id, cleaned.run_id, cleaned.kept), (gone.dag_id, gone.run_id, None), "the run")
    found = (cleaned.tasks, cleaned.transitions, cleaned.checkpoints, cleaned.effects, cleaned.standing)
    scene.equal(found, (2, 8, 3, 1, 1), "tasks, transitions, checkpoints, effects, and those that stand")
    # Three checkpoints, intent and result of its own effect, the event.
    scene.equal((cleaned.commands, cleaned.events, cleaned.payloads), (1, 1, 6), "commands, events, payloads")
    ledger = scene.ledger
    scene.equal(ledger.get_run(gone), None, "the run afterwards")
    left: dict[str, Sequence[object]] = {
        "tasks": ledger.list_tasks(gone),
        "transitions": ledger.list_transitions(gone),
        "approvals": ledger.list_approvals(gone),
        "commands": ledger.list_commands(gone),
        "signs of life": ledger.list_touches(gone),
    }
    for what, rows in left.items():
        scene.equal(list(rows), [], f"its {what} afterwards")
    scene.equal(ledger.get_seal(gone), None, "its seal afterwards")
    scene.equal(ledger.load_event(gone.dag_id, "gone"), None, "its event afterwards")
    scene.found(ledger.load_event(gone.dag_id, scene.run.run_id), "the other run's event")
    for run in (gone, scene.run):
        scene.equal(ledger.verify_run(run, limit=9).findings, (), "the findings afterwards")
    scene.equal(ledger.clean_run(gone, before=scene.after(1)), None, "cleaning it once more")


@check
def check_clean_run_keeps_what_is_not_over(scene: Scene) -> None:
    """By its stored state, its steps, its effects or its age; whatever the stored state says of the steps."""

    def kept(run: RunKey, what: str, why: str, *, seconds: float = 1) -> None:
        before = scene.ledger.get_run(run), scene.ledger.list_tasks(run), scene.ledger.list_effects(run)
        cleaned = scene.found(scene.ledger.clean_run(run, before=scene.after(seconds)), what)
        scene.holds(why in (cleaned.kept or ""), f"{what} must be kept since {why!r}, not {cleaned.kept!r}")
        after = scene.ledger.get_run(run), scene.ledger.list_tasks(run), scene.ledger.list_effects(run)
        scene.equal(after, before, f"{what}, afterwards")

    def closed(run: RunKey, state: RunState = RunState.FAILED) -> RunKey:
        scene.ledger.set_run_state(run, state, reason=None, now=scene.tick())
        return run

    dag_id = scene.run.dag_id
    kept(live(scene, "open", state=None), "a run that was not closed", "running")
    kept(live(scene, "young"), "a run that ended later", "younger", seconds=0)
    for run_id, change, why in (
        ("retry", ERROR, "act has not ended"),
        ("at-work", None, "act has not ended"),
        ("half", FAILED, "running by its steps"),
    ):
        run = RunKey(dag_id, run_id)
        begin(scene, key=run)
        if run_id != "half":
            scene.succeed("look", 1, run=run)
        token = scene.launch("act", run=run)
        if change is not None:
            scene.ledger.advance(token, change, now=scene.tick())
        kept(closed(run), f"a run stored as failed ({run_id})", why)
    for run_id in ("started", "unknown", "undo_failed", "compensating"):
        run = RunKey(dag_id, run_id)
        begin(scene, key=run)
        scene.succeed("look", 1, run=run)
        token = scene.launch("act", run=run)
        effect = (
            scene.committed(token, run_id) if run_id[:2] in ("un", "co") and run_id != "unknown" else None
        )
        if effect is None:
            effect = scene.started(token, run_id)
        if run_id == "unknown":
            scene.ledger.lose_effect(effect, reason="dead", now=scene.tick())
        if run_id == "undo_failed":
            scene.ledger.give_up_undo(token, effect, reason="no way", now=scene.tick())
        scene.ledger.advance(token, FAILED, now=scene.tick())
        kept(closed(run), f"a run with an effect that is {run_id}", run_id)
    unreadable = RunKey(dag_id, "unreadable")
    scene.begin(key=unreadable)
    kept(closed(unreadable), "a run whose definition cannot be read", "definition")


@check
def check_clean_run_leaves_effects_that_guard_beyond_it(scene: Scene) -> None:
    """What is unique in the Dag is still refused, or answered with its result, when the run is gone."""
    run = live(scene, "gone")
    cleaned = _clean(scene, run)
    scene.equal((cleaned.effects, cleaned.standing), (1, 1), "the effects")

    begun = scene.ledger.begin_effect(scene.launch("act"), scene.effect("pay-gone"), now=scene.tick())
    scene.equal((begun.outcome, begun.result), (BeginOutcome.RECORDED, "receipt"), "the effect, begun again")

    other = live(scene, "with-effects")
    cleaned = _clean(scene, other, effects=True)
    scene.equal((cleaned.effects, cleaned.standing), (2, 0), "the effects, where they go too")
    begun = scene.ledger.begin_effect(
        scene.launch("act", try_number=2), scene.effect("pay-with-effects"), now=scene.tick()
    )
    scene.equal(begun.outcome, BeginOutcome.BEGUN, "an effect that nothing keeps from being done again")


@check
def check_clean_run_leaves_an_effect_in_its_newest_epoch(scene: Scene) -> None:
    """The first epoch was undone and goes with its run; what another run did since is not done once more."""
    first = RunKey(scene.run.dag_id, "first")
    begin(scene, key=first)
    scene.succeed("look", 1, run=first)
    token = scene.launch("act", run=first)
    scene.undone(token, "pay-second")
    scene.ledger.advance(token, FAILED, now=scene.tick())
    scene.ledger.set_run_state(first, RunState.FAILED_COMPENSATED, reason=None, now=scene.tick())
    live(scene, "second")
    standing = _effect(scene, "pay-second")
    scene.equal((standing.run_id, standing.epoch), ("second", 2), "the effect, done again")
    scene.equal(_clean(scene, first, effects=True).effects, 2, "the effects that go: the first, and its undo")

    begun = scene.ledger.begin_effect(scene.launch("act"), scene.effect("pay-second"), now=scene.tick())

    scene.equal((begun.outcome, begun.result), (BeginOutcome.RECORDED, "receipt"), "the effect, begun again")
    scene.equal(_effect(scene, "pay-second"), standing, "the effect afterwards")


@check
def check_clean_run_makes_room_for_another_of_its_id(scene: Scene) -> None:
    """It begins afresh, and what it commits comes after what the old one has left."""
    run = live(scene, "again")
    _clean(scene, run)

    begin(scene, key=run)
    made = scene.found(scene.ledger.get_run(run), "the run")
    scene.equal((made.incarnation, made.state), (1, RunState.RUNNING), "the run")
    token = scene.launch("act", run=run)
    scene.equal((token.generation, token.attempt), (1, 1), "its task")
    scene.equal(scene.ledger.load_checkpoint(token, "state", None), None, "a checkpoint of the old one")
    effect = scene.committed(token, "other")
    left = scene.found(scene.ledger.get_effect(f"dag:{run.dag_id}", "pay-again"), "what was left")
    scene.holds(
        (effect.commit_sequence or 0) > (left.commit_sequence or 0), "its commit must come after the old one"
    )
    scene.holds(left.generation != token.generation, "the old effect must not be of the new generation")
    scene.equal(scene.ledger.verify_run(run, limit=9).findings, (), "the findings")


@check
def check_open_run_made_again_leaves_what_is_settled_behind(scene: Scene) -> None:
    """As if it had been cleaned away: what it did is the next run's once that asks for it."""
    run = live(scene, "again")
    begin(scene, key=run, marker="another")
    effects = scene.ledger.list_effects(run)
    scene.equal([effect.outlived for effect in effects], [True, True], "whether they outlived their run")
    scene.equal([effect.state for effect in effects], [EffectState.COMMITTED] * 2, "their states")
    scene.equal(scene.ledger.verify_run(run, limit=9).findings, (), "the findings")

    token = scene.launch("act", run=run, try_number=2)
    begun = scene.ledger.begin_effect(token, scene.effect("pay-again"), now=scene.tick())

    scene.equal((begun.outcome, begun.result), (BeginOutcome.RECORDED, "receipt"), "one that is asked for")
    asked = _effect(scene, "pay-again")
    scene.equal(
        (asked.incarnation, asked.generation), (token.incarnation, token.generation), "whose it is then"
    )
    scene.equal([effect.outlived for effect in scene.ledger.list_effects(run)], [False, True], "the effects")


@check
def check_open_run_made_again_at_once_is_one_run(scene: Scene) -> None:
    """Two steps of it begin together, or it is made again while the old one is cleaned away."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        run = live(scene, f"run-{number}")
        start = start_of(scene, key=run, marker="another")
        beside = (
            partial(other.open_run, start, now=scene.tick())
            if number % 2
            else partial(other.clean_run, run, before=scene.after(1))
        )

        actions: tuple[Callable[[], object], ...] = (
            partial(scene.ledger.open_run, start, now=scene.now),
            beside,
        )
        scene.all_of(scene.at_once(*actions))

        what = f"round {number}"
        made = scene.ledger.open_run(start, now=scene.tick())
        if number % 2:
            scene.equal(made.incarnation, 2, f"the incarnation, {what}")
        scene.equal((made.marker, made.state), ("another", RunState.RUNNING), f"the run, {what}")
        standing = _effect(scene, f"pay-run-{number}")
        scene.holds(standing.outlived, f"what the old one did must have outlived it, {what}")
        scene.equal(scene.ledger.verify_run(run, limit=9).findings, (), f"the findings, {what}")


@check
def check_open_run_made_again_takes_over_what_an_unfinished_one_left(scene: Scene) -> None:
    """Whoever closes the next run undoes it; nobody else is there to do so."""
    run = live(scene, "again", state=None)
    effects = scene.ledger.list_effects(run)
    begin(scene, key=run, marker="another")
    scene.equal(scene.ledger.list_effects(run), effects, "the effects")
    scene.equal(scene.ledger.verify_run(run, limit=9).findings, (), "the findings")


@check
def check_plan_cleaning_tells_what_clean_run_does(scene: Scene) -> None:
    """The same, and nothing is written."""
    for run_id, given in (("one", {}), ("two", {"effects": True})):
        live(scene, run_id)
        scene.run = RunKey(scene.run.dag_id, run_id)
        with scene.unchanged("planning"):
            planned = scene.ledger.plan_cleaning(scene.run, before=scene.after(1), **given)
        scene.equal(
            scene.ledger.clean_run(scene.run, before=scene.after(1), **given), planned, "what was done"
        )
    young = live(scene, "three")
    scene.equal(
        scene.ledger.plan_cleaning(young, before=scene.now),
        scene.ledger.clean_run(young, before=scene.now),
        "what is kept",
    )
    scene.equal(scene.ledger.plan_cleaning(scene.run, before=scene.now), None, "a run that is gone")


@check
def check_clean_run_at_once_removes_it_once(scene: Scene) -> None:
    """Two that clean at the same time do no harm to each other."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        run = live(scene, f"run-{number}")
        before = scene.after(1)

        done = scene.all_of(
            scene.at_once(
                partial(scene.ledger.clean_run, run, before=before),
                partial(other.clean_run, run, before=before),
            )
        )

        scene.equal(len([one for one in done if one is not None]), 1, f"how many removed it, round {number}")
        scene.equal(scene.ledger.get_run(run), None, "the run")


@check
def check_clean_run_at_once_with_a_clear_removes_nothing_that_is_at_work(scene: Scene) -> None:
    """A step that was cleared is opened: either the run is there for it, or it is told that it is not."""
    other = scene.open_ledger()
    for number in range(2 * _ROUNDS):
        run = live(scene, f"run-{number}")
        # One that has ended is opened again, one that was never opened before for the first time.
        task_id = "act" if number % 2 else "extra"
        key = TaskKey(run.dag_id, run.run_id, task_id)
        claim = scene.claim(try_number=2, max_tries=9)

        actions: tuple[Callable[[], object], ...] = (
            partial(scene.ledger.clean_run, run, before=scene.after(1)),
            partial(other.open_task, key, claim, now=scene.now),
        )
        cleaned, opened = scene.at_once(*actions)

        what = f"round {number}: {cleaned} and {opened}"
        there = scene.ledger.get_run(run) is not None
        scene.holds(isinstance(cleaned, Cleaned), f"cleaning must come to an end, {what}")
        if isinstance(opened, OpenedTask):
            scene.holds(there, f"a step at work must have its run, {what}")
        else:
            scene.holds(isinstance(opened, LedgerError), f"it must be told, {what}")
            scene.holds(not there, f"it must be told only where the run is gone, {what}")
        scene.equal(scene.ledger.verify_run(run, limit=9).findings, (), f"the findings, {what}")


@check
def check_list_standing_effects_are_those_without_a_run(scene: Scene) -> None:
    """Old enough, settled, and of a run that is gone; page by page."""
    dag_id = scene.run.dag_id
    for run_id in ("a", "b"):
        _clean(scene, live(scene, run_id))
    live(scene, "there")

    def listed(**given: Any) -> list[str]:
        given = {"before": scene.after(1), **given}
        found = []
        after = None
        while True:
            page = scene.ledger.list_standing_effects(dag_id=dag_id, after=after, limit=1, **given)
            found += [effect.key for effect in page.effects]
            after = page.after
            if after is None:
                return sorted(found)

    scene.equal(listed(), ["pay-a", "pay-b"], "the effects")
    scene.equal(listed(before=scene.after(-3600)), [], "those that ended before that")


@check
def check_clean_effects_leaves_what_is_in_use_or_waits(scene: Scene) -> None:
    """What was begun again since, or belongs to a run that is there, stays."""
    dag_id = scene.run.dag_id
    _clean(scene, live(scene, "gone"))
    live(scene, "there")
    effects = [_effect(scene, "pay-gone"), _effect(scene, "pay-there")]

    scene.equal(scene.ledger.clean_effects(effects, before=scene.after(-3600)), (), "while they are young")
    gone = scene.ledger.clean_effects(effects, before=scene.after(1))
    scene.equal([effect.key for effect in gone], ["pay-gone"], "what was removed")
    scene.equal(scene.ledger.get_effect(f"dag:{dag_id}", "pay-gone"), None, "the effect afterwards")
    scene.equal(scene.ledger.load_effect(_effect(scene, "pay-there"))[1], "receipt", "the one in use")
    scene.equal(scene.ledger.clean_effects(effects[:1], before=scene.after(1)), (), "the second time")


def _effect(scene: Scene, key: str) -> EffectRecord:
    return scene.found(scene.ledger.get_effect(f"dag:{scene.run.dag_id}", key), f"effect {key}")
