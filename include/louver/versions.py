"""
What becomes of a run whose definition was changed under it: a pure decision (row O14).

A run keeps the rules that it began with. Where another definition is deployed, which the fingerprint tells,
the policy of the *deployed* one says what to do: ``fail`` stops the run, ``finish_old`` goes on under the
recorded definition, ``accept_compatible`` goes on under the deployed one where all that it does is to add
nodes behind the frontier: what the run has reached already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from louver.canonical import fingerprint
from louver.definition import Definition
from louver.nodes import Node

__all__ = ["OPERATIONAL", "ChangeDecision", "Verdict", "behaviour_of", "decide_change", "told"]

OPERATIONAL = ("queue", "priority", "retry", "timeouts", "resources")
"""What may change: it says where, when and how often it is tried, and nothing about what it does."""


class Verdict(str, Enum):
    """
    How a run goes on.

    ``keep_old``: under the recorded definition. ``accept``: under the deployed one. ``refuse``: not at all.
    ``outdated``: not here, but where the definition is deployed that the run is under.
    """

    KEEP_OLD = "keep_old"
    ACCEPT = "accept"
    REFUSE = "refuse"
    OUTDATED = "outdated"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDecision:
    """
    What was decided about a changed definition.

    :param reason: for people: what was changed, and why that is, or is not, all right.
    :param added: nodes that only the deployed definition has, in its order.
    :param node: the node that the reason is about, where it is refused for one.
    """

    verdict: Verdict
    reason: str
    added: tuple[str, ...] = ()
    node: str | None = None


class _Refused(Exception):
    """One reason why it does not work; others may follow."""

    def __init__(self, reason: str, *, node: str | None = None) -> None:
        self.reason = reason
        self.node = node
        super().__init__(reason)


def told(definition: Definition) -> str:
    """The definition, for people: name, version and the beginning of its fingerprint."""
    return f"{definition.name} {definition.version} ({definition.fingerprint[:12]})"


def decide_change(
    policy: str,
    old: Definition,
    new: Definition,
    settled: Collection[str],
    *,
    begun: Collection[str] = (),
    left: bool = False,
) -> ChangeDecision:
    """
    How a run that is under ``old`` goes on where ``new`` is deployed.

    :param policy: ``on_change`` of the deployed definition.
    :param old: the one that the run's record names: it began under it, or has accepted it since.
    :param new: the deployed one.
    :param settled: nodes that are over.
    :param begun: nodes that are not, but have begun: their generation is open.
    :param left: the run was under ``new`` before, and has accepted its way to ``old`` since: ``new`` is what
        an outdated worker has, and never what the run goes back to.
    """
    added = tuple(name for name in new.names if name not in set(old.names))
    over = frozenset(settled)
    reached = over | frozenset(begun)
    if old.fingerprint == new.fingerprint:
        return ChangeDecision(verdict=Verdict.KEEP_OLD, reason="the definition is the same")
    if left:
        return _at_outdated(old, new, reached)
    if policy == "fail":
        return ChangeDecision(verdict=Verdict.REFUSE, reason="the policy on_change is 'fail'", added=added)
    try:
        if policy == "finish_old":
            verdict, reason = Verdict.KEEP_OLD, _finish_old(old, new, over, added)
        else:
            verdict, reason = Verdict.ACCEPT, _accept_compatible(old, new, reached, added)
    except _Refused as refused:
        return ChangeDecision(
            verdict=Verdict.REFUSE,
            reason=f"on_change is {policy!r}, but {refused.reason}",
            added=added,
            node=refused.node,
        )
    return ChangeDecision(verdict=verdict, reason=reason, added=added)


def _at_outdated(old: Definition, new: Definition, reached: frozenset[str]) -> ChangeDecision:
    try:
        _accept_compatible(old, new, reached, ())
    except _Refused as refused:
        return ChangeDecision(
            verdict=Verdict.OUTDATED,
            reason=f"the run has gone on from {told(new)} to {told(old)}; {refused.reason}",
            node=refused.node,
        )
    # All that it does is the same here and there.
    return ChangeDecision(
        verdict=Verdict.KEEP_OLD,
        reason=f"the run has gone on to {told(old)}, which differs in operational settings alone",
    )


# finish_old


def _finish_old(old: Definition, new: Definition, over: frozenset[str], added: tuple[str, ...]) -> str:
    """
    The platform starts the tasks of the deployed Dag, so that one has to bring each node that is left to its
    start where the recorded definition wants it: no earlier, and not kept from it by what is new.
    """
    if old.name != new.name:
        raise _Refused(f"the workflow is called {new.name!r} now")
    if old.aggregation != new.aggregation:
        raise _Refused(
            f"aggregation is {new.aggregation!r} now and was {old.aggregation!r}: Airflow goes by the new one"
        )
    for node in old.nodes:
        if node.name in over:
            continue
        if node.name not in new.names:
            raise _Refused(
                f"step {node.name!r} of the recorded definition is not deployed any more: nobody can run it",
                node=node.name,
            )
        _check_driven(node, old, new)
        missing = sorted(set(node.params.values()) - set(new.params))
        if missing:
            raise _Refused(
                f"{node.name!r} takes the run's parameter {', '.join(map(repr, missing))}, which the "
                "deployed definition does not have",
                node=node.name,
            )
    left_out = f"; left out: {', '.join(added)}" if added else ""
    return f"the run is finished under {told(old)}{left_out}"


def _check_driven(node: Node, old: Definition, new: Definition) -> None:
    deployed = new.node(node.name)
    for attribute, before, after in (
        ("its kind", type(node), type(deployed)),
        ("its join", node.join, deployed.join),
        ("that it is mapped", _mapped_over(node), _mapped_over(deployed)),
        ("that it is a branch", node.branch, deployed.branch),
    ):
        if before != after:
            raise _Refused(
                f"{attribute} was changed at {node.name!r}, and Airflow starts it by the new definition",
                node=node.name,
            )
    waits_for = set(_waits_for(deployed, old, new))
    if waits_for != set(node.upstream):
        raise _Refused(
            f"{node.name!r} waits for {_listed(waits_for)} now and waited for {_listed(node.upstream)}: "
            "Airflow would not start it when the recorded definition wants it",
            node=node.name,
        )


def _mapped_over(node: Node) -> tuple[bool, tuple[str, ...]]:
    return node.mapped, tuple(node.over.values())


def _waits_for(node: Node, old: Definition, new: Definition) -> Iterator[str]:
    """Nodes of the old definition that the node waits for, new ones in between looked through."""
    for name in node.upstream:
        if name in old.names:
            yield name
            continue
        between = new.node(name)
        # It does nothing in this run and ends well: so it must wait for all that stands before it.
        if between.join != "all_succeeded" or between.mapped or between.branch:
            raise _Refused(
                f"{node.name!r} waits for the new {name!r}, which does not hand on what stands before it",
                node=node.name,
            )
        yield from _waits_for(between, old, new)


# accept_compatible


def _accept_compatible(
    old: Definition, new: Definition, reached: frozenset[str], added: tuple[str, ...]
) -> str:
    for attribute in ("name", "params", "event_type", "aggregation"):
        if getattr(old, attribute) != getattr(new, attribute):
            raise _Refused(f"{attribute} was changed: only additions behind the frontier are compatible")
    before_it, after_it = behaviour_of(old), behaviour_of(new)
    for name in old.names:
        if name not in after_it:
            raise _Refused(f"step {name!r} was removed", node=name)
        changed = _changes(before_it[name], after_it[name])
        if changed:
            raise _Refused(
                f"step {name!r} was changed ({', '.join(changed)}): only additions are compatible, and "
                f"of a step only {', '.join(OPERATIONAL)} may change",
                node=name,
            )
    if new.result_node != old.result_node and new.result_node not in added:
        raise _Refused(f"the run's result is that of {new.result_node!r} now, not of {old.result_node!r}")
    frontier = _frontier(old, reached)
    for name in added:
        if reached and not set(new.ancestors(name)) & (frontier | (set(old.names) - reached)):
            raise _Refused(
                f"the new step {name!r} stands beside what the run has passed already: it would have begun "
                f"before {_listed(frontier)}",
                node=name,
            )
    what = f"new: {', '.join(added)}" if added else "nothing but operational settings was changed"
    return f"{told(new)} is compatible with {told(old)}: {what}"


def _frontier(old: Definition, reached: frozenset[str]) -> frozenset[str]:
    """The last nodes that the run has reached: those that no reached one waits for."""
    passed = {name for one in reached & set(old.names) for name in old.ancestors(one)}
    return (reached & set(old.names)) - passed


def behaviour_of(definition: Definition) -> Mapping[str, Mapping[str, Any]]:
    """Node name to its plain form without what is operational: all that decides what it does, and when."""
    return {
        form["name"]: {name: value for name, value in form.items() if name not in OPERATIONAL}
        for form in definition.to_json()["steps"]
    }


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    # By what is written: to Python, True equals 1.
    return sorted(
        name for name in {*before, *after} if fingerprint(before.get(name)) != fingerprint(after.get(name))
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
