"""A person empties what a task has saved (semantics section 1)."""

from __future__ import annotations

from louver.errors import LedgerError
from louver.ledger.names import TaskKey
from louver.testing.scene import FAILED, Scene, check

__all__ = [
    "check_list_states_gives_those_of_the_present_generation",
    "check_reset_states_empties_what_the_next_process_would_go_on_from",
    "check_reset_states_leaves_a_process_at_work_alone",
    "check_reset_states_of_a_task_that_is_over_is_an_error",
    "check_reset_states_of_what_was_never_opened_is_nothing",
]


@check
def check_list_states_gives_those_of_the_present_generation(scene: Scene) -> None:
    """By name; the result is none of them, and neither is what was saved before a clear."""
    token = scene.launch("act")
    for name in ("state", "cursor"):
        scene.ledger.save_checkpoint(token, name, 1, now=scene.tick())
    scene.succeed("look", "a result")

    scene.equal(scene.ledger.list_states(token.key), ("cursor", "state"), "those of the task")
    scene.equal(scene.ledger.list_states(scene.key("look")), (), "those of one with a result alone")


@check
def check_reset_states_empties_what_the_next_process_would_go_on_from(scene: Scene) -> None:
    """That of this task and index alone; doing it again finds nothing, and all is sound."""
    tokens = [scene.launch("act", map_index=index) for index in (0, 1)]
    for token in tokens:
        scene.ledger.save_checkpoint(token, "state", {"page": 7}, now=scene.tick())

    scene.equal(scene.ledger.reset_states(tokens[0].key), ("state",), "what was removed")
    scene.equal(scene.ledger.reset_states(tokens[0].key), (), "what was removed then")

    left = []
    for index in (0, 1):
        token = scene.open("act", map_index=index, try_number=2).token
        left.append(scene.ledger.load_checkpoint(token, "state", None))
    scene.equal(left, [None, {"page": 7}], "what the next processes find")
    scene.equal(scene.ledger.verify_run(scene.run).findings, (), "what verify finds")


@check
def check_reset_states_leaves_a_process_at_work_alone(scene: Scene) -> None:
    """It may save again, and finds that again."""
    token = scene.launch("act")
    scene.ledger.save_checkpoint(token, "state", 1, now=scene.tick())
    scene.ledger.reset_states(token.key)

    scene.ledger.save_checkpoint(token, "state", 2, now=scene.tick())

    scene.equal(scene.ledger.load_checkpoint(token, "state", None), 2, "what it finds")


@check
def check_reset_states_of_a_task_that_is_over_is_an_error(scene: Scene) -> None:
    """Its run may be sealed with what it has saved."""
    token = scene.launch("act")
    scene.ledger.save_checkpoint(token, "state", 1, now=scene.tick())
    scene.ledger.advance(token, FAILED, now=scene.tick())

    with scene.unchanged("a task that is over"):
        scene.refused(LedgerError, lambda: scene.ledger.reset_states(token.key), "emptying it")
    scene.equal(scene.ledger.list_states(token.key), ("state",), "what it has")


@check
def check_reset_states_of_what_was_never_opened_is_nothing(scene: Scene) -> None:
    """Neither is it a fault."""
    scene.begin()
    never = TaskKey(scene.run.dag_id, scene.run.run_id, "never")
    scene.equal((scene.ledger.list_states(never), scene.ledger.reset_states(never)), ((), ()), "what it has")
