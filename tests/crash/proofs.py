"""What must be true of a ledger after any crash, and what a run left behind that is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from louver.audit import mac_of
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, EffectState, RunKey
from louver.ledger.records import (
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    EventRecord,
    PayloadRecord,
    RunRecord,
    SealRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.task_operations import definition_payload, seal_binding
from louver.maintenance import verify_ledger
from louver.seals import Ends, read_seal
from louver.signing import SigningKeys, digest_of, unseal
from louver.states import RunState

__all__ = ["faults_in", "faults_of_all"]


def faults_in(ledger: Ledger, run: RunKey, *, keys: SigningKeys, state: RunState) -> Iterator[str]:
    """
    What is wrong with a run that is over, in words.

    :param state: that it must have come to.
    """
    record = ledger.get_run(run)
    if record is None or record.state is not state:
        yield f"the run is {record and record.state}, not {state}"
    tasks = ledger.list_tasks(run)
    for task in tasks:
        if not task.state.terminal:
            yield f"{task.task_id} is {task.state} for ever"
    yield from _chains(tasks, ledger.list_transitions(run), keys)
    yield from _seal(ledger.get_seal(run), run, tasks, keys)
    yield from _effects(ledger, record, ledger.list_effects(run))
    yield from _values(ledger, run)
    for command in ledger.list_commands(run):
        if command.state in (CommandState.PENDING, CommandState.CLAIMED):
            yield f"command {command.command_id} is {command.state} for ever"
    for task in tasks:
        if task.state.value == "succeeded":
            ledger.load_result(task.key)


def _chains(tasks: list[TaskRecord], transitions: list[TransitionRecord], keys: SigningKeys) -> Iterator[str]:
    chains: dict[tuple[str, int, str], list[TransitionRecord]] = defaultdict(list)
    for row in transitions:
        chains[row.task_id, row.map_index, row.chain].append(row)
    for task in tasks:
        for chain, version, head in (
            ("main", task.version, task.head),
            ("side", task.side_version, task.side_head),
        ):
            rows = chains.pop((task.task_id, task.map_index, chain), [])
            place = f"{chain} chain of {task.task_id}"
            if [row.version for row in sorted(rows, key=lambda row: row.version)] != list(
                range(1, version + 1)
            ):
                yield f"{place}: versions {[row.version for row in rows]}, and the task says {version}"
            before = ""
            for row in sorted(rows, key=lambda row: row.version):
                if row.mac != mac_of(row, before, key_id=row.key_id, keys=keys):
                    yield f"{place}: broken at version {row.version}"
                before = row.mac
            if before != head:
                yield f"{place}: it does not end as the task says"
        main = [row for row in transitions if row.task_id == task.task_id and row.chain == "main"]
        for row, after in pairwise(main):
            if row.to_state is not after.from_state:
                yield f"{task.task_id}: from {row.to_state} it went on as {after.from_state}"
    for place in chains:
        yield f"transitions of {place}, which is no task"


def _seal(seal: SealRecord | None, run: RunKey, tasks: list[TaskRecord], keys: SigningKeys) -> Iterator[str]:
    if seal is None:
        yield "the run is not sealed"
        return
    sealed = read_seal(unseal(seal.envelope, binding=seal_binding(run, seal.incarnation), keys=keys))
    ends = {
        (task.task_id, task.map_index): Ends(
            version=task.version,
            head=task.head,
            side_version=task.side_version,
            side_head=task.side_head,
        )
        for task in tasks
    }
    if sealed.ends != ends:
        yield "the seal does not match the ends of the chains"


def _effects(ledger: Ledger, run: RunRecord | None, effects: list[EffectRecord]) -> Iterator[str]:
    places = sorted(effect.commit_sequence for effect in effects if effect.commit_sequence is not None)
    if run is not None and places != list(range(1, run.commits + 1)):
        yield f"places of the commits: {places}, and the run says {run.commits}"
    for effect in effects:
        ledger.load_effect(effect)
        if effect.state is EffectState.STARTED:
            yield f"{effect.reference} is started for ever"
        if effect.undoes is not None and effect.state is EffectState.COMMITTED:
            undone = [other for other in effects if other.reference == effect.undoes]
            if [other.state for other in undone] != [EffectState.UNDONE]:
                yield f"{effect.key} is committed, and what it undoes is {undone}"
    for approval in ledger.list_approvals(run.key if run else RunKey("", "")):
        ledger.load_approval(approval)
        used = [effect for effect in effects if effect.approval_id == approval.request_id]
        if len(used) != (approval.consumed_by is not None):
            yield f"approval {approval.request_id} is used by {approval.consumed_by} and allows {used}"


def _values(ledger: Ledger, run: RunKey) -> Iterator[str]:
    with _rows(ledger) as rows:
        for record in rows.find(CheckpointRecord, dag_id=run.dag_id, run_id=run.run_id):
            payload = rows.peek(PayloadRecord, record.payload)
            if payload is None or digest_of(payload.envelope) != record.digest:
                yield f"checkpoint {record.name} of {record.task_id} is not what its payload is"
            else:
                ledger._restore(rows, record)  # type: ignore[attr-defined]


def faults_of_all(ledger: Ledger) -> list[str]:
    """What is wrong with the ledger as a whole: what does not verify, and what lies there for nobody."""
    findings = [str(finding) for finding in verify_ledger(ledger, limit=10).findings]
    with _rows(ledger) as rows:
        wanted: set[str] = set()
        for effect in rows.find(EffectRecord):
            wanted.add(effect.intent_payload)
            if effect.commit_sequence is not None:
                wanted.add(effect.result_payload)
        for kind in (CheckpointRecord, ApprovalRecord, EventRecord):
            wanted.update(record.payload for record in rows.find(kind))
        wanted.update(definition_payload(run.definition_fingerprint) for run in rows.find(RunRecord))
        # Results and checkpoints from before it was accepted are bound to the definition that it was then.
        wanted.update(definition_payload(one.from_fingerprint) for one in rows.find(AcceptanceRecord))
        kept = {payload.payload_id for payload in rows.find(PayloadRecord)}
    return [*findings, *sorted(kept ^ wanted)]


def _rows(ledger: Ledger) -> Any:
    return ledger._transaction(write=False)  # type: ignore[attr-defined]
