"""
A wire to a Postgres server that breaks where it is told to: a request that never arrives, an answer lost.

It counts the queries of all its connections (PostgreSQL 15, 55.2.2 "Simple Query", which is what psycopg2
sends), not what is said before the first one.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from enum import Enum

__all__ = ["Break", "Wire"]

_HOST = "127.0.0.1"
_CHUNK = 65536
# 55.2.10 and 55.2.11: by TLS, by GSSAPI.
_ENCRYPTION_REQUESTS = (struct.pack("!I", 80877103), struct.pack("!I", 80877104))


class Break(str, Enum):
    """What gets lost."""

    REQUEST = "request"
    """The server never sees it."""

    ANSWER = "answer"
    """The server has done what was asked; nobody is told."""


class Wire:
    """
    Leads from :attr:`port` to the server at ``port``; a context manager.

    :param port: of the server, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = [self._listener]
        self._what: Break | None = None
        self._at: Callable[[int], bool] = lambda number: False
        self.queries = 0
        self.broken = 0

    def __enter__(self) -> Wire:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            _close(each)

    def break_at(self, what: Break | None, at: Callable[[int], bool] = lambda number: False) -> None:
        """
        Count anew, and break the connection of each query for which ``at`` is true.

        :param at: is given the query's number, from 1.
        """
        with self._lock:
            self._what, self._at = what, at
            self.queries = self.broken = 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((_HOST, self._server))
            except OSError:
                _close(client)
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [client, server]
            losing = threading.Event()
            for work in (self._requests, self._answers):
                threading.Thread(target=work, args=(client, server, losing), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            # What comes first has no letter before its length: whether to encrypt, then who wants in.
            while (message := _message(client, letter=False))[4:8] in _ENCRYPTION_REQUESTS:
                server.sendall(message)
            server.sendall(message)
            while message := _message(client, letter=True):
                what = self._judge(message)
                if what is Break.REQUEST:
                    break
                if what is Break.ANSWER:
                    losing.set()
                server.sendall(message)
        # The server sees it too, and gives up what it was not told to commit.
        if not losing.is_set():
            for each in (client, server):
                _close(each)

    @staticmethod
    def _answers(client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                if losing.is_set():
                    # It answers once it has done it.
                    break
                client.sendall(data)
        for each in (client, server):
            _close(each)

    def _judge(self, message: bytes) -> Break | None:
        if not message.startswith(b"Q"):
            return None
        with self._lock:
            self.queries += 1
            if self._what is None or not self._at(self.queries):
                return None
            self.broken += 1
            return self._what


def _message(source: socket.socket, *, letter: bool) -> bytes:
    """The next whole message; nothing where there is none."""
    head = _exactly(source, 5 if letter else 4)
    if not head:
        return b""
    (length,) = struct.unpack("!I", head[-4:])
    return head + _exactly(source, length - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
