"""``airflow louver verify``, ``gc`` and ``clean``, through Airflow's own parser, over a real ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.airflow_rows import AirflowRows
from support.pasts import FATES, History, definition
from support.tampering import Tables

from louver.artifacts import Artifacts
from louver.clock import SystemClock
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.timestamps import format_utc
from louver_provider.settings import load_settings

Louver = Callable[..., tuple[int, str, str]]

NOW = "2026-06-01T00:00:00Z"


@pytest.fixture(scope="module", autouse=True)
def airflow_tables() -> AirflowRows:
    """Airflow writes each command into a table of its own."""
    return AirflowRows()


def lived(ledger: Ledger, *fates: str) -> list[RunKey]:
    return [FATES[fate](History(ledger)).run for fate in fates]


def document(louver: Louver, *arguments: str, code: int = 0) -> dict[str, Any]:
    found, out, err = louver(*arguments, "--output", "json")
    assert (found, bool(err)) == (code, code != 0), (out, err)
    assert "Traceback" not in err
    (told,) = json.loads(out)
    return dict(told)


def edit(table: str, *, where: dict[str, Any], **values: Any) -> None:
    with Tables.of(load_settings().ledger_url) as tables:
        tables.update(table, tables.row(table, **where), **values)


# verify


def test_a_sound_ledger_is_exit_0_with_what_was_looked_at(ledger: Ledger, louver: Louver) -> None:
    lived(ledger, *FATES)
    told = document(louver, "verify")
    assert told["sound"] is True
    assert told["protects_against"] == "accidents and people"
    assert (told["runs"], told["seals"], told["events"]) == (8, 7, 1)
    assert told["transitions"] > 100
    assert told["payloads"] > 50
    assert told["findings"] == []


def test_the_first_broken_row_is_named_and_exit_1(ledger: Ledger, louver: Louver) -> None:
    (key, other) = sorted(lived(ledger, "cleared", "cleared"))
    for run in (key, other):
        place = {"dag_id": run.dag_id, "task_id": "look", "chain": "main", "version": 2}
        edit("transition", where=place, reason="changed\nand more")
    code, out, err = louver("verify")
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"the first broken row is transition {key.dag_id}/run-1/look main 2: it does not match" in err
    assert "transition" in out
    told = document(louver, "verify", code=1)
    assert told["sound"] is False
    assert [(row["dag_id"], row["version"]) for row in told["findings"]] == [(key.dag_id, 2)]

    told = document(louver, "verify", "--all", code=1)
    assert [row["dag_id"] for row in told["findings"]] == [key.dag_id, other.dag_id]
    assert "(and 1 more)" in louver("verify", "--all")[2]


def test_every_format_tells_the_same(ledger: Ledger, louver: Louver) -> None:
    lived(ledger, "cleared")
    edit("transition", where={"task_id": "look", "version": 2}, reason="changed")
    shown = {name: louver("verify", "--output", name)[1] for name in ("json", "yaml", "table", "plain")}
    assert json.loads(shown["json"]) == yaml.safe_load(shown["yaml"])
    for name in ("table", "plain"):
        assert "findings:" in shown[name]
        assert "look" in shown[name]


def test_one_run_or_one_dag_alone(ledger: Ledger, louver: Louver) -> None:
    sound, broken = lived(ledger, "succeeded", "succeeded")
    edit("task", where={"dag_id": broken.dag_id, "task_id": "act"}, state="failed")
    assert document(louver, "verify", sound.run_id)["runs"] == 1
    assert document(louver, "verify", "--dag-id", sound.dag_id)["events"] == 1
    told = document(louver, "verify", broken.run_id, code=1)
    assert [row["table"] for row in told["findings"]] == ["task"]
    assert document(louver, "verify", "--dag-id", broken.dag_id, code=1)["sound"] is False


def test_a_run_of_which_only_remnants_are_there_is_found_with_its_dag(ledger: Ledger, louver: Louver) -> None:
    (key,) = lived(ledger, "succeeded")
    with Tables.of(load_settings().ledger_url) as tables:
        tables.delete("run", tables.row("run"))
    code, _, err = louver("verify", key.run_id)
    assert (code, "is not in the ledger" in err) == (1, True)
    told = document(louver, "verify", key.run_id, "--dag-id", key.dag_id, code=1)
    assert told["findings"][0]["table"] == "run"
    assert document(louver, "verify", code=1)["findings"][0]["run_id"] == key.run_id


def test_a_key_that_is_not_configured_is_named(
    ledger: Ledger, louver: Louver, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived(ledger, "succeeded")
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", "other:0123456789abcdef")
    monkeypatch.setattr("louver_provider.hooks.ledger._LEDGERS", {})
    code, _, err = louver("verify")
    assert (code, "which is not configured" in err) == (1, True)


# gc


def stale(ledger: Ledger) -> History:
    """A ledger with a definition that no run has any more."""
    history = History(ledger, version="old").succeeded()
    history.definition = definition("new")
    history.begin(marker="another")
    return history


@pytest.mark.parametrize("command", [("gc",), ("clean", "--before", NOW)])
def test_removing_has_to_be_said_and_looking_too(
    ledger: Ledger, louver: Louver, command: tuple[str, ...]
) -> None:
    stale(ledger)
    for words in ((), ("--dry-run", "--yes")):
        code, out, err = louver(*command, *words)
        assert (code, out) == (2, "")
        assert "--dry-run" in err
        assert "--yes" in err


def test_gc_shows_and_removes_orphans(ledger: Ledger, louver: Louver) -> None:
    history = History(ledger, version="old")
    history.begin(marker="one")
    old = f"definition:{history.definition.fingerprint}"
    history.definition = definition("new")
    history.begin(marker="two")
    for words, removed in (("--dry-run", False), ("--dry-run", False), ("--yes", True)):
        told = document(louver, "gc", words)
        assert (told["payloads"], told["removed"]) == (1, removed)
        (row,) = told["orphans"]
        assert (row["payload"], row["bytes"]) == (old, told["bytes"])
        assert row["saved"].startswith("2026-01-02T03:04:06")
    assert document(louver, "gc", "--yes")["payloads"] == 0
    assert document(louver, "verify")["sound"] is True


def test_gc_leaves_what_is_younger_than_an_hour_or_what_is_asked(ledger: Ledger, louver: Louver) -> None:
    history = History(ledger, version="old", now=SystemClock().now() - timedelta(minutes=50))
    history.begin(marker="one")
    history.definition = definition("new")
    history.begin(marker="two")
    assert document(louver, "gc", "--yes")["payloads"] == 0
    assert document(louver, "gc", "--dry-run", "--older-than", "55m")["payloads"] == 0
    for span, found in (("3300s", 0), ("2400s", 1), ("40m", 1), ("0h", 1), ("0d", 1)):
        assert document(louver, "gc", "--dry-run", "--older-than", span)["payloads"] == found
    assert document(louver, "gc", "--yes", "--older-than", "40m")["payloads"] == 1


@pytest.mark.parametrize("span", ["", "1", "h", "-1h", "1.5h", "1w", "999999999d", "1h "])
def test_a_span_that_is_none_is_bad_usage(ledger: Ledger, louver: Louver, span: str) -> None:
    code, out, err = louver("gc", "--dry-run", f"--older-than={span}")
    assert (code, out) == (2, "")
    assert "--older-than" in err


# clean


def test_clean_shows_and_removes_what_is_over(ledger: Ledger, louver: Louver) -> None:
    over, undone, waits, works = lived(ledger, "succeeded", "compensated", "given_up", "unfinished")
    for words, done in (("--dry-run", "would be removed"), ("--yes", "removed")):
        told = document(louver, "clean", "--before", NOW, words)
        assert {row["dag_id"]: (row["what"], row["why"]) for row in told["runs"]} == {
            over.dag_id: (done, None),
            undone.dag_id: (done, None),
            waits.dag_id: ("kept", "effect pay#1 is undo_failed"),
            works.dag_id: ("kept", "it is running"),
        }
        assert (told["over"], told["kept"], told["removed"]) == (2, 2, words == "--yes")
        assert (told["effects_gone"], told["effects_standing"]) == (1, 7)
        (row,) = (row for row in told["runs"] if row["dag_id"] == over.dag_id)
        assert (row["tasks"], row["approvals"], row["events"], row["standing"]) == (5, 1, 1, 2)
    assert ledger.get_run(over) is None
    assert ledger.get_run(works) is not None
    assert document(louver, "verify")["sound"] is True
    assert document(louver, "clean", "--before", NOW, "--yes")["over"] == 0


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Artifacts:
    monkeypatch.setenv("AIRFLOW__LOUVER__ARTIFACT_DIR", str(tmp_path / "artifacts"))
    return load_settings().artifacts


def files_of(artifacts: Artifacts, key: RunKey) -> Path:
    """Two attempts of the run have files; the directory of the run."""
    place = artifacts.of_run(key) / "look"
    for number in (1, 2):
        (place / f"generation-1.attempt-{number}").mkdir(parents=True)
        (place / f"generation-1.attempt-{number}" / "file").write_text("x")
    return artifacts.of_run(key)


def test_clean_counts_and_removes_the_files_of_what_it_removes(
    ledger: Ledger, louver: Louver, artifacts: Artifacts
) -> None:
    over, waits, works = lived(ledger, "succeeded", "given_up", "unfinished")
    gone, *kept = [files_of(artifacts, key) for key in (over, waits, works)]
    kept.append(files_of(artifacts, RunKey(over.dag_id, "another")))
    for words in ("--dry-run", "--dry-run", "--yes"):
        assert gone.exists()
        told = document(louver, "clean", "--before", NOW, words)
        assert (told["over"], told["artifacts"]) == (1, 2)
        assert {row["dag_id"]: row["artifacts"] for row in told["runs"]} == {
            over.dag_id: 2,
            waits.dag_id: 0,
            works.dag_id: 0,
        }
    assert not gone.exists()
    assert all(len(list(place.rglob("file"))) == 2 for place in kept)
    assert document(louver, "clean", "--before", NOW, "--yes")["artifacts"] == 0


def test_files_that_cannot_be_removed_are_named_and_the_rest_is_done(
    ledger: Ledger, louver: Louver, artifacts: Artifacts, tmp_path: Path
) -> None:
    runs = lived(ledger, "succeeded", "succeeded")
    outside = tmp_path / "outside"
    outside.mkdir()
    stuck, free = (artifacts.of_run(run) for run in runs)
    stuck.parent.mkdir(parents=True)
    stuck.symlink_to(outside)
    files_of(artifacts, runs[1])
    code, _, err = louver("clean", "--before", NOW, "--yes")
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"the runs are gone, but {stuck} (" in err
    assert ledger.get_run(runs[0]) is None
    assert (outside.exists(), stuck.is_symlink(), free.exists()) == (True, True, False)


def test_clean_removes_effects_too_where_that_is_asked(ledger: Ledger, louver: Louver) -> None:
    one, other = lived(ledger, "succeeded", "succeeded")
    told = document(louver, "clean", "--before", NOW, "--yes", "--dag-id", one.dag_id)
    assert (told["effects_gone"], told["effects_standing"]) == (1, 2)
    # Of one run the effects are left, the other one is still there.
    told = document(louver, "clean", "--before", NOW, "--dry-run", "--effects")
    assert (told["over"], told["effects_gone"], told["effects_standing"]) == (1, 5, 0)
    assert sorted(row["effect"] for row in told["effects"]) == ["mail#1", "pay#1"]
    told = document(louver, "clean", "--before", NOW, "--yes", "--effects")
    assert (told["over"], told["effects_gone"]) == (1, 5)
    assert ledger.list_effects(one) == ledger.list_effects(other) == []


def test_clean_goes_by_the_end_of_a_run(ledger: Ledger, louver: Louver) -> None:
    history = History(ledger, now=SystemClock().now() - timedelta(days=1)).succeeded()
    begun = ledger.get_run(history.run)
    assert begun is not None
    for before, over in (
        (begun.created_at, 0),
        (begun.updated_at, 0),
        (begun.updated_at + timedelta(seconds=1), 1),
    ):
        assert document(louver, "clean", "--before", format_utc(before), "--dry-run")["over"] == over


@pytest.mark.parametrize(
    "moment", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "9999-01-01T00:00:00Z"]
)
def test_a_moment_that_cannot_be_meant_is_bad_usage(ledger: Ledger, louver: Louver, moment: str) -> None:
    lived(ledger, "succeeded")
    code, out, err = louver("clean", "--yes", f"--before={moment}")
    assert (code, out) == (2, "")
    assert "--before" in err
    assert len(ledger.list_run_keys()) == 1


def test_clean_without_a_moment_is_bad_usage(ledger: Ledger, louver: Louver) -> None:
    code, _, err = louver("clean", "--yes")
    assert (code, "--before" in err) == (2, True)


def test_a_ledger_that_cannot_be_read_is_one_line(louver: Louver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "sqlite:////nowhere/louver.db")
    monkeypatch.setattr("louver_provider.hooks.ledger._LEDGERS", {})
    for command in (("verify",), ("gc", "--yes"), ("clean", "--before", NOW, "--yes")):
        code, out, err = louver(*command)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert "/nowhere" in err
