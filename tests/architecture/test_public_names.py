"""``__all__`` is the truth: every public name is in it, all in it exists, what is promised is there."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import louver

#: Names that users, examples and other releases rely on.
STABLE = (
    "louver.cloudevents.parse_event",
    "louver.cloudevents.OrderProfile",
    "louver.definition.Definition.from_json",
    "louver.definition.Definition.fingerprint",
    "louver.engine.run_inline",
    "louver.errors.EventRejected",
    "louver.ledger.open_ledger",
    "louver.states.RunState",
    "louver.states.TaskState",
    "louver.states.transition",
    "louver.timestamps.parse_rfc3339",
)

#: A module's logger and type variables are its own affair.
PRIVATE_BY_HABIT = {"log", "logger", "T", "P", "R", "S"}

MODULES = [
    "louver",
    *(
        module.name
        for module in pkgutil.walk_packages(louver.__path__, prefix="louver.")
        if ".migrations" not in module.name
    ),
]


def defined_names(path: Path) -> set[str]:
    """Return the public names that the module's own top level defines (imports are no definitions)."""
    names: set[str] = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")} - PRIVATE_BY_HABIT


@pytest.mark.parametrize("name", MODULES)
def test_all_names_exactly_what_is_public(name):
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)

    assert listed is not None, f"{name} has no __all__"
    assert len(set(listed)) == len(listed), f"{name}.__all__ names something twice"
    missing = [entry for entry in listed if not hasattr(module, entry)]
    assert missing == [], f"{name}.__all__ names what is not there"
    unlisted = sorted(defined_names(Path(str(module.__file__))) - set(listed))
    assert unlisted == [], f"public in {name} but not in its __all__ (list them, or begin them with _)"


@pytest.mark.parametrize("path", STABLE)
def test_a_stable_name_is_there(path):
    parts = path.split(".")
    module = importlib.import_module(".".join(parts[:2]))

    value = module
    for part in parts[2:]:
        assert hasattr(value, part), f"{path} is promised"
        value = getattr(value, part)

    assert parts[2] in module.__all__
