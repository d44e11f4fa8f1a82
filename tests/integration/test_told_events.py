"""
Events of a real Airflow: into a file, over HTTP, and to the OpenTelemetry collector that Airflow sends to.

An Airflow of its own, whose run fails and is compensated.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from airflow_home import ROOT, AirflowHome
from support.sinks import Posted, Receiver, receiver

from louver.cloudevents import CloudEvent, parse_event
from louver.events.cloud import CloudForm
from louver.events.telling import events_of
from louver.ledger import open_ledger
from louver.ledger.names import EffectKind, RunKey
from louver.ledger.witness import RowChange

pytestmark = pytest.mark.integration

SECRET = "a-secret-zq7-of-the-tests"
RUN = RunKey("told", "told-run")
SECONDS = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The Airflow after its run, and what came to whom."""

    home: AirflowHome
    file: Path
    hook: Receiver
    collector: Receiver

    def lines(self) -> list[CloudEvent]:
        return [parse_event(line) for line in self.file.read_bytes().splitlines()]

    def telemetry(self, path: str) -> bytes:
        return b"".join(unpacked(posted) for posted in list(self.collector.posted) if posted.path == path)


def unpacked(posted: Posted) -> bytes:
    return gzip.decompress(posted.body) if posted.headers.get("content-encoding") == "gzip" else posted.body


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    path = tmp_path_factory.mktemp("told")
    file = path / "events.jsonl"
    with receiver() as hook, receiver() as collector:
        seen = os.pathsep.join([str(ROOT / "config"), str(ROOT / "include"), str(path / "dags")])
        settings = {
            "PYTHONPATH": seen,
            "AIRFLOW__LOUVER__EVENTS": f"file://{file},{hook.url}",
            "AIRFLOW__LOUVER__EVENTS_SECRET": SECRET,
            "AIRFLOW__LOUVER__EVENTS_SOURCE": "https://airflow.example.com",
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url.removesuffix("/events"),
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            # Without it Airflow takes gRPC for traces.
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        }
        home = AirflowHome(path, settings=settings, say=print)
        home.prepare()
        shutil.copytree(Path(__file__).parent / "told", home.own_dags, dirs_exist_ok=True)
        with home.kept_running(dags=["told"]):
            home.rest.trigger("told", {}, run_id=RUN.run_id)
            home.wait_for(
                "the end of the run",
                lambda: home.rest.run_state("told", RUN.run_id) == "failed",
                timeout=SECONDS,
            )
            found = Told(home=home, file=file, hook=hook, collector=collector)
            home.wait_for(
                "telemetry", lambda: b"louver.run.compensated" in all_metrics(found), timeout=SECONDS
            )
            yield found


def all_metrics(told: Told) -> bytes:
    return told.telemetry("/v1/metrics")


def short(event: CloudEvent) -> str:
    return event.type.removeprefix("com.louver.").removesuffix(".v1")


def test_the_file_tells_of_the_whole_run(told: Told) -> None:
    lines = told.lines()
    counted = Counter(short(event) for event in lines)
    once = {
        *("workflow.started", "workflow.compensating", "workflow.compensated"),
        *("effect.begun", "effect.committed", "effect.undone"),
        *("compensation.begun", "compensation.committed", "task.failed"),
    }
    assert {name: counted[name] for name in once} == dict.fromkeys(once, 1)
    assert {event.source for event in lines} == {"https://airflow.example.com/dags/told"}
    assert len({event.id for event in lines}) == len(lines)


def test_every_transition_in_the_ledger_is_in_the_file(told: Told) -> None:
    with open_ledger(told.home.ledger_url) as ledger:
        rows = ledger.list_transitions(RUN)
    wanted = [events_of([RowChange(before=None, after=row)])[0] for row in rows]
    assert len(wanted) > 10
    by_id = {event.id: event for event in told.lines()}
    form = CloudForm("https://airflow.example.com")
    for event in wanted:
        assert by_id[event.id] == parse_event(form.encoded(event))


def test_the_same_events_came_over_http_signed(told: Told) -> None:
    posted = list(told.hook.posted)
    assert Counter(one.event.id for one in posted) == Counter(event.id for event in told.lines())
    for one in posted:
        stamp, _, digest = one.headers["louver-signature"].partition(",")
        signed = stamp.removeprefix("t=").encode() + b"." + one.body
        wanted = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        assert digest == f"v1={wanted}"


def test_airflows_own_metrics_count_it_by_words_of_fixed_lists(told: Told) -> None:
    metrics = all_metrics(told)
    for name in (
        "airflow.louver.run.started",
        "airflow.louver.task.succeeded",
        "airflow.louver.effect.committed",
        "airflow.louver.effect.duration",
        "airflow.louver.compensation.committed",
        "airflow.louver.run.compensated",
        "airflow.louver.run.duration",
    ):
        assert name.encode() in metrics
    assert b"airflow.louver.workflow" not in metrics


def test_airflows_own_traces_have_it_on_the_tasks_span(told: Told) -> None:
    traces = told.home.wait_for(
        "traces",
        lambda: found if b"louver.task.succeeded" in (found := told.telemetry("/v1/traces")) else None,
        timeout=SECONDS,
    )
    assert b"louver.effect.begun" in traces
    assert b"worker.buy" in traces


def test_no_payload_and_no_secret_left_the_house(told: Told) -> None:
    with open_ledger(told.home.ledger_url) as ledger:
        (bought,) = [e for e in ledger.list_effects(RUN) if e.kind is EffectKind.FORWARD]
    assert bought.name == "buy"
    for left in (
        told.file.read_bytes(),
        b"".join(posted.body for posted in told.hook.posted),
        all_metrics(told),
    ):
        assert b"zq7" not in left
    assert SECRET.encode() not in told.telemetry("/v1/traces")
