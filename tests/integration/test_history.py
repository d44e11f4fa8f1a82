"""
The audit trail of runs on a real Airflow that people do all sorts of things to, held against its tables.

What happens is drawn at random: ``LOUVER_SCENARIO_SEED`` draws the same again, though Airflow's own parts act
when they like. What stands in the tables at the end has to be told once, as it stands there; what people did,
as theirs; and nothing else.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from support.airflow_control import Control, controlled
from support.people import DAG, Act, People

pytestmark = pytest.mark.integration

SEED = int(os.environ.get("LOUVER_SCENARIO_SEED", "1"))
SECONDS = float(os.environ.get("LOUVER_SCENARIO_SECONDS", "35"))
SLACK = timedelta(seconds=10)
MOMENT = timedelta(milliseconds=2)
SKEW = timedelta(milliseconds=250)

STATES = frozenset(
    {
        *("running", "awaiting_input", "deferred", "up_for_retry", "restarting"),
        *("success", "failed", "skipped", "upstream_failed", "removed"),
    }
)
WAITING = ("scheduled", "queued")

CLEARING = ("user:cleared", "executor:restarting")
MEANT = {
    "mark": ("user:marked", "orchestrator:cascade", "user:cleared"),
    "mark run": ("user:marked", "orchestrator:cascade"),
    "clear": CLEARING,
    "delete": ("user:deleted",),
    "pause": ("user:pause", "runtime:pause_reached", "runtime:pause_rolled_back"),
    "resume": ("user:resume", "user:answered", "runtime:pause_rolled_back"),
    "stop": ("user:stop", "user:answered", "runtime:stop_confirmed"),
    "trigger": ("user:triggered",),
}
"""What each act may be told as."""

_TRIGGERS = ("user:triggered", "user:deleted")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Airflow's rows of a run."""

    log: list[sqlite3.Row]
    tries: list[sqlite3.Row]
    present: list[sqlite3.Row]

    @classmethod
    def read(cls, control: Control, run_id: str) -> Tables:
        with closing(sqlite3.connect(f"file:{control.home.airflow_db}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row

            def rows(table: str) -> list[sqlite3.Row]:
                query = f"SELECT * FROM {table} WHERE dag_id = ? AND run_id = ?"
                return connection.execute(query, [DAG, run_id]).fetchall()

            clears = "SELECT * FROM log WHERE dag_id = ? AND run_id IS NULL AND extra LIKE ?"
            loose = connection.execute(clears, [DAG, f"%{run_id}%"]).fetchall()
            present = rows("task_instance")
            return cls(
                log=[*rows("log"), *loose], tries=[*rows("task_instance_history"), *present], present=present
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What is told of a run, and what is wrong with it."""

    run_id: str
    rows: list[Row]
    stored: list[Row]
    tables: Tables
    acts: list[Act]

    def faults(self) -> Iterator[str]:
        """What is wrong, in words."""
        yield from self._hidden()
        yield from self._asked()
        yield from self._doubled()
        yield from self._invented()
        yield from self._misattributed()
        yield from self._disordered()

    def _hidden(self) -> Iterator[str]:
        """Whatever stands in the tables is told once."""
        told = Counter((row["step"], row["airflow"], row["airflow_at"]) for row in self.rows)
        wanted: set[tuple[str, tuple[str, ...], str]] = set()
        for entry in self.tables.log:
            if entry["try_number"] is not None and entry["task_id"] is not None:
                event = entry["event"]
                words = (event, "up_for_retry") if event == "failed" else (event,)
                if event != "louver_reconciler":
                    wanted.add((entry["task_id"], words, _at(entry["dttm"])))
            elif entry["event"] == "louver_answer":
                wanted.add((entry["task_id"], ("answered", "answer passed on"), _at(entry["dttm"])))
        for row in self.tables.tries:
            for word in WAITING:
                if row[f"{word}_dttm"] is not None:
                    wanted.add((row["task_id"], (word,), _at(row[f"{word}_dttm"])))
        for step, words, at in wanted:
            found = sum(told[step, word, at] for word in words)
            if found != 1:
                yield f"told {found} times: {step} {words[0]} at {at}"
        for row in self.tables.present:
            last = [told["airflow"] for told in self.rows if told["step"] == row["task_id"]]
            known = [word for word in last if word in STATES | {*WAITING}]
            if row["state"] is not None and known[-1:] != [row["state"]]:
                yield f"hidden: {row['task_id']} is {row['state']}, told last is {known[-1:]}"

    def _asked(self) -> Iterator[str]:
        """What somebody asked for is told with their name; a dry run leaves nothing."""
        for entry in self.tables.log:
            extra = json.loads(entry["extra"]) if (entry["extra"] or "").startswith("{") else {}
            if "method" not in extra:
                continue
            asked = datetime.fromisoformat(_at(entry["dttm"]))
            mine = [
                row
                for row in self.rows
                if entry["owner"] in (row["actor"], *(row["reason"] or "").split())
                and (entry["event"] in f"{row['reason']} {row['airflow']}" or row["trigger"] in _TRIGGERS)
                and timedelta(0) <= datetime.fromisoformat(row["at"]) - asked <= SLACK
            ]
            if extra.get("dry_run"):
                if any(_at(entry["dttm"]) in (row["airflow_at"], row["since"]) for row in self.rows):
                    yield f"a dry run is told: {dict(entry)}"
            elif not mine:
                yield f"not told: {entry['owner']} asked {entry['event']} at {asked} {entry['extra']}"

    def _doubled(self) -> Iterator[str]:
        """No event stands there twice; and each transition of the ledger is one row."""
        seen = Counter(
            (row["step"], row["map_index"], row["airflow"], row["airflow_at"])
            for row in self.rows
            if row["airflow_at"] is not None and row["airflow"] in STATES | {*WAITING, "cleared"}
        )
        yield from (f"told {count} times: {name}" for name, count in seen.items() if count > 1)
        names = ("step", "from", "to", "recorded_at", "generation", "recorded_by")
        recorded = Counter(tuple(row[name] for name in names) for row in self.rows if row["recorded_by"])
        if recorded != Counter(tuple(row[name] for name in names) for row in self.stored):
            yield "the ledger's transitions are not each one row"
        for act in self.acts:
            if act.verb != "clear":
                continue
            hit = Counter(
                row["step"]
                for row in self.rows
                if row["trigger"] in CLEARING
                and row["actor"] == act.actor
                and act.began - MOMENT <= datetime.fromisoformat(row["at"]) <= act.ended + MOMENT
            )
            yield from (f"told {count} times of {step}: {act}" for step, count in hit.items() if count > 1)

    def _invented(self) -> Iterator[str]:
        """No time is called exact that stands in no table; nobody clears but people; a gap says it is one."""
        times: dict[str, set[str]] = {}
        for entry in self.tables.log:
            times.setdefault(entry["task_id"] or "", set()).add(_at(entry["dttm"]))
        for row in self.tables.tries:
            known = times.setdefault(row["task_id"], set())
            columns = ("scheduled_dttm", "queued_dttm", "start_date", "end_date", "updated_at")
            known.update(_at(row[name]) for name in columns if row[name] is not None)
        for row in self.rows:
            exact = row["precision"] == "exact"
            if exact and row["step"] and row["airflow"] in STATES | {*WAITING}:
                if row["airflow_at"] not in times.get(row["step"], set()):
                    yield f"no such time in Airflow: {row}"
                if not row["recorded_by"] and row["at"] != row["airflow_at"]:
                    yield f"exact, but another time: {row}"
            if row["trigger"] in CLEARING and not self._is_somebodys(row):
                yield f"cleared by nobody: {row}"
            if row["precision"] == "unknown" and not row["reason"]:
                yield f"a gap without a word: {row}"

    def _is_somebodys(self, row: Row) -> bool:
        """
        Whether who cleared it is told, or why not.

        A process that had only just begun when it was cleared finds that out itself, after the row that
        tells of the clear. And where somebody marks a task in the very moment in which it is scheduled,
        Airflow may forget the mark and run it.
        """
        if row["actor"] is not None or "one of" in (row["reason"] or ""):
            return True
        at = datetime.fromisoformat(row["at"])
        lost = "user:marked" if row["reason"] is None else None
        return row["recorded_by"] == "worker" and any(
            other["step"] == row["step"]
            and (other["airflow"] == "cleared" or other["trigger"] == lost)
            and abs(at - datetime.fromisoformat(other["at"])) <= SLACK
            for other in self.rows
            if other is not row
        )

    def _misattributed(self) -> Iterator[str]:
        """Who is said to have done something did it then."""
        for row in self.rows:
            if row["actor"] is not None and not any(self._fits(row, act) for act in self.acts):
                yield f"nobody did that: {row}"

    def _fits(self, row: Row, act: Act) -> bool:
        asked = row["airflow_at"] if row["recorded_by"] is None else None
        at = datetime.fromisoformat(row["at"])
        since = datetime.fromisoformat(row["since"]) if row["since"] else at
        # A command is carried out by whoever runs the task next.
        late = SLACK if act.verb in ("mark", "mark run", "clear", "delete", "trigger") else timedelta(days=1)
        only_asked = asked is not None and row["to"] is None
        return (
            act.actor == row["actor"]
            and (row["trigger"] in MEANT.get(act.verb, ()) or (only_asked and row["trigger"] == "user:asked"))
            and act.began <= at
            and since <= act.ended + late
        )

    def _disordered(self) -> Iterator[str]:
        """Each step's rows are in order of time, and each start has what came before it, or a gap."""
        for step in {row["step"] for row in self.rows}:
            mine = [row for row in self.rows if row["step"] == step]
            exact = [datetime.fromisoformat(row["at"]) for row in mine if row["precision"] == "exact"]
            # Two processes' clocks may differ by so much; then the ledger's order stands.
            if any(later < earlier - SKEW for earlier, later in pairwise(exact)):
                yield f"out of order: {step} {list(map(str, exact))}"
            waited: set[str] = set()
            for row in mine if step else ():
                words = (row["airflow"] or "").split(", ")
                if "running" in words:
                    if not waited >= {*WAITING}:
                        yield f"neither scheduled nor a gap before {row}"
                    waited = set()
                waited.update(word for word in words if word in WAITING)


def _at(moment: str) -> str:
    """A time of SQLite's, as the command prints it."""
    at = datetime.fromisoformat(moment).replace(tzinfo=timezone.utc)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _short(row: Row) -> str:
    times = f"{row['since'] or ''} .. {row['at']} {row['precision']}"
    what = f"{row['step']} {row['from']} -> {row['to']} airflow={row['airflow']}@{row['airflow_at']}"
    return f"{times} {what} {row['trigger']} by {row['actor']} ({row['reason']}) {row['source']}"


@pytest.fixture(scope="module")
def control(airflow: Any) -> Iterator[Control]:
    with controlled(airflow) as found:
        yield found


def test_the_trail_tells_what_airflow_has_once_and_who_did_it(control: Control) -> None:
    people = People(control, random.Random(SEED))
    people.start(4)
    people.go_on(SECONDS)
    people.end()

    trails = [trail_of(people, run_id) for run_id in people.runs]
    faults = [f"{trail.run_id}: {fault}" for trail in trails for fault in trail.faults()]
    told = [line for trail in trails for line in ("", trail.run_id, *map(_short, trail.rows))]
    assert not faults, "\n".join([f"seed {SEED}", *map(str, people.acts), *told, "", *faults])
    for run_id in people.deleted:
        (trail,) = [trail for trail in trails if trail.run_id == run_id]
        assert [row["trigger"] for row in trail.rows].count("user:deleted") == 1


def trail_of(people: People, run_id: str) -> Trail:
    """What the command tells of the run, and what there is to hold against it."""
    wanted = ("history", run_id, "--dag-id", DAG)
    code, rows = people.control.louver(*wanted)
    assert code == 0, rows
    stored_code, stored = people.control.louver(*wanted, "--stored")
    return Trail(
        run_id=run_id,
        rows=rows,
        # Of a run that was over before any step of it began, nothing is stored.
        stored=stored if stored_code == 0 else [],
        tables=Tables.read(people.control, run_id),
        acts=[act for act in people.acts if act.run_id == run_id],
    )
