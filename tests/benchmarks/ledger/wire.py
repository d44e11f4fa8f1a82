"""
Counts what really goes round between a client and a Postgres server, whatever the driver is.

It stands between the two, passes everything on, and reads along: PostgreSQL 15, chapter 55, "Frontend/Backend
Protocol". A round trip ends when the server says that it is ready for the next query.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["Count", "Wire"]

_HOST = "127.0.0.1"
_CHUNK = 65536
# What a client may ask before it introduces itself: encryption by TLS or by GSSAPI. Both are declined.
_ENCRYPTION_REQUESTS = (80877103, 80877104)


@dataclass(slots=True, kw_only=True)
class Count:
    """
    What went round while it was counted.

    :param statements: as the server got them, in order; parameters that the driver had written into them are
        in them, others are not.
    """

    round_trips: int = 0
    statements: list[str] = field(default_factory=list)


class Wire:
    """
    Listens at :attr:`port` and leads to the server at ``port``; a context manager.

    :param port: of the server, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server((_HOST, 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._count: Count | None = None
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Wire:
        _in_background(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @contextlib.contextmanager
    def counting(self) -> Iterator[Count]:
        """Count what all connections send and get within the block; one block at a time."""
        self._count = Count()
        try:
            yield self._count
        finally:
            self._count = None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((_HOST, self._server))
            for each in (client, server):
                # Small messages must not wait for each other.
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            _in_background(self._forward, client, server, _Frontend(self._sent))
            _in_background(self._forward, server, client, _Backend(self._ready))

    def _forward(self, source: socket.socket, target: socket.socket, reader: _Reader) -> None:
        with contextlib.suppress(OSError):
            if isinstance(reader, _Frontend):
                target.sendall(_introduction(source))
            while data := source.recv(_CHUNK):
                # Read before it is passed on: once the client has its answer, the count is complete.
                reader.read(data)
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _sent(self, statement: str) -> None:
        count = self._count
        if count is not None:
            count.statements.append(statement)

    def _ready(self) -> None:
        count = self._count
        if count is not None:
            count.round_trips += 1


class _Reader:
    """Takes a stream apart into messages: a letter, the length, the content."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def read(self, data: bytes) -> None:
        """Tell the messages that are complete with this data."""
        self._unread += data
        while len(self._unread) >= 5:
            (length,) = struct.unpack_from("!I", self._unread, 1)
            if len(self._unread) < 1 + length:
                return
            self.message(bytes(self._unread[:1]), bytes(self._unread[5 : 1 + length]))
            del self._unread[: 1 + length]

    def message(self, kind: bytes, content: bytes) -> None:
        """One message."""
        raise NotImplementedError


class _Frontend(_Reader):
    """What the client sends: a simple query, or one that is parsed once and bound as often as it is run."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell
        self._parsed: dict[bytes, str] = {}

    def message(self, kind: bytes, content: bytes) -> None:
        if kind == b"Q":
            self._tell(content.rstrip(b"\0").decode())
        elif kind == b"P":
            name, text, _ = content.split(b"\0", 2)
            self._parsed[name] = text.decode()
        elif kind == b"B":
            _, name, _ = content.split(b"\0", 2)
            self._tell(self._parsed[name])


class _Backend(_Reader):
    """What the server sends."""

    def __init__(self, ready: Callable[[], None]) -> None:
        super().__init__()
        self._ready = ready

    def message(self, kind: bytes, content: bytes) -> None:
        if kind == b"Z":
            self._ready()


def _introduction(client: socket.socket) -> bytes:
    """The first message, which has no letter; questions for encryption before it are answered with no."""
    while True:
        head = _exactly(client, 8)
        length, code = struct.unpack("!II", head)
        if code not in _ENCRYPTION_REQUESTS:
            return head + _exactly(client, length - 8)
        client.sendall(b"N")


def _exactly(source: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = source.recv(length - len(data))
        if not more:
            raise OSError("the client has gone")
        data += more
    return data


def _in_background(target: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, name="bench-wire", daemon=True).start()
