"""Body of ``airflow louver doctor``."""

from __future__ import annotations

import sys
from argparse import Namespace

from louver_provider.cli.common import WITHOUT_SUCCESS, louver_command, show
from louver_provider.doctor.examination import examine
from louver_provider.doctor.findings import Level

__all__ = ["doctor"]

_ORDER = (Level.ERROR, Level.WARNING, Level.OK)


@louver_command
def doctor(args: Namespace) -> None:
    """``airflow louver doctor``"""
    findings = sorted(examine(), key=lambda finding: _ORDER.index(finding.level))
    show(
        args,
        [
            {"level": str(found.level), "check": found.check, "what": found.what, "mend": found.mend or None}
            for found in findings
            if args.all or found.level is not Level.OK
        ],
    )
    if any(found.level is Level.ERROR for found in findings):
        sys.exit(WITHOUT_SUCCESS)
