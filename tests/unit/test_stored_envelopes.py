"""Envelopes that are in people's ledgers stay readable, and are what is written today, byte for byte."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from louver.signing import SigningKeys, seal, unseal

BINDING = {
    "kind": "intent",
    "dag_id": "orders",
    "run_id": "run-1 \u00e9\U0001f600",
    "map_index": -1,
    "policy": None,
}
BOUND = (
    b'{"dict":{"dag_id":"orders","kind":"intent","map_index":{"int":"-1"},"policy":null,'
    b'"run_id":"run-1 \xc3\xa9\xf0\x9f\x98\x80"}}'
)
KEYS = {
    b'"k2"': SigningKeys(secrets={"k2": b"new secret of 16", "k1": b"old secret of 16"}),
    b'"k1"': SigningKeys(secrets={"k1": b"old secret of 16"}),
    b'"-"': SigningKeys.unsigned(),
    b'"k\\"\xc3\xa9\\\\"': SigningKeys(secrets={'k"\u00e9\\': b"a secret of 16 b"}),
}

# Made by the release before the fast writer. What stands here is not to be changed: it is in ledgers.
ORDER = (
    {"order_id": "order-77", "amount_cents": 4500, "currency": "EUR"},
    b'{"dict":{"amount_cents":{"int":"4500"},"currency":"EUR","order_id":"order-77"}}',
    (
        "1cc5ea1f4a000c428520c43d34fff47b24a4e7c66ac0fdbd6377579c26344c24",
        "d49ccff78c09fa631f449e94f7fd124d5af37c8a8ef3441c497dd424d72f4f10",
        "d3cff33f2ce413adcb7d5a56aaf68737d6d6bf58c3f5b9b0c8030b7e01a43b11",
        "de0ce6a9546b95969a84a31640e70a916b1d0b028d8ce3c86edca139672a0cee",
    ),
)
TYPES = (
    {
        "none": None,
        "yes": True,
        "no": False,
        "int": -(2**53) - 1,
        "float": -0.0,
        "tenth": 0.1,
        "list": [1, []],
        "tuple": ((), (1, "a")),
        "set": {3, 20, "b", (1, None)},
        "dict": {},
        "bytes": b"\0\xff",
        "date": date(1, 1, 1),
        "when": datetime(
            2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=5, minutes=30, seconds=15))
        ),
        "utc": datetime(2026, 3, 1, tzinfo=timezone.utc),
        "decimal": Decimal("-0.00"),
        "large": Decimal("1E+40"),
        "uuid": UUID(int=0x1234),
    },
    b'{"dict":{"bytes":{"bytes":"AP8="},"date":{"date":"0001-01-01"},"decimal":{"decimal":"-0.00"},'
    b'"dict":{"dict":{}},"float":{"float":"-0x0.0p+0"},"int":{"int":"-9007199254740993"},'
    b'"large":{"decimal":"1E+40"},"list":{"list":[{"int":"1"},{"list":[]}]},"no":false,"none":null,'
    b'"set":{"set":["b",{"int":"20"},{"int":"3"},{"tuple":[{"int":"1"},null]}]},'
    b'"tenth":{"float":"0x1.999999999999ap-4"},"tuple":{"tuple":[{"tuple":[]},{"tuple":[{"int":"1"},"a"]}]},'
    b'"utc":{"datetime":"2026-03-01T00:00:00+00:00"},"uuid":{"uuid":"00000000-0000-0000-0000-000000001234"},'
    b'"when":{"datetime":"2026-03-01T12:00:00.000005+05:30:15"},"yes":true}}',
    (
        "f998984116906c74dd90bc10e540bd4f6e61825f06ed56398194b68da7f0ea4a",
        "dcf463eaefc4ef4da52e6fff93744badbd4bf87e4f611873087cb98661cb7921",
        "128fd2da80fa60a957058a9cd136af1fbdf6b89ef774c9e2df3bad31d381f0fd",
        "6f7533949abf62b849b292346e42587cce19c4f3937206cbf68b58abd6ebea2b",
    ),
)
TEXT = (
    {
        "\ufb01\ue000": '\u2028\x7f"\\\n\x1f\0/',
        "\U0001f600": "\U0010ffff\ud7ff\ue000",
        "e\u0301": "\u00e9",
        "": "",
    },
    b'{"dict":{"":"","e\xcc\x81":"\xc3\xa9","\xf0\x9f\x98\x80":"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80",'
    b'"\xef\xac\x81\xee\x80\x80":"\xe2\x80\xa8\x7f\\"\\\\\\n\\u001f\\u0000/"}}',
    (
        "1c366678182b0602c6fc682ee293b27494bd4166ee70dda330d3b6196ea367b1",
        "4f91fb11a576492d0c3d997a98178b4a8bf764cecfc4c3a3f11602d1be0838a8",
        "6f276631e42d96afb37411d173837fa4cb83fef744ee757646aa1e780192940c",
        "02943d739080a3c159e1b269dcd95104dd6275498cc701c639ba05432fb7e8a3",
    ),
)
NOTHING = (
    None,
    b"null",
    (
        "1d8bbf5a199446c71194f8ed2522e085d68b24ae069ced5254e4c952a0fe8179",
        "5a5e99553217df24351c6d15a337285d9b44e74c76495823d0fef0118483f916",
        "25dc2ff1f9f8d300cc985a2f00a7957f577b77ee820694756170691e046b78c2",
        "dbe41246ef037618be5d045ba2ff4f49717d607a3ea15573553c50b1c444da8f",
    ),
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("value", "written", "macs"), [ORDER, TYPES, TEXT, NOTHING], ids=["order", "types", "text", "nothing"]
)
def test_an_envelope_in_a_ledger_opens_and_is_written_so_again(
    value: Any, written: bytes, macs: tuple[str, ...], key: bytes
) -> None:
    mac = dict(zip(KEYS, macs, strict=True))[key].encode()
    envelope = b'{"binding":%b,"key":%b,"mac":"%b","schema":1,"value":%b}' % (BOUND, key, mac, written)
    opened = unseal(envelope, binding=BINDING, keys=KEYS[key])
    assert (opened, type(opened)) == (value, type(value))
    assert seal(value, binding=BINDING, keys=KEYS[key]) == envelope


def test_an_envelope_of_the_first_key_opens_after_a_rotation() -> None:
    _, written, macs = ORDER
    envelope = b'{"binding":%b,"key":"k1","mac":"%b","schema":1,"value":%b}' % (
        BOUND,
        macs[1].encode(),
        written,
    )
    assert unseal(envelope, binding=BINDING, keys=KEYS[b'"k2"']) == ORDER[0]
