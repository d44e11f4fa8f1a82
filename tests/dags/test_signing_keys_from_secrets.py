"""
Signing keys out of a secrets backend, as any sensitive option of Airflow (semantics section 5).

Each time in a process of its own that reads an ``airflow.cfg``: Airflow makes its backends once a process,
and knows by the installed provider alone that an option is sensitive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from louver.signing import SigningKeys
from louver_provider.settings import KEY_FILE

READ = """
import json
from louver.errors import ConfigurationError
from louver_provider.settings import load_signing_keys
try:
    keys = load_signing_keys()
except ConfigurationError as error:
    print(json.dumps({"refused": str(error)}))
else:
    print(json.dumps({key_id: keys.mac(key_id, b"signed") for key_id in keys.secrets}))
"""

NEW, OLD = f"k2:{'5ec7e7' * 8}", f"k1:{'01de70' * 8}"


class Vault:
    """
    A file out of which Airflow's own backend for files gives options.

    :param place: for it, and for the home of the process that asks.
    """

    def __init__(self, place: Path) -> None:
        self._file = place / "vault.json"
        self.home = place / "home"
        self.home.mkdir()

    def keep(self, **secrets: str) -> None:
        """What is in there."""
        self._file.write_text(json.dumps(secrets))

    def read(self, *options: str) -> dict[str, Any]:
        """What an Airflow process with these options of ``[louver]`` makes of the keys."""
        lines = [
            "[secrets]",
            "backend = airflow.secrets.local_filesystem.LocalFilesystemBackend",
            f"backend_kwargs = {json.dumps({'configs_file_path': str(self._file)})}",
            "[louver]",
            *options,
        ]
        (self.home / "airflow.cfg").write_text("\n".join(lines) + "\n")
        env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
        done = subprocess.run(
            [sys.executable, "-c", READ],
            env={**env, "AIRFLOW_HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        for secret in (NEW, OLD):
            assert secret.partition(":")[2] not in done.stdout + done.stderr
        return said


def signatures(text: str) -> dict[str, str]:
    """What these keys sign."""
    keys = SigningKeys.parse(text)
    return {key_id: keys.mac(key_id, b"signed") for key_id in keys.secrets}


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path)


def test_the_keys_are_those_of_the_backend_and_rotate_there(vault: Vault) -> None:
    vault.keep(louver_keys=OLD)
    assert vault.read("signing_keys_secret = louver_keys") == signatures(OLD)

    vault.keep(louver_keys=f"{NEW},{OLD}")
    found = vault.read("signing_keys_secret = louver_keys")
    assert (list(found), found) == (["k2", "k1"], signatures(f"{NEW},{OLD}"))
    assert not (vault.home / KEY_FILE).exists()


def test_the_keys_may_come_from_a_command(vault: Vault) -> None:
    vault.keep()
    assert vault.read(f"signing_keys_cmd = echo {OLD}") == signatures(OLD)


@pytest.mark.parametrize("option", ["signing_keys_secret = louver_keys", "signing_keys_cmd = true"])
def test_where_nothing_comes_of_it_no_key_is_made_in_its_place(vault: Vault, option: str) -> None:
    """What a key of its own had signed nobody else could read, nor it itself once the others are back."""
    vault.keep(another="x")
    refused = vault.read(option)["refused"]
    assert refused.startswith(f"[louver] {option.partition(' ')[0]} gives no signing keys")
    assert not (vault.home / KEY_FILE).exists()
