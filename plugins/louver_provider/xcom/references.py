"""
References: what an XCom row holds in place of a result that stays in the ledger.

A row may be edited, or copied to another task or run, by whoever may edit XComs in Airflow. So a reference
names the one result it stands for, with the fingerprint of its value, and is signed with Louver's own keys;
the reader compares it with what was asked for, and with what the ledger gives (semantics section 5).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import rfc8785

from louver.canonical import canonical_bytes
from louver.errors import IntegrityError
from louver.ledger.contract import Ledger
from louver.ledger.names import TaskKey
from louver.signing import SigningKeys

__all__ = ["REFERENCE", "SHOWN", "Asked", "Reference", "is_reference", "reference_to"]

REFERENCE = "__louver_result__"
"""The member of a row that makes it a reference. Keys that begin so never stand in a row otherwise."""

SHOWN = "shown"
"""The other member: for people alone, not signed and never read back."""

_KIND = "xcom-reference"
_NEVER_WRITTEN = "an XCom looks like a reference to a result, but Louver never wrote it so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    Whose XCom a reader asked for; None where it left that open.

    :param map_index: -1 where the task is not mapped.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """
    The result of one task, and which value it was.

    :param type: name of its type, for people.
    :param bytes: size of its canonical bytes.
    :param fingerprint: SHA-256 of them.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    type: str
    bytes: int
    fingerprint: str

    @property
    def task(self) -> TaskKey:
        """The task whose result it stands for."""
        return TaskKey(self.dag_id, self.run_id, self.task_id, self.map_index)

    def row(self, keys: SigningKeys, *, shown: Any) -> dict[str, Any]:
        """
        What goes into the XCom row.

        :param shown: plain JSON for people.
        """
        signed = {"signed_by": keys.current, "signature": self._signature(keys, keys.current)}
        return {SHOWN: shown, REFERENCE: {**asdict(self), **signed}}

    def _signature(self, keys: SigningKeys, key_id: str) -> str:
        return keys.mac(key_id, rfc8785.dumps({"kind": _KIND, **asdict(self)}))

    @classmethod
    def read(cls, row: Mapping[str, Any], keys: SigningKeys) -> Reference:
        """
        The reference in a row, after its signature was checked.

        :raises IntegrityError: where it is not as it was signed, or signed by nobody known.
        """
        found = row[REFERENCE]
        fields = {name: kind for name, kind in _FIELDS.items() if name not in _SIGNED}
        if (
            not isinstance(found, Mapping)
            or set(found) != set(_FIELDS)
            or any(type(found[name]) is not kind for name, kind in _FIELDS.items())
        ):
            raise IntegrityError(_NEVER_WRITTEN)
        reference = cls(**{name: found[name] for name in fields})
        try:
            expected = reference._signature(keys, found["signed_by"])
        except ValueError:
            # Numbers and text that no canonical form has, so nobody signed them.
            raise IntegrityError(_NEVER_WRITTEN) from None
        if not hmac.compare_digest(expected.encode(), found["signature"].encode("utf-8", "replace")):
            raise IntegrityError(
                f"the XCom that names the result of {reference.task} does not match its signature: it was "
                f"changed; clear {reference.task_id} to have it written again"
            )
        return reference

    def check(self, asked: Asked) -> None:
        """
        See that it stands where it was put.

        :raises IntegrityError: where somebody else's XCom was asked for.
        """
        wanted = {name: value for name, value in asdict(asked).items() if value is not None}
        differing = sorted(name for name, value in wanted.items() if value != getattr(self, name))
        if differing:
            raise IntegrityError(
                f"an XCom holds a reference to the result of {self.task}, and belongs to another place "
                f"({', '.join(differing)} differ): it was copied there; clear the task that pushed it"
            )

    def load(self, ledger: Ledger) -> Any:
        """
        The result.

        :raises IntegrityError: where the ledger has it no more, not as it was signed, or another one.
        """
        try:
            value = ledger.load_result(self.task)
        except IntegrityError as error:
            raise IntegrityError(
                f"the result of {self.task} that an XCom refers to cannot be had from the ledger: {error}; "
                f"restore the ledger from its backup, or clear {self.task_id} so that it runs again"
            ) from error
        if _fingerprint(value) != (self.bytes, self.fingerprint):
            raise IntegrityError(
                f"the result of {self.task} in the ledger is another than the one that an XCom refers to; "
                f"clear the task that reads it, or {self.task_id} to have the XCom written again"
            )
        return value


_SIGNED = {"signed_by": str, "signature": str}
_FIELDS: dict[str, type] = {
    "dag_id": str,
    "run_id": str,
    "task_id": str,
    "map_index": int,
    "type": str,
    "bytes": int,
    "fingerprint": str,
    **_SIGNED,
}


def _fingerprint(value: Any) -> tuple[int, str]:
    raw = canonical_bytes(value)
    return len(raw), hashlib.sha256(raw).hexdigest()


def is_reference(row: Any) -> bool:
    """Whether the row is one, or claims to be."""
    return isinstance(row, Mapping) and REFERENCE in row


def reference_to(key: TaskKey, value: Any) -> Reference:
    """
    A reference to the task's result.

    :param value: the result.
    :raises ValueRefused: where it is outside the typed value rules.
    """
    size, fingerprint = _fingerprint(value)
    return Reference(
        dag_id=key.dag_id,
        run_id=key.run_id,
        task_id=key.task_id,
        map_index=key.map_index,
        type=type(value).__name__,
        bytes=size,
        fingerprint=fingerprint,
    )
