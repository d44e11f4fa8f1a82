"""What happens in the demo of the sales pipeline, and what has to be true at each point of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from airflow_home import ROOT, AirflowHome
from airflow_rest import FINISHED
from backfills import create_backfill
from demo_etl_recount import Total, recount
from demo_frame import Say, print_table

from shop import faults

__all__ = ["DAGS", "SalesStory"]

SALES, LATE, REPORT = DAGS = ("etl_sales", "etl_late_sales", "etl_report")

AUTUMN = ("2026-10-24", "2026-10-25", "2026-10-26")
"""Caught up with; the second has 25 hours."""
SPRING = ("2026-03-28", "2026-03-29", "2026-03-30")
"""Filled back; the second has 23 hours, the third a file with too many broken rows."""

BACKFILL = ("--from-date", "2026-03-27T23:00:00+00:00", "--to-date", "2026-03-29T22:00:00+00:00")
"""From midnight in Berlin to midnight in Berlin, in UTC: +01:00 before the change, +02:00 after it."""

KILLED = ("2026-10-25", "berlin")
ASKED = "2026-03-30"
LATE_PARTITION = ("2026-03-28", "koeln")

SAMPLE = ROOT / "include" / "shop" / "etl" / "data"
RUN_SECONDS = 240.0


class SalesStory:
    """
    The demo's plot.

    :param home: an Airflow, which runs while :meth:`tell` is called.
    :param say: prints progress.
    """

    def __init__(self, home: AirflowHome, say: Say) -> None:
        self._home = home
        self._say = say
        self._landing = home.path / "landing"
        self._problems: list[str] = []
        self._snapshots: dict[str, dict[tuple[str, str], Total]] = {}
        self._notes: dict[str, Any] = {}

    def prepare(self) -> None:
        """Let files arrive, all but the late one."""
        os.environ["SHOP_DB"] = str(self._home.shop_db)
        for day in (*AUTUMN, *SPRING):
            shutil.copytree(SAMPLE / "landing" / day, self._landing / day)
        faults.kill_after_effect("stage", order_id="/".join(KILLED))

    def tell(self) -> None:
        """Let it happen."""
        self._say(f"`airflow backfill create` for {', '.join(SPRING)}")
        self._backfill()
        self._say(f"unpausing the Dags: the back-fill begins; Airflow catches up with {', '.join(AUTUMN)}")
        for dag_id in (SALES, REPORT):
            self._unpause(dag_id)
        self._answer_the_gate()
        self._await_days("every day to be loaded")
        self._look("first")
        self._check_days()
        self._check_kill()
        self._check_report()
        self._again()
        self._late()
        self._check_report()

    # What happens

    def _unpause(self, dag_id: str) -> None:
        path = f"/api/v2/dags/{dag_id}"
        self._home.wait_for(
            f"{dag_id} to be unpaused",
            lambda: self._home.rest.request("PATCH", path, {"is_paused": False}).expect(200),
        )

    def _backfill(self, *more: str) -> None:
        create_backfill(self._home, SALES, *BACKFILL, *more)

    def _answer_the_gate(self) -> None:
        self._say(f"waiting for the quality gate to ask about {ASKED}")
        rest = self._home.rest

        def asks() -> str | None:
            run = self._runs().get(ASKED)
            if run is None:
                return None
            if run["state"] in FINISHED:
                raise ValueError(f"the run of {ASKED} ended {run['state']}, and asked nothing")
            states = rest.task_states(SALES, run["dag_run_id"])
            return run["dag_run_id"] if states.get("review") == "awaiting_input" else None

        run_id = self._home.wait_for("the review to be asked for", asks, timeout=RUN_SECONDS)
        self._expect(not self._loads(ASKED), f"nothing of {ASKED} is loaded before a person has looked")
        said = rest.answer(SALES, run_id, "review", "Approve")
        said.expect(200)
        self._notes["reviewed_by"] = said.body["responded_by"]["name"]
        self._say(f"answered Approve over REST, as {self._notes['reviewed_by']}")

    def _again(self) -> None:
        """The days of March once more: cleared by Airflow, and run anew."""
        before, loads = self._snapshots["first"], self._loads()
        tries = self._tries()
        self._say("`airflow backfill create --reprocess-behavior completed`: the same days again")
        self._backfill("--reprocess-behavior", "completed")
        self._home.wait_for("the days to begin again", lambda: self._tries() > tries)
        self._await_days("the days to be over again")
        self._look("again")
        self._expect(self._snapshots["again"] == before, "the same days again give the same totals")
        self._expect(self._loads() == loads, "the same days again load nothing")
        self._notes["loads_after_again"] = len(loads)

    def _late(self) -> None:
        """A partition that comes when its day is loaded."""
        day, region = LATE_PARTITION
        loads = self._loads()
        shutil.copy(SAMPLE / "late" / day / f"{region}.csv", self._landing / day)
        self._say(f"{region} of {day} arrives late; starting {LATE}")
        # Airflow may make last night's run besides, when it is unpaused; then the second one finds nothing.
        self._unpause(LATE)
        self._home.rest.trigger(LATE, {})
        runs = self._ended(LATE)
        self._expect(set(runs.values()) == {"success"}, f"{LATE} succeeds")
        new = [load for load in self._loads() if load not in loads]
        self._notes["loaded_late"] = [f"{load['day']}/{load['region']}" for load in new]
        self._expect(self._notes["loaded_late"] == [f"{day}/{region}"], "it loads the late partition alone")
        tasks = [task for run_id in runs for task in self._tasks(LATE, run_id)]
        looked = [task for task in tasks if task["task_id"] == "validate" and task["state"] == "success"]
        self._expect(len(looked) == 1, "no other partition is even looked at")
        self._look("late")

    # What has to be true

    def _check_days(self) -> None:
        hours = {
            day: f"{run['data_interval_start']} to {run['data_interval_end']}"
            for day, run in sorted(self._runs().items())
        }
        self._notes["intervals"] = hours
        self._expect(sorted(hours) == sorted((*AUTUMN, *SPRING)), "each day has one run")
        self._expect(
            hours.get(SPRING[1]) == "2026-03-28T23:00:00Z to 2026-03-29T22:00:00Z",
            "the last Sunday of March has 23 hours",
        )
        self._expect(
            hours.get(AUTUMN[1]) == "2026-10-24T22:00:00Z to 2026-10-25T23:00:00Z",
            "the last Sunday of October has 25 hours",
        )
        kinds = {day: run["run_type"] for day, run in self._runs().items()}
        wanted = {**dict.fromkeys(AUTUMN, "scheduled"), **dict.fromkeys(SPRING, "backfill")}
        self._expect(kinds == wanted, "October was caught up with, March filled back")

    def _check_kill(self) -> None:
        """The killed step went on behind its checkpoint."""
        run_id = self._runs()[KILLED[0]]["dag_run_id"]
        stages = [task for task in self._tasks(SALES, run_id) if task["task_id"] == "stage"]
        tries = {task["map_index"]: task["try_number"] for task in stages}
        twice = [index for index, number in tries.items() if number == 2]
        self._expect(len(twice) == 1 and sum(tries.values()) == len(tries) + 1, "one step was tried twice")
        if twice:
            place = f"/api/v2/dags/{SALES}/dagRuns/{quote(run_id, safe='')}/taskInstances/stage/logs/2"
            log = str(self._home.rest.get(f"{place}?map_index={twice[0]}&full_content=true"))
            went_on = "goes on at row 10 of" in log
            self._expect(went_on, "the second try went on behind the first one's checkpoint")
            self._say(f"stage of {'/'.join(KILLED)} was killed after a checkpoint and went on behind it")

    def _check_report(self) -> None:
        """The asset started the other Dag, and its weeks are the days' sums."""
        self._say(f"waiting until {REPORT}, which the asset starts, has the last totals")
        days = self._rows("SELECT day, region, cents FROM daily_totals")
        wanted = sum(row["cents"] for row in days)

        def up_to_date() -> bool:
            weeks = self._rows("SELECT week, region, days, cents FROM weekly_totals")
            return sum(row["cents"] for row in weeks) == wanted

        self._home.wait_for("the weekly totals", up_to_date, timeout=RUN_SECONDS)
        runs = self._home.rest.get(f"/api/v2/dags/{REPORT}/dagRuns?limit=100")["dag_runs"]
        self._notes["report_runs"] = len(runs)
        kinds = {run["run_type"] for run in runs}
        self._expect(kinds == {"asset_triggered"}, "the report is started by the asset alone")

    def _look(self, name: str) -> None:
        """Hold the table against the files."""
        found = {
            (row["day"], row["region"]): (row["sales"], row["pieces"], Decimal(row["cents"]) / 100)
            for row in self._rows("SELECT day, region, sales, pieces, cents FROM daily_totals")
        }
        counted = {
            (row["day"], row["region"]): row["sales"]
            for row in self._rows(
                "SELECT day, region, count(*) AS sales FROM current_sales GROUP BY day, region"
            )
        }
        self._snapshots[name] = found
        wanted = recount(self._landing)
        self._expect(found == wanted, f"{name}: the totals are those of the files")
        rows = {place: total[0] for place, total in wanted.items() if total[0]}
        self._expect(counted == rows, f"{name}: the table has the rows of the files, each once")
        self._say(
            f"{name}: {sum(rows.values())} sales in {len(found)} partitions; "
            f"{'as' if found == wanted else 'NOT as'} recounted from the files"
        )

    # Looking

    def _runs(self) -> dict[str, dict[str, Any]]:
        """The pipeline's runs, by local day."""
        runs = self._home.rest.get(f"/api/v2/dags/{SALES}/dagRuns?limit=100")["dag_runs"]
        # At noon in UTC it is the same day in Berlin, and every interval has one noon.
        return {
            day: run
            for day in (*AUTUMN, *SPRING)
            for run in runs
            if run["data_interval_start"] <= f"{day}T12:00:00Z" < run["data_interval_end"]
        }

    def _tries(self) -> int:
        return sum(
            task["try_number"]
            for day, run in self._runs().items()
            if day in SPRING
            for task in self._tasks(SALES, run["dag_run_id"])
            if task["task_id"] == "extract"
        )

    def _tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances?limit=100"
        return list(self._home.rest.get(path)["task_instances"])

    def _await_days(self, what: str) -> None:
        self._say(f"waiting for {what}")

        def over() -> bool:
            states = {day: run["state"] for day, run in self._runs().items()}
            if "failed" in states.values():
                raise ValueError(f"a day failed: {states}")
            return len(states) == len(AUTUMN) + len(SPRING) and set(states.values()) == {"success"}

        self._home.wait_for(what, over, timeout=RUN_SECONDS)

    def _ended(self, dag_id: str) -> dict[str, str]:
        """State of each run of the Dag, once none is at work."""

        def over() -> dict[str, str] | None:
            runs = self._home.rest.get(f"/api/v2/dags/{dag_id}/dagRuns?limit=100")["dag_runs"]
            states = {run["dag_run_id"]: run["state"] for run in runs}
            return states if set(states.values()) <= set(FINISHED) else None

        return dict(self._home.wait_for(f"the end of {dag_id}", over, timeout=RUN_SECONDS))

    def _loads(self, day: str | None = None) -> list[dict[str, Any]]:
        rows = self._rows("SELECT key, day, region, version, rows, undone FROM loads ORDER BY day, region")
        return [row for row in rows if day in (None, row["day"])]

    def _rows(self, query: str) -> list[dict[str, Any]]:
        path = self._home.shop_db.with_name("warehouse.db")
        if not path.exists():
            return []
        # Read only: what looks must not make what it looks for.
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30.0)) as warehouse:
            warehouse.row_factory = sqlite3.Row
            return [dict(row) for row in warehouse.execute(query)]

    def _expect(self, truth: bool, words: str) -> None:
        if not truth:
            self._problems.append(f"not so: {words}")

    # Telling

    def show(self) -> list[str]:
        """Print the table, the loads and the intervals."""
        print_table("data intervals", _pairs(self._notes.get("intervals", {})), ("day", "interval"))
        print_table("loads", self._safe_loads(), ("day", "region", "version", "rows", "undone"))
        found = self._snapshots.get("late", {})
        files = recount(self._landing) if found else {}
        totals = [
            {
                "day": day,
                "region": region,
                "sales": total[0],
                "pieces": total[1],
                "EUR": f"{total[2]:.2f}",
                "from the files": "the same" if files.get((day, region)) == total else "ANOTHER",
            }
            for (day, region), total in sorted(found.items())
        ]
        print_table("daily totals", totals, ("day", "region", "sales", "pieces", "EUR", "from the files"))
        return list(self._problems)

    def _safe_loads(self) -> Sequence[dict[str, Any]]:
        try:
            return self._loads()
        except sqlite3.Error:
            # The demo broke off before there was a table.
            return []

    def as_json(self, problems: list[str]) -> dict[str, Any]:
        """The demo's last line."""
        totals = self._snapshots.get("late", {})
        return {
            "ok": not problems,
            "partitions": len(totals),
            "sales": sum(total[0] for total in totals.values()),
            "revenue": f"{sum((total[2] for total in totals.values()), Decimal(0)):.2f}",
            "notes": self._notes,
            "problems": problems,
        }


def _pairs(intervals: dict[str, str]) -> list[dict[str, str]]:
    return [{"day": day, "interval": interval} for day, interval in intervals.items()]
