"""
The client against a real Airflow: from a script outside, from a task of another Dag, and over a restart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.airflow_orders import Orders

from louver_provider.client import Forbidden, Louver, RunFailed, SubmitConflict

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
CONNECTION = {"connection_id": "louver_default", "conn_type": "http", "schema": "http", "login": "admin"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An Airflow of its own, since it is restarted."""
    from airflow_home import AirflowHome

    home = AirflowHome(
        tmp_path_factory.mktemp("called"), users={"admin": "admin", "onlooker": "viewer"}, say=print
    )
    home.prepare()
    shutil.copytree(HERE / "client_dags", home.own_dags, dirs_exist_ok=True)
    with home.kept_running(dags=["called", "caller", "order_workflow", "import_rows"]):
        yield home


@pytest.fixture
def louver(home: Any) -> Iterator[Louver]:
    with Louver(home.url, username="admin", password=home.password("admin"), patience=150) as louver:
        yield louver


def test_a_script_outside_submits_pauses_resumes_and_gets_the_result(home) -> None:
    # Nothing of Airflow's settings: the script has an address and a login.
    env = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")}

    done = subprocess.run(
        [sys.executable, str(HERE / "outside.py"), home.url, "admin", "outside-1"],
        input=f"{home.password('admin')}\n",
        env=env,
        cwd=home.path,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["same"] is True
    assert "started with other params" in seen["conflict"]
    assert "is not over after 0 s" in seen["late"]
    assert (seen["paused"], seen["while_paused"], seen["resumed"]) == (["done"], "paused", ["done"])
    assert seen["result"] == {
        "amount": ["Decimal", "Decimal('12.5')"],
        "at": [
            "datetime",
            "datetime.datetime(2026, 3, 1, 12, 0, "
            "tzinfo=datetime.timezone(datetime.timedelta(seconds=7200)))",
        ],
        "id": ["UUID", "UUID('00000000-0000-0000-0000-000000000007')"],
        "raw": ["bytes", "b'\\x00\\xff'"],
        "pair": ["tuple", "(1, 1.0, None)"],
        "kinds": ["set", seen["result"]["kinds"][1]],
    }
    assert seen["tags"] == {"wait": "ok", "price": "ok"}
    assert ["user:pause", "admin", "lunch"] in seen["trail"]
    assert seen["airflow"] is False
    assert len([run for run in home.rest.run_ids("called") if run == "outside-1"]) == 1


def test_the_example_of_the_docs_runs(home) -> None:
    page = (HERE.parents[1] / "docs" / "client.md").read_text()
    example = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    env = {**os.environ, "AIRFLOW_URL": home.url, "AIRFLOW_PASSWORD": home.password("admin")}

    done = subprocess.run(
        [sys.executable, "-c", example], env=env, cwd=home.path, capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["import_rows done paused", "2000"]


def test_results_are_plain_for_people_with_curl(home, louver) -> None:
    louver.submit("called", {"amount": 50, "seconds": 0.0}, run_id="plain-1").get(timeout=120)

    body = home.rest.get("/louver/v1/dags/called/runs/plain-1/results?form=plain&node=price")

    assert body["nodes"]["price"]["value"] == {
        "amount": "12.5",
        "at": "2026-03-01T12:00:00+02:00",
        "id": "00000000-0000-0000-0000-000000000007",
        "raw": "AP8=",
        "pair": [1, 1.0, None],
        "kinds": ["a", "b"],
    }


def test_a_task_of_another_dag_submits_a_workflow_and_gets_its_result(home) -> None:
    body = {**CONNECTION, "host": "127.0.0.1", "port": int(home.url.rpartition(":")[2])}
    body["password"] = home.password("admin")
    home.rest.request("POST", "/api/v2/connections", body).expect(201)

    good = home.rest.trigger("caller", {"amount": 50}, run_id="good")
    bad = home.rest.trigger("caller", {"amount": 0}, run_id="bad")

    for run_id in (good, bad):
        home.wait_for(
            f"the end of {run_id}",
            lambda run_id=run_id: home.rest.run_state("caller", run_id) in ("success", "failed"),
            timeout=180,
        )
    assert home.rest.xcom("caller", good, "call") == {
        "amount": "12.5",
        "kind": "Decimal",
        "state": "succeeded",
    }
    said = home.rest.xcom("caller", bad, "call")["failed"]
    assert said == "run for-bad of called ended failed: price failed (exception)"
    assert home.password("admin") not in home.rest.log("caller", good, "call")


def test_an_event_is_submitted_by_reference_and_once(home, louver, tmp_path) -> None:
    orders = Orders(home, tmp_path)
    event = orders.event("by-client", customer_id="customer-zq7marker")

    run = louver.submit("order_workflow", event=event)
    again = louver.submit("order_workflow", event=json.dumps(event))
    event["data"]["items"][0]["quantity"] = 2
    with pytest.raises(SubmitConflict, match="accepted before with another payload"):
        louver.submit("order_workflow", event=event)

    assert again == run
    conf = home.rest.run("order_workflow", run.run_id)["conf"]
    assert (list(conf), "zq7marker" in json.dumps(conf)) == (["louver_event"], False)
    orders.answered(run.run_id, "Reject")
    with pytest.raises(RunFailed, match=r"failed_compensated: .*approve_charge failed \(approval_rejected\)"):
        run.get(timeout=120)
    assert run.results("validate")["validate"].ok


def test_a_viewer_sees_results_and_stops_nothing(home, louver) -> None:
    louver.submit("called", {"amount": 50, "seconds": 0.0}, run_id="seen-1").get(timeout=120)
    with Louver(home.url, username="onlooker", password=home.password("onlooker")) as viewer:
        run = viewer.run("called", "seen-1")
        assert run.results()["wait"].value == "waited"
        with pytest.raises(Forbidden):
            run.stop()


def test_who_waits_does_not_notice_a_restart(home, louver) -> None:
    run = louver.submit("called", {"amount": 50, "seconds": 3.0}, run_id="restarted-1")
    got: list[Any] = []
    waiter = threading.Thread(target=lambda: got.append(run.get(timeout=300)))
    waiter.start()
    try:
        home.restart(dags=["called"])
    finally:
        waiter.join(timeout=300)

    assert [sorted(result) for result in got] == [["amount", "at", "id", "kinds", "pair", "raw"]]
    again = louver.submit("called", {"amount": 50, "seconds": 3.0}, run_id="restarted-1")
    assert again == run
