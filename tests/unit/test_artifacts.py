"""``ctx.artifact_dir``: a directory for each attempt, below the base whatever ids are called (row T8)."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from louver.artifacts import Artifacts, own_artifacts
from louver.context import TaskContext
from louver.definition import Definition, Step
from louver.engine.inline import run_inline
from louver.errors import ConfigurationError
from louver.ledger.names import RunKey, TaskKey, Token
from louver.policies import RetryPolicy
from louver.states import RunState, Source

AWKWARD = [
    "manual__2026-03-01T12:00:00+00:00",
    "..",
    ".",
    "../../etc",
    "/etc/passwd",
    "a/b",
    "a\\b",
    ".hidden",
    "",
    " ",
    "Ä",
    "A\u0308",
    "\N{SNAKE}" * 70,
    "x" * 250,
    "x" * 251,
    "Task",
    "task",
    "TASK",
    "task~1",
    "new\nline",
    "nul\0",
    "\ud800",
    "generation-1.attempt-1",
]


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(base=tmp_path / "artifacts")


def token(
    dag_id: str = "dag", run_id: str = "run", task_id: str = "task", map_index: int = -1, **given: Any
) -> Token:
    return Token(
        **{
            "key": TaskKey(dag_id, run_id, task_id, map_index),
            "incarnation": 1,
            "generation": 1,
            "attempt": 1,
            "session": 1,
            "try_number": 1,
            "process": "p",
            "source": Source.WORKER,
        }
        | given
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_plain_ids_are_seen_in_the_path(artifacts: Artifacts) -> None:
    found = artifacts.make(token("orders", "run-7", "charge", attempt=2))
    assert found == artifacts.base / "orders" / "run-7" / "charge" / "generation-1.attempt-2"


def test_everything_from_the_base_on_is_for_its_owner_alone(artifacts: Artifacts) -> None:
    before = os.umask(0)
    try:
        found = artifacts.make(token())
    finally:
        os.umask(before)
    places = [found, *list(found.parents)[:4]]
    assert places[-1] == artifacts.base
    assert [mode(place) for place in places] == [0o700] * 5


def test_what_somebody_opened_to_others_is_closed_again(artifacts: Artifacts) -> None:
    found = artifacts.make(token())
    found.chmod(0o755)
    assert mode(artifacts.make(token())) == 0o700


def test_an_attempt_that_goes_on_finds_its_files(artifacts: Artifacts) -> None:
    (artifacts.make(token()) / "part").write_text("half")
    # After a pause another session of the same attempt goes on.
    assert (artifacts.make(token(session=2, process="q")) / "part").read_text() == "half"


def test_every_attempt_has_its_own(artifacts: Artifacts) -> None:
    tokens = [
        token(),
        *(token(**{name: other}) for name in ("dag_id", "run_id", "task_id") for other in AWKWARD if other),
        *(token(map_index=index) for index in (0, 1, 10)),
        *(token(**{name: 2}) for name in ("incarnation", "generation", "attempt")),
        token(generation=1, attempt=11),
        token(generation=11, attempt=1),
    ]
    # "task" is among the awkward ones too.
    places = {artifacts.make(one) for one in tokens if "\0" not in str(one)}
    assert len(places) == len({one for one in tokens if "\0" not in str(one)})


IDS = st.text(min_size=1, max_size=300) | st.sampled_from([name for name in AWKWARD if name])


@given(one=st.tuples(IDS, IDS, IDS), other=st.tuples(IDS, IDS, IDS))
def test_no_id_leads_out_and_no_two_tasks_share(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    artifacts = Artifacts(base=Path("/base"))
    paths = [artifacts.of_attempt(token(*ids)) for ids in (one, other)]
    for path in paths:
        parts = path.relative_to("/base").parts
        assert len(parts) == 4
        assert not {"..", ".", ""} & set(parts)
        assert all(part.isascii() and len(part) <= 80 and "\0" not in part for part in parts)
    assert Path(os.path.normpath(paths[0])) == paths[0]
    # Neither where the file system does not tell small letters from capital ones.
    assert (str(paths[0]).lower() == str(paths[1]).lower()) is (one == other)


def test_a_link_in_its_place_is_refused(artifacts: Artifacts, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (artifacts.base / "dag").mkdir(parents=True)
    (artifacts.base / "dag" / "run").symlink_to(outside)
    with pytest.raises(ConfigurationError, match=r"something else is in its place.*\[louver\] artifact_dir"):
        artifacts.make(token())
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "below a file"])
def test_a_base_that_cannot_be_one_is_said_so(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    base = tmp_path / "file" if kind == "file" else tmp_path / "file" / "below"
    with pytest.raises(ConfigurationError, match="cannot be made"):
        Artifacts(base=base).make(token())


def test_a_relative_base_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be absolute, not 'here'"):
        Artifacts(base=Path("here"))


def test_a_run_is_counted_and_removed_with_nothing_else(artifacts: Artifacts, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    mine = artifacts.make(token())
    (mine / "deep").mkdir()
    (mine / "deep" / "file").write_text("x")
    (mine / "link").symlink_to(outside)
    artifacts.make(token(attempt=2))
    artifacts.make(token(task_id="other", map_index=3))
    kept = artifacts.make(token(run_id="run-2"))

    assert artifacts.count(RunKey("dag", "run")) == 3
    assert artifacts.remove(RunKey("dag", "run")) == 3

    assert not artifacts.of_run(RunKey("dag", "run")).exists()
    assert kept.exists()
    assert (outside / "kept").exists()
    assert (artifacts.count(RunKey("dag", "run")), artifacts.remove(RunKey("dag", "run"))) == (0, 0)
    assert artifacts.remove(RunKey("dag", "run-2")) == 1
    assert list(artifacts.base.iterdir()) == []


def test_a_run_in_whose_place_a_link_lies_is_left_alone(artifacts: Artifacts, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "task" / "attempt").mkdir(parents=True)
    (artifacts.base / "dag").mkdir(parents=True)
    (artifacts.base / "dag" / "run").symlink_to(outside)
    with pytest.raises(NotADirectoryError, match="is a link; it is left alone"):
        artifacts.remove(RunKey("dag", "run"))
    assert (outside / "task" / "attempt").exists()


def test_the_own_place_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    base = own_artifacts().base
    assert (base.parent, mode(base)) == (tmp_path, 0o700)
    assert own_artifacts().base == base
    base.rmdir()
    base.symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="say artifact_dir"):
        own_artifacts()


# From a step


def workflow(function: Any) -> tuple[Definition, dict[str, Any]]:
    step = Step(name="export", task="work:export", retry=RetryPolicy(max_attempts=2))
    return Definition(name="work", version="1", nodes=[step]), {"export": function}


def test_a_retry_meets_no_file_of_the_attempt_before(tmp_path: Path) -> None:
    seen: list[tuple[Path, list[str]]] = []

    def export(ctx: TaskContext) -> str:
        place = ctx.artifact_dir
        seen.append((place, sorted(path.name for path in place.iterdir())))
        (place / "part").write_text("half")
        if len(seen) == 1:
            raise OSError
        return str(ctx.artifact_dir)

    definition, tasks = workflow(export)
    result = run_inline(definition, tasks, run_id="Run 1", artifact_dir=tmp_path / "base")

    assert result.state is RunState.SUCCEEDED
    assert [names for _, names in seen] == [[], []]
    assert [place.name for place, _ in seen] == ["generation-1.attempt-1", "generation-1.attempt-2"]
    assert result.value == str(seen[1][0])
    assert all((tmp_path / "base") in place.parents for place, _ in seen)


def test_a_step_that_asks_for_none_makes_none(tmp_path: Path) -> None:
    definition, tasks = workflow(lambda ctx: ctx.name)
    assert run_inline(definition, tasks, artifact_dir=tmp_path / "base").value == "export"
    assert not (tmp_path / "base").exists()


def test_without_a_place_it_is_in_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    definition, tasks = workflow(lambda ctx: str(ctx.artifact_dir))
    found = run_inline(definition, tasks).value
    assert Path(found).is_dir()
    assert Path(found).parents[4] == tmp_path
