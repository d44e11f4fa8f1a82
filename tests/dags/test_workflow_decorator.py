"""``@workflow`` in Dag files: the Dag that comes of it, and how its errors show (row W4)."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from louver.builder import WorkflowTemplate
from louver_provider.decorators import workflow
from louver_provider.runtime import LouverRetryPolicy

HEAD = """
# An Airflow Dag.
from __future__ import annotations
from airflow.sdk import Asset, Param
from louver_provider.decorators import workflow

def extract(source): return [source]
def double(row, ctx): return row * 2
def load(rows): return len(rows)
"""

GOOD = """
@workflow(version="1.2.0")
def good(wf, source: str = "sales"):
    '''What it is for.'''
    rows = wf.step("extract", extract, args=[source])
    parts = wf.map("double", double, over=rows, param="row")
    return wf.step("load", load, deps={"rows": parts})
"""

Parse = Callable[..., tuple[dict[str, Any], dict[str, str]]]


@pytest.fixture
def parse(tmp_path: Path) -> Parse:
    """Have Airflow read Dag files of these bodies; the Dags, and the errors by file."""

    def read(**bodies: str) -> tuple[dict[str, Any], dict[str, str]]:
        for name, body in bodies.items():
            (tmp_path / f"{name}.py").write_text(HEAD + textwrap.dedent(body))
        bag = DagBag(dag_folder=str(tmp_path))
        return dict(bag.dags), {Path(path).name: text for path, text in bag.import_errors.items()}

    return read


def one(parse: Parse, body: str) -> Any:
    """The Dag of a file that has to be in order."""
    dags, errors = parse(file=body)
    assert errors == {}
    (dag,) = dags.values()
    return dag


def error(parse: Parse, body: str) -> str:
    """What is wrong with a file, beside one that is in order."""
    dags, errors = parse(broken=body, other=GOOD + "\ngood()\n")
    assert set(dags) == {"good"}
    assert set(errors) == {"broken.py"}
    return errors["broken.py"]


def test_calling_it_gives_the_dag(parse: Parse) -> None:
    dag = one(parse, GOOD + "\ngood()\n")
    assert dag.dag_id == "good"
    assert set(dag.task_ids) == {"extract", "double", "load", "compensate", "outcome"}
    assert dag.get_task("double").upstream_task_ids == {"extract"}
    definition = dag.get_task("extract").workflow.definition
    assert (definition.version, definition.node("extract").task) == ("1.2.0", "file:extract")
    assert dag.doc_md == "What it is for."


def test_a_file_that_only_declares_it_has_no_dag(parse: Parse) -> None:
    assert parse(file=GOOD) == ({}, {})


def test_the_dag_takes_airflows_own_arguments(parse: Parse) -> None:
    body = GOOD.replace(
        'version="1.2.0"',
        'version="1", schedule="@daily", tags=["a"], max_active_runs=3, catchup=True, doc_md="Else.", '
        'start_date=__import__("pendulum").datetime(2026, 1, 1, tz="Europe/Berlin"), '
        'default_args={"owner": "me", "retries": 7}',
    )
    dag = one(parse, body + "\ngood()\n")
    assert (dag.max_active_runs, dag.catchup, dag.tags, dag.doc_md) == (3, True, {"a"}, "Else.")
    assert dag.timezone.name == "Europe/Berlin"
    extract = dag.get_task("extract")
    assert extract.owner == "me"
    assert extract.retries == 2


DECIDED = {
    "execution_timeout": None,
    "do_xcom_push": True,
    "multiple_outputs": False,
    "retry_exponential_backoff": 0,
}


@pytest.mark.parametrize("name", ["extract", "double", "load", "agree", "compensate", "outcome"])
def test_default_args_hold_only_where_louver_does_not_decide(parse: Parse, name: str) -> None:
    """What is said for all tasks of a Dag would fail steps that have succeeded, or end them half-way."""
    dag = one(
        parse,
        """
        from datetime import timedelta

        def ask(rows): return {"rows": rows}

        @workflow(default_args={
            "execution_timeout": timedelta(seconds=5), "do_xcom_push": False, "multiple_outputs": True,
            "retry_exponential_backoff": 2.0, "max_retry_delay": timedelta(seconds=1), "pool": "mine",
            "retries": 9, "retry_delay": timedelta(hours=1), "retry_policy": None,
            "trigger_rule": "one_failed", "doc_json": "{}",
        })
        def etl(wf, source: str = "sales"):
            rows = wf.step("extract", extract, args=[source])
            parts = wf.map("double", double, over=rows, param="row")
            agreed = wf.approve("agree", of="load", payload=ask, deps={"rows": parts})
            return wf.step("load", load, deps={"rows": parts}, approval="agree")
        etl()
        """,
    )
    plain = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task(name)
    live = dag.get_task(name)
    if name == "double":
        assert {key: live.partial_kwargs[key] for key in DECIDED} == DECIDED
        live = live.unmap({"item": 1})
    assert {key: getattr(live, key) for key in DECIDED} == DECIDED
    assert (live.retries, live.pool) == (plain.retries, "mine")
    assert (live.retries < 9, type(live.retry_policy)) == (True, LouverRetryPolicy)
    assert (plain.execution_timeout, plain.retry_exponential_backoff) == (None, 0)
    assert str(plain.trigger_rule) != "one_failed"
    if name == "outcome":
        assert json.loads(live.doc_json)["name"] == "etl"


def test_its_parameters_are_the_dags_params(parse: Parse) -> None:
    dag = one(
        parse,
        """
        @workflow(params={"limit": Param(5, type="integer", minimum=1), "other": "x", "rate": 2})
        def etl(wf, source: str, limit: int = 3, rate: float = 1.5, day: str | None = None,
                deep: bool = False, tags: list[str] = ["a"], more: dict = {}, free=None,
                odd: str | set = "z"):
            return wf.step("extract", extract, args=[source])
        etl(source="set")
        """,
    )
    shown = {name: (dag.params[name], dag.params.get_param(name).schema) for name in dag.params}
    assert shown == {
        "source": ("set", {"type": "string"}),
        "limit": (5, {"type": "integer", "minimum": 1}),
        "rate": (2, {"type": "number"}),
        "day": (None, {"type": ["string", "null"]}),
        "deep": (False, {"type": "boolean"}),
        "tags": (["a"], {"type": "array"}),
        "more": ({}, {"type": "object"}),
        "free": (None, {}),
        "odd": ("z", {}),
        "other": ("x", {}),
    }


def test_the_times_that_airflow_gives_are_no_fields_of_the_form(parse: Parse) -> None:
    dag = one(
        parse,
        """
        @workflow(schedule="@daily")
        def etl(wf, logical_date, source="sales"):
            return wf.step("extract", extract, args=[logical_date])
        etl()
        """,
    )
    assert set(dag.params) == {"source"}


def test_a_dag_says_where_the_keys_of_its_buckets_are(parse: Parse) -> None:
    keyed = GOOD.replace('version="1.2.0"', 'bucket_key="customer.id", tags=["mine"]')
    assert one(parse, keyed + "\ngood()\n").tags == {"mine", "bucket-key:customer.id"}


def test_a_parameter_without_default_is_asked_for(parse: Parse) -> None:
    dag = one(
        parse,
        """
        @workflow()
        def etl(wf, source: str):
            return wf.step("extract", extract, args=[source])
        etl()
        """,
    )
    assert not dag.params.get_param("source").has_value


def test_it_is_the_same_in_every_process(parse: Parse) -> None:
    forms = []
    for _ in range(2):
        encoded = DagSerialization.to_dict(one(parse, GOOD + "\ngood()\n"))
        DagSerialization.validate_schema(encoded)
        assert DagSerialization.from_dict(encoded).get_task("outcome").is_teardown
        forms.append(json.dumps(encoded, sort_keys=True, default=str))
    assert not re.search(r"0x[0-9a-f]{6}", forms[0])
    assert forms[0] == forms[1]


def test_airflows_arguments_reach_single_tasks(parse: Parse) -> None:
    body = GOOD.replace(
        'version="1.2.0"',
        'task_arguments={"load": {"outlets": [Asset("rows")], "pool": "db"}, "double": {"pool": "cpu", '
        '"max_active_tis_per_dag": 4}, "outcome": {"queue": "small"}}',
    )
    dag = one(parse, body + "\ngood()\n")
    assert [asset.name for asset in dag.get_task("load").outlets] == ["rows"]
    assert (dag.get_task("load").pool, dag.get_task("double").pool) == ("db", "cpu")
    assert dag.get_task("double").max_active_tis_per_dag == 4
    assert dag.get_task("outcome").queue == "small"
    decoded = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert decoded.get_task("double").pool == "cpu"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"nobody": {"pool": "x"}}, ["'nobody' is no task of it", "extract, double, load"]),
        ({"load": {"retries": 3}}, ["step 'load'", "its retry says"]),
        ({"double": {"trigger_rule": "all_done"}}, ["step 'double'", "its join says"]),
        ({"load": {"execution_timeout": 3}}, ["step 'load'", "timeouts"]),
        ({"load": {"multiple_outputs": True}}, ["step 'load'", "from the ledger"]),
        ({"load": {"task_group": None}}, ["step 'load'", "part of the task's name"]),
        ({"load": {"queue": "q"}}, ["step 'load'", "give the step a queue"]),
        ({"outcome": {"doc_json": "{}"}}, ["step 'outcome'", "definition is kept there"]),
        ({"load": {"pol": "x"}}, ["step 'load'", "no argument of Airflow's operators: pol"]),
        ({"load": "pool"}, ["step 'load'", "arguments by name"]),
    ],
)
def test_arguments_that_no_task_takes(parse: Parse, arguments: dict[str, Any], words: list[str]) -> None:
    body = GOOD.replace('version="1.2.0"', f'name="bad", task_arguments={arguments!r}')
    text = error(parse, body + "\ngood()\n")
    for word in ["bad", "task_arguments", *words]:
        assert word in text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('wf.step("a", extract, args=[1]); wf.step("a", extract, args=[1])', ["'a'", "has this name"]),
        ('wf.step("a", extract, kwargs={"sorce": 1})', ["'a'", "has no parameter 'sorce'"]),
        ('wf.step("a", extract, args=[source], kwargs={"source": 1})', ["'a'", "given twice"]),
        ('wf.step("a", extract, args=[source], deps=["b"])', ["'a'", "'b'"]),
        ('wf.step("a", extract, args=[source], deps=["a"])', ["'a'", "itself"]),
        ('wf.step("a", extract, args=[source], on_failure="shrug")', ["'a'", "on_failure"]),
        ('wf.step("a", lambda source: 1, args=[source])', ["'a'", "is a lambda"]),
        ('wf.step("a", extract, args=[source], compensate=load)', ["'a'", "stands in a Dag file"]),
        ('wf.step("a", extract, args=[source], join="2 of 3")', ["'a'", "quorum"]),
        ("None", ["needs at least one step"]),
        ('1 if source == "x" else 2', ["params.source", "wf.branch"]),
        ('wf.step("a", extract, args=[source]) and "b"', ["'a'", "wf.branch"]),
    ],
)
def test_what_breaks_a_rule_is_an_import_error_of_that_file_alone(
    parse: Parse, body: str, words: list[str]
) -> None:
    declared = f'def etl(wf, source="x"):\n    return {body.replace("; ", ", ")}'
    text = error(parse, f"\n@workflow()\n{declared}\netl()\n")
    for word in ["etl", *words]:
        assert word in text


@pytest.mark.parametrize(
    ("decorator", "call", "words"),
    [
        ("@workflow(scedule=None)", "etl()", ["no argument of a workflow or of Airflow's Dag: scedule"]),
        ("@workflow(dag_id='x')", "etl()", ["dag_id", "give name="]),
        ("@workflow(bucket_key='a..b')", "etl()", ["bucket_key", "no path of a bucket key"]),
        ("@workflow(schedule='@daily')", "etl()", ["params.source", "scheduled run is given no values"]),
        ("@workflow()", "etl(sorce=1)", ["has no parameter 'sorce'", "there are: source"]),
        ("@workflow()", "etl(source=1)", ["params.source", "does not fit its type"]),
        ("@workflow(fail_fast=True)", "etl()", ["takes no fail_fast"]),
        ("@workflow", "etl()", ["takes 0 positional arguments"]),
    ],
)
def test_what_the_dag_cannot_take(parse: Parse, decorator: str, call: str, words: list[str]) -> None:
    declared = "def etl(wf, source: str):\n    return wf.step('extract', extract, args=[source])"
    text = error(parse, f"\n{decorator}\n{declared}\n{call}\n")
    for word in words:
        assert word in text


def test_a_file_with_a_broken_workflow_gives_none_of_its_dags(parse: Parse) -> None:
    broken = '\n@workflow()\ndef bad(wf):\n    return wf.step("a", extract)\nbad()\n'
    dags, errors = parse(two=GOOD + "\ngood()\n" + broken)
    assert dags == {}
    assert set(errors) == {"two.py"}


def test_it_is_the_template_that_runs_embedded_too(parse: Parse) -> None:
    @workflow(version="1", schedule="@daily")
    def etl(wf: Any, count: int = 2) -> Any:
        return [wf.step(f"one{number}", "json:dumps", kwargs={"obj": number}) for number in range(count)][-1]

    assert isinstance(etl, WorkflowTemplate)
    assert etl.build(count=3).definition.names == ("one0", "one1", "one2")


def test_how_a_run_is_undone_is_said_with_the_workflow(parse: Parse) -> None:
    policy = (
        "from louver.policies import CompensationPolicy\n"
        "@workflow(compensation=CompensationPolicy(on_failure='stop'))\n"
    )
    dag = one(parse, f"{policy}def undone(wf):\n    wf.step('load', load, kwargs={{'rows': []}})\nundone()\n")
    form = json.loads(dag.get_task("outcome").doc_json)
    assert form["compensation"]["on_failure"] == "stop"


def test_an_async_step_is_an_error_of_its_file(parse: Parse) -> None:
    text = error(
        parse,
        "async def waits(): pass\n@workflow()\ndef late(wf):\n    wf.step('wait', waits)\nlate()\n",
    )
    for word in ("late, step 'wait', attribute 'task'", "waits is an async function", "asyncio.run"):
        assert word in text
