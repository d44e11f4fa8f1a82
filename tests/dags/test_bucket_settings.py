"""The options of buckets, and how little a bad one may do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from louver.errors import ConfigurationError
from louver_provider.buckets.settings import load_bucket_settings, require_bucket_settings

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
import json, sys
import airflow
from airflow import settings
from louver_provider.cluster_policies import policy
manager = settings.get_policy_plugin_manager()
if manager.get_plugin("louver") is None:
    manager.register(policy, name="louver")
print(json.dumps({
    "noop": settings.task_instance_mutation_hook.is_noop,
    "hooks": len(manager.hook.task_instance_mutation_hook.get_hookimpls()),
    "loaded": sorted(name for name in sys.modules if name.startswith("louver.")),
}))
"""


def probe(tmp_path: Path, **options: str) -> tuple[dict[str, object], str]:
    """A process that imports Airflow: whether the policy is live there, and what it says."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(tmp_path / "plugins"),
        **{f"AIRFLOW__LOUVER__{name.upper()}": value for name, value in options.items()},
    }
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_the_policy_is_live_in_a_process_that_only_imports_airflow(tmp_path: Path) -> None:
    found, _ = probe(tmp_path, buckets="64")
    assert (found["noop"], found["hooks"]) == (False, 1)


def test_without_buckets_no_hook_is_there_and_nothing_more_is_loaded(tmp_path: Path) -> None:
    found, err = probe(tmp_path)
    assert (found["noop"], found["hooks"], found["loaded"]) == (True, 0, [])
    assert "buckets" not in err


def test_a_bad_option_ends_no_process_and_is_said(tmp_path: Path) -> None:
    found, err = probe(tmp_path, buckets="many")
    assert (found["noop"], found["hooks"]) == (True, 0)
    assert "louver: buckets are off: [louver] buckets: 'many' has no number of buckets" in err


def test_without_buckets_there_are_no_settings() -> None:
    assert load_bucket_settings() is None
    with pytest.raises(ConfigurationError, match=r"set \[louver\] buckets"):
        require_bucket_settings()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("buckets", "many"),
        ("bucket_key", "a..b"),
        ("bucket_key_by_dag", "{"),
        ("bucket_key_by_dag", "[]"),
        ("bucket_key_by_dag", '{"billing": 5}'),
        ("bucket_owners", "node-a"),
        ("bucket_slots", "few"),
        ("bucket_override_pools", "maybe"),
        ("bucket_provision", ""),
    ],
)
def test_an_option_that_cannot_be_used_is_named(
    option: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__BUCKETS", "64")
    monkeypatch.setenv(f"AIRFLOW__LOUVER__{option.upper()}", text)
    with pytest.raises(ConfigurationError, match=rf"\[louver\] {option}: "):
        load_bucket_settings()
