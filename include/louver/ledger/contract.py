"""
The store contract: value objects in and out, atomic operations named by what they decide.

Each operation is one transaction: it happens whole or not at all. Those that take a :class:`Token` are
conditional on it and raise :class:`~louver.errors.Superseded` where another process has taken the task over.
Every operation may raise :class:`~louver.errors.LedgerUnavailable` or :class:`~louver.errors.LedgerClosed`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from louver.approvals import Answer, Evidence
from louver.ledger.budget_contract import Budgets
from louver.ledger.checkpoint_contract import SavedStates
from louver.ledger.dead_letter_contract import DeadLetters
from louver.ledger.human_queue_contract import HumanQueue
from louver.ledger.maintenance_contract import Maintenance
from louver.ledger.names import RunKey, TaskKey, Token
from louver.ledger.permit_contract import Permits
from louver.ledger.records import (
    ApprovalRecord,
    CommandRecord,
    EffectRecord,
    EventRecord,
    LeaseRecord,
    RunRecord,
    SealRecord,
    TaskRecord,
    TouchRecord,
    TransitionRecord,
)
from louver.ledger.requests import (
    ApprovalRequest,
    Begun,
    Capability,
    CommandRequest,
    EffectRequest,
    EventOutcome,
    OpenedTask,
    Progress,
    RunFilter,
    RunStart,
)
from louver.ledger.survey_contract import Surveys
from louver.ledger.version_contract import Versions
from louver.sessions import Change, Claim
from louver.states import RunState, Source

__all__ = ["Ledger"]


class Ledger(Maintenance, Surveys, DeadLetters, HumanQueue, Budgets, Permits, Versions, SavedStates):
    """Where Louver keeps what is true."""

    CAPABILITIES: ClassVar[frozenset[Capability]] = frozenset()
    """What this store offers; see :func:`louver.ledger.capabilities.require`."""

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give everything back; twice is fine, use afterwards raises ``LedgerClosed``."""

    # Runs

    @abstractmethod
    def open_run(self, start: RunStart, *, now: datetime) -> RunRecord:
        """
        The run, made if it is new.

        Another ``marker`` than the stored one means that the run was deleted and made again: its incarnation
        rises and it starts afresh. One that was opened without a marker learns it and is the same run. The
        stored definition is otherwise left alone; the caller compares.
        """

    @abstractmethod
    def get_run(self, key: RunKey) -> RunRecord | None:
        """The run, or None."""

    @abstractmethod
    def load_definition(self, definition_fingerprint: str) -> Mapping[str, Any]:
        """
        The plain form of a definition that a run was opened with.

        :raises IntegrityError: where it is missing or not what was signed.
        """

    @abstractmethod
    def list_runs(self, wanted: RunFilter) -> list[RunRecord]:
        """Runs that meet the filter, the newest first; those of one moment by their names, falling too."""

    @abstractmethod
    def set_run_state(self, key: RunKey, state: RunState, *, reason: str | None, now: datetime) -> None:
        """
        Store the state that was computed; a cache (semantics section 2).

        A terminal one seals the run, as :meth:`seal_run` does.
        """

    @abstractmethod
    def seal_run(self, key: RunKey, *, now: datetime) -> SealRecord:
        """
        Sign what the chains of the run's tasks end with, replacing an earlier seal of the run.

        :raises LedgerError: where the run is not in the ledger.
        """

    @abstractmethod
    def get_seal(self, key: RunKey) -> SealRecord | None:
        """
        The run's seal, or None where it has not finished, or has not been sealed yet.

        A seal of the deleted run, where it was made again under its id, is not this run's.
        """

    # Tasks

    @abstractmethod
    def open_task(self, key: TaskKey, claim: Claim, *, now: datetime) -> OpenedTask:
        """
        Take hold of a task of a run that is open.

        :raises Superseded: see :func:`louver.sessions.plan_opening`.
        """

    @abstractmethod
    def advance(self, token: Token, *changes: Change, now: datetime) -> tuple[TransitionRecord, ...]:
        """
        Append transitions to the task's main chain.

        :raises IllegalTransition: where the table does not allow one; then none is appended.
        """

    @abstractmethod
    def complete(self, token: Token, change: Change, result: Any, *, now: datetime) -> TransitionRecord:
        """
        Keep the result as signed checkpoint and append the closing transition, together.

        :raises ValueRefused: where the result is outside the typed value rules; nothing was written.
        """

    @abstractmethod
    def park(
        self, token: Token, change: Change, *, nonce: str, request: ApprovalRequest, now: datetime
    ) -> tuple[ApprovalRecord, TransitionRecord]:
        """
        Append the transition to ``paused``, with the nonce that a resume must present and the request asked.

        A pending request of the same task, generation and facts is kept instead of a second one; any other
        pending request of the task becomes void.
        """

    @abstractmethod
    def mark(
        self,
        key: TaskKey,
        change: Change,
        *,
        session: int,
        source: Source,
        max_tries: int | None = None,
        now: datetime,
    ) -> TransitionRecord | None:
        """
        Append to the side chain of a task held by nobody who could still write, and fence it.

        :param session: the session that was seen; where another has opened it since, nothing is done and the
            answer is None.
        :param max_tries: Airflow's, where it is known. A process that comes late has no more than these; with
            more of them the task was cleared (:func:`louver.sessions.plan_opening`).
        """

    @abstractmethod
    def get_task(self, key: TaskKey) -> TaskRecord | None:
        """The task's record, or None."""

    @abstractmethod
    def list_tasks(self, run: RunKey) -> list[TaskRecord]:
        """The tasks of the run that have a record."""

    @abstractmethod
    def list_transitions(self, run: RunKey, *, task_id: str | None = None) -> list[TransitionRecord]:
        """Transitions of both chains, by time."""

    # Checkpoints and results

    @abstractmethod
    def save_checkpoint(self, token: Token, name: str, value: Any, *, now: datetime) -> None:
        """
        Keep a value under a name, replacing the one of this generation.

        :raises ValueRefused: where it is outside the typed value rules; nothing was written.
        """

    @abstractmethod
    def load_checkpoint(self, token: Token, name: str, default: Any) -> Any:
        """
        The newest value of this generation, or ``default``.

        :raises IntegrityError: where it is not what was signed.
        """

    @abstractmethod
    def load_result(self, key: TaskKey) -> Any:
        """
        The committed result of a task that succeeded.

        :raises IntegrityError: where it is missing or not what was signed.
        """

    @abstractmethod
    def evidence(self, run: RunKey, task_ids: Iterable[str]) -> Evidence:
        """What the committed results of these tasks amount to now."""

    # Effects

    @abstractmethod
    def begin_effect(self, token: Token, request: EffectRequest, *, now: datetime) -> Begun:
        """
        Begin, or say why not: one decision (semantics section 3, point 2).

        Registers the undo with it, and checks and consumes the approval where one guards the effect.

        :raises EffectConflict: the same key with another intent; checked first.
        :raises EffectUnknown: its undo failed, and a person has not resolved that yet.
        :raises ApprovalStale: see :func:`louver.approvals.check_use`.
        """

    @abstractmethod
    def retry_effect(
        self, token: Token, record: EffectRecord, *, lease_until: datetime, now: datetime
    ) -> EffectRecord | None:
        """
        Unknown to started, in the same epoch and under a new ticket, so that whoever began it before cannot
        end it; None where somebody else was quicker.
        """

    @abstractmethod
    def commit_effect(
        self, token: Token, record: EffectRecord, result: Any, *, now: datetime
    ) -> EffectRecord:
        """
        Record the result. The commit of an undo also turns what it undoes into ``undone``.

        Repeated, by who began it or by who found out what became of an unknown one, it is told what is
        recorded: its first answer was lost on the way. An unknown one that has been settled since, or begun
        again, even if it is unknown once more, stays as it is and is returned so: what the provider said was
        about an earlier act.

        :raises ValueRefused: where the result is outside the typed value rules; the effect stays as it was.
        """

    @abstractmethod
    def fail_effect(self, token: Token, record: EffectRecord, *, reason: str, now: datetime) -> EffectRecord:
        """
        It is proven that nothing happened. Repeated with the same reason, it is told what is recorded; of an
        unknown one that has moved on since, what it is now, as with :meth:`commit_effect`.
        """

    @abstractmethod
    def lose_effect(self, record: EffectRecord, *, reason: str, now: datetime) -> EffectRecord | None:
        """
        Started to unknown, after proof of death or once lease and quiesce are over.

        Conditional on the session, ticket and lease that ``record`` shows; None where they have changed.
        """

    @abstractmethod
    def keep_effect(self, token: Token, record: EffectRecord, *, lease_until: datetime) -> None:
        """Renew the lease of a started effect."""

    @abstractmethod
    def give_up_undo(self, token: Token, record: EffectRecord, *, reason: str, now: datetime) -> EffectRecord:
        """
        An undo used up its attempts: what it should undo is ``undo_failed`` and waits for a person.

        What is undone already stays so, and what was given up already, with its first reason.

        :raises LedgerError: for an undo, and for an effect that is neither ``committed`` nor ``unknown``:
            there is nothing to be undone, or somebody is still at it.
        """

    @abstractmethod
    def get_effect(self, scope: str, key: str) -> EffectRecord | None:
        """The newest epoch of the effect, or None."""

    @abstractmethod
    def list_effects(self, run: RunKey) -> list[EffectRecord]:
        """Effects whose epoch this run began, undos included, in order of their start."""

    @abstractmethod
    def load_effect(self, record: EffectRecord) -> tuple[Any, Any]:
        """Its intent and recorded result (None where there is none yet)."""

    # Approvals

    @abstractmethod
    def decide_approval(self, request_id: str, answer: Answer, *, now: datetime) -> ApprovalRecord:
        """
        Record a person's decision.

        :raises ApprovalClosed: unknown, decided already, or not this person's to decide.
        :raises ApprovalExpired: too late.
        """

    @abstractmethod
    def expire_approval(self, request_id: str, *, now: datetime) -> ApprovalRecord:
        """The request with its time over; a decided one is left alone."""

    @abstractmethod
    def get_approval(self, request_id: str) -> ApprovalRecord | None:
        """The request, or None."""

    @abstractmethod
    def list_approvals(self, run: RunKey) -> list[ApprovalRecord]:
        """The run's requests, in order of asking."""

    @abstractmethod
    def load_approval(self, record: ApprovalRecord) -> Any:
        """The payload that was shown."""

    # Events

    @abstractmethod
    def accept_event(
        self,
        *,
        dag_id: str,
        identity: str,
        payload_fingerprint: str,
        run_id: str,
        event: Mapping[str, Any],
        now: datetime,
    ) -> tuple[EventOutcome, EventRecord]:
        """
        Take an event in, once (semantics section 10).

        :raises EventConflict: the same identity with another payload.
        """

    @abstractmethod
    def confirm_event(self, record: EventRecord, *, now: datetime) -> None:
        """Its run exists."""

    @abstractmethod
    def load_event(self, dag_id: str, identity: str) -> tuple[EventRecord, Mapping[str, Any]] | None:
        """The event as it was accepted, or None."""

    # Commands

    @abstractmethod
    def send_command(self, request: CommandRequest, *, now: datetime) -> CommandRecord:
        """
        Ask for something; the command as it stands, where it was sent before under this id.

        It is for the task's present generation, or for its first where the task has not been opened yet.

        :raises LedgerError: where the run is not in the ledger.
        """

    @abstractmethod
    def claim_commands(
        self, token: Token, *, limit: int = 100, lease_until: datetime, now: datetime
    ) -> tuple[CommandRecord, ...]:
        """
        Take up the open commands of the task that the token holds.

        Stop comes first, then pause, each in order of sending. Those whose claim has run out are open again;
        so are those that an earlier session of the task claimed. Commands for another generation are left
        alone.
        """

    @abstractmethod
    def obey(
        self,
        token: Token,
        command: CommandRecord,
        *changes: Change,
        outcome: str,
        nonce: str | None = None,
        now: datetime,
    ) -> tuple[TransitionRecord, ...] | None:
        """
        Carry a claimed command out: its transitions and its end in one, so that it is carried out once.

        :param nonce: what a resume must present, where the last transition gives the slot back.
        :returns: the transitions; None, and nothing done, where the claim has passed to somebody else.
        :raises IllegalTransition: where the table does not allow one; then none is appended.
        """

    @abstractmethod
    def complete_command(
        self, command: CommandRecord, *, outcome: str, now: datetime
    ) -> CommandRecord | None:
        """
        The command carried out; None where the claim that it shows has passed to somebody else.

        Repeated with the same outcome, it is told what is recorded.
        """

    @abstractmethod
    def refuse_command(self, command: CommandRecord, *, outcome: str, now: datetime) -> CommandRecord | None:
        """
        The command closed and not carried out; open ones may be refused by anybody.

        None, and what is told to a repetition, as above.
        """

    @abstractmethod
    def release_command(self, command: CommandRecord, *, now: datetime) -> CommandRecord | None:
        """The command open again, for whom it is meant. None as above."""

    @abstractmethod
    def list_commands(self, run: RunKey, *, task_id: str | None = None) -> list[CommandRecord]:
        """The run's commands, in order of sending."""

    # Signs of life

    @abstractmethod
    def touch(
        self, token: Token, *, progress: Progress | None = None, persist_failures: int = 0, now: datetime
    ) -> None:
        """
        Say that the task's process lives; it changes nothing that a decision is about.

        Progress alone does not count as a sign of life (row T8): it leaves an earlier heartbeat as it is.
        What a superseded session says is dropped without a word, also where its successor has said nothing
        yet, or opens the task at this very moment.
        """

    @abstractmethod
    def list_touches(self, run: RunKey) -> list[TouchRecord]:
        """The newest signs of life of the run's tasks."""

    # Leases

    @abstractmethod
    def take_lease(
        self, name: str, owner: str, *, lease_until: datetime, now: datetime
    ) -> LeaseRecord | None:
        """Take or renew the lease; None while another owner has it."""

    @abstractmethod
    def give_lease(self, name: str, owner: str, *, now: datetime) -> None:
        """Give the lease back, if it is this owner's."""

    @abstractmethod
    def get_lease(self, name: str) -> LeaseRecord | None:
        """The lease as it stands, or None where nobody ever took it."""
