"""
``scripts/airflow ARGUMENTS...``: Airflow's own command line in the home of ``make up``.

It becomes that command: exit code, standard streams and signals are those of ``airflow`` itself.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from airflow_home import AirflowHome
from up import HOME


def main(arguments: list[str]) -> NoReturn:
    """Run from the command line."""
    # A home that `make up` has never filled has no database either; making one here would hide that.
    if not (HOME / "home.json").is_file():
        sys.exit(f"scripts/airflow: there is no Airflow in {HOME} yet; run `make up` first")
    home = AirflowHome(HOME)
    # Not `python -m airflow`: that would put the caller's folder before everything that Python imports.
    command = home.python.parent / "airflow"
    os.execve(command, [str(command), *arguments], home.env())


if __name__ == "__main__":
    main(sys.argv[1:])
