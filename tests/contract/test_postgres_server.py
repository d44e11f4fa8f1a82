"""The tests' own server: it ends with who started it, keeps what was committed, and runs from the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.ledgers import EVENT, await_, read, write
from support.processes import alive

from louver.ledger import open_ledger

STARTER = """
import os, sys
from support.postgres import PostgresServer, PostgresUnavailable
server = PostgresServer()
server.start()
pid = (server._data / "postmaster.pid").read_text().split()[0]
print(server._directory, pid, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("ends", ["killed", "forgets"])
def test_the_server_and_its_files_go_with_who_started_it(postgres, ends):
    starter = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", STARTER, ends],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert starter.returncode == (-9 if ends == "killed" else 0), starter.stderr
    directory, server = starter.stdout.split()
    await_(lambda: not Path(directory).exists())
    assert not alive(int(server))


def test_the_role_that_ledgers_get_is_no_superuser(postgres):
    (row,) = postgres.execute(
        "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = %s", [postgres.role.name]
    )
    assert row == (False, False, False)


def test_what_was_committed_is_there_after_a_crash(start_postgres):
    server = start_postgres()
    ledger = open_ledger(server.fresh_schema())
    write(ledger)
    server.kill()
    assert not server.running
    server.start()
    assert read(ledger) == EVENT
    ledger.close()
    server.stop()


def test_the_packages_programs_serve_as_well(start_postgres):
    server = start_postgres(packaged=True)
    ledger = open_ledger(server.fresh_schema())
    write(ledger)
    assert read(ledger) == EVENT
    ledger.close()
    server.stop()
