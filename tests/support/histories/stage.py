"""Where a history is played: the stores, a clock, and who holds which task."""

from __future__ import annotations

import hashlib
import itertools
from datetime import datetime, timedelta, timezone

from hypothesis.stateful import RuleBasedStateMachine, multiple

from louver.ledger.names import RunKey, TaskKey
from louver.ledger.requests import RunStart
from louver.sessions import Change, Claim
from louver.states import Source, TaskState
from support.histories.values import EDGES, RUNS, TASKS
from support.side_by_side import Refused

__all__ = ["Stage", "place_of"]

_NUMBERS = itertools.count()


class Stage(RuleBasedStateMachine):
    """
    One history at play, in a Dag of its own.

    :param stores: the stores side by side; many histories share them.
    """

    def __init__(self, stores):
        super().__init__()
        self.stores = stores
        self.dag = f"model-{next(_NUMBERS)}"
        self.now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
        self.pace = 1.0
        self.markers = dict.fromkeys(RUNS, 0)
        self.tries = dict.fromkeys(TASKS, (0, 3))
        self.holders = {}
        self.newest = {}
        self.seen = []
        self.failed = False

    def ask(self, operation, *args, **kwargs):
        """What all stores answer, see :class:`SideBySide`."""
        try:
            return self.stores.ask(operation, *args, **kwargs)
        except BaseException:
            self.failed = True
            raise

    @staticmethod
    def kept(answer):
        """For a bundle: what the stores answered, unless they refused or had nothing."""
        return multiple() if answer is None or isinstance(answer, Refused) else answer

    # Time

    def tick(self):
        """Let time pass, and say what time it is."""
        self.now += timedelta(seconds=self.pace)
        return self.now

    def after(self, seconds):
        """The time so much later."""
        return self.now + timedelta(seconds=seconds)

    # Names

    def run(self, run_id):
        """Name a run."""
        return RunKey(self.dag, run_id)

    def key(self, place):
        """Name a task."""
        return TaskKey(self.dag, *place)

    # Who holds what

    def known(self, key):
        """The task's record, as the model has it."""
        return self.stores.model.get_task(key)

    def open(self, place, *, steps=1, more_tries=0, nonce=None):
        """The token of a process that opens the task; None where it was refused."""
        try_number, max_tries = self.tries[place]
        claim = Claim(
            try_number=max(1, try_number + steps),
            max_tries=max_tries + more_tries,
            process=f"host:{try_number + steps}",
            source=Source.WORKER,
            nonce=nonce,
        )
        opened = self.ask("open_task", self.key(place), claim, now=self.tick())
        if isinstance(opened, Refused):
            return None
        token = opened.token
        self.tries[place] = (claim.try_number, claim.max_tries)
        self.holders[token.key, token.session] = self.newest[token.key] = token
        return token

    def held(self, place):
        """The token of a process that holds the task and runs; None where it cannot be had."""
        key = self.key(place)
        record = self.known(key)
        token = self.newest.get(key)
        if token is not None and record is not None and record.state is TaskState.RUNNING:
            return token
        over = record is not None and record.state.terminal
        token = self.open(place, more_tries=1 if over else 0)
        if token is not None:
            self.ask(
                "advance", token, Change(to=TaskState.RUNNING, trigger="executor:launched"), now=self.now
            )
        return token

    def speaker(self, token, who):
        """
        The process that is about to do something to a task.

        :param token: of some process that held the task once; the task itself is what counts.
        :param who: ``holder``: who holds it now and runs. ``overtaken``: the same, but another process has
            opened the task since. ``deleted``: the same, but the run was made again since. ``stale``: who
            holds this very token, whatever became of it.
        """
        if who == "stale":
            return token
        return self._outrun(self.held(place_of(token)) or token, who)

    def owner(self, token, record, who):
        """The process that the record is of, outrun as :meth:`speaker` says; the token, where stale."""
        if who == "stale":
            return token
        return self._outrun(self.holders.get((record.task, record.session), token), who)

    def _outrun(self, token, who):
        if who == "overtaken":
            self.open(place_of(token))
        elif who == "deleted":
            self.make_again(token.key.run_id)
        return token

    def start(self, run_id, definition, *, marked=True):
        """What the run begins with."""
        return RunStart(
            key=self.run(run_id),
            definition_name=self.dag,
            definition_version=str(definition),
            definition_fingerprint=hashlib.sha256(f"{self.dag} {definition}".encode()).hexdigest(),
            definition={"name": self.dag, "number": definition},
            marker=f"marker-{self.markers[run_id]}" if marked else None,
            requester="ann",
        )

    def make_again(self, run_id, definition=1):
        """Delete the run, as far as the ledger is told, and make it again."""
        self.markers[run_id] += 1
        return self.ask("open_run", self.start(run_id, definition), now=self.tick())

    def legal(self, token, picks):
        """Changes that the table allows one after the other, from where the task is now."""
        record = self.known(token.key)
        state = record.state if record is not None else TaskState.PENDING
        changes = []
        for pick in picks:
            ways = [(to, trigger) for origin, to, trigger in EDGES if origin is state]
            state, trigger = ways[pick % len(ways)]
            changes.append(Change(to=state, trigger=trigger))
        return changes


def place_of(token):
    """Which task the token is of."""
    return token.key.run_id, token.key.task_id, token.key.map_index
