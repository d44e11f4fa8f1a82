"""
The distribution as a user gets it: sdist and wheel are built from a copy of the sources, the wheel goes into
a clean environment with an Airflow from the package index, and all is asked from outside the checkout.

Takes a minute or two and needs the index, so it is a tier of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"

pytestmark = pytest.mark.packaging


def call(command, *, cwd, env=None, timeout=900):
    """Run ``command`` and return what it printed; its own words are in the failure."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def rows(text):
    """Return the rows of a ``--output json`` table; Airflow may log lines before it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("[") and not line.startswith("[20"):
            return json.loads("\n".join(lines[number:]))
    pytest.fail(f"no table in:\n{text}")


def outside(**more):
    """Return an environment in which nothing of the checkout shines through."""
    hidden = ("AIRFLOW_", "PYTHON", "VIRTUAL_ENV", "PIP_CONSTRAINT")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(hidden)}, **more}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The directory with the sdist and the wheel that was built from it."""
    source = tmp_path_factory.mktemp("source")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in (".build", "include", "plugins"):
        skip = shutil.ignore_patterns("*.egg-info", "node_modules", "lib", "bdist.*")
        shutil.copytree(ROOT / name, source / name, ignore=skip)
    dist = tmp_path_factory.mktemp("dist")
    call([sys.executable, "-m", "build", "--outdir", dist, source], cwd=dist, env=outside())
    return dist


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@dataclass(frozen=True)
class Clean:
    """An environment that knows the wheel and nothing of the checkout."""

    home: Path
    python: Path
    env: dict[str, str]

    def airflow(self, *arguments):
        return call([self.python, "-m", "airflow", *arguments], cwd=self.home, env=self.env, timeout=120)

    def run(self, code):
        return call([self.python, "-c", code], cwd=self.home, env=self.env, timeout=120)


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    home = tmp_path_factory.mktemp("clean")
    call([sys.executable, "-m", "venv", home / "venv"], cwd=home)
    python = home / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", CONSTRAINTS]
    call([*pip, wheel, "apache-airflow==3.3.2"], cwd=home, env=outside())
    # What a user's own repository brings: Dags and the functions they call. The core comes from the wheel.
    for name in ("dags", "include/shop"):
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    env = outside(
        AIRFLOW_HOME=str(home / "airflow"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(home / "dags"),
        PYTHONPATH=str(home / "include"),
    )
    return Clean(home=home, python=python, env=env)


def test_the_wheel_is_named_as_the_provider(wheel):
    assert wheel.name == "airflow_provider_louver-0.1.0-py3-none-any.whl"


def test_the_wheel_has_two_packages_and_nothing_else_at_its_top(contents):
    assert {name.partition("/")[0] for name in contents} == {
        "louver",
        "louver_provider",
        "airflow_provider_louver-0.1.0.dist-info",
    }


def test_the_wheel_has_every_file_of_the_sources(contents):
    sources = {
        str(path.relative_to(root))
        for root, package in ((ROOT / "include", "louver"), (ROOT / "plugins", "louver_provider"))
        for path in (root / package).rglob("*")
        if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts)
    }

    assert sources - contents == set()


def test_the_wheel_has_no_compiled_files(contents):
    assert [name for name in contents if name.endswith((".pyc", ".pyo"))] == []


def test_the_wheel_has_the_migrations_and_the_types(contents):
    assert "louver/py.typed" in contents
    assert "louver_provider/.airflowignore" in contents
    assert "louver/ledger/sql/migrations/env.py" in contents
    assert any(name.startswith("louver/ledger/sql/migrations/versions/0001") for name in contents)


def test_the_wheel_carries_its_licence(wheel):
    place = "airflow_provider_louver-0.1.0.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{place}/licenses/LICENSE").decode()
        metadata = archive.read(f"{place}/METADATA").decode()

    assert text == (ROOT / "LICENSE").read_text()
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


def test_the_sdist_has_no_stray_files(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}

    files = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    assert top <= {".build", "include", "plugins", *files}


def test_what_is_installed_fits_together(clean):
    said = call([clean.python, "-m", "pip", "check"], cwd=clean.home, env=clean.env)

    assert "No broken requirements" in said


def test_the_core_is_the_wheels_and_stays_light(clean):
    place = clean.run("import louver; print(louver.__file__)").strip()
    loaded = clean.run("import sys, louver.engine; print(*sys.modules)").split()

    assert Path(place).is_relative_to(clean.home / "venv")
    assert {"airflow", "sqlalchemy", "psycopg2", "pydantic"} & set(loaded) == set()


def test_airflow_lists_the_provider(clean):
    listed = rows(clean.airflow("providers", "list", "--output", "json"))

    mine = [row for row in listed if row["package_name"] == "airflow-provider-louver"]
    assert [row["version"] for row in mine] == ["0.1.0"]


def test_airflow_registers_the_plugin_once(clean):
    listed = rows(clean.airflow("plugins", "--output", "json"))

    assert [row["name"] for row in listed].count("louver") == 1


LOADED = """
import json, sys
from airflow import plugins_manager
from airflow.listeners.listener import get_listener_manager
folder = sys.argv[1]
names = [getattr(plugin, "__name__", "") for plugin in get_listener_manager().pm.get_plugins()]
loaded, trouble = plugins_manager._get_plugins()
import louver.builder
files = {name: module.__dict__.get("__file__") or "" for name, module in sys.modules.items()}
print(json.dumps({
    "plugins": [plugin.name for plugin in loaded if plugin.name == "louver"],
    "listeners": sorted(name for name in names if "task_states" in name or "components" in name),
    "trouble": list(trouble.values()),
    "bare": [name for name, file in files.items() if file.startswith(folder)],
}))
"""
"""What a process of Airflow has after it has loaded its plugins; then something of the core is imported."""


@pytest.mark.parametrize(
    ("what", "trouble", "bare"),
    [
        pytest.param(".", [], [], id="the whole package"),
        # It is the one that comes first; Airflow says that there is another one.
        pytest.param(
            "plugins/louver_plugin.py",
            ["Plugin 'louver' already registered, skipping"],
            ["louver_plugin"],
            id="the plugin's file",
        ),
    ],
)
def test_a_copy_in_the_plugins_folder_registers_nothing_twice(clean, tmp_path, what, trouble, bare):
    """Case K01."""
    package = Path(clean.run("import louver_provider; print(louver_provider.__path__[0])").strip())
    folder = tmp_path / "plugins"
    folder.mkdir()
    if what == ".":
        shutil.copytree(package, folder / package.name)
    else:
        shutil.copy(package / what, folder)
    both = replace(clean, env={**clean.env, "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder)})

    said = call([both.python, "-c", LOADED, folder], cwd=both.home, env=both.env, timeout=120)

    assert json.loads(said.splitlines()[-1]) == {
        "plugins": ["louver"],
        "listeners": ["louver_provider.listeners.components", "louver_provider.listeners.task_states"],
        "trouble": trouble,
        "bare": bare,
    }
    listed = rows(both.airflow("plugins", "--output", "json"))
    assert [row["name"] for row in listed].count("louver") == 1


def test_airflow_calls_the_cluster_policy_only_where_there_are_buckets(clean):
    # Without a module airflow_local_settings anywhere: the entry point alone has to make it live.
    code = (
        "import airflow\n"
        "from airflow import settings\n"
        "hook = settings.task_instance_mutation_hook\n"
        "calls = settings.get_policy_plugin_manager().hook.task_instance_mutation_hook.get_hookimpls()\n"
        "print(hook.is_noop, len(calls))"
    )
    with_buckets = replace(clean, env={**clean.env, "AIRFLOW__LOUVER__BUCKETS": "64"})

    assert with_buckets.run(code).split()[-2:] == ["False", "1"]
    assert clean.run(code).split()[-2:] == ["True", "0"]


def test_airflow_has_the_louver_commands(clean):
    words = clean.airflow("louver", "--help")

    for command in ("submit", "status", "history", "workflow"):
        assert command in words


def test_the_dags_import_with_the_wheel_alone(clean):
    clean.airflow("db", "migrate")

    errors = rows(clean.airflow("dags", "list-import-errors", "--local", "--output", "json"))
    listed = rows(clean.airflow("dags", "list", "--local", "--output", "json"))

    assert errors == []
    assert "order_workflow" in {row["dag_id"] for row in listed}
