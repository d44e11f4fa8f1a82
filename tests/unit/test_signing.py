"""An envelope opens for its own binding and keys, or not at all (semantics section 5, row O7)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.canonical import Canonical, canonical_bytes
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


BOUND = canonical_bytes(BINDING)
WRITTEN = canonical_bytes(VALUE)


def opened(envelope: bytes, *, keys: SigningKeys = KEYS, binding: Any = BINDING) -> Any:
    return unseal(envelope, binding=binding, keys=keys)


def signed(
    value: bytes = WRITTEN,
    *,
    binding: bytes = BOUND,
    schema: bytes = b"1",
    extra: bytes = b"",
    keys: SigningKeys = KEYS,
) -> bytes:
    """An envelope of these bytes by somebody who has the key."""
    opening = b'{"binding":%b,"key":"%b"' % (binding, keys.current.encode())
    rest = b',"schema":%b%b,"value":%b}' % (schema, extra, value)
    return opening + b',"mac":"%b"' % keys.mac(keys.current, opening, rest).encode() + rest


def test_what_was_sealed_opens() -> None:
    assert opened(ENVELOPE) == VALUE
    assert digest_of(ENVELOPE) == hashlib.sha256(ENVELOPE).hexdigest()


def test_an_envelope_is_rfc_8785_of_its_members() -> None:
    body = json.loads(ENVELOPE)
    assert rfc8785.dumps(body) == ENVELOPE == signed()
    mac = body.pop("mac")
    assert (
        mac
        == KEYS.mac("k2", rfc8785.dumps(body))
        == KEYS.mac("k2", b"", *[b"%c" % n for n in rfc8785.dumps(body)])
    )


def test_what_was_written_before_is_sealed_as_it_is() -> None:
    assert seal(Canonical.of(VALUE), binding=BINDING, keys=KEYS) == ENVELOPE


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


@pytest.mark.parametrize("other", ["-1", -1.0, None, True])
def test_what_only_looks_like_minus_one_is_another_binding(other: Any) -> None:
    with pytest.raises(IntegrityError, match="belongs elsewhere: map_index differ"):
        opened(ENVELOPE, binding={**BINDING, "map_index": other})


@pytest.mark.parametrize(("bound", "asked"), [(1, True), (1, 1.0), (False, 0)])
def test_what_python_calls_equal_is_another_binding_all_the_same(bound: Any, asked: Any) -> None:
    envelope = seal(VALUE, binding={"map_index": bound}, keys=KEYS)
    with pytest.raises(IntegrityError, match="belongs elsewhere: map_index differ"):
        opened(envelope, binding={"map_index": asked})


def test_a_member_of_none_is_not_a_member_that_is_missing() -> None:
    envelope = seal(VALUE, binding={**BINDING, "policy": None}, keys=KEYS)
    assert opened(envelope, binding={**BINDING, "policy": None}) == VALUE
    with pytest.raises(IntegrityError, match="belongs elsewhere: policy differ"):
        opened(envelope)


def test_a_binding_may_hold_what_the_envelope_is_made_of() -> None:
    binding = {
        "key": "k2",
        "mac": '","mac":"',
        "schema": 1,
        "value": '"},"key":"k2"',
        "\ue000": 1,
        "\U00010000": 2,
    }
    envelope = seal(VALUE, binding=binding, keys=KEYS)
    assert opened(envelope, binding=binding) == VALUE
    with pytest.raises(IntegrityError, match="belongs elsewhere: mac, value differ"):
        opened(envelope, binding={**binding, "mac": "", "value": ""})


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
        ENVELOPE.replace(b'"schema":1', b'"schema":7,"schema":1'),
        ENVELOPE.replace(b"\\u001f", b"\\u001F"),
        ENVELOPE.decode("utf-8").encode("utf-16"),
        json.dumps(json.loads(ENVELOPE)).encode(),
        json.dumps(dict(reversed(json.loads(ENVELOPE).items())), separators=(",", ":")).encode(),
        signed(schema=b'7,"schema":1'),
        signed(value=b'null,"value":' + WRITTEN),
        signed(value=WRITTEN + b" "),
        signed(value=b'{"dict":{"b":null,"a":null}}'),
        signed(value=b'{"dict":{"a":null,"a":null}}'),
        signed(value=b'"\\u0041"'),
        signed(value=b'{"list":["a", "b"]}'),
        signed(binding=BOUND.replace(b",", b", ")),
    ],
)
def test_another_spelling_of_the_same_is_refused(spelled: bytes) -> None:
    with pytest.raises(IntegrityError, match="its bytes are not canonical"):
        opened(spelled)


def test_keys_of_a_dict_in_the_order_of_code_points_are_not_canonical() -> None:
    """Where UTF-16 has another order."""
    value = {"\ue000": None, "\U00010000": None}
    assert opened(seal(value, binding=BINDING, keys=KEYS)) == value
    by_code_points = json.dumps({"dict": value}, ensure_ascii=False, separators=(",", ":")).encode()
    with pytest.raises(IntegrityError, match="not canonical"):
        opened(signed(by_code_points))
    with pytest.raises(IntegrityError, match="belongs elsewhere: name differ"):
        opened(seal(value, binding=BINDING, keys=KEYS), binding={**BINDING, "name": "other"})


@pytest.mark.parametrize(
    ("envelope", "said"),
    [
        (ENVELOPE[:-1], "damaged or cut: it is no canonical JSON"),
        (ENVELOPE[: len(ENVELOPE) // 2], "damaged or cut: it is no canonical JSON"),
        (b"", "damaged or cut: it is no canonical JSON"),
        (b"[]", "its members are not those of an envelope"),
        (b"null", "its members are not those of an envelope"),
        (ENVELOPE.replace(b'"schema":1,', b""), "its members are not those of an envelope"),
        (signed(extra=b',"scope":null'), "its members are not those of an envelope"),
        (ENVELOPE.replace(b'"amount":{"int":"5"}', b'"amount":{"int":"6"}'), "does not match its signature"),
        (ENVELOPE.replace(b'"schema":1', b'"schema":2'), "does not match its signature"),
        (ENVELOPE.replace(b'"schema":1', b'"schema":1.0'), "does not match its signature|not canonical"),
        (ENVELOPE.replace(b'"k2"', b'"k1"'), "does not match its signature"),
        (ENVELOPE.replace(b'"k2"', b'"k9"'), "signed with key 'k9', which is not configured"),
        (signed(schema=b"2"), "has schema 2; this release reads 1"),
        (signed(schema=b"true"), "has schema True; this release reads 1"),
        (signed(schema=b'"1"'), "has schema '1'; this release reads 1"),
        (signed(binding=b"null"), "belongs elsewhere"),
        (signed(binding=b'{"list":[]}'), "belongs elsewhere"),
        (signed(binding=b"{}"), "not in the typed form"),
        (signed(binding=b'{"dict":{}}'), "belongs elsewhere: dag_id, map_index, name, run_id differ"),
        (signed(b"5"), "not in the typed form"),
        (signed(b"1.0"), "not in the typed form|not canonical"),
        (signed(b'{"other":"5"}'), "not in the typed form"),
        (signed(b'{"int":"five"}'), "a stored int cannot be read back"),
        (signed(b'{"set":[{"list":[]}]}'), "a stored set cannot be read back"),
        (signed(b'{"int":"05"}'), "not canonical"),
        (signed(b'{"set":["b","a"]}'), "not canonical"),
        (signed(b'{"float":"nan"}'), "outside the typed value rules"),
    ],
)
def test_a_refusal_says_what_is_wrong(envelope: bytes, said: str) -> None:
    with pytest.raises(IntegrityError, match=said) as caught:
        opened(envelope)
    # A cause or a context would be told in tracebacks, and may quote the value.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


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


@pytest.mark.parametrize("keys", [KEYS, SigningKeys.unsigned()], ids=["keyed", "unsigned"])
@settings(max_examples=50)
@given(value=JSON, binding=JSON | st.just(json.loads(BOUND)), schema=st.just(1) | JSON)
def test_nothing_but_what_is_sealed_opens_even_well_signed(
    keys: SigningKeys, value: Any, binding: Any, schema: Any
) -> None:
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in (value, binding, schema)]
    envelope = signed(parts[0], binding=parts[1], schema=parts[2], keys=keys)
    try:
        found = opened(envelope, keys=keys)
    except IntegrityError:
        return
    assert seal(found, binding=BINDING, keys=keys) == envelope


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
