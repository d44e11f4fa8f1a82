"""
What a task's function is called in a definition.

A definition names functions by path, and its fingerprint covers the path. So that of a function which was
defined in a Dag file must be the same in every process and on every machine, though Airflow imports that file
under a name that holds a hash of where it lies; it is ``<stem of the file>:<function>``. Such a path says
which function is meant; it cannot be imported, which is why the functions themselves go along (``tasks``).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from louver.errors import ConfigurationError, DefinitionError
from louver.node_checks import check_task
from louver.references import path_of, resolve

__all__ = ["module_name", "task_path", "undo_path"]

_DAG_FILE = re.compile(r"unusual_prefix_[0-9a-f]+_(?P<stem>.+)")
"""How Airflow names the module of a Dag file (``airflow.utils.file.get_unique_dag_module_name``)."""


def task_path(function: Callable[..., Any], *, node: str, attribute: str = "task") -> str:
    """
    ``module:function`` for a definition.

    :param node: the step, for errors.
    :raises DefinitionError: for what has no name at the top of a module: a lambda, a nested function, a bound
        method, a partial.
    """
    if not callable(function):
        raise DefinitionError(
            "must be a function, or the path of one, 'package.module:function'",
            node=node,
            attribute=attribute,
        )
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or inspect.ismethod(function):
        raise DefinitionError(
            f"is a {type(function).__name__}, which has no path; write a function at the top of a module, "
            "and give arguments with args= or kwargs=",
            node=node,
            attribute=attribute,
        )
    if "<" in name:
        kind = "a lambda" if "<lambda>" in name else "a function within another one"
        raise DefinitionError(
            f"is {kind}, which no other process finds again; write it at the top of its module, and give "
            "what it takes from around it with args= or kwargs=",
            node=node,
            attribute=attribute,
        )
    return f"{module_name(module)}:{name}"


def module_name(module: str) -> str:
    """What a definition calls a module: a Dag file, and a script, by the stem of the file."""
    dag_file = _DAG_FILE.fullmatch(module)
    if dag_file is not None:
        return _as_identifier(dag_file["stem"])
    if module == "__main__":
        file = getattr(sys.modules.get("__main__"), "__file__", None)
        return _as_identifier(PurePath(file).stem) if file else module
    return module


def _as_identifier(stem: str) -> str:
    text = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return f"_{text}" if text[:1].isdigit() else text


def undo_path(undo: Callable[..., Any] | str, *, node: str) -> str:
    """
    The path of an undo, which must be one to import.

    :param undo: a function, or its path.
    :raises DefinitionError: where another process could not import it after a deploy.
    """
    why = (
        "an undo is found by import alone, by another process, perhaps after a deploy: put it at the top of "
        "a module on PYTHONPATH"
    )
    if isinstance(undo, str):
        check_task(node, "compensate", undo)
        path = undo
    else:
        module = getattr(undo, "__module__", None)
        if isinstance(module, str) and (module == "__main__" or _DAG_FILE.fullmatch(module)):
            place = "a script" if module == "__main__" else "a Dag file, which Airflow alone imports"
            raise DefinitionError(f"stands in {place}; {why}", node=node, attribute="compensate")
        try:
            return path_of(undo, what="it")
        except ConfigurationError as error:
            raise DefinitionError(f"{error}; {why}", node=node, attribute="compensate") from error
    try:
        resolve(path, what="it")
    except ConfigurationError as error:
        raise DefinitionError(f"{error}; {why}", node=node, attribute="compensate") from error
    return path
