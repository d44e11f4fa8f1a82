"""
Signing keys, and the envelope around everything that is stored to be read again.

An envelope is canonical JSON: schema version, key id, binding, value, MAC. The MAC is HMAC-SHA256 over all
the rest, and the reader names the binding it expects, so a value that was corrupted, cut, or swapped with
another run's is refused, never repaired (semantics section 5, product row O7).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import rfc8785

from louver.canonical import decode, encode
from louver.errors import ConfigurationError, IntegrityError

__all__ = ["ENVELOPE_VERSION", "SigningKeys", "digest_of", "seal", "unseal"]

ENVELOPE_VERSION = 1
_UNSIGNED = "-"
_MIN_SECRET = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeys:
    """
    Secrets by key id; the first signs, all of them verify, so a rotation keeps old rows readable.

    :param secrets: key id to secret of at least 16 bytes; empty means integrity against accidents alone: a
        plain SHA-256 that anybody could compute. Rows written so are refused once keys are configured.
    :raises ConfigurationError: for an id or a secret that cannot be used; the message never holds a secret.
    """

    secrets: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        for key_id, secret in self.secrets.items():
            if (
                not isinstance(key_id, str)
                or not key_id
                or key_id == _UNSIGNED
                or not key_id.isprintable()
                or ":" in key_id
                or "," in key_id
            ):
                raise ConfigurationError(
                    "a signing key id must be printable, without ':' and ',', and not '-'"
                )
            if not isinstance(secret, bytes) or len(secret) < _MIN_SECRET:
                raise ConfigurationError(f"signing key {key_id!r}: the secret must be 16 bytes or more")

    @classmethod
    def parse(cls, text: str) -> SigningKeys:
        """
        Keys from ``id:secret,id:secret`` (``[louver] signing_keys``), newest first.

        :raises ConfigurationError: where an entry has no id or no secret, or an id stands twice.
        """
        secrets: dict[str, bytes] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            key_id, separator, secret = entry.partition(":")
            if not separator or not secret:
                raise ConfigurationError("signing keys are a list of id:secret, separated by commas")
            if key_id in secrets:
                raise ConfigurationError(f"signing key id {key_id!r} stands twice")
            secrets[key_id] = secret.encode("utf-8")
        if not secrets:
            raise ConfigurationError("signing keys are configured but empty; give id:secret")
        return cls(secrets=secrets)

    @classmethod
    def unsigned(cls) -> SigningKeys:
        """No keys: stored values are protected against accidents, not against people."""
        return cls(secrets={})

    @property
    def current(self) -> str:
        """The id that new envelopes carry."""
        return next(iter(self.secrets), _UNSIGNED)

    def mac(self, key_id: str, message: bytes) -> str:
        """
        The MAC of ``message`` under the key called ``key_id``, as 64 hex digits.

        :raises IntegrityError: where no such key is known, or an unsigned row meets a keyed ledger.
        """
        if key_id == _UNSIGNED and not self.secrets:
            return hashlib.sha256(message).hexdigest()
        secret = self.secrets.get(key_id)
        if secret is None:
            raise IntegrityError(f"signed with key {key_id[:40]!r}, which is not configured")
        return hmac.new(secret, message, hashlib.sha256).hexdigest()


def seal(value: Any, *, binding: Mapping[str, Any], keys: SigningKeys) -> bytes:
    """
    ``value`` in a signed envelope.

    :param value: a typed value (:mod:`louver.canonical`).
    :param binding: what the value belongs to (dag, run, task, map index, generation, name, ...), of str, int
        and None; the reader must name the same.
    :raises ValueRefused: where the value is outside the typed value rules.
    """
    body = {
        "schema": ENVELOPE_VERSION,
        "key": keys.current,
        "binding": encode(dict(binding)),
        "value": encode(value),
    }
    return rfc8785.dumps({**body, "mac": keys.mac(keys.current, rfc8785.dumps(body))})


def unseal(envelope: bytes, *, binding: Mapping[str, Any], keys: SigningKeys) -> Any:
    """
    The value inside, after everything about it was checked.

    :param envelope: what :func:`seal` returned.
    :param binding: what the reader believes the value belongs to.
    :raises IntegrityError: where the bytes are damaged, cut, signed by an unknown key, of another schema, or
        bound to something else; never a default.
    """
    try:
        body = json.loads(envelope)
        canonical = rfc8785.dumps(body)
    except (ValueError, RecursionError):
        raise IntegrityError("a stored envelope is damaged or cut: it is no canonical JSON") from None
    if not isinstance(body, dict) or set(body) != {"schema", "key", "binding", "value", "mac"}:
        raise IntegrityError("a stored envelope is damaged: its members are not those of an envelope")
    # The signature is over what the bytes say; another spelling of the same was not written by Louver.
    if canonical != envelope:
        raise IntegrityError("a stored envelope is damaged: its bytes are not canonical")
    mac = body.pop("mac")
    expected = keys.mac(str(body["key"]), rfc8785.dumps(body))
    if not isinstance(mac, str) or not hmac.compare_digest(mac.encode("utf-8"), expected.encode("utf-8")):
        raise IntegrityError("a stored envelope does not match its signature")
    if body["schema"] != ENVELOPE_VERSION:
        raise IntegrityError(f"a stored envelope has schema {body['schema']!r}; this release reads 1")
    if body["binding"] != encode(dict(binding)):
        differing = sorted(
            name
            for name in {*decode(body["binding"]), *binding}
            if decode(body["binding"]).get(name) != binding.get(name)
        )
        raise IntegrityError(f"a stored envelope belongs elsewhere: {', '.join(differing)} differ")
    return decode(body["value"])


def digest_of(envelope: bytes) -> str:
    """SHA-256 of the envelope's bytes, as 64 hex digits: names exactly this stored value."""
    return hashlib.sha256(envelope).hexdigest()
