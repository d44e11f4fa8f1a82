"""
The grammars that event attributes are held against: RFC 3986 references, RFC 2046 media types, CloudEvents
strings.

``urllib.parse`` takes nearly everything for a URL, so the ABNF is written out. Only decisions here, no
errors: the caller knows the attribute to blame.
"""

from __future__ import annotations

import ipaddress
import re

__all__ = ["declares_json", "forbidden_character", "is_absolute_uri", "is_media_type", "is_uri_reference"]

_PLAIN = r"A-Za-z0-9\-._~!$&'()*+,;="  # unreserved and sub-delims, RFC 3986 section 2
_ESCAPED = r"%[0-9A-Fa-f]{2}"
_PCHAR = rf"(?:[{_PLAIN}:@]|{_ESCAPED})"
_AUTHORITY = (
    rf"(?:(?:[{_PLAIN}:]|{_ESCAPED})*@)?"
    rf"(?:\[(?P<literal>[^\[\]]*)\]|(?:[{_PLAIN}]|{_ESCAPED})*)"
    r"(?::[0-9]*)?"
)
# Both rules below go on from here with an alternative of their own and close the group.
_ROOTED = rf"(?://{_AUTHORITY}(?:/{_PCHAR}*)*|/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?"
_QUERY = rf"(?:\?(?:{_PCHAR}|[/?])*)?"
_FRAGMENT = rf"(?:#(?:{_PCHAR}|[/?])*)?"
_ABSOLUTE_URI = rf"[A-Za-z][A-Za-z0-9+\-.]*:{_ROOTED}|{_PCHAR}+(?:/{_PCHAR}*)*|){_QUERY}"
# The first segment of a relative path has no colon: it would read as a scheme.
_RELATIVE = rf"{_ROOTED}|(?:[{_PLAIN}@]|{_ESCAPED})+(?:/{_PCHAR}*)*|){_QUERY}"
_ABSOLUTE_PATTERN = re.compile(_ABSOLUTE_URI)
_URI_PATTERN = re.compile(_ABSOLUTE_URI + _FRAGMENT)
_RELATIVE_PATTERN = re.compile(_RELATIVE + _FRAGMENT)
_IP_FUTURE = re.compile(rf"[vV][0-9A-Fa-f]+\.[{_PLAIN}:]+")

_NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&\-^_.+]{0,126}"  # RFC 6838 section 4.2: no "*", which makes a range of it
_TOKEN = r"[!#$%&'*+\-.^_`{|}~0-9A-Za-z]+"
_QUOTED = r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*"'
_MEDIA_TYPE = re.compile(rf"{_NAME}/({_NAME})(?: *; *{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))*")

# C0, DEL and C1 controls, surrogates, and the noncharacters (CloudEvents 1.0.2, type system, String).
_FORBIDDEN = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufdd0-\\ufdef"
    + "".join(f"\\U{plane:04x}fffe\\U{plane:04x}ffff" for plane in range(17))
    + "]"
)


def is_uri_reference(text: str) -> bool:
    """Whether the text is a URI-reference (RFC 3986, section 4.1). The empty text is one."""
    return _matches(_URI_PATTERN, text) or _matches(_RELATIVE_PATTERN, text)


def is_absolute_uri(text: str) -> bool:
    """Whether the text is an absolute URI (RFC 3986, section 4.3): with a scheme and without a fragment."""
    return _matches(_ABSOLUTE_PATTERN, text)


def is_media_type(text: str) -> bool:
    """Whether the text is a media type, with or without parameters (RFC 2045, 2046 and 6838)."""
    return _MEDIA_TYPE.fullmatch(text) is not None


def declares_json(media_type: str) -> bool:
    """Whether the subtype is ``json`` or ends in ``+json`` (JSON format, section 3.1.1)."""
    match = _MEDIA_TYPE.fullmatch(media_type)
    subtype = match.group(1).lower() if match else ""
    return subtype == "json" or subtype.endswith("+json")


def forbidden_character(text: str) -> bool:
    """Whether the text has a character that a CloudEvents String may not have."""
    return _FORBIDDEN.search(text) is not None


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    match = pattern.fullmatch(text)
    if match is None:
        return False
    literal = match.group("literal")
    return literal is None or _is_ip_literal(literal)


def _is_ip_literal(text: str) -> bool:
    if _IP_FUTURE.fullmatch(text):
        return True
    if "%" in text:  # a zone id is RFC 6874, not RFC 3986
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
