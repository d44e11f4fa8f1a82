"""Resources and their limits, who has something of them, and whom it concerns (semantics section 7)."""

from __future__ import annotations

from functools import partial

from louver.ledger.names import Verb
from louver.ledger.permit_contract import PermitWatch
from louver.ledger.records import PermitRecord, ResourceRecord
from louver.semaphores import Stage
from louver.testing.permit_line import TERMS, Line, limit_of
from louver.testing.scene import Scene, check

__all__ = [
    "check_list_permit_watches_tells_who_has_something_to_do",
    "check_list_permits_shows_all_in_order_of_the_tasks",
    "check_list_resources_shows_what_was_configured",
    "check_plan_permits_says_what_time_has_brought",
    "check_set_resource_holds_whatever_is_configured",
    "check_unset_resource_brings_back_what_is_configured_at_once",
    "check_unset_resource_lets_everybody_in",
]


@check
def check_plan_permits_says_what_time_has_brought(scene: Scene) -> None:
    """So that nobody has to write in order to find out that there is nothing to do."""
    place = Line(scene, api=limit_of(1))
    one, two = place.crowd(2)
    place.take(one, api=1)
    place.take(two, api=1)
    scene.tick(60)
    with scene.unchanged("a plan"):
        planned = scene.ledger.plan_permits(now=scene.now)
    keys = (one.key.run, two.key.run)
    expired, granted = (
        [row.task.run for row in rows if row.task.run in keys] for rows in (planned.expired, planned.granted)
    )
    scene.equal((expired, granted), ([one.key.run], [two.key.run]), "at the end of a lease")
    scene.equal(place.stands(), {"run-0/act": Stage.HELD, "run-1/act": Stage.WAITING}, "who has what")
    place.settle()
    scene.equal(scene.ledger.plan_permits(now=scene.now).changes, False, "after it was settled")


@check
def check_list_permit_watches_tells_who_has_something_to_do(scene: Scene) -> None:
    """Whose turn it is, who was left out, and whom somebody wants to stop."""
    place = Line(scene, api=limit_of(1))
    one, two, three = place.crowd(3)
    for token in (one, two, three):
        place.take(token, api=1)
    keys = [token.key for token in (one, two, three)]

    scene.equal(
        [watch.wake for watch in scene.ledger.list_permit_watches(keys)], [True, False, False], "at first"
    )
    scene.send(1, Verb.STOP, task=three.key)
    place.give(one)

    expected = [
        PermitWatch(task=one.key, stage=None, asked=False),
        PermitWatch(task=two.key, stage=Stage.GRANTED, asked=False),
        PermitWatch(task=three.key, stage=Stage.WAITING, asked=True),
    ]
    scene.equal(scene.ledger.list_permit_watches(keys), expected, "then")
    scene.equal([watch.wake for watch in expected], [True, True, True], "who has something to do")
    scene.equal(scene.ledger.list_permit_watches([]), [], "about nobody")


@check
def check_list_permits_shows_all_in_order_of_the_tasks(scene: Scene) -> None:
    """With who is at it, and since when."""
    place = Line(scene, api=limit_of(1))
    tokens = [scene.launch(name) for name in ("b", "a")]
    for token in tokens:
        place.take(token, priority=3, api=1)

    waiting, held = [row for row in scene.ledger.list_permits() if row.dag_id == scene.run.dag_id]

    expected = PermitRecord(
        dag_id=scene.run.dag_id,
        run_id="run-1",
        task_id="a",
        map_index=-1,
        incarnation=1,
        session=1,
        process=tokens[1].process,
        needs=(f"{place.name('api')}=1",),
        priority=3,
        sequence=held.sequence + 1,
        stage=Stage.WAITING,
        wanted_at=scene.now,
        granted_at=None,
        until=None,
    )
    scene.equal(waiting, expected, "the place")
    scene.equal((held.task_id, held.granted_at), ("b", held.wanted_at), "the permit")


@check
def check_list_resources_shows_what_was_configured(scene: Scene) -> None:
    """What the last process that asked has in its configuration counts for all."""
    place = Line(scene, api=limit_of(2), slow=limit_of("2/min"))
    token = scene.launch("act")
    place.take(token, api=1, slow=1)
    asked_at = scene.now

    expected = [
        ResourceRecord(
            resource=place.name("api"),
            capacity=2,
            rate=None,
            full_at=asked_at,
            set_by=None,
            updated_at=asked_at,
        ),
        ResourceRecord(
            resource=place.name("slow"),
            capacity=None,
            rate="2/min",
            full_at=scene.after(30),
            set_by=None,
            updated_at=asked_at,
        ),
    ]
    scene.equal(_of(scene), expected, "the resources")
    other = Line(scene, api=limit_of(1))
    other.settle()
    scene.equal([row.capacity for row in _of(scene)], [1, None], "the limits then")


@check
def check_set_resource_holds_whatever_is_configured(scene: Scene) -> None:
    """At once, and for who waits already; fewer than are in use drain."""
    place = Line(scene, api=limit_of(2))
    one, two, three = place.crowd(3)
    for token in (one, two, three):
        place.take(token, api=1)

    def set_to(number: int) -> None:
        limit = place.of("api", limit_of(number))
        scene.ledger.set_resource(limit, by="ann", terms=TERMS, now=scene.tick())

    set_to(1)
    place.give(one)
    place.settle()
    scene.equal(place.stands(), {"run-1/act": Stage.HELD, "run-2/act": Stage.WAITING}, "while it drains")
    set_to(0)
    place.give(two)
    scene.equal(place.stands(), {"run-2/act": Stage.WAITING}, "while it is closed")
    set_to(5)
    scene.equal(place.stands(), {"run-2/act": Stage.GRANTED}, "when it is open again")
    scene.equal([(row.capacity, row.set_by) for row in _of(scene)], [(5, "ann")], "what is kept")


@check
def check_unset_resource_lets_everybody_in(scene: Scene) -> None:
    """Until a process comes that has a limit configured."""
    place = Line(scene, api=limit_of(1))
    one, two = place.crowd(2)
    place.take(one, api=1)
    place.take(two, api=1)

    unset = partial(scene.ledger.unset_resource, place.name("api"), limits={}, terms=TERMS, now=scene.tick())
    scene.equal([unset(), unset()], [True, False], "whether there was one")

    scene.equal(place.stands(), {"run-0/act": Stage.HELD, "run-1/act": Stage.GRANTED}, "who has what")


@check
def check_unset_resource_brings_back_what_is_configured_at_once(scene: Scene) -> None:
    """Between the two limits there is no moment without any, in which all who wait would be let in."""
    place = Line(scene, api=limit_of(1))
    one, two, three = place.crowd(3)
    for token in (one, two, three):
        place.take(token, api=1)
    closed = place.of("api", limit_of(0))
    scene.ledger.set_resource(closed, by="ann", terms=TERMS, now=scene.tick())
    place.give(one)

    unset = partial(
        scene.ledger.unset_resource, place.name("api"), limits=place.limits, terms=TERMS, now=scene.tick()
    )
    scene.equal(unset(), True, "whether there was one")

    scene.equal(place.stands(), {"run-1/act": Stage.GRANTED, "run-2/act": Stage.WAITING}, "who has what")
    scene.equal([(row.capacity, row.set_by) for row in _of(scene)], [(1, None)], "what holds then")


def _of(scene: Scene) -> list[ResourceRecord]:
    return [row for row in scene.ledger.list_resources() if row.resource.startswith(scene.id)]
