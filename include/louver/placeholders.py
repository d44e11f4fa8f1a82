"""
What stands, while a workflow is declared, for what only a run knows: a parameter's value, a node's result.

Neither can be looked into before the run. Whoever tries is told so at the line that tried, with the way out,
instead of getting a workflow that was decided by an object that is always true (row W1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from louver.errors import DefinitionError

__all__ = ["NodeRef", "Placeholder", "holds_reference"]


class _Unknown:
    """A value that is not there yet: every use of it as a value is refused."""

    __slots__ = ()

    def _refuse(self, use: str) -> NoReturn:
        raise NotImplementedError

    def __bool__(self) -> bool:
        self._refuse("asked whether it is true")

    def __iter__(self) -> Iterator[Any]:
        self._refuse("iterated over")

    def __len__(self) -> int:
        self._refuse("asked for its length")

    def __contains__(self, item: object) -> bool:
        self._refuse("searched")

    def __getitem__(self, item: Any) -> Any:
        self._refuse("looked into")

    def __getattr__(self, name: str) -> Any:
        # Python asks for dunder names itself (copy, pickle, inspect) and expects to hear that there are none.
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse(f"asked for its {name!r}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("called")

    def __str__(self) -> str:
        self._refuse("made a string")

    def __format__(self, spec: str) -> str:
        self._refuse("formatted into a string")

    def __bytes__(self) -> bytes:
        self._refuse("made bytes")

    def __fspath__(self) -> str:
        self._refuse("used as a path")

    def __int__(self) -> int:
        self._refuse("made a number")

    def __float__(self) -> float:
        self._refuse("made a number")

    def __index__(self) -> int:
        self._refuse("used as an index")

    def __hash__(self) -> int:
        self._refuse("used as a key")

    def __eq__(self, other: object) -> bool:
        self._refuse("compared")

    def __ne__(self, other: object) -> bool:
        self._refuse("compared")

    def _compare(self, other: object) -> bool:
        self._refuse("compared")

    __lt__ = __le__ = __gt__ = __ge__ = _compare

    def _calculate(self, *others: Any) -> Any:
        self._refuse("calculated with")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _calculate
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _calculate
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _calculate
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _calculate
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _calculate
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = _calculate


class Placeholder(_Unknown):
    """
    A run's parameter, whose value no run has given yet.

    It goes, as it is, into ``args=`` or ``kwargs=`` of a step, and into ``over=`` of ``wf.map``.

    :param workflow: the workflow's name.
    :param parameter: the parameter's name.
    """

    __slots__ = ("parameter", "workflow")

    workflow: str
    parameter: str

    def __init__(self, *, workflow: str, parameter: str) -> None:
        self.workflow = workflow
        self.parameter = parameter

    def __repr__(self) -> str:
        return f"<parameter {self.parameter!r} of workflow {self.workflow!r}>"

    def _refuse(self, use: str) -> NoReturn:
        raise DefinitionError(
            f"parameter {self.parameter!r} has no value while the workflow is declared, but it was {use}; "
            "give it to a step whole; to go through its items write wf.map(..., over=...), to decide by it "
            "write wf.branch(...), to compute with it let a step do so",
            source=self.workflow,
            attribute=f"params.{self.parameter}",
        )


class NodeRef(_Unknown):
    """
    A node of a workflow that is being declared, and its result to come.

    It goes into ``deps=``, ``after=``, ``over=``, ``approval=``, and whole into ``args=`` or ``kwargs=``.
    Two of them can be compared with each other, and one can be a key; nothing else is possible.

    :param workflow: the workflow's name.
    :param name: the node's name.
    """

    __slots__ = ("name", "workflow")

    workflow: str
    name: str

    def __init__(self, *, workflow: str, name: str) -> None:
        self.workflow = workflow
        self.name = name

    def __repr__(self) -> str:
        return f"<node {self.name!r} of workflow {self.workflow!r}>"

    def __hash__(self) -> int:
        return hash((self.workflow, self.name))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NodeRef):
            return (self.workflow, self.name) == (other.workflow, other.name)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _refuse(self, use: str) -> NoReturn:
        raise DefinitionError(
            f"has no result while the workflow is declared, but it was {use}; hand it to a step with "
            "deps={parameter: node}; to go through its items write wf.map(..., over=node), to decide by it "
            "write wf.branch(...)",
            source=self.workflow,
            node=self.name,
        )


def holds_reference(value: Any) -> bool:
    """Whether a placeholder or a node lies somewhere inside the value, where nothing could fill it."""
    open_values = [value]
    seen: set[int] = set()
    while open_values:
        current = open_values.pop()
        if isinstance(current, _Unknown):
            return True
        if isinstance(current, (Mapping, list, tuple, set, frozenset)):
            if id(current) in seen:
                continue
            seen.add(id(current))
            open_values.extend(current)
            if isinstance(current, Mapping):
                open_values.extend(current.values())
    return False
