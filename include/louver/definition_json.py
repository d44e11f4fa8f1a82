"""
The JSON form of a definition, read strictly: an unknown field, a wrong type or a duplicate member is an
error.

Architecture puts the JSON form into ``definition``; it is a second idea, so it has a file of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from louver.definition import ApprovalNode, Definition, Node, Step
from louver.errors import DefinitionError
from louver.policies import UNDO_RETRY, Backoff, CompensationPolicy, RetryPolicy
from louver.timeouts import Timeouts

__all__ = ["read_definition", "read_definition_form", "write_definition"]

_FORMAT = 1
"""The version of the JSON form itself, under the member ``louver``."""


class _Twice(dict[str, Any]):
    """An object one of whose members stands twice; whoever reads it knows its place."""

    member: str


class _Reader:
    """One JSON object, whose members are taken by name; what is left over is unknown."""

    def __init__(self, content: Any, *, node: str | None, path: str) -> None:
        self.node = node
        self.path = path
        if not isinstance(content, dict):
            raise self.error(None, "must be an object")
        self._refuse_twice(None, content)
        self._content = dict(content)

    def _refuse_twice(self, name: str | None, value: Any) -> None:
        """An object with a member that stands twice is refused, however deep it lies in the value."""
        if isinstance(value, _Twice):
            raise self.error(".".join(part for part in (name, value.member) if part), "stands twice")
        # The nodes, and the parts that have a reader of their own, are looked at by that one.
        if name is None or name == "steps" or not isinstance(value, (dict, list)):
            return
        for item in value.values() if isinstance(value, dict) else value:
            self._refuse_twice(name, item)

    def error(self, name: str | None, message: str) -> DefinitionError:
        attribute = ".".join(part for part in (self.path, name) if part)
        return DefinitionError(message, node=self.node, attribute=attribute or None)

    def has(self, name: str) -> bool:
        return name in self._content

    def take(self, name: str, kinds: type | tuple[type, ...], what: str, default: Any = ...) -> Any:
        if name not in self._content:
            if default is ...:
                raise self.error(name, "is missing")
            return default
        value = self._content.pop(name)
        # bool is an int to Python, but nobody who writes true means 1.
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise self.error(name, f"must be {what}")
        self._refuse_twice(name, value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        items = self.take(name, list, "a list of strings", [])
        if any(not isinstance(item, str) for item in items):
            raise self.error(name, "must be a list of strings")
        return tuple(items)

    def names(self, name: str) -> dict[str, str]:
        members = self.take(name, dict, "an object of strings", {})
        if any(not isinstance(value, str) for value in members.values()):
            raise self.error(name, "must be an object of strings")
        return dict(members)

    def lists(self, name: str) -> dict[str, list[str]]:
        what = "an object of lists of strings"
        members = self.take(name, dict, what, {})
        for value in members.values():
            if not isinstance(value, list) or any(not isinstance(item, str) for item in value):
                raise self.error(name, f"must be {what}")
        return dict(members)

    def done(self) -> None:
        if self._content:
            unknown = ", ".join(repr(name) for name in sorted(self._content))
            raise self.error(None, f"unknown field {unknown}; correct the spelling or take it out")


def read_definition(raw: bytes | str, *, source: str | None = None) -> Definition:
    """
    The definition that the document describes.

    :param raw: UTF-8 JSON.
    :param source: the file's name, for errors.
    :raises DefinitionError: naming file, step and attribute.
    """
    try:
        return _definition(_parse(raw))
    except DefinitionError as error:
        raise (error.within(source) if source else error) from None


def read_definition_form(form: Mapping[str, Any]) -> Definition:
    """
    The definition behind its plain form, as :func:`write_definition` makes it.

    :raises DefinitionError: naming step and attribute.
    """
    return _definition(dict(form))


def _parse(raw: bytes | str) -> Any:
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise DefinitionError("the file is not UTF-8") from None
    except RecursionError:
        raise DefinitionError("the document is nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DefinitionError(f"not JSON: {error.msg} at {place}") from None
    except ValueError:
        # Python refuses to read whole numbers of thousands of digits.
        raise DefinitionError("a number has too many digits") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    names = [name for name, _ in pairs]
    twice = _Twice(members)
    twice.member = next(name for name in names if names.count(name) > 1)
    return twice


def _no_constant(text: str) -> Any:
    raise DefinitionError(f"{text} is not a JSON number")


def _definition(content: Any) -> Definition:
    reader = _Reader(content, node=None, path="")
    if reader.take("louver", int, f"the number {_FORMAT}") != _FORMAT:
        raise reader.error("louver", f"this release reads format {_FORMAT}")
    name = reader.take("name", str, "a string")
    version = reader.take("version", str, "a string such as '1.0.0'")
    params = reader.texts("params")
    event_type = reader.take("event_type", (str, type(None)), "a string", None)
    sink = reader.take("sink", (str, type(None)), "the name of a step", None)
    aggregation = reader.take("aggregation", str, "a string", "skip_downstream")
    on_change = reader.take("on_change", str, "a string", "fail")
    compensation = _compensation(reader)
    nodes = reader.take("steps", list, "a list of steps")
    reader.done()
    return Definition(
        name=name,
        version=version,
        params=params,
        event_type=event_type,
        sink=sink,
        aggregation=aggregation,
        on_change=on_change,
        compensation=compensation,
        nodes=[_node(entry, index) for index, entry in enumerate(nodes)],
    )


def _node(content: Any, index: int) -> Node:
    name = content.get("name") if isinstance(content, dict) else None
    reader = _Reader(content, node=name if isinstance(name, str) else f"steps[{index}]", path="")
    common: dict[str, Any] = {
        "name": reader.take("name", str, "a string"),
        "deps": _deps(reader),
        "after": reader.texts("after"),
        "params": reader.names("params"),
        "kwargs": reader.take("kwargs", dict, "an object", {}),
    }
    build: Callable[..., Node]
    if reader.has("approve"):
        approve = _Reader(reader.take("approve", dict, "an object"), node=reader.node, path="approve")
        build = ApprovalNode
        common |= {
            "of": approve.take("of", str, "the name of the acting step"),
            "payload": approve.take("payload", str, "'package.module:function'"),
            "expires_after": approve.take(
                "expires_after_seconds", (int, float, type(None)), "a number of seconds", None
            ),
            "approvers": approve.texts("approvers"),
            "four_eyes": approve.take("four_eyes", bool, "true or false", False),
        }
        approve.done()
    else:
        build = Step
        common |= {
            "task": reader.take("task", str, "'package.module:function'"),
            "retry": _retry(reader, RetryPolicy()),
            "timeouts": _timeouts(reader),
            "approval": reader.take("approval", (str, type(None)), "the name of an approval", None),
            "queue": reader.take("queue", (str, type(None)), "a string", None),
            "priority": reader.take("priority", int, "a whole number", 1),
            "on_failure": reader.take("on_failure", str, "'fail' or 'continue'", "fail"),
            "resources": reader.take("resources", dict, "an object of whole numbers", {}),
            "collect": reader.lists("collect"),
            "over": reader.names("over"),
            # A number is let through: the step says why it is no join.
            "join": reader.take("join", (str, int), "a string", "all_succeeded"),
            "branch": reader.take("branch", bool, "true or false", False),
            "expanded": reader.take("expanded", bool, "true or false", False),
            **_effect(reader),
        }
    reader.done()
    return build(**common)


def _deps(reader: _Reader) -> Mapping[str, str] | tuple[str, ...]:
    if not reader.has("deps"):
        return {}
    value = reader.take("deps", (dict, list), "an object or a list")
    entries = value.values() if isinstance(value, dict) else value
    if any(not isinstance(entry, str) for entry in entries):
        raise reader.error("deps", "must name steps")
    return value if isinstance(value, dict) else tuple(value)


def _effect(reader: _Reader) -> dict[str, Any]:
    if not reader.has("compensate"):
        return {}
    effect = _Reader(reader.take("compensate", dict, "an object"), node=reader.node, path="compensate")
    values = {
        "compensate": effect.take("undo", str, "'package.module:function'"),
        "on_unknown": effect.take("on_unknown", str, "a string", "manual"),
    }
    effect.done()
    return values


def _compensation(reader: _Reader) -> CompensationPolicy:
    if not reader.has("compensation"):
        return CompensationPolicy()
    policy = _Reader(reader.take("compensation", dict, "an object"), node=None, path="compensation")
    values: dict[str, Any] = {
        "on_failure": policy.take("on_failure", str, "a string", "go_on"),
        "retry": _retry(policy, UNDO_RETRY),
    }
    policy.done()
    return CompensationPolicy(**values)


def _retry(reader: _Reader, default: RetryPolicy) -> RetryPolicy:
    if not reader.has("retry"):
        return default
    path = f"{reader.path}.retry" if reader.path else "retry"
    retry = _Reader(reader.take("retry", dict, "an object"), node=reader.node, path=path)
    backoff = retry.take("backoff", str, "a string", str(Backoff.FIXED))
    if backoff not in {str(choice) for choice in Backoff}:
        raise retry.error("backoff", "must be 'fixed' or 'exponential'")
    values = {
        "max_attempts": retry.take("max_attempts", int, "a whole number"),
        "delay": _seconds(retry, "delay_seconds", 0),
        "max_delay": _seconds(retry, "max_delay_seconds", 3600),
        "jitter": retry.take("jitter", (int, float), "a number from 0 to 1", 0.0),
        "fatal": retry.texts("fatal"),
        "retryable": retry.texts("retryable"),
    }
    retry.done()
    try:
        return RetryPolicy(backoff=Backoff(backoff), **values)
    except DefinitionError as error:
        raise reader.error(error.attribute, error.reason) from None


def _timeouts(reader: _Reader) -> Timeouts:
    if not reader.has("timeouts"):
        return Timeouts()
    limits = _Reader(reader.take("timeouts", dict, "an object"), node=reader.node, path="timeouts")
    values = {
        name: _seconds(limits, f"{name}_seconds", 0) if limits.has(f"{name}_seconds") else None
        for name in ("start", "attempt", "idle")
    }
    limits.done()
    try:
        return Timeouts(**values)
    except DefinitionError as error:
        attribute = f"{error.attribute}_seconds"
        raise DefinitionError(error.reason, node=reader.node, attribute=attribute) from None


def _seconds(reader: _Reader, name: str, default: float) -> timedelta:
    value = reader.take(name, (int, float), "a number of seconds", default)
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise reader.error(name, "is out of range") from None


def write_definition(definition: Definition) -> dict[str, Any]:
    """The plain form, every default spelled out, so that a default written down changes no fingerprint."""
    return {
        "louver": _FORMAT,
        "name": definition.name,
        "version": definition.version,
        "params": list(definition.params),
        "event_type": definition.event_type,
        "sink": definition.sink,
        **_used(
            aggregation=(definition.aggregation, "skip_downstream"),
            on_change=(definition.on_change, "fail"),
            compensation=(
                _write_compensation(definition.compensation),
                _write_compensation(CompensationPolicy()),
            ),
        ),
        "steps": [_write_node(node) for node in definition.nodes],
    }


def _used(**members: tuple[Any, Any]) -> dict[str, Any]:
    """
    What differs from its default. What came later stands there only where it is used: other definitions keep
    the fingerprint they had.
    """
    return {name: value for name, (value, default) in members.items() if value != default}


def _write_compensation(policy: CompensationPolicy) -> dict[str, Any]:
    return {"on_failure": policy.on_failure, "retry": _write_retry(policy.retry)}


def _write_retry(policy: RetryPolicy) -> dict[str, Any]:
    return {
        "max_attempts": policy.max_attempts,
        "delay_seconds": policy.delay.total_seconds(),
        "backoff": str(policy.backoff),
        "max_delay_seconds": policy.max_delay.total_seconds(),
        **_used(
            jitter=(float(policy.jitter), 0.0),
            fatal=(list(policy.fatal), []),
            retryable=(list(policy.retryable), []),
        ),
    }


def _write_node(node: Node) -> dict[str, Any]:
    common = {
        "name": node.name,
        "deps": dict(node.inputs),
        "after": list(node.after),
        "params": dict(node.params),
        "kwargs": dict(node.kwargs),
    }
    if isinstance(node, ApprovalNode):
        return common | {
            "approve": {
                "of": node.of,
                "payload": node.payload,
                "expires_after_seconds": node.expires_after,
                "approvers": list(node.approvers),
                "four_eyes": node.four_eyes,
            }
        }
    undo = None if node.compensate is None else {"undo": node.compensate, "on_unknown": node.on_unknown}
    limits = {
        f"{name}_seconds": limit.total_seconds()
        for name, limit in (
            ("start", node.timeouts.start),
            ("attempt", node.timeouts.attempt),
            ("idle", node.timeouts.idle),
        )
        if limit is not None
    }
    return (
        common
        | _used(
            timeouts=(limits, {}),
            resources=(dict(node.resources), {}),
            collect=({parameter: list(names) for parameter, names in node.collect.items()}, {}),
            over=(dict(node.over), {}),
            join=(node.join, "all_succeeded"),
            branch=(node.branch, False),
            expanded=(node.expanded, False),
            compensate=(undo, None),
        )
        | {
            "task": node.task,
            "retry": _write_retry(node.retry),
            "approval": node.approval,
            "queue": node.queue,
            "priority": node.priority,
            "on_failure": node.on_failure,
        }
    )
