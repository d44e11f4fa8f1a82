"""Whose a payload is: told by what its envelope is bound to, and by nothing that anybody may write there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.ledger.owners import binding_in, own_id, owner_of
from louver.ledger.records import ApprovalRecord, CheckpointRecord, EffectRecord, EventRecord, RunRecord
from louver.signing import SigningKeys, seal

KEYS = SigningKeys(secrets={"k1": b"0123456789abcdef"})

BOUND: list[tuple[dict[str, Any], object, str]] = [
    (
        {
            "kind": "checkpoint",
            "dag_id": "d:1",
            "run_id": "r#ü",
            "task_id": "t",
            "map_index": -1,
            "incarnation": 2,
            "generation": 3,
            "name": "a:b",
            "definition": "f",
        },
        (CheckpointRecord, ("d:1", "r#ü", "t", -1, 3, "a:b")),
        "checkpoint:d:1:r#ü:t:-1:2:3:a:b",
    ),
    (
        {"kind": "effect-intent", "scope": "global", "effect": "a#1#2"},
        (EffectRecord, ("global", "a#1", 2)),
        "effect:global:a#1#2:intent",
    ),
    (
        {"kind": "effect-result", "scope": "dag:d", "effect": "undo:a#1#1"},
        (EffectRecord, ("dag:d", "undo:a#1", 1)),
        "effect:dag:d:undo:a#1#1:result",
    ),
    ({"kind": "approval", "request_id": "q"}, (ApprovalRecord, ("q",)), "approval:q"),
    ({"kind": "event", "dag_id": "d", "identity": "i"}, (EventRecord, ("d", "i")), "event:d:i"),
    ({"kind": "definition", "fingerprint": "f"}, (RunRecord, ("f",)), "definition:f"),
]


@pytest.mark.parametrize(("binding", "owner", "name"), BOUND, ids=lambda value: str(value)[:20])
def test_an_envelope_names_its_row_and_its_id(binding: dict[str, Any], owner: object, name: str) -> None:
    envelope = seal({"value": 1}, binding=binding, keys=KEYS)
    found = binding_in(envelope)
    assert found == binding
    assert owner_of(found) == owner
    assert own_id(found) == name


@pytest.mark.parametrize(("binding", "owner", "name"), BOUND, ids=lambda value: str(value)[:20])
def test_its_opening_is_enough_where_the_binding_is_in_it(
    binding: dict[str, Any], owner: object, name: str
) -> None:
    envelope = seal("x" * 5000, binding=binding, keys=KEYS)
    end = envelope.index(b',"key"')
    assert binding_in(envelope[:end]) == binding
    assert binding_in(envelope[: end - 1]) is None


@pytest.mark.parametrize(
    "binding",
    [
        {},
        {"kind": "seal", "dag_id": "d"},
        {"kind": None},
        {"kind": "checkpoint"},
        {"kind": "effect-intent", "scope": "s", "effect": "none"},
        {"kind": "effect-intent", "scope": "s", "effect": 5},
        {"kind": "effect-intent", "effect": "a#1"},
        {"kind": "approval", "request_id": ["q"]},
        {"kind": "event", "dag_id": "d", "identity": None},
        {"kind": "definition"},
    ],
    ids=str,
)
def test_what_no_release_binds_so_is_nobodys(binding: dict[str, Any]) -> None:
    assert owner_of(binding) is None


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b'{"binding":' + tail))
def test_bytes_that_are_no_envelope_name_nothing(envelope: bytes) -> None:
    found = binding_in(envelope)
    assert found is None or owner_of(found) is None


@pytest.mark.parametrize(
    "opening", [b'{"binding":' + b"[" * 50_000, b'{"binding":[1]}', b'{"binding":{"a":1}}']
)
def test_deep_or_other_json_names_nothing(opening: bytes) -> None:
    assert binding_in(opening) is None
