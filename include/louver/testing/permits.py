"""Permits: one line for everybody who shares the ledger (semantics section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from louver.errors import ConfigurationError, Superseded
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, Token
from louver.ledger.records import PermitRecord
from louver.semaphores import Stage
from louver.testing.permit_line import TERMS, Line, limit_of
from louver.testing.scene import Scene, check

__all__ = [
    "check_release_permit_by_one_that_waits_lets_those_behind_it_through",
    "check_release_permit_grants_the_next_in_the_same_transaction",
    "check_release_permit_of_a_later_session_does_nothing",
    "check_renew_permit_keeps_it_beyond_its_lease",
    "check_settle_permits_frees_what_was_not_renewed",
    "check_settle_permits_gives_a_raised_limit_to_the_line_in_its_order",
    "check_settle_permits_passes_on_a_turn_that_nobody_takes",
    "check_take_permit_again_keeps_the_place",
    "check_take_permit_at_once_never_gives_more_than_there_is",
    "check_take_permit_by_a_superseded_process_is_refused",
    "check_take_permit_by_the_next_process_of_the_task_is_no_second_one",
    "check_take_permit_counts_over_all_tasks_and_runs",
    "check_take_permit_of_several_is_all_or_nothing",
    "check_take_permit_of_what_has_no_limit_any_more_leaves_nothing",
    "check_take_permit_of_what_has_no_limit_is_none",
    "check_take_permit_serves_the_line_in_order_of_priority_and_asking",
    "check_take_permit_that_can_never_be_had_is_refused",
    "check_take_permit_under_a_rate_waits_for_its_time",
]

_ROUNDS = 5


def _take(ledger: Ledger, token: Token, needs: Mapping[str, int], place: Line) -> PermitRecord | None:
    now = place.scene.now
    return ledger.take_permit(token, needs, limits=place.limits, priority=1, terms=TERMS, now=now)


@check
def check_take_permit_of_what_has_no_limit_is_none(scene: Scene) -> None:
    """And leaves nothing behind."""
    place = Line(scene)
    scene.equal(place.take(scene.launch("act"), api=3), None, "the permit")
    scene.equal(place.stands(), {}, "who has a place")


@check
def check_take_permit_of_what_has_no_limit_any_more_leaves_nothing(scene: Scene) -> None:
    """What the task was given under a limit is no use of the next limit."""
    place = Line(scene, api=limit_of(1))
    one, two = place.crowd(2)
    place.take(one, api=1)
    place.take(two, api=1)
    scene.ledger.unset_resource(place.name("api"), limits={}, terms=TERMS, now=scene.tick())
    free = Line(scene)

    scene.equal([free.take(token, api=1) for token in (one, two)], [None, None], "the permits then")

    scene.equal(place.stands(), {}, "who has what")


@check
def check_take_permit_counts_over_all_tasks_and_runs(scene: Scene) -> None:
    """It is the resource's limit, and nobody's of those who use it; what is kept is told in full."""
    place = Line(scene, api=limit_of(2))
    one, two, three = place.crowd(3)

    first = scene.found(place.take(one, api=1), "the first permit")
    scene.equal(
        [place.taken(two, api=1), place.taken(three, api=1)], [Stage.HELD, Stage.WAITING], "the others"
    )

    scene.equal((first.units, first.stage), ({place.name("api"): 1}, Stage.HELD), "what is had")
    scene.equal(first.until, first.wanted_at + TERMS.lease, "until when")
    scene.equal(place.stands()["run-2/act"], Stage.WAITING, "how the last one stands")


@check
def check_take_permit_again_keeps_the_place(scene: Scene) -> None:
    """Whoever comes back from waiting is not behind those who came meanwhile."""
    place = Line(scene, api=limit_of(1))
    one, two, three = place.crowd(3)
    scene.equal(
        [place.taken(token, api=1) for token in (one, two, three)][1:], [Stage.WAITING] * 2, "who waits"
    )
    before = scene.found(place.take(two, api=1), "the place")
    again = scene.launch("act", run=two.key.run, try_number=2)

    after = scene.found(place.take(again, api=1), "the place of the next process")

    scene.equal(after.sequence, before.sequence, "the place in the line")
    scene.equal(after.session, again.session, "whose it is")
    place.give(one)
    scene.equal(place.stands()["run-1/act"], Stage.GRANTED, "whose turn it is")
    scene.equal(place.taken(again, api=1), Stage.HELD, "what the turn gives")


@check
def check_take_permit_serves_the_line_in_order_of_priority_and_asking(scene: Scene) -> None:
    """One after the other, each when the one before it gives back."""
    place = Line(scene, api=limit_of(1))
    holder, *others = place.crowd(5)
    place.take(holder, api=1)
    for token, priority in zip(others, (1, 1, 5, 5), strict=True):
        scene.equal(place.taken(token, priority=priority, api=1), Stage.WAITING, "how it stands")

    order = []
    for _ in others:
        settled = scene.found(place.give(holder), "what giving back led to")
        scene.equal(len(settled.granted), 1, "how many have their turn")
        order.append(settled.granted[0].run_id)
        holder = next(token for token in others if token.key == settled.granted[0].task)
        scene.equal(place.taken(holder, api=1), Stage.HELD, "what the turn gives")

    scene.equal(order, ["run-3", "run-4", "run-1", "run-2"], "the order")


@check
def check_take_permit_of_several_is_all_or_nothing(scene: Scene) -> None:
    """Who lacks one of two holds neither, and is not overtaken at either."""
    place = Line(scene, a=limit_of(1), b=limit_of(1))
    one, both, late = place.crowd(3)
    place.take(one, a=1)
    scene.equal(place.taken(both, a=1, b=1), Stage.WAITING, "who needs both")
    scene.equal(place.taken(late, b=1), Stage.WAITING, "who comes later and needs the other one")

    place.give(one)

    scene.equal(place.stands(), {"run-1/act": Stage.GRANTED, "run-2/act": Stage.WAITING}, "who is next")
    place.give(both)
    scene.equal(place.stands(), {"run-2/act": Stage.GRANTED}, "who comes then")


@check
def check_take_permit_that_can_never_be_had_is_refused(scene: Scene) -> None:
    """With the figures; nobody waits for what cannot come."""
    place = Line(scene, api=limit_of(2), slow=limit_of("3/min"))
    token = scene.launch("act")
    for units in ({"api": 3}, {"slow": 4}):
        error = scene.refused(ConfigurationError, partial(place.take, token, **units), "a need too large")
        scene.holds("it needs" in str(error), "the error must give the figures")
    scene.equal(place.stands(), {}, "who has a place")


@check
def check_take_permit_under_a_rate_waits_for_its_time(scene: Scene) -> None:
    """A rate counts what begins, however soon it ends."""
    place = Line(scene, api=limit_of("2/min"))
    one, two, three = place.crowd(3)
    place.take(one, api=1)
    place.give(one)
    scene.equal(
        [place.taken(two, api=1), place.taken(three, api=1)], [Stage.HELD, Stage.WAITING], "who begins"
    )

    scene.tick(20)
    place.settle()
    scene.equal(place.stands()["run-2/act"], Stage.WAITING, "before its time")
    scene.tick(10)
    place.settle()
    scene.equal(place.stands()["run-2/act"], Stage.GRANTED, "when its time has come")


@check
def check_take_permit_by_the_next_process_of_the_task_is_no_second_one(scene: Scene) -> None:
    """What a dead process left is its successor's; the dead one can neither renew it nor give it back."""
    place = Line(scene, api=limit_of(1))
    old = scene.launch("act")
    place.take(old, api=1)
    new = scene.launch("act", try_number=2)

    scene.equal(place.taken(new, api=1), Stage.HELD, "what the next one has")

    scene.equal(
        scene.ledger.renew_permit(old, terms=TERMS, now=scene.tick()), False, "a renewal by the old one"
    )
    scene.equal(place.give(old), None, "what giving back by the old one does")
    scene.equal(place.stands(), {"run-1/act": Stage.HELD}, "who has it")


@check
def check_take_permit_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """It decides nothing any more, and takes nothing."""
    place = Line(scene, api=limit_of(1))
    old = scene.launch("act")
    scene.launch("act", try_number=2)

    scene.refused(Superseded, partial(place.take, old, api=1), "a permit for the old process")

    scene.equal(place.stands(), {}, "who has a place")


@check
def check_take_permit_at_once_never_gives_more_than_there_is(scene: Scene) -> None:
    """Of a resource that nobody has asked for before, and of two in any order."""
    other = scene.open_ledger()
    for number in range(_ROUNDS):
        place = Line(scene, **{f"a{number}": limit_of(1), f"b{number}": limit_of(1)})
        needs = place.needs(**{f"a{number}": 1, f"b{number}": 1})
        backwards = dict(reversed(list(needs.items())))
        dag = scene.run.dag_id
        mine, its = (scene.launch("act", run=RunKey(dag, f"{number}-{name}")) for name in ("mine", "its"))
        taken = scene.all_of(
            scene.at_once(
                partial(_take, scene.ledger, mine, needs, place),
                partial(_take, other, its, backwards, place),
            )
        )
        stages = sorted(str(scene.found(permit, "a permit or a place").stage) for permit in taken)
        scene.equal(stages, ["held", "waiting"], "what they have")


@check
def check_renew_permit_keeps_it_beyond_its_lease(scene: Scene) -> None:
    """For as long as its process lives; whoever waits, or has none, has nothing to renew."""
    place = Line(scene, api=limit_of(1))
    one, two = place.crowd(2)
    place.take(one, api=1)
    place.take(two, api=1)

    for _ in range(3):
        scene.tick(50)
        scene.equal(scene.ledger.renew_permit(one, terms=TERMS, now=scene.now), True, "a renewal")
        place.settle()

    scene.equal(place.stands(), {"run-0/act": Stage.HELD, "run-1/act": Stage.WAITING}, "who has what")
    scene.equal(scene.ledger.renew_permit(two, terms=TERMS, now=scene.now), False, "a renewal of a place")


@check
def check_release_permit_grants_the_next_in_the_same_transaction(scene: Scene) -> None:
    """The next one knows at once, and nobody who asks in between can be quicker."""
    place = Line(scene, api=limit_of(1))
    one, two, three = place.crowd(3)
    place.take(one, api=1)
    place.take(two, api=1)

    settled = scene.found(place.give(one), "what giving back led to")

    scene.equal([row.task for row in settled.granted], [two.key], "whose turn it is")
    scene.equal(place.taken(three, api=1), Stage.WAITING, "how one stands that asks then")
    scene.equal(place.give(one), None, "giving back twice")


@check
def check_release_permit_by_one_that_waits_lets_those_behind_it_through(scene: Scene) -> None:
    """Who needs more than is free keeps all from those behind it, until it leaves."""
    place = Line(scene, api=limit_of(3), other=limit_of(1))
    one, two, three, four = place.crowd(4)
    place.take(one, api=2)
    stages = [place.taken(two, api=2, other=1), place.taken(three, api=1), place.taken(four, other=1)]
    scene.equal(stages, [Stage.WAITING] * 3, "who comes then")

    place.give(two)

    scene.equal(
        place.stands(),
        {"run-0/act": Stage.HELD, "run-2/act": Stage.GRANTED, "run-3/act": Stage.GRANTED},
        "who has what",
    )


@check
def check_release_permit_of_a_later_session_does_nothing(scene: Scene) -> None:
    """Who has seen an older one knows nothing of it."""
    place = Line(scene, api=limit_of(1))
    token = scene.launch("act")
    place.take(token, api=1)
    given = scene.ledger.release_permit(token.key, session=token.session - 1, terms=TERMS, now=scene.tick())
    scene.equal(given, None, "what was done")
    scene.equal(place.stands(), {"run-1/act": Stage.HELD}, "who has it")


@check
def check_settle_permits_frees_what_was_not_renewed(scene: Scene) -> None:
    """A process that is gone keeps nobody waiting for longer than its lease; it learns what became of it."""
    place = Line(scene, api=limit_of(1))
    one, two = place.crowd(2)
    place.take(one, api=1)
    place.take(two, api=1)
    scene.tick(58)
    place.settle()
    scene.equal(place.stands()["run-1/act"], Stage.WAITING, "a moment before its end")

    scene.tick(1)
    place.settle()

    scene.equal(place.stands(), {"run-1/act": Stage.GRANTED}, "who has what")
    scene.equal(scene.ledger.renew_permit(one, terms=TERMS, now=scene.now), False, "a renewal that is late")


@check
def check_settle_permits_gives_a_raised_limit_to_the_line_in_its_order(scene: Scene) -> None:
    """However far back in it: by priority, and then by the order of asking."""
    place = Line(scene, api=limit_of(1))
    tokens = place.crowd(13)
    for number, token in enumerate(tokens):
        place.take(token, priority=1 + number % 2, api=1)
    place.limits = {place.name("api"): place.of("api", limit_of(10))}

    place.settle()

    inside = sorted(int(name[4:-4]) for name, stage in place.stands().items() if stage is not Stage.WAITING)
    scene.equal(inside, [0, 1, 2, 3, 4, 5, 6, 7, 9, 11], "who is inside, or called")


@check
def check_settle_permits_passes_on_a_turn_that_nobody_takes(scene: Scene) -> None:
    """Who was not there when called has to ask again, and stands behind the others then."""
    place = Line(scene, api=limit_of(1))
    one, two, three = place.crowd(3)
    for token in (one, two, three):
        place.take(token, api=1)
    place.give(one)
    scene.tick(TERMS.grant_ttl.total_seconds())

    place.settle()

    scene.equal(place.stands(), {"run-2/act": Stage.GRANTED}, "who has what")
    scene.equal(place.taken(two, api=1), Stage.WAITING, "who comes too late")
