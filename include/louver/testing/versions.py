"""Definitions that change under a run (row O14)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from louver.errors import ApprovalStale, DefinitionChanged, Superseded
from louver.ledger.names import RunKey, Token
from louver.ledger.records import AcceptanceRecord, RunRecord
from louver.ledger.requests import BeginOutcome, RunStart
from louver.testing.scene import COMPLETED, LAUNCHED, Scene, check

__all__ = [
    "check_accept_definition_asks_people_anew",
    "check_accept_definition_at_once_is_accepted_once",
    "check_accept_definition_compared_with_another_one_changes_nothing",
    "check_accept_definition_is_for_the_process_that_holds_a_task",
    "check_accept_definition_keeps_what_was_saved_readable",
    "check_accept_definition_names_the_new_one",
    "check_accept_definition_never_goes_back",
    "check_accept_definition_twice_is_once",
    "check_list_acceptances_goes_from_the_first_to_the_newest",
    "check_list_acceptances_of_a_run_made_again_is_empty",
    "check_list_acceptances_of_an_unknown_run_is_empty",
]


@check
def check_accept_definition_names_the_new_one(scene: Scene) -> None:
    """The run's record, and all that is read by it, go by the new definition; it says who accepted it."""
    token = scene.launch()
    before = scene.found(scene.ledger.get_run(scene.run), "the run")

    run = _accept(scene, token, 2)

    scene.equal(
        run,
        replace(
            before,
            definition_version="2",
            definition_fingerprint=_named(scene, 2),
            updated_at=scene.now,
        ),
        "the run",
    )
    scene.equal(scene.ledger.get_run(scene.run), run, "the run, read again")
    scene.equal(
        scene.ledger.load_definition(run.definition_fingerprint),
        _start(scene, 2).definition,
        "its definition",
    )
    (accepted,) = scene.ledger.list_acceptances(scene.run)
    scene.equal(_ends(accepted), (1, "1", _named(scene, 1), "2", _named(scene, 2)), "what was accepted")
    scene.equal(
        (accepted.run, accepted.task_id, accepted.map_index, accepted.process, accepted.source),
        (scene.run, "act", -1, token.process, token.source),
        "by whom",
    )
    scene.equal((accepted.reason, accepted.accepted_at), ("new: more", scene.now), "why and when")


@check
def check_accept_definition_keeps_what_was_saved_readable(scene: Scene) -> None:
    """Results and states of before are read, by their own process too; and so is what is saved since."""
    scene.succeed("look", result={"rows": 3})
    token = scene.launch()
    scene.ledger.save_checkpoint(token, "place", 1, now=scene.tick())

    for number in (2, 3):
        _accept(scene, scene.launch(f"new-{number}"), number)

    scene.equal(scene.ledger.load_result(scene.key("look")), {"rows": 3}, "the result of before")
    scene.equal(scene.ledger.load_checkpoint(token, "place", None), 1, "the state of before")
    scene.ledger.save_checkpoint(token, "place", 2, now=scene.tick())
    scene.equal(scene.ledger.load_checkpoint(token, "place", None), 2, "the state saved since")
    scene.ledger.complete(token, COMPLETED, "done", now=scene.tick())
    scene.equal(scene.ledger.load_result(scene.key()), "done", "the result saved since")
    verdict = scene.ledger.verify_run(scene.run)
    scene.equal([str(finding) for finding in verdict.findings], [], "what is found broken")


@check
def check_accept_definition_twice_is_once(scene: Scene) -> None:
    """Its answer was lost on the way."""
    token = scene.launch()
    run = _accept(scene, token, 2)

    with scene.unchanged("the second time"):
        scene.equal(_accept(scene, token, 2), run, "what it is told")
    scene.equal(len(scene.ledger.list_acceptances(scene.run)), 1, "how many acceptances there are")


@check
def check_accept_definition_compared_with_another_one_changes_nothing(scene: Scene) -> None:
    """Somebody else was quicker, and accepted yet another one."""
    first, second = scene.launch("look"), scene.launch()
    _accept(scene, first, 2)

    with scene.unchanged("what comes too late"):
        scene.refused(
            DefinitionChanged, partial(_accept, scene, second, 3, instead_of=1), "an outdated comparison"
        )
    scene.equal(len(scene.ledger.list_acceptances(scene.run)), 1, "how many acceptances there are")


@check
def check_accept_definition_never_goes_back(scene: Scene) -> None:
    """What a run has left it has left: who has that definition still is outdated."""
    token = scene.launch()
    _accept(scene, token, 2)
    _accept(scene, token, 3)

    for number in (1, 2):
        with scene.unchanged("the way back"):
            scene.refused(
                DefinitionChanged,
                partial(_accept, scene, token, number, instead_of=3),
                f"definition {number}",
            )


@check
def check_accept_definition_is_for_the_process_that_holds_a_task(scene: Scene) -> None:
    """A superseded process accepts nothing."""
    old = scene.launch()
    scene.open(try_number=2)

    with scene.unchanged("a superseded process"):
        scene.refused(Superseded, partial(_accept, scene, old, 2), "its acceptance")


@check
def check_accept_definition_asks_people_anew(scene: Scene) -> None:
    """What was approved under the old definition allows nothing under the new one (semantics section 6)."""
    scene.succeed("look")
    scene.approved(ancestors=("look",))
    token = scene.launch()
    _accept(scene, token, 2)

    scene.refused(
        ApprovalStale,
        lambda: scene.ledger.begin_effect(token, scene.effect(guarded_by="act"), now=scene.tick()),
        "an effect that was allowed under the definition of before",
    )
    asked = scene.approved(2, ancestors=("look",))
    scene.equal(
        (asked.definition_version, asked.definition_fingerprint), ("2", _named(scene, 2)), "who is asked now"
    )
    begun = scene.ledger.begin_effect(token, scene.effect(guarded_by="act"), now=scene.tick())
    scene.equal(begun.outcome, BeginOutcome.BEGUN, "the effect that was allowed under the new one")


@check
def check_accept_definition_at_once_is_accepted_once(scene: Scene) -> None:
    """Two workers with the same new definition meet the run together."""
    other = scene.open_ledger()
    first, second = scene.launch("look"), scene.launch()
    now = scene.tick()

    runs = scene.all_of(
        scene.at_once(
            *(
                partial(
                    ledger.accept_definition,
                    token,
                    _start(scene, 2),
                    instead_of=_named(scene, 1),
                    reason="new: more",
                    now=now,
                )
                for ledger, token in ((scene.ledger, first), (other, second))
            )
        )
    )

    scene.equal([run.definition_version for run in runs], ["2", "2"], "what both are told")
    scene.equal(len(scene.ledger.list_acceptances(scene.run)), 1, "how many acceptances there are")


@check
def check_list_acceptances_goes_from_the_first_to_the_newest(scene: Scene) -> None:
    """Each goes on from the one before; another run's are not among them."""
    for number in range(2, 13):
        token = scene.launch(f"new-{number}")
        scene.ledger.advance(token, now=scene.tick())
        _accept(scene, token, number)
    elsewhere = RunKey(scene.run.dag_id, "run-2")
    scene.ledger.advance(scene.open(run=elsewhere).token, LAUNCHED, now=scene.tick())

    found = scene.ledger.list_acceptances(scene.run)

    scene.equal([one.number for one in found], list(range(1, 12)), "their numbers")
    scene.equal(
        [(one.from_version, one.to_version) for one in found],
        [(str(number), str(number + 1)) for number in range(1, 12)],
        "what they lead from and to",
    )
    scene.equal(scene.ledger.list_acceptances(elsewhere), [], "those of another run")


@check
def check_list_acceptances_of_a_run_made_again_is_empty(scene: Scene) -> None:
    """It is another run, which began under what it began under."""
    scene.succeed("look")
    _accept(scene, scene.launch(), 2)
    scene.begin(marker="another")

    scene.equal(scene.ledger.list_acceptances(scene.run), [], "the acceptances of the new run")
    _accept(scene, scene.launch(), 3)
    (accepted,) = scene.ledger.list_acceptances(scene.run)
    scene.equal(
        _ends(accepted), (1, "1", _named(scene, 1), "3", _named(scene, 3)), "what the new run accepts"
    )


@check
def check_list_acceptances_of_an_unknown_run_is_empty(scene: Scene) -> None:
    """As all lists of a run that nobody opened."""
    scene.equal(scene.ledger.list_acceptances(scene.run), [], "the acceptances of a run that nobody opened")


def _named(scene: Scene, number: int) -> str:
    """The fingerprint of one of the definitions that the run may be under."""
    first = scene.definition_fingerprint
    return first if number == 1 else f"{number:02x}{first[:62]}"


def _start(scene: Scene, number: int) -> RunStart:
    return scene.start(
        definition_version=str(number),
        definition_fingerprint=_named(scene, number),
        definition={"name": "contract", "version": str(number), "steps": ["look", "act", "more"]},
    )


def _accept(scene: Scene, token: Token, number: int, *, instead_of: int | None = None) -> RunRecord:
    before = scene.found(scene.ledger.get_run(scene.run), "the run").definition_fingerprint
    return scene.ledger.accept_definition(
        token,
        _start(scene, number),
        instead_of=before if instead_of is None else _named(scene, instead_of),
        reason="new: more",
        now=scene.tick(),
    )


def _ends(accepted: AcceptanceRecord) -> tuple[int, str, str, str, str]:
    return (
        accepted.number,
        accepted.from_version,
        accepted.from_fingerprint,
        accepted.to_version,
        accepted.to_fingerprint,
    )
