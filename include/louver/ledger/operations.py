"""
The meaning of every ledger operation, written once over :class:`~louver.ledger.rows.Rows`.

The groups are classes of their own only because each is one idea; a store derives from
:class:`LedgerOperations`, which joins them.
"""

from __future__ import annotations

from louver.ledger.approval_operations import ApprovalOperations
from louver.ledger.budget_operations import BudgetOperations
from louver.ledger.checkpoint_operations import CheckpointOperations
from louver.ledger.control_operations import ControlOperations
from louver.ledger.dead_letter_operations import DeadLetterOperations
from louver.ledger.effect_operations import EffectOperations
from louver.ledger.event_operations import EventOperations
from louver.ledger.human_queue_operations import HumanQueueOperations
from louver.ledger.maintenance_operations import MaintenanceOperations
from louver.ledger.permit_operations import PermitOperations
from louver.ledger.retention_operations import RetentionOperations
from louver.ledger.survey_operations import SurveyOperations
from louver.ledger.version_operations import VersionOperations

__all__ = ["LedgerOperations"]


class LedgerOperations(
    HumanQueueOperations,
    EffectOperations,
    ApprovalOperations,
    EventOperations,
    ControlOperations,
    CheckpointOperations,
    MaintenanceOperations,
    RetentionOperations,
    SurveyOperations,
    DeadLetterOperations,
    BudgetOperations,
    PermitOperations,
    VersionOperations,
):
    """All of the contract, for a store that offers transactions over rows."""
