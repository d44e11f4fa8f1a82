"""What the reconciler decides about a task: pure, so every case can be tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from louver.ledger.names import CommandState, Decision, TaskKey, Verb
from louver.ledger.records import ApprovalRecord, CommandRecord, TaskRecord, TouchRecord
from louver.nodes import Step
from louver.policies import INFRASTRUCTURE_BUDGET, RetryPolicy
from louver.reconcile import Patience, TaskFacts, decide_task, state_after
from louver.repairs import (
    Chain,
    CloseCommand,
    Deliver,
    EndOnPlatform,
    Expire,
    Mark,
    PassAnswerOn,
    WakeExpired,
)
from louver.sightings import GONE, Shown, Sighting, occupies
from louver.states import FailureKind, Source, TaskState, transition
from louver.supervision import ControlSettings
from louver.timeouts import Timeouts

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
KEY = TaskKey("orders", "r1", "charge")
PATIENCE = Patience.of(ControlSettings(), resume_guard=timedelta(seconds=2))

SECOND = timedelta(seconds=1)
FRESH = NOW - SECOND
STALE = NOW - timedelta(minutes=10)

INSIDE = (TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSING, TaskState.STOPPING)
UNSTARTED = (TaskState.PENDING, TaskState.BLOCKED, TaskState.QUEUED)


@dataclass
class Witness:
    """Knows who is dead, and how long code has run; counts how often it is asked."""

    dead: bool = False
    running: timedelta = timedelta(0)
    asked: list[str] = field(default_factory=list)

    def proves_dead(self, process: str) -> bool:
        self.asked.append(process)
        return self.dead

    def ran(self, record: TaskRecord) -> timedelta:
        return self.running


def record(state: TaskState, **changes: Any) -> TaskRecord:
    given: dict[str, Any] = {
        "dag_id": KEY.dag_id,
        "run_id": KEY.run_id,
        "task_id": KEY.task_id,
        "map_index": KEY.map_index,
        "state": state,
        "session": 3,
        "try_number": 1,
        "max_tries": 2,
        "attempt": 1,
        "process": "host/boot/1/2/3",
        "updated_at": STALE,
    }
    return TaskRecord(**{**given, **changes})


def sighting(shown: Shown, **changes: Any) -> Sighting:
    given: dict[str, Any] = {
        "shown": shown,
        "said": shown.value,
        "try_number": 1,
        "max_tries": 2,
        "changed_at": STALE,
        "ready_at": STALE,
    }
    return Sighting(**{**given, **changes})


def command(verb: Verb, **changes: Any) -> CommandRecord:
    given: dict[str, Any] = {
        "command_id": f"c-{verb}",
        "dag_id": KEY.dag_id,
        "run_id": KEY.run_id,
        "task_id": KEY.task_id,
        "map_index": -1,
        "generation": 1,
        "verb": verb,
        "actor": "ann",
        "reason": "enough",
        "source": Source.CLI,
        "sent_at": STALE,
        "state": CommandState.PENDING,
    }
    return CommandRecord(**{**given, **changes})


def request(expires_at: datetime | None) -> ApprovalRecord:
    return ApprovalRecord(
        request_id="request-1",
        sequence=1,
        dag_id=KEY.dag_id,
        run_id=KEY.run_id,
        task_id=KEY.task_id,
        map_index=-1,
        generation=1,
        of="charge",
        definition_name="orders",
        definition_version="1",
        definition_fingerprint="d",
        payload_fingerprint="p",
        ancestors=(),
        state_version=0,
        upstream_fingerprint="u",
        approvers=(),
        four_eyes=False,
        requester=None,
        requested_at=STALE,
        expires_at=expires_at,
        decision=Decision.PENDING,
    )


def step(**changes: Any) -> Step:
    return Step(name="charge", task="shop.orders:charge", **changes)


LIMITED = step(
    timeouts=Timeouts(start=timedelta(seconds=30), attempt=timedelta(seconds=60), idle=timedelta(minutes=20))
)


def facts(held: TaskRecord | None, seen: Sighting, **changes: Any) -> TaskFacts:
    return TaskFacts(key=KEY, record=held, seen=seen, **{"node": step(), **changes})


def decide(given: TaskFacts, **changes: Any) -> list[Chain]:
    """Decided as in a run that goes on, with a process that is not proven dead."""
    return decide_task(
        given,
        **{
            "over": False,
            "explained": False,
            "patience": PATIENCE,
            "witness": Witness(),
            "now": NOW,
            **changes,
        },
    )


def marked(chains: Iterable[Chain]) -> list[tuple[TaskState, str]]:
    return [
        (change.to, change.trigger)
        for chain in chains
        for repair in chain
        if isinstance(repair, Mark)
        for change in repair.changes
    ]


def kinds(chains: Iterable[Chain]) -> list[list[type]]:
    return [[type(repair) for repair in chain] for chain in chains]


# A process that the ledger holds for being inside


@pytest.mark.parametrize("state", INSIDE)
def test_a_process_that_gave_a_sign_of_life_is_left_alone(state: TaskState) -> None:
    witness = Witness(dead=True)
    touched = TouchRecord(
        dag_id="orders", run_id="r1", task_id="charge", map_index=-1, session=3, heartbeat_at=FRESH
    )
    alive = facts(record(state), sighting(Shown.RUNNING), touch=touched)

    assert decide(alive, witness=witness) == []
    assert witness.asked == []


@pytest.mark.parametrize("state", INSIDE)
def test_a_silent_process_is_not_lost_without_proof(state: TaskState) -> None:
    silent = facts(record(state, updated_at=NOW - PATIENCE.silence), sighting(Shown.RUNNING), node=LIMITED)

    assert marked(decide(silent)) == []


def test_a_sign_of_life_of_an_earlier_process_is_none_of_this_one() -> None:
    old = TouchRecord(
        dag_id="orders", run_id="r1", task_id="charge", map_index=-1, session=2, heartbeat_at=FRESH
    )
    silent = facts(record(TaskState.RUNNING), sighting(Shown.RUNNING), touch=old)

    assert marked(decide(silent, witness=Witness(dead=True))) == [
        (TaskState.RETRY_WAIT, "runtime:attempt_lost")
    ]


@pytest.mark.parametrize("shown", [Shown.RUNNING, Shown.RETRYING, Shown.WAITING])
@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSING])
def test_a_process_proven_dead_with_tries_left_waits_for_a_retry(state: TaskState, shown: Shown) -> None:
    lost = facts(record(state), sighting(shown))

    assert marked(decide(lost, witness=Witness(dead=True))) == [
        (TaskState.RETRY_WAIT, "runtime:attempt_lost")
    ]


@pytest.mark.parametrize("shown", [Shown.RUNNING, Shown.RETRYING])
def test_a_task_that_lost_too_many_processes_is_lost(shown: Shown) -> None:
    lost = facts(record(TaskState.RUNNING, losses=INFRASTRUCTURE_BUDGET), sighting(shown))

    assert marked(decide(lost, witness=Witness(dead=True))) == [(TaskState.LOST, "runtime:attempt_lost")]


@pytest.mark.parametrize("shown", [Shown.FAILED, Shown.SKIPPED, Shown.GONE])
def test_what_airflow_gave_up_for_good_is_lost(shown: Shown) -> None:
    lost = facts(record(TaskState.RUNNING), GONE if shown is Shown.GONE else sighting(shown))

    ((mark,),) = decide(lost, witness=Witness(dead=True))

    assert isinstance(mark, Mark)
    (change,) = mark.changes
    assert (change.to, change.failure_kind) == (TaskState.LOST, FailureKind.LOST)
    assert "proven dead" in mark.why


@pytest.mark.parametrize("shown", [Shown.FAILED, Shown.RETRYING, Shown.GONE, Shown.SKIPPED])
def test_without_proof_airflow_is_given_time_to_end_it(shown: Shown) -> None:
    in_time = NOW - PATIENCE.killed_within + SECOND
    held = record(TaskState.RUNNING, updated_at=in_time)
    assert decide(facts(held, sighting(shown, changed_at=STALE))) == []

    late = NOW - PATIENCE.killed_within
    held = record(TaskState.RUNNING, updated_at=late)
    assert len(marked(decide(facts(held, sighting(shown, changed_at=late))))) == 1


def test_who_opened_the_task_after_airflow_was_read_is_left_alone() -> None:
    # Airflow showed it waiting for ten minutes; between the two readings its process has begun.
    held = record(TaskState.STARTING, updated_at=FRESH)

    assert decide(facts(held, sighting(Shown.WAITING))) == []
    newer = record(TaskState.RUNNING, try_number=2)
    assert decide(facts(newer, sighting(Shown.FAILED)), witness=Witness(dead=True)) == []


@pytest.mark.parametrize("shown", [Shown.FAILED, Shown.RETRYING, Shown.RUNNING])
def test_a_stop_is_confirmed_by_proof_alone(shown: Shown) -> None:
    stop = command(Verb.STOP)
    held = record(TaskState.STOPPING)

    chains = decide(facts(held, sighting(shown), commands=(stop,)), witness=Witness(dead=True))

    assert marked(chains) == [(TaskState.STOPPED, "runtime:stop_confirmed")]
    assert chains[1] == (CloseCommand(command=stop, carried_out=True, why="it is stopped"),)
    (mark,) = chains[0]
    assert isinstance(mark, Mark)
    assert mark.changes[0].actor == "ann"


@pytest.mark.parametrize("shown", [Shown.FAILED, Shown.RETRYING])
def test_a_stop_that_nobody_can_prove_ends_lost(shown: Shown) -> None:
    held = record(TaskState.STOPPING)

    assert marked(decide(facts(held, sighting(shown)))) == [(TaskState.LOST, "runtime:grace_used_up")]


def test_what_a_person_holds_for_success_is_one() -> None:
    held = record(TaskState.RUNNING)

    assert marked(decide(facts(held, sighting(Shown.SUCCEEDED)))) == [(TaskState.SUCCEEDED, "user:marked")]


@pytest.mark.parametrize("shown", [Shown.PARKED, Shown.HELD, Shown.NOTHING])
def test_where_airflow_says_something_else_than_the_ledger_the_next_round_tells(shown: Shown) -> None:
    assert decide(facts(record(TaskState.RUNNING), sighting(shown)), witness=Witness(dead=True)) == []


def test_a_task_that_paused_in_place_is_lost_like_a_running_one() -> None:
    in_place = facts(record(TaskState.PAUSED), sighting(Shown.RUNNING))
    assert marked(decide(in_place, witness=Witness(dead=True))) == [
        (TaskState.RETRY_WAIT, "runtime:attempt_lost")
    ]
    parked = facts(record(TaskState.PAUSED, nonce="n"), sighting(Shown.RUNNING))
    assert decide(parked, witness=Witness(dead=True)) == []


# A process that does not react


def test_a_stop_that_is_not_seen_is_carried_out_by_airflow() -> None:
    stop = command(Verb.STOP, sent_at=NOW - PATIENCE.stop_grace)
    silent = facts(record(TaskState.RUNNING), sighting(Shown.RUNNING), commands=(stop,))

    (chain,) = decide(silent)

    assert kinds([chain]) == [[Mark, EndOnPlatform]]
    assert marked([chain]) == [(TaskState.STOPPING, "user:stop")]
    end = chain[1]
    assert isinstance(end, EndOnPlatform)
    assert (end.retry_in, end.while_shown, end.try_number) == (None, Shown.RUNNING, 1)


def test_a_stop_has_a_grace() -> None:
    stop = command(Verb.STOP, sent_at=NOW - PATIENCE.stop_grace + SECOND)
    silent = facts(record(TaskState.RUNNING), sighting(Shown.RUNNING), commands=(stop,))

    assert decide(silent) == []


def test_a_stop_of_an_earlier_generation_stops_nothing() -> None:
    stop = command(Verb.STOP)
    silent = facts(record(TaskState.RUNNING, generation=2), sighting(Shown.RUNNING), commands=(stop,))

    assert decide(silent) == [
        (CloseCommand(command=stop, carried_out=False, why="the task was cleared since"),)
    ]


def test_a_stopping_process_that_does_not_react_is_ended_after_the_grace() -> None:
    late = record(TaskState.STOPPING, updated_at=NOW - max(PATIENCE.stop_grace, PATIENCE.silence))
    assert kinds(decide(facts(late, sighting(Shown.RUNNING)))) == [[EndOnPlatform]]

    early = record(TaskState.STOPPING, updated_at=NOW - PATIENCE.stop_grace + SECOND)
    assert decide(facts(early, sighting(Shown.RUNNING))) == []


@pytest.mark.parametrize("retry", [RetryPolicy(), RetryPolicy(max_attempts=2, delay=timedelta(seconds=7))])
def test_an_attempt_that_runs_too_long_is_ended_by_airflow_and_then_recorded(retry: RetryPolicy) -> None:
    node = replace(LIMITED, retry=retry)
    silent = facts(record(TaskState.RUNNING), sighting(Shown.RUNNING), node=node)
    ran = timedelta(seconds=60) + PATIENCE.stop_grace

    (chain,) = decide(silent, witness=Witness(running=ran))

    assert kinds([chain]) == [[EndOnPlatform, Mark]]
    end = chain[0]
    assert isinstance(end, EndOnPlatform)
    if retry.max_attempts == 2:
        assert end.retry_in == timedelta(seconds=7)
        assert marked([chain]) == [(TaskState.RETRY_WAIT, "timeout:attempt")]
    else:
        assert end.retry_in is None
        assert marked([chain]) == [(TaskState.FAILED, "timeout:attempt")]
    assert "70.0 s" in end.why
    assert "60.0 s" in end.why


def test_the_process_itself_has_the_grace_to_keep_its_limit() -> None:
    silent = facts(record(TaskState.RUNNING), sighting(Shown.RUNNING), node=LIMITED)
    ran = timedelta(seconds=60) + PATIENCE.stop_grace - SECOND

    assert decide(silent, witness=Witness(running=ran)) == []


def test_silence_beyond_the_idle_limit_is_an_idle_timeout() -> None:
    node = step(timeouts=Timeouts(idle=timedelta(minutes=5)))
    silent = facts(record(TaskState.RUNNING), sighting(Shown.RUNNING), node=node)

    assert marked(decide(silent)) == [(TaskState.FAILED, "timeout:idle")]


def test_the_process_that_has_yet_to_open_the_task_pays_for_nobody() -> None:
    stop = command(Verb.STOP)
    silent = facts(
        record(TaskState.RUNNING), sighting(Shown.RUNNING, try_number=2), commands=(stop,), node=LIMITED
    )

    assert decide(silent, witness=Witness(running=timedelta(hours=1))) == []


# A task that waits to start


@pytest.mark.parametrize(
    ("held", "way"),
    [
        (None, [(TaskState.QUEUED, "orchestrator:dependencies_resolved")]),
        (record(TaskState.PENDING), [(TaskState.QUEUED, "orchestrator:dependencies_resolved")]),
        (record(TaskState.BLOCKED), [(TaskState.QUEUED, "orchestrator:dependencies_resolved")]),
        (record(TaskState.QUEUED), []),
        (record(TaskState.RETRY_WAIT), [(TaskState.QUEUED, "policy:retry_due")]),
        (record(TaskState.PAUSED, nonce="n"), [(TaskState.QUEUED, "user:resume")]),
        (
            record(TaskState.SUCCEEDED, max_tries=1),
            [
                (TaskState.PENDING, "user:cleared"),
                (TaskState.QUEUED, "orchestrator:dependencies_resolved"),
            ],
        ),
    ],
)
def test_a_start_that_takes_too_long_fails_in_the_ledger_first(
    held: TaskRecord | None, way: list[tuple[TaskState, str]]
) -> None:
    late = facts(held, sighting(Shown.WAITING, ready_at=NOW - timedelta(seconds=30)), node=LIMITED)

    (chain,) = decide(late)

    assert kinds([chain]) == [[Mark, EndOnPlatform]]
    assert marked([chain]) == [*way, (TaskState.FAILED, "timeout:start")]
    mark, end = chain
    assert isinstance(mark, Mark)
    assert isinstance(end, EndOnPlatform)
    assert (mark.max_tries, mark.changes[-1].failure_kind) == (2, FailureKind.TIMEOUT_START)
    assert (end.retry_in, end.while_shown) == (None, Shown.WAITING)
    assert "30.0 s" in end.why


@pytest.mark.parametrize("shown", [Shown.NOTHING, Shown.RETRYING, Shown.HELD, Shown.PARKED])
def test_a_task_that_lacks_more_than_a_slot_is_not_late(shown: Shown) -> None:
    assert decide(facts(None, sighting(shown), node=LIMITED)) == []


def test_a_start_in_time_and_one_without_a_limit_are_left_alone() -> None:
    in_time = sighting(Shown.WAITING, ready_at=NOW - timedelta(seconds=29.999))
    assert decide(facts(None, in_time, node=LIMITED)) == []
    assert decide(facts(None, sighting(Shown.WAITING))) == []


def test_a_process_that_has_begun_and_not_opened_its_task_comes_too_late() -> None:
    late = facts(record(TaskState.RETRY_WAIT), sighting(Shown.RUNNING, try_number=2), node=LIMITED)
    (chain,) = decide(late)

    # It finds the task over when it opens it, and tells Airflow itself.
    assert kinds([chain]) == [[Mark]]
    opened = facts(record(TaskState.RETRY_WAIT), sighting(Shown.RUNNING), node=LIMITED)
    assert decide(opened) == []


@pytest.mark.parametrize(
    "ready",
    [
        datetime(2026, 3, 29, 0, 45, tzinfo=timezone.utc),
        datetime(2026, 10, 25, 0, 45, tzinfo=timezone.utc),
    ],
)
def test_daylight_saving_does_not_stretch_a_start_limit(ready: datetime) -> None:
    # Case D10: 01:45 in Berlin, an hour before the clocks change; told in Berlin's own time.
    half_hour = step(timeouts=Timeouts(start=timedelta(minutes=30)))
    berlin = timezone(timedelta(hours=1 if ready.month == 3 else 2))
    waiting = facts(None, sighting(Shown.WAITING, ready_at=ready.astimezone(berlin)), node=half_hour)

    assert decide(waiting, now=ready + timedelta(minutes=30) - SECOND) == []
    assert len(decide(waiting, now=ready + timedelta(minutes=30))) == 1


# What is over for the ledger


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.STOPPED, TaskState.LOST, TaskState.CANCELLED])
@pytest.mark.parametrize("shown", [Shown.WAITING, Shown.RETRYING])
def test_airflow_starts_nothing_again_that_the_ledger_holds_for_over(state: TaskState, shown: Shown) -> None:
    (chain,) = decide(facts(record(state), sighting(shown)))

    assert kinds([chain]) == [[EndOnPlatform]]


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        # Its report was lost: the retry returns the recorded result (case F01).
        (TaskState.SUCCEEDED, sighting(Shown.RETRYING)),
        # Its process is on its way out, maybe in a callback.
        (TaskState.FAILED, sighting(Shown.RUNNING)),
        # It was cleared.
        (TaskState.FAILED, sighting(Shown.WAITING, max_tries=3)),
        (TaskState.FAILED, sighting(Shown.RETRYING, max_tries=3)),
        (TaskState.FAILED, sighting(Shown.NOTHING)),
        *((state, sighting(Shown.FAILED)) for state in TaskState if state.terminal),
    ],
)
def test_what_is_over_is_otherwise_left_alone(state: TaskState, seen: Sighting) -> None:
    assert decide(facts(record(state), seen)) == []


@pytest.mark.parametrize("verb", list(Verb))
def test_a_command_that_nobody_took_up_before_the_end_is_refused(verb: Verb) -> None:
    sent = command(verb)
    over = facts(record(TaskState.FAILED), sighting(Shown.FAILED), commands=(sent,))

    assert decide(over) == [(CloseCommand(command=sent, carried_out=False, why="it is failed already"),)]
    just_over = replace(over, record=record(TaskState.FAILED, updated_at=FRESH))
    # Who has just ended it closes its commands itself.
    assert decide(just_over) == []


def test_a_command_to_a_task_that_waits_stays_open() -> None:
    waiting = facts(record(TaskState.RETRY_WAIT), sighting(Shown.RETRYING), commands=(command(Verb.STOP),))

    assert decide(waiting) == []


# What Airflow ended without a process


@pytest.mark.parametrize("state", UNSTARTED)
@pytest.mark.parametrize("shown", [Shown.SKIPPED, Shown.GONE])
def test_a_skip_is_one_where_an_upstream_explains_it(state: TaskState, shown: Shown) -> None:
    skipped = facts(record(state), sighting(shown))

    assert marked(decide(skipped, explained=True)) == [(TaskState.SKIPPED, "orchestrator:upstream")]
    assert marked(decide(skipped, explained=False)) == [(TaskState.CANCELLED, "orchestrator:cascade")]
    assert decide(skipped, explained=None) == []


@pytest.mark.parametrize("shown", [Shown.NOTHING, Shown.WAITING, Shown.RETRYING, Shown.HELD, Shown.PARKED])
def test_what_a_run_that_is_over_did_not_come_to_is_cancelled(shown: Shown) -> None:
    left = facts(record(TaskState.PENDING), sighting(shown))

    assert marked(decide(left, over=True)) == [(TaskState.CANCELLED, "orchestrator:cascade")]
    assert decide(left) == []


@pytest.mark.parametrize("state", [TaskState.RETRY_WAIT, TaskState.PENDING])
def test_what_a_person_marked_is_so(state: TaskState) -> None:
    assert marked(decide(facts(record(state), sighting(Shown.FAILED)))) == [(TaskState.FAILED, "user:marked")]
    assert marked(decide(facts(record(state), sighting(Shown.SUCCEEDED)))) == [
        (TaskState.SUCCEEDED, "user:marked")
    ]


# A parked task

PARKED = record(TaskState.PAUSED, nonce="n")
PAUSED = record(TaskState.PAUSED, nonce="pause-n")


def test_a_recorded_answer_is_passed_on() -> None:
    answered = facts(PARKED, sighting(Shown.PARKED, answered=True))

    assert kinds(decide(answered)) == [[PassAnswerOn]]


def test_a_request_expires_once_airflow_has_had_its_time() -> None:
    expired = facts(PARKED, sighting(Shown.PARKED), asked=request(NOW - PATIENCE.expired_for))
    assert kinds(decide(expired)) == [[Expire, WakeExpired]]

    for expires_at in (None, NOW - PATIENCE.expired_for + SECOND, NOW + SECOND):
        assert decide(facts(PARKED, sighting(Shown.PARKED), asked=request(expires_at))) == []


@pytest.mark.parametrize(
    ("held", "verb", "delivered"),
    [
        (PAUSED, Verb.RESUME, True),
        (PAUSED, Verb.STOP, True),
        (PARKED, Verb.STOP, True),
        (PARKED, Verb.RESUME, False),
        (PAUSED, Verb.PAUSE, False),
    ],
)
def test_a_command_that_its_sender_could_not_deliver_is_delivered(
    held: TaskRecord, verb: Verb, delivered: bool
) -> None:
    sent = command(verb, sent_at=NOW - PATIENCE.sender)
    parked = facts(held, sighting(Shown.PARKED), commands=(sent,))
    assert kinds(decide(parked)) == ([[Deliver]] if delivered else [])

    fresh = replace(parked, commands=(replace(sent, sent_at=FRESH),))
    assert decide(fresh) == []


# Whatever is seen

states = st.sampled_from(TaskState)
moments = st.timedeltas(min_value=-timedelta(hours=1), max_value=timedelta(hours=1)).map(
    lambda ago: NOW - ago
)
records = st.none() | st.builds(
    record,
    states,
    nonce=st.none() | st.sampled_from(["n", "pause-n"]),
    try_number=st.integers(0, 3),
    max_tries=st.integers(0, 4),
    generation=st.integers(1, 2),
    losses=st.integers(0, 3),
    failures=st.integers(0, 3),
    updated_at=moments,
)
sightings = st.builds(
    sighting,
    st.sampled_from(Shown),
    try_number=st.integers(0, 3),
    max_tries=st.integers(0, 4),
    ready_at=st.none() | moments,
    changed_at=st.none() | moments,
    answered=st.booleans(),
)
commands = st.lists(
    st.builds(command, st.sampled_from(Verb), generation=st.integers(1, 2), sent_at=moments), max_size=3
).map(tuple)
anything = st.builds(
    facts,
    records,
    sightings,
    commands=commands,
    asked=st.none() | st.builds(request, st.none() | moments),
    node=st.sampled_from(
        [None, step(), LIMITED, replace(LIMITED, retry=RetryPolicy(max_attempts=5, delay=SECOND))]
    ),
)
ways = st.fixed_dictionaries(
    {
        "over": st.booleans(),
        "explained": st.sampled_from([True, False, None]),
        "witness": st.builds(
            Witness, dead=st.booleans(), running=st.timedeltas(timedelta(0), timedelta(hours=1))
        ),
    }
)


@given(given_facts=anything, way=ways)
def test_every_repair_is_a_legal_way(given_facts: TaskFacts, way: dict[str, Any]) -> None:
    state = given_facts.state
    chains = decide(given_facts, **way)
    for to, trigger in marked(chains):
        state = transition(state, to, trigger)
    assert state is state_after(given_facts, chains)
    assert all(chain for chain in chains)


@given(given_facts=anything, way=ways)
def test_nobody_is_stopped_without_proof_nor_lost_by_silence_alone(
    given_facts: TaskFacts, way: dict[str, Any]
) -> None:
    for to, _ in marked(decide(given_facts, **way)):
        if to is TaskState.STOPPED:
            assert way["witness"].dead
            assert given_facts.state is TaskState.STOPPING
        if to is TaskState.LOST and given_facts.seen.shown is Shown.RUNNING:
            assert way["witness"].dead


@given(given_facts=anything, way=ways)
@example(
    # Of a run that is over nothing starts, so what the ledger missed of it is never late to start.
    given_facts=facts(None, sighting(Shown.WAITING, max_tries=1, ready_at=STALE), node=LIMITED),
    way={"over": True, "explained": True, "witness": Witness()},
)
@example(
    # Lost, and Airflow has raised its tries already: that is not a clear which comes after.
    given_facts=facts(
        record(TaskState.STARTING, max_tries=0, updated_at=NOW - timedelta(seconds=40)),
        sighting(Shown.SKIPPED, max_tries=1),
    ),
    way={"over": False, "explained": True, "witness": Witness()},
)
def test_a_task_is_marked_once(given_facts: TaskFacts, way: dict[str, Any]) -> None:
    """What is decided again of what was marked marks nothing that was marked already."""
    chains = decide(given_facts, **way)
    before = marked(chains)
    if not before:
        return
    mark = next(repair for chain in chains for repair in chain if isinstance(repair, Mark))
    held = given_facts.record or record(TaskState.PENDING, try_number=0, max_tries=0)
    after = replace(
        held,
        state=before[-1][0],
        session=held.session + len(before),
        nonce=None,
        losses=held.losses + sum(trigger == "runtime:attempt_lost" for _, trigger in before),
        max_tries=held.max_tries if mark.max_tries is None else mark.max_tries,
        updated_at=NOW,
    )
    again = marked(decide(replace(given_facts, record=after), **way))
    assert again == [] or occupies(after)
    assert not set(before) & set(again)


@given(given_facts=anything, way=ways)
def test_a_live_process_that_reacts_is_never_touched(given_facts: TaskFacts, way: dict[str, Any]) -> None:
    if given_facts.record is None or not occupies(given_facts.record):
        return
    alive = replace(given_facts.record, updated_at=FRESH, try_number=given_facts.seen.try_number)
    seen = replace(given_facts.seen, shown=Shown.RUNNING)
    chains = decide(replace(given_facts, record=alive, seen=seen), **way)
    assert {kind for chain in kinds(chains) for kind in chain} <= {CloseCommand}
