"""The signature of a body over HTTP (semantics section 10): the same for what comes in and what goes out."""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["SIGNATURE_HEADER", "sign_body"]

SIGNATURE_HEADER = "Louver-Signature"


def sign_body(secret: bytes, body: bytes, *, unix: int) -> str:
    """
    ``t=<unix>,v1=<hex>``: HMAC-SHA256 over ``<unix>.<body>``, so that an old one cannot be used anew.

    :param unix: the time of sending, in whole seconds since 1970.
    """
    signed = b"%d." % unix + body
    return f"t={unix},v1={hmac.new(secret, signed, hashlib.sha256).hexdigest()}"
