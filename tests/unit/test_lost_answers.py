"""
The ledger is away at any one moment of a step's life, or does what it is asked and its answer is lost.

Each decision of each life is lost once, in both ways, alone and with those after it. What only tells of the
step never changes how it ends, and what decides is decided by the same process later or by the next one:
never twice, and never by an error of the step's own (row T13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from support.supervised import NOW, SECOND, Stage, poll, wait

from louver.clock import FixedClock
from louver.context import TaskContext
from louver.control import Sent
from louver.errors import CommandRefused, LedgerUnavailable
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import CommandState, Verb
from louver.lifecycle import Closing
from louver.ports import Parked
from louver.signing import SigningKeys
from louver.timeouts import Timeouts


class Faulty(MemoryLedger):
    """Loses the decisions of a step that it is told to, counted from where its task was opened."""

    def __init__(self, lost: range = range(0), *, written: bool = False) -> None:
        super().__init__(keys=SigningKeys.unsigned())
        self.lost = lost
        self.written = written
        self.count = 0
        self.names: list[str] = []
        self.armed = False

    def _decide(self, name: str, work: Any) -> Any:
        if not self.armed:
            self.armed = name == "open_task"
            return super()._decide(name, work)
        number = self.count
        self.count += 1
        self.names.append(name)
        if number not in self.lost:
            return super()._decide(name, work)
        if self.written:
            super()._decide(name, work)
        raise LedgerUnavailable(f"{name} was lost")

    @contextmanager
    def calm(self) -> Iterator[None]:
        armed, self.armed = self.armed, False
        try:
            yield
        finally:
            self.armed = armed


class Turned(FixedClock):
    """Time in which people do something."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.then: Callable[[], None] = lambda: None

    def sleep(self, duration: timedelta) -> None:
        super().sleep(duration)
        self.then()


class Life(Stage):
    """One life of a step, with people whose own ledger is never away."""

    def __init__(self, ledger: Faulty) -> None:
        super().__init__(ledger)
        self.faulty = ledger
        self.clock: Turned = Turned()

    def ask(self, verb: Verb, **given: Any) -> Sent:
        with self.faulty.calm():
            return super().ask(verb, **given)

    def ask_once(self, verb: Verb) -> None:
        if verb not in [command.verb for command in self.commands()]:
            self.ask(verb)


def runs(life: Life, ctx: TaskContext) -> str:
    for _ in range(3):
        wait(life, ctx)
    return "done"


def parks(life: Life, ctx: TaskContext) -> str:
    for number in range(ctx.restore(0), 4):
        if number == 1:
            life.ask_once(Verb.PAUSE)
        wait(life, ctx, state=number + 1)
    return "done"


def waits_in_place(life: Life, ctx: TaskContext) -> str:
    def resume() -> None:
        if life.path()[-1] == "paused":
            life.ask_once(Verb.RESUME)

    life.clock.then = resume
    life.ask_once(Verb.PAUSE)
    return runs(life, ctx)


def rolls_back(life: Life, ctx: TaskContext) -> str:
    life.ask_once(Verb.PAUSE)
    for _ in range(5):
        life.clock.sleep(10 * SECOND)
        poll(ctx)
    return "done"


def is_taken_back(life: Life, ctx: TaskContext) -> str:
    life.ask_once(Verb.PAUSE)
    poll(ctx)
    life.clock.sleep(SECOND)
    life.ask_once(Verb.RESUME)
    for _ in range(3):
        life.clock.sleep(SECOND)
        poll(ctx)
    return "done"


def stops(life: Life, ctx: TaskContext) -> str:
    life.ask_once(Verb.STOP)
    # As long as a claim lasts at most, and one second more.
    for _ in range(61):
        wait(life, ctx)
    raise AssertionError("nobody stopped it")


def skips_while_it_pauses(life: Life, ctx: TaskContext) -> None:
    life.ask_once(Verb.PAUSE)
    poll(ctx)
    ctx.skip("nothing to do")


def fails(life: Life, ctx: TaskContext) -> None:
    wait(life, ctx)
    raise ValueError("broken")


LIVES: dict[Callable[[Life, TaskContext], Any], str] = {
    runs: "succeeded",
    parks: "succeeded",
    waits_in_place: "succeeded",
    rolls_back: "succeeded",
    is_taken_back: "succeeded",
    stops: "stopped",
    skips_while_it_pauses: "skipped",
    fails: "retry_wait",
}


CLOSED_LATER = {"claim_commands", "refuse_command", "release_command"}
"""Where one of these is lost, the reconciler closes the command once the task is over."""


def live(life: Life, body: Callable[[Life, TaskContext], Any]) -> Closing:
    """Processes one after the other, each as the one before has left the task; people resume what parks."""
    for _ in range(4):
        try:
            return life.live(lambda ctx: body(life, ctx))
        except Parked:
            life.clock.sleep(SECOND)
            with suppress(CommandRefused):
                life.ask(Verb.RESUME)
        except LedgerUnavailable:
            # So long that it is back when the next one begins.
            life.faulty.lost = range(0)
            life.clock.sleep(SECOND)
    raise AssertionError("it comes to no end")


def decisions_of(body: Callable[[Life, TaskContext], Any]) -> int:
    life = Life(Faulty())
    assert live(life, body).state == LIVES[body]
    return life.faulty.count


@pytest.mark.parametrize("written", [False, True], ids=["away", "answer lost"])
@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("body", LIVES, ids=lambda body: body.__name__)
def test_a_moment_without_the_ledger_changes_no_end(
    body: Callable[[Life, TaskContext], Any], length: int, written: bool
) -> None:
    for first in range(decisions_of(body)):
        faulty = Faulty(range(first, first + length), written=written)
        life = Life(faulty)

        closing = live(life, body)

        faulty.armed = False
        lost = set(faulty.names[first : first + length])
        at = f"{faulty.names[first]} number {first}"
        assert closing.state == LIVES[body], at
        rows = life.rows()
        assert [row.version for row in rows] == list(range(1, len(rows) + 1)), at
        told = rows[-1].to_state == closing.state
        # How a step failed only tells; the next process, or the reconciler, finds that nothing more came.
        assert told or (body in (fails, skips_while_it_pauses) and "advance" in lost), at
        # A process may be lost, but the step has not failed more often than by itself.
        assert life.task().failures == (1 if body is fails and told else 0), at
        if not lost & CLOSED_LATER:
            assert CommandState.CLAIMED not in [command.state for command in life.commands()], at


def test_a_stop_that_cannot_be_told_is_met_and_told_in_order() -> None:
    faulty = Faulty()
    life = Life(faulty)

    def body(ctx: TaskContext) -> None:
        life.ask(Verb.STOP)
        # The first after the claim.
        faulty.lost = range(faulty.count + 1, faulty.count + 2)
        wait(life, ctx)

    assert live(life, lambda _, ctx: body(ctx)).state == "stopped"
    assert faulty.names.count("advance") == 2
    assert life.path() == ["queued", "starting", "running", "stopping", "stopped"]
    asked, confirmed = life.rows()[-2:]
    assert (asked.trigger, confirmed.trigger) == ("user:stop", "runtime:stop_confirmed")


def test_a_finished_step_whose_launch_was_told_without_an_answer_has_succeeded() -> None:
    life = Life(Faulty(range(1, 2), written=True))
    assert live(life, lambda _, ctx: "done").value == "done"
    assert life.faulty.names[1] == "advance"
    assert life.path() == ["queued", "starting", "running", "succeeded"]


def test_a_pause_waits_at_its_checkpoint_until_it_is_recorded() -> None:
    faulty = Faulty()
    life = Life(faulty)

    def body(ctx: TaskContext) -> None:
        ctx.checkpoint("half")
        life.ask(Verb.PAUSE)
        life.clock.sleep(SECOND)
        poll(ctx)
        faulty.lost = range(faulty.count, faulty.count + 40)
        ctx.checkpoint()

    with pytest.raises(Parked):
        life.live(body)
    assert life.path()[-2:] == ["pausing", "paused"]
    assert life.clock.now() - NOW > 10 * SECOND


def test_it_does_not_wait_for_ever() -> None:
    faulty = Faulty()
    life = Life(faulty)

    def body(ctx: TaskContext) -> None:
        ctx.checkpoint("half")
        life.ask(Verb.PAUSE)
        life.clock.sleep(SECOND)
        poll(ctx)
        faulty.lost = range(faulty.count, 10**6)
        ctx.checkpoint()

    with pytest.raises(LedgerUnavailable):
        life.live(body)
    assert life.clock.now() - NOW == 61 * SECOND
    # Whoever comes next keeps to the pause.
    faulty.lost = range(0)
    with pytest.raises(Parked):
        life.live(lambda ctx: pytest.fail("user code ran"))


def test_all_that_was_missed_is_counted_in_one_count() -> None:
    """Two counts would hide each other: the ledger keeps the larger one."""
    faulty = Faulty()
    life = Life(faulty)
    life.timeouts = Timeouts()

    def body(ctx: TaskContext) -> str:
        # A transition, and twice what says how far it is.
        faulty.lost = range(faulty.count, faulty.count + 2)
        ctx.progress(1, 5)
        life.clock.sleep(2 * SECOND)
        ctx.progress(2, 5)
        return "done"

    faulty.lost = range(1, 2)
    assert live(life, lambda _, ctx: body(ctx)).value == "done"
    (touch,) = life.ledger.list_touches(life.task().key.run)
    assert touch.persist_failures == 3
