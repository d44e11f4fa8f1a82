"""Verifying, and collecting what nobody has any more: what every store does with them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from louver.ledger.findings import Orphan
from louver.ledger.names import RunKey
from louver.ledger.task_operations import definition_payload
from louver.states import RunState
from louver.testing.scene import ERROR, Scene, check
from louver.testing.stories import begin, live, start_of

__all__ = [
    "check_list_orphans_are_payloads_that_no_row_has",
    "check_list_run_keys_page_by_page",
    "check_remove_orphans_at_once_with_a_run_that_needs_one",
    "check_remove_orphans_leaves_what_is_in_use",
    "check_verify_events_that_nobody_changed_finds_nothing",
    "check_verify_payloads_that_nobody_changed_finds_nothing",
    "check_verify_run_that_nobody_changed_finds_nothing",
]

_ROUNDS = 10


@check
def check_list_run_keys_page_by_page(scene: Scene) -> None:
    """The runs of a Dag in order of their names, each once, and no others."""
    dag_id = scene.run.dag_id
    for run_id in ("b", "a", "c"):
        live(scene, run_id)
    runs = [RunKey(dag_id, run_id) for run_id in ("a", "b", "c")]

    scene.equal(scene.ledger.list_run_keys(dag_id=dag_id), runs, "the runs")
    scene.equal(scene.ledger.list_run_keys(dag_id=dag_id, limit=2), runs[:2], "the first page")
    scene.equal(
        scene.ledger.list_run_keys(dag_id=dag_id, after=runs[1], limit=2), runs[2:], "the page behind it"
    )
    before = RunKey(dag_id, "")
    scene.equal(scene.ledger.list_run_keys(after=before, limit=3), runs, "the runs of all Dags, from there")
    scene.equal(scene.ledger.list_run_keys(dag_id=f"none-{scene.id}"), [], "the runs of an unknown Dag")


@check
def check_verify_run_that_nobody_changed_finds_nothing(scene: Scene) -> None:
    """At every point of its life; and what was looked at is counted."""

    def verify(what: str, run: RunKey = scene.run) -> None:
        verdict = scene.ledger.verify_run(run, limit=9)
        scene.equal([str(finding) for finding in verdict.findings], [], f"the findings in {what}")

    verify("a run that nobody opened")
    scene.equal(scene.ledger.verify_run(scene.run).checked.runs, 0, "the runs that nobody opened")
    begin(scene)
    verify("a run that has just begun")
    token = scene.launch("act")
    scene.lost(token, "call")
    scene.undone(token)
    scene.ledger.save_checkpoint(token, "state", {"page": 1}, now=scene.tick())
    scene.ledger.advance(token, ERROR, now=scene.tick())
    verify("a run at work")
    scene.approved()
    verify("a run that waits")
    scene.succeed("act", 1, try_number=2)
    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason=None, now=scene.tick())
    verify("a run that is over")
    scene.succeed("act", 2, try_number=3, max_tries=5)
    verify("a run with a step that was cleared since")
    begin(scene, version="2", marker="another")
    verify("a run that was made again")

    checked = scene.ledger.verify_run(scene.run).checked
    transitions = len(scene.ledger.list_transitions(scene.run))
    scene.equal((checked.runs, checked.tasks, checked.seals), (1, 2, 1), "the runs, tasks and seals")
    scene.equal((checked.transitions, checked.effects, checked.approvals), (transitions, 3, 1), "the rest")


@check
def check_verify_events_that_nobody_changed_finds_nothing(scene: Scene) -> None:
    """Each is looked at, and its payload."""
    dag_id = scene.run.dag_id
    for identity in ("a", "b"):
        scene.ledger.accept_event(
            dag_id=dag_id,
            identity=identity,
            payload_fingerprint="f" * 64,
            run_id=identity,
            event={"id": identity},
            now=scene.tick(),
        )

    verdict = scene.ledger.verify_events(dag_id=dag_id, limit=9)

    scene.equal((verdict.findings, verdict.after), ((), None), "the findings, and where to go on")
    scene.equal((verdict.checked.events, verdict.checked.payloads), (2, 2), "what was looked at")


@check
def check_verify_payloads_that_nobody_changed_finds_nothing(scene: Scene) -> None:
    """None of this Dag's lies where no row looks for it, and no row of one is missing."""
    live(scene, "run-1")
    after = None
    while True:
        verdict = scene.ledger.verify_payloads(after=after, limit=10_000)
        told = [str(finding) for finding in verdict.findings if finding.dag_id == scene.run.dag_id]
        scene.equal(told, [], "the findings")
        after = verdict.after
        if after is None:
            return


def _orphans(scene: Scene, *, seconds: float = 0) -> Iterator[Orphan]:
    """All that were saved by then."""
    after: str | None = None
    while True:
        page = scene.ledger.list_orphans(saved_before=scene.after(seconds), after=after, limit=100)
        yield from page.orphans
        after = page.after
        if after is None:
            return


@check
def check_list_orphans_are_payloads_that_no_row_has(scene: Scene) -> None:
    """A definition that no run has any more; not what is in use, and not what was saved just now."""
    live(scene, "run-1")
    begin(scene, version="old", marker="one")
    old = scene.now
    used = begin(scene, version="new", marker="another")
    orphan = definition_payload(start_of(scene, "old").definition_fingerprint)

    found = [one for one in _orphans(scene, seconds=1) if one.payload_id == orphan]
    scene.equal([one.saved_at for one in found], [old], "when the orphan was saved")
    scene.holds(found[0].size > 0, "its size must be told")
    listed = {one.payload_id for one in _orphans(scene, seconds=1)}
    scene.holds(
        definition_payload(used.definition_fingerprint) not in listed, "a definition in use is no orphan"
    )
    scene.equal([one for one in listed if scene.run.dag_id in one], [], "the others of this Dag")
    scene.now = old
    young = {one.payload_id for one in _orphans(scene)}
    scene.holds(orphan not in young, "one that was saved at that moment must be left out")


@check
def check_remove_orphans_leaves_what_is_in_use(scene: Scene) -> None:
    """Only what is an orphan still, and old enough; twice is fine."""
    run = live(scene, "run-1")
    begin(scene, version="old", marker="one")
    used = begin(scene, version="new", marker="another")
    orphan = definition_payload(start_of(scene, "old").definition_fingerprint)
    token = scene.launch("act")
    scene.ledger.save_checkpoint(token, "state", "kept", now=scene.tick())
    effects = scene.ledger.list_effects(run)
    wanted = [
        orphan,
        definition_payload(used.definition_fingerprint),
        f"checkpoint:{scene.run.dag_id}:{scene.run.run_id}:act:-1:2:1:state",
        *(effect.intent_payload for effect in effects),
        *(effect.result_payload for effect in effects),
        f"none-{scene.id}",
    ]

    early = scene.ledger.remove_orphans(wanted, saved_before=scene.after(-3600))
    scene.equal(early, (), "what was removed while it was too young")
    removed = scene.ledger.remove_orphans(wanted, saved_before=scene.after(1))
    scene.equal([one.payload_id for one in removed], [orphan], "what was removed")
    scene.equal(scene.ledger.remove_orphans(wanted, saved_before=scene.after(1)), (), "the second time")

    scene.equal(scene.ledger.load_checkpoint(token, "state", None), "kept", "a checkpoint in use")
    scene.equal(
        scene.ledger.load_definition(used.definition_fingerprint),
        dict(used.definition),
        "a definition in use",
    )
    scene.equal([scene.ledger.load_effect(effect)[1] for effect in effects], ["receipt"] * 2, "the results")


@check
def check_remove_orphans_at_once_with_a_run_that_needs_one(scene: Scene) -> None:
    """Whoever begins a run under a definition that is being removed finds it there, or brings it anew."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        begin(scene, version=f"{number}", marker=f"{number}")
        begin(scene, version=f"{number}b", marker=f"{number}b")
        needed = start_of(scene, f"{number}", key=RunKey(scene.run.dag_id, f"other-{number}"))
        orphan = definition_payload(needed.definition_fingerprint)

        scene.all_of(
            scene.at_once(
                partial(scene.ledger.remove_orphans, [orphan], saved_before=scene.after(1)),
                partial(other.open_run, needed, now=scene.tick()),
            )
        )

        kept = scene.ledger.load_definition(needed.definition_fingerprint)
        scene.equal(kept, dict(needed.definition), f"the definition of the new run, round {number}")
