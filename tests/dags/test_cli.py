"""The ``airflow louver`` commands for people, through Airflow's own parser, over real tables and a ledger."""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.models.log import Log
from airflow.utils.session import create_session
from sqlalchemy import select
from support.airflow_rows import AirflowRows
from support.pasts import FATES, History, definition

from louver.clock import SystemClock
from louver.ledger.contract import Ledger
from louver.ledger.names import EffectState, RunKey, Verb
from louver.ledger.requests import Progress
from louver.sessions import Change
from louver.states import RunState, TaskState
from louver.testing.scene import FAILED
from louver_provider.cli import status_command
from louver_provider.dag_builder import build_dag

ODD = "run-[red]:tada:~+2026-01-01T00:00:00+00:00"
"""Every kind of character that a run id may have, and some that only other names may."""


@pytest.fixture(scope="module", autouse=True)
def tables() -> AirflowRows:
    return AirflowRows()


Louver = Callable[..., tuple[int, str, str]]


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command below the parser, by its words."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                below = list(subcommands(child))
                yield from [((name, *words), found) for words, found in below] or [((name,), child)]


def test_every_command_has_a_help_that_is_worth_reading(parser: argparse.ArgumentParser) -> None:
    found = {words[1:]: child for words, child in subcommands(parser) if words[0] == "louver"}

    assert {("pause",), ("effects", "renew"), ("compensations", "resolve"), ("status",)} <= set(found)
    for words, child in found.items():
        text = child.format_help()
        assert len((child.description or "").split()) > 8, words
        assert "Exit codes" in (child.epilog or ""), words
        assert "%" not in re.sub(r"\d+%", "", text), words
        for action in child._actions:
            assert action.help, (words, action.dest)


@pytest.mark.parametrize(
    "words",
    [("pause", "r"), ("resume", "r"), ("stop", "r"), ("effects", "renew", "k"), ("dead", "retry", "r")],
)
def test_who_gives_a_reason_is_told_where_it_is_kept(parser: Any, words: tuple[str, ...]) -> None:
    *command, _ = words
    child = dict(subcommands(parser))[("louver", *command)]
    (reason,) = [action for action in child._actions if "--reason" in action.option_strings]
    assert "Airflow keeps the whole command line" in " ".join(str(reason.help).split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("pause",),
        ("pause", "r", "--map-index", "0"),
        ("pause", "r", "t", "--map-index", "x"),
        ("pause", "r", "--timeout", "-1"),
        ("stop", "r", "--timeout", "soon"),
        ("ps", "--state", "bogus"),
        ("effects", "list", "--state", "committed,bogus"),
        ("effects", "renew", "k"),
        ("compensations", "resolve", "k"),
        ("compensations", "resolve", "k", "--note", " "),
        ("compensations", "resolve", "k", "--note", "x", "--as", "gone"),
    ],
)
def test_bad_usage_is_exit_2_and_no_traceback(louver: Louver, ledger: Ledger, arguments: Any) -> None:
    code, out, err = louver(*arguments)
    assert (code, "Traceback" in out + err) == (2, False)
    assert err


@pytest.mark.parametrize(
    "arguments",
    [
        ("pause", "none"),
        ("status", "none"),
        ("approvals", "none"),
        ("effects", "list", "none"),
        ("effects", "renew", "none", "--reason", "x"),
        ("compensations", "retry", "none"),
        ("compensations", "resolve", "none#1", "--note", "x"),
    ],
)
def test_what_is_not_there_is_exit_1_and_one_line(louver: Louver, ledger: Ledger, arguments: Any) -> None:
    code, out, err = louver(*arguments)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "none" in err


class Busy(History):
    """A run with everything that the lists show."""

    def busy(self) -> Busy:
        self.succeed("look", 1)
        token = self.launch("act")
        self.ledger.touch(token, now=SystemClock().now())
        self.ledger.touch(token, progress=Progress(done=40, total=100, unit="rows"), now=SystemClock().now())
        self.committed(token, "pay[1]")
        self.lost(token, "ship#7")
        self.send(1, Verb.PAUSE)
        self.ask(self.launch("approve"))
        return self


def test_ps_shows_live_tasks_of_all_runs(ledger: Ledger, rows_of: Any) -> None:
    busy = Busy(ledger, run_id=ODD).busy()
    over = History(ledger).compensated()

    live = {(row["run_id"], row["step"]): row for row in rows_of("ps")}

    assert set(live) == {(ODD, "act"), (ODD, "approve")}
    act = live[ODD, "act"]
    assert (act["state"], act["progress"], act["commands"]) == ("running", "40/100 rows", ["pause"])
    assert act["heartbeat"].endswith("s")
    assert live[ODD, "approve"]["waits_for"] == "approval"
    assert {row["run_id"] for row in rows_of("ps", "--dag-id", over.run.dag_id)} == set()
    everything = rows_of("ps", "--all")
    assert {(row["run_id"], row["step"]) for row in everything} > set(live)
    assert {row["state"] for row in rows_of("ps", "--state", "succeeded,failed")} == {"succeeded", "failed"}
    assert [row["step"] for row in rows_of("ps", "--state", "paused", "--dag-id", busy.run.dag_id)] == [
        "approve"
    ]


def test_ps_by_tag_means_dags_that_have_all_of_them(
    ledger: Ledger, tables: AirflowRows, rows_of: Any
) -> None:
    for tags in (["eft", "nightly"], ["eft"], []):
        busy = Busy(ledger).busy()
        graph = definition(name=busy.run.dag_id)
        tables.deploy(build_dag(graph, tasks={"story:look": work, "story:act": work}, tags=tags))

    def dags(*arguments: str) -> int:
        return len({row["dag_id"] for row in rows_of("ps", *arguments)})

    assert (dags(), dags("--tag", "eft"), dags("--tag", "eft", "--tag", "nightly")) == (3, 2, 1)
    assert dags("--tag", "weekly") == 0


def test_a_step_that_was_asked_something_before_it_began_is_in_the_list(ledger: Ledger, rows_of: Any) -> None:
    history = History(ledger)
    history.begin()
    history.send(1, Verb.PAUSE, task=history.key("look"))

    (row,) = rows_of("ps")

    assert (row["step"], row["state"], row["commands"], row["since"]) == ("look", "pending", ["pause"], None)


def test_approvals_are_those_that_wait_for_somebody(ledger: Ledger, rows_of: Any) -> None:
    busy = Busy(ledger).busy()
    decided = Busy(ledger)
    decided.succeed("look", 1)
    decided.approved()

    (row,) = rows_of("approvals")

    assert (row["of"], row["decision"], row["allowed"]) == ("act", "pending", ["ann", "bob"])
    assert row["expires"] > busy.now.isoformat()[:19]
    assert {row["decision"] for row in rows_of("approvals", "--all")} == {"pending", "approved"}
    other = ("approvals", decided.run.run_id, "--dag-id", decided.run.dag_id)
    assert rows_of(*other) == []
    assert [row["decided_by"] for row in rows_of(*other, "--all")] == ["bob"]


def test_a_request_that_somebody_changed_hides_no_other(
    ledger: Ledger, louver: Louver, tmp_path: Path
) -> None:
    forged, honest = Busy(ledger), Busy(ledger)
    for history in (forged, honest):
        history.succeed("look", 1)
        history.approved()
    with closing(sqlite3.connect(tmp_path / "louver.db")) as database, database:
        changed = database.execute(
            "UPDATE louver_approval SET decided_by = 'eve' WHERE dag_id = ?", [forged.run.dag_id]
        )
        assert changed.rowcount == 1

    code, out, err = louver("approvals", "--all", "--output", "json")

    assert [row["dag_id"] for row in json.loads(out)] == [honest.run.dag_id]
    assert code == 1
    assert f"{forged.run.dag_id}/{forged.run.run_id}" in err
    assert "does not match its signature" in err
    assert "airflow louver verify" in err


def test_effects_are_found_by_run_state_and_key(ledger: Ledger, rows_of: Any) -> None:
    busy = Busy(ledger, run_id=ODD).busy()

    assert [row["effect"] for row in rows_of("effects", "list")] == ["pay[1]#1", "ship#7#1"]
    assert [row["effect"] for row in rows_of("effects", "list", "--state", "unknown")] == ["ship#7#1"]
    for key in ("ship#7", "ship#7#1"):
        assert [row["state"] for row in rows_of("effects", "list", "--key", key)] == ["unknown"]
        assert [row["run_id"] for row in rows_of("effects", "list", ODD, "--key", key)] == [ODD]
    assert rows_of("effects", "list", "--dag-id", "none") == []
    assert busy.definition.fingerprint not in str(rows_of("effects", "list"))


def test_every_format_tells_the_same_whatever_the_names_are(ledger: Ledger, louver: Louver) -> None:
    Busy(ledger, run_id=ODD).busy()

    told = {name: louver("effects", "list", "--output", name) for name in ("json", "yaml", "table", "plain")}

    assert {(code, err) for code, _, err in told.values()} == {(0, "")}
    rows = json.loads(told["json"][1])
    assert rows == yaml.safe_load(told["yaml"][1])
    assert [(row["run_id"], row["effect"]) for row in rows] == [(ODD, "pay[1]#1"), (ODD, "ship#7#1")]
    for shown in ("pay[1]#1", "ship#7#1", ODD):
        assert shown in told["plain"][1]
    # A table breaks what has no room; it makes nothing of what stands there.
    assert "[red]:tada:" in told["table"][1]
    assert "None" not in told["table"][1]


def test_stats_count_by_state(ledger: Ledger, rows_of: Any) -> None:
    busy = Busy(ledger).busy()
    token = busy.launch("look", try_number=2, max_tries=9)
    ledger.touch(token, persist_failures=3, now=busy.tick())

    counted = {(row["what"], row["state"]): int(row["count"]) for row in rows_of("stats")}

    assert counted["runs", "running"] == 1
    assert counted["effects", "unknown"] == 1
    assert counted["approvals", "pending"] == 1
    assert counted["commands", "pending"] == 1
    assert counted["observations", "persist_failures"] == 3


# A person's word


def waiting(ledger: Ledger) -> History:
    return History(ledger).given_up()


def test_what_waits_for_a_person_is_listed_and_settled(ledger: Ledger, rows_of: Any, louver: Louver) -> None:
    story = waiting(ledger)
    (row,) = rows_of("compensations", "list")
    assert (row["effect"], row["state"], row["run_id"]) == ("pay#1", "undo_failed", story.run.run_id)

    (settled,) = rows_of("compensations", "resolve", "pay#1", "--note", "gave it back at the desk")

    assert (settled["state"], settled["run_state"]) == ("undone", "failed_compensated")
    assert rows_of("compensations", "list") == []
    (said,) = [row for row in ledger.list_transitions(story.run) if row.trigger == "user:settled"]
    assert said.reason == "effect pay#1 is undone: gave it back at the desk"
    assert said.actor
    run = ledger.get_run(story.run)
    assert run is not None
    assert run.state is RunState.FAILED_COMPENSATED
    assert ledger.verify_run(story.run).findings == ()
    assert louver("compensations", "resolve", "pay#1", "--note", "again")[0] == 1


def test_what_stands_is_not_undone_any_more(ledger: Ledger, rows_of: Any) -> None:
    story = waiting(ledger)

    (settled,) = rows_of("compensations", "resolve", "pay", "--note", "they may keep it", "--as", "stands")

    assert (settled["state"], settled["run_state"]) == ("committed", "failed")
    assert rows_of("compensations", "list") == []
    assert ledger.verify_run(story.run).findings == ()


def test_a_key_in_several_scopes_has_to_be_told_apart(ledger: Ledger, louver: Louver) -> None:
    first, second = waiting(ledger), waiting(ledger)

    code, _, err = louver("compensations", "resolve", "pay", "--note", "x")
    assert (code, f"dag:{first.run.dag_id}" in err, "--scope" in err) == (2, True, True)
    scope = f"dag:{second.run.dag_id}"
    assert louver("compensations", "resolve", "pay", "--note", "x", "--scope", scope)[0] == 0
    assert [effect.dag_id for effect in ledger.find_effects(states=[EffectState.UNDO_FAILED])] == [
        first.run.dag_id
    ]


def test_a_used_key_is_renewed_with_a_reason(ledger: Ledger, rows_of: Any, louver: Louver) -> None:
    story = Busy(ledger).busy()

    (row,) = rows_of("effects", "renew", "pay[1]", "--reason", "the customer asked twice")

    assert (row["effect"], row["state"]) == ("pay[1]#2", "failed")
    assert [row.trigger for row in story.told("act", chain="side")] == ["user:renewed"]
    for key, why in (("pay[1]", "may be begun again"), ("ship#7", "first settle it")):
        code, _, err = louver("effects", "renew", key, "--reason", "x")
        assert (code, why in err) == (1, True)


# Compensation by Airflow


CLOSED = definition(name="closed")


def work(seen: object = None) -> None:
    """What a step does."""


class Closed(History):
    """A run of which Airflow has the closing tasks, too."""

    def __init__(self, ledger: Ledger, tables: AirflowRows) -> None:
        super().__init__(ledger)
        self.definition = CLOSED
        self.run = RunKey(CLOSED.name, f"closed-{self.id}")
        self.tables = tables
        tables.deploy(build_dag(CLOSED, tasks={"story:look": work, "story:act": work}))
        tables.run(self.run)

    def ended_in_airflow(self) -> None:
        for name in ("look", "act", "compensate", "outcome"):
            self.tables.show(self.key(name), "failed", try_number=1)
        self.tables.show_run(self.run, "failed")


def test_retrying_has_airflow_run_the_closing_tasks_again(
    ledger: Ledger, tables: AirflowRows, rows_of: Any, louver: Louver
) -> None:
    story = Closed(ledger, tables)
    story.given_up()
    story.ended_in_airflow()

    rows = rows_of("compensations", "retry", story.run.run_id, "--reason", "the bank is back")

    assert [(row["task_id"], row["became"]) for row in rows] == [
        ("compensate", "cleared"),
        ("outcome", "cleared"),
    ]
    states = tables.states(story.run)
    assert states == {"look": "failed", "act": "failed", "compensate": None, "outcome": None}
    assert tables.runs(CLOSED.name)[-1].state == "queued"
    (effect,) = [effect for effect in ledger.list_effects(story.run) if effect.key == "pay"]
    assert effect.state is EffectState.COMMITTED
    (said,) = story.told("act", chain="side")
    assert (said.trigger, said.reason) == (
        "user:retried",
        "effect pay#1 is to be undone again: the bank is back",
    )
    code, _, err = louver("compensations", "retry", story.run.run_id)
    assert (code, "is being undone" in err) == (1, True)


@pytest.mark.parametrize("fate", ["given_up", "compensated", "unfinished"])
def test_what_cannot_be_retried_says_why_and_leaves_everything_as_it_is(
    ledger: Ledger, louver: Louver, fate: str
) -> None:
    story = FATES[fate](History(ledger))
    before = ledger.list_effects(story.run)

    code, out, err = louver("compensations", "retry", story.run.run_id, "--dag-id", story.run.dag_id)

    why = {
        "given_up": "Airflow has no closing tasks",
        "compensated": "nothing left to undo",
        "unfinished": "has not come to its compensation yet",
    }
    assert (code, out, why[fate] in err) == (1, "", True)
    assert ledger.list_effects(story.run) == before


# Status


def test_status_tells_whose_pause_it_is(ledger: Ledger, tables: AirflowRows, louver: Louver) -> None:
    story = Closed(ledger, tables)
    token = story.launch("look")
    pausing = Change(to=TaskState.PAUSING, trigger="user:pause")
    paused = Change(to=TaskState.PAUSED, trigger="runtime:pause_reached")
    claimed = story.commanded(token, verb=Verb.PAUSE)
    ledger.obey(token, claimed, pausing, paused, outcome="paused", nonce="pause-1", now=story.tick())
    story.send(2, Verb.RESUME, task=token.key)
    tables.pause(CLOSED.name)

    code, out, _ = louver("status", story.run.run_id, "--output", "json")
    table = louver("status", story.run.run_id)[1]

    (shown,) = json.loads(out)
    assert (code, shown["state"], shown["dag_paused_in_airflow"]) == (0, "paused", True)
    (pause,) = shown["pauses"]
    assert (pause["step"], pause["paused_by"], pause["reason"]) == ("look", "ann", "not now")
    assert pause["slot"] == "given back"
    assert [(command["command"], command["asked_by"]) for command in shown["commands"]] == [("resume", "ann")]
    assert "airflow dags unpause closed" in table


def test_status_watches_until_the_run_is_over(
    ledger: Ledger, louver: Louver, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = History(ledger)
    story.succeed("look", 1)
    looks: list[None] = []

    class Clock(SystemClock):
        def sleep(self, duration: timedelta) -> None:
            looks.append(None)
            if len(looks) == 2:
                story.ledger.advance(story.launch("act"), FAILED, now=story.tick())

    monkeypatch.setattr(status_command, "SystemClock", Clock)

    code, out, _ = louver("status", story.run.run_id, "--watch", "--output", "json")

    # Shown when it has changed, and not whenever it was looked at.
    assert [json.loads(line)[0]["state"] for line in out.splitlines()] == ["running", "failed"]
    assert (code, len(looks)) == (3, 2)


def test_who_watches_may_leave(ledger: Ledger, louver: Louver, monkeypatch: pytest.MonkeyPatch) -> None:
    story = History(ledger)
    story.succeed("look", 1)

    class Clock(SystemClock):
        def sleep(self, duration: timedelta) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(status_command, "SystemClock", Clock)

    code, out, err = louver("status", story.run.run_id, "--watch")

    assert (code, err.strip()) == (0, "")
    assert "running" in out


def test_control_commands_print_a_row_for_each_task(ledger: Ledger, louver: Louver) -> None:
    story = History(ledger, run_id=ODD)
    story.begin()

    code, out, _ = louver("pause", ODD, "--reason", "month [end]", "--output", "json")
    assert code == 0
    assert [(row["step"], row["became"]) for row in json.loads(out)] == [
        ("look", "recorded"),
        ("act", "recorded"),
    ]
    assert {command.reason for command in ledger.list_commands(story.run)} == {"month [end]"}
    assert louver("pause", ODD, "look")[0] == 1
    code, out, _ = louver("resume", ODD, "--output", "json")
    assert (code, {row["became"] for row in json.loads(out)}) == (0, {"taken_back"})
    assert louver("stop", ODD, "act")[0] == 0
    code, out, _ = louver("stop", ODD, "act", "--output", "json")
    (row,) = json.loads(out)
    assert (code, row["became"], row["state"]) == (1, "refused", "pending")
    assert "being stopped already" in row["detail"]
    with create_session(scoped=False) as session:
        assert session.scalars(select(Log.event).where(Log.event.like("cli%"))).first()
