"""What the tests of the glue share; Airflow is imported here, and no server is started."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def dags_folder() -> Path:
    """The Dag files of the project."""
    return ROOT / "dags"
