"""What tests of one store ask of a ledger, whatever the ledger is in."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from louver.errors import LedgerUnavailable, LouverError
from louver.ledger.contract import Ledger
from support.postgres import AWKWARD, PostgresServer, Role

__all__ = ["EVENT", "NOW", "await_", "hold_connections", "place", "read", "refused", "schema_of", "write"]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
EVENT = {"id": "1", "data": {"amount": 5}}


def write(ledger: Ledger, identity: str = "a") -> Any:
    """One decision, which writes rows of two tables."""
    given = {"dag_id": "d", "payload_fingerprint": "f" * 64, "run_id": f"run-{identity}", "event": EVENT}
    return ledger.accept_event(identity=identity, now=NOW, **given)


def read(ledger: Ledger, identity: str = "a") -> Any:
    """What :func:`write` wrote; None where it did not."""
    found = ledger.load_event("d", identity)
    return None if found is None else found[1]


def refused(call: Callable[[], object], kind: type[LouverError] = LedgerUnavailable) -> str:
    """
    See it refused, and return what was said.

    :raises AssertionError: where it is not, or where message or traceback hold the password.
    """
    try:
        call()
    except kind as error:
        shown = "".join(traceback.format_exception(error))
        if any(secret in shown for secret in (AWKWARD, quote(AWKWARD, safe=""), quote(AWKWARD))):
            raise AssertionError("the password is shown") from None
        return str(error)
    raise AssertionError("it was not refused")


def place(server: PostgresServer, role: Role | None = None) -> str:
    """How a message is to name the role's database there."""
    return f"postgresql://{(role or server.role).name}:***@127.0.0.1:{server.port}/{server.database}"


def schema_of(url: str) -> str:
    """Where :meth:`PostgresServer.fresh_schema` leads."""
    return url.partition("search_path%3D")[2].partition("&")[0]


def hold_connections(ledger: Any, count: int) -> None:
    """Have the ledger keep several connections open, all idle afterwards."""
    met = threading.Barrier(count)

    def hold() -> None:
        with ledger._engines.begin() as connection:
            connection.exec_driver_sql("SELECT 1")
            met.wait(30)

    threads = [threading.Thread(target=hold) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def await_(condition: Callable[[], object], *, seconds: float = 60) -> None:
    """
    Wait for what another process is about to do.

    :raises TimeoutError: where it does not.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come about")
        time.sleep(0.01)
