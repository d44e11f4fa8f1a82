"""
What an approval is bound to, and whether it still holds: pure decisions (semantics section 6).

An approval allows one effect with one intent, once, while everything it was shown is unchanged. It is checked
when the answer arrives, when the task resumes, and inside the transaction that begins the effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from louver.canonical import fingerprint
from louver.errors import ApprovalClosed, ApprovalExpired, ApprovalStale, ConfigurationError
from louver.ledger.names import Decision
from louver.ledger.records import ApprovalRecord, CheckpointRecord

__all__ = [
    "APPROVE",
    "OPTIONS",
    "REJECT",
    "STOP",
    "Answer",
    "Evidence",
    "answer_from",
    "check_answerable",
    "check_facts",
    "check_use",
    "decide",
    "evidence_of",
    "expire",
    "usage",
]

APPROVE, REJECT, STOP = "Approve", "Reject", "Stop"

OPTIONS: tuple[str, ...] = (APPROVE, REJECT, STOP)
"""The fixed options of every request; an answer is exactly one of them."""

_DECISIONS = {APPROVE: Decision.APPROVED, REJECT: Decision.REJECTED, STOP: Decision.STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    What a person said.

    :param decision: approved, rejected or stopped.
    :param by: the user's name; without one nothing is ever approved.
    :param user_id: the user's id, where it is another text than the name.
    :raises ConfigurationError: for any other decision.
    """

    decision: Decision
    by: str | None
    user_id: str | None = None

    def __post_init__(self) -> None:
        if self.decision not in _DECISIONS.values():
            raise ConfigurationError(f"a person approves, rejects or stops; {self.decision} is no answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """
    What the approval was shown of its ancestors' results.

    :param state_version: how many of them have a committed result.
    :param fingerprint: hash over task, map index, generation and digest of each.
    """

    state_version: int
    fingerprint: str


def answer_from(chosen: Iterable[str], *, by: str | None, user_id: str | None = None) -> Answer:
    """
    The answer behind the options a person chose.

    :raises ApprovalClosed: unless it is exactly one legal option, spelled exactly (case G05).
    """
    options = list(chosen)
    if len(options) != 1 or not isinstance(options[0], str) or options[0] not in _DECISIONS:
        raise ApprovalClosed(f"answer with exactly one of {', '.join(OPTIONS)}; the request stays open")
    return Answer(decision=_DECISIONS[options[0]], by=by, user_id=user_id)


def evidence_of(results: Iterable[CheckpointRecord]) -> Evidence:
    """What the given committed results amount to; their order does not matter."""
    rows = sorted([result.task_id, result.map_index, result.generation, result.digest] for result in results)
    return Evidence(state_version=len(rows), fingerprint=fingerprint(rows))


def check_answerable(
    name: str, *, approvers: Collection[str], four_eyes: bool, requester: str | None
) -> None:
    """
    Whether the request may be made: somebody could approve it, as :func:`decide` decides (case G06).

    Told by the texts alone: that a name and an id are the same person's is seen only where that person
    answers. Where nobody knows who started the run, four eyes keep nobody from approving.

    :param name: of the approval.
    :raises ConfigurationError: where whoever may decide it is who started the run.
    """
    if four_eyes and requester is not None and set(approvers) == {requester}:
        raise ConfigurationError(
            f"approval {name!r} would wait for ever: only {requester!r} may decide it (approvers), and with "
            "four_eyes may not approve it, having started the run. Start the run as somebody else, or name "
            "another approver in the definition"
        )


def decide(record: ApprovalRecord, answer: Answer, *, now: datetime) -> ApprovalRecord:
    """
    The request after the answer.

    :raises ApprovalClosed: where it is decided already, or this person may not decide it.
    :raises ApprovalExpired: where the answer is late; expiry never approves.
    """
    if record.decision is not Decision.PENDING:
        raise ApprovalClosed(f"request {record.request_id} is {record.decision} already")
    if record.expires_at is not None and now >= record.expires_at:
        raise ApprovalExpired(f"request {record.request_id} expired at {record.expires_at.isoformat()}")
    if not answer.by:
        raise ApprovalClosed(f"request {record.request_id}: an answer without a person decides nothing")
    if record.approvers and not {answer.by, answer.user_id} & set(record.approvers):
        raise ApprovalClosed(f"request {record.request_id}: this user may not decide it")
    own = record.requester in (answer.by, answer.user_id) and record.requester is not None
    if record.four_eyes and own and answer.decision is Decision.APPROVED:
        raise ApprovalClosed(f"request {record.request_id}: who started the run may not approve it")
    return replace(record, decision=answer.decision, decided_by=answer.by, decided_at=now)


def expire(record: ApprovalRecord, *, now: datetime) -> ApprovalRecord:
    """The request once its time is over; a decided one stays as it is."""
    if record.decision is not Decision.PENDING:
        return record
    return replace(record, decision=Decision.EXPIRED, decided_at=now)


def usage(reference: str, intent_hash: str) -> str:
    """What ``consumed_by`` holds: the effect's ``key#epoch`` and its intent."""
    return f"{reference}:{intent_hash}"


def check_facts(
    record: ApprovalRecord | None,
    *,
    definition_fingerprint: str,
    definition_version: str,
    evidence: Evidence,
    payload_fingerprint: str,
) -> ApprovalRecord:
    """
    The request, if it is approved and everything it is bound to is as it was.

    :param record: the newest request for the acting step.
    :param evidence: of the same ancestors, as they are now.
    :raises ApprovalStale: naming the bound fact that differs.
    """
    if record is None or record.decision is not Decision.APPROVED:
        state = "was asked for" if record is None else f"is given: the request is {record.decision}"
        raise ApprovalStale(f"no approval {state}")
    facts = (
        ("the definition's version", record.definition_version, definition_version),
        ("the definition's fingerprint", record.definition_fingerprint, definition_fingerprint),
        ("the payload (it would be another intent)", record.payload_fingerprint, payload_fingerprint),
        ("the number of committed upstream results", record.state_version, evidence.state_version),
        ("an upstream result", record.upstream_fingerprint, evidence.fingerprint),
    )
    for name, approved, current in facts:
        if approved != current:
            raise ApprovalStale(f"{name} differs from what was approved")
    return record


def check_use(
    record: ApprovalRecord | None,
    *,
    definition_fingerprint: str,
    definition_version: str,
    evidence: Evidence,
    intent_hash: str,
    reference: str,
    now: datetime,
) -> ApprovalRecord:
    """
    The request as used by this effect, if it allows it: every fact holds, it has time left, and nobody else
    has used it. The same effect may begin again.

    :param intent_hash: must equal the approved payload's fingerprint.
    :param reference: ``key#epoch`` of the effect that would begin.
    :raises ApprovalStale: naming what is in the way; nothing was done.
    """
    approved = check_facts(
        record,
        definition_fingerprint=definition_fingerprint,
        definition_version=definition_version,
        evidence=evidence,
        payload_fingerprint=intent_hash,
    )
    use = usage(reference, intent_hash)
    if approved.consumed_by == use:
        return approved
    if approved.consumed_by is not None:
        raise ApprovalStale("it was used already, by another effect")
    if approved.expires_at is not None and now >= approved.expires_at:
        raise ApprovalStale(f"it expired at {approved.expires_at.isoformat()}")
    return replace(approved, consumed_by=use, consumed_at=now)
