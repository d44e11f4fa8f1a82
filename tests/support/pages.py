"""The pages of the docs, and what their examples are run with."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["BANK", "PAGES", "ROOT", "blocks"]

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

BANK = '''
class Declined(Exception):
    """Nothing was done."""


done, refunds, plan = {}, [], []


def charge(key, order_id, amount):
    step = plan.pop(0) if plan else "do"
    if step == "decline":
        raise Declined
    done.setdefault(key, {"id": f"ch-{len(done) + 1}"})
    if step == "lose":
        raise TimeoutError
    return done[key]


def find(key):
    return done.get(key)


def refund(key, charge):
    refunds.append((key, charge))
    return {"refunded": charge}
'''
"""The provider's client that the README imports as ``bank``."""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of this language, in order."""
    return [text for kind, text in _FENCE.findall(page.read_text()) if kind == language]
