"""
Whether the rows of a ledger are what was written: pure decisions over rows (semantics section 1).

Three things vouch for a row: its own signature (transitions, envelopes), what another row says of it (a task
knows the ends of its chains, an effect the hash of its intent), and in a finished run the seal. What nothing
vouches for is listed in ``docs/operations.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from louver.approvals import usage
from louver.audit import ChainWalk
from louver.canonical import fingerprint
from louver.cloudevents import identity, parse_event, payload_fingerprint
from louver.errors import EventRejected, IntegrityError
from louver.ledger.acceptance_signatures import check_acceptance, what_breaks
from louver.ledger.approval_signatures import check_signature
from louver.ledger.findings import Finding
from louver.ledger.names import Decision, EffectKind, EffectState, TaskKey
from louver.ledger.owners import Expected, binding_in
from louver.ledger.records import (
    AcceptanceRecord,
    ApprovalRecord,
    CheckpointRecord,
    EffectRecord,
    EventRecord,
    PayloadRecord,
    Record,
    RunRecord,
    TaskRecord,
    TransitionRecord,
)
from louver.ledger.rows import Damaged
from louver.seals import Ends
from louver.signing import SigningKeys, digest_of, unseal

__all__ = [
    "MAIN",
    "SIDE",
    "check_acceptances",
    "check_approval",
    "check_commits",
    "check_effect",
    "check_ends",
    "check_payload",
    "check_task",
    "found_at",
    "related",
]

MAIN, SIDE = "main", "side"
"""The chains of a task."""

_Effects = Mapping[tuple[str, str, int], EffectRecord]

_ANSWERED = frozenset({Decision.APPROVED, Decision.REJECTED, Decision.STOPPED})
_COMMITTED = frozenset({EffectState.COMMITTED, EffectState.UNDONE, EffectState.UNDO_FAILED})


def found_at(row: Record | Damaged, what: str) -> Finding:
    """A finding that names the row."""
    if isinstance(row, Damaged):
        kind = row.kind
        told: Mapping[str, Any] = dict(zip(kind.PRIMARY, row.primary, strict=True))
        of: Callable[[str], Any] = told.get
    else:
        kind = type(row)
        of = partial(_value_of, row)
    return Finding(
        table=kind.TABLE,
        what=what,
        dag_id=of("dag_id"),
        run_id=of("run_id"),
        task_id=of("task_id"),
        map_index=-1 if of("map_index") is None else of("map_index"),
        chain=of("chain"),
        version=of("version") if kind is TransitionRecord else None,
        key=_key_of(kind, of),
    )


def _value_of(row: Record, name: str) -> Any:
    return getattr(row, name, None)


def _key_of(kind: type[Record], of: Callable[[str], Any]) -> str | None:
    if kind is EffectRecord:
        return f"{of('scope')} {of('key')}#{of('epoch')}"
    if kind is CheckpointRecord:
        return f"{of('generation')} {of('name')}"
    if kind is AcceptanceRecord:
        return f"{of('incarnation')} {of('number')}"
    name = {ApprovalRecord: "request_id", EventRecord: "identity", PayloadRecord: "payload_id"}.get(kind)
    return None if name is None else str(of(name))


# Tasks and their chains


def check_ends(
    chain: str, walk: ChainWalk, task: TaskRecord | None, sealed: Ends | None, *, key: TaskKey
) -> Iterator[Finding]:
    """
    Whether a chain that was followed to its end ends where the task, and the run's seal, say that it does.

    :param key: names the task, which may be gone.
    """
    version, head = _end(chain, task)
    cut = Finding(
        table=TransitionRecord.TABLE,
        what="",
        dag_id=key.dag_id,
        run_id=key.run_id,
        task_id=key.task_id,
        map_index=key.map_index,
        chain=chain,
        version=walk.version + 1,
    )
    if task is not None and (version, head) != (walk.version, walk.mac):
        if version > walk.version and head != walk.mac:
            yield replace(cut, what=f"it is missing: the task's chain has {version} rows")
            return
        yield found_at(
            task, f"it knows row {version} as the end of its {chain} chain, which goes to row {walk.version}"
        )
    sealed_version, _ = _end(chain, sealed)
    if sealed_version > walk.version:
        yield replace(cut, what=f"it is missing: the run was sealed with {sealed_version} rows of the chain")


def _end(chain: str, holder: TaskRecord | Ends | None) -> tuple[int, str]:
    if holder is None:
        return 0, ""
    if chain == MAIN:
        return holder.version, holder.head
    return holder.side_version, holder.side_head


def check_task(
    task: TaskRecord,
    run: RunRecord | None,
    *,
    main: TransitionRecord | None,
    side: TransitionRecord | None,
) -> Iterator[Finding]:
    """
    Whether a task is where its newest transitions left it.

    :param main: the newest one of its main chain; ``side`` is that of the other.
    """
    if task.version == 0 and task.side_version == 0:
        yield found_at(task, "it has no transitions, and no task is made without one")
    newest = _newest([row for row in (main, side) if row is not None])
    left = [(row.generation, row.attempt, row.to_state) for row in newest]
    if left and (task.generation, task.attempt, task.state) not in left:
        generation, attempt, state = left[-1]
        yield found_at(
            task,
            f"it is {task.state} in generation {task.generation}, attempt {task.attempt}; its newest "
            f"transition led to {state} in generation {generation}, attempt {attempt}",
        )
    if run is not None and not 1 <= task.incarnation <= run.incarnation:
        yield found_at(task, f"it is of incarnation {task.incarnation}, and its run of {run.incarnation}")


def _newest(ends: list[TransitionRecord]) -> list[TransitionRecord]:
    """Of the ends of both chains the newer one, or both where nothing tells: their times may be told late."""
    furthest = max(((row.generation, row.attempt) for row in ends), default=None)
    ends = [row for row in ends if (row.generation, row.attempt) == furthest]
    if len(ends) == 2:
        one, other = ends
        after = [row for row, before in ((one, other), (other, one)) if row.from_state is before.to_state]
        return after if len(after) == 1 else ends
    return ends


# Effects and approvals


def related(effect: EffectRecord) -> list[tuple[str, str, int]]:
    """Scope, key and epoch of the effects that :func:`check_effect` wants to see beside this one."""
    if effect.kind is EffectKind.UNDO:
        original = _original(effect)
        return [] if original is None else [original]
    return [_undo_of(effect)] if effect.state is EffectState.UNDONE else []


def _undo_of(effect: EffectRecord) -> tuple[str, str, int]:
    # An undo has one epoch: it is never undone itself.
    return effect.scope, f"undo:{effect.reference}", 1


def _original(undo: EffectRecord) -> tuple[str, str, int] | None:
    key, _, epoch = (undo.undoes or "").rpartition("#")
    fits = undo.key == f"undo:{undo.undoes}" and epoch.isascii() and epoch.isdigit() and len(epoch) < 19
    return (undo.scope, key, int(epoch)) if fits else None


def check_effect(
    effect: EffectRecord, effects: _Effects, approvals: Mapping[str, ApprovalRecord]
) -> Iterator[Finding]:
    """
    Whether what an effect says of itself, its undo, what it undoes and its approval say of it.

    :param effects: by scope, key and epoch: those of the run, and those that they refer to.
    :param approvals: of the run, by their ids.
    """
    for prefix, scope in (("run:", f"run:{effect.dag_id}:{effect.run_id}"), ("dag:", f"dag:{effect.dag_id}")):
        if effect.scope.startswith(prefix) and effect.scope != scope:
            yield found_at(effect, f"its scope is not that of its {prefix[:-1]}")
    # An unknown one may be undone, or given up, without ever having been committed.
    placed = effect.commit_sequence is not None
    if (placed and effect.state not in _COMMITTED) or (not placed and effect.state is EffectState.COMMITTED):
        yield found_at(effect, f"it is {effect.state}, and its place among the commits says otherwise")
    if effect.kind is EffectKind.UNDO:
        yield from _check_undo(effect, effects)
    elif effect.undoes is not None:
        yield found_at(effect, "it is no undo and says that it undoes something")
    elif effect.state is EffectState.UNDONE:
        undo = effects.get(_undo_of(effect))
        if undo is None or undo.state is not EffectState.COMMITTED:
            yield found_at(effect, "it is undone, and no committed undo says so")
    asked = approvals.get(effect.approval_id) if effect.approval_id is not None else None
    if asked is not None and asked.consumed_by != usage(effect.reference, effect.intent_hash):
        yield found_at(effect, "the approval that allowed it was used by another effect, or by none")


def _check_undo(undo: EffectRecord, effects: _Effects) -> Iterator[Finding]:
    named = _original(undo)
    original = None if named is None else effects.get(named)
    if named is None:
        yield found_at(undo, "it is an undo, and its key is not that of what it undoes")
    elif original is None:
        yield found_at(undo, "the effect that it undoes is gone")
    elif undo.state is EffectState.COMMITTED and original.state is not EffectState.UNDONE:
        yield found_at(original, f"its undo is committed, and it is {original.state}")


def check_commits(run: RunRecord, effects: Collection[EffectRecord]) -> Iterator[Finding]:
    """Whether the run counted the commits of its effects, and gave each a place of its own."""
    taken: dict[int, EffectRecord] = {}
    for effect in effects:
        if effect.commit_sequence is not None:
            if effect.commit_sequence in taken or effect.commit_sequence < 1:
                yield found_at(effect, f"it has no place of its own: it is commit {effect.commit_sequence}")
            taken[effect.commit_sequence] = effect
    if max(taken, default=0) != run.commits:
        yield found_at(run, f"it counts {run.commits} commits, and the last is {max(taken, default=0)}")


def check_approval(approval: ApprovalRecord, *, keys: SigningKeys) -> Iterator[Finding]:
    """Whether the request is what was signed, and what it says of its decision and its use fits together."""
    try:
        check_signature(approval, keys=keys)
    except IntegrityError as error:
        yield found_at(approval, str(error))
        return
    decided = approval.decision is not Decision.PENDING
    if (
        decided is not (approval.decided_at is not None)
        or (approval.decision in _ANSWERED) is not bool(approval.decided_by)
        or (approval.consumed_by is None) is not (approval.consumed_at is None)
        or (approval.consumed_by is not None and approval.decision is not Decision.APPROVED)
    ):
        yield found_at(approval, f"it is {approval.decision}, and by whom, when or for what says otherwise")


def check_acceptances(
    run: RunRecord, accepted: Collection[AcceptanceRecord], *, keys: SigningKeys
) -> Iterator[Finding]:
    """
    Whether each acceptance is what was signed, and they lead to the definition that the run's record names.

    :param accepted: all that the ledger has under the run's id, those of a deleted run too.
    """
    for one in accepted:
        try:
            check_acceptance(one, keys=keys)
        except IntegrityError as error:
            yield found_at(one, str(error))
    present = sorted(
        (one for one in accepted if one.incarnation == run.incarnation), key=attrgetter("number")
    )
    broken = what_breaks(run, present)
    if broken is not None:
        yield found_at(run, broken)
    for one in accepted:
        if one.incarnation > run.incarnation:
            yield found_at(one, "it is of a later run than there is")


# Payloads


def check_payload(expected: Expected, found: PayloadRecord, *, keys: SigningKeys) -> Iterator[Finding]:
    """
    Whether a payload is what was signed for the row that has it, and what the row says of it.

    :param found: the payload that lies under the id.
    """
    owner = expected.owner
    try:
        value = _unsealed(expected, found, keys=keys)
    except IntegrityError as error:
        yield replace(found_at(owner, str(error)), table=PayloadRecord.TABLE, key=expected.payload_id)
        return
    if expected.digest is not None and expected.digest != digest_of(found.envelope):
        yield found_at(owner, "its value is not the one that was recorded: the digests differ")
    if expected.fingerprint is not None and expected.fingerprint != fingerprint(value):
        name = "intent_hash" if isinstance(owner, EffectRecord) else "payload_fingerprint"
        yield found_at(owner, f"its {name} is not that of its payload")
    if expected.saved_at is not None and expected.saved_at != found.saved_at:
        yield found_at(owner, "its payload was saved at another time than it says")
    if isinstance(owner, EventRecord):
        yield from _check_event(owner, value)
    elif isinstance(owner, RunRecord):
        yield from _check_definition(owner, value)


def _unsealed(expected: Expected, found: PayloadRecord, *, keys: SigningKeys) -> Any:
    try:
        return unseal(found.envelope, binding=_binding(expected, found), keys=keys)
    except IntegrityError as error:
        for binding in expected.earlier:
            with suppress(IntegrityError):
                return unseal(found.envelope, binding=binding, keys=keys)
        raise error from None


def _binding(expected: Expected, found: PayloadRecord) -> Mapping[str, Any]:
    if expected.binding.get("definition") != "":
        return expected.binding
    # Saved under a definition that the run no longer names; which one, the envelope alone can say.
    said = binding_in(found.envelope) or {}
    return {**expected.binding, "definition": said.get("definition", "")}


def _check_event(event: EventRecord, value: Any) -> Iterator[Finding]:
    raw = value.get("raw") if isinstance(value, dict) else None
    if not isinstance(raw, bytes):
        return
    try:
        parsed = parse_event(raw)
    except EventRejected:
        # Signed and taken in; this release would not take it in any more.
        return
    if event.payload_fingerprint != payload_fingerprint(parsed):
        yield found_at(event, "its payload_fingerprint is not that of its payload")
    if event.identity != hashlib.sha256(identity(parsed).encode("utf-8")).hexdigest():
        yield found_at(event, "its identity is not that of its payload")


def _check_definition(run: RunRecord, form: Any) -> Iterator[Finding]:
    for name in ("name", "version"):
        said = form.get(name) if isinstance(form, dict) else None
        if said is not None and said != getattr(run, f"definition_{name}"):
            yield found_at(run, f"its definition_{name} is not that of its definition")
