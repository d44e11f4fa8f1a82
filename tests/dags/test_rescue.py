"""The Dag that compensates runs from outside: its task does what their own closing task would have done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from louver.closing import COMPENSATE
from louver.definition import Definition
from louver.errors import ConfigurationError, LedgerError
from louver.ledger.contract import Ledger
from louver.ledger.human_queue_contract import Word
from louver.ledger.names import EffectKind, EffectState, OnUnknown, RunKey, TaskKey
from louver.ledger.requests import EffectRequest
from louver.nodes import Step
from louver.policies import CompensationPolicy
from louver.sessions import Change, Claim
from louver.states import RunState, Source, TaskState
from louver.steps import run_start
from louver_provider.dags import compensation_dag
from louver_provider.hooks import ledger as ledger_hook
from louver_provider.reconciler.rescue import RESCUE_DAG, rescue_conf, rescue_prefix, rescue_target
from louver_provider.runtime import RetryLater

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
RUN = RunKey("line", "r1")
LINE = Definition(
    name="line",
    version="1",
    nodes=[Step(name="one", task="shop.orders:one"), Step(name="two", task="shop.orders:two", deps=["one"])],
)

# What undoes an effect here: one that answers with a text, and one that raises.
WORKS, FAILS = "builtins:str", "builtins:int"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    monkeypatch.setattr(ledger_hook, "_LEDGERS", {})
    with ledger_hook.get_ledger() as opened:
        yield opened


@pytest.fixture
def dag() -> DAG:
    return compensation_dag()


def acted(
    ledger: Ledger, *undos: str, two: TaskState = TaskState.LOST, definition: Definition = LINE
) -> None:
    """The run has done something in its first step, and its second one has ended so."""
    ledger.open_run(run_start(definition, RUN, marker=NOW.isoformat(), requester="ann"), now=NOW)
    claim = Claim(try_number=1, max_tries=2, process="p", source=Source.WORKER)
    token = ledger.open_task(TaskKey("line", "r1", "one"), claim, now=NOW).token
    ledger.advance(token, Change(to=TaskState.RUNNING, trigger="executor:launched"), now=NOW)
    for name, undo in zip(("pay", "ship"), undos, strict=False):
        request = EffectRequest(
            scope="dag:line",
            key=name,
            name=name,
            intent={"amount": 1},
            intent_hash="h" * 64,
            undo=undo,
            on_unknown=OnUnknown.MANUAL,
            provider_idempotent=False,
            lease_until=NOW + timedelta(seconds=1),
            quiesce_seconds=0,
        )
        begun = ledger.begin_effect(token, request, now=NOW)
        ledger.commit_effect(token, begun.record, None, now=NOW)
    done = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
    ledger.complete(token, done, None, now=NOW)
    token = ledger.open_task(TaskKey("line", "r1", "two"), claim, now=NOW).token
    if two is TaskState.LOST:
        lost = Change(to=TaskState.LOST, trigger="runtime:attempt_lost")
        ledger.mark(token.key, lost, session=token.session, source=Source.RECONCILER, now=NOW)


def context(number: int = 1, *, try_number: int = 1, **changes: Any) -> dict[str, Any]:
    """What Airflow tells the task."""
    conf = {**rescue_conf(RUN, number=number, outstanding="o"), **changes}
    run_id = f"{rescue_prefix(RUN)}{number}"
    return {
        "ti": SimpleNamespace(
            dag_id=RESCUE_DAG,
            run_id=run_id,
            task_id=COMPENSATE,
            map_index=-1,
            try_number=try_number,
            max_tries=4,
            id="ti",
        ),
        "dag_run": SimpleNamespace(run_after=NOW, conf=conf),
    }


def test_the_dag_waits_for_nobody_to_unpause_it(dag: DAG) -> None:
    assert (dag.dag_id, dag.task_ids) == (RESCUE_DAG, [COMPENSATE])
    assert dag.is_paused_upon_creation is False


def test_what_stands_is_undone_and_the_run_closed_and_sealed(dag: DAG, ledger: Ledger) -> None:
    acted(ledger, WORKS)

    done = dag.get_task(COMPENSATE).execute(context())

    assert done == {"forward": "failed", "undone": ["pay#1"], "standing": []}
    states = {effect.kind: effect.state for effect in ledger.list_effects(RUN)}
    assert states == {EffectKind.FORWARD: EffectState.UNDONE, EffectKind.UNDO: EffectState.COMMITTED}
    run = ledger.get_run(RUN)
    assert run is not None
    assert (run.state, run.requester) == (RunState.FAILED_COMPENSATED, "ann")
    assert ledger.get_seal(RUN) is not None
    record = ledger.get_task(TaskKey("line", "r1", COMPENSATE, 1))
    assert record is not None
    assert record.state is TaskState.SUCCEEDED


def test_again_it_finds_what_it_has_done(dag: DAG, ledger: Ledger) -> None:
    """Its report was lost, and Airflow tries it again."""
    acted(ledger, WORKS)
    first = dag.get_task(COMPENSATE).execute(context())

    assert dag.get_task(COMPENSATE).execute(context(try_number=2)) == first
    assert len(ledger.list_effects(RUN)) == 2


def test_what_cannot_be_undone_waits_for_a_person_and_the_run_says_so(dag: DAG, ledger: Ledger) -> None:
    acted(ledger, FAILS)

    with pytest.raises(AirflowFailException, match="wait for a person"):
        dag.get_task(COMPENSATE).execute(context())

    run = ledger.get_run(RUN)
    assert run is not None
    assert run.state is RunState.COMPENSATION_FAILED
    assert ledger.get_seal(RUN) is not None


def test_where_the_workflow_says_so_the_first_failure_ends_it_here_too(dag: DAG, ledger: Ledger) -> None:
    """Case E06; once a person has seen to it, the rest is undone by the next one that is started."""
    stops = replace(LINE, compensation=CompensationPolicy(on_failure="stop"))
    acted(ledger, WORKS, FAILS, definition=stops)

    with pytest.raises(AirflowFailException, match="wait for a person"):
        dag.get_task(COMPENSATE).execute(context())

    def states() -> dict[str, EffectState]:
        return {one.key: one.state for one in ledger.list_effects(RUN) if one.kind is EffectKind.FORWARD}

    def state() -> RunState:
        run = ledger.get_run(RUN)
        assert run is not None
        return run.state

    assert (states(), state()) == (
        {"pay": EffectState.COMMITTED, "ship": EffectState.UNDO_FAILED},
        RunState.COMPENSATION_FAILED,
    )
    (waiting,) = ledger.find_effects(states=[EffectState.UNDO_FAILED])
    word = Word(actor="ann", reason="sent back by hand", source=Source.CLI)
    ledger.settle_effect(waiting, undone=True, word=word, now=NOW)

    dag.get_task(COMPENSATE).execute(context(2))

    assert (set(states().values()), state()) == ({EffectState.UNDONE}, RunState.FAILED_COMPENSATED)


def test_a_run_with_unfinished_steps_is_not_compensated_yet(dag: DAG, ledger: Ledger) -> None:
    acted(ledger, WORKS, two=TaskState.RUNNING)

    with pytest.raises(RetryLater):
        dag.get_task(COMPENSATE).execute(context())

    run = ledger.get_run(RUN)
    assert run is not None
    assert run.state is RunState.RUNNING


def test_a_run_that_nobody_knows_is_an_error(dag: DAG, ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="not in the ledger"):
        dag.get_task(COMPENSATE).execute(context())


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {"dag_id": "line"},
        {"dag_id": "line", "run_id": 1},
        {"dag_id": "line", "run_id": "r1", "number": 0},
        {"dag_id": "line", "run_id": "r1", "number": True},
        {"dag_id": "line", "run_id": "r1", "number": 2**31},
    ],
)
def test_a_run_that_was_started_with_something_else_says_what_it_takes(conf: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="dag_id and run_id"):
        rescue_target(conf)


def test_runs_of_one_name_in_two_dags_are_two(dag: DAG) -> None:
    assert rescue_prefix(RunKey("a", "b/c")) != rescue_prefix(RunKey("a/b", "c"))
    assert rescue_target(rescue_conf(RUN, number=3, outstanding="o")) == (RUN, 3)
