"""Dag files are rewritten while runs of them wait for an approval, on a real Airflow (row O14)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.airflow_versions import VERSIONED, Versions, home_of_versions

from louver.closing import overview
from louver.ledger.names import RunKey
from louver.replay import replay
from louver.states import FailureKind, RunState, TaskState

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versions]:
    home = home_of_versions(tmp_path_factory.mktemp("versions"))
    with home.kept_running(dags=VERSIONED):
        yield Versions(home)


@pytest.fixture(scope="module")
def runs(versions: Versions) -> dict[str, RunKey]:
    """One run of each Dag, begun under the first version, and over after the second was deployed."""
    begun = versions.begin()
    asked = {name: versions.await_question(run) for name, run in begun.items()}
    versions.deploy()
    for name, run in begun.items():
        versions.approve(run, asked[name])
    # People are asked once more under the version that the run has accepted.
    anew = versions.await_question(begun["gone_on"], after=asked["gone_on"])
    versions.approve(begun["gone_on"], anew)
    for run in begun.values():
        versions.ended(run)
    return begun


def state_of(versions: Versions, run: RunKey) -> RunState:
    with versions.ledger() as ledger:
        assert ledger.verify_run(run).findings == ()
        stored = ledger.get_run(run)
        seen = overview(run, ledger).state
    assert stored is not None
    assert stored.state is seen
    return seen


def version_of(versions: Versions, run: RunKey) -> str:
    with versions.ledger() as ledger:
        found = ledger.get_run(run)
    assert found is not None
    return found.definition_version


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kept_out", "on_change is 'fail'"),
        ("not_compatible", "step 'go' was changed (kwargs)"),
        ("unfinished", "'tell' of the recorded definition is not deployed any more"),
    ],
)
def test_a_change_that_cannot_be_gone_on_with_stops_the_run_and_undoes_it(versions, runs, name, words):
    run = runs[name]

    assert versions.ended(run) == "failed"
    assert state_of(versions, run) is RunState.FAILED_COMPENSATED
    assert version_of(versions, run) == "1.0.0"
    assert versions.done(run) == {"pay": 1, "take back": 1}
    assert versions.task(run, "ask").failure_kind is FailureKind.DEFINITION_CHANGED
    with versions.ledger() as ledger:
        (said,) = [
            row.reason
            for row in ledger.list_transitions(run, task_id="ask")
            if row.to_state is TaskState.FAILED
        ]
        assert overview(run, ledger).evaluation.states["tell"] is TaskState.SKIPPED
    assert words in str(said)


def test_a_run_is_finished_under_the_definition_that_it_began_with(versions, runs):
    run = runs["finished"]

    assert versions.ended(run) == "success"
    assert state_of(versions, run) is RunState.SUCCEEDED
    assert version_of(versions, run) == "1.0.0"
    # What is new in between was left out, and kept nobody from running.
    assert versions.done(run) == {"pay": 1, "go as it was": 1, "tell": 1}
    assert versions.rest.task_states(run.dag_id, run.run_id)["more"] == "success"
    assert versions.task(run, "more").state is TaskState.SKIPPED


def test_a_run_goes_on_under_a_compatible_definition_and_says_so(versions, runs):
    run = runs["gone_on"]

    assert versions.ended(run) == "success"
    assert state_of(versions, run) is RunState.SUCCEEDED
    assert version_of(versions, run) == "2.0.0"
    assert versions.done(run) == {"pay": 1, "go as it was": 1, "tell": 1, "more": 1}
    with versions.ledger() as ledger:
        (accepted,) = ledger.list_acceptances(run)
        asked = ledger.list_approvals(run)
    assert (accepted.from_version, accepted.to_version, accepted.task_id) == ("1.0.0", "2.0.0", "ask")
    assert [request.definition_version for request in asked] == ["1.0.0", "2.0.0"]
    rows = versions.louver("history", run.run_id, "--output", "json").json()
    (row,) = [row for row in rows if row["trigger"] == "definition:accepted"]
    assert "2.0.0 instead of 1.0.0" in row["reason"]
    (status,) = versions.louver("status", run.run_id, "--output", "json").json()
    assert [(one["from"], one["to"]) for one in status["versions"]] == [("1.0.0", "2.0.0")]


def test_what_was_recorded_is_replayed(versions, runs):
    for run in runs.values():
        document = versions.export(run, anonymise=False)

        seen = replay(document)

        assert seen.problems == ()
        assert seen.state is RunState(document["run"]["state"])


def test_a_run_that_was_cleared_is_replayed_too(versions, runs):
    run = runs["gone_on"]
    versions.clear(run, "tell")

    assert versions.ended(run) == "success"
    versions.home.wait_for(
        "the second time", lambda: versions.done(run)["tell"] == 2 and versions.ended(run), timeout=180
    )
    assert versions.task(run, "tell").generation == 2
    document = versions.export(run, anonymise=True)
    assert replay(document).problems == ()
    assert run.run_id not in json.dumps(document)
