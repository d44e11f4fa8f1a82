"""The house is as it is drawn: what is packaged is what is there, and the top level is fixed."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

import louver

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_setup_cfg_lists_exactly_the_packages_on_disk(setup_cfg):
    # A forgotten package would be missing from the wheel while every test of the checkout stays green.
    on_disk = {
        ".".join(path.parent.relative_to(root).parts)
        for root in (ROOT / "include", ROOT / "plugins")
        for path in root.rglob("__init__.py")
        if path.relative_to(root).parts[0] != "shop" and "node_modules" not in path.parts
    }

    listed = setup_cfg["options"]["packages"].split()

    assert sorted(listed) == sorted(on_disk)


def test_every_directory_of_modules_is_a_package():
    without = sorted(
        str(path.parent.relative_to(ROOT))
        for root in (ROOT / "include", ROOT / "plugins")
        for path in root.rglob("*.py")
        if not (path.parent / "__init__.py").exists() and not {"migrations", "node_modules"} & set(path.parts)
    )

    assert without == []


def test_the_version_is_written_once(setup_cfg):
    assert setup_cfg["metadata"]["version"] == "attr: louver.__version__"
    assert re.fullmatch(r"\d+\.\d+\.\d+", louver.__version__)


def test_the_core_ships_its_types():
    assert (ROOT / "include" / "louver" / "py.typed").exists()


def test_airflow_does_not_import_the_glue_by_file_name():
    # It would, from plugins/, by bare file names: a types.py of ours would replace the standard library's.
    ignored = (ROOT / "plugins" / ".airflowignore").read_text().split("\n")

    assert "louver_provider/" in ignored


def test_the_lock_pins_what_requirements_ask_for():
    lock = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    for name in ("requirements.txt", ".ci/requirements-dev.txt"):
        asked = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
        assert [line for line in asked if line and line not in lock] == []
