"""Stores that break the contract, each in one way, and the check that has to find it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter

from louver.errors import EventConflict, IntegrityError, Superseded
from louver.ledger.effect_operations import EffectOperations
from louver.ledger.memory import MemoryLedger, MemoryRows
from louver.ledger.names import Decision, EffectState
from louver.ledger.records import OF_NO_GENERATION, EffectRecord, PermitRecord, SealRecord, TaskRecord
from louver.ledger.requests import BeginOutcome, Begun, Capability, EventOutcome
from louver.retry_budgets import WhenEmpty

__all__ = ["BROKEN"]


class WithoutFence(MemoryLedger):
    def _hold(self, rows, token):
        key = token.key
        return rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)


class WithoutRollback(MemoryLedger):
    @contextmanager
    def _transaction(self, *, write):
        rows = MemoryRows(self._tables)
        try:
            yield rows
        finally:
            rows.commit()


class WithoutIsolation(MemoryLedger):
    @contextmanager
    def _transaction(self, *, write):
        rows = MemoryRows(self._tables)
        yield rows
        # Long enough for another thread to begin, and to read what is about to change.
        time.sleep(0.002)
        rows.commit()


class NonceWorksTwice(MemoryLedger):
    def open_task(self, key, claim, *, now):
        opened = super().open_task(key, claim, now=now)
        with self._transaction(write=True) as rows:
            rows.update(replace(opened.record, nonce=claim.nonce))
        return opened


class AnySessionMayCommit(MemoryLedger):
    def _begun_by(self, rows, token, record):
        return self._current(rows, record)


class IntentsAreNotCompared(MemoryLedger):
    def begin_effect(self, token, request, *, now):
        known = self.get_effect(request.scope, request.key)
        if known is not None and known.state is not EffectState.FAILED:
            request = replace(request, intent_hash=known.intent_hash)
        return super().begin_effect(token, request, now=now)


class ApprovalsAreNotAsked(MemoryLedger):
    def begin_effect(self, token, request, *, now):
        return super().begin_effect(token, replace(request, guarded_by=None), now=now)


class LosesWhatIsAlive(MemoryLedger):
    def lose_effect(self, record, *, reason, now):
        return super().lose_effect(self.get_effect(record.scope, record.key), reason=reason, now=now)


class UndoSettlesNothing(MemoryLedger):
    def _settle_original(self, rows, undo, state, *, reason, now):
        pass


class AsksEachTime(MemoryLedger):
    def park(self, token, change, *, nonce, request, now):
        for asked in self.list_approvals(token.key.run):
            if asked.task == token.key and asked.decision is Decision.PENDING:
                self.expire_approval(asked.request_id, now=now)
        return super().park(token, change, nonce=nonce, request=request, now=now)


class MarksWithoutFence(MemoryLedger):
    def mark(self, key, change, *, session, source, now):
        row = super().mark(key, change, session=session, source=source, now=now)
        with self._transaction(write=True) as rows:
            record = rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)
            rows.update(replace(record, session=session))
        return row


class ConflictsAreDuplicates(MemoryLedger):
    def accept_event(self, *, dag_id, identity, **given):
        try:
            return super().accept_event(dag_id=dag_id, identity=identity, **given)
        except EventConflict:
            return EventOutcome.DUPLICATE, self.load_event(dag_id, identity)[0]


class MissingResultsAreNone(MemoryLedger):
    def load_result(self, key):
        try:
            return super().load_result(key)
        except IntegrityError:
            return None


class TuplesBecomeLists(MemoryLedger):
    def load_result(self, key):
        found = super().load_result(key)
        return list(found) if isinstance(found, tuple) else found


class ForgetsMicroseconds(MemoryLedger):
    def open_run(self, start, *, now):
        return super().open_run(start, now=now.replace(microsecond=0))


class ClosesNever(MemoryLedger):
    def close(self):
        pass


class TicketsAreForgotten(MemoryLedger):
    def begin_effect(self, token, request, *, now):
        return super().begin_effect(token, replace(request, ticket=f"{request.ticket} {now}"), now=now)


class TicketsAreEverybodys(MemoryLedger):
    def begin_effect(self, token, request, *, now):
        known = self.get_effect(request.scope, request.key)
        if known is not None and known.state is EffectState.STARTED and known.ticket == request.ticket:
            return Begun(outcome=BeginOutcome.BEGUN, record=known)
        return super().begin_effect(token, request, now=now)


class CommitsAreNotRepeated(MemoryLedger):
    def commit_effect(self, token, record, result, *, now):
        if self.get_effect(record.scope, record.key).state is EffectState.COMMITTED:
            raise Superseded
        return super().commit_effect(token, record, result, now=now)


class HappensNow(MemoryLedger):
    def advance(self, token, *changes, now):
        return super().advance(token, *(replace(change, at=None) for change in changes), now=now)


class SignsAllAlike(MemoryLedger):
    def list_transitions(self, run, *, task_id=None):
        return [replace(row, mac="f" * 64) for row in super().list_transitions(run, task_id=task_id)]


class ForgetsTheEndOfTheSideChain(MemoryLedger):
    def get_task(self, key):
        record = super().get_task(key)
        return record and replace(record, side_head="")


class SealsOnce(MemoryLedger):
    def _seal(self, rows, run, *, now):
        return rows.peek(SealRecord, run.dag_id, run.run_id) or super()._seal(rows, run, now=now)


class SealsOnDemand(MemoryLedger):
    def set_run_state(self, key, state, *, reason, now):
        super().set_run_state(key, state, reason=reason, now=now)
        self._tables[SealRecord].pop((key.dag_id, key.run_id), None)


class ListsTiesAsTheyCame(MemoryLedger):
    def list_runs(self, wanted):
        found = super().list_runs(replace(wanted, limit=10_000))
        found.reverse()
        return sorted(found, key=attrgetter("created_at"), reverse=True)[: wanted.limit]


class PagesByTimeAlone(MemoryLedger):
    def list_runs(self, wanted):
        if wanted.after is not None:
            wanted = replace(wanted, after=None, until=wanted.after.created_at)
        return super().list_runs(wanted)


class PagesByCounting(MemoryLedger):
    def list_runs(self, wanted):
        found = super().list_runs(replace(wanted, after=None, limit=10_000))
        keys = [run.key for run in found]
        begin = keys.index(wanted.after.key) + 1 if wanted.after is not None else 0
        return found[begin : begin + wanted.limit]


class SendsTwice(MemoryLedger):
    def send_command(self, request, *, now):
        return super().send_command(replace(request, command_id=f"{request.command_id} {now}"), now=now)


class ClaimsWithoutLease(MemoryLedger):
    def claim_commands(self, token, *, limit=100, lease_until, now):
        return super().claim_commands(token, limit=limit, lease_until=now, now=now)


class ClaimsForAllGenerations(MemoryLedger):
    def claim_commands(self, token, **given):
        tokens = [replace(token, generation=1 + number) for number in range(token.generation)]
        claimed = [super(ClaimsForAllGenerations, self).claim_commands(one, **given) for one in tokens]
        return tuple(command for commands in claimed for command in commands)


class ClaimsInOrderOfSending(MemoryLedger):
    def claim_commands(self, token, **given):
        return tuple(sorted(super().claim_commands(token, **given), key=attrgetter("sent_at")))


class ClaimsAreAnybodys(MemoryLedger):
    def complete_command(self, command, *, outcome, now):
        current = {known.command_id: known for known in self.list_commands(command.task.run)}
        return super().complete_command(current[command.command_id], outcome=outcome, now=now)


class ObeysInTwoWrites(MemoryLedger):
    def obey(self, token, command, *changes, outcome, nonce=None, now):
        written = self.advance(token, *changes, now=now)
        return written if self.complete_command(command, outcome=outcome, now=now) else None


class OldSessionsGiveSignsOfLife(MemoryLedger):
    def touch(self, token, **said):
        held = self.get_task(token.key)
        super().touch(replace(token, session=held.session, try_number=held.try_number), **said)


class MarkersMakeAllRunsAnew(MemoryLedger):
    def open_run(self, start, *, now):
        known = self.get_run(start.key)
        if known is not None and known.marker is None and start.marker is not None:
            with self._transaction(write=True) as rows:
                rows.update(replace(known, marker="unknown"))
        return super().open_run(start, now=now)


class SealsOfTheDeletedRun(MemoryLedger):
    def get_seal(self, key):
        with self._transaction(write=False) as rows:
            return rows.peek(SealRecord, key.dag_id, key.run_id)


class GivesUpAnything(MemoryLedger):
    def give_up_undo(self, token, record, *, reason, now):
        with self._transaction(write=True) as rows:
            self._hold(rows, token)
            given_up = replace(record, state=EffectState.UNDO_FAILED, reason=reason, updated_at=now)
            rows.update(given_up)
        return given_up


class VerifiersAreNotRepeated(MemoryLedger):
    def commit_effect(self, token, record, result, *, now):
        self._refuse_known(record)
        return super().commit_effect(token, record, result, now=now)

    def fail_effect(self, token, record, *, reason, now):
        self._refuse_known(record)
        return super().fail_effect(token, record, reason=reason, now=now)

    def _refuse_known(self, record):
        known = self.get_effect(record.scope, record.key)
        if record.state is EffectState.UNKNOWN and known.state is not EffectState.UNKNOWN:
            raise Superseded


class AnyUnknownIsSettled(MemoryLedger):
    def commit_effect(self, token, record, result, *, now):
        return super().commit_effect(token, self._newest_unknown(record), result, now=now)

    def fail_effect(self, token, record, *, reason, now):
        return super().fail_effect(token, self._newest_unknown(record), reason=reason, now=now)

    def _newest_unknown(self, record):
        known = self.get_effect(record.scope, record.key)
        return known if record.state is known.state is EffectState.UNKNOWN else record


class RetriesKeepTheTicket(MemoryLedger):
    def retry_effect(self, token, record, *, lease_until, now):
        again = super().retry_effect(token, record, lease_until=lease_until, now=now)
        if again is None:
            return None
        kept = replace(again, ticket=record.ticket)
        with self._transaction(write=True) as rows:
            rows.update(kept)
        return kept


class MadeAgainItTakesOverAll(MemoryLedger):
    def open_run(self, start, *, now):
        before = self.list_effects(start.key)
        run = super().open_run(start, now=now)
        with self._transaction(write=True) as rows:
            for effect in before:
                rows.update(effect)
        return run


class MadeAgainItTakesOverNothing(MemoryLedger):
    def open_run(self, start, *, now):
        known = self.get_run(start.key)
        run = super().open_run(start, now=now)
        if known is not None and run.incarnation != known.incarnation:
            with self._transaction(write=True) as rows:
                for effect in self.list_effects(start.key):
                    rows.update(replace(effect, generation=OF_NO_GENERATION))
        return run


class LooksAtTheFirstEpochAlone(MemoryLedger):
    @staticmethod
    def _newest(rows, scope, key):
        first = rows.get(EffectRecord, scope, key, 1)
        return first and EffectOperations._newest(rows, scope, key)


class CommandsAreNotClosedTwice(MemoryLedger):
    def complete_command(self, command, *, outcome, now):
        return super().complete_command(command, outcome=outcome, now=now) if self._open(command) else None

    def refuse_command(self, command, *, outcome, now):
        return super().refuse_command(command, outcome=outcome, now=now) if self._open(command) else None

    def _open(self, command):
        known = {one.command_id: one for one in self.list_commands(command.task.run)}
        return known[command.command_id].closed_at is None


class ProgressIsLife(MemoryLedger):
    def touch(self, token, *, progress=None, persist_failures=0, now):
        super().touch(token, now=now)
        super().touch(token, progress=progress, persist_failures=persist_failures, now=now)


class TouchesTheSnapshot(MemoryLedger):
    def touch(self, token, *, progress=None, persist_failures=0, now):
        super().touch(token, progress=progress, persist_failures=persist_failures, now=now)
        with self._transaction(write=True) as rows:
            record = self._hold(rows, token)
            rows.update(replace(record, version=record.version + 1))


class LeasesAreTaken(MemoryLedger):
    def take_lease(self, name, owner, *, lease_until, now):
        known = self.get_lease(name)
        if known is not None and known.owner != owner:
            self.give_lease(name, known.owner, now=now)
        return super().take_lease(name, owner, lease_until=lease_until, now=now)


class LeasesAreGivenByAnybody(MemoryLedger):
    def give_lease(self, name, owner, *, now):
        known = self.get_lease(name)
        super().give_lease(name, known.owner if known else owner, now=now)


class TermsStandStill(MemoryLedger):
    def take_lease(self, name, owner, *, lease_until, now):
        lease = super().take_lease(name, owner, lease_until=lease_until, now=now)
        return lease and replace(lease, term=1)


class BudgetsAreEachTasks(MemoryLedger):
    def draw_retry(self, token, budgets, **given):
        mine = [replace(budget, resource=f"{budget.resource}/{token.key}") for budget in budgets]
        return super().draw_retry(token, mine, **given)


class DrawsOneByOne(MemoryLedger):
    def draw_retry(self, token, budgets, **given):
        drawn = [super(DrawsOneByOne, self).draw_retry(token, [budget], **given) for budget in budgets]
        return min(drawn, key=lambda one: one.granted)


class WhoWaitsTakesNoTurn(MemoryLedger):
    def draw_retry(self, token, budgets, *, longest_wait, now):
        drawn = super().draw_retry(token, budgets, longest_wait=timedelta(0), now=now)
        wait = max((share.wait for share in drawn.shares), default=timedelta(0))
        waits = all(share.budget.when_empty is WhenEmpty.WAIT for share in drawn.shares)
        return replace(drawn, granted=drawn.granted or (waits and wait <= longest_wait), wait=wait)


class AnotherRateRefills(MemoryLedger):
    def draw_retry(self, token, budgets, **given):
        known = {row.resource: row for row in self.list_retry_budgets()}
        with self._transaction(write=True) as rows:
            for budget in budgets:
                row = known.get(budget.resource)
                if row is not None and row.rate != str(budget.rate):
                    rows.update(replace(row, full_at=given["now"]))
        return super().draw_retry(token, budgets, **given)


class PermitsAreEachTasks(MemoryLedger):
    def take_permit(self, token, needs, *, limits, **given):
        def own(name):
            return f"{name}.{token.key.run_id}"

        mine = {own(name): replace(limit, resource=own(name)) for name, limit in limits.items()}
        return super().take_permit(
            token, {own(name): units for name, units in needs.items()}, limits=mine, **given
        )


class PermitsAreGivenBackByAnybody(MemoryLedger):
    def release_permit(self, key, *, session, terms, now):
        return super().release_permit(key, session=session + 1000, terms=terms, now=now)


class LeasesOfPermitsNeverEnd(MemoryLedger):
    def settle_permits(self, *, limits, terms, now):
        with self._transaction(write=True) as rows:
            for permit in rows.find(PermitRecord):
                if permit.until is not None:
                    rows.update(replace(permit, until=now + terms.lease))
        return super().settle_permits(limits=limits, terms=terms, now=now)


class PlacesAreForgotten(MemoryLedger):
    def take_permit(self, token, needs, **given):
        waiting = [row for row in self.list_permits() if row.task == token.key and row.until is None]
        for row in waiting:
            self.release_permit(row.task, session=row.session, terms=given["terms"], now=given["now"])
        return super().take_permit(token, needs, **given)


class SaysThatItIsShared(MemoryLedger):
    CAPABILITIES = MemoryLedger.CAPABILITIES | {Capability.SHARED}


class SaysThatItIsDurable(MemoryLedger):
    CAPABILITIES = MemoryLedger.CAPABILITIES | {Capability.DURABLE}


class SaysItInItsOwnWords(MemoryLedger):
    CAPABILITIES = frozenset({"listing"})


class RetriedIsDead(MemoryLedger):
    def list_dead_letters(self, wanted):
        return super().list_dead_letters(replace(wanted, retried=True))


class DeadLettersByTimeAlone(MemoryLedger):
    def list_dead_letters(self, wanted):
        whole = super().list_dead_letters(replace(wanted, after=None, limit=10_000))
        after = wanted.after
        found = [letter for letter in whole if after is None or letter.end.at < after.end.at]
        return found[: wanted.limit]


class LiveIsAll(MemoryLedger):
    def count_states(self, *, live=False):
        return super().count_states()


BROKEN = [
    (WithoutFence, "check_advance_by_a_superseded_process_is_refused"),
    (WithoutFence, "check_begin_effect_by_a_superseded_process_is_refused"),
    (WithoutFence, "check_open_run_made_again_fences_the_old_processes"),
    (WithoutFence, "check_save_checkpoint_by_a_superseded_process_is_refused"),
    (WithoutRollback, "check_complete_that_is_illegal_keeps_no_result"),
    (WithoutRollback, "check_park_that_is_illegal_asks_nothing"),
    (WithoutRollback, "check_accept_event_with_a_refused_value_takes_nothing_in"),
    (WithoutIsolation, "check_begin_effect_at_once_begins_once"),
    (WithoutIsolation, "check_begin_effect_by_approval_at_once_consumes_it_once"),
    (WithoutIsolation, "check_open_task_at_once_leaves_one_holder"),
    (WithoutIsolation, "check_commit_effect_at_once_gives_each_its_place"),
    (WithoutIsolation, "check_accept_event_at_once_takes_it_in_once"),
    (NonceWorksTwice, "check_open_task_resumes_by_a_nonce_that_works_once"),
    (AnySessionMayCommit, "check_commit_effect_by_another_session_is_refused"),
    (AnySessionMayCommit, "check_commit_effect_of_what_has_ended_is_refused"),
    (
        IntentsAreNotCompared,
        "check_begin_effect_with_another_intent_is_a_conflict_while_the_known_one_stands",
    ),
    (ApprovalsAreNotAsked, "check_begin_effect_by_approval_without_one_is_refused"),
    (LosesWhatIsAlive, "check_lose_effect_is_conditional_on_lease_and_session"),
    (UndoSettlesNothing, "check_commit_effect_of_an_undo_settles_what_it_undoes"),
    (AsksEachTime, "check_park_with_the_same_question_keeps_the_first_request"),
    (MarksWithoutFence, "check_mark_appends_to_the_side_chain_and_fences"),
    (ConflictsAreDuplicates, "check_accept_event_with_another_payload_is_a_conflict"),
    (MissingResultsAreNone, "check_load_result_of_what_has_none_is_an_integrity_error"),
    (TuplesBecomeLists, "check_load_result_round_trips_every_type"),
    (ForgetsMicroseconds, "check_open_run_makes_a_new_one"),
    (ClosesNever, "check_close_twice_is_fine"),
    (TicketsAreForgotten, "check_begin_effect_repeated_by_the_same_call_is_begun"),
    (TicketsAreEverybodys, "check_begin_effect_repeated_by_another_process_is_in_progress"),
    (CommitsAreNotRepeated, "check_commit_effect_repeated_is_one_commit"),
    (HappensNow, "check_advance_keeps_the_time_when_it_happened"),
    (SignsAllAlike, "check_list_transitions_are_signed_each_by_itself"),
    (ForgetsTheEndOfTheSideChain, "check_get_task_knows_the_end_of_each_chain"),
    (SealsOnce, "check_seal_run_again_signs_what_has_changed_since"),
    (SealsOnce, "check_set_run_state_again_seals_again"),
    (SealsOnce, "check_seal_run_of_a_run_made_again_is_of_that_one"),
    (SealsOnDemand, "check_set_run_state_seals_where_the_run_is_over"),
    (ListsTiesAsTheyCame, "check_list_runs_of_one_moment_are_in_order_of_their_names"),
    (PagesByTimeAlone, "check_list_runs_page_by_page_gives_each_once"),
    (PagesByCounting, "check_list_runs_page_by_page_while_runs_are_added"),
    (RetriedIsDead, "check_list_dead_letters_leaves_out_what_was_retried_unless_it_is_asked_for"),
    (RetriedIsDead, "check_list_dead_letters_of_a_run_made_again_is_of_that_one"),
    (DeadLettersByTimeAlone, "check_list_dead_letters_page_by_page_gives_each_once"),
    (LiveIsAll, "check_count_states_live_leaves_out_runs_that_are_over"),
    (SendsTwice, "check_send_command_again_gives_it_as_it_stands"),
    (ClaimsWithoutLease, "check_claim_commands_leaves_alone_what_is_claimed"),
    (ClaimsForAllGenerations, "check_claim_commands_for_another_generation_leaves_them_alone"),
    (ClaimsInOrderOfSending, "check_claim_commands_takes_up_stop_first_then_pause"),
    (ClaimsAreAnybodys, "check_complete_command_of_what_somebody_else_has_is_none"),
    (ObeysInTwoWrites, "check_obey_twice_is_none"),
    (ObeysInTwoWrites, "check_obey_of_what_somebody_else_has_is_none"),
    (OldSessionsGiveSignsOfLife, "check_touch_by_a_superseded_process_is_dropped"),
    (MarkersMakeAllRunsAnew, "check_open_run_without_a_marker_learns_it_and_is_the_same_run"),
    (SealsOfTheDeletedRun, "check_get_seal_of_a_run_made_again_is_none_until_it_is_sealed"),
    (GivesUpAnything, "check_give_up_undo_of_what_nobody_has_to_undo_is_an_error"),
    (GivesUpAnything, "check_give_up_undo_repeated_keeps_the_first_reason"),
    (VerifiersAreNotRepeated, "check_commit_effect_repeated_by_whoever_verified_it_is_one_commit"),
    (VerifiersAreNotRepeated, "check_fail_effect_repeated_is_told_what_is_recorded"),
    (AnyUnknownIsSettled, "check_commit_effect_of_an_unknown_one_that_was_begun_again_changes_nothing"),
    (AnyUnknownIsSettled, "check_fail_effect_of_an_unknown_one_that_was_begun_again_changes_nothing"),
    (RetriesKeepTheTicket, "check_retry_effect_by_another_run_leaves_nothing_to_whoever_began_it"),
    (MadeAgainItTakesOverAll, "check_open_run_made_again_leaves_what_is_settled_behind"),
    (MadeAgainItTakesOverNothing, "check_open_run_made_again_takes_over_what_an_unfinished_one_left"),
    (LooksAtTheFirstEpochAlone, "check_clean_run_leaves_an_effect_in_its_newest_epoch"),
    (CommandsAreNotClosedTwice, "check_complete_command_repeated_is_told_what_is_recorded"),
    (CommandsAreNotClosedTwice, "check_refuse_command_repeated_is_told_what_is_recorded"),
    (ProgressIsLife, "check_touch_with_progress_is_no_heartbeat"),
    (TouchesTheSnapshot, "check_touch_changes_nothing_of_the_task"),
    (LeasesAreTaken, "check_take_lease_while_another_owner_has_it_is_none"),
    (LeasesAreGivenByAnybody, "check_give_lease_of_another_owner_does_nothing"),
    (TermsStandStill, "check_take_lease_of_one_that_ran_out_begins_a_new_term"),
    (WithoutFence, "check_claim_commands_by_a_superseded_process_is_refused"),
    (WithoutFence, "check_obey_by_a_superseded_process_is_refused"),
    (WithoutRollback, "check_obey_that_is_illegal_leaves_the_command_claimed"),
    (WithoutIsolation, "check_send_command_at_once_sends_one"),
    (WithoutIsolation, "check_claim_commands_at_once_gives_each_to_one"),
    (WithoutIsolation, "check_obey_at_once_with_the_next_claim_is_one_of_both"),
    (WithoutIsolation, "check_take_lease_at_once_gives_it_to_one"),
    (BudgetsAreEachTasks, "check_draw_retry_counts_over_all_tasks_and_runs"),
    (DrawsOneByOne, "check_draw_retry_of_an_empty_budget_that_fails_takes_nothing"),
    (WhoWaitsTakesNoTurn, "check_draw_retry_of_an_empty_budget_waits_for_a_turn_of_its_own"),
    (AnotherRateRefills, "check_draw_retry_under_another_rate_misses_as_many_as_before"),
    (WithoutFence, "check_draw_retry_by_a_superseded_process_is_refused"),
    (WithoutIsolation, "check_draw_retry_at_once_gives_each_to_one"),
    (PermitsAreEachTasks, "check_take_permit_counts_over_all_tasks_and_runs"),
    (PermitsAreGivenBackByAnybody, "check_release_permit_of_a_later_session_does_nothing"),
    (LeasesOfPermitsNeverEnd, "check_settle_permits_frees_what_was_not_renewed"),
    (LeasesOfPermitsNeverEnd, "check_settle_permits_passes_on_a_turn_that_nobody_takes"),
    (PlacesAreForgotten, "check_take_permit_again_keeps_the_place"),
    (WithoutFence, "check_take_permit_by_a_superseded_process_is_refused"),
    (WithoutIsolation, "check_take_permit_at_once_never_gives_more_than_there_is"),
    (SaysThatItIsShared, "check_capabilities_shared_means_that_every_handle_sees_the_same"),
    (SaysThatItIsDurable, "check_capabilities_durable_means_that_it_is_there_after_closing"),
    (SaysItInItsOwnWords, "check_capabilities_are_named_by_the_contract"),
]
"""Each kind of store, and the name of a check that it does not pass."""
