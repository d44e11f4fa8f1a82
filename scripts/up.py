"""
``make up``: an Airflow with the examples that stays up; ``--down`` ends it.

Its home is ``.airflow`` in the checkout: database, ledger, shop, logs, secrets. Remove that folder, after
``make down``, to start afresh.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from pathlib import Path

from airflow_home import ROOT, AirflowHome, HomeError
from airflow_rest import RestError, TimedOut

HOME = ROOT / ".airflow"
DAGS = ("order_workflow", "import_rows")


def say(text: str) -> None:
    """Print progress."""
    print(f"up: {text}", flush=True)


def show(home: AirflowHome) -> None:
    """Tell where it is, how to get in, and what to do first."""
    print(
        f"\n  Airflow    {home.url}"
        f"\n  login      admin / {home.password('admin')}"
        f"\n  home       {home.path}"
        f"\n  try        trigger order_workflow in the UI, and answer under Required Actions"
        f"\n  stop       make down\n",
        flush=True,
    )


def main(argv: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="scripts/up", description="An Airflow with the examples.")
    parser.add_argument("--down", action="store_true", help="end it")
    parser.add_argument("--home", type=Path, default=HOME, help="its home; by default .airflow")
    options = parser.parse_args(argv)
    home = AirflowHome(options.home, say=say)
    try:
        if options.down:
            if not home.path.is_dir() or not home.stop():
                say("nothing was running")
            return 0
        home.prepare()
        with (home.path / "up.lock").open("w") as lock:
            # Two calls at once take turns; the second finds it running.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if home.running():
                say("it is running already")
            else:
                home.start(dags=DAGS)
        show(home)
    except (HomeError, RestError, TimedOut, ValueError, OSError) as error:
        print(f"up: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
