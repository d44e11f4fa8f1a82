"""Where events go is configured, and a configuration that cannot be used disturbs nobody."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics.otel_logger import SafeOtelLogger
from airflow.sdk.observability import stats as sdk_stats
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.sinks import an_event

from louver.errors import ConfigurationError
from louver.events import EVENT_TYPES, Event
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey
from louver.ledger.requests import RunStart
from louver_provider.events import sinks
from louver_provider.events.metrics import AirflowMetrics, airflow_stats
from louver_provider.events.settings import OPTIONS, load_event_settings
from louver_provider.events.spans import AirflowSpans
from louver_provider.get_provider_info import get_provider_info
from louver_provider.hooks import ledger as hook
from louver_provider.listeners import components

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

FAMILIES = ("run", "task", "effect", "compensation", "approval", "command")


@contextmanager
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> Iterator[Ledger]:
    """This process's ledger under these options of ``[louver]``."""
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__LOUVER__{name.upper()}", value)
    monkeypatch.setattr(hook, "_LEDGERS", {})
    monkeypatch.setattr(sinks, "_LINES", [])
    with hook.get_ledger() as ledger:
        yield ledger


def begin(ledger: Ledger, run_id: str = "run-1") -> None:
    start = RunStart(
        key=RunKey("shop", run_id),
        marker=None,
        definition_name="shop",
        definition_version="1",
        definition_fingerprint="f" * 64,
        definition={},
        requester=None,
    )
    ledger.open_run(start, now=NOW)


def test_without_a_word_about_events_the_ledger_is_not_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, monkeypatch) as ledger:
        assert ledger._observer is None  # type: ignore[attr-defined]
        begin(ledger)
        sinks.flush_events()


def test_what_is_chosen_is_in_the_file_when_a_task_process_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events.jsonl"
    options = {"events": f"file://{file}", "events_types": "workflow.started", "events_source": "/prod"}
    with opened(tmp_path, monkeypatch, **options) as ledger:
        begin(ledger)
        components.before_stopping(None)
    (line,) = file.read_text().splitlines()
    event = json.loads(line)
    assert (event["type"], event["source"]) == ("com.louver.workflow.started.v1", "/prod/dags/shop")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("events", "zq7marker", "[louver] events: place 1: give file:"),
        ("events", "https://host,https://zq7marker:x@host", "[louver] events: place 2: a URL"),
        ("events_types", "tusk.*", "[louver] events_types: 'tusk.*' is no type"),
        ("events_source", "a b", "[louver] events_source: the source of events"),
        ("events_timeout", "soon", "[louver] events_timeout must be a number of seconds"),
        ("events_timeout", "nan", "[louver] events_timeout must be a number of seconds"),
        ("events_timeout", "600", "[louver] events_timeout must be a number of seconds"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_and_the_ledger_works_without(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    option: str,
    value: str,
    said: str,
) -> None:
    with (
        caplog.at_level(logging.ERROR, "louver_provider.events"),
        opened(tmp_path, monkeypatch, **{option: value}) as ledger,
    ):
        begin(ledger)
        assert ledger.get_run(RunKey("shop", "run-1")) is not None
        with pytest.raises(ConfigurationError) as caught:
            load_event_settings()
    assert said in str(caught.value)
    assert f"louver [events.off] no events are told: {said}" in caplog.text
    assert "zq7marker" not in caplog.text


def test_a_secret_that_is_too_short_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__EVENTS", "https://host/")
    monkeypatch.setenv("AIRFLOW__LOUVER__EVENTS_SECRET", "zq7short")
    with pytest.raises(ConfigurationError, match="16 bytes or more") as caught:
        load_event_settings()
    assert "zq7" not in str(caught.value)


def test_the_options_are_those_of_the_provider_and_secrets_are_marked() -> None:
    options = get_provider_info()["config"]["louver"]["options"]
    assert {name: options[name]["default"] for name in OPTIONS} == OPTIONS
    assert {name for name in OPTIONS if options[name].get("sensitive")} == {"events", "events_secret"}


def test_a_place_that_is_gone_is_no_failure_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, monkeypatch, events=f"file://{tmp_path}/gone/events.jsonl") as ledger:
        begin(ledger)
        sinks.flush_events()
        ((line, _),) = sinks._LINES
        assert (line.failed, line.delivered) == (1, 0)
        assert ledger.get_run(RunKey("shop", "run-1")) is not None


# Airflow's own telemetry


@pytest.fixture
def metered() -> Iterator[InMemoryMetricReader]:
    """Airflow's metrics for OpenTelemetry, over the SDK, read back here."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    kept = {name: sdk_stats.incr.__globals__[name] for name in ("_factory", "_backend")}
    sdk_stats.initialize(factory=lambda: SafeOtelLogger(provider, "airflow"), export_legacy_names=True)
    yield reader
    sdk_stats.incr.__globals__.update(kept)
    provider.shutdown()


def read(reader: InMemoryMetricReader) -> dict[str, Any]:
    data = reader.get_metrics_data()
    found = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                (point,) = metric.data.data_points
                value = getattr(point, "value", None)
                found[metric.name] = (point.sum if value is None else value, dict(point.attributes))
    return found


def test_events_are_counted_and_timed_by_airflows_stats(metered: InMemoryMetricReader) -> None:
    stats = airflow_stats()
    assert stats is sdk_stats
    counting = AirflowMetrics(stats)
    counting.emit(an_event(1))
    counting.emit(an_event(2))
    counting.emit(replace(an_event(), type="workflow.advanced"))
    counting.emit(replace(an_event(), type="workflow.succeeded", state="succeeded", seconds=2.5))

    assert read(metered) == {
        "airflow.louver.task.running": (2, {"dag_id": "shop"}),
        "airflow.louver.run.succeeded": (1, {"dag_id": "shop"}),
        "airflow.louver.run.duration": (2500, {"dag_id": "shop"}),
    }


def test_no_name_of_a_metric_comes_from_a_run(metered: InMemoryMetricReader) -> None:
    class Names:
        def __init__(self) -> None:
            self.names: set[str] = set()

        def incr(self, name: str, tags: dict[str, str]) -> None:
            self.names.add(name)

        def timing(self, name: str, dt: timedelta, tags: dict[str, str]) -> None:
            self.names.add(name)

    names = Names()
    counting = AirflowMetrics(names)
    for event_type in EVENT_TYPES:
        for run_id in ("tenant-zq7", "\N{SNOWMAN}"):
            event = replace(an_event(), type=event_type, run_id=run_id, task_id=run_id, seconds=1.0)
            counting.emit(event)
            AirflowMetrics(sdk_stats).emit(event)
    assert all(name.isascii() and name.startswith("louver.") and len(name) < 60 for name in names.names)
    durations = {f"louver.{name}.duration" for name in FAMILIES}
    assert durations <= names.names
    assert len(names.names) == len(EVENT_TYPES) - 1 + len(durations)
    assert "zq7" not in str(sorted(names.names))
    assert set(read(metered)) == {f"airflow.{name}" for name in names.names}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The global one can be set once in the life of a process.
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield provider, exporter
    provider.shutdown()


def effect_event() -> Event:
    return replace(
        an_event(),
        type="effect.committed",
        state="committed",
        from_state="started",
        seconds=1.5,
        details={"effect": "pay", "key": "k"},
    )


def test_events_are_on_the_tasks_span_and_an_effect_is_one_below_it(
    spans: tuple[TracerProvider, InMemorySpanExporter],
) -> None:
    provider, exporter = spans
    with provider.get_tracer("airflow").start_as_current_span("worker.pay"):
        AirflowSpans().emit(replace(an_event(), generation=1, attempt=2))
        AirflowSpans().emit(effect_event())

    effect, task = exporter.get_finished_spans()
    assert [event.name for event in task.events] == ["louver.task.running", "louver.effect.committed"]
    assert task.attributes == {"louver.state": "running", "louver.generation": 1, "louver.attempt": 2}
    assert (effect.name, effect.parent) == ("louver.effect", task.context)
    assert effect.end_time - effect.start_time == 1_500_000_000
    assert effect.attributes is not None
    assert effect.attributes["louver.effect"] == "pay"


def test_without_a_span_nothing_is_written(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    AirflowSpans().emit(effect_event())
    assert spans[1].get_finished_spans() == ()


@pytest.mark.parametrize(
    ("section", "option"),
    [("metrics", "statsd_on"), ("metrics", "otel_on"), ("metrics", "statsd_datadog_enabled")],
)
def test_metrics_are_wanted_where_airflow_has_them_on(
    section: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not load_event_settings().anything
    monkeypatch.setenv(f"AIRFLOW__{section.upper()}__{option.upper()}", "True")
    found = load_event_settings()
    assert (found.anything, found.metrics, found.traces) == (True, True, False)


def test_traces_are_wanted_where_airflow_has_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__TRACES__OTEL_ON", "True")
    found = load_event_settings()
    assert (found.anything, found.metrics, found.traces) == (True, False, True)
