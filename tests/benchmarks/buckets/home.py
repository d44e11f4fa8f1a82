"""An Airflow home of the benchmark's own, set before anything of Airflow is imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["own_home"]


@contextmanager
def own_home() -> Iterator[Path]:
    """The home; it is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="louver-bench-buckets-"))
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        del os.environ[name]
    os.environ |= {
        "AIRFLOW_HOME": str(path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(path / "plugins"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{path / 'airflow.db'}",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
