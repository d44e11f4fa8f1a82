"""The ledger: what Louver knows to be true, kept apart from Airflow's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from louver.errors import ConfigurationError
from louver.signing import SigningKeys

if TYPE_CHECKING:
    # At run time a cycle: the contract speaks of approvals, and approvals of the ledger's records.
    from louver.events import EventSink
    from louver.ledger.contract import Ledger

__all__ = ["open_ledger"]

_FORMS = (
    "memory://, sqlite:///relative/file.db, sqlite:////absolute/file.db or postgresql://user@host/database"
)


def open_ledger(
    url: str,
    keys: SigningKeys | Mapping[str, bytes] | str | None = None,
    *,
    max_value_bytes: int | None = None,
    events: EventSink | None = None,
) -> Ledger:
    """
    Open the ledger at ``url``; the schema of an empty database is made where the role may.

    :param url: ``memory://`` (a new one each time, gone with the process), ``sqlite:///relative/file.db``,
        ``sqlite:////absolute/file.db`` or ``postgresql://user:password@host:port/database``.
    :param keys: sign and verify what is stored: :class:`~louver.signing.SigningKeys`, secrets by key id, or
        ``id:secret,id:secret`` with the newest first. ``None`` protects against accidents alone.
    :param max_value_bytes: the largest value kept, as it is stored; 64 MiB where nothing is said.
    :param events: is told of all that is written through the ledger that is returned (:mod:`louver.events`).
    :raises ConfigurationError: for a URL, keys or a limit that cannot be used.
    :raises LedgerUnavailable: where it is missing, locked, read-only or unreachable.
    :raises LedgerSchemaError: where its schema is not the one of this release.
    """
    if events is not None:
        from louver.events.observer import observe

        ledger = open_ledger(url, keys, max_value_bytes=max_value_bytes)
        observe(ledger, events)
        return ledger
    if not _is_text(url):
        raise ConfigurationError(f"the ledger URL is empty; give {_FORMS}")
    limit = {} if max_value_bytes is None else {"max_value_bytes": max_value_bytes}
    if max_value_bytes is not None and max_value_bytes < 1024:
        raise ConfigurationError(f"max_value_bytes must be 1024 or more, not {max_value_bytes}")
    scheme, separator, rest = url.partition("://")
    # Loaded only now: neither `import louver.ledger` nor the memory ledger needs SQLAlchemy or a driver.
    if separator and scheme == "memory":
        if rest:
            raise ConfigurationError("the memory ledger has no name; its URL is memory://")
        from louver.ledger.memory import MemoryLedger

        return MemoryLedger(keys=_signing_keys(keys), **limit)
    if separator and scheme.partition("+")[0] in ("sqlite", "postgresql"):
        from louver.ledger.sql import open_sql

        return open_sql(url, keys=_signing_keys(keys), **limit)
    # What stands before the first :// is the scheme; the rest may hold a password and is not repeated.
    named = f"{scheme!r} is no kind of ledger" if separator else "the ledger URL has no scheme"
    raise ConfigurationError(f"{named}; give {_FORMS}")


def _is_text(url: object) -> bool:
    return isinstance(url, str) and bool(url.strip())


def _signing_keys(keys: SigningKeys | Mapping[str, bytes] | str | None) -> SigningKeys:
    if keys is None:
        return SigningKeys.unsigned()
    if isinstance(keys, SigningKeys):
        return keys
    if isinstance(keys, str):
        return SigningKeys.parse(keys)
    if isinstance(keys, Mapping):
        return SigningKeys(secrets=dict(keys))
    raise ConfigurationError("signing keys are SigningKeys, a mapping of id to secret, or text id:secret")
