"""The ``airflow louver`` commands as a shell sees them: exit codes, and output that a program can read."""

from __future__ import annotations

import json

import pytest
import yaml

pytestmark = pytest.mark.integration

FORMATS = ("json", "yaml", "table", "plain")


@pytest.fixture
def many(airflow):
    """Run ``airflow louver`` commands one after the other, in one process: each takes seconds to start."""

    def run(commands):
        return list(airflow.commands(["louver", *arguments] for arguments in commands))

    return run


def test_every_output_format_tells_the_same(many, happy) -> None:
    done = many(
        [("status", happy, "--output", name) for name in FORMATS]
        + [("history", happy, "charge", "--output", name) for name in FORMATS]
    )

    assert [(code, err) for code, _, err in done] == [(0, "")] * 8
    status, history = ({name: done.pop(0)[1] for name in FORMATS} for _ in range(2))
    (document,) = json.loads(status["json"])
    assert [document] == yaml.safe_load(status["yaml"])
    assert (document["run_id"], document["state"]) == (happy, "succeeded")
    rows = json.loads(history["json"])
    assert rows == yaml.safe_load(history["yaml"])
    # Between them may stand what Airflow alone knows, which changes no state.
    assert [row["to"] for row in rows if row["to"]] == ["queued", "starting", "running", "succeeded"]
    for name in ("table", "plain"):
        for step in document["steps"]:
            assert step["step"] in status[name]
        assert "executor:launched" in history[name]


def test_exit_codes(many, orders, runs, tmp_path) -> None:
    assert orders.ended(runs.refused) == "failed"
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"specversion": "1.0"}')
    cases = {
        ("status", runs.waiting): 0
        if orders.rest.run_state("order_workflow", runs.waiting) == "running"
        else 3,
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

    done = dict(zip(cases, many(list(cases)), strict=True))

    assert {arguments: code for arguments, (code, _, _) in done.items()} == cases
    for arguments, (code, out, err) in done.items():
        assert "Traceback" not in out + err, arguments
        assert (code in (0, 3)) == (err == ""), (arguments, err)


def test_a_shell_sees_the_same(airflow, orders, runs) -> None:
    assert orders.ended(runs.refused) == "failed"
    old = {**orders.event("old"), "specversion": "0.3"}

    status = airflow.cli("louver", "status", runs.refused, "--output", "json")
    refused = airflow.cli("louver", "submit", "order_workflow", "--event", "-", stdin=json.dumps(old))

    assert (status.code, status.json()[0]["state"]) == (3, "failed")
    assert (refused.code, refused.stdout) == (1, "")
    assert "specversion" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_definition_has_a_fingerprint(many, orders, dags_folder, happy) -> None:
    ((code, out, _),) = many([("workflow", "validate", str(dags_folder / "order.json"), "--output", "json")])

    (row,) = json.loads(out)
    assert code == 0
    assert (row["name"], row["version"]) == ("order_workflow", "1.0.0")
    assert row["fingerprint"] == orders.status(happy)["fingerprint"]
