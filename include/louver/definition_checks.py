"""
What the nodes of a workflow are held to together: each is there, none waits for itself, approvals and
branches fit what stands around them. Errors name the node and the attribute (row W4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from louver.errors import DefinitionError
from louver.nodes import ApprovalNode, Node, Step

__all__ = ["check_approvals", "check_branches", "check_edges", "check_event", "check_mapped", "check_order"]


def check_edges(nodes: Sequence[Node], *, params: Sequence[str]) -> None:
    """:raises DefinitionError: a duplicate name, a self-dependency, an unknown node or run parameter."""
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise DefinitionError("another step has this name", node=node.name, attribute="name")
        seen.add(node.name)
    for node in nodes:
        for attribute, upstream in _edges(node):
            if upstream == node.name:
                raise DefinitionError("depends on itself", node=node.name, attribute=attribute)
            if upstream not in seen:
                raise DefinitionError(
                    f"depends on {upstream!r}, which is not a step of this workflow; "
                    f"there are: {', '.join(sorted(seen))}",
                    node=node.name,
                    attribute=attribute,
                )
        for parameter in node.params.values():
            if parameter not in params:
                raise DefinitionError(
                    f"takes run parameter {parameter!r}, which the workflow does not declare",
                    node=node.name,
                    attribute="params",
                )


def _edges(node: Node) -> list[tuple[str, str]]:
    """Attribute and upstream node; ``after`` too is blamed as ``deps``, from where it may have come."""
    return [
        *(("deps", name) for name in node.inputs.values()),
        *(("collect", name) for names in node.collect.values() for name in names),
        *(("over", name) for name in node.over.values()),
        *(("deps", name) for name in node.after),
    ]


def check_order(nodes: Sequence[Node]) -> None:
    """:raises DefinitionError: naming those, and only those, who wait for each other."""
    waiting = {node.name: set(node.upstream) for node in nodes}
    behind: dict[str, list[str]] = {name: [] for name in waiting}
    for name, upstream in waiting.items():
        for other in upstream:
            behind[other].append(name)
    free = [name for name, upstream in waiting.items() if not upstream]
    while free:
        done = free.pop()
        del waiting[done]
        for name in behind[done]:
            waiting[name].discard(done)
            if not waiting[name]:
                free.append(name)
    # What only waits for the cycle is not to blame for it.
    while idle := set(waiting).difference(*waiting.values()):
        for name in idle:
            del waiting[name]
    if waiting:
        raise DefinitionError(
            f"these steps wait for each other in a cycle: {', '.join(waiting)}",
            node=next(iter(waiting)),
            attribute="deps",
        )


def check_approvals(nodes: Sequence[Node], *, ancestors: Mapping[str, Sequence[str]]) -> None:
    """
    Hold an approval and the step that acts on it to each other.

    :param ancestors: of every step with an approval, all that it waits for, directly or not.
    :raises DefinitionError: where one does not name the other, or the step does not wait.
    """
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        if isinstance(node, ApprovalNode):
            acting = by_name.get(node.of)
            if not isinstance(acting, Step) or acting.approval != node.name:
                raise DefinitionError(
                    f"{node.of!r} must be a step with approval {node.name!r}",
                    node=node.name,
                    attribute="approve.of",
                )
        elif node.approval is not None:
            asking = by_name.get(node.approval)
            if not isinstance(asking, ApprovalNode) or asking.of != node.name:
                raise DefinitionError(
                    f"{node.approval!r} must be an approval of {node.name!r}",
                    node=node.name,
                    attribute="approval",
                )
            if node.approval not in ancestors[node.name]:
                raise DefinitionError(
                    f"must wait for {node.approval!r}; name it in deps or after",
                    node=node.name,
                    attribute="approval",
                )


def check_branches(nodes: Sequence[Node]) -> None:
    """:raises DefinitionError: a branch with nothing to choose, or a choice that another rule overrules."""
    branches = {node.name for node in nodes if node.branch}
    for name in branches:
        if not any(name in node.upstream for node in nodes):
            raise DefinitionError(
                "no node waits directly for this branch, so it has nothing to choose; name it in the deps "
                "or after of what it chooses between",
                node=name,
                attribute="branch",
            )
    for node in nodes:
        deciding = [name for name in node.upstream if name in branches]
        if deciding and node.join != "all_succeeded":
            raise DefinitionError(
                f"waits directly for the branch {deciding[0]!r}, which alone decides whether it runs, so its "
                f"join is all_succeeded; to join what was chosen, wait for the chosen steps instead",
                node=node.name,
                attribute="join",
            )


def check_mapped(nodes: Sequence[Node]) -> None:
    """:raises DefinitionError: a step mapped over what never gives a list of items."""
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        for name in node.over.values():
            if isinstance(by_name[name], ApprovalNode):
                raise DefinitionError(
                    f"{name!r} is an approval, which gives no list", node=node.name, attribute="over"
                )
            if by_name[name].branch:
                raise DefinitionError(
                    f"{name!r} is a branch, whose result is the names that it chose",
                    node=node.name,
                    attribute="over",
                )


def check_event(nodes: Sequence[Node], *, params: Sequence[str]) -> None:
    """:raises DefinitionError: where a workflow that an event starts could not take it in."""
    roots = [node.name for node in nodes if not node.upstream]
    if len(roots) != 1:
        raise DefinitionError(
            "a workflow that an event starts has one root step, which takes the event in; "
            f"here are {len(roots)}: {', '.join(roots)}",
            attribute="event_type",
        )
    if tuple(params) != ("event",):
        raise DefinitionError(
            "a workflow that an event starts has the one parameter 'event'", attribute="params"
        )
