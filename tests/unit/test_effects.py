"""An effect happens once, whatever becomes of its processes (semantics section 3, cases F01 and F07)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from louver.canonical import fingerprint
from louver.clock import FixedClock
from louver.context import TaskContext
from louver.effects import LEASE, QUIESCE, BeginStep, EffectCall, Verification, decide_begin, run_effect
from louver.errors import (
    ConfigurationError,
    EffectConflict,
    EffectInProgress,
    EffectNotPerformed,
    EffectUnknown,
    Superseded,
    ValueRefused,
)
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectState, OnUnknown, RunKey, TaskKey
from louver.ledger.records import EffectRecord
from louver.ledger.requests import RunStart
from louver.ports import StepRuntime
from louver.sessions import Claim
from louver.states import Source

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("orders", "run-1")
INTENT = {"amount": "12.00", "currency": "EUR"}
OTHER_INTENT = {"amount": "13.00", "currency": "EUR"}
LOOK_UP = f"{__name__}:look_up"
REFUND = f"{__name__}:refund"


class Killed(BaseException):
    """The process ends here, between what it did and its word about it."""


class Provider:
    """
    Somebody else's system: counts what it really did, by key.

    :param idempotent: it acts once per key, and answers again with what it said before.
    """

    def __init__(self, *, idempotent: bool = False) -> None:
        self.idempotent = idempotent
        self.acted: Counter[str] = Counter()
        self.asked: list[str] = []
        self.breaks: list[BaseException] = []
        self.says: Verification | None = None
        self.meanwhile: Callable[[], None] | None = None

    def charge(self, key: str) -> dict[str, str]:
        if not (self.idempotent and key in self.acted):
            self.acted[key] += 1
        if self.breaks:
            raise self.breaks.pop()
        return {"receipt": f"receipt of {key}"}

    def refuse(self, key: str) -> None:
        self.asked.append(key)
        raise EffectNotPerformed("the card was declined")

    def verify(self, key: str) -> Verification:
        self.asked.append(key)
        says = self.says
        if says is None:
            done = Verification.committed({"receipt": f"receipt of {key}"})
            says = done if self.acted[key] else Verification.absent()
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return says


PROVIDERS: list[Provider] = []


def look_up(key: str) -> Verification:
    return PROVIDERS[-1].verify(key)


def answer_wrongly(key: str) -> bool:
    return bool(PROVIDERS[-1].acted[key])


def refund(undo: object) -> None:
    raise AssertionError("nothing is undone here")


class Graves:
    """Which processes are proved dead."""

    def __init__(self) -> None:
        self.dead: set[str] = set()

    def proves_dead(self, process: str) -> bool:
        return process in self.dead


class Actions:
    """A log that remembers the actions told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, action: str, message: str, *args: object) -> None:
        self.told.append(action)


class World:
    """One run on a ledger in memory, a clock that is told, and processes that come and go."""

    def __init__(self, ledger: Ledger, provider: Provider) -> None:
        self.ledger = ledger
        self.provider = provider
        self.clock = FixedClock(NOW)
        self.graves = Graves()
        self.log = Actions()
        start = RunStart(
            key=RUN,
            definition_name="orders",
            definition_version="1",
            definition_fingerprint=fingerprint("orders"),
            definition={"name": "orders"},
        )
        ledger.open_run(start, now=NOW)

    def process(self, task_id: str = "pay", *, clock: FixedClock | None = None) -> StepRuntime:
        """A new process opens the task."""
        key = TaskKey(RUN.dag_id, RUN.run_id, task_id)
        known = self.ledger.get_task(key)
        tries = known.try_number + 1 if known else 1
        claim = Claim(try_number=tries, max_tries=9, process=f"{task_id}/{tries}", source=Source.WORKER)
        opened = self.ledger.open_task(key, claim, now=self.clock.now())
        return StepRuntime(
            ledger=self.ledger,
            token=opened.token,
            clock=clock or self.clock,
            liveness=self.graves,
            log=self.log,
        )

    def charge(self, runtime: StepRuntime, **changes: Any) -> Any:
        """The step's effect as its author wrote it."""
        given: dict[str, Any] = {
            "scope": "dag:orders",
            "key": "order-77",
            "name": "charge",
            "intent": INTENT,
            "perform": self.provider.charge,
        }
        return run_effect(EffectCall(**{**given, **changes}), runtime)

    def effect(self, key: str = "order-77") -> EffectRecord:
        found = self.ledger.get_effect("dag:orders", key)
        if found is None:
            pytest.fail(f"no effect {key}")
        return found

    def die_inside(self, **changes: Any) -> StepRuntime:
        """A process does the work and is killed before it can say so."""
        runtime = self.process()
        self.provider.breaks.append(Killed())
        with pytest.raises(Killed):
            self.charge(runtime, **changes)
        self.graves.dead.add(runtime.token.process)
        assert self.effect().state is EffectState.STARTED
        return runtime

    def context(self, runtime: StepRuntime, **guard: Any) -> TaskContext:
        return TaskContext(runtime=runtime, upstream={}, **guard)


@pytest.fixture
def provider() -> Iterator[Provider]:
    PROVIDERS.append(Provider())
    yield PROVIDERS[-1]
    PROVIDERS.pop()


@pytest.fixture
def world(provider: Provider) -> Iterator[World]:
    with open_ledger("memory://") as ledger:
        yield World(ledger, provider)


def test_an_effect_is_recorded_and_never_repeated(world: World) -> None:
    runtime = world.process()
    first = world.charge(runtime, undo=REFUND)
    again = world.charge(runtime)
    later = world.charge(world.process("another step"))

    assert first == again == later == {"receipt": "receipt of order-77#1"}
    assert world.provider.acted == {"order-77#1": 1}
    effect = world.effect()
    assert (effect.state, effect.epoch, effect.commit_sequence) == (EffectState.COMMITTED, 1, 1)
    assert effect.undo == REFUND
    assert world.log.told == ["effect.started", "effect.committed", "effect.recorded", "effect.recorded"]


def test_a_result_that_is_none_is_recorded_too(world: World) -> None:
    seen: list[str] = []
    for _ in range(2):
        assert world.charge(world.process(), perform=seen.append) is None
    assert seen == ["order-77#1"]


def test_the_undo_is_registered_before_anything_happens(world: World) -> None:
    seen: list[tuple[EffectState, str | None]] = []

    def look(key: str) -> None:
        seen.append((world.effect().state, world.effect().undo))

    world.charge(world.process(), perform=look, undo=REFUND)
    assert seen == [(EffectState.STARTED, REFUND)]


@pytest.mark.parametrize("state", [EffectState.STARTED, EffectState.COMMITTED, EffectState.UNKNOWN])
def test_the_same_key_with_another_intent_is_a_conflict(world: World, state: EffectState) -> None:
    """Case F07: also while the first is still running, and before it is found to be in progress."""
    if state is EffectState.COMMITTED:
        world.charge(world.process())
    else:
        world.die_inside()
        world.graves.dead.clear()
    if state is EffectState.UNKNOWN:
        world.ledger.lose_effect(world.effect(), reason="its process is dead", now=world.clock.now())
    before = world.effect()

    with pytest.raises(EffectConflict, match=r"order-77.*is not reused") as caught:
        world.charge(world.process("another step"), intent=OTHER_INTENT)

    assert "12.00" not in str(caught.value)
    assert "13.00" not in str(caught.value)
    assert world.effect() == before
    assert before.state is state
    assert world.clock.now() == NOW
    assert world.provider.acted == {"order-77#1": 1}


def test_the_order_of_an_intents_keys_is_no_other_intent(world: World) -> None:
    world.charge(world.process())
    world.charge(world.process(), intent=dict(reversed(INTENT.items())))
    assert world.provider.acted == {"order-77#1": 1}


def test_a_key_is_unique_within_its_scope_alone(world: World) -> None:
    runtime = world.process()
    for scope in ("dag", "run", "global"):
        world.context(runtime).effect(
            "charge", key="order-77", scope=scope, intent=scope, perform=world.provider.charge
        )
    assert world.provider.acted == {"order-77#1": 3}


def test_an_effect_that_did_not_happen_fails_and_may_begin_again(world: World) -> None:
    """With a corrected intent too; it is the same epoch, for nothing was done in it."""
    runtime = world.process()
    with pytest.raises(EffectNotPerformed, match="declined"):
        world.charge(runtime, perform=world.provider.refuse)
    failed = world.effect()
    assert (failed.state, failed.reason) == (EffectState.FAILED, "EffectNotPerformed")

    world.charge(runtime, intent=OTHER_INTENT)

    assert world.provider.acted == {"order-77#1": 1}
    assert world.provider.asked == ["order-77#1"]
    assert world.effect().intent_hash == fingerprint(OTHER_INTENT)
    assert world.ledger.load_effect(world.effect())[0] == OTHER_INTENT


def test_an_error_of_perform_proves_nothing(world: World) -> None:
    """The provider did it and lost its answer; the author has said nothing, so a person is asked."""
    world.provider.breaks.append(ConnectionError("payload: 12.00"))
    with pytest.raises(ConnectionError):
        world.charge(world.process())
    assert world.effect().state is EffectState.UNKNOWN
    assert world.effect().reason == "perform raised ConnectionError"

    with pytest.raises(EffectUnknown, match="waits for a person"):
        world.charge(world.process())
    assert world.provider.acted == {"order-77#1": 1}


@pytest.mark.parametrize("killed", [True, False])
def test_on_unknown_verify_finds_what_the_provider_did(world: World, killed: bool) -> None:
    choice: dict[str, Any] = {"verify": LOOK_UP, "on_unknown": OnUnknown.VERIFY}
    if killed:
        world.die_inside(**choice)
    else:
        world.provider.breaks.append(ConnectionError())
        with pytest.raises(ConnectionError):
            world.charge(world.process(), **choice)

    assert world.charge(world.process(), **choice) == {"receipt": "receipt of order-77#1"}

    assert world.provider.asked == ["order-77#1"]
    assert world.provider.acted == {"order-77#1": 1}
    assert world.effect().state is EffectState.COMMITTED
    assert world.charge(world.process()) == {"receipt": "receipt of order-77#1"}


def test_on_unknown_verify_performs_what_is_absent(world: World) -> None:
    world.die_inside()
    world.provider.acted.clear()
    world.charge(world.process(), verify=LOOK_UP, on_unknown=OnUnknown.VERIFY)
    assert world.provider.acted == {"order-77#1": 1}
    assert world.effect().state is EffectState.COMMITTED


@pytest.mark.parametrize("lost", [False, True], ids=["done", "lost again"])
def test_an_answer_that_comes_late_is_not_about_what_was_done_since(world: World, lost: bool) -> None:
    """While it was on its way, another process was told the same, and performed what had not happened."""
    choice: dict[str, Any] = {"verify": LOOK_UP, "on_unknown": OnUnknown.VERIFY}
    world.die_inside()
    world.provider.acted.clear()

    def another() -> None:
        if not lost:
            world.charge(world.process("another"), **choice)
            return
        world.provider.breaks.append(ConnectionError())
        with pytest.raises(ConnectionError):
            world.charge(world.process("another"), **choice)

    world.provider.meanwhile = another
    assert world.charge(world.process(), **choice) == {"receipt": "receipt of order-77#1"}

    assert world.provider.acted == {"order-77#1": 1}
    assert len(world.provider.asked) == (3 if lost else 2)
    assert (world.effect().state, world.effect().task_id) == (EffectState.COMMITTED, "another")


def test_on_unknown_verify_asks_a_person_where_the_provider_cannot_tell(world: World) -> None:
    world.die_inside()
    world.provider.says = Verification.unknown()
    with pytest.raises(EffectUnknown, match="its process is dead"):
        world.charge(world.process(), verify=LOOK_UP, on_unknown=OnUnknown.VERIFY)
    assert world.effect().state is EffectState.UNKNOWN
    assert world.provider.acted == {"order-77#1": 1}


def test_verify_must_answer_with_a_verification(world: World) -> None:
    world.die_inside()
    with pytest.raises(ConfigurationError, match="must return a Verification"):
        world.charge(world.process(), verify=f"{__name__}:answer_wrongly", on_unknown=OnUnknown.VERIFY)
    assert world.effect().state is EffectState.UNKNOWN


def test_on_unknown_retry_performs_again_with_the_same_key(world: World) -> None:
    world.provider.idempotent = True
    choice: dict[str, Any] = {"provider_idempotent": True, "on_unknown": OnUnknown.RETRY}
    world.die_inside(**choice)

    assert world.charge(world.process(), **choice) == {"receipt": "receipt of order-77#1"}

    assert world.provider.acted == {"order-77#1": 1}
    assert world.effect().state is EffectState.COMMITTED
    assert "effect.retried" in world.log.told


def test_an_intent_whose_undo_failed_waits_for_a_person(world: World) -> None:
    runtime = world.process()
    world.charge(runtime)
    world.ledger.give_up_undo(runtime.token, world.effect(), reason="no answer", now=NOW)
    with pytest.raises(EffectUnknown, match="its undo failed"):
        world.charge(runtime)
    with pytest.raises(EffectConflict):
        world.charge(runtime, intent=OTHER_INTENT)


def test_a_stale_process_cannot_begin(world: World) -> None:
    stale = world.process()
    world.process()
    with pytest.raises(Superseded):
        world.charge(stale)
    assert world.provider.acted == {}
    assert world.ledger.list_effects(RUN) == []


def test_a_stale_process_cannot_commit(world: World) -> None:
    """It was replaced while it was inside perform: what it did is found out by its successor."""
    successors: list[StepRuntime] = []

    def charge(key: str) -> dict[str, str]:
        successors.append(world.process())
        return world.provider.charge(key)

    stale = world.process()
    with pytest.raises(Superseded):
        world.charge(stale, perform=charge)
    assert world.effect().state is EffectState.STARTED

    world.graves.dead.add(stale.token.process)
    choice: dict[str, Any] = {"verify": LOOK_UP, "on_unknown": OnUnknown.VERIFY}
    world.charge(successors[0], **choice)
    assert world.provider.acted == {"order-77#1": 1}
    assert world.effect().state is EffectState.COMMITTED


def test_a_stale_process_that_fails_says_nothing_about_its_successor(world: World) -> None:
    """The successor is inside perform under the same key; only it, or its death, ends that."""
    choice: dict[str, Any] = {"provider_idempotent": True, "on_unknown": OnUnknown.RETRY}
    stale = world.process()
    successor: list[EffectRecord] = []

    def hang(key: str) -> None:
        world.graves.dead.add(stale.token.process)
        world.provider.breaks.append(Killed())
        with pytest.raises(Killed):
            world.charge(world.process(), **choice)
        successor.append(world.effect())
        raise ConnectionError

    with pytest.raises(ConnectionError):
        world.charge(stale, perform=hang, **choice)
    assert successor[0].state is EffectState.STARTED
    assert world.effect() == successor[0]


def test_lease_and_quiesce_come_before_unknown(world: World) -> None:
    """No proof of death: the killed process may still be inside the provider's call for so long."""
    world.die_inside()
    world.graves.dead.clear()
    with pytest.raises(EffectUnknown, match="lease and the quiesce time are over"):
        world.charge(world.process())
    assert world.clock.now() == NOW + LEASE + QUIESCE


def test_proof_of_death_needs_no_waiting(world: World) -> None:
    world.die_inside()
    with pytest.raises(EffectUnknown, match="its process is dead"):
        world.charge(world.process())
    assert world.clock.now() == NOW


# How long the provider may go on


LONG = timedelta(seconds=600)
UNTIL = NOW + LEASE + LONG


@pytest.mark.parametrize("given", [600, 600.0, LONG])
def test_what_the_author_says_of_the_provider_is_kept(world: World, given: Any) -> None:
    ctx = world.context(world.process())
    ctx.effect("charge", intent=INTENT, perform=world.provider.charge, provider_timeout=given)
    ctx.effect("quick", intent=INTENT, perform=world.provider.charge, provider_timeout=0.5)
    ctx.effect("plain", intent=INTENT, perform=world.provider.charge)
    effects = {effect.name: effect.quiesce_seconds for effect in world.ledger.list_effects(RUN)}
    assert effects == {"charge": 600.0, "quick": 0.5, "plain": 30.0}


@pytest.mark.parametrize("proof", [False, True], ids=["elsewhere", "on this machine"])
def test_a_provider_that_goes_on_is_waited_for_before_it_is_asked(world: World, proof: bool) -> None:
    """It would say that nothing happened, and what it is still at would be done twice."""
    dead = world.die_inside(quiesce=LONG, verify=LOOK_UP)
    world.provider.acted.clear()
    if not proof:
        world.graves.dead.discard(dead.token.process)

    def arrive(now: datetime) -> None:
        assert world.provider.asked == []
        if now == UNTIL - timedelta(seconds=1):
            world.provider.acted["order-77#1"] += 1

    clock = Ticking(NOW, arrive)
    result = world.charge(
        world.process(clock=clock), quiesce=LONG, verify=LOOK_UP, on_unknown=OnUnknown.VERIFY
    )

    assert result == {"receipt": "receipt of order-77#1"}
    assert clock.now() == UNTIL
    assert world.provider.acted == {"order-77#1": 1}


def test_a_perform_that_gave_up_waiting_leaves_the_provider_the_time_it_may_take(world: World) -> None:
    """Asked at once, it would say that nothing happened, and go on."""
    world.provider.breaks.append(TimeoutError("no answer within 10 s"))
    given = {"quiesce": LONG, "verify": LOOK_UP, "on_unknown": OnUnknown.VERIFY}
    first = world.process()
    with pytest.raises(TimeoutError):
        world.charge(first, **given)
    assert world.effect().state is EffectState.STARTED
    world.provider.acted.clear()

    def arrive(now: datetime) -> None:
        assert world.provider.asked == []
        if now == UNTIL - timedelta(seconds=1):
            world.provider.acted["order-77#1"] += 1

    again = world.process(clock=Ticking(NOW, arrive))
    assert world.charge(again, **given) == {"receipt": "receipt of order-77#1"}
    assert world.provider.acted == {"order-77#1": 1}


def test_a_provider_that_acts_once_per_key_need_not_be_waited_for(world: World) -> None:
    world.provider.breaks.append(TimeoutError("no answer within 10 s"))
    with pytest.raises(TimeoutError):
        world.charge(world.process(), quiesce=LONG, provider_idempotent=True, on_unknown=OnUnknown.RETRY)
    assert world.effect().state is EffectState.UNKNOWN


def test_a_shorter_time_than_usual_is_the_authors_word_too(world: World) -> None:
    world.die_inside(quiesce=timedelta(seconds=5))
    world.graves.dead.clear()
    with pytest.raises(EffectUnknown, match="quiesce time are over"):
        world.charge(world.process())
    assert world.clock.now() == NOW + LEASE + timedelta(seconds=5)


@pytest.mark.parametrize(
    "given", [0, -1, 0.0, float("nan"), float("inf"), 1e30, True, False, "30", timedelta(0), [30]]
)
def test_what_is_no_time_is_refused_before_anything(world: World, given: Any) -> None:
    ctx = world.context(world.process())
    with pytest.raises(ConfigurationError, match="'charge': provider_timeout must be a time of 1 ms"):
        ctx.effect("charge", intent=INTENT, perform=world.provider.charge, provider_timeout=given)
    assert world.provider.acted == {}
    assert world.ledger.list_effects(RUN) == []


class Ticking(FixedClock):
    """A clock at whose every tick something happens elsewhere."""

    def __init__(self, start: datetime, then: Callable[[datetime], None]) -> None:
        super().__init__(start)
        self._then = then

    def sleep(self, duration: timedelta) -> None:
        super().sleep(duration)
        self._then(self.now())


def begin_elsewhere(world: World) -> tuple[StepRuntime, EffectRecord]:
    """Another step's process is inside perform under the same key."""
    elsewhere = world.process("another step")
    world.provider.breaks.append(Killed())
    with pytest.raises(Killed):
        world.charge(elsewhere)
    return elsewhere, world.effect()


def test_a_live_process_is_waited_for_and_then_reported(world: World) -> None:
    elsewhere, record = begin_elsewhere(world)

    def renew(now: datetime) -> None:
        world.ledger.keep_effect(elsewhere.token, record, lease_until=now + LEASE)

    clock = Ticking(NOW, renew)
    with pytest.raises(EffectInProgress, match="in progress elsewhere until") as caught:
        world.charge(world.process(clock=clock))
    assert clock.now() == NOW + LEASE + QUIESCE
    assert caught.value.until == clock.now() + LEASE + QUIESCE
    assert world.effect().state is EffectState.STARTED


def test_a_live_process_that_ends_in_time_gives_its_result(world: World) -> None:
    elsewhere, record = begin_elsewhere(world)

    def commit(now: datetime) -> None:
        if world.effect().state is EffectState.STARTED and now >= NOW + timedelta(seconds=5):
            world.ledger.commit_effect(elsewhere.token, record, "theirs", now=now)

    clock = Ticking(NOW, commit)
    assert world.charge(world.process(clock=clock)) == "theirs"
    assert clock.now() == NOW + timedelta(seconds=5)
    assert world.provider.acted == {"order-77#1": 1}


def test_a_result_that_cannot_be_recorded_leaves_a_committed_effect(world: World) -> None:
    """It did happen, so it can be undone; only its result cannot be told."""
    runtime = world.process()
    with pytest.raises(ValueRefused) as caught:
        world.charge(runtime, perform=lambda key: {"receipt": [object()]})
    assert caught.value.path == "$.receipt[0]"
    assert world.effect().state is EffectState.COMMITTED
    assert world.charge(runtime) is None
    assert world.provider.acted == {}


def test_what_has_only_been_called_and_not_run_is_no_effect(world: World) -> None:
    """An async function behind a lambda: nobody knows that it happened, and nobody records that it did."""
    with pytest.raises(ValueRefused, match=r"asyncio\.run"):
        world.charge(world.process(), perform=lambda key: send_async(key))
    assert world.effect().state is EffectState.UNKNOWN


async def send_async(key: str) -> str:
    raise AssertionError("nobody awaits it")


async def refund_async(undo: object) -> None:
    raise AssertionError("nobody awaits it")


def test_async_functions_are_refused_before_anything(world: World) -> None:
    ctx = world.context(world.process())
    charge = world.provider.charge
    with pytest.raises(ConfigurationError, match=r"'charge': perform is an async function.*asyncio\.run"):
        ctx.effect("charge", intent=INTENT, perform=send_async)
    with pytest.raises(ConfigurationError, match=r"compensate of effect 'charge'.*is an async function"):
        ctx.effect("charge", intent=INTENT, perform=charge, compensate=refund_async)
    with pytest.raises(ConfigurationError, match=r"verify of effect 'charge'.*is an async function"):
        ctx.effect("charge", intent=INTENT, perform=charge, verify=send_async)
    assert world.provider.acted == {}
    assert world.ledger.list_effects(RUN) == []


def test_async_code_of_a_step_may_have_effects(world: World) -> None:
    """As a notebook may, whose cells run in a loop."""
    ctx = world.context(world.process())

    async def charge() -> Any:
        return ctx.effect("charge", intent=INTENT, perform=world.provider.charge)

    assert asyncio.run(charge()) == {"receipt": "receipt of run-1::pay::-1::charge#1"}
    assert world.provider.acted == {"run-1::pay::-1::charge#1": 1}


def test_an_intent_that_cannot_be_recorded_is_refused_before_anything(world: World) -> None:
    with pytest.raises(ValueRefused, match=r"\$\.amount"):
        world.charge(world.process(), intent={"amount": float("nan")})
    assert world.provider.acted == {}
    assert world.ledger.list_effects(RUN) == []


def test_decide_begin_of_what_is_new_failed_or_undone(world: World) -> None:
    assert decide_begin(None, intent_hash="any") is BeginStep.FIRST
    runtime = world.process()
    with pytest.raises(EffectNotPerformed):
        world.charge(runtime, perform=world.provider.refuse)
    assert decide_begin(world.effect(), intent_hash="any") is BeginStep.AGAIN


# What an author may give


def test_only_functions_that_another_process_finds_can_compensate(world: World) -> None:
    ctx = world.context(world.process())

    def nested(undo: object) -> None:
        raise AssertionError

    for given in (lambda undo: None, nested, world.provider.charge):
        with pytest.raises(ConfigurationError, match="compensate of effect 'charge'"):
            ctx.effect("charge", intent=INTENT, perform=world.provider.charge, compensate=given)
        with pytest.raises(ConfigurationError, match="verify of effect 'charge'"):
            ctx.effect("charge", intent=INTENT, perform=world.provider.charge, verify=given)
    assert world.provider.acted == {}


def test_what_the_context_records(world: World) -> None:
    ctx = world.context(world.process())
    ctx.effect("charge", intent=INTENT, perform=world.provider.charge, compensate=refund, verify=look_up)
    effect = world.effect("run-1::pay::-1::charge")
    assert effect.undo == f"{__name__}:refund"
    assert effect.verify == f"{__name__}:look_up"
    assert effect.on_unknown is OnUnknown.VERIFY
    assert effect.approval_id is None
    assert world.provider.acted == {"run-1::pay::-1::charge#1": 1}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"on_unknown": "retry"}, "needs provider_idempotent=True"),
        ({"on_unknown": "verify"}, "needs verify="),
        ({"on_unknown": "guess"}, "must be verify, retry or manual"),
        ({"scope": "tenant"}, "scope must be one of"),
        ({"key": ""}, "non-empty"),
        ({"key": 77}, "non-empty"),
        ({"key": "k" * 1001}, "longer than 1000 bytes"),
        ({"key": "é" * 501}, "longer than 1000 bytes"),
        ({"approval": "approve"}, "does not give its step"),
        ({"approval": True}, "does not give its step"),
    ],
)
def test_arguments_that_cannot_be_used(world: World, given: dict[str, Any], complaint: str) -> None:
    ctx = world.context(world.process())
    with pytest.raises(ConfigurationError, match=complaint):
        ctx.effect("charge", intent=INTENT, perform=world.provider.charge, **given)
    assert world.provider.acted == {}
    assert world.ledger.list_effects(RUN) == []


def test_a_key_as_long_as_allowed(world: World) -> None:
    key = "é" * 500
    world.context(world.process()).effect("charge", key=key, intent=INTENT, perform=world.provider.charge)
    assert world.provider.acted == {f"{key}#1": 1}


def test_another_approval_than_the_steps_own_is_refused(world: World) -> None:
    ctx = world.context(world.process(), guard="pay", approval="approve")
    with pytest.raises(ConfigurationError, match="the step's is 'approve'"):
        ctx.effect("charge", intent=INTENT, perform=world.provider.charge, approval="approve_other")
    assert world.provider.acted == {}


def test_an_effect_that_needs_no_approval_says_so(world: World) -> None:
    ctx = world.context(world.process(), guard="pay", approval="approve")
    ctx.effect("look", intent="look", perform=world.provider.charge, approval=False)
    assert world.provider.acted == {"run-1::pay::-1::look#1": 1}


@pytest.mark.parametrize("approval", [None, True, "approve"])
def test_a_guarded_effect_does_nothing_without_its_approval(
    world: World, approval: str | bool | None
) -> None:
    asked: list[tuple[Any, str]] = []

    def ask_anew(intent: Any, why: Any) -> Any:
        asked.append((intent, why.reason))
        raise Killed

    ctx = world.context(world.process(), guard="pay", approval="approve", ask_anew=ask_anew)
    with pytest.raises(Killed):
        ctx.effect("charge", intent=INTENT, perform=world.provider.charge, approval=approval)
    assert asked == [(INTENT, "no approval was asked for")]
    assert world.provider.acted == {}
    assert world.ledger.list_effects(RUN) == []
