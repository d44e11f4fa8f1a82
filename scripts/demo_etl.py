"""
``make demo-etl``: the sales pipeline on a real Airflow, over both changes of the clocks, with proof.

Catch-up, a back-fill, a killed process, a quality gate that asks a person, the same days again, a partition
that comes late; at last the table beside what the files say.
"""

from __future__ import annotations

import os
import sys

from airflow_home import ROOT

sys.path.insert(0, str(ROOT / "include"))

from demo_etl_story import DAGS, SalesStory
from demo_frame import play


def main(argv: list[str]) -> int:
    """Run from the command line."""
    return play(
        argv,
        name="demo-etl",
        description="The sales pipeline on a real Airflow.",
        dags=DAGS,
        story=SalesStory,
        settings=lambda folder: {"SHOP_LANDING": str(folder / "landing")},
    )


if __name__ == "__main__":
    os.environ.pop("SHOP_WAREHOUSE", None)
    sys.exit(main(sys.argv[1:]))
