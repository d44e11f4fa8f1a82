"""``airflow louver checkpoints reset``, through Airflow's own parser, over a real ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from louver.ledger.contract import Ledger
from louver.testing.scene import COMPLETED, Scene

Louver = Callable[..., tuple[int, str, str]]


@pytest.fixture
def scene(ledger: Ledger) -> Scene:
    """A step mapped over three: two have saved a page, one of them is over."""
    scene = Scene(name="checkpoints", open_ledger=lambda: ledger)
    for index in range(3):
        token = scene.launch("load", map_index=index)
        if index:
            scene.ledger.save_checkpoint(token, "state", {"page": index}, now=scene.tick())
        if index == 2:
            scene.ledger.complete(token, COMPLETED, None, now=scene.tick())
    return scene


def told(louver: Louver, *arguments: str) -> tuple[int, Any]:
    code, out, err = louver("checkpoints", "reset", *arguments, "--output", "json")
    return code, json.loads(out) if code == 0 else err


def test_a_dry_run_shows_what_a_reset_removes_and_the_next_process_begins_without(
    louver: Louver, scene: Scene
) -> None:
    run = scene.run.run_id
    code, rows = told(louver, run, "load", "--dry-run")
    assert (code, [(row["map_index"], row["states"], row["removed"]) for row in rows]) == (
        0,
        [("0", "", "False"), ("1", "state", "False")],
    )

    code, rows = told(louver, run, "load", "--yes")

    assert (code, [(row["map_index"], row["states"], row["removed"]) for row in rows]) == (
        0,
        [("0", "", "False"), ("1", "state", "True")],
    )
    token = scene.open("load", map_index=1, try_number=2).token
    assert scene.ledger.load_checkpoint(token, "state", "none") == "none"
    assert scene.ledger.list_states(scene.key("load", map_index=2)) == ("state",)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("load",), 2, "--dry-run"),
        (("load", "--dry-run", "--yes"), 2, "--dry-run"),
        (("load", "--yes", "--map-index", "2"), 1, "is succeeded"),
        (("load", "--yes", "--map-index", "7"), 1, "'load' with index 7"),
        (("unload", "--yes"), 1, "'unload' of run run-1: it has saved nothing"),
    ],
)
def test_what_cannot_be_reset_is_told(
    louver: Louver, scene: Scene, arguments: tuple[str, ...], code: int, said: str
) -> None:
    found, err = told(louver, scene.run.run_id, *arguments)
    assert found == code
    assert said in " ".join(err.split())
    assert scene.ledger.list_states(scene.key("load", map_index=1)) == ("state",)
