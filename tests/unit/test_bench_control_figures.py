"""What the control benchmark says about its samples; nothing is timed here."""

from __future__ import annotations

import json

from benchmarks.control.report import as_json, as_table
from benchmarks.control.results import ALONE, PLAIN, STEP, Answers, Pairs, Pauses, Results, aims_of
from benchmarks.ledger.stats import Series


def series(name: str, *rounds: tuple[float, ...]) -> Series:
    return Series(name=name, rounds=rounds)


def pairs(*, step: float) -> Pairs:
    """The second round was slow for all."""
    return Pairs(
        store="SQLite",
        taken={
            STEP: series(STEP, (step, step), (step + 1, step + 1)),
            PLAIN: series(PLAIN, (0.100, 0.100), (1.100, 1.100)),
            ALONE: series(ALONE, (0.090, 0.090), (1.090, 1.090)),
        },
    )


def measured(*, step: float = 0.120, resumed: float = 0.4, broken: int = 0) -> Results:
    return Results(
        machine={"machine": "two cores"},
        checkpoints=series("ctx.checkpoint()", (1e-6,), (3e-6,), (1.5e-6,)),
        pairs=(pairs(step=step),),
        pauses=Pauses(free=(0.5, 1.9), taken_over=(0.7, 2.4), resumed=(0.1, resumed, 9.0)),
        answers=Answers(given=40, taken=3, runs=2, broken=broken, odd=0),
        reconciled=(1.0, 1.5, 5.0),
        live_tasks=10_000,
    )


def verdicts(results: Results) -> dict[str, str]:
    return {f"{aim.what} {aim.unit}": aim.verdict for aim in aims_of(results)}


def test_what_a_step_adds_is_compared_within_each_run() -> None:
    assert round(pairs(step=0.120).added(PLAIN), 6) == 0.020
    assert round(pairs(step=0.120).added(ALONE), 6) == 0.030


def test_every_aim_is_kept_by_figures_within_the_limits() -> None:
    found = verdicts(measured())
    assert len(found) == 7
    assert set(found.values()) == {"ok"}


def test_what_is_over_a_limit_is_missed() -> None:
    found = verdicts(measured(step=0.126, resumed=0.6, broken=1))
    assert {what for what, verdict in found.items() if verdict == "MISSED"} == {
        "a step more than a plain task, SQLite ms",
        "from the resume to running code, median s",
        "40 answers around the park runs broken",
    }


def test_of_what_was_not_measured_nothing_is_said() -> None:
    assert aims_of(Results(machine={})) == []
    assert "aim" not in as_table(Results(machine={"machine": "two cores"}), [])


def test_the_table_and_the_json_say_the_same() -> None:
    results = measured(step=0.126)
    aims = aims_of(results)

    table, written = as_table(results, aims), json.loads(json.dumps(as_json(results, aims)))

    assert "SQLite: a plain task in the same run" in table
    assert "step: +26.0 ms" in table
    assert "6 aims kept, 1 missed" in table
    assert [aim["verdict"] for aim in written["aims"]].count("MISSED") == 1
    assert round(written["pairs"][0]["added"][PLAIN], 6) == 0.026
    assert written["reconciled"] == [1.0, 1.5, 5.0]
