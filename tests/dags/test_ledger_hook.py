"""The ledger of an Airflow process."""

from __future__ import annotations

from pathlib import Path

import pytest

from louver.errors import ConfigurationError, LedgerClosed
from louver.ledger.memory import MemoryLedger
from louver.ledger.names import RunKey
from louver_provider.hooks import ledger as hook

KEYS = "k1:0123456789abcdef"


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "_LEDGERS", {})
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", KEYS)


def test_a_ledger_in_memory_is_refused_each_time_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    open_ledger = hook.open_ledger

    def remembered(*args: object, **kwargs: object) -> MemoryLedger:
        opened.append(open_ledger(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(hook, "open_ledger", remembered)
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "memory://")

    for _ in range(2):
        with pytest.raises(ConfigurationError) as caught:
            hook.get_ledger()
        assert str(caught.value) == (
            "Airflow cannot use MemoryLedger: no other process sees it (shared), it is gone with its process "
            "(durable); give a ledger URL ([louver] ledger_url) that begins with sqlite:/// or postgresql://"
        )

    assert len(opened) == 2
    for ledger in opened:
        with pytest.raises(LedgerClosed):
            ledger.get_run(RunKey("d", "r"))


def test_a_ledger_in_a_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", f"sqlite:///{tmp_path / 'louver.db'}")

    with hook.get_ledger() as ledger:
        assert hook.get_ledger() is ledger
        assert ledger.get_run(RunKey("d", "r")) is None
