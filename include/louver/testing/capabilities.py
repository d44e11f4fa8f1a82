"""
What a store says that it can do, it does (row W15).

What it does not do: hold a lock while another claims, for which the contract has no operation. That claims
pass over locked rows is a test of each store's own, which knows how to lock one.
"""

from __future__ import annotations

from collections.abc import Callable

from louver.ledger.contract import Ledger
from louver.ledger.requests import Capability, Progress
from louver.states import RunState
from louver.testing.scene import Scene, check

__all__ = [
    "check_capabilities_are_named_by_the_contract",
    "check_capabilities_durable_means_that_it_is_there_after_closing",
    "check_capabilities_shared_means_that_every_handle_sees_the_same",
]

_WHAT_IS_SEEN: dict[str, Callable[[Scene, Ledger], object]] = {
    "the run": lambda scene, ledger: ledger.get_run(scene.run),
    "its seal": lambda scene, ledger: ledger.get_seal(scene.run),
    "its tasks": lambda scene, ledger: ledger.list_tasks(scene.run),
    "its transitions": lambda scene, ledger: ledger.list_transitions(scene.run),
    "its result": lambda scene, ledger: ledger.load_result(scene.key()),
    "its effects": lambda scene, ledger: ledger.list_effects(scene.run),
    "its commands": lambda scene, ledger: ledger.list_commands(scene.run),
    "its signs of life": lambda scene, ledger: ledger.list_touches(scene.run),
}


@check
def check_capabilities_are_named_by_the_contract(scene: Scene) -> None:
    """A set that does not change, of capabilities and nothing else."""
    found = scene.ledger.CAPABILITIES
    scene.equal(type(found), frozenset, "the type of CAPABILITIES")
    scene.equal({type(capability) for capability in found} - {Capability}, set(), "the types of its members")


@check
def check_capabilities_shared_means_that_every_handle_sees_the_same(scene: Scene) -> None:
    """Another handle is another object, as it would be in another process, and sees at once what was done."""
    if not scene.offers(Capability.SHARED):
        return
    other = scene.open_ledger()
    scene.holds(other is not scene.ledger, "a store that is shared must open another handle each time")
    scene.equal(other.CAPABILITIES, scene.ledger.CAPABILITIES, "what the other handle offers")

    token = scene.succeed("act", {"sum": 5})
    scene.committed(scene.launch("look"))
    scene.send(task=token.key)
    scene.ledger.touch(token, progress=Progress(done=1.0), now=scene.tick())
    lease = scene.ledger.take_lease(scene.id, "ann", lease_until=scene.after(60), now=scene.now)
    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason=None, now=scene.tick())

    for what, read in _WHAT_IS_SEEN.items():
        seen = read(scene, other)
        scene.holds(bool(seen), f"{what} must be seen by the other handle")
        scene.equal(seen, read(scene, scene.ledger), f"{what}, by the other handle")
    scene.equal(other.get_lease(scene.id), lease, "the lease, by the other handle")


@check
def check_capabilities_durable_means_that_it_is_there_after_closing(scene: Scene) -> None:
    """With every handle of this check closed, a new one finds all of it."""
    if not scene.offers(Capability.DURABLE):
        return
    token = scene.succeed("act", {"sum": 5})
    scene.committed(scene.launch("look"))
    scene.send(task=token.key)
    scene.ledger.touch(token, now=scene.tick())
    scene.ledger.set_run_state(scene.run, RunState.FAILED, reason=None, now=scene.tick())
    before = {what: read(scene, scene.ledger) for what, read in _WHAT_IS_SEEN.items()}

    for handle in (scene.open_ledger(), scene.ledger):
        handle.close()
    scene.ledger = scene.open_ledger()

    for what, read in _WHAT_IS_SEEN.items():
        scene.holds(bool(before[what]), f"{what} must have been there")
        scene.equal(read(scene, scene.ledger), before[what], f"{what}, afterwards")
    scene.launch("act", try_number=2, max_tries=4)
