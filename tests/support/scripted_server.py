"""A real HTTP server that answers what it is told, one answer after the other."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Reply", "Scripted", "scripted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """
    One answer.

    :param status: None to hang up without one.
    """

    status: int | None = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Scripted:
    """
    The server.

    :param seen: method, path, token and body of every request.
    """

    url: str
    replies: list[Reply]
    seen: list[tuple[str, str, str | None, Any]] = field(default_factory=list)


@contextmanager
def scripted(replies: Sequence[Reply]) -> Iterator[Scripted]:
    """It, while the block lasts; asked once more than it has answers, it answers 418."""
    found = Scripted("", list(replies))

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            token = self.headers.get("authorization")
            found.seen.append((self.command, self.path, token, json.loads(raw) if raw else None))
            reply = found.replies.pop(0) if found.replies else Reply(status=418)
            if reply.status is None:
                self.close_connection = True
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer  # noqa: N815 - http.server wants these names

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
