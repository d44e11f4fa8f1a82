"""Commands, signs of life, leases."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from louver.ledger.names import Verb
from louver.ledger.requests import CommandRequest, Progress
from louver.retry_budgets import Rate, RetryBudget, WhenEmpty
from louver.semaphores import PermitTerms, ResourceLimit
from louver.states import Source, TaskState
from support.histories.stage import Stage, place_of
from support.histories.values import (
    COMMANDS,
    OWNERS,
    PICKS,
    PLACES,
    REASONS,
    SECONDS,
    TOKENS,
    WHO,
    mostly,
)
from support.side_by_side import Refused

__all__ = ["Control"]

_NUMBERS = st.integers(0, 39)
_RATES = mostly(Rate(count=2, unit="min"), Rate(count=3, unit="s"), Rate(count=1, unit="h"))
_WHEN_EMPTY = st.sampled_from(list(WhenEmpty))
_VERBS = st.sampled_from(list(Verb))
_ENDS = st.sampled_from(["complete_command", "refuse_command", "release_command"])
_LIMITS = mostly(1, 2, 0, None)
_NEEDS = st.dictionaries(st.sampled_from("xyz"), st.integers(1, 2), min_size=1)
_TERMS = PermitTerms(lease=timedelta(seconds=20), grant_ttl=timedelta(seconds=10))
_PROGRESS = mostly(None, Progress(done=2.5, total=10.0, unit="pages"), Progress(done=3.0))


class Control(Stage):
    """Rules about what people and processes ask of each other."""

    def send(self, number, place, verb, reason=None):
        """The command as it stands; None where it was refused."""
        request = CommandRequest(
            command_id=f"{self.dag}-{number}",
            task=self.key(place),
            verb=verb,
            actor="ann",
            reason=reason,
            source=Source.CLI,
        )
        sent = self.ask("send_command", request, now=self.tick())
        return None if isinstance(sent, Refused) else sent

    def claim(self, token, limit, seconds):
        """The commands that were taken up."""
        now = self.tick()
        claimed = self.ask("claim_commands", token, limit=limit, lease_until=self.after(seconds), now=now)
        return () if isinstance(claimed, Refused) else claimed

    def end_it(self, command, how):
        """The command afterwards; None where nothing came of it."""
        given = {} if how == "release_command" else {"outcome": "done"}
        return self.ask(how, command, now=self.tick(), **given)

    @rule(target=COMMANDS, command=COMMANDS, how=_ENDS)
    def end_command(self, command, how):
        return self.kept(self.end_it(command, how))

    @rule(
        target=COMMANDS,
        place=PLACES,
        token=TOKENS,
        who=WHO,
        sent=st.lists(st.tuples(_NUMBERS, _VERBS, REASONS), min_size=1, max_size=4),
        limit=mostly(100, 1),
        seconds=SECONDS,
        how=_ENDS | st.none(),
        again=st.sampled_from([None, "same", "next"]),
    )
    def command(self, place, token, who, sent, limit, seconds, how, again):
        """Send some, let a process take up what is meant for it, perhaps once more, and end one of them."""
        places = (place, place_of(self.speaker(token, "holder")))
        shown = [self.send(number, places[number % 4 > 0], verb, reason) for number, verb, reason in sent]
        claimer = self.speaker(token, who)
        claimed = self.claim(claimer, limit, seconds)
        if again is not None:
            claimer = (again == "next" and self.open(place_of(token))) or claimer
            claimed += self.claim(claimer, limit, seconds)
        ended = self.end_it(claimed[0], how) if claimed and how is not None else None
        return multiple(*(command for command in (*shown, *claimed, ended) if command is not None))

    @rule(token=TOKENS, command=COMMANDS, who=WHO, picks=st.lists(PICKS, max_size=2))
    def obey(self, token, command, who, picks):
        token = self.owner(token, command, who)
        changes = self.legal(token, picks)
        nonce = "nonce-0" if changes and changes[-1].to is TaskState.PAUSED else None
        self.ask("obey", token, command, *changes, outcome="obeyed", nonce=nonce, now=self.tick())

    @rule(
        token=TOKENS,
        who=WHO,
        progress=_PROGRESS,
        failures=mostly(0, 2, 1),
        name=mostly("one", "two"),
        owner=OWNERS,
        seconds=SECONDS,
        gives=mostly(False, True),
    )
    def live(self, token, who, progress, failures, name, owner, seconds, gives):
        """Give a sign of life, and take or renew a lease."""
        token = self.speaker(token, who)
        self.ask("touch", token, progress=progress, persist_failures=failures, now=self.tick())
        name = f"{self.dag}-{name}"
        self.ask("take_lease", name, owner, lease_until=self.after(seconds), now=self.tick())
        if gives:
            self.ask("give_lease", name, owner, now=self.tick())
        self.ask("get_lease", name)

    @rule(
        token=TOKENS,
        who=WHO,
        names=st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
        rate=_RATES,
        when_empty=_WHEN_EMPTY,
        longest=SECONDS,
    )
    def draw_retry(self, token, who, names, rate, when_empty, longest):
        """Take retries from budgets that all histories of this Dag share, some under another rate."""
        budgets = [
            RetryBudget(resource=f"{self.dag}-{name}", rate=rate, when_empty=when_empty) for name in names
        ]
        token = self.speaker(token, who)
        self.ask("draw_retry", token, budgets, longest_wait=timedelta(seconds=longest), now=self.tick())
        self.ask("list_retry_budgets")

    @rule(
        token=TOKENS,
        who=WHO,
        needs=_NEEDS,
        limit=_LIMITS,
        rate=mostly(None, *(Rate(count=2, unit=unit) for unit in ("s", "min"))),
        priority=mostly(1, 5),
        then=mostly(None, "renew", "release", "set", "unset"),
        session=mostly(0, -1),
    )
    def permit(self, token, who, needs, limit, rate, priority, then, session):
        """Take a permit of what all histories of this Dag share, and do something with it."""
        token = self.speaker(token, who)
        limits = {
            self.shared(name): ResourceLimit(resource=self.shared(name), limit=limit, rate=rate)
            for name in needs
            if limit is not None or rate is not None
        }
        needs = {self.shared(name): units for name, units in needs.items()}
        now = self.tick()
        self.ask("take_permit", token, needs, limits=limits, priority=priority, terms=_TERMS, now=now)
        if then == "renew":
            self.ask("renew_permit", token, terms=_TERMS, now=self.tick())
        elif then == "release":
            self.ask(
                "release_permit", token.key, session=token.session + session, terms=_TERMS, now=self.tick()
            )
        elif then == "set":
            some = ResourceLimit(resource=self.shared("x"), limit=limit, rate=rate)
            self.ask("set_resource", some, by="ann", terms=_TERMS, now=self.tick())
        elif then == "unset":
            self.ask("unset_resource", self.shared("x"), limits=limits, terms=_TERMS, now=self.tick())
        self.ask("list_permit_watches", [token.key])
        self.ask("list_resources")

    @rule(seconds=SECONDS)
    def settle_permits(self, seconds):
        """Let time do its part."""
        self.ask("plan_permits", now=self.after(seconds))
        self.ask("settle_permits", limits={}, terms=_TERMS, now=self.tick())
        self.ask("list_permits")

    def shared(self, name):
        """A resource of this Dag's histories."""
        return f"{self.dag}-{name}"
