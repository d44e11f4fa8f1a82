"""The floors of the house: import-linter with the contracts of ``setup.cfg``, and proof that they bite."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("include/louver", "include/shop", "plugins/louver_provider")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over the packages below ``root``."""
    program = "from importlinter.cli import lint_imports_command as lint; lint()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo", "setup.cfg"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "include"), str(root / "plugins")])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_import_contract_holds():
    result = lint(ROOT)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def copied(tmp_path):
    """A copy of the sources that a test may spoil."""
    for root in ROOTS:
        skip = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / root, tmp_path / root, ignore=skip)
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("place", "spoiled", "contract"),
    [
        ("include/louver", "import airflow", "The core does not know Airflow"),
        ("include/louver", "def late():\n    from airflow.sdk import DAG", "The core does not know Airflow"),
        ("include/louver", "import sqlalchemy", "SQL stays under louver.ledger.sql"),
        ("include/louver", "import sqlite3", "SQL stays under louver.ledger.sql"),
        ("include/louver/ledger", "import psycopg2", "SQL stays under louver.ledger.sql"),
        ("include/louver", "import louver_provider", "Arrows go down only"),
        ("include/louver", "import shop", "The wheel does not need the examples"),
        ("plugins/louver_provider", "import shop", "The wheel does not need the examples"),
        ("include/shop", "import louver_provider", "The examples' business functions know the core alone"),
        ("include/shop", "import airflow", "The examples' business functions know the core alone"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(copied, place, spoiled, contract):
    (copied / place / "spoiled.py").write_text(f"{spoiled}\n")

    result = lint(copied)

    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(line.startswith(contract) for line in broken), result.stdout


def test_nothing_below_imports_a_dag_file():
    dag_files = {path.stem for path in (ROOT / "dags").rglob("*.py")} | {"dags"}
    offending = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"
        for root in ROOTS
        for path in (ROOT / root).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        for name in imported_roots(node)
        if name in dag_files
    ]

    assert offending == []


def imported_roots(node: ast.AST) -> set[str]:
    """Return the top-level names that an import statement brings in."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        return {node.module.partition(".")[0]}
    return set()
