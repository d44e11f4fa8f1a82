"""``airflow louver history RUN --export``: a run's history as a document that is replayed (row O14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.recordings import STORIES

from louver.exports import export_run
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.pseudonyms import anonymised
from louver.replay import replay

Louver = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(ledger: Ledger) -> RunKey:
    """A run with approvals, effects, and a definition that it accepted on its way."""
    return STORIES["accepted"](ledger).run


def test_it_is_written_as_the_ledger_holds_it(
    ledger: Ledger, run: RunKey, louver: Louver, tmp_path: Path
) -> None:
    path = tmp_path / "history.json"

    assert louver("history", run.run_id, "--export", str(path)) == (0, "", "")

    document = json.loads(path.read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(export_run(run, ledger)))
    assert replay(document).problems == ()


def test_anonymised_it_goes_to_standard_output_too(ledger: Ledger, run: RunKey, louver: Louver) -> None:
    code, out, err = louver("history", run.run_id, "--export", "-", "--anonymise")

    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(anonymised(export_run(run, ledger))))
    assert "4711" not in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--anonymise",), "--export"),
        (("load", "--export", "-"), "whole run"),
        (("--export", "/nowhere/at/all.json"), "cannot be written"),
    ],
)
def test_what_cannot_be_exported_says_why(
    run: RunKey, louver: Louver, arguments: tuple[str, ...], word: str
) -> None:
    code, out, err = louver("history", run.run_id, *arguments)

    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert word in err


def test_what_was_accepted_stands_in_history_and_status(run: RunKey, louver: Louver) -> None:
    code, out, _ = louver("history", run.run_id, "--stored", "--output", "json")
    (row,) = [row for row in json.loads(out) if row["trigger"] == "definition:accepted"]
    assert (code, row["step"], row["recorded_by"]) == (0, None, "engine")
    assert row["reason"].startswith("1.1.0 instead of 1.0.0, by ask")

    _, out, _ = louver("history", run.run_id, "tell", "--stored", "--output", "json")
    assert "definition:accepted" not in out
    _, out, _ = louver("status", run.run_id, "--output", "json")
    (status,) = json.loads(out)
    assert [(one["from"], one["to"], one["by"]) for one in status["versions"]] == [("1.0.0", "1.1.0", "ask")]
