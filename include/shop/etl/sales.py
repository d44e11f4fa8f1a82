"""
The steps of the sales pipeline: find the files, read them, stage their rows, load, add up, publish.

What goes from step to step is small: names, hashes and counts. The rows stay in the files and in the
warehouse.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from louver.effects import Verification
from louver.errors import EffectNotPerformed
from shop import faults
from shop.etl import landing, warehouse
from shop.etl.days import day_of
from shop.etl.rows import read_sales

if TYPE_CHECKING:
    from louver.compensation import Undo
    from louver.context import TaskContext

__all__ = ["aggregate", "extract", "find_late", "find_load", "load", "publish", "stage", "unload", "validate"]

Data = dict[str, Any]

BATCH = 10
"""Rows between two checkpoints: few, so that the sample files have several."""


class TotalsDisagree(Exception):
    """What was loaded is not what is in the table."""


def extract(ctx: TaskContext, day: str, data_interval_start: datetime | None) -> list[Data]:
    """
    The partitions that are there for a day.

    :param day: ``2026-03-29``; empty for the day that the run's data interval begins in.
    """
    if day:
        wanted = date.fromisoformat(day)
    elif data_interval_start is not None:
        wanted = day_of(data_interval_start)
    else:
        raise ValueError("a run without a data interval needs a day, as 2026-03-29")
    found = [_partition(arrival) for arrival in landing.arrived_on(wanted)]
    if not found:
        ctx.skip(f"nothing has arrived for {wanted}")
    ctx.log.info("%s: %s partitions", wanted, len(found))
    return found


def find_late(ctx: TaskContext) -> list[Data]:
    """
    Partitions that came, or came anew, after their day was loaded.

    A day that was never loaded is left to its own run. What a person has seen and was not loaded stays out.
    """
    with warehouse.transaction() as open_warehouse:
        days = {day for (day,) in open_warehouse.execute("SELECT DISTINCT day FROM loads WHERE undone = 0")}
        seen = set(
            open_warehouse.execute(
                "SELECT day, region, content_hash FROM reviewed "
                "EXCEPT SELECT day, region, content_hash FROM loads WHERE undone = 0"
            )
        )
        late = [
            arrival
            for arrival in landing.arrivals()
            if arrival.day.isoformat() in days
            and warehouse.current(open_warehouse, arrival.day, arrival.region)[1] != arrival.content_hash
            and (arrival.day.isoformat(), arrival.region, arrival.content_hash) not in seen
        ]
    if not late:
        ctx.skip("nothing came late")
    return [_partition(arrival) for arrival in late]


def _partition(arrival: landing.Arrival) -> Data:
    with warehouse.transaction() as open_warehouse:
        version, loaded = warehouse.current(open_warehouse, arrival.day, arrival.region)
    return {
        **asdict(arrival),
        "day": arrival.day.isoformat(),
        # What is loaded already keeps its version, so loading it again is the same effect. Anything else is
        # the next one: content that was replaced and comes back is loaded again.
        "version": version if loaded == arrival.content_hash else version + 1,
    }


def validate(partition: Data) -> Data:
    """What is in a partition: its state, and how many rows are good, broken and there twice."""
    reading = read_sales(_content(partition), day=date.fromisoformat(partition["day"]))
    with warehouse.transaction() as open_warehouse:
        (reviews,) = open_warehouse.execute(
            "SELECT count(*) FROM reviewed WHERE day = ? AND region = ? AND content_hash = ?",
            (partition["day"], partition["region"], partition["content_hash"]),
        ).fetchone()
    return {
        **partition,
        "state": reading.state,
        "good": len(reading.sales),
        "broken": sum(reading.broken.values()),
        "reasons": dict(reading.broken),
        "duplicates": reading.duplicates,
        "reviewed": reviews > 0,
    }


def stage(ctx: TaskContext, partition: Data, batch_seconds: float) -> Data:
    """
    Put the rows of a partition beside those that count, in batches: the long step.

    A checkpoint after each batch says where to go on, and is where it may be paused or stopped.

    :param batch_seconds: how long a batch takes, so that there is time to pause it.
    """
    day, region = date.fromisoformat(partition["day"]), partition["region"]
    sales = read_sales(_content(partition), day=day).sales
    first = ctx.restore({"next": 0})["next"]
    ctx.log.info("%s of %s: goes on at row %s of %s", region, day, first, len(sales))
    while first < len(sales):
        batch = sales[first : first + BATCH]
        with warehouse.transaction() as open_warehouse:
            warehouse.stage(open_warehouse, day, region, partition["content_hash"], batch)
        time.sleep(batch_seconds)
        first += len(batch)
        ctx.progress(first, total=len(sales), unit="rows")
        ctx.checkpoint({"next": first})
        faults.crash_point("stage", order_id=f"{day}/{region}")
    return partition


def load(ctx: TaskContext, partition: Data) -> Data:
    """
    Make the staged rows the ones that count; the content before counts again where the run does not succeed.

    The key is of the partition and its content, not of the run or the Dag: whichever run comes first does it,
    and every other one gets its result.
    """
    place = f"{partition['day']}/{partition['region']}"
    version, content_hash = partition["version"], partition["content_hash"]
    intent = {name: partition[name] for name in ("day", "region", "version", "content_hash", "good")}
    loaded: Data = ctx.effect(
        "load",
        key=f"load:{place}:{version}:{content_hash}",
        scope="global",
        intent=intent,
        perform=lambda key: _load(key, intent),
        compensate=unload,
        verify=find_load,
        provider_idempotent=True,
    )
    ctx.log.info("%s: version %s, %s rows", place, version, loaded["rows"])
    return loaded


def _load(key: str, intent: Data) -> Data:
    day, region, content_hash = date.fromisoformat(intent["day"]), intent["region"], intent["content_hash"]
    with warehouse.transaction() as open_warehouse:
        rows = warehouse.staged(open_warehouse, day, region, content_hash)
        if rows != intent["good"]:
            raise EffectNotPerformed(f"{rows} rows are staged, not {intent['good']}")
        open_warehouse.execute(
            "INSERT OR IGNORE INTO loads (key, day, region, version, content_hash, rows) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (key, intent["day"], region, intent["version"], content_hash, rows),
        )
    return _loaded(intent["day"], region, intent["version"], rows)


def _loaded(day: str, region: str, version: int, rows: int) -> Data:
    return {"day": day, "region": region, "version": version, "rows": rows}


def unload(undo: Undo) -> Data:
    """Undo of ``load``."""
    with warehouse.transaction() as open_warehouse:
        undone = open_warehouse.execute(
            "UPDATE loads SET undone = 1 WHERE key = ? AND undone = 0", (undo.effect_key,)
        ).rowcount
    return {"unloaded": undone}


def find_load(key: str) -> Verification:
    """Whether a partition was loaded under ``key``."""
    with warehouse.transaction() as open_warehouse:
        row = open_warehouse.execute(
            "SELECT day, region, version, rows FROM loads WHERE key = ?", (key,)
        ).fetchone()
    return Verification.absent() if row is None else Verification.committed(_loaded(*row))


def aggregate(loads: list[Data]) -> list[Data]:
    """
    The totals of every day that was touched, with all its regions, also those that other runs loaded.

    :raises TotalsDisagree: where a partition has not the rows that were loaded.
    """
    with warehouse.transaction() as open_warehouse:
        for done in loads:
            day = date.fromisoformat(done["day"])
            version, content_hash = warehouse.current(open_warehouse, day, done["region"])
            if version != done["version"] or content_hash is None:
                # A later content came meanwhile; its run counts it.
                continue
            rows = warehouse.staged(open_warehouse, day, done["region"], content_hash)
            if rows != done["rows"]:
                raise TotalsDisagree(f"{done['region']} of {day} has {rows} rows, not {done['rows']}")
        return [
            dict(zip(("day", "region", "sales", "pieces", "cents"), row, strict=True))
            for day in sorted({done["day"] for done in loads})
            for row in open_warehouse.execute(
                "SELECT loads.day, loads.region, count(sale_id), coalesce(sum(quantity), 0), "
                "coalesce(sum(quantity * unit_cents), 0) "
                "FROM loads LEFT JOIN current_sales AS sales USING (day, region) "
                "WHERE loads.day = ? AND loads.undone = 0 AND loads.version = (SELECT max(version) "
                "FROM loads AS others WHERE others.day = loads.day AND others.region = loads.region "
                "AND others.undone = 0) GROUP BY loads.day, loads.region ORDER BY loads.region",
                (day,),
            )
        ]


def publish(totals: list[Data]) -> Data:
    """Write the totals where reports read them: an upsert, which the same totals again do not change."""
    with warehouse.transaction() as open_warehouse:
        open_warehouse.executemany(
            "INSERT OR REPLACE INTO daily_totals VALUES (:day, :region, :sales, :pieces, :cents)", totals
        )
    return {
        "days": sorted({total["day"] for total in totals}),
        "sales": sum(total["sales"] for total in totals),
        "cents": sum(total["cents"] for total in totals),
    }


def _content(partition: Data) -> bytes:
    return landing.content_of(
        date.fromisoformat(partition["day"]), partition["region"], content_hash=partition["content_hash"]
    )
