"""What every ``airflow`` command loads of Louver stays light and is well formed."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import airflow
import jsonschema
from airflow.cli.cli_config import ActionCommand, GroupCommand
from airflow.utils.db_manager import BaseDBManager

from louver_provider.buckets.settings import OPTIONS as BUCKET_OPTIONS
from louver_provider.cli.definition import get_louver_cli_commands
from louver_provider.events.settings import OPTIONS as EVENT_OPTIONS
from louver_provider.get_provider_info import get_provider_info
from louver_provider.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    environment = {"PYTHONPATH": f"{ROOT / 'include'}:{ROOT / 'plugins'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return set(done.stdout.split())


def test_the_provider_info_imports_nothing_of_airflow() -> None:
    loaded = modules_after("import louver_provider.get_provider_info")
    assert not {name for name in loaded if name.partition(".")[0] in ("airflow", "sqlalchemy")}


def test_the_cli_declarations_load_no_bodies_and_no_ledger() -> None:
    loaded = modules_after(
        "from airflow.cli import cli_config\nbefore = set(sys.modules)\n"
        "import louver_provider.cli.definition as d\nd.get_louver_cli_commands()\n"
        "sys.modules = {name: None for name in set(sys.modules) - before}"
    )
    others = {name for name in loaded if not name.endswith("definition")}
    assert others <= {"louver_provider", "louver_provider.cli"}


def test_the_provider_info_obeys_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_the_options_have_the_defaults_of_the_settings() -> None:
    options = get_provider_info()["config"]["louver"]["options"]
    apart = {**BUCKET_OPTIONS, **EVENT_OPTIONS}
    assert {name: options[name]["default"] for name in apart} == apart
    options = {name: option for name, option in options.items() if name not in apart}
    numbers = {name: option["default"] for name, option in options.items() if option["type"] != "string"}
    found = load_settings()
    assert {name: float(text) for name, text in numbers.items()} == {
        "resume_guard": found.resume_guard.total_seconds(),
        "xcom_inline_bytes": found.xcom_inline_bytes,
        "max_value_bytes": found.max_value_bytes,
        "reconcile_interval": found.reconcile_interval.total_seconds(),
        "resource_lease": found.permits.terms.lease.total_seconds(),
        "grant_ttl": found.permits.terms.grant_ttl.total_seconds(),
        "resource_interval": found.permits.look_every.total_seconds(),
        **{entry.name: getattr(found.control, entry.name).total_seconds() for entry in fields(found.control)},
    }
    assert options["reconciler"]["default"] == found.reconciler
    empty = {"retry_budgets", "resources", "resource_tags", "artifact_dir"}
    assert set(options) - set(numbers) == {"ledger_url", "signing_keys", "reconciler", *empty}
    assert {options[name]["default"] for name in empty} == {""}


def test_what_the_info_names_is_there() -> None:
    (name,) = get_provider_info()["db-managers"]
    module, _, attribute = name.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), attribute), BaseDBManager)


def test_the_distribution_has_the_name_that_the_info_says() -> None:
    assert get_provider_info()["package-name"] == "airflow-provider-louver"


def commands(group: GroupCommand) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for command in group.subcommands:
        if isinstance(command, ActionCommand):
            found[command.name] = command
        else:
            found |= {f"{command.name} {name}": inner for name, inner in commands(command).items()}
    return found


def test_every_command_has_a_help_worth_reading_and_a_body() -> None:
    (group,) = get_louver_cli_commands()
    assert isinstance(group, GroupCommand)
    found = commands(group)
    assert {"submit", "status", "verify", "gc", "clean", "workflow validate", "db upgrade"} <= set(found)
    for command in found.values():
        assert command.description
        assert "Exit codes" in command.epilog
        parser = argparse.ArgumentParser()
        for argument in command.args:
            argument.add_to_parser(parser)
        assert parser.format_help()
