"""Events into a file, a line each."""

from __future__ import annotations

import os
from pathlib import Path

from louver.errors import ConfigurationError, LouverError
from louver.events.cloud import CloudForm
from louver.events.event import Event

__all__ = ["FileSink"]

_MODE = 0o640


class _NotWritten(LouverError):
    """The event could not be written to its file."""


class FileSink:
    """
    Appends CloudEvents to a file as JSON lines.

    Each event is one write at the end of the file, so several processes of one machine may share it. The file
    is opened anew for each, so it may be moved away at any time, and the next event makes a new one.

    :param path: absolute; its directory has to be there.
    """

    def __init__(self, path: Path, form: CloudForm) -> None:
        if not path.is_absolute():
            raise ConfigurationError(f"the file for events must be an absolute path, not {str(path)!r}")
        self._path = path
        self._form = form
        self._cut = False

    def emit(self, event: Event) -> None:
        """
        Append it.

        :raises LouverError: where it could not be written whole; there may be a part of a line then.
        """
        line = self._form.encoded(event) + b"\n"
        # What a full disk has cut off must not spoil the next line too.
        line = b"\n" + line if self._cut else line
        try:
            written = self._append(line)
        except OSError as error:
            raise _NotWritten(f"{self._path}: {error.strerror}") from error
        self._cut = written != len(line)
        if self._cut:
            raise _NotWritten(f"{self._path}: only a part of a line was written; the disk may be full")

    def _append(self, line: bytes) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, _MODE)
        try:
            return os.write(descriptor, line)
        finally:
            os.close(descriptor)
