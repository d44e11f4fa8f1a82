"""Checkpoints, results, and what the results amount to."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from louver.errors import IntegrityError, Superseded, ValueRefused
from louver.sessions import Change
from louver.states import Source, TaskState
from louver.testing.scene import COMPLETED, ERROR, FAILED, RESUMED, Scene, check

__all__ = [
    "check_evidence_changes_with_every_result",
    "check_evidence_changes_with_the_generation",
    "check_evidence_counts_committed_results_alone",
    "check_load_checkpoint_begins_empty_after_a_clear",
    "check_load_checkpoint_gives_the_newest_value",
    "check_load_checkpoint_keeps_tasks_and_names_apart",
    "check_load_checkpoint_survives_retry_and_park",
    "check_load_result_of_what_has_none_is_an_integrity_error",
    "check_load_result_round_trips_every_type",
    "check_save_checkpoint_by_a_superseded_process_is_refused",
    "check_save_checkpoint_of_a_refused_value_keeps_the_old_one",
]

_VALUES: dict[str, Any] = {
    "str": 'Ünïcødé 🚀 "quoted" \\ \0 \n',
    "bool": True,
    "none": None,
    "int": 2**63 + 1,
    "zero": 0,
    "float": 0.1 + 0.2,
    "whole float": 1.0,
    "decimal": Decimal("1.10"),
    "uuid": UUID("12345678123456781234567812345678"),
    "bytes": bytes(range(256)),
    "date": date(2026, 2, 28),
    "datetime": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    "list": [1, [2.0, ["three"]], {}],
    "tuple": (1, (), ("two",)),
    "set": {1, "two", (3,)},
    "dict": {"": None, "a": {"int": 1}, "b": [{}]},
}


@check
def check_load_checkpoint_gives_the_newest_value(scene: Scene) -> None:
    """The default where there is none; None is a value like any other."""
    token = scene.launch("act")
    scene.equal(
        scene.ledger.load_checkpoint(token, "state", "default"), "default", "before anything is saved"
    )

    for value in ({"page": 1}, {"page": 2}, None):
        scene.ledger.save_checkpoint(token, "state", value, now=scene.tick())
        scene.equal(scene.ledger.load_checkpoint(token, "state", "default"), value, "the newest value")


@check
def check_load_checkpoint_keeps_tasks_and_names_apart(scene: Scene) -> None:
    """Another name, another task and another map index have values of their own."""
    tokens = [scene.launch("act"), scene.launch("act", map_index=0), scene.launch("look")]
    for number, token in enumerate(tokens):
        scene.ledger.save_checkpoint(token, "state", number, now=scene.tick())
        scene.ledger.save_checkpoint(token, "page", -number, now=scene.tick())

    found = [
        (
            scene.ledger.load_checkpoint(token, "state", None),
            scene.ledger.load_checkpoint(token, "page", None),
        )
        for token in tokens
    ]
    scene.equal(found, [(0, 0), (1, -1), (2, -2)], "the values")


@check
def check_load_checkpoint_survives_retry_and_park(scene: Scene) -> None:
    """Both go on in the same generation."""
    token = scene.launch("act")
    scene.ledger.save_checkpoint(token, "state", "page 1", now=scene.tick())
    scene.ledger.advance(token, ERROR, now=scene.tick())
    token = scene.launch("act", try_number=2)
    scene.equal(scene.ledger.load_checkpoint(token, "state", None), "page 1", "after a retry")

    scene.ask(token, 1)
    token = scene.open("act", try_number=2, nonce="nonce-1").token
    scene.ledger.advance(token, RESUMED, now=scene.tick())
    scene.equal(scene.ledger.load_checkpoint(token, "state", None), "page 1", "after a park")


@check
def check_load_checkpoint_begins_empty_after_a_clear(scene: Scene) -> None:
    """The next generation has checkpoints of its own."""
    token = scene.launch("act")
    scene.ledger.save_checkpoint(token, "state", "old", now=scene.tick())
    scene.ledger.advance(token, FAILED, now=scene.tick())

    cleared = scene.launch("act", try_number=2, max_tries=4)

    scene.equal(scene.ledger.load_checkpoint(cleared, "state", "default"), "default", "after a clear")
    scene.ledger.save_checkpoint(cleared, "state", "new", now=scene.tick())
    scene.equal(scene.ledger.load_checkpoint(cleared, "state", "default"), "new", "its own value")


@check
def check_save_checkpoint_of_a_refused_value_keeps_the_old_one(scene: Scene) -> None:
    """What cannot come back exactly is refused with its path, and nothing is written."""
    token = scene.launch("act")
    scene.ledger.save_checkpoint(token, "state", "kept", now=scene.tick())

    for value, path in (
        ({"rate": float("nan")}, "$.rate"),
        ([object()], "$[0]"),
        ({1: "one"}, "$"),
        (datetime(2026, 1, 2), "$"),  # noqa: DTZ001 - a naive one is what must be refused
    ):
        error = scene.refused(
            ValueRefused,
            partial(scene.ledger.save_checkpoint, token, "state", value, now=scene.now),
            "a value outside the typed value rules",
        )
        scene.equal(error.path, path, "the path of the refused value")

    scene.equal(scene.ledger.load_checkpoint(token, "state", None), "kept", "the value afterwards")


@check
def check_save_checkpoint_by_a_superseded_process_is_refused(scene: Scene) -> None:
    """A process that was replaced cannot overwrite what the current one has saved."""
    old = scene.launch("act")
    current = scene.launch("act", try_number=2)
    scene.ledger.save_checkpoint(current, "state", "current", now=scene.tick())

    scene.refused(
        Superseded, lambda: scene.ledger.save_checkpoint(old, "state", "old", now=scene.now), "an old process"
    )
    scene.equal(scene.ledger.load_checkpoint(current, "state", None), "current", "the value afterwards")


@check
def check_load_result_round_trips_every_type(scene: Scene) -> None:
    """A value comes back equal and of the same type, all the way down."""
    for name, value in _VALUES.items():
        token = scene.succeed(name, value)
        found = scene.ledger.load_result(token.key)
        scene.equal(found, value, f"a {name}")
        scene.equal(repr(found) if name != "set" else "", repr(value) if name != "set" else "", f"a {name}")


@check
def check_load_result_of_what_has_none_is_an_integrity_error(scene: Scene) -> None:
    """Not started, not finished, failed, cleared, or marked by hand: an error, never a default."""

    def missing(what: str) -> None:
        scene.refused(IntegrityError, lambda: scene.ledger.load_result(scene.key("act")), what)

    scene.begin()
    missing("a task that nobody opened")
    token = scene.launch("act")
    missing("a task that runs")
    scene.ledger.advance(token, FAILED, now=scene.tick())
    missing("a task that failed")
    scene.succeed("act", "result", try_number=2, max_tries=4)
    scene.equal(scene.ledger.load_result(scene.key("act")), "result", "a task that succeeded")
    cleared = scene.launch("act", try_number=3, max_tries=5)
    missing("a task that was cleared")
    done = Change(to=TaskState.SUCCEEDED, trigger="user:marked", actor="ann")
    scene.ledger.mark(cleared.key, done, session=cleared.session, source=Source.API, now=scene.tick())
    missing("a task that was marked by hand")


@check
def check_evidence_counts_committed_results_alone(scene: Scene) -> None:
    """Of the tasks that were asked about, each map index counts once; what failed or runs does not."""
    scene.succeed("look", 1)
    scene.succeed("each", 1, map_index=0)
    scene.succeed("each", 2, map_index=1)
    scene.succeed("elsewhere", 1)
    scene.ledger.advance(scene.launch("failing"), FAILED, now=scene.tick())
    running = scene.launch("running")
    scene.ledger.save_checkpoint(running, "state", "no result", now=scene.tick())

    def count(*task_ids: str) -> int:
        return scene.ledger.evidence(scene.run, task_ids).state_version

    scene.equal(count("look", "each", "failing", "running", "unknown"), 3, "the committed results")
    scene.equal(count(), 0, "of no task")
    scene.equal(
        scene.ledger.evidence(scene.run, ["each", "look"]),
        scene.ledger.evidence(scene.run, ["look", "each"]),
        "the same tasks in another order",
    )
    scene.ledger.complete(running, COMPLETED, None, now=scene.tick())
    scene.equal(count("running"), 1, "None is a result")


@check
def check_evidence_changes_with_every_result(scene: Scene) -> None:
    """Another value, another task, or one result more: another fingerprint."""
    scene.succeed("look", {"price": 1})
    scene.succeed("other", {"price": 2})
    look = scene.ledger.evidence(scene.run, ["look"])
    other = scene.ledger.evidence(scene.run, ["other"])
    both = scene.ledger.evidence(scene.run, ["look", "other"])

    scene.equal(scene.ledger.evidence(scene.run, ["look"]), look, "asked again")
    scene.holds(look.fingerprint != other.fingerprint, "two results must not look the same")
    scene.holds(both.fingerprint not in (look.fingerprint, other.fingerprint), "two are not one")

    scene.succeed("look", {"price": 9}, try_number=2, max_tries=4)
    changed = scene.ledger.evidence(scene.run, ["look"])
    scene.equal(changed.state_version, 1, "the count after the result was made anew")
    scene.holds(changed.fingerprint != look.fingerprint, "another value must not look the same")


@check
def check_evidence_changes_with_the_generation(scene: Scene) -> None:
    """A result that was cleared is none; the same value made anew is another result."""
    scene.succeed("look", "same")
    before = scene.ledger.evidence(scene.run, ["look"])

    token = scene.launch("look", try_number=2, max_tries=4)
    scene.equal(scene.ledger.evidence(scene.run, ["look"]).state_version, 0, "the count after a clear")

    scene.ledger.complete(token, COMPLETED, "same", now=scene.tick())
    after = scene.ledger.evidence(scene.run, ["look"])
    scene.equal(after.state_version, 1, "the count afterwards")
    scene.holds(after.fingerprint != before.fingerprint, "another generation must not look the same")
