"""The sales pipeline, embedded: loaded once, late, replaced, refused, undone, killed and paused half way."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from louver.approvals import Answer
from louver.builder import WorkflowTemplate
from louver.clock import FixedClock
from louver.control import send
from louver.engine import run_inline
from louver.engine.inline import RunResult
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import Decision, RunKey, TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.states import RunState, Source, TaskState
from louver.supervision import ControlSettings
from shop.etl import landing, quality, sales, warehouse
from shop.etl.pipeline import etl_late_sales, etl_report, etl_sales
from shop.etl.rows import read_sales

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "include" / "shop" / "etl" / "data"
DAY, REVIEWED, CLOSED = "2026-03-28", "2026-03-30", "2026-03-29"


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A landing folder with the sample, and an empty warehouse."""
    folder = tmp_path / "landing"
    shutil.copytree(SAMPLE / "landing", folder)
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))
    monkeypatch.setenv("SHOP_LANDING", str(folder))
    monkeypatch.delenv("SHOP_WAREHOUSE", raising=False)
    return folder


class Pipelines:
    """Runs of the workflows on one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._clock = FixedClock(datetime(2026, 11, 30, tzinfo=timezone.utc))

    def run(
        self,
        template: WorkflowTemplate = etl_sales,
        *,
        run_id: str | None = None,
        tasks: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> RunResult:
        """Run it as far as it goes; ``tasks`` replace some of its own."""
        params = {"day": DAY, "data_interval_start": None, "batch_seconds": 0.0, **given}
        return run_inline(
            template.definition(),
            {**template.tasks, **(tasks or {})},
            {name: params[name] for name in template.params},
            ledger=self.ledger,
            clock=self._clock,
            run_id=run_id,
            control=ControlSettings(control_interval=timedelta(0)),
        )

    def answered(self, waits: RunResult, decision: Decision, *, day: str = REVIEWED) -> RunResult:
        """The run, gone on with after a person's answer."""
        (request,) = waits.waiting
        answer = Answer(decision=decision, by="ann")
        self.ledger.decide_approval(request.request_id, answer, now=self._clock.now())
        return self.run(day=day, run_id=request.run_id)

    def ask(self, key: TaskKey, verb: Verb) -> None:
        """Send a command to a task."""
        request = CommandRequest(
            command_id=uuid4().hex, task=key, verb=verb, actor="ann", reason=None, source=Source.CLI
        )
        send(self.ledger, request, now=self._clock.now())


@pytest.fixture
def etl() -> Iterator[Pipelines]:
    with open_ledger("memory://") as ledger:
        yield Pipelines(ledger)


def table() -> dict[tuple[str, str], int]:
    with warehouse.transaction() as opened:
        found = opened.execute("SELECT day, region, count(*) FROM current_sales GROUP BY day, region")
        return {(day, region): count for day, region, count in found}


def loads() -> list[tuple[str, str, int, int]]:
    with warehouse.transaction() as opened:
        return list(opened.execute("SELECT day, region, version, undone FROM loads ORDER BY rowid"))


def reading(day: str, region: str, folder: str = "landing") -> int:
    content = (SAMPLE / folder / day / f"{region}.csv").read_bytes()
    return len(read_sales(content, day=date.fromisoformat(day)).sales)


def test_a_day_is_loaded_and_again_without_doubles(etl: Pipelines) -> None:
    first = etl.run()
    rows, done = table(), loads()
    assert rows == {(DAY, region): reading(DAY, region) for region in ("berlin", "hamburg")}
    second = etl.run()
    assert (first.state, second.state) == (RunState.SUCCEEDED, RunState.SUCCEEDED)
    assert second.value == first.value
    assert (table(), loads()) == (rows, done)


def test_a_ledger_of_another_installation_still_loads_nothing_twice(etl: Pipelines) -> None:
    etl.run()
    rows, done = table(), loads()
    with open_ledger("memory://") as empty:
        assert Pipelines(empty).run().state is RunState.SUCCEEDED
    assert (table(), loads()) == (rows, done)


def test_the_day_comes_from_the_data_interval(etl: Pipelines) -> None:
    start = datetime(2026, 3, 27, 23, tzinfo=timezone.utc)
    assert etl.run(day="", data_interval_start=start).value["days"] == [DAY]
    with pytest.raises(ValueError, match="needs a day"):
        sales.extract(None, "", None)  # type: ignore[arg-type]


def test_a_day_without_files_is_skipped_and_a_closed_branch_is_not(etl: Pipelines) -> None:
    nothing = etl.run(day="2026-01-01")
    assert (nothing.state, nothing.states["publish"]) == (RunState.SUCCEEDED, TaskState.SKIPPED)
    assert etl.run(day=CLOSED).state is RunState.SUCCEEDED
    with warehouse.transaction() as opened:
        totals = dict(opened.execute("SELECT region, sales FROM daily_totals WHERE day = ?", (CLOSED,)))
    assert totals["koeln"] == 0
    assert totals["berlin"] == reading(CLOSED, "berlin")


def test_a_late_partition_is_loaded_alone(etl: Pipelines, shop: Path) -> None:
    etl.run()
    assert etl.run(etl_late_sales).states["find_late"] is TaskState.SKIPPED
    shutil.copy(SAMPLE / "late" / DAY / "koeln.csv", shop / DAY)
    before = loads()
    late = etl.run(etl_late_sales)
    assert late.state is RunState.SUCCEEDED
    assert loads() == [*before, (DAY, "koeln", 1, 0)]
    assert table()[DAY, "koeln"] == reading(DAY, "koeln", "late")
    assert late.value["sales"] == sum(table().values())
    assert etl.run(etl_late_sales).states["find_late"] is TaskState.SKIPPED


def test_late_is_only_what_belongs_to_a_day_that_was_loaded(etl: Pipelines) -> None:
    assert etl.run(etl_late_sales).states["find_late"] is TaskState.SKIPPED
    assert loads() == []


def test_a_file_that_comes_anew_replaces_the_one_before_and_may_come_back(etl: Pipelines, shop: Path) -> None:
    etl.run()
    file = shop / DAY / "berlin.csv"
    old = file.read_bytes()
    new = b"".join(old.splitlines(keepends=True)[:-5])
    wanted = reading(DAY, "berlin")
    for version, (content, rows) in enumerate([(new, wanted - 5), (old, wanted), (new, wanted - 5)], start=2):
        file.write_bytes(content)
        assert etl.run(etl_late_sales).state is RunState.SUCCEEDED
        assert (table()[DAY, "berlin"], loads()[-1]) == (rows, (DAY, "berlin", version, 0))
    assert len(loads()) == 2 + 3


def test_a_file_that_changes_while_its_run_is_at_work_is_refused(
    etl: Pipelines, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(checked: list[Any]) -> str:
        with (shop / DAY / "berlin.csv").open("ab") as file:
            file.write(b"more\n")
        return "accept"

    result = etl.run(tasks={"quality_gate": replace})
    assert result.states["stage"] is TaskState.FAILED
    assert (table(), loads()) == ({}, [])


# The quality gate


def test_a_bad_batch_waits_and_is_loaded_once_a_person_allows_it(etl: Pipelines) -> None:
    waits = etl.run(day=REVIEWED)
    assert (waits.state, loads()) == (RunState.WAITING_APPROVAL, [])
    result = etl.answered(waits, Decision.APPROVED)
    assert result.state is RunState.SUCCEEDED
    assert table()[REVIEWED, "hamburg"] == reading(REVIEWED, "hamburg")
    again = etl.run(day=REVIEWED)
    assert (again.state, again.value) == (RunState.SUCCEEDED, result.value), "it asks once for this content"
    assert again.states["review"] is TaskState.SKIPPED


def test_content_that_was_reviewed_and_replaced_may_come_back(etl: Pipelines, shop: Path) -> None:
    etl.answered(etl.run(day=REVIEWED), Decision.APPROVED)
    file = shop / REVIEWED / "hamburg.csv"
    bad = file.read_bytes()
    for version, content in enumerate([bad.splitlines(keepends=True)[0], bad], start=2):
        file.write_bytes(content)
        assert etl.run(etl_late_sales).state is RunState.SUCCEEDED
        assert loads()[-1] == (REVIEWED, "hamburg", version, 0)
    assert table()[REVIEWED, "hamburg"] == reading(REVIEWED, "hamburg")


def test_a_bad_batch_that_a_person_refuses_is_not_loaded(etl: Pipelines) -> None:
    result = etl.answered(etl.run(day=REVIEWED), Decision.REJECTED)
    assert (result.state, loads()) == (RunState.FAILED, [])


@pytest.mark.parametrize(("day", "region"), [("2026-03-31", "koeln"), ("2026-04-01", "hamburg")])
def test_a_file_that_cannot_be_read_is_left_out_once_it_was_seen(
    etl: Pipelines, day: str, region: str
) -> None:
    result = etl.answered(etl.run(day=day), Decision.APPROVED, day=day)
    assert result.state is RunState.SUCCEEDED
    assert len(table()) == 2
    assert (day, region) not in table()
    assert etl.run(etl_late_sales).states["find_late"] is TaskState.SKIPPED


def partition(**given: Any) -> dict[str, Any]:
    return {"state": "ok", "good": 95, "broken": 5, "reviewed": False, **given}


@pytest.mark.parametrize(
    ("found", "way"),
    [
        (partition(), "accept"),
        (partition(good=94, broken=6), "review"),
        (partition(good=0, broken=0), "accept"),
        (partition(state="empty", good=0, broken=0), "review"),
        (partition(state="wrong_schema"), "review"),
        (partition(state="empty", reviewed=True), "accept"),
    ],
)
def test_the_gate(found: dict[str, Any], way: str) -> None:
    assert quality.quality_gate([partition(), found]) == way


def test_a_review_shows_no_rows() -> None:
    checked = [{**partition(), "day": DAY, "region": "berlin", "content_hash": "c", "version": 1}]
    shown = quality.review_intent([{**checked[0], "duplicates": 0, "reasons": {"bad_price": 5}}])
    assert set(shown["partitions"][0]) == {
        "day",
        "region",
        "content_hash",
        "state",
        "good",
        "broken",
        "duplicates",
        "reasons",
    }


# All of it


def recounted(folder: Path) -> dict[tuple[str, str], tuple[int, int, Decimal]]:
    """What the demo works out of the files, by code of its own."""
    spec = importlib.util.spec_from_file_location("recount", ROOT / "scripts" / "demo_etl_recount.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[tuple[str, str], tuple[int, int, Decimal]] = module.recount(folder)
    return found


def test_the_totals_of_all_files_are_those_of_an_independent_count(etl: Pipelines, shop: Path) -> None:
    shutil.copytree(SAMPLE / "late", shop, dirs_exist_ok=True)
    days = sorted(folder.name for folder in shop.iterdir())
    assert len(days) == 10
    asked = []
    for day in days:
        result = etl.run(day=day)
        if result.state is RunState.WAITING_APPROVAL:
            asked.append(day)
            result = etl.answered(result, Decision.APPROVED, day=day)
        assert result.state is RunState.SUCCEEDED
    assert asked == ["2026-03-30", "2026-03-31", "2026-04-01"]
    with warehouse.transaction() as opened:
        totals = {
            (day, region): (count, pieces, Decimal(cents) / 100)
            for day, region, count, pieces, cents in opened.execute("SELECT * FROM daily_totals")
        }
    assert totals == recounted(shop)
    assert len(totals) == 28


# When it goes wrong


def failing(totals: Any) -> Any:
    raise RuntimeError("nobody can be told")


def test_what_was_loaded_is_undone_where_it_cannot_be_published(etl: Pipelines) -> None:
    etl.run()
    rows = table()
    shop = landing.landing_folder()
    file = shop / DAY / "berlin.csv"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-5]))
    result = etl.run(tasks={"publish": failing})
    assert result.state is RunState.FAILED_COMPENSATED
    assert table() == rows, "the content before counts again"
    assert loads()[-1] == (DAY, "berlin", 2, 1)

    assert etl.run().state is RunState.SUCCEEDED
    assert table()[DAY, "berlin"] == rows[DAY, "berlin"] - 5
    assert loads()[-1] == (DAY, "berlin", 2, 0), "asked for again, an undone load happens again"


def test_killed_after_any_checkpoint_it_goes_on_behind_it(
    etl: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = warehouse.stage, []

    def deadly(opened: Any, day: date, region: str, content_hash: str, batch: Any) -> None:
        real(opened, day, region, content_hash, batch)
        seen.append((region, batch[0].sale_id))
        if len(seen) in (2, 5):
            raise Killed

    monkeypatch.setattr(warehouse, "stage", deadly)
    for _ in range(2):
        with pytest.raises(Killed):
            etl.run(run_id="run")
    assert etl.run(run_id="run").state is RunState.SUCCEEDED
    assert table() == {(DAY, region): reading(DAY, region) for region in ("berlin", "hamburg")}
    # A batch whose checkpoint was not saved is staged again, and those before it are not.
    assert len(seen) == len(set(seen)) + 2


def test_paused_in_the_middle_of_a_partition_it_goes_on_there(
    etl: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = warehouse.stage, []
    key = TaskKey("etl_sales", "run", "stage", 0)

    def pausing(opened: Any, day: date, region: str, content_hash: str, batch: Any) -> None:
        real(opened, day, region, content_hash, batch)
        seen.append((region, batch[0].sale_id))
        if len(seen) == 1:
            etl.ask(key, Verb.PAUSE)

    monkeypatch.setattr(warehouse, "stage", pausing)
    paused = etl.run(run_id="run")
    assert (paused.state, paused.states["stage"]) == (RunState.PAUSED, TaskState.PAUSED)
    assert etl.ledger.get_seal(RunKey("etl_sales", "run")) is None
    etl.ask(key, Verb.RESUME)
    assert etl.run(run_id="run").state is RunState.SUCCEEDED
    assert len(seen) == len(set(seen))
    assert table() == {(DAY, region): reading(DAY, region) for region in ("berlin", "hamburg")}


def test_a_load_whose_answer_was_lost_is_found(monkeypatch: pytest.MonkeyPatch, etl: Pipelines) -> None:
    real = sales._load
    lost: list[str] = []

    def losing(key: str, intent: Any) -> Any:
        done = real(key, intent)
        if not lost:
            lost.append(key)
            raise TimeoutError
        return done

    monkeypatch.setattr(sales, "_load", losing)
    assert etl.run().state is RunState.SUCCEEDED
    assert len(lost) == 1
    assert [load[2:] for load in loads()] == [(1, 0), (1, 0)]


def test_rows_that_are_not_all_staged_are_not_loaded(etl: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse, "stage", lambda *_: None)
    result = etl.run()
    assert (result.state, loads()) == (RunState.FAILED, [])


# The report


def test_weeks_are_the_sums_of_their_days_and_a_sunday_is_in_its_own(etl: Pipelines) -> None:
    for day in (DAY, CLOSED):
        etl.run(day=day)
    first = etl.run(etl_report)
    assert {(week["week"], week["region"], week["days"]) for week in first.value} == {
        ("2026-W13", "berlin", 2),
        ("2026-W13", "hamburg", 2),
        ("2026-W13", "koeln", 1),
    }
    with warehouse.transaction() as opened:
        (cents,) = opened.execute("SELECT sum(quantity * unit_cents) FROM current_sales").fetchone()
    assert sum(week["cents"] for week in first.value) == cents
    assert etl.run(etl_report).value == first.value
