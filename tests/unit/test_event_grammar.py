from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.cloudevents.grammar import (
    declares_json,
    forbidden_character,
    is_absolute_uri,
    is_media_type,
    is_uri_reference,
)


@pytest.mark.parametrize(
    "text",
    [
        "/shop/eu-west",
        "1-555-123-4567",
        "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
        "mailto:list@example.com",
        "https://user:pw@example.com:8080/a//b;c?d=/?#e/?",
        "https://[2001:db8::1]:443/",
        "http://[v1.fe:80]/",
        "//host",
        "//",
        "?q",
        "#f",
        "./a:b",
        "a/b:c",
        "/a::b",
        "%41",
        "s:",
        "file:///etc",
    ],
)
def test_uri_references(text: str) -> None:
    assert is_uri_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "/shop/%zz",
        "/a b",
        "/ü",
        "1:a",
        ":a",
        "a#b#c",
        "http://[::1",
        "http://[nonsense]/",
        "http://[fe80::1%25eth0]/",
        "http://host:port/",
        "http://a@b@c/",
        "/a[1]",
        "a\\b",
        "/<x>",
        "/s\n",
        "/%4",
    ],
)
def test_no_uri_references(text: str) -> None:
    assert not is_uri_reference(text)


def test_absolute_uris() -> None:
    assert is_absolute_uri("https://schemas.example.com/order/2?v=1")
    assert is_absolute_uri("urn:x:y")
    for text in ("/schemas/order.json", "//host/x", "order.json", "https://x/#y", "", "https:// x"):
        assert not is_absolute_uri(text)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("application/json", True),
        ("Application/JSON", True),
        ("application/vnd.acme.order+json; charset=utf-8", True),
        ('text/plain; title="a; \\"b\\""', True),
        ("json", False),
        ("application/", False),
        ("/json", False),
        ("a/b/c", False),
        ("*/*", False),
        ("text/plain;", False),
        ("text/plain; charset", False),
        ("text/plain ; charset=utf 8", False),
        (" text/plain", False),
        ("text/plän", False),
    ],
)
def test_media_types(text: str, taken: bool) -> None:
    assert is_media_type(text) is taken


def test_json_is_declared_by_the_subtype() -> None:
    for text in ("application/json", "text/JSON", "application/vnd.acme.order+json; charset=utf-8"):
        assert declares_json(text)
    for text in ("application/xml", "json/xml", "application/jsonl", "text/plain; a=json", "json"):
        assert not declares_json(text)


@pytest.mark.parametrize(
    "point",
    [0x0, 0x1F, 0x7F, 0x9F, 0xD800, 0xDFFF, 0xFDD0, 0xFDEF, 0xFFFE, 0xFFFF, 0x1FFFE, 0x10FFFF],
)
def test_characters_that_no_attribute_may_have(point: int) -> None:
    assert forbidden_character(f"a{chr(point)}b")


@pytest.mark.parametrize("point", [0x20, 0x7E, 0xA0, 0xFDCF, 0xFDF0, 0xFFFD, 0x10000, 0x1F600, 0x10FFFD])
def test_characters_that_an_attribute_may_have(point: int) -> None:
    assert not forbidden_character(f"a{chr(point)}b")


@given(st.text())
def test_an_absolute_uri_is_a_uri_reference(text: str) -> None:
    assert is_uri_reference(text) or not is_absolute_uri(text)


@pytest.mark.parametrize(
    "text", ["a" * 200_000 + "\n", "//" + "@" * 200_000, "/" + "%4" * 100_000, "a/b" + " ;" * 100_000]
)
def test_long_bad_text_is_decided_at_once(text: str) -> None:
    assert not is_uri_reference(text)
    assert not is_media_type(text)
