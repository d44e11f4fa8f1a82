"""What is told of what the ledger writes: each change once, in order, by ids, hashes and states alone."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sinks import Broken, Seen, an_event

from louver.approvals import Answer
from louver.clock import FixedClock
from louver.cloudevents import parse_event
from louver.context import TaskContext
from louver.definition import ApprovalNode, Definition, Step
from louver.engine.inline import run_inline
from louver.errors import ApprovalStale, ConfigurationError
from louver.events import EVENT_TYPES, Event
from louver.events.cloud import CloudForm
from louver.events.observer import EventObserver, observe
from louver.events.passing import Everywhere, Selected, parse_types
from louver.events.telling import events_of
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import (
    CommandState,
    Decision,
    EffectKind,
    EffectState,
    OnUnknown,
    RunKey,
    TaskKey,
    Verb,
)
from louver.ledger.records import CommandRecord, EffectRecord, RunRecord, TransitionRecord
from louver.ledger.requests import CommandRequest
from louver.ledger.witness import RowChange
from louver.policies import RetryPolicy
from louver.states import FailureKind, Precision, RunState, Source, TaskState
from louver.testing.scene import Scene

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("order_workflow", "run-1")
ROOT = Path(__file__).resolve().parents[2]
MARKER = "zq7marker"


@pytest.fixture(params=["memory", "sqlite"])
def seen_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ledger, Seen]]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'ledger.db'}"
    seen = Seen()
    with open_ledger(url, {"k1": b"0123456789abcdef"}, events=seen) as ledger:
        yield ledger, seen


@pytest.fixture(autouse=True)
def shop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))


def order() -> tuple[Definition, dict[str, Any]]:
    event = json.loads((ROOT / "dags" / "examples" / "order_event.json").read_text())
    event["id"] = f"id-{MARKER}"
    event["source"] = f"https://{MARKER}.example.com"
    event["data"]["customer_id"] = f"customer-{MARKER}"
    return Definition.from_json((ROOT / "dags" / "order.json").read_text()), event


def run_order(ledger: Ledger, decision: Decision) -> None:
    definition, event = order()
    clock: FixedClock = FixedClock(NOW)

    def go() -> Any:
        return run_inline(definition, params={"event": event}, ledger=ledger, clock=clock, run_id=RUN.run_id)

    (request,) = go().waiting
    clock.sleep(timedelta(seconds=90))
    ledger.decide_approval(request.request_id, Answer(decision=decision, by="alice"), now=clock.now())
    go()


def told(seen: Seen, *, about: str = "") -> list[tuple[str, str]]:
    return [(event.type, event.subject) for event in seen if about in event.subject]


STEP_OF_ITS_OWN = ["task.queued", "task.starting", "task.running"]


def test_every_event_of_an_order_is_told_in_order(seen_of: tuple[Ledger, Seen]) -> None:
    ledger, seen = seen_of
    run_order(ledger, Decision.APPROVED)

    assert seen.types == [
        "workflow.started",
        *STEP_OF_ITS_OWN,
        "task.succeeded",
        "workflow.advanced",
        *STEP_OF_ITS_OWN,
        "effect.begun",
        "effect.committed",
        "task.succeeded",
        "workflow.advanced",
        *STEP_OF_ITS_OWN,
        "task.succeeded",
        "workflow.advanced",
        *STEP_OF_ITS_OWN,
        "approval.requested",
        "task.paused",
        "workflow.waiting_approval",
        "approval.decided",
        "task.queued",
        "task.starting",
        "task.running",
        "task.succeeded",
        "workflow.advanced",
        *STEP_OF_ITS_OWN,
        "approval.consumed",
        "effect.begun",
        "effect.committed",
        "task.succeeded",
        "workflow.advanced",
        *STEP_OF_ITS_OWN,
        "effect.begun",
        "effect.committed",
        "task.succeeded",
        "workflow.advanced",
        "workflow.succeeded",
    ]


def test_a_rejected_order_tells_of_its_compensation(seen_of: tuple[Ledger, Seen]) -> None:
    ledger, seen = seen_of
    run_order(ledger, Decision.REJECTED)

    after = seen.types[seen.types.index("approval.decided") :]
    for event_type in (
        "compensation.begun",
        "effect.undone",
        "compensation.committed",
        "workflow.compensated",
    ):
        assert after.count(event_type) == 1, event_type
    order_of_them = [
        name for name in after if name.partition(".")[0] in ("workflow", "compensation", "effect")
    ]
    assert [name for name in order_of_them if name != "workflow.advanced"] == [
        "workflow.compensating",
        "compensation.begun",
        "effect.undone",
        "compensation.committed",
        "workflow.compensated",
    ]


@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.REJECTED])
def test_events_hold_no_payload(seen_of: tuple[Ledger, Seen], decision: Decision) -> None:
    ledger, seen = seen_of
    run_order(ledger, decision)

    form = CloudForm()
    text = "\n".join(form.encoded(event).decode() + repr(event) for event in seen)
    for word in (MARKER, "129.90", "mug-blue", "EUR"):
        assert word not in text
    # The search would see it: the ledger does keep what is looked for.
    reserved = next(effect for effect in ledger.list_effects(RUN) if effect.kind is EffectKind.FORWARD)
    assert "mug-blue" in str(ledger.load_effect(reserved))
    assert "alice" in text


def test_what_people_type_and_what_errors_say_is_not_told(seen_of: tuple[Ledger, Seen]) -> None:
    ledger, seen = seen_of

    def fail() -> None:
        raise ValueError(MARKER)

    step = Step(name="one", task="business:one")
    definition = Definition(name="order_workflow", version="1", nodes=[step])
    run_inline(definition, {"one": fail}, ledger=ledger, clock=FixedClock(NOW), run_id=RUN.run_id)
    asked = CommandRequest(
        command_id="c-1",
        task=TaskKey(RUN.dag_id, RUN.run_id, "one"),
        verb=Verb.STOP,
        actor="bob",
        reason=f"because {MARKER}",
        source=Source.CLI,
    )
    sent = ledger.send_command(asked, now=NOW)
    ledger.refuse_command(sent, outcome=f"it is over, {MARKER}", now=NOW + timedelta(seconds=2))

    assert MARKER not in repr(list(seen))
    failed = next(event for event in seen if event.type == "task.failed")
    assert (failed.trigger, failed.failure) == ("runtime:error", "exception")
    commands = [event for event in seen if event.type.startswith("command.")]
    assert [(event.type, event.actor, event.seconds) for event in commands] == [
        ("command.sent", "bob", None),
        ("command.refused", "bob", 2.0),
    ]


def test_ids_are_unique_and_made_of_the_row_alone(tmp_path: Path) -> None:
    def ids(url: str) -> list[str]:
        seen = Seen()
        with open_ledger(url, events=seen) as ledger:
            step = Step(name="one", task="business:one", retry=RetryPolicy(max_attempts=2))
            definition = Definition(name="order_workflow", version="1", nodes=[step])
            failures = [ValueError(), None]

            def once() -> int:
                error = failures.pop(0)
                if error is not None:
                    raise error
                return 1

            run_inline(definition, {"one": once}, ledger=ledger, clock=FixedClock(NOW), run_id="r")
        assert "task.retry_wait" in seen.types
        assert len({event.id for event in seen}) == len(seen)
        return [event.id for event in seen]

    assert ids("memory://") == ids(f"sqlite:///{tmp_path / 'other.db'}")


def test_a_run_made_again_under_its_id_has_other_ids() -> None:
    seen = Seen()
    definition = Definition(name="order_workflow", version="1", nodes=[Step(name="one", task="business:one")])
    for minute in (0, 1):
        with open_ledger("memory://", events=seen) as ledger:
            clock: FixedClock = FixedClock(NOW + timedelta(minutes=minute))
            run_inline(definition, {"one": lambda: 1}, ledger=ledger, clock=clock, run_id="r")
    assert len({event.id for event in seen}) == len(seen)


@pytest.mark.parametrize("found_by", ["the approval itself", "the effect"])
def test_an_approval_that_has_become_stale_is_told_once(seen_of: tuple[Ledger, Seen], found_by: str) -> None:
    ledger, seen = seen_of
    price = [100]

    def pay(ctx: TaskContext) -> Any:
        return ctx.effect("pay", intent={"amount": price[0]}, perform=lambda key: "paid")

    definition = Definition(
        name="order_workflow",
        version="1",
        nodes=[
            ApprovalNode(name="ask", of="pay", payload="business:ask"),
            Step(name="pay", task="business:pay", after=["ask"], approval="ask"),
        ],
    )
    shown = price if found_by == "the approval itself" else [100]
    tasks: dict[str, Callable[..., Any]] = {"ask": lambda: {"amount": shown[0]}, "pay": pay}

    def go() -> Any:
        return run_inline(definition, tasks, ledger=ledger, clock=FixedClock(NOW), run_id=RUN.run_id)

    (request,) = go().waiting
    ledger.decide_approval(request.request_id, Answer(decision=Decision.APPROVED, by="alice"), now=NOW)
    price[0] = 200
    go()

    stale = [event for event in seen if event.type == "approval.stale"]
    assert [event.details["request_id"] for event in stale] == [request.request_id]
    assert seen.types.count("approval.requested") == 2
    assert "approval.consumed" not in seen.types


def test_an_effect_that_is_refused_for_its_approval_tells_of_that(seen_of: tuple[Ledger, Seen]) -> None:
    ledger, seen = seen_of
    scene = Scene(name="refused", open_ledger=lambda: ledger)
    approved = scene.approved()
    token = scene.launch("act")
    for _ in range(2):
        with pytest.raises(ApprovalStale):
            ledger.begin_effect(
                token, scene.effect("pay", guarded_by="act", intent={"amount": 6}), now=scene.tick()
            )

    last = seen[-1]
    assert (last.type, last.details["request_id"]) == ("approval.stale", approved.request_id)
    assert seen.types.count("approval.stale") == 1
    assert "effect.begun" not in seen.types


def test_what_a_person_settles_is_told_without_the_words(seen_of: tuple[Ledger, Seen]) -> None:
    ledger, seen = seen_of

    def pay(ctx: TaskContext) -> Any:
        return ctx.effect("pay", intent={}, perform=lambda key: "paid", key="k")

    definition = Definition(name="order_workflow", version="1", nodes=[Step(name="pay", task="b:pay")])
    run_inline(definition, {"pay": pay}, ledger=ledger, clock=FixedClock(NOW), run_id=RUN.run_id)
    (effect,) = ledger.list_effects(RUN)
    word = Word(actor="carol", reason=f"since {MARKER}", source=Source.CLI)
    ledger.renew_effect(effect, word=word, now=NOW)

    last = seen[-1]
    assert (last.type, last.actor, last.trigger) == ("effect.renewed", "carol", "user:renewed")
    assert MARKER not in repr(last)


def test_what_changes_nothing_is_not_told(seen_of: tuple[Ledger, Seen]) -> None:
    ledger, seen = seen_of
    run_order(ledger, Decision.APPROVED)
    before = len(seen)

    ledger.set_run_state(RUN, RunState.SUCCEEDED, reason="said again", now=NOW + timedelta(hours=1))
    ledger.take_lease("a", "me", lease_until=NOW, now=NOW)
    ledger.get_run(RUN)

    assert len(seen) == before


def test_what_is_rolled_back_is_not_told(seen_of: tuple[Ledger, Seen]) -> None:
    ledger, seen = seen_of
    run_order(ledger, Decision.APPROVED)
    before = len(seen)
    (task,) = [task for task in ledger.list_tasks(RUN) if task.task_id == "notify"]

    def die(point: str) -> None:
        if point == "set_run_state.inside":
            raise KeyboardInterrupt

    from louver.crash_points import at_every_point

    at_every_point(die)
    try:
        with pytest.raises(KeyboardInterrupt):
            ledger.set_run_state(RUN, RunState.FAILED, reason=None, now=NOW)
    finally:
        at_every_point(None)
    assert task.state is TaskState.SUCCEEDED
    assert len(seen) == before


def test_a_sink_that_raises_disturbs_nobody_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    sink = Broken()
    with open_ledger("memory://") as ledger:
        observer = observe(ledger, sink)
        with caplog.at_level(logging.WARNING, "louver.events"):
            run_order(ledger, Decision.APPROVED)
        record = ledger.get_run(RUN)

    assert record is not None
    assert record.state is RunState.SUCCEEDED
    assert observer.failures == sink.asked > 40
    # Said once, and not in the words of whatever broke.
    assert [line.getMessage() for line in caplog.records].count(
        "louver [events.failed] an event could not be told: OSError"
    ) == 1
    assert MARKER not in caplog.text


def test_a_ledger_without_a_sink_is_not_observed() -> None:
    with open_ledger("memory://") as ledger:
        assert ledger._observer is None  # type: ignore[attr-defined]


def test_an_embedded_run_of_its_own_takes_a_sink() -> None:
    seen = Seen()
    definition = Definition(name="work", version="1", nodes=[Step(name="one", task="business:one")])
    run_inline(definition, {"one": lambda: 1}, events=seen, run_id="r")
    assert seen.types[0] == "workflow.started"
    assert seen.types[-1] == "workflow.succeeded"

    with open_ledger("memory://") as ledger, pytest.raises(ConfigurationError, match="give the sink to"):
        run_inline(definition, {"one": lambda: 1}, events=seen, ledger=ledger)


def test_a_store_of_another_making_cannot_be_observed() -> None:
    with pytest.raises(ConfigurationError, match="object cannot be observed"):
        observe(object(), Seen())  # type: ignore[arg-type]


# Single rows


def effect(**given: Any) -> EffectRecord:
    values: dict[str, Any] = {
        "scope": "global",
        "key": "k",
        "epoch": 1,
        "name": "pay",
        "kind": EffectKind.FORWARD,
        "state": EffectState.STARTED,
        "intent_hash": "f" * 64,
        "dag_id": "shop",
        "run_id": "r",
        "task_id": "pay",
        "map_index": -1,
        "incarnation": 1,
        "generation": 1,
        "session": 1,
        "process": "p",
        "ticket": "t",
        "undo": None,
        "undoes": None,
        "verify": None,
        "on_unknown": OnUnknown.MANUAL,
        "provider_idempotent": False,
        "approval_id": None,
        "lease_until": NOW,
        "quiesce_seconds": 1.0,
        "started_at": NOW,
        "updated_at": NOW,
    }
    return EffectRecord(**(values | given))


def changed(before: Any, **given: Any) -> list[Event]:
    return events_of([RowChange(before=before, after=replace(before, **given))])


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        *((EffectKind.FORWARD, state) for state in EffectState if state is not EffectState.STARTED),
        *(
            (EffectKind.UNDO, state)
            for state in (EffectState.COMMITTED, EffectState.FAILED, EffectState.UNKNOWN)
        ),
    ],
)
def test_each_state_of_an_effect_has_its_type(kind: EffectKind, state: EffectState) -> None:
    later = NOW + timedelta(seconds=3)
    (event,) = changed(effect(kind=kind), state=state, updated_at=later)
    family = "effect" if kind is EffectKind.FORWARD else "compensation"
    assert (event.type, event.seconds, event.from_state) == (f"{family}.{state}", 3.0, "started")


def test_a_lease_that_is_renewed_is_nothing_to_tell() -> None:
    assert changed(effect(), lease_until=NOW + timedelta(seconds=9)) == []


def test_an_effect_that_another_call_begins_again_is_told() -> None:
    failed = effect(state=EffectState.FAILED)
    (event,) = changed(failed, state=EffectState.STARTED, ticket="u")
    assert (event.type, event.from_state, event.seconds) == ("effect.begun", "failed", None)


def run_record(**given: Any) -> RunRecord:
    values: dict[str, Any] = {
        "dag_id": "shop",
        "run_id": "r",
        "incarnation": 1,
        "marker": None,
        "definition_name": "shop",
        "definition_version": "1",
        "definition_fingerprint": "f" * 64,
        "state": RunState.RUNNING,
        "reason": None,
        "requester": None,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return RunRecord(**(values | given))


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.RUNNING])
def test_each_state_of_a_run_has_its_type(state: RunState) -> None:
    later = NOW + timedelta(seconds=4)
    (event,) = changed(run_record(), state=state, updated_at=later, reason=MARKER)
    name = "compensated" if state is RunState.FAILED_COMPENSATED else str(state)
    assert event.type == f"workflow.{name}"
    assert event.seconds == (4.0 if state.terminal else None)
    assert MARKER not in repr(event)


def test_a_run_that_goes_on_is_not_started_again_and_one_made_anew_is() -> None:
    (on,) = changed(run_record(state=RunState.PAUSED), state=RunState.RUNNING)
    (anew,) = changed(run_record(), incarnation=2)
    assert (on.type, anew.type) == ("workflow.running", "workflow.started")


def test_claims_of_commands_are_between_processes() -> None:
    command = CommandRecord(
        command_id="c",
        dag_id="shop",
        run_id="r",
        task_id="pay",
        map_index=2,
        generation=1,
        verb=Verb.PAUSE,
        actor=None,
        reason=None,
        source=Source.API,
        sent_at=NOW,
    )
    assert changed(command, state=CommandState.CLAIMED) == []
    assert changed(replace(command, state=CommandState.CLAIMED), state=CommandState.PENDING) == []


TEXT = st.text(max_size=12).filter(lambda text: "\0" not in text)


@st.composite
def transitions(draw: st.DrawFn) -> TransitionRecord:
    return TransitionRecord(
        dag_id=draw(TEXT),
        run_id=draw(TEXT),
        task_id=draw(TEXT),
        map_index=draw(st.integers(-1, 5)),
        chain=draw(st.sampled_from(["main", "side"])),
        version=draw(st.integers(1, 5)),
        generation=draw(st.integers(1, 3)),
        attempt=draw(st.integers(0, 3)),
        from_state=draw(st.sampled_from(TaskState)),
        to_state=draw(st.sampled_from(TaskState)),
        at=draw(st.datetimes(timezones=st.just(timezone.utc))),
        trigger=draw(st.sampled_from(["runtime:error", "user:stop", "user:settled", "runtime:attempt_lost"])),
        actor=draw(st.none() | st.just("alice")),
        reason=draw(st.none() | st.sampled_from(FailureKind).map(lambda kind: f"{kind}: {MARKER}") | TEXT),
        source=draw(st.sampled_from(Source)),
        precision=draw(st.sampled_from(Precision)),
    )


def of(rows: list[TransitionRecord]) -> list[Event]:
    return events_of([RowChange(before=None, after=row) for row in rows])


@given(transitions())
def test_whatever_the_ledger_holds_becomes_an_event_that_our_own_reader_takes(row: TransitionRecord) -> None:
    for event in of([row]):
        raw = CloudForm("https://airflow.example.com/prod").encoded(event)
        assert b"\n" not in raw
        read = parse_event(raw)
        assert (read.id, read.subject, read.time) == (event.id, event.subject or None, row.at)
        assert read.type == f"com.louver.{event.type}.v1"
        assert read.data == event.data
        assert event.type in EVENT_TYPES
        assert event.subject.isascii()
        assert MARKER not in raw.decode()


@given(st.lists(transitions(), max_size=6, unique_by=lambda row: replace(row, reason=None, actor=None)))
def test_two_rows_never_share_an_id(rows: list[TransitionRecord]) -> None:
    def name(row: TransitionRecord) -> tuple[Any, ...]:
        return tuple(getattr(row, part) for part in (*TransitionRecord.PRIMARY, "generation", "at"))

    told_of: dict[tuple[Any, ...], set[str]] = {}
    for row in rows:
        told_of.setdefault(name(row), set()).update(event.id for event in of([row])[:1])
    assert all(len(ids) == 1 for ids in told_of.values())
    assert len(set().union(*told_of.values())) == len(told_of)
    assert [event.id for event in of(rows)] == [event.id for event in of(rows)]


def row_of(**given: Any) -> TransitionRecord:
    values: dict[str, Any] = {
        "dag_id": "shop",
        "run_id": "r",
        "task_id": "pay",
        "map_index": -1,
        "chain": "main",
        "version": 1,
        "generation": 1,
        "attempt": 1,
        "from_state": TaskState.STARTING,
        "to_state": TaskState.RUNNING,
        "at": NOW,
        "trigger": "executor:launched",
        "actor": None,
        "reason": None,
        "source": Source.WORKER,
        "precision": Precision.EXACT,
    }
    return TransitionRecord(**(values | given))


@pytest.mark.parametrize(
    "other",
    [
        {"dag_id": "r", "run_id": "shop"},
        {"run_id": "r2"},
        {"task_id": "pay2"},
        {"map_index": 0},
        {"chain": "side"},
        {"version": 2},
        {"generation": 2},
        {"at": NOW + timedelta(microseconds=1)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_rows_that_differ_in_one_thing_have_different_ids(other: dict[str, Any]) -> None:
    (one,), (another,) = of([row_of()]), of([row_of(**other)])
    assert one.id != another.id
    # Whatever else is said of the same row, it is the same event.
    (again,) = of([row_of(reason="other words", mac="x")])
    assert again == one


# Passing on


def test_types_are_chosen_by_name_and_pattern() -> None:
    assert parse_types("") == frozenset(EVENT_TYPES)
    assert parse_types(" effect.unknown , command.* ") == {
        "effect.unknown",
        "command.sent",
        "command.done",
        "command.refused",
    }
    for text in ("efect.*", "task.runing", "*.nothing"):
        with pytest.raises(ConfigurationError, match="is no type of event; there are workflow"):
            parse_types(f"task.*,{text}")


def test_only_chosen_types_are_passed_on() -> None:
    seen = Seen()
    selected = Selected(seen, parse_types("workflow.*"))
    selected.emit(an_event())
    selected.emit(replace(an_event(), type="workflow.paused"))
    assert seen.types == ["workflow.paused"]


def test_a_sink_that_fails_keeps_no_other_from_its_event() -> None:
    first, second = Seen(), Seen()
    with pytest.raises(OSError, match="zq7"):
        Everywhere([first, Broken(), second]).emit(an_event())
    assert (len(first), len(second)) == (1, 1)


def test_an_observer_that_cannot_make_an_event_counts_it() -> None:
    seen = Seen()
    observer = EventObserver(seen)
    observer.saw([RowChange(before=None, after=effect(started_at=None))])
    observer.saw([RowChange(before=effect(), after=effect(state="nonsense"))])
    assert observer.failures == 1
    assert seen.types == ["effect.begun"]


@pytest.mark.parametrize("source", ["", "not a uri", "https://x/?q=1", "/a#b", "https://[::1"])
def test_a_source_that_is_no_uri_is_refused(source: str) -> None:
    with pytest.raises(ConfigurationError, match="source of events"):
        CloudForm(source)


def test_an_event_of_no_known_type_or_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'task\.gone' is no type"):
        replace(an_event(), type="task.gone")
    with pytest.raises(ConfigurationError, match="time"):
        replace(an_event(), time=datetime(2026, 1, 1))  # noqa: DTZ001


def test_the_page_lists_every_type_once() -> None:
    page = (ROOT / "docs" / "event-sink.md").read_text()
    table = page[page.index("| event | says |") :].partition("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert sorted(named) == sorted(EVENT_TYPES)
