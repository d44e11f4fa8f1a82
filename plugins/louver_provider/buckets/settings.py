"""The options of ``[louver]`` that are about buckets; read once where the policy is made, and by commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from airflow.configuration import conf

from louver.buckets.keys import BucketKeys
from louver.buckets.owners import BucketOwners
from louver.buckets.policy import BucketPolicy
from louver.buckets.slots import BucketSlots
from louver.errors import ConfigurationError

__all__ = ["OPTIONS", "BucketSettings", "load_bucket_settings", "require_bucket_settings"]

T = TypeVar("T")

_SECTION = "louver"

OPTIONS = {
    "buckets": "",
    "bucket_key": "tenant",
    "bucket_key_by_dag": "",
    "bucket_owners": "",
    "bucket_slots": "8",
    "bucket_override_pools": "False",
    "bucket_provision": "True",
}
"""All of them, with their defaults."""

_YES = ("true", "t", "yes", "y", "1", "on")
_NO = ("false", "f", "no", "n", "0", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSettings:
    """
    What is configured about buckets.

    :param policy: how many there are, and since when.
    :param keys: where the key of a run is.
    :param owners: which node owns which; may be none.
    :param slots: of each bucket's pool.
    :param override_pools: whether tasks that name a pool of their own are routed too.
    :param provision: whether missing pools are made, by the scheduler and by the reconciler.
    """

    policy: BucketPolicy
    keys: BucketKeys
    owners: BucketOwners
    slots: BucketSlots
    override_pools: bool
    provision: bool


def load_bucket_settings() -> BucketSettings | None:
    """
    What is in force; None where ``[louver] buckets`` is empty, which is the default.

    :raises ConfigurationError: naming the option that cannot be used, and what it may be.
    """
    if not _text("buckets").strip():
        return None
    return BucketSettings(
        policy=_read("buckets", BucketPolicy.parse),
        keys=_read("bucket_key_by_dag", lambda by_dag: _keys(by_dag)),
        owners=_read("bucket_owners", BucketOwners.parse),
        slots=_read("bucket_slots", BucketSlots.parse),
        override_pools=_read("bucket_override_pools", _switch),
        provision=_read("bucket_provision", _switch),
    )


def require_bucket_settings() -> BucketSettings:
    """
    What is in force, for what makes no sense without buckets.

    :raises ConfigurationError: as :func:`load_bucket_settings`; and where there are no buckets.
    """
    found = load_bucket_settings()
    if found is None:
        raise ConfigurationError("there are no buckets; set [louver] buckets, to 64 for instance")
    return found


def _text(option: str) -> str:
    return str(conf.get(_SECTION, option, fallback=OPTIONS[option]))


def _read(option: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(_text(option))
    except ConfigurationError as error:
        raise ConfigurationError(f"[{_SECTION}] {option}: {error}") from None


def _keys(by_dag: str) -> BucketKeys:
    usual = _text("bucket_key")
    _read("bucket_key", lambda path: BucketKeys.parse(path, {}))
    if not by_dag.strip():
        return BucketKeys.parse(usual, {})
    try:
        document = json.loads(by_dag)
    except ValueError:
        raise ConfigurationError(
            'is no JSON; give it as {"billing": "customer.id", "imports": null}'
        ) from None
    return BucketKeys.parse(usual, document)


def _switch(text: str) -> bool:
    if text.strip().lower() in _YES:
        return True
    if text.strip().lower() in _NO:
        return False
    raise ConfigurationError(f"must be True or False, not {text!r}")
