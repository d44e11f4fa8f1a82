"""The ``[louver]`` section of Airflow's configuration, read when asked and never at import."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from airflow.configuration import AIRFLOW_HOME, conf

from louver.artifacts import Artifacts
from louver.errors import ConfigurationError
from louver.permits import PermitSettings
from louver.resource_tags import ResourceTags
from louver.retry_budgets import RetryBudget, parse_retry_budgets
from louver.semaphores import PermitTerms, parse_resources
from louver.signing import SigningKeys
from louver.supervision import ControlSettings

__all__ = ["Settings", "airflow_home", "load_settings", "load_signing_keys"]

SECTION = "louver"
KEY_FILE = "louver_signing_key"
ARTIFACTS = "louver_artifacts"
RECONCILERS = ("embedded", "service", "off")

_KIB = 1024
_MOST_INLINE = 16 * _KIB * _KIB
"""Rows beyond this stall the API server, which reads them whole for every list of XComs."""
_MOST_STORED = 256 * _KIB * _KIB
"""Postgres takes messages up to 1 GiB, in which each byte of a value stands as two digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    What is configured.

    :param ledger_url: where the ledger is; by default a SQLite file in AIRFLOW_HOME.
    :param resume_guard: how long a task must have been parked before an answer is delivered.
    :param xcom_inline_bytes: results up to this size stand in the XCom row itself; 0 keeps all out of it.
    :param control: how closely running tasks are supervised.
    :param reconciler: ``embedded``: the scheduler brings it with it. ``service``: somebody runs ``airflow
        louver reconcile --watch``. ``off``: nobody does.
    :param reconcile_interval: the pause between two of its rounds.
    :param max_value_bytes: larger values are refused before anything of them is written.
    :param retry_budgets: by resource; empty where nothing is said.
    :param permits: limits of resources; none where nothing is said.
    :param artifacts: where attempts keep their files; by default in AIRFLOW_HOME.
    """

    ledger_url: str
    resume_guard: timedelta
    xcom_inline_bytes: int
    max_value_bytes: int
    control: ControlSettings
    reconciler: str
    reconcile_interval: timedelta
    retry_budgets: Mapping[str, RetryBudget]
    permits: PermitSettings
    artifacts: Artifacts


def airflow_home() -> Path:
    """Airflow's home."""
    return Path(AIRFLOW_HOME)


def load_settings() -> Settings:
    """
    The settings in force.

    :raises ConfigurationError: naming the option that cannot be used, and what it may be.
    """
    # Quoted: a '%' or '?' in the home's path would be read as part of the URL.
    url = (
        conf.get(SECTION, "ledger_url", fallback="")
        or f"sqlite:///{quote(str(airflow_home() / 'louver.db'))}"
    )
    return Settings(
        ledger_url=url,
        resume_guard=timedelta(seconds=_number("resume_guard", 2.0)),
        xcom_inline_bytes=_bytes("xcom_inline_bytes", 32 * _KIB, least=0, most=_MOST_INLINE),
        max_value_bytes=_bytes("max_value_bytes", 64 * _KIB * _KIB, least=_KIB, most=_MOST_STORED),
        control=ControlSettings(
            control_interval=timedelta(seconds=_number("control_interval", 1.0, least=0.05)),
            pause_window=timedelta(seconds=_number("pause_window", 30.0)),
            stop_grace=timedelta(seconds=_number("stop_grace", 10.0)),
            heartbeat_interval=timedelta(seconds=_number("heartbeat_interval", 5.0)),
        ),
        reconciler=_choice("reconciler", RECONCILERS),
        reconcile_interval=timedelta(seconds=_number("reconcile_interval", 5.0, least=0.1)),
        retry_budgets=_retry_budgets(),
        permits=_permits(),
        artifacts=_artifacts(),
    )


def _retry_budgets() -> Mapping[str, RetryBudget]:
    text = conf.get(SECTION, "retry_budgets", fallback="")
    try:
        return parse_retry_budgets(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"[{SECTION}] retry_budgets, which is {text!r}: {error}") from None


def _permits() -> PermitSettings:
    text = conf.get(SECTION, "resources", fallback="")
    try:
        limits = parse_resources(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"[{SECTION}] resources, which is {text!r}: {error}") from None
    return PermitSettings(
        limits=limits,
        terms=PermitTerms(
            lease=timedelta(seconds=_number("resource_lease", 60.0, least=5.0)),
            grant_ttl=timedelta(seconds=_number("grant_ttl", 120.0, least=5.0)),
        ),
        look_every=timedelta(seconds=_number("resource_interval", 1.0, least=0.1)),
        tags=_resource_tags(),
    )


def _resource_tags() -> ResourceTags:
    try:
        return ResourceTags.parse(conf.get(SECTION, "resource_tags", fallback=""))
    except ConfigurationError as error:
        raise ConfigurationError(f"[{SECTION}] resource_tags: {error}") from None


def _artifacts() -> Artifacts:
    configured = conf.get(SECTION, "artifact_dir", fallback="")
    try:
        return Artifacts(base=Path(configured).expanduser() if configured else airflow_home() / ARTIFACTS)
    except (ConfigurationError, RuntimeError) as error:
        raise ConfigurationError(f"[{SECTION}] artifact_dir: {error}") from None


def _choice(option: str, known: tuple[str, ...]) -> str:
    """One of these words; the first one where nothing is set."""
    text = conf.get(SECTION, option, fallback=known[0])
    if text not in known:
        raise ConfigurationError(f"[{SECTION}] {option} must be one of {', '.join(known)}, not {text!r}")
    return text


def _number(option: str, fallback: float, *, least: float = 0.0) -> float:
    text = conf.get(SECTION, option, fallback=str(fallback))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value < 1e9:
        raise ConfigurationError(f"[{SECTION}] {option} must be a number of {least:g} or more, not {text!r}")
    return value


def _bytes(option: str, fallback: int, *, least: int, most: int) -> int:
    text = conf.get(SECTION, option, fallback=str(fallback))
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if not least <= value <= most:
        raise ConfigurationError(
            f"[{SECTION}] {option} must be a whole number of bytes from {least} to {most}, not {text!r}"
        )
    return value


def load_signing_keys() -> SigningKeys:
    """
    The keys from ``[louver] signing_keys``; without any, one that is made at first use in AIRFLOW_HOME.

    :raises ConfigurationError: where the keys, or the file, cannot be used.
    """
    configured = conf.get(SECTION, "signing_keys", fallback="")
    if configured:
        return SigningKeys.parse(configured)
    for source in ("signing_keys_cmd", "signing_keys_secret"):
        # A key made in their place would sign what nobody else can read.
        if conf.get(SECTION, source, fallback=""):
            raise ConfigurationError(
                f"[{SECTION}] {source} gives no signing keys; see that the command, or the secrets backend, "
                "gives id:secret there"
            )
    return _own_key(airflow_home() / KEY_FILE)


def _own_key(path: Path) -> SigningKeys:
    """The key in the file, which only its owner may read; several processes may make it at once."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"home-1:{secrets.token_hex(32)}\n")
            # A hard link appears whole or not at all, and never replaces a key that another process made.
            os.link(draft, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigurationError(
                f"no signing key is configured and {path} cannot be made ({error.strerror}); "
                "set [louver] signing_keys"
            ) from error
        finally:
            draft.unlink(missing_ok=True)
    try:
        return SigningKeys.parse(path.read_text().strip())
    except OSError as error:
        raise ConfigurationError(
            f"the signing key in {path} cannot be read ({error.strerror}); every Louver process needs it"
        ) from error
