"""A task's path says which function is meant, the same in every process; an undo's can be imported."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from louver.errors import DefinitionError
from louver.task_paths import task_path, undo_path

AS_A_DAG_FILE = "unusual_prefix_7ca1ff9f4cbb0e2ba5bdc6f9d0a5b7d0f9b7c7ce_my_etl"


def top(x: Any = None) -> Any:
    return x


class Steps:
    @staticmethod
    def fixed() -> None:
        pass

    def bound(self) -> None:
        pass


@pytest.fixture
def dag_file(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module as Airflow makes one of a Dag file."""
    module = ModuleType(AS_A_DAG_FILE)
    monkeypatch.setitem(sys.modules, AS_A_DAG_FILE, module)
    exec("def extract(): pass\nclass Steps:\n    @staticmethod\n    def load(): pass", module.__dict__)
    return module


def test_a_function_of_a_module_has_the_path_of_its_definition() -> None:
    assert task_path(top, node="a") == f"{__name__}:top"
    assert task_path(Steps.fixed, node="a") == f"{__name__}:Steps.fixed"
    assert task_path(functools.wraps(top)(lambda: None), node="a") == f"{__name__}:top"


def test_a_function_of_a_dag_file_is_named_after_the_file_not_after_where_it_lies(
    dag_file: ModuleType,
) -> None:
    assert task_path(dag_file.extract, node="a") == "my_etl:extract"
    assert task_path(dag_file.Steps.load, node="a") == "my_etl:Steps.load"


def test_airflow_still_names_dag_files_as_we_read_it() -> None:
    file = pytest.importorskip("airflow.utils.file")

    name = file.get_unique_dag_module_name("/dags/2026-my.etl.py")
    module = ModuleType(name)
    exec("def extract(): pass", module.__dict__)

    assert task_path(module.extract, node="a") == "_2026_my_etl:extract"


@pytest.mark.parametrize(("file", "path"), [("my_etl.py", "my_etl:work"), ("2026-etl.py", "_2026_etl:work")])
def test_a_function_of_a_script_is_named_after_the_script(tmp_path: Path, file: str, path: str) -> None:
    script = tmp_path / file
    script.write_text(
        "from louver.task_paths import task_path\n"
        "def work(): pass\n"
        "if __name__ == '__main__':\n"
        "    print(task_path(work, node='a'))\n"
    )

    printed = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=60
    )

    assert printed.stdout.strip() == path


def nested() -> Any:
    def inner() -> None:
        pass

    return inner


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda: None, "a lambda"),
        (nested(), "a function within another one"),
        (functools.partial(top, 1), "is a partial"),
        (Steps().bound, "which has no path"),
        (5, "must be a function"),
        (None, "must be a function"),
    ],
    ids=["lambda", "nested", "partial", "bound method", "number", "nothing"],
)
def test_what_nobody_finds_again_is_no_task(function: Any, text: str) -> None:
    with pytest.raises(DefinitionError, match=text) as refused:
        task_path(function, node="a")

    assert (refused.value.node, refused.value.attribute) == ("a", "task")


def test_an_undo_is_a_function_or_its_path() -> None:
    assert undo_path(top, node="a") == f"{__name__}:top"
    assert undo_path("louver.mapped_items:gathered", node="a") == "louver.mapped_items:gathered"


@pytest.mark.parametrize(
    ("undo", "text"),
    [
        (lambda undo: None, "found by import"),
        (nested(), "found by import"),
        (functools.partial(top, 1), "found by import"),
        ("no.such.module:undo", "cannot be imported"),
        ("louver.mapped_items:nothing", "cannot be imported"),
        ("undo", "package.module:function"),
    ],
    ids=["lambda", "nested", "partial", "unknown module", "unknown function", "no path"],
)
def test_an_undo_that_cannot_be_imported_is_refused_with_the_reason(undo: Any, text: str) -> None:
    with pytest.raises(DefinitionError, match=text) as refused:
        undo_path(undo, node="a")

    assert (refused.value.node, refused.value.attribute) == ("a", "compensate")


def test_an_undo_of_a_dag_file_is_refused_though_this_process_could_find_it(dag_file: ModuleType) -> None:
    with pytest.raises(DefinitionError, match="stands in a Dag file"):
        undo_path(dag_file.extract, node="a")


def test_an_undo_of_a_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "__module__", "__main__")

    with pytest.raises(DefinitionError, match="stands in a script"):
        undo_path(top, node="a")
