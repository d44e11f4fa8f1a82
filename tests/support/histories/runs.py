"""Runs that begin, are deleted and made again, and end; events; and all that can be seen at the end."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, multiple, rule

from louver.ledger.requests import RunFilter
from louver.states import RunState
from support.histories.stage import Stage
from support.histories.values import PICKS, REASONS, RUNS, TASKS, TOKENS, VALUES, mostly
from support.side_by_side import Refused

__all__ = ["Runs"]


class Runs(Stage):
    """Rules about runs."""

    @initialize(target=TOKENS, both=mostly(True, False), pace=mostly(1.0, 0.0, 40.0))
    def begin_all(self, both, pace):
        self.pace = pace
        for run_id in RUNS if both else RUNS[:1]:
            self.seen.append(self.ask("open_run", self.start(run_id, 1), now=self.tick()))
        return multiple(*(self.held(place) for place in TASKS[:2]))

    @rule(
        run_id=st.sampled_from(RUNS),
        marker=mostly("same", "none", "next"),
        definition=mostly(1, 2),
    )
    def open_run(self, run_id, marker, definition):
        if marker == "next":
            self.seen.append(self.make_again(run_id, definition))
        else:
            start = self.start(run_id, definition, marked=marker == "same")
            self.seen.append(self.ask("open_run", start, now=self.tick()))

    @rule(run_id=st.sampled_from(RUNS), state=st.sampled_from([None, *RunState]), reason=REASONS)
    def set_run_state(self, run_id, state, reason):
        run = self.stores.model.get_run(self.run(run_id))
        if state is None:
            self.ask("seal_run", self.run(run_id), now=self.tick())
        elif run is None or state.terminal or not run.state.terminal or self._goes_on(run_id):
            self.ask("set_run_state", self.run(run_id), state, reason=reason, now=self.tick())
        self.ask("get_seal", self.run(run_id))

    def _goes_on(self, run_id):
        """A run that is over lives again only by a task that does."""
        place = (run_id, "act", -1)
        before = self.known(self.key(place))
        self.open(place, more_tries=1)
        after = self.known(self.key(place))
        return after is not None and (before is None or after.version > before.version)

    @rule(
        run_id=mostly(None, *RUNS),
        states=st.sampled_from([(), (RunState.RUNNING,), (RunState.FAILED, RunState.STOPPED)]),
        since=mostly(None, 0.0, -5.0),
        until=mostly(None, 0.0, 5.0),
        after=st.none() | PICKS,
        limit=mostly(100, 1),
    )
    def list_runs(self, run_id, states, since, until, after, limit):
        wanted = RunFilter(
            dag_id=self.dag,
            run_id=run_id,
            states=states,
            since=None if since is None else self.after(since),
            until=None if until is None else self.after(until),
            after=None if after is None else self.seen[after % len(self.seen)],
            limit=limit,
        )
        self.seen += self.ask("list_runs", wanted)

    @rule(number=st.integers(0, 2), payload=mostly("a", "b"), value=VALUES, confirms=st.booleans())
    def accept_event(self, number, payload, value, confirms):
        accepted = self.ask(
            "accept_event",
            dag_id=self.dag,
            identity=str(number) * 64,
            payload_fingerprint=payload * 64,
            run_id=f"evt-{number}",
            event={"data": value},
            now=self.tick(),
        )
        if confirms and not isinstance(accepted, Refused):
            self.ask("confirm_event", accepted[1], now=self.tick())
        self.ask("load_event", self.dag, str(number) * 64)

    def teardown(self):
        """At the end of a history that went well: all that can be seen."""
        if self.failed:
            return
        for run_id in RUNS:
            self._look_at(self.run(run_id))
        self.ask("list_runs", RunFilter(dag_id=self.dag))
        self.ask("survey", [self.run(run_id) for run_id in RUNS])
        self.ask("find_effects", key=f"{self.dag}-pay")
        for place in TASKS:
            self.ask("get_task", self.key(place))
            self.ask("load_result", self.key(place))
        for name in ("one", "two"):
            self.ask("get_lease", f"{self.dag}-{name}")
        for token in self.newest.values():
            for name in ("state", "page"):
                self.ask("load_checkpoint", token, name, "default")

    def _look_at(self, run):
        for question in ("get_run", "get_seal", "list_tasks", "list_touches", "list_commands"):
            self.ask(question, run)
        self.ask("list_transitions", run)
        self.ask("list_transitions", run, task_id="look")
        self.ask("evidence", run, ("act", "look"))
        for effect in self.ask("list_effects", run):
            self.ask("load_effect", effect)
        for request in self.ask("list_approvals", run):
            self.ask("load_approval", request)
        # Nobody but the stores has touched the rows.
        found = self.ask("verify_run", run, limit=9).findings
        if found:
            raise AssertionError(f"a ledger that nobody touched: {'; '.join(map(str, found))}")
