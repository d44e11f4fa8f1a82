"""Decorators for Dag files: ``@workflow``, and what stands behind ``@task.step``."""

from __future__ import annotations

from louver_provider.decorators.closing import close
from louver_provider.decorators.workflow import DagTemplate, workflow

__all__ = ["DagTemplate", "close", "workflow"]
