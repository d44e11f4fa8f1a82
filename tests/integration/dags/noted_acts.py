"""What the steps of the decorated Dags do to the world: lines in a file, which the tests read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

NOTES = Path(os.environ.get("AIRFLOW_HOME", ".")) / "noted_acts.jsonl"


def note(**what: Any) -> None:
    """Write down something that was done."""
    with NOTES.open("a") as file:
        file.write(json.dumps(what) + "\n")


def pay(order: dict[str, Any], key: str) -> dict[str, str]:
    """Take the money."""
    note(act="pay", order=order["order"], key=key)
    return {"receipt": order["order"]}


def refund(undo: Any) -> None:
    """Give it back."""
    note(act="refund", order=undo.intent["order"], key=undo.effect_key)


def unpack(undo: Any) -> None:
    """Undo a whole step, whose intent is its arguments."""
    note(act="unpack", order=undo.intent["order"]["order"], key=undo.effect_key)
