"""The JSON form is read strictly, and its errors name file, step and attribute (rows W4, O1)."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from louver.definition import Definition
from louver.definition_json import read_definition, read_definition_form, write_definition
from louver.errors import DefinitionError

SMALL: dict[str, Any] = {
    "louver": 1,
    "name": "orders",
    "version": "1.0.0",
    "params": ["amount"],
    "steps": [
        {"name": "look", "task": "shop:look", "params": {"amount": "amount"}},
        {"name": "ask", "after": ["look"], "approve": {"of": "pay", "payload": "shop:intent"}},
        {
            "name": "pay",
            "task": "shop:pay",
            "deps": {"seen": "look"},
            "after": ["ask"],
            "kwargs": {"note": {"en": ["thanks"]}},
            "approval": "ask",
            "retry": {"max_attempts": 3},
        },
    ],
}


def read(document: Any, source: str | None = None) -> Definition:
    return read_definition(json.dumps(document), source=source)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small document with a value put in at the path, as ``steps.2.retry.backoff``."""
    document = deepcopy(SMALL)
    *places, last = path.split(".")
    at: Any = document
    for place in places:
        at = at[int(place)] if isinstance(at, list) else at[place]
    at[last] = value
    return document


def refused(document: Any) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        read(document, source="orders.json")
    assert caught.value.source == "orders.json"
    assert str(caught.value).startswith("orders.json")
    return caught.value


def test_the_form_makes_the_round_trip() -> None:
    definition = read(SMALL)
    assert read(definition.to_json()) == definition
    assert read_definition_form(definition.to_json()) == definition
    assert read_definition(json.dumps(SMALL).encode()) == definition
    assert Definition.from_json(json.dumps(SMALL)) == definition


def test_spelled_out_defaults_change_no_fingerprint() -> None:
    definition = read(SMALL)
    spelled = write_definition(definition)
    assert spelled != SMALL
    assert read(spelled).fingerprint == definition.fingerprint


def test_key_order_and_whitespace_change_no_fingerprint() -> None:
    def reversed_keys(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reversed_keys(item) for key, item in reversed(value.items())}
        return [reversed_keys(item) for item in value] if isinstance(value, list) else value

    other = json.dumps(reversed_keys(SMALL), indent=3)
    assert Definition.from_json(other).fingerprint == read(SMALL).fingerprint


def test_whole_numbers_of_seconds_may_be_written_either_way() -> None:
    whole = changed("steps.2.retry.delay_seconds", 5)
    assert read(whole).fingerprint == read(changed("steps.2.retry.delay_seconds", 5.0)).fingerprint


WRONG: list[tuple[str, Any, str | None, str]] = [
    ("louver", 2, None, "louver"),
    ("louver", "1", None, "louver"),
    ("louver", True, None, "louver"),
    ("louver", 1.0, None, "louver"),
    ("name", 5, None, "name"),
    ("name", "a b", None, "name"),
    ("version", 1.0, None, "version"),
    ("version", None, None, "version"),
    ("params", "amount", None, "params"),
    ("params", [5], None, "params"),
    ("event_type", 5, None, "event_type"),
    ("sink", [], None, "sink"),
    ("sink", "nobody", None, "sink"),
    ("steps", {}, None, "steps"),
    ("steps", [], None, "steps"),
    ("compensation", "stop", None, "compensation"),
    ("compensation", {"on_failure": "give_up"}, None, "compensation.on_failure"),
    ("compensation", {"on_failure": True}, None, "compensation.on_failure"),
    ("compensation", {"retry": 3}, None, "compensation.retry"),
    ("compensation", {"retry": {}}, None, "compensation.retry.max_attempts"),
    ("compensation", {"retry": {"max_attempts": 0}}, None, "compensation.retry.max_attempts"),
    (
        "compensation",
        {"retry": {"max_attempts": 2, "delay_seconds": -1}},
        None,
        "compensation.retry.delay_seconds",
    ),
    ("compensation", {"attempts": 3}, None, "compensation"),
    ("steps.0.name", None, "steps[0]", "name"),
    ("steps.0.task", 5, "look", "task"),
    ("steps.0.task", "shop", "look", "task"),
    ("steps.0.deps", "ask", "look", "deps"),
    ("steps.0.deps", {"x": 5}, "look", "deps"),
    ("steps.0.deps", [None], "look", "deps"),
    ("steps.0.after", "ask", "look", "after"),
    ("steps.0.params", ["amount"], "look", "params"),
    ("steps.0.params", {"amount": 5}, "look", "params"),
    ("steps.0.kwargs", [], "look", "kwargs"),
    ("steps.0.queue", 5, "look", "queue"),
    ("steps.0.priority", True, "look", "priority"),
    ("steps.0.priority", 1.0, "look", "priority"),
    ("steps.0.priority", 10**20, "look", "priority"),
    ("steps.0.on_failure", "ignore", "look", "on_failure"),
    ("steps.0.on_failure", None, "look", "on_failure"),
    ("steps.0.approval", 5, "look", "approval"),
    ("steps.0.retry", 3, "look", "retry"),
    ("steps.0.retry", {}, "look", "retry.max_attempts"),
    ("steps.2.retry.max_attempts", 0, "pay", "retry.max_attempts"),
    ("steps.2.retry.max_attempts", True, "pay", "retry.max_attempts"),
    ("steps.2.retry.max_attempts", 2.5, "pay", "retry.max_attempts"),
    ("steps.2.retry.delay_seconds", -1, "pay", "retry.delay_seconds"),
    ("steps.2.retry.delay_seconds", "5", "pay", "retry.delay_seconds"),
    ("steps.2.retry.delay_seconds", True, "pay", "retry.delay_seconds"),
    ("steps.2.retry.delay_seconds", 1e300, "pay", "retry.delay_seconds"),
    ("steps.2.retry.max_delay_seconds", 10**400, "pay", "retry.max_delay_seconds"),
    ("steps.2.retry.backoff", "linear", "pay", "retry.backoff"),
    ("steps.2.retry.more", 1, "pay", "retry"),
    ("steps.1.approve", True, "ask", "approve"),
    ("steps.1.approve.of", None, "ask", "approve.of"),
    ("steps.1.approve.of", "look", "ask", "approve.of"),
    ("steps.1.approve.payload", "intent", "ask", "approve.payload"),
    ("steps.1.approve.expires_after_seconds", True, "ask", "approve.expires_after_seconds"),
    ("steps.1.approve.expires_after_seconds", 0, "ask", "approve.expires_after_seconds"),
    ("steps.1.approve.expires_after_seconds", 10**400, "ask", "approve.expires_after_seconds"),
    ("steps.1.approve.approvers", "ann", "ask", "approve.approvers"),
    ("steps.1.approve.four_eyes", 1, "ask", "approve.four_eyes"),
    ("steps.1.approve.more", 1, "ask", "approve"),
]


@pytest.mark.parametrize(("path", "value", "node", "attribute"), WRONG)
def test_a_wrong_value_is_refused_by_its_place(
    path: str, value: Any, node: str | None, attribute: str
) -> None:
    error = refused(changed(path, value))
    assert (error.node, error.attribute) == (node, attribute)


@pytest.mark.parametrize(
    ("path", "node"),
    [("more", None), ("steps.0.more", "look"), ("steps.1.task", "ask"), ("steps.1.retry", "ask")],
)
def test_an_unknown_field_is_refused(path: str, node: str | None) -> None:
    error = refused(changed(path, None))
    assert error.node == node
    assert f"unknown field {path.rpartition('.')[2]!r}" in error.reason


@pytest.mark.parametrize("name", ["louver", "name", "version", "steps"])
def test_a_missing_field_is_refused(name: str) -> None:
    error = refused({key: value for key, value in SMALL.items() if key != name})
    assert (error.attribute, error.reason) == (name, "is missing")


@pytest.mark.parametrize(("index", "name"), [(0, "task"), (0, "name"), (1, "approve")])
def test_a_missing_field_of_a_step_is_refused(index: int, name: str) -> None:
    document = deepcopy(SMALL)
    del document["steps"][index][name]
    # Without its approve a node is a step, and has no task.
    assert refused(document).attribute == {"approve": "task"}.get(name, name)


@pytest.mark.parametrize(
    ("old", "new", "node", "attribute"),
    [
        ('"louver": 1', '"louver": 1, "louver": 1', None, "louver"),
        ('"task": "shop:pay"', '"task": "shop:no", "task": "shop:pay"', "pay", "task"),
        ('"max_attempts": 3', '"max_attempts": 3, "max_attempts": 9', "pay", "retry.max_attempts"),
        ('"of": "pay"', '"of": "look", "of": "pay"', "ask", "approve.of"),
        ('{"seen": "look"}', '{"seen": "ask", "seen": "look"}', "pay", "deps.seen"),
        ('{"en": ["thanks"]}', '{"en": 1, "en": 2}', "pay", "kwargs.en"),
        ('["thanks"]', '[[{"a": 1, "\\u0061": 2}]]', "pay", "kwargs.a"),
    ],
)
def test_a_member_that_stands_twice_is_refused_by_its_place(
    old: str, new: str, node: str | None, attribute: str
) -> None:
    text = json.dumps(SMALL)
    assert text.count(old) == 1
    with pytest.raises(DefinitionError, match="stands twice") as caught:
        read_definition(text.replace(old, new), source="orders.json")
    assert (caught.value.source, caught.value.node, caught.value.attribute) == (
        "orders.json",
        node,
        attribute,
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
        (b"\xff{}", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"louver": NaN}', "NaN is not a JSON number"),
        (b'{"louver": -Infinity}', "-Infinity is not a JSON number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"louver": %s}' % (b"1" * 5000), "too many digits"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_document_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason) as caught:
        read_definition(raw, source="orders.json")
    assert caught.value.source == "orders.json"
    assert caught.value.__cause__ is None


def test_a_number_that_overflows_is_no_literal() -> None:
    text = json.dumps(SMALL).replace('["thanks"]', "1e999")
    with pytest.raises(DefinitionError, match=r"\$\.note\.en: NaN and Infinity") as caught:
        read_definition(text)
    assert (caught.value.node, caught.value.attribute) == ("pay", "kwargs")


def test_a_large_whole_number_is_a_literal_like_any_other() -> None:
    document = changed("steps.0.kwargs", {"n": 2**53 + 1})
    node = read(document).node("look")
    assert node.kwargs["n"] == 2**53 + 1
    assert read(document).fingerprint != read(changed("steps.0.kwargs", {"n": 2**53})).fingerprint


def test_resources_are_read_and_stand_in_the_form_only_where_there_are_any() -> None:
    """So that a definition that has none keeps the fingerprint that its runs began with."""
    given = {"payments-api": 2, "bank": 1}
    definition = read(changed("steps.2.resources", given))
    assert dict(definition.node("pay").resources) == given
    look, _, pay = definition.to_json()["steps"]
    assert ("resources" in look, pay["resources"]) == (False, given)
    assert read(definition.to_json()) == definition

    small = read(SMALL)
    assert small.fingerprint == "7ed3c2a21c5d68432456ce875b7e1e486eadf0a4c1b6f85729971968017ce3d5"
    assert read(changed("steps.2.resources", {})).fingerprint == small.fingerprint
    fingerprints = {
        read(changed("steps.2.resources", other)).fingerprint
        for other in (given, {"bank": 1, "payments-api": 2}, {"payments-api": 1, "bank": 1}, {"bank": 1})
    }
    assert len(fingerprints) == 3
    assert small.fingerprint not in fingerprints


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        (["payments-api"], "resources"),
        ("payments-api", "resources"),
        ({"payments-api": 0}, "resources.payments-api"),
        ({"payments-api": -1}, "resources.payments-api"),
        ({"payments-api": True}, "resources.payments-api"),
        ({"payments-api": 1.0}, "resources.payments-api"),
        ({"payments-api": "1"}, "resources.payments-api"),
        ({"payments-api": None}, "resources.payments-api"),
        ({"payments-api": 1_000_001}, "resources.payments-api"),
        ({"": 1}, "resources"),
        ({"payments api": 1}, "resources"),
        ({"-payments": 1}, "resources"),
        ({"p" * 101: 1}, "resources"),
    ],
)
def test_resources_that_are_none_are_refused(value: Any, attribute: str) -> None:
    error = refused(changed("steps.2.resources", value))
    assert (error.node, error.attribute) == ("pay", attribute)


def test_a_resource_that_stands_twice_is_refused() -> None:
    raw = json.dumps(changed("steps.2.resources", {"a": 1})).replace('{"a": 1}', '{"a": 1, "a": 2}')
    with pytest.raises(DefinitionError, match="stands twice") as caught:
        read_definition(raw)
    assert caught.value.attribute == "resources.a"


def test_an_approval_has_no_resources() -> None:
    error = refused(changed("steps.1.resources", {"a": 1}))
    assert "unknown field 'resources'" in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
PLACES = [path for path, _, _, _ in WRONG]


@settings(max_examples=80)
@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_there_there_is_a_definition_or_one_clear_error(path: str, value: Any) -> None:
    try:
        definition = read(changed(path, value), source="orders.json")
    except DefinitionError as error:
        blamed = error.source
    else:
        assert read(definition.to_json()).fingerprint == definition.fingerprint
        return
    assert blamed == "orders.json"
