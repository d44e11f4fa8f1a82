"""Leases of owners: something that one at a time may do (rows T11 and T14)."""

from __future__ import annotations

from functools import partial

from louver.testing.scene import Scene, check

__all__ = [
    "check_get_lease_that_nobody_took_is_none",
    "check_give_lease_lets_the_next_one_take_it_at_once",
    "check_give_lease_of_another_owner_does_nothing",
    "check_take_lease_at_once_gives_it_to_one",
    "check_take_lease_is_kept",
    "check_take_lease_of_another_name_is_another_lease",
    "check_take_lease_of_one_that_ran_out_begins_a_new_term",
    "check_take_lease_renews_it_for_its_owner",
    "check_take_lease_while_another_owner_has_it_is_none",
]

_ROUNDS = 10


@check
def check_take_lease_is_kept(scene: Scene) -> None:
    """Whose it is, since when, until when; the first term is 1."""
    until = scene.after(60)

    lease = scene.found(scene.ledger.take_lease(scene.id, "ann", lease_until=until, now=scene.now), "it")

    scene.equal((lease.name, lease.owner, lease.term), (scene.id, "ann", 1), "whose it is")
    scene.equal((lease.acquired_at, lease.lease_until), (scene.now, until), "its times")
    scene.equal(scene.ledger.get_lease(scene.id), lease, "what is read again")


@check
def check_take_lease_while_another_owner_has_it_is_none(scene: Scene) -> None:
    """To its very last moment."""
    lease = scene.ledger.take_lease(scene.id, "ann", lease_until=scene.after(60), now=scene.now)

    for seconds in (0.0, 59.0, 0.999999):
        now = scene.tick(seconds)
        other = scene.ledger.take_lease(scene.id, "bob", lease_until=scene.after(60), now=now)
        scene.equal(other, None, "what the other owner gets")
        scene.equal(scene.ledger.get_lease(scene.id), lease, "the lease")


@check
def check_take_lease_renews_it_for_its_owner(scene: Scene) -> None:
    """The same term goes on: who holds the token of it need not be told."""
    first = scene.ledger.take_lease(scene.id, "ann", lease_until=scene.after(60), now=scene.now)
    taken = scene.found(first, "the lease")
    now, until = scene.tick(30), scene.after(60)

    renewed = scene.found(scene.ledger.take_lease(scene.id, "ann", lease_until=until, now=now), "the lease")

    scene.equal((renewed.term, renewed.acquired_at), (taken.term, taken.acquired_at), "its term")
    scene.equal(renewed.lease_until, until, "its end")
    scene.equal(scene.ledger.get_lease(scene.id), renewed, "what is read again")


@check
def check_take_lease_of_one_that_ran_out_begins_a_new_term(scene: Scene) -> None:
    """At the moment it ends another owner may take it; the one before then finds it taken."""
    scene.ledger.take_lease(scene.id, "ann", lease_until=scene.after(60), now=scene.now)
    now, until = scene.tick(60), scene.after(60)

    lease = scene.found(scene.ledger.take_lease(scene.id, "bob", lease_until=until, now=now), "the lease")

    scene.equal((lease.owner, lease.term, lease.acquired_at), ("bob", 2, now), "whose it is")
    late = scene.ledger.take_lease(scene.id, "ann", lease_until=scene.after(90), now=scene.tick())
    scene.equal(late, None, "what the owner before gets")
    scene.equal(scene.ledger.get_lease(scene.id), lease, "the lease")


@check
def check_take_lease_of_another_name_is_another_lease(scene: Scene) -> None:
    """Each name has an owner, and terms, of its own."""
    for name, owner in (("one", "ann"), ("two", "bob")):
        now = scene.tick()
        lease = scene.ledger.take_lease(f"{scene.id}-{name}", owner, lease_until=scene.after(60), now=now)
        scene.equal(scene.found(lease, "the lease").term, 1, "its term")
    found = [scene.ledger.get_lease(f"{scene.id}-{name}") for name in ("one", "two")]
    scene.equal([lease.owner for lease in found if lease], ["ann", "bob"], "the owners")


@check
def check_give_lease_lets_the_next_one_take_it_at_once(scene: Scene) -> None:
    """In a term of its own; also the owner that gave it may take it again."""
    for owner, term in (("ann", 1), ("bob", 2), ("ann", 3)):
        now = scene.tick()
        lease = scene.ledger.take_lease(scene.id, owner, lease_until=scene.after(60), now=now)
        scene.equal(scene.found(lease, f"the lease for {owner}").term, term, "its term")
        scene.ledger.give_lease(scene.id, owner, now=scene.tick())
        given = scene.found(scene.ledger.get_lease(scene.id), "the lease, given back")
        scene.holds(given.lease_until <= scene.now, "a lease that was given back must be over")


@check
def check_give_lease_of_another_owner_does_nothing(scene: Scene) -> None:
    """Neither that of who has it, nor one that has passed on, nor one that nobody ever took."""
    scene.ledger.give_lease(f"{scene.id}-none", "ann", now=scene.now)
    scene.equal(scene.ledger.get_lease(f"{scene.id}-none"), None, "a lease that nobody took")

    scene.ledger.take_lease(scene.id, "ann", lease_until=scene.after(60), now=scene.now)
    now = scene.tick(60)
    lease = scene.ledger.take_lease(scene.id, "bob", lease_until=scene.after(60), now=now)
    for owner in ("ann", "eve"):
        scene.ledger.give_lease(scene.id, owner, now=scene.tick())
        scene.equal(scene.ledger.get_lease(scene.id), lease, f"the lease that {owner} does not have")


@check
def check_get_lease_that_nobody_took_is_none(scene: Scene) -> None:
    """What is not there is None; asking does not take it."""
    for _ in range(2):
        scene.equal(scene.ledger.get_lease(scene.id), None, "a lease that nobody took")


@check
def check_take_lease_at_once_gives_it_to_one(scene: Scene) -> None:
    """One that is new, and one that has just run out; every term has one owner."""
    other = scene.open_ledger()
    for term in range(1, _ROUNDS + 1):
        now, until = scene.tick(60), scene.after(60)

        taken = scene.all_of(
            scene.at_once(
                partial(scene.ledger.take_lease, scene.id, "ann", lease_until=until, now=now),
                partial(other.take_lease, scene.id, "bob", lease_until=until, now=now),
            )
        )

        quicker = [lease for lease in taken if lease is not None]
        scene.equal(quicker, [scene.ledger.get_lease(scene.id)], "those that have it")
        scene.equal(quicker[0].term, term, "the term")
