"""The Dag files in README and docs are Dags, and the first one does what the README says."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from support.pages import BANK, ROOT, blocks

from louver.definition import Definition
from louver.engine import run_inline
from louver.states import RunState

README = blocks(ROOT / "README.md", "python")
HELLO_STEPS, HELLO, BILLING, BILLING_DAG, _ = README
ETL, ETL_OPEN, PARCELS = blocks(ROOT / "docs" / "airflow-dags.md", "python")

WAREHOUSE = """
def extract(source, limit): ...
def clean(row): ...
def load(rows): ...
def is_business_day(): ...
"""

PARCEL_SERVICE = """
def pack(order): ...
def unpack(undo): ...
"""

MODULES = {
    "bank": BANK,
    "billing": BILLING,
    "hello_steps": HELLO_STEPS,
    "parcels": PARCEL_SERVICE,
    "warehouse": WAREHOUSE,
}

Parse = Callable[[str], tuple[list[Any], dict[str, str]]]


@pytest.fixture
def parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parse:
    """Have Airflow read a Dag file; its Dags, and its errors by file name."""
    modules, dags = tmp_path / "modules", tmp_path / "dags"
    modules.mkdir()
    dags.mkdir()
    for name, text in MODULES.items():
        (modules / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(modules))

    def read(text: str) -> tuple[list[Any], dict[str, str]]:
        (dags / "page_dag.py").write_text(text)
        bag = DagBag(dag_folder=str(dags))
        return list(bag.dags.values()), {Path(path).name: words for path, words in bag.import_errors.items()}

    return read


@pytest.fixture
def only(parse: Parse) -> Callable[[str], Any]:
    """Have Airflow read a Dag file that has to be in order; its one Dag."""

    def read(text: str) -> Any:
        (dag,), errors = parse(text)
        assert errors == {}
        return dag

    return read


def definition_in(dag: Any, step: str) -> Definition:
    found = dag.get_task(step).workflow.definition
    assert isinstance(found, Definition)
    return found


@pytest.fixture
def hello(
    only: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., RunState]:
    """Run the README's first Dag without a scheduler; what became of the run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    workflow = only(HELLO).get_task("write").workflow

    def run(**params: Any) -> RunState:
        steps = importlib.import_module("hello_steps")
        tasks = {"write": steps.write, "check": steps.check}
        return run_inline(workflow.definition, tasks, params).state

    return run


def test_the_first_dag_writes_its_file(hello: Callable[..., RunState], tmp_path: Path) -> None:
    assert hello(name="ann", fail=False) is RunState.SUCCEEDED
    assert (tmp_path / "hello-ann.txt").read_text() == "Hello, ann.\n"


def test_the_first_dag_takes_its_file_away_where_it_fails(
    hello: Callable[..., RunState], tmp_path: Path
) -> None:
    assert hello(name="bob", fail=True) is RunState.FAILED_COMPENSATED
    assert list(tmp_path.glob("hello-*.txt")) == []


def test_the_readme_declares_one_workflow_in_two_ways(only: Callable[[str], Any]) -> None:
    as_json = Definition.from_json(blocks(ROOT / "README.md", "json")[0])
    in_code = definition_in(only(BILLING_DAG), "charge")

    assert in_code == as_json
    assert in_code.fingerprint == as_json.fingerprint


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        pytest.param(ETL, {"extract", "clean", "load"}, id="workflow"),
        pytest.param(
            ETL.replace("\netl()\n", ETL_OPEN), {"extract", "clean", "load", "gate", "told"}, id="operators"
        ),
        pytest.param(PARCELS, {"load", "charge", "pack"}, id="task.step"),
    ],
)
def test_the_dag_files_in_the_docs_are_dags(only: Callable[[str], Any], text: str, tasks: set[str]) -> None:
    assert set(only(text).task_ids) == {*tasks, "compensate", "outcome"}


def test_the_error_in_the_docs_is_what_it_says(parse: Parse) -> None:
    wrong = ETL.replace('deps={"rows": parts}', 'deps={"row": parts}')
    dags, errors = parse(wrong)
    page = (ROOT / "docs" / "airflow-dags.md").read_text()
    (told,) = [line.strip() for line in page.splitlines() if line.startswith("    DefinitionError: ")]

    assert wrong != ETL
    assert dags == []
    assert told.removeprefix("DefinitionError: ") in errors["page_dag.py"]
