"""A stretch of network between a client and a Postgres server that loses one thing, once."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from enum import Enum

__all__ = ["LossyProxy", "Lost"]

_HOST = "127.0.0.1"
_SIZE = 1 << 16
_READY = b"Z\0\0\0\5"
"""How the message begins with which a server's answer ends; one byte follows."""


class Lost(str, Enum):
    """What gets lost, and the connection with it."""

    REQUEST = "request"
    ANSWER = "answer"

    def __str__(self) -> str:
        return self.value


class LossyProxy:
    """
    Passes everything on, until it is told what to lose.

    Nothing may be encrypted: it reads what the client asks.

    :param port: of the server on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.losses = 0
        self._marker: bytes | None = None
        self._what = Lost.REQUEST
        self._threads: list[threading.Thread] = []
        self._closing, self._closed = socket.socketpair()
        self._start(self._accept)

    def __enter__(self) -> LossyProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
        while self._threads:
            self._threads.pop().join()
        self._closed.close()
        self._listener.close()

    def lose(self, what: Lost, *, of: bytes) -> None:
        """Lose the next request that holds these bytes, or the answer to it."""
        self._what = what
        self._marker = of

    def _start(self, work: object, *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while self._ready(self._listener) == [self._listener]:
            client, _ = self._listener.accept()
            self._start(self._pass_on, client)

    def _ready(self, *sockets: socket.socket) -> list[socket.socket]:
        """Those that have something to say; none when it is over."""
        found, _, _ = select.select([*sockets, self._closed], [], [])
        return [] if self._closed in found else found

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection((_HOST, self._server)) as server, contextlib.suppress(OSError):
            while ready := self._ready(client, server):
                for source in ready:
                    said = source.recv(_SIZE)
                    if not said:
                        return
                    if source is server:
                        client.sendall(said)
                    elif self._is_it(said):
                        if self._what is Lost.ANSWER:
                            server.sendall(said)
                            self._swallow(server)
                        return
                    else:
                        server.sendall(said)

    def _is_it(self, said: bytes) -> bool:
        if self._marker is None or self._marker not in said:
            return False
        self._marker = None
        self.losses += 1
        return True

    def _swallow(self, server: socket.socket) -> None:
        answer = b""
        while _READY not in answer[-6:]:
            said = server.recv(_SIZE)
            if not said:
                return
            answer += said
