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

from louver.canonical import canonical_bytes, load_bytes
from louver.errors import ConfigurationError, IntegrityError

__all__ = ["ENVELOPE_VERSION", "SigningKeys", "digest_of", "seal", "unseal"]

ENVELOPE_VERSION = 1
_UNSIGNED = "-"
_MIN_SECRET = 16
_MEMBERS = frozenset({"binding", "key", "mac", "schema", "value"})
_MAC_LENGTH = 64
_NOT_CANONICAL = "a stored envelope is damaged: its bytes are not canonical"
# An envelope is its opening (binding and key), the MAC, and this with the value: members in canonical order.
_BEFORE_MAC, _AFTER_MAC = b',"mac":"', b'"'
_BEFORE_VALUE, _AFTER_VALUE = b',"schema":%d,"value":' % ENVELOPE_VERSION, b"}"


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

    def mac(self, key_id: str, *message: bytes) -> str:
        """
        The MAC of ``message`` under the key called ``key_id``, as 64 hex digits.

        :param message: in one part or more.
        :raises IntegrityError: where no such key is known, or an unsigned row meets a keyed ledger.
        """
        if key_id == _UNSIGNED and not self.secrets:
            plain = hashlib.sha256()
            for part in message:
                plain.update(part)
            return plain.hexdigest()
        secret = self.secrets.get(key_id)
        if secret is None:
            raise IntegrityError(f"signed with key {key_id[:40]!r}, which is not configured")
        keyed = hmac.new(secret, digestmod="sha256")
        for part in message:
            keyed.update(part)
        return keyed.hexdigest()


def seal(value: Any, *, binding: Mapping[str, Any], keys: SigningKeys) -> bytes:
    """
    ``value`` in a signed envelope.

    :param value: a typed value (:mod:`louver.canonical`), or a :class:`~louver.canonical.Canonical`, which
        need not be written a second time.
    :param binding: what the value belongs to (dag, run, task, map index, generation, name, ...), of str, int
        and None; the reader must name the same.
    :raises ValueRefused: where the value is outside the typed value rules.
    """
    written = canonical_bytes(value)
    opening = _opening(canonical_bytes(dict(binding)), keys.current)
    mac = keys.mac(keys.current, opening, _BEFORE_VALUE, written, _AFTER_VALUE)
    return b"".join(
        (opening, _BEFORE_MAC, mac.encode("ascii"), _AFTER_MAC, _BEFORE_VALUE, written, _AFTER_VALUE)
    )


def unseal(envelope: bytes, *, binding: Mapping[str, Any], keys: SigningKeys) -> Any:
    """
    The value inside, after everything about it was checked.

    :param envelope: what :func:`seal` returned.
    :param binding: what the reader believes the value belongs to.
    :raises IntegrityError: where the bytes are damaged, cut, signed by an unknown key, of another schema, or
        bound to something else; never a default.
    """
    bound = canonical_bytes(dict(binding))
    otherwise = IntegrityError(_NOT_CANONICAL)
    for key_id in keys.secrets or (_UNSIGNED,):
        written = _value_of(envelope, _opening(bound, key_id), key_id, keys)
        if written is not None:
            try:
                return load_bytes(written)
            except IntegrityError as error:
                otherwise = error
    raise _fault(envelope, bound=bound, keys=keys) or otherwise


def digest_of(envelope: bytes) -> str:
    """SHA-256 of the envelope's bytes, as 64 hex digits: names exactly this stored value."""
    return hashlib.sha256(envelope).hexdigest()


def _opening(bound: bytes, key_id: str) -> bytes:
    return b'{"binding":%b,"key":%b' % (bound, canonical_bytes(key_id))


def _value_of(envelope: bytes, opening: bytes, key_id: str, keys: SigningKeys) -> bytes | None:
    """The canonical value of an envelope that begins so; None where it is not what :func:`seal` made."""
    before, after = opening + _BEFORE_MAC, _AFTER_MAC + _BEFORE_VALUE
    end_of_mac = len(before) + _MAC_LENGTH
    if not (
        envelope.startswith(before)
        and envelope.startswith(after, end_of_mac)
        and envelope.endswith(_AFTER_VALUE)
    ):
        return None
    written = envelope[end_of_mac + len(after) : -len(_AFTER_VALUE)]
    expected = keys.mac(key_id, opening, _BEFORE_VALUE, written, _AFTER_VALUE)
    same = hmac.compare_digest(envelope[len(before) : end_of_mac], expected.encode("ascii"))
    return written if same else None


def _fault(envelope: bytes, *, bound: bytes, keys: SigningKeys) -> IntegrityError | None:
    """What is wrong with a refused envelope, if not its value; whatever comes out here, it stays refused."""
    try:
        body = json.loads(envelope)
        spell = next((write for write in (_spelled, rfc8785.dumps) if write(body) == envelope), None)
    except (ValueError, RecursionError):
        return IntegrityError("a stored envelope is damaged or cut: it is no canonical JSON")
    if not isinstance(body, dict) or set(body) != _MEMBERS:
        return IntegrityError("a stored envelope is damaged: its members are not those of an envelope")
    # The signature is over what the bytes say; another spelling of the same was not written by Louver.
    if spell is None:
        return IntegrityError(_NOT_CANONICAL)
    mac = body.pop("mac")
    expected = keys.mac(str(body["key"]), spell(body))
    if not isinstance(mac, str) or not hmac.compare_digest(mac.encode("utf-8"), expected.encode("utf-8")):
        return IntegrityError("a stored envelope does not match its signature")
    schema = body["schema"]
    if type(schema) is not int or schema != ENVELOPE_VERSION:
        return IntegrityError(
            f"a stored envelope has schema {schema!r}; this release reads {ENVELOPE_VERSION}"
        )
    differing = _differing(load_bytes(spell(body["binding"])), load_bytes(bound))
    if differing:
        return IntegrityError(f"a stored envelope belongs elsewhere: {', '.join(differing)} differ")
    return None


def _spelled(body: Any) -> bytes:
    """
    RFC 8785 for what an envelope may hold, at the speed of C.

    It sorts by code points; that is another order than RFC 8785's where keys go beyond U+FFFF.
    """
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8")


def _differing(stored: Any, wanted: dict[str, Any]) -> list[str]:
    if not isinstance(stored, dict):
        return ["all of its binding"]
    # By what is written: to Python, True equals 1.
    parts = [{name: canonical_bytes(part) for name, part in binding.items()} for binding in (stored, wanted)]
    return sorted(name for name in {*stored, *wanted} if parts[0].get(name) != parts[1].get(name))
