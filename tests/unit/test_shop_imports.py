"""The long import, embedded: paused, killed and resumed at every batch, each row comes once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import pytest

from louver.control import send
from louver.definition import Definition
from louver.engine import run_inline
from louver.ledger import open_ledger
from louver.ledger.names import RunKey, TaskKey, Verb
from louver.ledger.requests import CommandRequest
from louver.states import RunState, Source, TaskState
from louver.supervision import ControlSettings
from shop import imports

DEFINITION = Definition.from_json(
    (Path(__file__).parents[2] / "dags" / "import_rows.json").read_bytes(), source="import_rows.json"
)
PARAMS = {"source": "s", "rows": 100, "batch": 10, "seconds": 0}
# Otherwise the ledger is asked at most once a second; here the next checkpoint is to see what is wanted.
EAGER = ControlSettings(control_interval=timedelta(0))
KEY = TaskKey("import_rows", "run", "import_rows")


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))


def test_all_rows_are_imported() -> None:
    result = run_inline(DEFINITION, params=PARAMS, run_id="run")
    assert (result.state, result.value) == (RunState.SUCCEEDED, 100)


def test_a_batch_that_was_done_before_its_process_died_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Killed(BaseException):
        pass

    real = imports._import_batch

    def deadly(source: str, first: int, last: int) -> None:
        real(source, first, last)
        if first in (30, 70) and first not in died:
            died.add(first)
            raise Killed

    died: set[int] = set()
    monkeypatch.setattr(imports, "_import_batch", deadly)
    with open_ledger("memory://") as ledger:
        for _ in range(2):
            with pytest.raises(Killed):
                run_inline(DEFINITION, params=PARAMS, ledger=ledger, run_id="run")
        result = run_inline(DEFINITION, params=PARAMS, ledger=ledger, run_id="run")
    assert (result.value, died) == (100, {30, 70})


def test_paused_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(timezone.utc)
    real = imports._import_batch
    batches: list[int] = []

    with open_ledger("memory://") as ledger:

        def ask(verb: Verb) -> None:
            request = CommandRequest(
                command_id=uuid4().hex, task=KEY, verb=verb, actor="ann", reason=None, source=Source.CLI
            )
            send(ledger, request, now=now)

        def counting(source: str, first: int, last: int) -> None:
            batches.append(first)
            real(source, first, last)
            if first == 40:
                ask(Verb.PAUSE)

        monkeypatch.setattr(imports, "_import_batch", counting)
        paused = run_inline(DEFINITION, params=PARAMS, ledger=ledger, run_id="run", control=EAGER)
        assert (paused.state, paused.states["import_rows"]) == (RunState.PAUSED, TaskState.PAUSED)
        assert paused.paused == ("import_rows",)
        again = run_inline(DEFINITION, params=PARAMS, ledger=ledger, run_id="run", control=EAGER)
        assert again.state is RunState.PAUSED

        ask(Verb.RESUME)
        result = run_inline(DEFINITION, params=PARAMS, ledger=ledger, run_id="run", control=EAGER)

        assert (result.state, result.value) == (RunState.SUCCEEDED, 100)
        assert batches == list(range(0, 100, 10))
        assert ledger.get_seal(RunKey("import_rows", "run")) is not None
