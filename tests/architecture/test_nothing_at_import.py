"""Nothing happens at import: no setting is read, no file, socket, thread, process or engine is opened."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WATCHER = Path(__file__).with_name("import_watcher.py")


def modules_below(root: Path, package: str) -> list[str]:
    """
    Return the names of all modules of ``package``.

    Migrations are left out: Alembic runs them, they are scripts and no modules.
    """
    found = [package]
    for module in pkgutil.walk_packages([str(root / package)], prefix=f"{package}."):
        if ".migrations" not in module.name:
            found.append(module.name)
    return found


def work_at_import(*, watched: Path, paths: list[Path], modules: list[str], with_airflow: bool) -> list[str]:
    """Import ``modules`` in a process of their own and return what code below ``watched`` did meanwhile."""
    result = subprocess.run(
        [sys.executable, str(WATCHER), str(watched), str(int(with_airflow)), *modules],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_importing_the_core_does_no_work():
    include = ROOT / "include"
    modules = modules_below(include, "louver")
    assert len(modules) > 10

    found = work_at_import(watched=include / "louver", paths=[include], modules=modules, with_airflow=False)

    assert found == []


def test_importing_the_examples_does_no_work():
    include = ROOT / "include"

    found = work_at_import(
        watched=include / "shop", paths=[include], modules=modules_below(include, "shop"), with_airflow=False
    )

    assert found == []


def test_importing_the_glue_does_no_work():
    plugins = ROOT / "plugins"
    modules = modules_below(plugins, "louver_provider")
    assert len(modules) > 5

    found = work_at_import(
        watched=plugins / "louver_provider",
        paths=[ROOT / "include", plugins],
        modules=modules,
        with_airflow=True,
    )

    assert found == []


@pytest.mark.parametrize(
    ("spoiled", "event"),
    [
        ("import os\nhome = os.environ.get('HOME')", "environment HOME"),
        ("import os\nhome = os.getenv('HOME')", "environment HOME"),
        ("text = open(__file__).read()", "open"),
        ("from pathlib import Path\ntext = Path(__file__).read_text()", "open"),
        ("import sqlite3\nledger = sqlite3.connect(':memory:')", "sqlite3.connect"),
        ("import subprocess\nsubprocess.run(['true'])", "subprocess.Popen"),
        ("import threading\nthreading.Thread(target=int).start()", "thread started"),
        ("import socket\nsocket.socket()", "socket.__new__"),
        ("import sqlalchemy\nengine = sqlalchemy.create_engine('sqlite://')", "create_engine"),
        ("class Settings:\n    import os\n    home = os.environ['HOME']", "environment HOME"),
    ],
)
def test_the_watcher_sees_work_at_import(tmp_path, spoiled, event):
    (tmp_path / "spoiled.py").write_text(f"{spoiled}\n")

    found = work_at_import(watched=tmp_path, paths=[tmp_path], modules=["spoiled"], with_airflow=False)

    assert any(event in line and "spoiled.py" in line for line in found), found


def test_the_watcher_sees_a_setting_of_airflow_read_at_import(tmp_path):
    spoiled = "from airflow.configuration import conf\nfolder = conf.get('core', 'dags_folder')"
    (tmp_path / "spoiled.py").write_text(f"{spoiled}\n")

    found = work_at_import(watched=tmp_path, paths=[tmp_path], modules=["spoiled"], with_airflow=True)

    assert any("setting core.dags_folder" in line for line in found), found


def test_the_watcher_leaves_functions_alone_until_they_are_called(tmp_path):
    quiet = """
import json, logging, sqlite3
log = logging.getLogger(__name__)
def read():
    return open(__file__)
"""
    (tmp_path / "quiet.py").write_text(quiet)

    found = work_at_import(watched=tmp_path, paths=[tmp_path], modules=["quiet"], with_airflow=False)

    assert found == []
