"""Any graph is the same workflow whether it is declared in code or in JSON (row W14)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.declared import built, gathers

from louver.builder import GraphBuilder
from louver.definition import Definition

TASKS = "support.declared"


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Steps of any shape, each behind some of those before it; plain data, to be declared in either way."""
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 8))):
        names = [step["name"] for step in steps]
        some = st.lists(st.sampled_from(names), unique=True, max_size=4) if names else st.just([])
        parts = st.lists(st.sampled_from(names or [""]), unique=True, min_size=1, max_size=4)
        kind = draw(st.sampled_from(["step", "join", "map"])) if names else "step"
        steps.append(
            {
                "name": f"n{number}",
                "kind": kind,
                "x": draw(st.none() | st.sampled_from([*names, 1, "text", True, "run"])),
                "y": draw(st.sampled_from([*names, None])) if names else None,
                "after": draw(some),
                "parts": draw(parts) if kind == "join" else [],
                "over": draw(st.sampled_from(names)) if kind == "map" else None,
                "join": draw(st.sampled_from(["all_succeeded", "all_settled", "any_succeeded"])),
                "priority": draw(st.integers(1, 3)),
            }
        )
    return steps


def declared(steps: list[dict[str, Any]]) -> Definition:
    def declare(wf: GraphBuilder, run: Any) -> None:
        refs: dict[str, Any] = {"run": run}
        for step in steps:
            name = step["name"]
            call: dict[str, Any] = {
                "kwargs": {} if step["x"] is None else {"x": refs.get(step["x"], step["x"])},
                "after": [refs[other] for other in step["after"]],
                "priority": step["priority"],
            }
            if step["kind"] != "join":
                call["deps"] = {} if step["y"] is None else {"y": refs[step["y"]]}
            if step["kind"] == "map":
                refs[name] = wf.map(name, gathers, over=refs[step["over"]], **call)
            elif step["kind"] == "join":
                parts = [refs[part] for part in step["parts"]]
                refs[name] = wf.join(name, gathers, deps=parts, collect="parts", join=step["join"], **call)
            else:
                refs[name] = wf.step(name, gathers, join=step["join"], **call)

    return built(declare).definition()


def written(steps: list[dict[str, Any]]) -> Definition:
    names = {step["name"] for step in steps}
    form = []
    for step in steps:
        x, y = step["x"], step["y"]
        deps = {"y": y} if y is not None and step["kind"] != "join" else {}
        entry: dict[str, Any] = {
            "name": step["name"],
            "task": f"{TASKS}:gathers",
            "priority": step["priority"],
        }
        entry |= {"after": step["after"], "deps": deps | ({"x": x} if x in names else {})}
        if x == "run":
            entry["params"] = {"x": "run"}
        elif x is not None and x not in names:
            entry["kwargs"] = {"x": x}
        if step["kind"] == "map":
            entry["over"] = {"item": step["over"]}
        else:
            entry["join"] = step["join"]
        if step["kind"] == "join":
            entry["collect"] = {"parts": step["parts"]}
        form.append(entry)
    whole = {"louver": 1, "name": "etl", "version": "1.0.0", "params": ["run"], "steps": form}
    return Definition.from_json(json.dumps(whole))


@given(graphs())
def test_any_graph_is_the_same_in_code_and_in_json(steps: list[dict[str, Any]]) -> None:
    by_code, by_json = declared(steps), written(steps)

    assert by_code == by_json
    assert by_code.fingerprint == by_json.fingerprint
    assert Definition.from_json(json.dumps(by_code.to_json())) == by_code
