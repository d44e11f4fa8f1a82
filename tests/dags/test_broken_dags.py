"""A definition that breaks a rule is an import error of that Dag alone, in words for its author (row W4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

# Airflow's safe mode reads only files in which the words "airflow" and "dag" stand.
DAG_FILE = """
# airflow
from pathlib import Path
from louver_provider.dag_builder import dag_from_file
dag = dag_from_file(Path(__file__).with_name("{name}.json"){arguments})
"""

GOOD: dict[str, Any] = {
    "louver": 1,
    "name": "good",
    "version": "1",
    "steps": [{"name": "one", "task": "json:dumps", "kwargs": {"obj": 1}}],
}


def write(folder: Path, name: str, definition: dict[str, Any], arguments: str = "") -> None:
    (folder / f"{name}.json").write_text(json.dumps({**definition, "name": name}))
    (folder / f"{name}.py").write_text(DAG_FILE.format(name=name, arguments=arguments))


def parse(folder: Path) -> tuple[set[str], dict[str, str]]:
    bag = DagBag(dag_folder=str(folder))
    return set(bag.dags), {Path(path).name: text for path, text in bag.import_errors.items()}


def step(**fields: Any) -> dict[str, Any]:
    return {"name": "one", "task": "json:dumps", "kwargs": {"obj": 1}, **fields}


BROKEN = {
    "duplicate": ([step(), step()], "step 'one'", "another step has this name"),
    "itself": ([step(deps=["one"])], "step 'one'", "depends on itself"),
    "cycle": ([step(deps=["two"]), step(name="two", deps=["one"])], "step 'one'", "in a cycle: one, two"),
    "unknown": ([step(deps=["nobody"])], "step 'one'", "depends on 'nobody'"),
    "empty": ([], "attribute 'steps'", "needs at least one step"),
    "on_failure": ([step(on_failure="shrug")], "attribute 'on_failure'", "must be one of fail, continue"),
    "parameter": ([step(task="shlex:quote")], "step 'one'", "has no parameter 'obj'"),
    "twice": ([step(), step(name="two", deps={"obj": "one"})], "step 'two'", "given twice"),
    "missing": ([step(kwargs={})], "step 'one'", "needs 'obj'"),
    "nowhere": ([step(task="no_such_module:f")], "step 'one'", "cannot be imported"),
    "field": ([step(retires=3)], "step 'one'", "unknown field 'retires'"),
    "number": ([step(retry={"max_attempts": True})], "attribute 'retry.max_attempts'", "a whole number"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_definition_is_one_clear_import_error(case: str, tmp_path: Path) -> None:
    steps, place, words = BROKEN[case]
    write(tmp_path, "good", GOOD)
    write(tmp_path, "broken", {**GOOD, "steps": steps})
    dags, errors = parse(tmp_path)
    assert dags == {"good"}
    assert set(errors) == {"broken.py"}
    text = errors["broken.py"]
    assert "broken" in text
    assert place in text
    assert words in text


def test_a_sink_that_is_no_step(tmp_path: Path) -> None:
    write(tmp_path, "broken", {**GOOD, "sink": "nobody"})
    _, errors = parse(tmp_path)
    assert "'nobody' is not a step of this workflow" in errors["broken.py"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (", dagrun_timeout=__import__('datetime').timedelta(hours=1)", "takes no dagrun_timeout"),
        (", fail_fast=True", "takes no fail_fast"),
    ],
)
def test_what_would_skip_the_closing_tasks_is_refused(arguments: str, words: str, tmp_path: Path) -> None:
    write(tmp_path, "broken", GOOD, arguments)
    dags, errors = parse(tmp_path)
    assert dags == set()
    assert words in errors["broken.py"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, "broken", GOOD)
    (tmp_path / "broken.json").unlink()
    _, errors = parse(tmp_path)
    assert "broken.json: cannot be read" in errors["broken.py"]


def test_an_event_type_without_a_profile(tmp_path: Path) -> None:
    event_driven = {
        **GOOD,
        "event_type": "com.example.unheard.of.v1",
        "params": ["event"],
        "steps": [{"name": "one", "task": "json:dumps", "params": {"obj": "event"}}],
    }
    write(tmp_path, "broken", event_driven)
    _, errors = parse(tmp_path)
    assert "no profile is known for event type 'com.example.unheard.of.v1'" in errors["broken.py"]
