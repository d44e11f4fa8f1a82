"""The ``[louver]`` section, and the key that is made where none is configured."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from louver.definition import Definition, Step
from louver.errors import ConfigurationError, ValueRefused
from louver.ledger.contract import Ledger
from louver.ledger.names import RunKey, TaskKey, Token
from louver.sessions import Claim
from louver.states import Source
from louver.steps import run_start
from louver_provider import settings
from louver_provider.hooks import ledger as hook

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "AIRFLOW_HOME", str(tmp_path))
    return tmp_path


def test_defaults(home: Path) -> None:
    found = settings.load_settings()
    assert found.ledger_url == f"sqlite:///{home}/louver.db"
    assert found.resume_guard == timedelta(seconds=2)
    assert found.xcom_inline_bytes == 32 * 1024
    assert found.max_value_bytes == 64 * 1024 * 1024


def test_what_is_configured_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__LEDGER_URL", "memory://")
    monkeypatch.setenv("AIRFLOW__LOUVER__RESUME_GUARD", "0.5")
    found = settings.load_settings()
    assert (found.ledger_url, found.resume_guard) == ("memory://", timedelta(seconds=0.5))


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e300"])
def test_a_number_that_is_none_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RESUME_GUARD", text)
    with pytest.raises(ConfigurationError, match=r"\[louver\] resume_guard must be a number"):
        settings.load_settings()


@pytest.mark.parametrize("option", ["xcom_inline_bytes", "max_value_bytes"])
@pytest.mark.parametrize("text", ["lots", "-1", "1.5", "1e6", "64MiB", "9" * 30, "\u0663", " "])
def test_a_size_that_is_none_is_named_with_what_it_may_be(
    option: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__LOUVER__{option.upper()}", text)
    with pytest.raises(
        ConfigurationError, match=rf"\[louver\] {option} must be a whole number of bytes from"
    ):
        settings.load_settings()


def test_sizes_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__XCOM_INLINE_BYTES", "0")
    monkeypatch.setenv("AIRFLOW__LOUVER__MAX_VALUE_BYTES", "1024")
    found = settings.load_settings()
    assert (found.xcom_inline_bytes, found.max_value_bytes) == (0, 1024)
    monkeypatch.setenv("AIRFLOW__LOUVER__MAX_VALUE_BYTES", "1023")
    with pytest.raises(ConfigurationError, match="from 1024 to 268435456, not '1023'"):
        settings.load_settings()


def test_the_ledger_is_opened_with_the_limit(
    home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(hook, "_LEDGERS", {})
    monkeypatch.setenv("AIRFLOW__LOUVER__MAX_VALUE_BYTES", "2048")
    ledger = hook.get_ledger()
    request.addfinalizer(ledger.close)
    token = running_step(ledger)
    ledger.save_checkpoint(token, "small", "x" * 1000, now=NOW)
    with pytest.raises(ValueRefused, match=r"2048 \(\[louver\] max_value_bytes\); store it elsewhere"):
        ledger.save_checkpoint(token, "large", "x" * 2048, now=NOW)
    assert ledger.load_checkpoint(token, "large", None) is None


def running_step(ledger: Ledger) -> Token:
    definition = Definition(name="orders", version="1", nodes=[Step(name="one", task="json:dumps")])
    ledger.open_run(run_start(definition, RunKey("orders", "r1")), now=NOW)
    claim = Claim(try_number=1, max_tries=1, process="p", source=Source.WORKER)
    return ledger.open_task(TaskKey("orders", "r1", "one"), claim, now=NOW).token


def test_nothing_said_is_no_retry_budget_and_artifacts_in_the_home(home: Path) -> None:
    found = settings.load_settings()
    assert dict(found.retry_budgets) == {}
    assert found.artifacts.base == home / "louver_artifacts"


def test_retry_budgets_and_the_directory_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__RETRY_BUDGETS", '{"payments-api": "20/min"}')
    monkeypatch.setenv("AIRFLOW__LOUVER__ARTIFACT_DIR", str(tmp_path / "files"))
    found = settings.load_settings()
    assert str(found.retry_budgets["payments-api"].rate) == "20/min"
    assert found.artifacts.base == tmp_path / "files"


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("retry_budgets", "20/min", "'20/min': it is not JSON"),
        (
            "retry_budgets",
            '{"api": "20/m"}',
            """'{"api": "20/m"}': api: '20/m' is no rate; give one as 20/min""",
        ),
        ("artifact_dir", "files", "must be absolute, not 'files'"),
        ("artifact_dir", "~nobody-of-this-name/files", "home directory"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_value(
    option: str, text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__LOUVER__{option.upper()}", text)
    with pytest.raises(ConfigurationError) as caught:
        settings.load_settings()
    assert str(caught.value).startswith(f"[louver] {option}")
    assert told in str(caught.value)


def test_the_own_key_is_made_once_and_for_its_owner_alone(home: Path) -> None:
    first = settings.load_signing_keys()
    path = home / settings.KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert settings.load_signing_keys() == first
    assert [entry.name for entry in home.iterdir()] == [settings.KEY_FILE]


def test_many_that_make_the_key_at_once_agree(home: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = [future.result() for future in [pool.submit(settings.load_signing_keys) for _ in range(64)]]
    assert all(key == keys[0] for key in keys)
    assert [entry.name for entry in home.iterdir()] == [settings.KEY_FILE]


def test_configured_keys_leave_no_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", "new:0123456789abcdef,old:fedcba9876543210")
    assert settings.load_signing_keys().current == "new"
    assert list(home.iterdir()) == []


def test_a_broken_key_never_shows_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOUVER__SIGNING_KEYS", "id:tooshort")
    with pytest.raises(ConfigurationError) as caught:
        settings.load_signing_keys()
    assert "tooshort" not in str(caught.value)
    assert "'id'" in str(caught.value)


def test_a_home_that_cannot_be_written_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "AIRFLOW_HOME", str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match=r"set \[louver\] signing_keys"):
        settings.load_signing_keys()
