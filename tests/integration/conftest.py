"""
One real Airflow for all tests of this tier, and the orders that they share.

A run takes some ten seconds, most of it processes that start. So the runs begin together when the first test
asks for one, and each test looks at what it needs of them. Waiting is always for something, with a deadline.
"""

from __future__ import annotations

import copy
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shop import faults, prices

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from airflow_home import AirflowHome  # noqa: E402
from support.airflow_orders import ORDER, Orders  # noqa: E402

UNREACHABLE = "unreachable_ledger"

MARKERS = {
    "customer": "customer-zq7marker",
    "sku": "sku-zq7marker",
    "unsold_sku": "unsold-zq7marker",
    "amount": "48151.62",
    "source": "https://source-zq7marker.example.com",
    "id": "event-zq7marker",
}
"""Values that stand in events of these tests and nowhere else; the privacy test looks for them everywhere."""

BROKEN_DEFINITION = {
    "louver": 1,
    "name": "broken_definition",
    "version": "1.0.0",
    "steps": [{"name": "alone", "task": "shop.orders:validate", "retires": {"max_attempts": 3}}],
}

DAG_FILE = '''
"""An Airflow Dag of the tests."""
from pathlib import Path

from louver_provider.dag_builder import dag_from_file

dag = dag_from_file(Path(__file__).with_suffix(".json"))
'''

UNREACHABLE_DAG_FILE = '''
"""An Airflow Dag of the tests, whose task processes look for their ledger where there is none."""
import os

from airflow.sdk import DAG

from louver.definition import Definition, Step
from louver_provider.dag_builder import build_dag

os.environ["AIRFLOW__LOUVER__LEDGER_URL"] = "sqlite:////nowhere/at/all/louver.db"

definition = Definition(
    name="unreachable_ledger", version="1.0.0", nodes=[Step(name="alone", task="shop.orders:risk_check",
    kwargs={"order": {"amount": "1.00", "items": []}})]
)
dag: DAG = build_dag(definition)
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """
    The shared runs, all begun at once.

    :param happy: its reserve step is killed after its effect; approved, it succeeds. Carries the markers.
    :param waiting: parked on its approval; bad answers bounce off, at last it is rejected.
    :param stale: its price changes after the approval; the charge asks anew. Carries markers too.
    :param refused: validate refuses the order, for a SKU that is not sold; carries a marker.
    :param unreachable: of a Dag whose task processes have no ledger.
    :param duplicate: started by hand with the event of ``waiting``.
    :param conflict: started by hand with the same identity and another payload.
    :param form: started by hand with the fields of the form; to be stopped.
    :param undone: its approval is to be stopped, and its undo fails for good.
    """

    happy: str
    waiting: str
    stale: str
    refused: str
    unreachable: str
    duplicate: str
    conflict: str
    form: str
    undone: str


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowHome]:
    """The Airflow."""
    path = tmp_path_factory.mktemp("airflow")
    home = AirflowHome(
        path,
        users={"admin": "admin", "second": "admin", "alice": "user", "bob": "user", "onlooker": "viewer"},
        settings={"SHOP_LANDING": str(path / "landing")},
        say=print,
    )
    home.prepare()
    (home.own_dags / "broken_definition.json").write_text(json.dumps(BROKEN_DEFINITION))
    (home.own_dags / "broken_definition.py").write_text(DAG_FILE)
    (home.own_dags / "unreachable_ledger.py").write_text(UNREACHABLE_DAG_FILE)
    shutil.copytree(Path(__file__).parent / "dags", home.own_dags, dirs_exist_ok=True)
    shutil.copy(ROOT / "tests" / "support" / "failure_rules.py", home.own_dags / "rules_of_the_tests.py")
    with pytest.MonkeyPatch.context() as patch:
        # The shop's functions, called by a test, look at the same file as the tasks.
        patch.setenv("SHOP_DB", str(home.shop_db))
        with home.kept_running(dags=[ORDER, UNREACHABLE]):
            yield home


@pytest.fixture(scope="session")
def dags_folder() -> Path:
    """The Dag files of the project."""
    return ROOT / "dags"


@pytest.fixture(scope="session")
def orders(airflow: AirflowHome, tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """Orders on it."""
    return Orders(airflow, tmp_path_factory.mktemp("events"))


@pytest.fixture(scope="session")
def events(orders: Orders) -> dict[str, dict[str, Any]]:
    """The events of the shared runs, by the run's name."""
    prices.set_price(MARKERS["sku"], MARKERS["amount"])
    marked = {"source": MARKERS["source"], "customer_id": MARKERS["customer"]}
    item = [{"sku": MARKERS["sku"], "quantity": 1}]
    happy = orders.event("happy", amount=MARKERS["amount"], items=item, **marked)
    happy["id"] = MARKERS["id"]
    notebook = [{"sku": "notebook", "quantity": 2}]
    return {
        "happy": happy,
        "waiting": orders.event("waiting"),
        "stale": orders.event("stale", amount="15.00", items=notebook, **marked),
        "refused": orders.event("refused", items=[{"sku": MARKERS["unsold_sku"], "quantity": 1}], **marked),
    }


@pytest.fixture(scope="session")
def runs(orders: Orders, events: dict[str, dict[str, Any]]) -> Runs:
    """The shared runs."""
    faults.kill_after_effect("reserve_inventory", order_id="order-happy")
    faults.hold("charge", order_id="order-stale")
    faults.tell("stock.release", "fail_for_good", order_id="order-undone")
    conflict = copy.deepcopy(events["waiting"])
    conflict["data"]["items"][0]["quantity"] = 2
    submitted = dict(zip(events, orders.submit_all(events.values()), strict=True))
    by_hand = {
        "duplicate": {"event": events["waiting"]},
        "conflict": {"event": conflict},
        "form": orders.event("form")["data"],
        "undone": {"event": orders.event("undone")},
    }
    triggered = {name: orders.rest.trigger(ORDER, conf, run_id=name) for name, conf in by_hand.items()}
    unreachable = orders.rest.trigger(UNREACHABLE, {})
    return Runs(unreachable=unreachable, **submitted, **triggered)


@pytest.fixture(scope="session")
def happy(orders: Orders, runs: Runs) -> str:
    """The happy run, at its end."""
    orders.answered(runs.happy, "Approve")
    assert orders.ended(runs.happy) == "success"
    return runs.happy


@pytest.fixture(scope="session")
def stale(orders: Orders, runs: Runs) -> dict[str, Any]:
    """The stale run, approved and then parked again by its charge: its first and its second question."""
    first = orders.parked(runs.stale)
    orders.answered(runs.stale, "Approve")
    orders.home.wait_for(
        "the charge to begin", lambda: orders.rest.task_states(ORDER, runs.stale)["charge"] == "running"
    )
    prices.set_price("notebook", "8.00")
    faults.release("charge", order_id="order-stale")
    return {"first": first, "second": orders.parked(runs.stale, "charge")}
