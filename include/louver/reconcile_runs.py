"""
Pure: the states of a run's nodes and what the platform shows of the run in; repairs out (section 9).

A run that the platform has ended from outside is compensated by a task of its own, once for what is
outstanding; a run that is over is closed where its own closing tasks could not do so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from louver.compensation import tally
from louver.definition import Definition
from louver.evaluation import evaluate, final_state
from louver.ledger.records import EffectRecord, RunRecord
from louver.repairs import Chain, CloseRun, Compensate, SetRunState
from louver.states import TaskState

__all__ = ["Undoing", "decide_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """
    What has been started already to compensate a run from outside.

    :param active: one is at work, or about to be.
    :param started: how many there were.
    :param outstanding: what the last one was started for.
    """

    active: bool = False
    started: int = 0
    outstanding: str | None = None


def decide_run(
    run: RunRecord,
    definition: Definition,
    states: Mapping[str, TaskState],
    *,
    over: bool,
    effects: Callable[[], list[EffectRecord]],
    undoing: Callable[[], Undoing],
    paused: Collection[str] = (),
) -> Chain:
    """
    What has to be repaired about a run, once its tasks are.

    :param states: of its nodes, with the repairs of this round.
    :param over: the platform does nothing more about it.
    :param effects: of the run; asked only where it ended without success.
    :param undoing: asked only where effects are outstanding.
    :param paused: nodes that people paused; others that are ``paused`` wait for an approval.
    """
    forward = evaluate(definition, states, paused=paused).forward
    if not forward.terminal:
        if forward is run.state or over:
            return ()
        return (SetRunState(run=run.key, state=forward, why=f"it was held for {run.state}"),)
    if not over:
        # Its closing tasks are still to come, and say it themselves.
        return ()
    found = effects() if not forward.success else []
    count = tally(found)
    state = final_state(
        forward,
        undone=count.undone,
        failed=count.failed,
        outstanding=count.outstanding,
        stop=definition.compensation.stops,
    )
    if state.terminal:
        if state is run.state:
            return ()
        return (CloseRun(run=run.key, state=state, why=f"it is over and was held for {run.state}"),)
    chain: Chain = ()
    if run.state is not state:
        chain = (SetRunState(run=run.key, state=state, why=f"it is over and was held for {run.state}"),)
    outstanding = _fingerprint(effect for effect in found if tally([effect]).outstanding)
    known = undoing()
    if known.active or known.outstanding == outstanding:
        return chain
    why = f"it is over, its steps ended {forward}, and {count.outstanding} of its effects still stand"
    return (*chain, Compensate(run=run, number=known.started + 1, outstanding=outstanding, why=why))


def _fingerprint(effects: Iterable[EffectRecord]) -> str:
    names = sorted((effect.scope, effect.reference) for effect in effects)
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]
