"""The suite can tell: each of these stores breaks the contract in one way, and the check for it says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.broken_stores import BROKEN

from louver.errors import LedgerClosed
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import RunKey
from louver.signing import SigningKeys
from louver.testing import CHECKS, ContractBroken, run_contract


@pytest.mark.parametrize(("kind", "name"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_the_check_finds_what_is_broken(kind, name):
    check = next(check for check in CHECKS if check.__name__ == name)
    ledger = kind(keys=SigningKeys.unsigned())

    with pytest.raises(ContractBroken) as caught:
        check(lambda: ledger)

    assert caught.value.name == name
    assert str(caught.value).startswith(name)
    # Broken as it was meant to be, and not by a mistake in this file.
    assert not isinstance(caught.value.__cause__, (TypeError, AttributeError, NameError))


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


def test_a_whole_run_has_two_handles_open_at_a_time():
    opened, most = [], []

    def open_one():
        ledger = MemoryLedger(keys=SigningKeys.unsigned())
        if opened:
            # Another handle on the same rows.
            ledger._tables, ledger._lock = opened[0]._tables, opened[0]._lock
        opened.append(ledger)
        most.append(sum(not handle._closed for handle in opened))
        return ledger

    run_contract(open_one)

    assert max(most) == 2
    assert all(handle._closed for handle in opened)


def test_handles_are_closed_where_a_check_fails():
    class Forgetful(MemoryLedger):
        def get_run(self, key):
            return None

    ledger = Forgetful(keys=SigningKeys.unsigned())

    with pytest.raises(ContractBroken):
        run_contract(lambda: ledger)

    with pytest.raises(LedgerClosed):
        ledger.list_tasks(RunKey("d", "r"))
