"""
Processes that are born ready: forked from one that has imported everything and opened nothing.

A test that has hundreds of processes die cannot wait each time until Python has started. What such a process
does is a function of a module, called with a :class:`Talk` to the test and what the test gives it.

However the test's own process ends, the nursery sees it, kills all that it brought up, and ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["Child", "ChildFailed", "ChildKilled", "Nursery", "Talk"]

_NUMBER = struct.Struct("!q")
_PATIENCE_SECONDS = 120.0


class ChildFailed(Exception):
    """What the child raised, as text."""


class ChildKilled(Exception):
    """
    The child ended without a last word.

    :param code: as of :mod:`subprocess`: negative for a signal.
    """

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"the process ended with code {code}")


class Talk:
    """The child's end of its talk with the test."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def say(self, what: Any) -> None:
        """Tell the test something."""
        self._connection.send(("said", what))

    def hear(self) -> Any:
        """Wait for what the test says."""
        return self._connection.recv()

    def is_told(self) -> bool:
        """Whether the test has said something that was not heard yet."""
        return self._connection.poll()


class Child:
    """A process of the nursery's, as the test holds it."""

    def __init__(self, talk: Connection, end: socket.socket, *, forget: Callable[[Child], None]) -> None:
        self._talk = talk
        self._end = end
        self._forget = forget
        self._code: int | None = None
        try:
            self.pid = self._number()
        except ChildFailed:
            self.close()
            raise

    def said(self) -> Any:
        """
        Wait for what the child says next.

        :raises ChildFailed: where it raised instead.
        :raises ChildKilled: where it ended instead.
        """
        kind, what = self._next()
        if kind != "said":
            raise ChildFailed(f"it was to say something, and {kind}: {what}")
        return what

    def has_said(self) -> bool:
        """Whether it has said something, or ended, that was not looked at yet."""
        return self._talk.poll()

    def say(self, what: Any) -> None:
        """Tell the child something."""
        self._talk.send(what)

    def result(self) -> Any:
        """
        Wait for its end, and return what its function returned.

        :raises ChildFailed: where it raised.
        :raises ChildKilled: where it was killed.
        """
        kind, what = self._next()
        if kind != "done":
            raise ChildFailed(f"it was to come to its end, and {kind}: {what}")
        self.code()
        return what

    def code(self) -> int:
        """Wait for its end, and return its exit code; negative for a signal."""
        if self._code is None:
            self._code = self._number()
            self.close()
        return self._code

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it lives."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self.code()

    def close(self) -> None:
        """Hear no more of it."""
        self._talk.close()
        self._end.close()
        self._forget(self)

    def _next(self) -> tuple[str, Any]:
        if not self._talk.poll(_PATIENCE_SECONDS):
            self.kill()
            raise ChildFailed("it said nothing for too long")
        try:
            kind, what = self._talk.recv()
        except (EOFError, ConnectionResetError):
            raise ChildKilled(self.code()) from None
        if kind == "raised":
            self.code()
            raise ChildFailed(what)
        return kind, what

    def _number(self) -> int:
        ready, _, _ = select.select([self._end], [], [], _PATIENCE_SECONDS)
        told = self._end.recv(_NUMBER.size) if ready else b""
        if not told:
            raise ChildFailed("the nursery is gone, or the process does not end")
        return int(_NUMBER.unpack(told)[0])


class Nursery:
    """
    Brings processes up; a context manager, which leaves none behind.

    :param modules: imported before the first one is born.

    It may be used by several threads, each with children of its own.
    """

    def __init__(self, *modules: str) -> None:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *(["-O"] if sys.flags.optimize else []),
                    *("-W", "error"),
                    *("-m", "support.nursery", str(its.fileno()), *modules),
                ],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                # Ctrl-C is for the test, which then ends this one.
                start_new_session=True,
            )
        self._control = mine
        self._children: set[Child] = set()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._process.wait(_PATIENCE_SECONDS)
        # Those that nobody has asked for their end, where a test failed.
        for child in tuple(self._children):
            child.close()

    def start(self, function: str, **given: Any) -> Child:
        """
        Bring up a process that calls a function.

        :param function: ``module:name``; called with a :class:`Talk` and what is given.
        """
        ours, theirs = socket.socketpair()
        end, its_end = socket.socketpair()
        with theirs, its_end:
            socket.send_fds(self._control, [function.encode()], [theirs.fileno(), its_end.fileno()])
        child = Child(Connection(ours.detach()), end, forget=self._children.discard)
        self._children.add(child)
        child.say(given)
        return child

    def call(self, function: str, **given: Any) -> Any:
        """
        What the function returned, called in a process of its own.

        :raises ChildFailed: where it raised.
        :raises ChildKilled: where the process was killed.
        """
        return self.start(function, **given).result()


class _Server:
    """The process that forks."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._ends: dict[int, socket.socket] = {}
        self._wake, self._woken = os.pipe()
        for each in (self._wake, self._woken):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Fork on demand, until the test's process is gone."""
        try:
            while True:
                ready, _, _ = select.select([self._control, self._wake], [], [])
                if self._wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                    self._reap()
                if self._control in ready and not self._next():
                    return
        finally:
            for child in self._ends:
                os.kill(child, signal.SIGKILL)
            self._reap(options=0)

    def _next(self) -> bool:
        order, handles, _, _ = socket.recv_fds(self._control, 4096, 2)
        if not order:
            return False
        talk, end = Connection(handles[0]), socket.socket(fileno=handles[1])
        child = os.fork()
        if child == 0:
            self._leave()
            _live(order.decode(), talk)
        talk.close()
        self._ends[child] = end
        end.send(_NUMBER.pack(child))
        return True

    def _leave(self) -> None:
        """Be a process of one's own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._control, *self._ends.values()):
            each.close()
        for handle in (self._wake, self._woken):
            os.close(handle)

    def _reap(self, *, options: int = os.WNOHANG) -> None:
        while self._ends:
            child, status = os.waitpid(-1, options)
            if child == 0:
                return
            with self._ends.pop(child) as end, contextlib.suppress(OSError):
                end.send(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _live(function: str, connection: Connection) -> None:
    """What a child does; it never returns."""
    code = 1
    try:
        given = connection.recv()
        module, _, name = function.partition(":")
        connection.send(("done", getattr(importlib.import_module(module), name)(Talk(connection), **given)))
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):
            connection.send(("raised", traceback.format_exc()))
    finally:
        os._exit(code)


def _main(argv: Sequence[str]) -> None:
    control, *modules = argv
    for module in modules:
        importlib.import_module(module)
    # What is there now is looked at by no child's collector, which would copy all of it.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(control)) as test:
        _Server(test).serve()


if __name__ == "__main__":
    _main(sys.argv[1:])
