"""An envelope opens for its own binding and keys, or not at all (semantics section 5, row O7)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.errors import ConfigurationError, IntegrityError, ValueRefused
from louver.signing import SigningKeys, digest_of, seal, unseal

KEYS = SigningKeys(secrets={"k2": b"new secret of 16", "k1": b"old secret of 16"})
OTHER = SigningKeys(secrets={"k2": b"another secret 1"})
BINDING = {"dag_id": "orders", "run_id": "run-1", "map_index": -1, "name": "return_value"}
VALUE = {"amount": 5, "note": "caf\u00e9\x1f", "tags": ("a", "b"), "raw": b"\0\x1f"}
ENVELOPE = seal(VALUE, binding=BINDING, keys=KEYS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def opened(envelope: bytes, *, keys: SigningKeys = KEYS, binding: Any = BINDING) -> Any:
    return unseal(envelope, binding=binding, keys=keys)


def test_what_was_sealed_opens() -> None:
    assert opened(ENVELOPE) == VALUE
    assert digest_of(ENVELOPE) == hashlib.sha256(ENVELOPE).hexdigest()


def test_the_order_of_the_binding_does_not_matter() -> None:
    assert opened(ENVELOPE, binding=dict(reversed(BINDING.items()))) == VALUE


def test_the_first_key_signs_and_every_key_opens() -> None:
    old = SigningKeys(secrets={"k1": b"old secret of 16"})
    assert json.loads(ENVELOPE)["key"] == "k2"
    assert opened(seal(VALUE, binding=BINDING, keys=old)) == VALUE
    with pytest.raises(IntegrityError, match="'k2', which is not configured"):
        opened(ENVELOPE, keys=old)


def test_another_secret_under_the_same_id_opens_nothing() -> None:
    with pytest.raises(IntegrityError, match="signature"):
        opened(ENVELOPE, keys=OTHER)


def test_unsigned_rows_are_refused_once_keys_are_configured() -> None:
    unsigned = seal(VALUE, binding=BINDING, keys=SigningKeys.unsigned())
    assert opened(unsigned, keys=SigningKeys.unsigned()) == VALUE
    for envelope, keys in ((unsigned, KEYS), (ENVELOPE, SigningKeys.unsigned())):
        with pytest.raises(IntegrityError, match="not configured"):
            opened(envelope, keys=keys)


@pytest.mark.parametrize("name", BINDING)
def test_what_is_bound_elsewhere_is_refused_by_the_name_of_what_differs(name: str) -> None:
    with pytest.raises(IntegrityError, match=f"belongs elsewhere: {name} differ"):
        opened(ENVELOPE, binding={**BINDING, name: "other"})


def test_more_or_less_binding_is_another_binding() -> None:
    less = {name: value for name, value in BINDING.items() if name != "name"}
    for binding in (less, {**BINDING, "generation": 1}):
        with pytest.raises(IntegrityError, match="belongs elsewhere"):
            opened(ENVELOPE, binding=binding)


def test_minus_one_and_its_text_are_different_bindings() -> None:
    with pytest.raises(IntegrityError, match="map_index differ"):
        opened(ENVELOPE, binding={**BINDING, "map_index": "-1"})


@pytest.mark.parametrize("bit", range(8))
def test_no_flipped_bit_goes_unseen(bit: int) -> None:
    for place in range(len(ENVELOPE)):
        damaged = bytearray(ENVELOPE)
        damaged[place] ^= 1 << bit
        with pytest.raises(IntegrityError):
            opened(bytes(damaged))


def test_no_cut_goes_unseen() -> None:
    for length in range(len(ENVELOPE)):
        with pytest.raises(IntegrityError):
            opened(ENVELOPE[:length])


@pytest.mark.parametrize(
    "spelled",
    [
        ENVELOPE + b"\n",
        b" " + ENVELOPE,
        ENVELOPE.replace(b'"schema":1', b'"schema":1.0'),
        ENVELOPE.replace(b'"schema":1', b'"schema":7,"schema":1'),
        ENVELOPE.replace(b"\\u001f", b"\\u001F"),
        ENVELOPE.decode("utf-8").encode("utf-16"),
        json.dumps(json.loads(ENVELOPE)).encode(),
    ],
)
def test_another_spelling_of_the_same_is_refused(spelled: bytes) -> None:
    with pytest.raises(IntegrityError):
        opened(spelled)


@settings(max_examples=50)
@given(st.binary())
def test_any_bytes_are_an_integrity_error(raw: bytes) -> None:
    with pytest.raises(IntegrityError):
        opened(raw)


@settings(max_examples=50)
@given(st.fixed_dictionaries(dict.fromkeys(("schema", "key", "binding", "value", "mac"), JSON)))
def test_any_json_in_the_form_of_an_envelope_is_an_integrity_error(body: dict[str, Any]) -> None:
    for raw in (
        json.dumps(body).encode(),
        json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    ):
        with pytest.raises(IntegrityError):
            opened(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"binding":' + b"[" * 900 + b"]" * 900 + b',"key":"k2","mac":"","schema":1,"value":null}',
        b'{"binding":{},"key":"k2","mac":"\\ud800","schema":1,"value":null}',
        b'{"binding":{},"key":"\\ud800","mac":"","schema":1,"value":null}',
        b'{"binding":{},"key":["k2"],"mac":"","schema":1,"value":null}',
        b'{"binding":{},"key":"k2","mac":5,"schema":1,"value":null}',
        b'{"binding":{},"key":"k2","mac":"\xc3\xa9","schema":1,"value":null}',
        b'{"binding":{},"key":"k2","mac":"","schema":%s,"value":null}' % (b"9" * 400),
        b'{"binding":{},"key":"k2","mac":"","schema":%s,"value":null}' % (b"9" * 9000),
        b'{"binding":{},"key":"k2","mac":"","schema":1}',
    ],
)
def test_crafted_envelopes_are_an_integrity_error(raw: bytes) -> None:
    with pytest.raises(IntegrityError):
        opened(raw)


def test_an_envelope_of_another_schema_is_refused_even_well_signed() -> None:
    body = json.loads(ENVELOPE)
    del body["mac"]
    body["schema"] = 2
    mac = KEYS.mac("k2", rfc8785.dumps(body))
    with pytest.raises(IntegrityError, match="schema 2; this release reads 1"):
        opened(rfc8785.dumps({**body, "mac": mac}))


def test_what_cannot_be_sealed_is_refused() -> None:
    with pytest.raises(ValueRefused):
        seal({"a": float("nan")}, binding=BINDING, keys=KEYS)


def test_keys_from_text() -> None:
    keys = SigningKeys.parse(" k2:new secret of 16 , k1:old:secret:of:16, ")
    assert dict(keys.secrets) == {"k2": b"new secret of 16", "k1": b"old:secret:of:16"}
    assert keys.current == "k2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "k1",
        "k1:",
        ":secret of 16 bytes",
        "k1:short",
        "-:secret of 16 bytes",
        "k1:a secret of 16 b,k1:a secret of 16 b",
    ],
)
def test_keys_that_cannot_be_used(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SigningKeys.parse(text)
    assert "secret of" not in str(caught.value)


@pytest.mark.parametrize(
    "secrets",
    [
        {"k1": "a text of sixteen"},
        {1: b"sixteen bytes ..."},
        {"k,1": b"sixteen bytes ..."},
        {"": b"sixteen bytes ..."},
    ],
)
def test_secrets_of_the_wrong_type_are_refused_when_they_are_given(secrets: Any) -> None:
    with pytest.raises(ConfigurationError):
        SigningKeys(secrets=secrets)


def test_a_secret_is_in_no_text() -> None:
    assert "secret of" not in repr(KEYS)
