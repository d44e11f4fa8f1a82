"""
What holds for every tier: a private Airflow home, and asserts that count.

Nothing here imports airflow: the unit and contract tiers run in an environment without it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from support.postgres import PostgresServer

ROOT = Path(__file__).resolve().parent.parent

# No deadline: the machine may be busy. In continuous integration the examples are the same each time;
# elsewhere they vary, and a failure prints what brings it back.
settings.register_profile(
    "louver", database=None, deadline=None, derandomize="CI" in os.environ, print_blob=True
)
settings.load_profile("louver")

_home: Path | None = None


def pytest_configure(config: pytest.Config) -> None:
    """
    Point Airflow to a home of this test run, before anything can import it.

    The user's own settings are hidden: ``AIRFLOW_HOME`` and every ``AIRFLOW__SECTION__KEY``. A test that
    needs other settings sets them itself, or starts a process with an environment of its own.
    """
    global _home
    if "airflow" in sys.modules:
        raise pytest.UsageError("a conftest.py imports airflow: it would work in the user's own home")
    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
        del os.environ[name]
    _home = Path(tempfile.mkdtemp(prefix="louver-tests-"))
    # It outlives the run: hypothesis keeps tables of Unicode there, which take seconds to make.
    tables = Path(tempfile.gettempdir()) / f"louver-hypothesis-{os.getuid()}"
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(tables)
    os.environ["AIRFLOW_HOME"] = str(_home)
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(ROOT / "dags")
    os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(ROOT / "plugins")
    os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{_home / 'airflow.db'}"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take the home away again."""
    if _home is not None:
        shutil.rmtree(_home, ignore_errors=True)


@pytest.fixture(scope="session")
def start_postgres() -> Iterator[Callable[..., PostgresServer]]:
    """Return how to start a Postgres server, which is stopped at the end of the run."""
    from support.postgres import PostgresServer, PostgresUnavailable

    with ExitStack() as running:

        def start(**given: Any) -> PostgresServer:
            try:
                return running.enter_context(PostgresServer(**given))
            except PostgresUnavailable as error:
                if "CI" in os.environ:
                    pytest.fail(str(error))
                pytest.skip(str(error))

        yield start


@pytest.fixture(scope="session")
def postgres(start_postgres: Callable[..., PostgresServer]) -> PostgresServer:
    """The Postgres server of this run; it is not to be stopped, a test of that starts one of its own."""
    return start_postgres()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """The URL of an empty schema."""
    return postgres.fresh_schema()
