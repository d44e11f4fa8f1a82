"""
Where a run's bucket key is: in its ``conf``, at a path that may differ from Dag to Dag.

The path leads through ``conf`` itself or, where a whole event was put into it, through the data of the event.
A run that was submitted with an event carries only a reference to it; its ``conf`` holds the hash of the key
in the place of the key, so that names of tenants stay out of Airflow's tables (row O9).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from louver.buckets.policy import key_digest, key_text
from louver.errors import ConfigurationError, ValueRefused

__all__ = ["BUCKET_REFERENCE", "BucketKeys", "KeyRule"]

BUCKET_REFERENCE = "louver_bucket_key"
"""Member of ``conf`` that holds the hash of a key, as 16 hexadecimal digits."""

_EVENT, _DATA = "event", "data"
"""Where ``conf`` holds a whole event: :data:`louver.intake.EVENT`, too heavy for every Airflow process."""

_MISSING = object()
_DIGEST = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """
    Where the key of one Dag's runs is.

    :param path: members of ``conf``, from the outside in.
    :param fixed: the key of all of its runs, in place of a path; for runs that nobody hands a ``conf``.

    Without both, the Dag has no buckets.
    """

    path: tuple[str, ...] = ()
    fixed: str | None = None
    place: str = field(init=False, repr=False, compare=False)
    """The path as people write it: ``conf.customer.id``."""
    _digest: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.path and self.fixed is not None:
            raise ConfigurationError("a bucket key is at a path or fixed, not both")
        object.__setattr__(self, "place", ".".join(("conf", *self.path)))
        object.__setattr__(self, "_digest", None if self.fixed is None else key_digest(self.fixed))

    @classmethod
    def parse(cls, text: str) -> KeyRule:
        """
        Read a path, as ``tenant`` or ``customer.id``.

        :raises ConfigurationError: where a part of it is empty.
        """
        path = tuple(part.strip() for part in text.split("."))
        if not all(path):
            raise ConfigurationError(f"{text!r} is no path of a bucket key; give it as tenant or customer.id")
        return cls(path=path)

    @property
    def leads_somewhere(self) -> bool:
        """Whether runs can have a key."""
        return bool(self.path) or self.fixed is not None

    def digest(self, conf: Any) -> int | None:
        """
        The hash of a run's key.

        :param conf: of the run, as Airflow keeps it.
        :returns: None where the run has no key.
        :raises ValueRefused: where it has one that cannot be used.
        """
        if self._digest is not None:
            return self._digest
        # Named first, as what Airflow keeps always is: that a dict is a Mapping takes longer to find out.
        if not self.path or not isinstance(conf, (dict, Mapping)):
            return None
        if BUCKET_REFERENCE in conf:
            return _referred(conf[BUCKET_REFERENCE])
        found = self._find(conf)
        if found is _MISSING and _EVENT in conf:
            event = conf[_EVENT]
            data = event.get(_DATA) if isinstance(event, (dict, Mapping)) else None
            found = self._find(data) if isinstance(data, (dict, Mapping)) else _MISSING
        return None if found is _MISSING else key_digest(found, path=self.place)

    def _find(self, found: Any) -> Any:
        for part in self.path:
            if not isinstance(found, (dict, Mapping)):
                raise ValueRefused(self.place, "the bucket key lies in something that is no object")
            if part not in found:
                return _MISSING
            found = found[part]
        return found

    def reference(self, data: Any) -> dict[str, str]:
        """
        What stands for the key in the ``conf`` of a run that carries a reference to its event alone.

        :param data: of the event.
        :returns: nothing where there is no key in it.
        :raises ValueRefused: as :meth:`digest`.
        """
        digest = self.digest({_EVENT: {_DATA: data}}) if self.path else None
        return {} if digest is None else {BUCKET_REFERENCE: f"{digest:016x}"}


def _referred(text: Any) -> int:
    if not isinstance(text, str) or not _DIGEST.fullmatch(text):
        raise ValueRefused(f"conf.{BUCKET_REFERENCE}", "is no hash of a bucket key")
    return int(text, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketKeys:
    """
    Where the keys of all Dags are.

    :param usual: for Dags that are not named.
    :param by_dag: for those that are.
    """

    usual: KeyRule = KeyRule()
    by_dag: Mapping[str, KeyRule] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def parse(cls, usual: str, by_dag: Any) -> BucketKeys:
        """
        Read the two settings.

        :param usual: a path; empty where Dags that are not named have no buckets.
        :param by_dag: Dag ids with a path, with ``{"key": "tenant-A"}`` for a fixed key, or with None for no
            buckets.
        :raises ConfigurationError: naming the Dag whose rule cannot be read.
        """
        if not isinstance(by_dag, Mapping):
            raise ConfigurationError('must be an object as {"billing": "customer.id", "imports": null}')
        return cls(
            usual=KeyRule.parse(usual) if usual.strip() else KeyRule(),
            by_dag=MappingProxyType({str(dag_id): _rule(dag_id, rule) for dag_id, rule in by_dag.items()}),
        )

    def of(self, dag_id: str, declared: KeyRule | None = None) -> KeyRule:
        """
        The rule of a Dag: that of the settings, else the Dag's own, else the usual one.

        :param declared: what the Dag itself says.
        """
        return self.by_dag.get(dag_id, declared or self.usual)


def _rule(dag_id: Any, rule: Any) -> KeyRule:
    try:
        if rule is None:
            return KeyRule()
        if isinstance(rule, str):
            return KeyRule.parse(rule)
        if isinstance(rule, Mapping) and set(rule) == {"key"}:
            return KeyRule(fixed=key_text(rule["key"]))
    except (ConfigurationError, ValueRefused) as error:
        raise ConfigurationError(f"Dag {dag_id!r}: {error}") from error
    raise ConfigurationError(
        f'Dag {dag_id!r} needs a path as "customer.id", a fixed key as {{"key": "tenant-A"}}, or null'
    )
