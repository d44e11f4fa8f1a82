"""Processes that open tasks, move them on, and save what they have."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from louver.sessions import Change
from louver.states import Source, TaskState
from support.histories.stage import Stage
from support.histories.values import (
    CHANGES,
    COMPLETED,
    NAMES,
    PICKS,
    PLACES,
    REASONS,
    RESUMED,
    TOKENS,
    VALUES,
    WHO,
    mostly,
)

__all__ = ["Tasks"]

_MARKS = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.SKIPPED, TaskState.LOST)


class Tasks(Stage):
    """Rules about tasks."""

    @rule(
        target=TOKENS,
        place=PLACES,
        steps=mostly(1, 0, -1),
        more_tries=mostly(0, 1),
        nonce=mostly(None, "stored", "nonce-0"),
    )
    def open_task(self, place, steps, more_tries, nonce):
        record = self.known(self.key(place))
        if nonce == "stored":
            nonce = record.nonce if record is not None else None
        return self.kept(self.open(place, steps=steps, more_tries=more_tries, nonce=nonce))

    @rule(target=TOKENS, place=PLACES, resumes=mostly(False, True))
    def launch(self, place, resumes):
        """Bring it to running: afresh, or back from a park."""
        record = self.known(self.key(place))
        if not resumes:
            return self.kept(self.held(place))
        token = self.open(place, steps=0, nonce=record.nonce if record is not None else "nonce-0")
        if token is not None:
            self.ask("advance", token, RESUMED, now=self.tick())
        return self.kept(token)

    @rule(token=TOKENS, who=WHO, picks=st.lists(PICKS, max_size=2), anything=CHANGES | st.none())
    def advance(self, token, who, picks, anything):
        token = self.speaker(token, who)
        changes = self.legal(token, picks) + ([] if anything is None else [anything])
        self.ask("advance", token, *changes, now=self.tick())

    @rule(token=TOKENS, who=WHO, value=VALUES)
    def complete(self, token, who, value):
        self.ask("complete", self.speaker(token, who), COMPLETED, value, now=self.tick())

    @rule(
        place=PLACES,
        mark=st.sampled_from(_MARKS),
        reason=REASONS,
        behind=mostly(0, 1),
        tries=mostly(None, 2, 9),
    )
    def mark(self, place, mark, reason, behind, tries):
        record = self.known(self.key(place))
        session = (record.session if record is not None else 0) - behind
        change = Change(to=mark, trigger="user:marked", actor="ann", reason=reason)
        given = {"session": session, "source": Source.API, "max_tries": tries, "now": self.tick()}
        self.ask("mark", self.key(place), change, **given)

    @rule(token=TOKENS, who=WHO, name=NAMES, value=VALUES)
    def save_checkpoint(self, token, who, name, value):
        token = self.speaker(token, who)
        self.ask("save_checkpoint", token, name, value, now=self.tick())
        self.ask("load_checkpoint", token, name, "default")
