"""
Workflows for people who come from Celery: ``chain``, ``group`` and ``chord`` of signatures (row W14)::

    flow = chain(
        sig(extract, param("source")),
        group(sig(clean, "north"), sig(clean, "south")),
        sig(load),
    )
    run_inline(flow.definition("etl", "1.0.0"), flow.tasks, {"source": "a.csv"})

They build definitions and nothing else: there is no broker, and nothing is called here. As in Celery the
result of what came before goes in front of a signature's own arguments, a group's results go on as one list
in the order in which the group was written, and ``si`` takes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from louver.arguments import positional_parameters
from louver.builder import BuiltWorkflow
from louver.definition import Definition
from louver.errors import DefinitionError
from louver.graph_builder import GraphBuilder
from louver.mapped_items import gathered
from louver.marks import StepMark
from louver.placeholders import NodeRef, Placeholder
from louver.policies import CompensationPolicy

__all__ = [
    "Canvas",
    "Chain",
    "Ends",
    "Group",
    "Param",
    "Signature",
    "chain",
    "chord",
    "group",
    "param",
    "si",
    "sig",
]

Ends = NodeRef | tuple[NodeRef, ...]
"""What a part ends with: a node, or the nodes of a group, whose results go on as one list."""

_OPTIONS = frozenset(entry.name for entry in fields(StepMark)) - {"tags"} | {"join"}

_UNNAMED = "canvas"
"""A workflow's name where only its functions are asked for."""


class Param:
    """
    A parameter of the run, as an argument of a signature.

    :param name: what the run calls it.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"param({self.name!r})"


class Canvas:
    """What a workflow can be built of."""

    def signatures(self) -> Iterator[Signature]:
        """Every signature in it, in the order in which it was written."""
        raise NotImplementedError

    def place(self, drawing: _Drawing, before: Ends | None) -> Ends:
        """
        Declare its nodes.

        :param before: what goes before, where something does.
        """
        raise NotImplementedError

    def build(
        self,
        name: str,
        version: str,
        *,
        aggregation: str = "skip_downstream",
        on_change: str = "fail",
        compensation: CompensationPolicy | None = None,
    ) -> BuiltWorkflow:
        """
        The workflow, its functions with it.

        :param name: the workflow's, and the Dag's.
        :param version: the author's version.
        :param aggregation: as for :class:`~louver.definition.Definition`, like the following.
        :raises DefinitionError: naming workflow, node and attribute.
        """
        drawing = _Drawing(name)
        sink = drawing.one(self.place(drawing, None))
        try:
            definition = Definition(
                name=name,
                version=version,
                nodes=drawing.wf.nodes,
                params=_params_of(self),
                sink=sink.name,
                aggregation=aggregation,
                on_change=on_change,
                compensation=CompensationPolicy() if compensation is None else compensation,
            )
        except DefinitionError as error:
            raise error.within(name) from error.__cause__
        return BuiltWorkflow(definition=definition, tasks=drawing.wf.tasks, tags=drawing.wf.tags)

    def definition(self, name: str, version: str, **head: Any) -> Definition:
        """
        The workflow as a definition; arguments as for :meth:`build`.

        :raises DefinitionError: naming workflow, node and attribute.
        """
        return self.build(name, version, **head).definition

    @property
    def tasks(self) -> Mapping[str, Callable[..., Any]]:
        """Node name to its function."""
        return self.build(_UNNAMED, "1").tasks


class Signature(Canvas):
    """
    A function and its arguments, to be called later.

    :param function: at the top of a module or Dag file.
    :param args: arguments by position; behind the result of what came before.
    :param kwargs: arguments by name.
    :param immutable: it takes no result.
    :param name: the node's; by default the function's, with a number from the second on.
    :param options: as for :meth:`louver.graph_builder.GraphBuilder.step`: ``queue``, ``retry``, ...
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = dict(kwargs or {})
        self.immutable = immutable
        self.name = name
        self.options = dict(options or {})

    def set(self, *, name: str | None = None, **options: Any) -> Signature:
        """
        The same call with other options.

        :param name: the node's.
        :param options: ``queue``, ``priority``, ``retry``, ``timeouts``, ``resources``, ``on_failure``,
            ``compensate``, ``on_unknown``, ``join``.
        :raises DefinitionError: for another one.
        """
        for option in options:
            if option not in _OPTIONS:
                raise DefinitionError(
                    f"is no option of a signature; there are: {', '.join(sorted(_OPTIONS))}", attribute=option
                )
        return Signature(
            self.function,
            self.args,
            self.kwargs,
            immutable=self.immutable,
            name=self.name if name is None else name,
            options={**self.options, **options},
        )

    def signatures(self) -> Iterator[Signature]:
        yield self

    def place(self, drawing: _Drawing, before: Ends | None) -> Ends:
        return drawing.step(self, before)


class Chain(Canvas):
    """
    One after the other; each takes the result of the one before.

    :param parts: signatures, groups, chains.
    """

    def __init__(self, parts: Iterable[Canvas]) -> None:
        self.parts = _checked(parts, what="chain")

    def signatures(self) -> Iterator[Signature]:
        for part in self.parts:
            yield from part.signatures()

    def place(self, drawing: _Drawing, before: Ends | None) -> Ends:
        first, *others = self.parts
        ends = first.place(drawing, before)
        for part in others:
            ends = part.place(drawing, ends)
        return ends


class Group(Canvas):
    """
    Side by side; the results are one list, in the order written.

    :param parts: signatures, chains.
    """

    def __init__(self, parts: Iterable[Canvas]) -> None:
        self.parts = _checked(parts, what="group")

    def signatures(self) -> Iterator[Signature]:
        for part in self.parts:
            yield from part.signatures()

    def place(self, drawing: _Drawing, before: Ends | None) -> Ends:
        return tuple(drawing.one(part.place(drawing, before)) for part in self.parts)


class _Drawing:
    """A canvas while its nodes are declared."""

    def __init__(self, workflow: str) -> None:
        self.wf = GraphBuilder(workflow=workflow)
        self._workflow = workflow
        self._taken: dict[str, int] = {}

    def step(self, signature: Signature, before: Ends | None) -> NodeRef:
        function = signature.function
        name = signature.name or self._name(str(getattr(function, "__name__", "step")))
        by_name = {key: self._value(value) for key, value in signature.kwargs.items()}
        args = [self._value(value) for value in signature.args]
        if before is None:
            return self.wf.step(name, function, args=args, kwargs=by_name, **signature.options)
        nodes = before if isinstance(before, tuple) else (before,)
        if signature.immutable:
            return self.wf.step(name, function, args=args, kwargs=by_name, deps=nodes, **signature.options)
        first, *behind = self._free(signature, name)
        by_name |= dict(zip(behind, args, strict=False))
        if isinstance(before, tuple):
            return self.wf.join(
                name, function, deps=nodes, collect=first, kwargs=by_name, **signature.options
            )
        return self.wf.step(name, function, deps={first: before}, kwargs=by_name, **signature.options)

    def one(self, ends: Ends) -> NodeRef:
        """The node whose result is the list of a group's results; of a single node, itself."""
        if not isinstance(ends, tuple):
            return ends
        return self.wf.join(self._name("results"), gathered, deps=ends, collect="results")

    def _free(self, signature: Signature, name: str) -> list[str]:
        """Parameters for the result of what came before, and for the arguments by position behind it."""
        names = positional_parameters(signature.function, node=name)
        free = [parameter for parameter in names if parameter not in signature.kwargs]
        if len(free) <= len(signature.args):
            raise DefinitionError(
                "has no parameter left for the result of what comes before it; write si(...) where it needs "
                "none",
                source=self._workflow,
                node=name,
                attribute="args",
            )
        return free

    def _value(self, value: Any) -> Any:
        if isinstance(value, Param):
            return Placeholder(workflow=self._workflow, parameter=value.name)
        return value

    def _name(self, wanted: str) -> str:
        self._taken[wanted] = self._taken.get(wanted, 0) + 1
        number = self._taken[wanted]
        return wanted if number == 1 else f"{wanted}_{number}"


def param(name: str) -> Param:
    """A parameter of the run; the definition declares those that it meets, in order."""
    return Param(name)


def sig(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Signature:
    """
    A function and its arguments: literals, and parameters of the run (:func:`param`).

    What came before it, where something did, goes to its first parameter that ``kwargs`` does not name, and
    ``args`` to those behind.
    """
    return Signature(function, args, kwargs)


def si(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Signature:
    """A signature that waits for what came before it, and does not take the result."""
    return Signature(function, args, kwargs, immutable=True)


def chain(*parts: Canvas) -> Chain:
    """
    One after the other; each takes the result of the one before, behind a group the list of its results.

    :raises DefinitionError: for no parts, or one that is none.
    """
    return Chain(parts)


def group(*parts: Canvas) -> Group:
    """
    Side by side. At the end of a workflow the result is the list of theirs, in the order written.

    :raises DefinitionError: for no parts, or one that is none.
    """
    return Group(parts)


def chord(header: Group | Iterable[Canvas], callback: Canvas) -> Chain:
    """
    A group, and a callback that takes the list of its results.

    :raises DefinitionError: for no parts, or one that is none.
    """
    return Chain([header if isinstance(header, Group) else Group(header), callback])


def _checked(parts: Iterable[Canvas], *, what: str) -> tuple[Canvas, ...]:
    found = tuple(parts) if isinstance(parts, Iterable) else (parts,)
    if not found:
        raise DefinitionError(f"a {what} needs at least one part")
    for part in found:
        if not isinstance(part, Canvas):
            raise DefinitionError(
                f"a {what} is made of signatures, chains and groups, not of {type(part).__name__}; write "
                "sig(function, ...)"
            )
    return found


def _params_of(canvas: Canvas) -> tuple[str, ...]:
    values = [
        value
        for signature in canvas.signatures()
        for value in (*signature.args, *signature.kwargs.values())
        if isinstance(value, Param)
    ]
    return tuple(dict.fromkeys(value.name for value in values))
