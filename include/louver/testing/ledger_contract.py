"""
The store contract, as a suite that any store can be held against; no pytest is needed.

::

    from louver.testing import run_contract

    run_contract(lambda: MyLedger("my://store"))

Every check is a plain function that takes ``open_ledger`` and raises
:class:`~louver.testing.ContractBroken`; :data:`CHECKS` lists them all, for those who want one test for
each. A name begins with the operation that it is about: ``check_<operation>_<meaning>``. Those about what a
store may leave out ask ``CAPABILITIES`` first, and hold nothing against one that does not claim it.

What it does not do: look at stored bytes. That damage and swaps are found is a test of each store's own,
which knows how to reach its rows.
"""

from __future__ import annotations

from types import ModuleType

from louver.errors import LedgerClosed
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.testing import (
    approvals,
    approved_effects,
    capabilities,
    chains,
    claimed_commands,
    cleaning,
    commands,
    dead_letters,
    effects_begin,
    effects_end,
    events,
    handles,
    human_queue,
    listing,
    maintenance,
    obeyed_commands,
    owner_leases,
    passed_on_commands,
    permits,
    races,
    resources,
    results,
    retry_budgets,
    runs,
    saved_states,
    seals,
    surveys,
    task_writes,
    tasks,
    touches,
    versions,
)
from louver.testing.scene import Check, OpenLedger

__all__ = ["CHECKS", "run_contract"]

_GROUPS: tuple[ModuleType, ...] = (
    runs,
    listing,
    tasks,
    task_writes,
    chains,
    seals,
    results,
    effects_begin,
    effects_end,
    approvals,
    approved_effects,
    events,
    human_queue,
    commands,
    claimed_commands,
    obeyed_commands,
    passed_on_commands,
    saved_states,
    touches,
    owner_leases,
    retry_budgets,
    permits,
    resources,
    maintenance,
    cleaning,
    surveys,
    dead_letters,
    versions,
    races,
    capabilities,
    # The last, since it closes handles: what every call of open_ledger shares would be gone for the others.
    handles,
)

CHECKS: tuple[Check, ...] = tuple(getattr(group, name) for group in _GROUPS for name in group.__all__)
"""Every check, those that close their handles last."""


def run_contract(open_ledger: OpenLedger) -> list[str]:
    """
    Hold a store against the contract.

    The checks leave their runs in it (Dag ids begin with ``contract-``), so give it a store of its own.

    :param open_ledger: opens a handle on the store, with the same keys each time; several are open at once. A
        store that lives in one object, as the one in memory, may give the same one each time. Whatever it
        gives is closed at the end.
    :returns: the names of the checks, all of which the store has passed.
    :raises ContractBroken: at the first check that the store does not pass.
    """
    handles_open: list[Ledger] = []
    try:
        for check in CHECKS:
            check(_reuse(handles_open, open_ledger))
        return [_name_of(check) for check in CHECKS]
    finally:
        for handle in handles_open:
            handle.close()


def _reuse(opened: list[Ledger], open_ledger: OpenLedger) -> OpenLedger:
    """Handles in order of opening, so that a whole run needs no more of them at once than a check."""
    opened[:] = filter(_is_open, opened)
    given = 0

    def next_handle() -> Ledger:
        nonlocal given
        if given == len(opened):
            opened.append(open_ledger())
        given += 1
        return opened[given - 1]

    return next_handle


def _is_open(ledger: Ledger) -> bool:
    try:
        ledger.get_run(RunKey("contract-none", "none"))
    except LedgerClosed:
        return False
    return True


def _name_of(check: Check) -> str:
    return str(getattr(check, "__name__", check))
