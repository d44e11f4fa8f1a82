"""
A long import in checkpoints: pause it, resume it, kill it, restart Airflow; every row is imported once.

Start it with the form, then::

    airflow louver pause RUN import_rows --reason "month end"
    airflow louver resume RUN import_rows

or answer *Resume* under Required Actions. While it is paused it holds no slot.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import Param

from louver_provider.dag_builder import dag_from_file

import_rows = dag_from_file(
    Path(__file__).with_name("import_rows.json"),
    params={
        "source": Param("ledger-2026", type="string", title="Source", description="Names the import."),
        "rows": Param(10_000, type="integer", minimum=1, title="Rows"),
        "batch": Param(100, type="integer", minimum=1, title="Rows between two checkpoints"),
        "seconds": Param(0.2, type="number", minimum=0, title="Seconds that a batch takes"),
    },
    description="10,000 rows in 100 checkpoints, each row once.",
    doc_md=__doc__,
)
