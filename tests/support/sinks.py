"""Sinks of events that tests look into, and a receiver of events over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from louver.cloudevents import CloudEvent, parse_event
from louver.events import Event

__all__ = ["Broken", "Hanging", "Posted", "Receiver", "Seen", "an_event", "receiver"]


class Seen(list[Event]):
    """Keeps what it is told."""

    def emit(self, event: Event) -> None:
        self.append(event)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self]


class Broken:
    """Takes nothing."""

    def __init__(self) -> None:
        self.asked = 0

    def emit(self, event: Event) -> None:
        self.asked += 1
        raise OSError("secret-zq7marker")


class Hanging:
    """Takes an event, and then does not come back until it is let go."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.let_go = threading.Event()
        self.taken: list[Event] = []

    def emit(self, event: Event) -> None:
        self.inside.set()
        self.let_go.wait(60)
        self.taken.append(event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def event(self) -> CloudEvent:
        return parse_event(self.body)


@dataclass(slots=True)
class Receiver:
    """
    An HTTP server of this process.

    :param answers: status codes of the next answers; when they are used up, 204.
    """

    url: str = ""
    posted: list[Posted] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    @property
    def events(self) -> list[CloudEvent]:
        return [posted.event for posted in self.posted]


@contextmanager
def receiver(answers: Sequence[int] = (), *, location: str = "") -> Iterator[Receiver]:
    """
    A receiver, listening.

    :param location: of the redirects among its answers.
    """
    told = Receiver(answers=list(answers))
    connections: dict[int, object] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            connections.setdefault(id(self.connection), self.connection)
            told.posted.append(
                Posted(
                    path=self.path,
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=body,
                    connection=list(connections).index(id(self.connection)),
                )
            )
            status = told.answers.pop(0) if told.answers else 204
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", location)
            if status != 204:
                self.send_header("Content-Length", "2")
            self.end_headers()
            if status != 204:
                self.wfile.write(b"no")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}/events"
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def an_event(number: int = 1) -> Event:
    """An event, another one for each number."""
    from datetime import datetime, timedelta, timezone

    return Event(
        id=f"{number:032x}",
        type="task.running",
        subject=f"run-{number}/pay",
        time=datetime(2026, 3, 1, 12, tzinfo=timezone.utc) + timedelta(seconds=number),
        dag_id="shop",
        run_id=f"run-{number}",
        task_id="pay",
        map_index=-1,
        state="running",
    )
