"""``import louver`` costs next to nothing: no Airflow, no SQL, no driver, under a tenth of a second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: What none of the light entrances may load. pydantic and pendulum come with Airflow and would be as slow.
HEAVY = (
    "airflow",
    "alembic",
    "asyncpg",
    "fastapi",
    "louver_provider",
    "pendulum",
    "psycopg2",
    "pydantic",
    "sqlalchemy",
    "sqlite3",
)

ENTRANCES = {
    "louver": "import louver",
    "engine": "import louver.engine",
    "inline": "from louver.engine import run_inline",
    "events": "import louver.cloudevents, louver.timestamps",
    "definition": "import louver.definition",
    "ledger": "import louver.ledger",
    "memory ledger": "from louver.ledger import open_ledger; open_ledger('memory://')",
}


def in_child(code: str) -> str:
    """Run ``code`` in a Python of its own that sees the core, and return what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "include")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("entrance", ENTRANCES.values(), ids=ENTRANCES.keys())
def test_a_light_entrance_loads_nothing_heavy(entrance):
    # An editable install puts its own finder into every process, so only what comes on top counts.
    code = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        f"{entrance}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )

    loaded = json.loads(in_child(code))

    assert "louver" in loaded
    assert [name for name in loaded if name.partition(".")[0] in HEAVY] == []


def test_import_louver_takes_less_than_a_tenth_of_a_second(record_property):
    # The best of five: a busy machine makes single runs slow, nothing makes a slow import fast.
    code = "import time; t = time.perf_counter(); import louver; print(time.perf_counter() - t)"
    in_child("import louver")

    best = min(float(in_child(code)) for _ in range(5))

    record_property("import_louver_seconds", best)
    assert best < 0.1
