"""
Pause and resume the step ``work`` of several runs again and again, at moments around its park.

Run in the environment of the Airflow it is about: ``python hammer.py DAG GAP,GAP,... RUN...``. Prints one
JSON line for each resume.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import timedelta

from louver.ledger.names import RunKey
from louver_provider.task_control import Reply, TaskControl

_LOCK = threading.Lock()


def _say(run_id: str, gap: float, reply: Reply) -> None:
    told = {
        "run_id": run_id,
        "gap": gap,
        "became": str(reply.became),
        "state": str(reply.state),
        "detail": reply.detail,
    }
    with _LOCK:
        print(json.dumps(told), flush=True)


def hammer(dag_id: str, run_id: str, gaps: list[float]) -> None:
    """Pause, wait for the gap, and resume by two at once; for each gap."""
    run, client = RunKey(dag_id, run_id), TaskControl(actor="hammer")

    def resume(gap: float) -> None:
        for reply in client.resume(run, "work", timeout=timedelta(seconds=60)):
            _say(run_id, gap, reply)

    for gap in gaps:
        client.pause(run, "work", timeout=timedelta(0))
        time.sleep(gap)
        both = [threading.Thread(target=resume, args=(gap,)) for _ in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()


def main(dag_id: str, gaps: str, *run_ids: str) -> None:
    """Run from the command line."""
    times = [float(gap) for gap in gaps.split(",")]
    threads = [
        # Each run meets the gaps in another order.
        threading.Thread(target=hammer, args=(dag_id, run_id, [*times[number:], *times[:number]]))
        for number, run_id in enumerate(run_ids)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
