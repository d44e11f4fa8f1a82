"""
Directories for the files of attempts: ``ctx.artifact_dir`` (row T8).

Every attempt has one of its own, at ``base/dag/run/task/generation-1.attempt-2``; a process that goes on with
an attempt after a park finds its files again. It is made when it is first asked for, for its owner alone.

What it does not do: keep files anywhere but under the base. Where that is a local disk, another machine finds
none of them.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from louver.errors import ConfigurationError
from louver.ledger.names import RunKey, Token

__all__ = ["Artifacts", "own_artifacts"]

# Neither "." nor ".." nor hidden, without a separator, and told apart also where case does not count. It has
# no "~", which every other name has.
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,79}", re.ASCII)
_AWKWARD = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_READABLE = 40
_MODE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """
    Where the files of attempts are.

    :param base: absolute; made where it is not there.
    :raises ConfigurationError: where it is not absolute: processes work in different directories.
    """

    base: Path

    def __post_init__(self) -> None:
        if not self.base.is_absolute():
            raise ConfigurationError(f"the directory for artifacts must be absolute, not {str(self.base)!r}")

    def of_run(self, key: RunKey) -> Path:
        """The directory that holds those of the run, whether or not it is there."""
        return self.base / _segment(key.dag_id) / _segment(key.run_id)

    def of_attempt(self, token: Token) -> Path:
        """The directory of the attempt that the token holds, whether or not it is there."""
        key = token.key
        parts = [f"generation-{token.generation}", f"attempt-{token.attempt}"]
        if token.incarnation > 1:
            parts.insert(0, f"incarnation-{token.incarnation}")
        if key.map_index >= 0:
            parts.insert(0, f"map-{key.map_index}")
        return self.of_run(key.run) / _segment(key.task_id) / ".".join(parts)

    def make(self, token: Token) -> Path:
        """
        The directory of the attempt, made where it is not there; nobody but its owner may look into it.

        :raises ConfigurationError: where it cannot be made, or something else is in its place.
        :raises OSError: where the disk is full, or otherwise in trouble: another attempt may help.
        """
        path = self.of_attempt(token)
        try:
            self.base.mkdir(mode=_MODE, parents=True, exist_ok=True)
            try:
                self._make_all(path)
            except FileNotFoundError:
                # The Dag's was empty, and somebody who cleaned has just removed it.
                self._make_all(path)
        except (PermissionError, FileExistsError, NotADirectoryError) as error:
            raise ConfigurationError(
                f"the directory {path} for artifacts cannot be made ({error.strerror}); the process needs "
                "one that it may write ([louver] artifact_dir)"
            ) from error
        return path

    def _make_all(self, path: Path) -> None:
        below = path.relative_to(self.base)
        for part in (*reversed(below.parents[:-1]), below):
            _make(self.base / part)

    def count(self, key: RunKey) -> int:
        """How many attempts of the run have a directory."""
        place = self.of_run(key)
        try:
            tasks = [entry.path for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)]
            return sum(entry.is_dir(follow_symlinks=False) for task in tasks for entry in os.scandir(task))
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def remove(self, key: RunKey) -> int:
        """
        Remove the directories of the run's attempts, and say how many there were.

        Links are removed, and never followed.

        :raises OSError: where something of it cannot be removed.
        """
        place, found = self.of_run(key), self.count(key)
        if place.is_symlink() or place.parent.is_symlink():
            raise NotADirectoryError(f"{place} is a link; it is left alone")
        try:
            shutil.rmtree(place)
        except FileNotFoundError:
            return 0
        # The Dag's, where this was its last run; somebody may be making another one at this moment.
        with suppress(OSError):
            place.parent.rmdir()
        return found


def own_artifacts() -> Artifacts:
    """
    Where artifacts are kept if nobody says where: in the temporary directory, in one of this user's alone.

    :raises ConfigurationError: where somebody else has made it.
    """
    base = Path(tempfile.gettempdir()).absolute() / f"louver-artifacts-{os.geteuid()}"
    try:
        _make(base)
    except OSError as error:
        raise ConfigurationError(
            f"{base} cannot be used for artifacts ({error.strerror}); say artifact_dir"
        ) from error
    return Artifacts(base=base)


def _make(path: Path) -> None:
    """Make one directory of this user's; a link in its place would lead out of the base."""
    try:
        path.mkdir(mode=_MODE)
        return
    except FileExistsError:
        found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "something else is in its place", str(path))
    if found.st_uid != os.geteuid():
        raise PermissionError(0, "it is another user's", str(path))
    if stat.S_IMODE(found.st_mode) != _MODE:
        path.chmod(_MODE)


def _segment(text: str) -> str:
    """
    The name of a directory for this id: itself where that is harmless, else readable with a hash of it.

    No two ids have the same one, of whatever length and characters they are.
    """
    if _PLAIN.fullmatch(text):
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{_AWKWARD.sub('_', text)[:_READABLE]}~{digest}"
