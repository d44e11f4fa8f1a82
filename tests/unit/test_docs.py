"""What README and docs say is so: every example is read or run, every name is looked up in the code."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import re
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.pages import BANK, PAGES, ROOT, blocks

from louver import approvals, canonical, context, effects, policies
from louver.clock import FixedClock
from louver.cloudevents import MAX_EVENT_BYTES, OrderProfile, parse_event
from louver.cloudevents.structured import MAX_NESTING, MAX_NUMBER_DIGITS
from louver.definition import Definition
from louver.events import EVENT_TYPES
from louver.ledger.names import EffectState, OnUnknown
from louver.states import TRANSITIONS, FailureKind, Precision, RunState, Source, TaskState
from louver.supervision import ControlSettings
from louver_provider.events.metrics import METRICS
from louver_provider.events.spans import ATTRIBUTES, SPANS
from louver_provider.get_provider_info import get_provider_info

GLUE = ROOT / "plugins" / "louver_provider"

CONTROL = ControlSettings()


def every(language: str) -> list[Any]:
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, text in enumerate(blocks(page, language))
    ]


def page(name: str) -> str:
    return (ROOT / name).read_text()


def rows(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table from the heading on, which may be its head; without head and rule."""
    assert f"{heading}\n" in text, heading
    below = text[text.index(f"{heading}\n") :]
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table is not None, heading
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:]]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_pages_are_there() -> None:
    names = (
        "definitions",
        "context",
        "effects",
        "approvals",
        "events",
        "states",
        "operations",
        "architecture",
    )
    assert {f"{name}.md" for name in names} <= {path.name for path in PAGES}


# Examples


@pytest.mark.parametrize("text", every("json"))
def test_json_examples_are_what_the_reader_takes(text: str) -> None:
    document = json.loads(text)
    if "louver" in document:
        assert Definition.from_json(text).fingerprint
    elif document["source"].endswith("/dags/order_workflow"):
        told = parse_event(text.encode())
        assert told.type.removeprefix("com.louver.").removesuffix(".v1") in EVENT_TYPES
    else:
        assert OrderProfile.check(parse_event(text.encode()))


def test_the_event_in_the_docs_is_the_shipped_example() -> None:
    (event,) = blocks(ROOT / "docs" / "events.md", "json")
    assert json.loads(event) == json.loads(page("dags/examples/order_event.json"))


def test_the_python_definition_is_the_json_one() -> None:
    definitions = ROOT / "docs" / "definitions.md"
    (as_json,), (as_python,) = blocks(definitions, "json"), blocks(definitions, "python")
    names: dict[str, Any] = {}
    exec(compile(as_python, "definitions.md", "exec"), names)

    assert names["definition"] == Definition.from_json(as_json)
    assert names["definition"].fingerprint == Definition.from_json(as_json).fingerprint


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's files in it, from which its test can be run."""
    readme = ROOT / "README.md"
    *_, step, _, run = blocks(readme, "python")
    files = {
        "bank.py": BANK,
        "billing.py": step,
        "billing.json": blocks(readme, "json")[0],
        "run.py": run,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    # Retries wait by the clock, so nobody waits here.
    start = datetime(2026, 3, 1, tzinfo=timezone.utc)
    monkeypatch.setattr("louver.engine.inline.SystemClock", lambda: FixedClock(start))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("bank", "billing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def billing(workplace: Path) -> tuple[dict[str, Any], str, ModuleType]:
    """Run the README's test; its names, what it printed, and the bank."""
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile((workplace / "run.py").read_text(), "README.md", "exec"), names)
    return names, printed.getvalue(), importlib.import_module("bank")


def test_the_readme_example_runs(workplace: Path) -> None:
    names, printed, bank = billing(workplace)

    assert printed == "succeeded {'shipped_for': 'ch-1'}\n"
    assert names["result"].state is RunState.SUCCEEDED
    assert bank.done == {"charge:order-7#1": {"id": "ch-1"}}


@pytest.mark.parametrize("trouble", ["decline", "lose"])
def test_the_readme_example_outlives_a_bad_day(workplace: Path, trouble: str) -> None:
    bank = importlib.import_module("bank")
    bank.plan.append(trouble)

    names, _, _ = billing(workplace)

    assert names["result"].state is RunState.SUCCEEDED
    assert list(bank.done) == ["charge:order-7#1"]


def test_the_readme_example_undoes_once(workplace: Path) -> None:
    step = workplace / "billing.py"
    step.write_text(step.read_text().replace('return {"shipped_for"', 'raise OSError; return {"shipped_for"'))

    names, _, bank = billing(workplace)

    assert names["result"].state is RunState.FAILED_COMPENSATED
    assert bank.refunds == [("undo:charge:order-7#1", "ch-1")]


def test_the_embedded_approval_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = blocks(ROOT / "docs" / "approvals.md", "python")
    exec(compile(text, "approvals.md", "exec"), {})
    assert capsys.readouterr().out.startswith("waiting_approval succeeded {'paid_under': 'run-1::pay::")


@pytest.mark.parametrize("text", every("python"))
def test_python_examples_import_what_exists(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("louver"):
            for alias in node.names:
                assert exists(f"{node.module}.{alias.name}"), f"{node.module}.{alias.name}"


# Names


def exists(dotted: str) -> bool:
    """Whether the name is there; the glue is read and not imported, since Airflow may not be installed."""
    if dotted.startswith("louver_provider."):
        *parts, name = dotted.split(".")[1:]
        places = [GLUE.joinpath(*parts).with_suffix(".py"), GLUE.joinpath(*parts, f"{name}.py")]
        if places[1].exists():
            return True
        package = GLUE.joinpath(*parts, name, "__init__.py")
        if package.exists():
            return True
        if not places[0].exists():
            places[0] = GLUE.joinpath(*parts, "__init__.py")
        if not parts or not places[0].exists():
            return False
        top = ast.parse(places[0].read_text()).body
        given = {alias.name for node in top if isinstance(node, ast.ImportFrom) for alias in node.names}
        return name in {getattr(node, "name", None) for node in top} | given
    module, _, names = dotted, "", []
    while module:
        try:
            found: Any = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
    for name in names:
        found = getattr(found, name, None)
    return found is not None


def test_dotted_names_exist() -> None:
    missing = {
        (path.name, name)
        for path in PAGES
        for name in re.findall(r"(?<![.\w])(louver(?:_provider)?(?:\.[A-Za-z_]\w*)+)\b", path.read_text())
        # That one is a file; these are names of telemetry.
        if name not in {"louver.db", *METRICS, *SPANS, *ATTRIBUTES} and not exists(name)
    }
    assert missing == set()


def commands() -> set[str]:
    """``submit``, ``workflow validate``, ... as declared, in whatever file."""
    trees = [ast.parse(path.read_text()) for path in sorted((GLUE / "cli").glob("*definition.py"))]

    def name_of(call: ast.Call) -> str:
        return next(str(ast.literal_eval(word.value)) for word in call.keywords if word.arg == "name")

    def inside(nodes: Iterable[ast.AST], kind: str) -> list[ast.Call]:
        return [
            found
            for node in nodes
            for found in ast.walk(node)
            if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == kind
        ]

    groups = [group for group in inside(trees, "GroupCommand") if name_of(group) != "louver"]
    grouped = {call: name_of(group) for group in groups for call in inside([group], "ActionCommand")}
    return {
        " ".join(filter(None, [grouped.get(call), name_of(call)])) for call in inside(trees, "ActionCommand")
    }


def test_commands_exist_and_are_in_the_readme() -> None:
    known = commands()
    assert {"workflow validate", "effects list", "pause"} <= known
    groups = "|".join(sorted({name.split()[0] for name in known if " " in name}))
    named = {
        (path.name, " ".join(found.split()))
        for path in PAGES
        for found in re.findall(rf"airflow louver\s+((?:{groups})\s+\w+|[a-z]+)", path.read_text())
    }
    assert {name for _, name in named} - known == set()
    assert known - {name for where, name in named if where == "README.md"} == set()


def test_options_are_those_of_the_provider() -> None:
    options = get_provider_info()["config"]["louver"]["options"]
    table = {
        words(row[0])[0]: row[1]
        for row in rows(page("README.md"), "| option in `[louver]` | default | meaning |")
    }
    assert set(table) == set(options)
    for name in ("resume_guard", "xcom_inline_bytes"):
        assert words(table[name]) == [options[name]["default"]]
    named = {
        name.lower()
        for path in PAGES
        for name in re.findall(r"\[louver\] (\w+)|AIRFLOW__LOUVER__(\w+)", path.read_text())
        for name in name
        if name
    }
    assert named <= set(options)


def test_links_lead_somewhere() -> None:
    dead = []
    for path in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            if target.startswith("http"):
                continue
            name, _, anchor = target.partition("#")
            found = (path.parent / name).resolve() if name else path
            if not found.exists() or (anchor and anchor not in anchors(found)):
                dead.append((path.name, target))
    assert dead == []


def anchors(path: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


def test_files_named_in_the_architecture_exist() -> None:
    text = page("docs/architecture.md")
    for heading, base in (
        ("| in `include/louver/` | holds |", ROOT / "include" / "louver"),
        ("| in `plugins/louver_provider/` | holds |", GLUE),
    ):
        named = [name for row in rows(text, heading) for name in words(row[0])]
        # `sql/` stands for `ledger/sql/`, and so on.
        missing = [
            name for name in named if not any((place / name).exists() for place in (base, base / "ledger"))
        ]
        assert named
        assert missing == []


# States


def test_every_task_state_has_a_row_for_airflows() -> None:
    told = {
        name for row in rows(page("docs/states.md"), "## Airflow's task states") for name in words(row[0])
    }
    assert told == {str(state) for state in TaskState}


def test_all_that_ctx_offers_has_its_page() -> None:
    offered = {name for name in dir(context.TaskContext) if not name.startswith("_")}
    # Attributes of the instance, and what the log has beside being called.
    offered |= {"upstream", "log", "log.info", "log.warning", "log.error"}
    text = page("docs/context.md")
    assert set(re.findall(r"`ctx\.((?:log\.)?\w+)", text)) == offered


def test_every_transition_and_trigger_is_in_the_docs() -> None:
    told: dict[tuple[TaskState, TaskState], set[str]] = {}
    for origin, target, triggers in rows(page("docs/states.md"), "## Transitions"):
        origins = list(TaskState) if origin == "any" else [TaskState(words(origin)[0])]
        for state in origins:
            told.setdefault((state, TaskState(words(target)[0])), set()).update(words(triggers))
    assert told == {edge: set(triggers) for edge, triggers in TRANSITIONS.items()}


def test_states_of_tasks_and_runs_are_all_told_and_over_where_they_are() -> None:
    text = page("docs/states.md")
    for heading, kind in (("## Task states", TaskState), ("## Run states", RunState)):
        told = {words(row[0])[0]: row[1] for row in rows(text, heading)}
        assert told == {str(state): "yes" if state.terminal else "no" for state in kind}
    success = {words(row[0])[0] for row in rows(text, "## Run states") if row[2] == "success"}
    assert success == {str(state) for state in RunState if state.success}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("docs/states.md", FailureKind),
        ("docs/states.md", Source),
        ("docs/states.md", Precision),
        ("docs/effects.md", EffectState),
        ("docs/effects.md", OnUnknown),
    ],
)
def test_every_member_is_named(name: str, kind: Any) -> None:
    told = set(words(page(name)))
    assert {str(member) for member in kind} - told == set()


def test_everything_that_may_become_of_a_command_is_told() -> None:
    tree = ast.parse((GLUE / "task_control.py").read_text())
    (became,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Became"]
    values = {ast.literal_eval(line.value) for line in became.body if isinstance(line, ast.Assign)}
    assert {words(row[0])[0] for row in rows(page("docs/control.md"), "| `became` | |")} == values


# Numbers


@pytest.mark.parametrize(
    ("name", "words_there"),
    [
        ("README.md", f"lease ({effects.LEASE.total_seconds():.0f} s)"),
        ("README.md", f"quiet time ({effects.QUIESCE.total_seconds():.0f} s)"),
        ("docs/effects.md", f"lease ({effects.LEASE.total_seconds():.0f} s, renewed"),
        ("docs/effects.md", f"up to {(effects.LEASE + effects.QUIESCE).total_seconds():.0f} s, then"),
        ("docs/effects.md", f"At most {context._MAX_KEY} bytes"),
        (
            "docs/effects.md",
            f"tried up to {['', '', '', 'three'][policies.UNDO_RETRY.max_attempts]} times",
        ),
        ("docs/definitions.md", f"at most {canonical.MAX_DEPTH} levels deep"),
        ("docs/definitions.md", f"survives {['', '', 'two'][policies.INFRASTRUCTURE_BUDGET]} of them"),
        ("docs/approvals.md", "`{}`, `{}` or `{}`".format(*approvals.OPTIONS)),
        ("docs/control.md", f"every `control_interval` ({CONTROL.control_interval.total_seconds():.0f} s)"),
        ("docs/control.md", f"within `pause_window` ({CONTROL.pause_window.total_seconds():.0f} s)"),
        ("docs/control.md", f"within `stop_grace` ({CONTROL.stop_grace.total_seconds():.0f} s)"),
        ("docs/events.md", f"more than {MAX_EVENT_BYTES // 1024} KiB"),
        ("docs/events.md", f"more than {MAX_NESTING} deep"),
        ("docs/events.md", f"more than {MAX_NUMBER_DIGITS} characters"),
        ("docs/events.md", f"at most {OrderProfile.max_identity} characters"),
        ("docs/events.md", f"1 to {OrderProfile.max_items} of exactly"),
        ("docs/events.md", f"a whole number, 1 to {OrderProfile.max_quantity}"),
    ],
)
def test_numbers_are_those_of_the_code(name: str, words_there: str) -> None:
    assert words_there in " ".join(page(name).split())
