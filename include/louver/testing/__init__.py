"""What Louver offers to tests of others: the contract that every store has to keep."""

from __future__ import annotations

from louver.testing.judge import ContractBroken
from louver.testing.ledger_contract import CHECKS, run_contract
from louver.testing.scene import Check, OpenLedger

__all__ = ["CHECKS", "Check", "ContractBroken", "OpenLedger", "run_contract"]
