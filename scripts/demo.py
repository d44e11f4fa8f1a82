"""``make demo``: the order workflow on a real Airflow, from a killed process to a refund, with proof."""

from __future__ import annotations

import os
import sys
from typing import Any

from airflow_home import ROOT, AirflowHome

sys.path.insert(0, str(ROOT / "include"))

from demo_frame import Say, play
from demo_report import as_json, differences, print_run
from demo_story import DAGS, Story, add_short_definition


class OrderStory:
    """The plot, with what is made ready before it and what is said of it afterwards."""

    def __init__(self, home: AirflowHome, say: Say) -> None:
        self._home = home
        self._story = Story(home, say)

    def prepare(self) -> None:
        """Add the Dag of run D."""
        # The shop's functions, called from here, look at the same file as the tasks.
        os.environ["SHOP_DB"] = str(self._home.shop_db)
        add_short_definition(self._home.own_dags)

    def tell(self) -> None:
        """Let it happen."""
        self._story.tell()

    def show(self) -> list[str]:
        """Print the runs; returns what is not as described."""
        runs = self._story.runs
        for run in runs:
            print_run(run)
        return [*self._story.problems, *(found for run in runs for found in differences(run))]

    def as_json(self, problems: list[str]) -> dict[str, Any]:
        """The demo's last line."""
        return as_json(self._story, problems)


def main(argv: list[str]) -> int:
    """Run from the command line."""
    return play(
        argv,
        name="demo",
        description="The order workflow on a real Airflow.",
        dags=DAGS,
        story=OrderStory,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
