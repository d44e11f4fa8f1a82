"""The suite can tell: each of these stores breaks the contract in one way, and the check for it says so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from louver.errors import EventConflict, IntegrityError, LedgerClosed
from louver.ledger.contract import EventOutcome
from louver.ledger.memory import MemoryLedger, MemoryRows
from louver.ledger.names import Decision, EffectState, RunKey
from louver.ledger.records import TaskRecord
from louver.signing import SigningKeys
from louver.testing import CHECKS, ContractBroken, run_contract


class WithoutFence(MemoryLedger):
    def _hold(self, rows, token):
        key = token.key
        return rows.get(TaskRecord, key.dag_id, key.run_id, key.task_id, key.map_index)


class WithoutRollback(MemoryLedger):
    @contextmanager
    def _transaction(self):
        rows = MemoryRows(self._tables)
        try:
            yield rows
        finally:
            rows.commit()


class WithoutIsolation(MemoryLedger):
    @contextmanager
    def _transaction(self):
        rows = MemoryRows(self._tables)
        yield rows
        # Long enough for another thread to begin, and to read what is about to change.
        time.sleep(0.002)
        rows.commit()


class NonceWorksTwice(MemoryLedger):
    def open_task(self, key, claim, *, now):
        opened = super().open_task(key, claim, now=now)
        with self._transaction() as rows:
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
        with self._transaction() as rows:
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
]


@pytest.mark.parametrize(("kind", "name"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_the_check_finds_what_is_broken(kind, name):
    check = next(check for check in CHECKS if check.__name__ == name)
    ledger = kind(keys=SigningKeys.unsigned())

    with pytest.raises(ContractBroken) as caught:
        check(lambda: ledger)

    assert caught.value.name == name
    assert str(caught.value).startswith(name)


ALONE = """
import sys
from louver.ledger.memory import MemoryLedger
from louver.signing import SigningKeys
from louver.testing import CHECKS, ContractBroken, run_contract

class Forgetful(MemoryLedger):
    def get_run(self, key):
        return None

def kept(kind):
    ledger = kind(keys=SigningKeys.unsigned())
    return run_contract(lambda: ledger)

assert not __debug__, "not reached under -O"
if kept(MemoryLedger) != [check.__name__ for check in CHECKS]:
    sys.exit("not all checks were run")
try:
    kept(Forgetful)
except ContractBroken as broken:
    print(broken.name)
print("pytest" in sys.modules)
"""


def test_the_suite_works_without_pytest_and_under_o():
    result = subprocess.run(
        [sys.executable, "-O", "-c", ALONE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["check_open_run_makes_a_new_one", "False"]


def test_a_whole_run_opens_two_handles():
    opened = []

    def open_one():
        ledger = MemoryLedger(keys=SigningKeys.unsigned())
        if opened:
            # Another handle on the same rows.
            ledger._tables, ledger._lock = opened[0]._tables, opened[0]._lock
        opened.append(ledger)
        return ledger

    run_contract(open_one)

    assert len(opened) == 2


def test_handles_are_closed_where_a_check_fails():
    class Forgetful(MemoryLedger):
        def get_run(self, key):
            return None

    ledger = Forgetful(keys=SigningKeys.unsigned())

    with pytest.raises(ContractBroken):
        run_contract(lambda: ledger)

    with pytest.raises(LedgerClosed):
        ledger.list_tasks(RunKey("d", "r"))
