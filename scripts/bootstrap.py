"""
Make a private environment in the checkout once; a second call finds it ready in milliseconds.

Called by ``scripts/bootstrap``, which picks the interpreter. A stamp inside the environment carries a hash of
all that went in; a file lock makes two calls at once take turns.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
REQUIREMENTS = (ROOT / "requirements.txt", ROOT / ".ci" / "requirements-dev.txt")
#: A change here makes the environment anew; a change of what describes the distribution installs it again.
CORE_INPUTS = (CONSTRAINTS, Path(__file__).resolve())
FULL_INPUTS = (*REQUIREMENTS, *CORE_INPUTS)
PROJECT_INPUTS = (ROOT / "setup.cfg", ROOT / "pyproject.toml")
#: What the unit tier imports; the versions are those of the constraints.
CORE_PACKAGES = (
    "alembic",
    "hypothesis",
    "psycopg2-binary",
    "pytest",
    "rfc8785",
    "SQLAlchemy",
    "time-machine",
)
STAMP = "louver.stamp"
INSTALL_TIMEOUT = 1800


class BootstrapError(Exception):
    """The environment cannot be made; the message says what to do."""


def say(text: str) -> None:
    """Print progress where it does not disturb what a caller reads from standard output."""
    print(f"bootstrap: {text}", file=sys.stderr, flush=True)


def stamp_of(inputs: tuple[Path, ...]) -> str:
    """
    Return the hash over all that decides how the environment looks.

    The interpreter and the place of the checkout belong to it: an environment can be neither moved nor
    carried to another Python.
    """
    digest = hashlib.sha256()
    digest.update(f"{sys.version}\0{os.path.realpath(sys.executable)}\0{ROOT}\0".encode())
    for path in inputs:
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def clean_environment() -> dict[str, str]:
    """Return the environment for pip, without what would let another environment shine through."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX"}
    return {name: value for name, value in os.environ.items() if name not in hidden}


def call(command: list[str], *, doing: str) -> None:
    """Run ``command`` with a time limit; its output goes to standard error."""
    try:
        subprocess.run(
            command,
            check=True,
            timeout=INSTALL_TIMEOUT,
            stdout=sys.stderr,
            env=clean_environment(),
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        raise BootstrapError(f"{doing} took more than {INSTALL_TIMEOUT} s; is there a network?") from None
    except subprocess.CalledProcessError as error:
        raise BootstrapError(
            f"{doing} failed with exit code {error.returncode}; see its words above"
        ) from None


def make_venv(target: Path) -> None:
    """Make an empty environment at ``target``, in place of a broken or outdated one."""
    if not venv_module_works():
        # Debian ships python3 without ensurepip. As root the missing package is simply installed.
        if shutil.which("apt-get") and os.geteuid() == 0:
            call([str(ROOT / "scripts" / "system-packages")], doing="installing python3-venv")
        if not venv_module_works():
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            raise BootstrapError(
                f"{sys.executable} cannot make virtual environments (module ensurepip is missing). On Debian "
                f"and Ubuntu: apt-get install python3-venv (or python{version}-venv). "
                "Or name another Python: PYTHON=/path/to/python3.11 make ..."
            )
    if target.exists():
        shutil.rmtree(target)
    call([sys.executable, "-m", "venv", str(target)], doing=f"making {target.name}")


def venv_module_works() -> bool:
    """Tell whether this interpreter has both halves of ``python -m venv``; a child looks afresh."""
    return (
        subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0
    )


def install(python: Path, arguments: list[str]) -> None:
    """Let pip install into the environment of ``python``, within the lock."""
    pip = [
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "-c",
        str(CONSTRAINTS),
    ]
    call([*pip, *arguments], doing="pip install")


def bootstrap(kind: str) -> Path:
    """
    Return the Python of the environment ``kind``, made or renewed where needed.

    :param kind: ``full`` or ``core``.
    :raises BootstrapError: where it cannot be made.
    """
    core = kind == "core"
    target = ROOT / (".venv-core" if core else ".venv")
    python = target / "bin" / "python"
    stamp = target / STAMP
    wanted = [stamp_of(CORE_INPUTS), ""] if core else [stamp_of(FULL_INPUTS), stamp_of(PROJECT_INPUTS)]
    with (ROOT / f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another call is making {target.name}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        found = stamp.read_text().split("\n") if python.exists() and stamp.is_file() else ["", ""]
        if found == wanted:
            return python
        began = time.monotonic()
        if found[0] == wanted[0]:
            say(f"installing Louver into {target.name} again: setup.cfg or pyproject.toml changed")
            stamp.unlink()
            install(python, ["-e", str(ROOT)])
        else:
            what = "the unit tier, without Airflow" if core else "everything, with Airflow: some minutes"
            say(f"making {target.name} ({what})")
            make_venv(target)
            wish = [part for path in REQUIREMENTS for part in ("-r", str(path))]
            install(python, list(CORE_PACKAGES) if core else [*wish, "-e", str(ROOT)])
        stamp.write_text("\n".join(wanted))
        say(f"{target.name} is ready after {time.monotonic() - began:.0f} s")
    return python


def main(argv: list[str]) -> int:
    """Run from the command line."""
    kind = argv[0] if argv else "full"
    if kind not in ("core", "full") or len(argv) > 1:
        say(f"unknown environment {' '.join(argv)!r}; say full or core")
        return 2
    try:
        bootstrap(kind)
    except (BootstrapError, OSError) as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
