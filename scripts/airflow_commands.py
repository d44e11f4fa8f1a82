"""
Run several ``airflow`` commands in one process, which would otherwise take seconds each to start.

Reads a JSON list of argument lists from standard input; runs them one after the other through Airflow's own
command line; prints one JSON line for each as soon as it is done: exit code, standard output, standard error.
Run in the environment of the Airflow it is about (``AirflowHome.commands``).
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import IO


def run(parser, arguments: list[str]) -> tuple[int, str, str]:
    """One command, as a shell would see it."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            parsed = parser.parse_args(arguments)
            parsed.func(parsed)
        except SystemExit as end:
            code = end.code or 0
    if not isinstance(code, int):
        # What Python itself does with sys.exit("words").
        return 1, out.getvalue(), f"{err.getvalue()}{code}\n"
    return code, out.getvalue(), err.getvalue()


def main(answers: IO[str]) -> None:
    """Run from the command line; results go to ``answers``."""
    from airflow.cli import cli_parser

    parser = cli_parser.get_parser()
    for arguments in json.load(sys.stdin):
        print(json.dumps(run(parser, arguments)), file=answers, flush=True)


if __name__ == "__main__":
    # Whatever is printed at import must not stand between the results.
    results = sys.stdout
    sys.stdout = sys.stderr
    main(results)
