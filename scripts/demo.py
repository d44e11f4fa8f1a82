"""
``make demo``: the order workflow on a real Airflow, from a killed process to a refund, with proof.

Everything happens in a home of its own, which is removed at the end where all went as described, and kept
where it did not. The last line is ``DEMO`` and a JSON object; the exit code is 0 only where every expectation
was met.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from airflow_home import ROOT, AirflowHome, HomeError
from airflow_rest import RestError, TimedOut

sys.path.insert(0, str(ROOT / "include"))

from demo_report import as_json, differences, print_run
from demo_story import DAGS, Story, add_short_definition

BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print progress with the seconds since the start."""
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def main(argv: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description="The order workflow on a real Airflow.")
    parser.add_argument("--keep", action="store_true", help="keep the home of this Airflow afterwards")
    options = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="louver-demo-"))
    home = AirflowHome(folder, say=say)
    # The shop's functions, called from here, look at the same file as the tasks.
    os.environ["SHOP_DB"] = str(home.shop_db)
    story = Story(home, say)
    problems: list[str] = []
    try:
        say(f"starting a private Airflow in {folder}")
        home.prepare()
        add_short_definition(home.own_dags)
        with home.kept_running(dags=DAGS):
            story.tell()
    except (HomeError, RestError, TimedOut, OSError, ValueError) as error:
        problems.append(f"the demo broke off: {error}")
    except (KeyboardInterrupt, SystemExit):
        problems.append("the demo was interrupted")
    for run in story.runs:
        print_run(run)
    problems += story.problems
    problems += [difference for run in story.runs for difference in differences(run)]
    keep = options.keep or bool(problems)
    if keep:
        print(f"\nThe home is kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        print(f"NOT AS DESCRIBED: {problem}")
    if not problems:
        print(f"\nAll of it is as described, after {time.monotonic() - BEGAN:.0f} s.")
    print(f"DEMO {json.dumps(as_json(story, problems))}", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
