"""The seal of a run that has finished (semantics section 1)."""

from __future__ import annotations

from functools import partial

from louver.errors import LedgerError
from louver.ledger.names import RunKey
from louver.sessions import Change
from louver.states import RunState, Source, TaskState
from louver.testing.scene import COMPLETED, FAILED, Scene, check

__all__ = [
    "check_get_seal_of_a_run_made_again_is_none_until_it_is_sealed",
    "check_get_seal_of_a_run_that_was_not_sealed_is_none",
    "check_seal_run_again_signs_what_has_changed_since",
    "check_seal_run_at_once_leaves_one_seal",
    "check_seal_run_is_kept",
    "check_seal_run_of_a_run_made_again_is_of_that_one",
    "check_seal_run_of_an_unknown_run_is_an_error",
    "check_set_run_state_again_seals_again",
    "check_set_run_state_seals_where_the_run_is_over",
]

_ROUNDS = 10


@check
def check_get_seal_of_a_run_that_was_not_sealed_is_none(scene: Scene) -> None:
    """Neither one that nobody opened, nor one whose tasks have ended, but which has not."""
    scene.equal(scene.ledger.get_seal(scene.run), None, "the seal of a run that nobody opened")
    scene.succeed("act")
    scene.equal(scene.ledger.get_seal(scene.run), None, "the seal of a run that has not finished")


@check
def check_get_seal_of_a_run_made_again_is_none_until_it_is_sealed(scene: Scene) -> None:
    """The seal of the deleted run says nothing of the one that has its id now."""
    scene.succeed("act")
    scene.ledger.set_run_state(scene.run, RunState.SUCCEEDED, reason=None, now=scene.tick())
    scene.begin(marker="another")

    scene.equal(scene.ledger.get_seal(scene.run), None, "the seal of the run that was made again")
    scene.succeed("act")
    scene.equal(scene.ledger.get_seal(scene.run), None, "its seal while it is at work")
    scene.ledger.set_run_state(scene.run, RunState.SUCCEEDED, reason=None, now=scene.tick())
    seal = scene.found(scene.ledger.get_seal(scene.run), "the seal")
    scene.equal(
        (seal.incarnation, seal.sealed_at), (2, scene.now), "which run it is of, and when it was made"
    )


@check
def check_seal_run_is_kept(scene: Scene) -> None:
    """It says of which run it is, and when it was made; sealing changes nothing else."""
    scene.succeed("act")
    before = scene.ledger.get_run(scene.run), scene.ledger.list_transitions(scene.run)

    seal = scene.ledger.seal_run(scene.run, now=scene.tick())

    scene.equal((seal.dag_id, seal.run_id, seal.incarnation), (*_named(scene), 1), "which run it is of")
    scene.equal(seal.sealed_at, scene.now, "its time")
    scene.holds(isinstance(seal.envelope, bytes) and seal.envelope != b"", "it must have an envelope")
    scene.equal(scene.ledger.get_seal(scene.run), seal, "what is read again")
    after = scene.ledger.get_run(scene.run), scene.ledger.list_transitions(scene.run)
    scene.equal(after, before, "the run and its transitions")


@check
def check_seal_run_of_an_unknown_run_is_an_error(scene: Scene) -> None:
    """There is nothing to sign."""
    scene.refused(
        LedgerError, lambda: scene.ledger.seal_run(scene.run, now=scene.now), "a run that nobody opened"
    )
    scene.equal(scene.ledger.get_seal(scene.run), None, "its seal afterwards")


@check
def check_seal_run_again_signs_what_has_changed_since(scene: Scene) -> None:
    """A task that was cleared, one that was marked by hand, and one that is new: each is another end."""
    token = scene.launch("act")
    scene.ledger.advance(token, FAILED, now=scene.tick())
    seals = [scene.ledger.seal_run(scene.run, now=scene.tick())]

    cleared = scene.launch("act", try_number=2, max_tries=4)
    scene.ledger.complete(cleared, COMPLETED, None, now=scene.tick())
    seals.append(scene.ledger.seal_run(scene.run, now=scene.tick()))
    skip = Change(to=TaskState.SKIPPED, trigger="user:marked", actor="ann")
    scene.ledger.mark(cleared.key, skip, session=cleared.session, source=Source.API, now=scene.tick())
    seals.append(scene.ledger.seal_run(scene.run, now=scene.tick()))
    scene.succeed("look")
    seals.append(scene.ledger.seal_run(scene.run, now=scene.tick()))

    scene.equal(len({seal.envelope for seal in seals}), 4, "how many envelopes differ")
    scene.equal(scene.ledger.get_seal(scene.run), seals[-1], "the seal that is kept")


@check
def check_seal_run_of_a_run_made_again_is_of_that_one(scene: Scene) -> None:
    """The seal of the deleted run is replaced."""
    scene.succeed("act")
    old = scene.ledger.seal_run(scene.run, now=scene.tick())
    scene.begin(marker="another")
    scene.succeed("act")

    seal = scene.ledger.seal_run(scene.run, now=scene.tick())

    scene.equal((old.incarnation, seal.incarnation), (1, 2), "the incarnations")
    scene.holds(old.envelope != seal.envelope, "the new run's seal must be another one")
    scene.equal(scene.ledger.get_seal(scene.run), seal, "the seal that is kept")


@check
def check_set_run_state_seals_where_the_run_is_over(scene: Scene) -> None:
    """Each terminal state does, none of the others; the seals of two runs are not each other's."""
    for state in RunState:
        run = RunKey(scene.run.dag_id, state.value)
        scene.succeed("act", run=run)
        scene.ledger.set_run_state(run, state, reason=None, now=scene.tick())
        seal = scene.ledger.get_seal(run)
        if state.terminal:
            found = scene.found(seal, f"the seal of a run that is {state}")
            scene.equal((found.run_id, found.incarnation), (state.value, 1), "which run it is of")
            scene.equal(found.sealed_at, scene.now, f"its time where the run is {state}")
        else:
            scene.equal(seal, None, f"the seal of a run that is {state}")


@check
def check_set_run_state_again_seals_again(scene: Scene) -> None:
    """A run that ends in the same state once more, after a task was cleared, has other ends."""
    scene.ledger.advance(scene.launch("act"), FAILED, now=scene.tick())
    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason="act", now=scene.tick())
    first = scene.found(scene.ledger.get_seal(scene.run), "the first seal")
    scene.ledger.advance(scene.launch("act", try_number=2, max_tries=4), FAILED, now=scene.tick())

    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason="act", now=scene.tick())

    second = scene.found(scene.ledger.get_seal(scene.run), "the second seal")
    scene.equal(second.sealed_at, scene.now, "its time")
    scene.holds(first.envelope != second.envelope, "it must sign the new ends")


@check
def check_seal_run_at_once_leaves_one_seal(scene: Scene) -> None:
    """Two that see a run end both seal it; what is kept is what one of them made."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        run = RunKey(scene.run.dag_id, f"run-{number}")
        scene.succeed("act", run=run)

        made = scene.all_of(
            scene.at_once(
                partial(scene.ledger.seal_run, run, now=scene.tick()),
                partial(other.seal_run, run, now=scene.after(1)),
            )
        )

        kept = scene.found(scene.ledger.get_seal(run), "the seal")
        scene.holds(kept in made, f"the seal that is kept must be one of both, round {number}")


def _named(scene: Scene) -> tuple[str, str]:
    return scene.run.dag_id, scene.run.run_id
