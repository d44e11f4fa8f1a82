"""
What the tests of the glue share; no server is started.

Airflow is imported by the fixtures alone: pytest reads this file before it has set the home of the test run,
and what is imported then works in the home of the user.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from louver.ledger.contract import Ledger

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def dags_folder() -> Path:
    """The Dag files of the project."""
    return ROOT / "dags"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The ledger that commands and hooks work on."""
    from louver_provider.hooks import ledger as ledger_hook

    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    with ledger_hook.get_ledger() as opened:
        yield opened


Louver = Callable[..., tuple[int, str, str]]
"""Runs a command; exit code, standard output and standard error."""


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """Airflow's own, with Louver's commands in it."""
    from airflow.cli import cli_parser

    return cli_parser.get_parser()


@pytest.fixture
def louver(parser: argparse.ArgumentParser, capfd: pytest.CaptureFixture[str]) -> Louver:
    """Run a command; exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code: Any = 0
        try:
            parsed = parser.parse_args(["louver", *arguments])
            parsed.func(parsed)
        except SystemExit as end:
            code = end.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def rows_of(louver: Louver) -> Callable[..., list[dict[str, Any]]]:
    """Run a command that has to succeed; the rows that it prints."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        code, out, err = louver(*arguments, "--output", "json")
        assert (code, err) == (0, ""), (code, out, err)
        found: list[dict[str, Any]] = json.loads(out)
        return found

    return run
