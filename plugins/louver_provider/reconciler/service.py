"""
The reconciler as a service: round after round while it holds the lease, and waiting while somebody else does.

It ends on SIGTERM and on Ctrl-C, and never because of what it meets: a ledger or a database that cannot be
reached is said once, and asked again after a while.
"""

from __future__ import annotations

import logging
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain

from airflow.models.dagbag import DBDagBag
from sqlalchemy.exc import SQLAlchemyError

from louver.clock import Clock, SystemClock
from louver.errors import ConfigurationError, LouverError
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.records import LeaseRecord
from louver.liveness import LocalProcesses
from louver.reconcile import Patience
from louver_provider.hooks.ledger import get_ledger
from louver_provider.reconciler.carrying import Carrying, in_words, name_of
from louver_provider.reconciler.permits import PermitKeeper
from louver_provider.reconciler.pools import look_at_pools
from louver_provider.reconciler.rounds import Outcome, Round
from louver_provider.settings import Settings, load_settings

__all__ = ["LEASE", "Reconciler", "Service", "until_told"]

log = logging.getLogger(__name__)

LEASE = "reconciler"
"""Name of the lease in the ledger: who holds it reconciles."""

_LEASE_TIME = timedelta(seconds=30)
_LONGEST_WAIT = 60.0
_FORGET_EVERY = 100
_REMEMBERED = 10_000


class Reconciler:
    """
    Does rounds, in the name of one owner of the lease.

    :param ledger: where the truth is kept.
    :param settings: those in force.
    :param dry_run: only show what would be done; needs no lease.
    """

    def __init__(
        self, ledger: Ledger, settings: Settings, *, clock: Clock | None = None, dry_run: bool = False
    ) -> None:
        self._ledger = ledger
        self._clock = clock or SystemClock()
        processes = LocalProcesses()
        # Two of one process are two, too.
        self.owner = f"{processes.name()}/{secrets.token_hex(4)}"
        deployed = self._deployed = DBDagBag(load_op_links=False)
        self._rounds = 0
        self._said: dict[object, str] = {}
        self._permits = (
            None if dry_run else PermitKeeper(ledger, settings.permits, proves_dead=processes.proves_dead)
        )
        self._carry_out = (
            None
            if dry_run
            else Carrying(ledger=ledger, clock=self._clock, process=processes.name(), deployed=deployed)
        )
        self._round = Round(
            ledger=ledger,
            clock=self._clock,
            liveness=processes,
            patience=Patience.of(settings.control, resume_guard=settings.resume_guard),
            deployed=deployed,
            carry_out=self._carry_out,
            troubles=self._trouble,
        )

    def take(self) -> LeaseRecord | None:
        """Take or renew the lease; None while somebody else has it."""
        now = self._clock.now()
        return self._ledger.take_lease(LEASE, self.owner, lease_until=now + _LEASE_TIME, now=now)

    def give(self) -> None:
        """Give the lease back, so that who waits need not wait for its end."""
        self._ledger.give_lease(LEASE, self.owner, now=self._clock.now())

    def holder(self) -> LeaseRecord | None:
        """Who has it."""
        return self._ledger.get_lease(LEASE)

    def round(self, *, go_on: Callable[[], bool] = lambda: True) -> Iterator[Outcome]:
        """
        One round; what cannot be done is said once.

        :param go_on: asked between pages.
        """
        if self._rounds % _FORGET_EVERY == 0:
            # It keeps every Dag that was ever asked for.
            self._deployed.clear_cache()
        self._rounds += 1
        if self._permits is not None:
            self._permits.keep(now=self._clock.now())
        for outcome in chain(self._keep_pools(), self._round.run(go_on=go_on)):
            if outcome.why_not is not None:
                repair = outcome.repair
                self._say((name_of(repair), in_words(repair)), outcome.why_not, _in_vain(outcome))
            yield outcome

    def repair(self, run: RunKey) -> Iterator[Outcome]:
        """
        What a round would do about this run. It needs no lease: each repair is done under the condition that
        what was seen is still so, whoever else is at it.
        """
        yield from self._round.of_run(run)

    def _keep_pools(self) -> Iterator[Outcome]:
        """Make the pools again that tasks wait for; what a person has changed is told of, once."""
        try:
            seen = look_at_pools(now=self._clock.now())
        except ConfigurationError as error:
            self._say("pools", str(error), f"pools of buckets cannot be looked at: {error}")
            return
        for pool in seen.resized:
            slots = f"{pool.found} slots, where [louver] bucket_slots says {pool.slots}"
            self._say(
                pool.pool, slots, f"{pool.pool} has {slots}; it is left so until airflow louver buckets apply"
            )
        for repair in seen.missing:
            if self._carry_out is None:
                yield Outcome(repair=repair, done=None)
                continue
            why_not = self._carry_out(repair, None)
            yield Outcome(repair=repair, done=why_not is None, why_not=why_not)

    def _trouble(self, run: RunKey, why: str) -> None:
        self._say(run, why, f"run {run.run_id} of {run.dag_id} cannot be looked at: {why}")

    def _say(self, about: object, why: str, words: str) -> None:
        """Say it, unless that was the last thing said about the same."""
        if self._said.get(about) == why:
            return
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[about] = why
        log.warning("louver [reconcile.not_done] %s", words)


def _in_vain(outcome: Outcome) -> str:
    return f"{name_of(outcome.repair)} of {in_words(outcome.repair)}: {outcome.why_not}"


class Service:
    """
    Rounds until it is told to stop.

    :param wait: waits so many seconds; True where it is to stop.
    :param told: gets every outcome.
    """

    def __init__(
        self,
        *,
        wait: Callable[[float], bool],
        told: Callable[[Outcome], None] = lambda outcome: None,
        open_ledger: Callable[[], Ledger] = get_ledger,
    ) -> None:
        self._wait = wait
        self._told = told
        self._open_ledger = open_ledger
        self._reconciler: Reconciler | None = None
        self._rounds = 0
        self._trouble: str | None = None
        self._waits_for: str | None = None

    def run(self) -> None:
        """Until ``wait`` says so."""
        pause = 0.0
        failures = 0
        try:
            while not self._wait(pause):
                try:
                    settings = load_settings()
                    pause = settings.reconcile_interval.total_seconds()
                    self._once(settings)
                except Exception as error:
                    failures += 1
                    pause = min(max(pause, 1.0) * 2 ** min(failures, 6), _LONGEST_WAIT)
                    self._say_trouble(error)
                else:
                    if failures:
                        log.warning("louver [reconciler.back] it works again after %s failures", failures)
                    failures = 0
                    self._trouble = None
        finally:
            self._leave()

    def _once(self, settings: Settings) -> None:
        reconciler = self._reconciler
        if reconciler is None:
            reconciler = self._reconciler = Reconciler(self._open_ledger(), settings)
        if reconciler.take() is None:
            self._say_waiting(reconciler)
            self._rounds = 0
            return
        if self._waits_for is not None or self._rounds == 0:
            log.info("louver [reconciler.active] this process reconciles, as %s", reconciler.owner)
            self._waits_for = None
        self._rounds += 1
        stopping = False

        def go_on() -> bool:
            nonlocal stopping
            stopping = stopping or self._wait(0.0)
            return not stopping and reconciler.take() is not None

        for outcome in reconciler.round(go_on=go_on):
            self._told(outcome)

    def _say_waiting(self, reconciler: Reconciler) -> None:
        holder = reconciler.holder()
        owner = holder.owner if holder is not None else "nobody"
        if owner != self._waits_for:
            self._waits_for = owner
            log.info("louver [reconciler.waiting] another one reconciles: %s", owner)

    def _say_trouble(self, error: Exception) -> None:
        # A database's error may hold values of rows; its kind says enough.
        words = str(error) if isinstance(error, LouverError) else type(error).__name__
        if words != self._trouble:
            self._trouble = words
            expected = isinstance(error, LouverError | SQLAlchemyError)
            log.error(
                "louver [reconciler.trouble] no round could be done, trying again: %s",
                words,
                exc_info=None if expected else error,
            )

    def _leave(self) -> None:
        if self._reconciler is None:
            return
        try:
            self._reconciler.give()
        except LouverError:
            log.debug("louver: the lease ends by itself")


@contextmanager
def until_told(also: Callable[[], bool] = lambda: False) -> Iterator[Callable[[float], bool]]:
    """
    How to wait for SIGTERM or Ctrl-C, or for ``also`` to be true; that is looked at every second.
    """
    told = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }

    def wait(seconds: float) -> bool:
        while not told.is_set() and not also():
            if seconds <= 0:
                return False
            told.wait(min(seconds, 1.0))
            seconds -= 1.0
        return True

    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
