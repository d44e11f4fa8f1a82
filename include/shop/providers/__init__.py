"""
Other people's systems that the shop calls: stock, payments, mail.

Each request carries an idempotency key. The same key with the same body is done once and answered with the
first result; the same key with another body is refused, as payment providers do. Their errors keep *nothing
was done* and *no answer* apart: only after the first may a caller ask again with another body::

    ProviderError
    ├── ProviderRefused         it answered: nothing was done
    │   └── KeyReused           the key belongs to another request
    └── ProviderTimeout         no answer: it may have been done

What they do not do: keep an inventory or move money. They do not refuse a second refund of one charge under
another key either: a workflow that refunds twice must show in the count.
"""

from __future__ import annotations

__all__ = ["KeyReused", "ProviderError", "ProviderRefused", "ProviderTimeout"]


class ProviderError(Exception):
    """
    The request did not end with a result.

    :param action: as ``payments.charge``.
    :param code: a fixed word that says why; nothing of the request.
    """

    def __init__(self, action: str, code: str) -> None:
        self.action = action
        self.code = code
        super().__init__(f"{action}: {code}")


class ProviderRefused(ProviderError):
    """The provider answered that it did nothing."""


class KeyReused(ProviderRefused):
    """The key was used before, with another body; nothing was done for this one."""


class ProviderTimeout(ProviderError):
    """No answer came; the provider may have done it."""
