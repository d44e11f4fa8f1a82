"""The desk that the three providers share: it does each request once per key, keeps count, shows faults."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from shop import faults
from shop.database import transaction, utc_now
from shop.providers import KeyReused, ProviderRefused, ProviderTimeout

__all__ = ["find", "handle", "order_of"]


def handle(provider: str, action: str, key: str, *, order_id: str, body: Mapping[str, Any]) -> str:
    """
    Do what is asked, or find that it was done under this key.

    :param key: the caller's idempotency key.
    :param order_id: kept beside the count.
    :param body: everything else that is asked; JSON values, kept as a hash alone.
    :returns: the provider's reference of the work.
    :raises ProviderRefused: nothing was done.
    :raises ProviderTimeout: it may have been done.
    """
    name = f"{provider}.{action}"
    with transaction() as shop:
        shop.execute(
            "INSERT INTO calls (provider, action, key, order_id, at) VALUES (?, ?, ?, ?, ?)",
            (provider, action, key, order_id, utc_now()),
        )
        fault = faults.take(shop, name, order_id=order_id)
    _before(name, fault)
    with transaction() as shop:
        reference = _once(shop, provider, action, key, order_id=order_id, body=body)
    if fault is not None and fault.mode is faults.Mode.LOSE_ANSWER:
        raise ProviderTimeout(name, "no_answer")
    return reference


def find(provider: str, action: str, key: str) -> str | None:
    """
    The reference of what was done under ``key``; None where nothing was.

    :raises ProviderRefused: where ``<provider>.find`` was told to fail.
    """
    name = f"{provider}.find"
    with transaction() as shop:
        row = shop.execute(
            "SELECT reference, order_id FROM done WHERE provider = ? AND action = ? AND key = ?",
            (provider, action, key),
        ).fetchone()
        fault = faults.take(shop, name, order_id=None if row is None else row[1])
    _before(name, fault)
    if fault is not None and fault.mode is faults.Mode.LOSE_ANSWER:
        raise ProviderTimeout(name, "no_answer")
    return None if row is None else str(row[0])


def order_of(provider: str, action: str, reference: str) -> str:
    """
    The order that a reference belongs to.

    :raises ProviderRefused: for a reference that this provider never gave.
    """
    with transaction() as shop:
        row = shop.execute(
            "SELECT order_id FROM done WHERE provider = ? AND action = ? AND reference = ?",
            (provider, action, reference),
        ).fetchone()
    if row is None:
        raise ProviderRefused(f"{provider}.{action}", "unknown_reference")
    return str(row[0])


def _before(name: str, fault: faults.Fault | None) -> None:
    if fault is None:
        return
    if fault.mode in (faults.Mode.FAIL, faults.Mode.FAIL_FOR_GOOD):
        raise ProviderRefused(name, "unavailable")
    if fault.mode is faults.Mode.HANG:
        time.sleep(fault.seconds)


def _once(
    shop: sqlite3.Connection,
    provider: str,
    action: str,
    key: str,
    *,
    order_id: str,
    body: Mapping[str, Any],
) -> str:
    text = json.dumps([order_id, body], sort_keys=True, separators=(",", ":"))
    body_hash = hashlib.sha256(text.encode("utf-8")).hexdigest()
    row = shop.execute(
        "SELECT body_hash, reference FROM done WHERE provider = ? AND action = ? AND key = ?",
        (provider, action, key),
    ).fetchone()
    if row is not None:
        known_hash, known_reference = row
        if known_hash != body_hash:
            raise KeyReused(f"{provider}.{action}", "key_reused")
        return str(known_reference)
    # Random, so that a caller that sees it twice has been given the first result and no second one.
    reference = f"{action}-{uuid4().hex[:16]}"
    shop.execute(
        "INSERT INTO done (provider, action, key, body_hash, order_id, reference, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (provider, action, key, body_hash, order_id, reference, utc_now()),
    )
    return reference
