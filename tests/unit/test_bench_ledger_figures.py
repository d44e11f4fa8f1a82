"""What the ledger benchmark says about its samples; nothing is timed here."""

from __future__ import annotations

import json

import pytest
from benchmarks.ledger.aims import Aim, at_least, at_most
from benchmarks.ledger.crowds import Scaling
from benchmarks.ledger.report import as_json, as_table
from benchmarks.ledger.results import BARE, DBOS, Cost, Listing, Results, Sent, aims_of
from benchmarks.ledger.stats import Series, median_of_ratios, quantile

WHOLE = "begin + commit"


def series(name: str, *rounds: tuple[float, ...]) -> Series:
    return Series(name=name, rounds=rounds)


def cost(name: str, seconds: float, *, round_trips: float = 1) -> Cost:
    return Cost(taken=series(name, (seconds,)), sent=Sent(statements=1, round_trips=round_trips))


def costs(*, whole: float) -> Results:
    """A bare insert takes 1 ms, a step of dbos 12 ms."""
    return Results(
        machine={"Postgres": "15"},
        costs=(cost(BARE, 0.001), cost(DBOS, 0.012, round_trips=10), cost(WHOLE, whole, round_trips=2)),
    )


def listing(store: str, question: str, seconds: float, *, found: int = 1, scanned: bool = False) -> Listing:
    taken = series(question, (seconds,))
    return Listing(
        store=store, question=question, found=found, taken=taken, plan=("Index Scan",), scanned=scanned
    )


def aims(results: Results) -> list[Aim]:
    return aims_of(results, whole_effect=WHOLE, steps=(WHOLE,))


# Samples


def test_one_slow_sample_moves_neither_the_median_nor_the_ratio():
    calm = series("a", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
    disturbed = series("b", (2.0, 2.0, 2.0), (2.0, 2.0, 90.0), (2.0, 2.0, 2.0))

    assert disturbed.median == 2.0
    assert median_of_ratios(disturbed, calm) == 2.0


def test_a_round_that_was_slow_for_both_says_the_same_about_their_ratio():
    # All samples of "b" together have a median of 3, those of "a" one of 1: only by round is it always 2.
    one = series("a", (1.0,), (1.0,), (50.0,))
    other = series("b", (2.0,), (2.0,), (100.0,))

    assert median_of_ratios(other, one) == 2.0


def test_a_ratio_needs_the_same_rounds():
    with pytest.raises(ValueError, match="zip"):
        median_of_ratios(series("a", (1.0,)), series("b", (1.0,), (1.0,)))


def test_the_rate_counts_all_samples_of_a_round():
    # Three in 6 seconds is one every two seconds; the median of 1 s would say one a second.
    assert series("a", (1.0, 1.0, 4.0)).rate == 0.5


@pytest.mark.parametrize(("share", "value"), [(0.05, 1), (0.5, 10), (0.95, 19), (0.96, 20), (1, 20)])
def test_a_quantile_is_one_of_the_samples(share, value):
    assert quantile(range(20, 0, -1), share) == value


@pytest.mark.parametrize(("samples", "share"), [([], 0.5), ([1.0], 0), ([1.0], 1.1)])
def test_a_quantile_of_nothing_is_refused(samples, share):
    with pytest.raises(ValueError, match="quantile"):
        quantile(samples, share)


@pytest.mark.parametrize("rounds", [(), ((1.0,), ())])
def test_a_series_without_samples_is_refused(rounds):
    with pytest.raises(ValueError, match="every round"):
        Series(name="a", rounds=rounds)


def test_a_crowd_is_compared_with_one_thread_round_by_round():
    scaling = Scaling(name="a", rounds=({1: 100, 8: 200}, {1: 100, 8: 200}, {1: 10, 8: 20}))

    assert (scaling.rate(1), scaling.rate(8), scaling.factor(8)) == (100, 200, 2.0)


# Aims


@pytest.mark.parametrize(
    ("value", "most", "least"), [(2.99, "ok", "MISSED"), (3, "ok", "ok"), (3.01, "MISSED", "ok")]
)
def test_an_aim_is_kept_at_its_limit(value, most, least):
    assert at_most(3, "bare inserts", what="a", value=value).verdict == most
    assert at_least(3, "times", what="a", value=value).verdict == least


def test_a_whole_effect_is_held_against_bare_inserts_and_dbos():
    kept = [(aim.value, aim.verdict) for aim in aims(costs(whole=0.003))]
    missed = [(aim.value, aim.verdict) for aim in aims(costs(whole=0.004))]

    assert kept == [(3.0, "ok"), (4.0, "ok")]
    assert missed == [(4.0, "MISSED"), (3.0, "MISSED")]


@pytest.mark.parametrize(("bare", "limit", "verdict"), [(6.0, 3.0, "MISSED"), (2.5, 2.5, "ok")])
def test_threads_need_scale_no_further_than_bare_inserts_do(bare, limit, verdict):
    scalings = (
        Scaling(name="bare", rounds=({1: 100, 2: 150, 8: 100 * bare},)),
        Scaling(name="effects", rounds=({1: 10, 2: 15, 8: 25},)),
    )

    (aim,) = aims(Results(machine={}, scalings=scalings))

    assert (aim.what, aim.limit, aim.value, aim.verdict) == ("effects, 8 threads", limit, 2.5, verdict)


def test_the_slowest_question_of_each_store_counts():
    results = Results(
        machine={},
        listings=(
            listing("postgres", "newest", 0.002),
            listing("postgres", "by state", 0.004),
            listing("sqlite", "newest", 0.060),
            listing("sqlite", "by state", 0.003, scanned=True),
        ),
    )

    verdicts = {aim.what: aim.verdict for aim in aims(results)}

    assert verdicts == {
        "listing": "ok",
        "listing on postgres, slowest: by state": "ok",
        "listing on postgres": "ok",
        "listing on sqlite, slowest: newest": "MISSED",
        "listing on sqlite": "MISSED",
    }


def test_stores_that_answer_differently_are_told():
    results = Results(
        machine={},
        listings=(listing("postgres", "newest", 0.001, found=9), listing("sqlite", "newest", 0.001, found=8)),
    )

    assert aims(results)[0].verdict == "MISSED"


# Reports


def test_the_table_shows_each_figure_beside_the_baselines_and_the_verdicts():
    results = costs(whole=0.004)

    table = as_table(results, aims(results)).splitlines()

    (row,) = [line.split() for line in table if line.startswith(WHOLE + " ") and " us " in line]
    # Median, p10, p95, a second, of a bare insert, of a dbos step, statements, round trips.
    assert row[3:] == ["4000", "us", "4000", "us", "4000", "us", "250", "4.00", "0.33", "1", "2"]
    assert table[-1] == "0 aims kept, 2 missed"
    assert len({len(line) for line in table if line.endswith("MISSED")}) == 1


def test_what_was_not_measured_is_not_in_the_table():
    assert as_table(Results(machine={"Postgres": "15"}), []) == "Postgres     15"


def test_the_json_holds_what_the_table_does():
    results = Results(
        machine={"Postgres": "15"},
        costs=costs(whole=0.004).costs,
        scalings=(Scaling(name="bare", rounds=({1: 100, 8: 300},)),),
        listings=(listing("sqlite", "newest", 0.002, found=7),),
        filled={"runs": 100},
    )

    told = json.loads(json.dumps(as_json(results, aims(results))))

    whole = next(each for each in told["costs"] if each["name"] == WHOLE)
    assert (whole["median"], whole["bare_inserts"], whole["round_trips"]) == (0.004, 4.0, 2)
    assert told["scalings"][0]["threads"][1] == {"threads": 8, "per_second": 300, "factor": 3.0}
    assert told["listings"][0] == {
        "name": "newest",
        "store": "sqlite",
        "found": 7,
        "median": 0.002,
        "p10": 0.002,
        "p95": 0.002,
        "samples": 1,
        "plan": ["Index Scan"],
        "scanned": False,
    }
    assert [aim["verdict"] for aim in told["aims"]] == [aim.verdict for aim in aims(results)]
