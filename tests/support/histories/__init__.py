"""
Random histories of one Dag's runs: what processes, people and machines can do to them, in any order.

They are played on several stores side by side. Tokens, records and claims of long ago stay in the bundles and
are used again, so that every fence is met. Ids, times and tickets are given, so nothing is left to a store's
own choice.
"""

from __future__ import annotations

from support.histories.approvals import Approvals
from support.histories.control import Control
from support.histories.runs import Runs
from support.histories.tasks import Tasks

__all__ = ["Histories"]


class Histories(Tasks, Approvals, Control, Runs):
    """All of it, for :func:`hypothesis.stateful.run_state_machine_as_test`."""
