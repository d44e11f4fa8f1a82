"""The ``airflow louver`` commands as a shell sees them: exit codes, and output that a program can read."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

pytestmark = pytest.mark.integration

FORMATS = ("json", "yaml", "table", "plain")


def test_every_output_format_tells_the_same_status(airflow, happy) -> None:
    def ask(name: str):
        return airflow.cli("louver", "status", happy, "--output", name)

    with ThreadPoolExecutor(2) as pool:
        shown = dict(zip(FORMATS, pool.map(ask, FORMATS), strict=True))

    assert {name: done.code for name, done in shown.items()} == dict.fromkeys(FORMATS, 0)
    assert {name: done.stderr for name, done in shown.items()} == dict.fromkeys(FORMATS, "")
    (document,) = json.loads(shown["json"].stdout)
    assert [document] == yaml.safe_load(shown["yaml"].stdout)
    assert (document["run_id"], document["state"]) == (happy, "succeeded")
    for name in ("table", "plain"):
        for step in document["steps"]:
            assert step["step"] in shown[name].stdout


def test_every_output_format_tells_the_same_history(airflow, happy) -> None:
    def ask(name: str):
        return airflow.cli("louver", "history", happy, "charge", "--output", name)

    with ThreadPoolExecutor(2) as pool:
        shown = dict(zip(FORMATS, pool.map(ask, FORMATS), strict=True))

    assert {name: done.code for name, done in shown.items()} == dict.fromkeys(FORMATS, 0)
    rows = json.loads(shown["json"].stdout)
    assert rows == yaml.safe_load(shown["yaml"].stdout)
    assert [row["to"] for row in rows] == ["queued", "starting", "running", "succeeded"]
    for name in ("table", "plain"):
        assert "executor:launched" in shown[name].stdout


def test_exit_codes(airflow, orders, runs, tmp_path) -> None:
    assert orders.ended(runs.refused) == "failed"
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"specversion": "1.0"}')
    cases = {
        ("status", runs.refused): 3,
        ("history", runs.refused): 0,
        ("status", "no-such-run"): 1,
        ("history", runs.refused, "no_such_step"): 1,
        ("status",): 2,
        ("submit", "order_workflow"): 2,
        ("submit", "order_workflow", "--event", str(tmp_path / "missing.json")): 2,
        ("submit", "order_workflow", "--event", str(wrong)): 1,
        ("submit", "no_such_dag", "--event", str(wrong)): 1,
        ("submit", "unreachable_ledger", "--event", str(wrong)): 1,
        ("workflow", "validate", str(wrong)): 1,
        ("workflow", "validate", str(tmp_path / "missing.json")): 2,
    }

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda arguments: airflow.cli("louver", *arguments), cases))

    codes = {arguments: result.code for arguments, result in zip(cases, done, strict=True)}
    assert codes == cases
    for arguments, result in zip(cases, done, strict=True):
        assert "Traceback" not in result.stderr + result.stdout, arguments
        assert (result.code in (0, 3)) == (result.stderr == ""), arguments


def test_a_refused_event_is_named_by_attribute(airflow) -> None:
    done = airflow.cli("louver", "submit", "order_workflow", "--event", "-", stdin='{"specversion": "0.3"}')

    assert done.code == 1
    assert "specversion" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_definition_has_a_fingerprint(airflow, orders, happy) -> None:
    from airflow_home import ROOT

    done = airflow.cli(
        "louver", "workflow", "validate", str(ROOT / "dags" / "order.json"), "--output", "json"
    )

    (row,) = done.json()
    assert (row["name"], row["version"]) == ("order_workflow", "1.0.0")
    assert row["fingerprint"] == orders.status(happy)["fingerprint"]
