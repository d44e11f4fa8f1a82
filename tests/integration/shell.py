"""
Run ``airflow`` commands as they come, in one process: each takes seconds to start.

Reads JSON lists of arguments from standard input, a line each; answers each with one line, as
``scripts/airflow_commands.py`` does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from airflow_commands import run


def main() -> None:
    """Run from the command line."""
    answers, sys.stdout = sys.stdout, sys.stderr
    from airflow.cli import cli_parser

    parser = cli_parser.get_parser()
    for line in sys.stdin:
        print(json.dumps(run(parser, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
