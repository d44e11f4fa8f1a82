"""
A script outside of Airflow, which has its address and a login alone.

``outside.py URL USER RUN_ID`` with the password on standard input: submits a workflow, pauses it, resumes it,
waits for its result, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys

from louver_provider.client import Louver, SubmitConflict, WaitTimeout


def main(url: str, user: str, run_id: str) -> None:
    """See above."""
    password = sys.stdin.readline().strip()
    with Louver(url, username=user, password=password) as louver:
        run = louver.submit("called", {"amount": 50, "seconds": 4.0}, run_id=run_id)
        again = louver.submit("called", {"amount": 50, "seconds": 4.0}, run_id=run_id)
        seen: dict[str, object] = {"same": run == again}
        try:
            louver.submit("called", {"amount": 51, "seconds": 4.0}, run_id=run_id)
        except SubmitConflict as conflict:
            seen["conflict"] = str(conflict)
        try:
            run.get(timeout=0)
        except WaitTimeout as late:
            seen["late"] = str(late)
        while "running" not in [str(node.state) for node in run.status().nodes.values()]:
            pass
        seen["paused"] = [reply.became for reply in run.pause("wait", reason="lunch", wait=20)]
        seen["while_paused"] = str(run.status().nodes["wait"].state)
        seen["resumed"] = [reply.became for reply in run.resume("wait", wait=20)]
        result = run.get(timeout=120)
        seen["result"] = {name: [type(value).__name__, repr(value)] for name, value in result.items()}
        seen["tags"] = {name: found.tag for name, found in run.results().items()}
        seen["trail"] = [[row.trigger, row.actor, row.reason] for row in run.history("wait") if row.actor]
        seen["airflow"] = "airflow" in sys.modules
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
