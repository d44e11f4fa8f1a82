"""Runs and their definitions: what every store does with them."""

from __future__ import annotations

from dataclasses import replace

from louver.errors import IntegrityError, LedgerError, Superseded
from louver.ledger.names import RunKey
from louver.sessions import Entry
from louver.states import RunState
from louver.testing.scene import COMPLETED, LAUNCHED, Scene, check

__all__ = [
    "check_get_run_of_an_unknown_one_is_none",
    "check_load_definition_is_kept_once",
    "check_load_definition_that_is_missing_is_an_integrity_error",
    "check_open_run_again_changes_nothing",
    "check_open_run_made_again_fences_the_old_processes",
    "check_open_run_made_again_starts_its_tasks_afresh",
    "check_open_run_makes_a_new_one",
    "check_open_run_with_another_marker_is_the_next_incarnation",
    "check_open_run_without_a_marker_is_the_same_run",
    "check_open_run_without_a_marker_learns_it_and_is_the_same_run",
    "check_set_run_state_is_stored",
    "check_set_run_state_of_an_unknown_run_is_an_error",
]


@check
def check_open_run_makes_a_new_one(scene: Scene) -> None:
    """A new run holds what it was opened with, in its first incarnation."""
    made = scene.begin()

    start = scene.start()
    scene.equal(made.key, start.key, "the key")
    scene.equal(made.incarnation, 1, "the incarnation")
    scene.equal(made.marker, start.marker, "the marker")
    scene.equal(made.requester, start.requester, "the requester")
    scene.equal(made.definition_name, start.definition_name, "the definition's name")
    scene.equal(made.definition_version, start.definition_version, "the definition's version")
    scene.equal(made.definition_fingerprint, start.definition_fingerprint, "the fingerprint")
    scene.equal((made.state, made.reason), (RunState.RUNNING, None), "the state")
    scene.equal((made.created_at, made.updated_at), (scene.now, scene.now), "the times")
    scene.equal(scene.ledger.get_run(scene.run), made, "what is read again")


@check
def check_open_run_again_changes_nothing(scene: Scene) -> None:
    """The same marker is the same run; what it was opened with first stays, also under another definition."""
    made = scene.begin()

    with scene.unchanged("opening it again"):
        again = scene.begin(definition_version="2", definition_fingerprint="f" * 64, requester="eve")

    scene.equal(again, made, "the run, opened again")


@check
def check_open_run_without_a_marker_is_the_same_run(scene: Scene) -> None:
    """Who does not know the marker does not make a new incarnation."""
    made = scene.begin()
    scene.equal(scene.begin(marker=None), made, "the run, opened without a marker")


@check
def check_open_run_without_a_marker_learns_it_and_is_the_same_run(scene: Scene) -> None:
    """That somebody tells which run it is makes it no other one: what it began with and has done stays."""
    made = scene.begin(marker=None)
    token = scene.succeed("act", "result")
    scene.committed(scene.launch("look"), "pay")
    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason="look failed", now=scene.tick())
    before = scene.found(scene.ledger.get_run(scene.run), "the run")

    learnt = scene.begin(definition_version="2", definition_fingerprint="f" * 64, requester="eve")

    scene.equal(learnt, replace(before, marker=scene.start().marker), "the run, which knows its marker")
    scene.equal(learnt.definition_fingerprint, made.definition_fingerprint, "the definition it began with")
    scene.equal(scene.ledger.get_run(scene.run), learnt, "what is read again")
    scene.equal(scene.ledger.load_result(token.key), "result", "a result of before")
    scene.equal(scene.ledger.verify_run(scene.run).findings, (), "what verifying it finds")
    scene.equal(scene.begin(marker="another").incarnation, 2, "the incarnation, once it is made again")


@check
def check_open_run_with_another_marker_is_the_next_incarnation(scene: Scene) -> None:
    """A run that was deleted and made again starts afresh, with the definition of now."""
    scene.begin()
    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason="act failed", now=scene.tick())

    again = scene.begin(marker="another", definition_version="2", requester="eve")

    scene.equal(again.incarnation, 2, "the incarnation")
    scene.equal(again.marker, "another", "the marker")
    scene.equal((again.state, again.reason), (RunState.RUNNING, None), "the state")
    scene.equal((again.definition_version, again.requester), ("2", "eve"), "what it was opened with")
    scene.equal(again.created_at, scene.now, "the time of creation")
    scene.equal(scene.ledger.get_run(scene.run), again, "what is read again")
    scene.equal(scene.begin(marker="another").incarnation, 2, "the incarnation, opened once more")


@check
def check_open_run_made_again_fences_the_old_processes(scene: Scene) -> None:
    """A process of the deleted run can write nothing more, even before a new one takes its task."""
    token = scene.launch("act")
    record = scene.started(token)
    scene.begin(marker="another")

    with scene.unchanged("a write of the deleted run"):
        scene.refused(
            Superseded, lambda: scene.ledger.complete(token, COMPLETED, 1, now=scene.now), "complete"
        )
        scene.refused(
            Superseded,
            lambda: scene.ledger.commit_effect(token, record, None, now=scene.now),
            "commit of an effect",
        )


@check
def check_open_run_made_again_starts_its_tasks_afresh(scene: Scene) -> None:
    """Results of the deleted run are not those of the new one; its tasks begin the next generation."""
    old = scene.succeed("act", "old result")
    scene.ledger.save_checkpoint(scene.launch("look"), "state", "old state", now=scene.tick())
    scene.begin(marker="another")

    scene.equal(scene.ledger.list_tasks(scene.run), [], "the tasks of the new run")
    scene.equal(scene.ledger.evidence(scene.run, ["act"]).state_version, 0, "its committed results")
    scene.refused(IntegrityError, lambda: scene.ledger.load_result(old.key), "the result of the old run")

    opened = scene.open("act")
    scene.equal(opened.entry, Entry.START, "how its task is entered")
    scene.equal((opened.token.incarnation, opened.token.generation), (2, 2), "incarnation and generation")
    scene.equal(opened.token.attempt, 1, "the attempt")
    scene.ledger.advance(opened.token, LAUNCHED, now=scene.tick())
    scene.ledger.complete(opened.token, COMPLETED, "new result", now=scene.tick())
    scene.equal(scene.ledger.load_result(old.key), "new result", "the result of the new run")
    look = scene.open("look").token
    scene.equal(scene.ledger.load_checkpoint(look, "state", None), None, "a checkpoint of the old run")


@check
def check_get_run_of_an_unknown_one_is_none(scene: Scene) -> None:
    """What is not there is None."""
    scene.equal(scene.ledger.get_run(scene.run), None, "a run that nobody opened")


@check
def check_load_definition_is_kept_once(scene: Scene) -> None:
    """The plain form of the definition comes back, as it was when its fingerprint was seen first."""
    scene.begin()
    form = dict(scene.start().definition)
    scene.begin(key=RunKey(scene.run.dag_id, "run-2"), definition={"name": "something else"})

    scene.equal(scene.ledger.load_definition(scene.definition_fingerprint), form, "the definition")


@check
def check_load_definition_that_is_missing_is_an_integrity_error(scene: Scene) -> None:
    """A definition that was never kept is an error, never a default."""
    scene.refused(
        IntegrityError, lambda: scene.ledger.load_definition(scene.definition_fingerprint), "a missing one"
    )


@check
def check_set_run_state_is_stored(scene: Scene) -> None:
    """State, reason and time are kept; the rest of the run stays."""
    made = scene.begin()
    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason="act failed", now=scene.tick())

    run = scene.found(scene.ledger.get_run(scene.run), "the run")
    scene.equal((run.state, run.reason), (RunState.FAILED, "act failed"), "the state")
    scene.equal((run.created_at, run.updated_at), (made.created_at, scene.now), "the times")
    scene.equal((run.incarnation, run.marker), (made.incarnation, made.marker), "what it is")


@check
def check_set_run_state_of_an_unknown_run_is_an_error(scene: Scene) -> None:
    """There is nothing to store it in."""
    scene.refused(
        LedgerError,
        lambda: scene.ledger.set_run_state(scene.run, RunState.FAILED, reason=None, now=scene.now),
        "a run that nobody opened",
    )
    scene.equal(scene.ledger.get_run(scene.run), None, "the run afterwards")
