"""Events over HTTP, to a server that the test starts."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from support.sinks import an_event, receiver

from louver.errors import LouverError
from louver.events.cloud import CloudForm
from louver.events.http import CONTENT_TYPE, HttpSink
from louver.events.signature import sign_body

FORM = CloudForm("https://airflow.example.com")
SECRET = b"0123456789abcdef-zq7marker"


@pytest.fixture
def post() -> Iterator[Callable[..., HttpSink]]:
    """Make a sink, which is closed at the end."""
    with ExitStack() as made:

        def make(url: str, **given: Any) -> HttpSink:
            return made.enter_context(closing(HttpSink(url, FORM, **given)))

        yield make


class Pauses(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def test_an_event_is_posted_in_structured_mode_over_one_connection(post: Callable[..., HttpSink]) -> None:
    with receiver() as server:
        sink = post(f"{server.url}?tenant=1")
        sink.emit(an_event(1))
        sink.emit(an_event(2))

    first, second = server.posted
    assert (first.path, first.headers["content-type"]) == ("/events?tenant=1", CONTENT_TYPE)
    assert [posted.event.data["run_id"] for posted in (first, second)] == ["run-1", "run-2"]
    assert first.event.source == "https://airflow.example.com/dags/shop"
    assert "louver-signature" not in first.headers
    assert first.connection == second.connection


def test_the_signature_is_over_time_and_body(post: Callable[..., HttpSink]) -> None:
    with receiver() as server:
        post(server.url, secret=SECRET, unix=lambda: 1772366400.9).emit(an_event())
    (posted,) = server.posted
    wanted = hmac.new(SECRET, b"1772366400." + posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["louver-signature"] == f"t=1772366400,v1={wanted}"
    assert sign_body(SECRET, posted.body, unix=1772366400) == f"t=1772366400,v1={wanted}"
    assert sign_body(SECRET, posted.body, unix=1772366401) != f"t=1772366401,v1={wanted}"


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_receiver_that_may_answer_better_is_asked_again_with_the_same_event(
    status: int, post: Callable[..., HttpSink]
) -> None:
    pauses = Pauses()
    with receiver([status, status]) as server:
        post(server.url, sleep=pauses).emit(an_event())
    assert len({posted.body for posted in server.posted}) == 1
    assert len(server.posted) == 3
    assert len(pauses) == 2
    assert 0.1 <= pauses[0] <= 0.3
    assert 0.2 <= pauses[1] <= 0.6


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 413])
def test_an_answer_that_says_no_is_final(status: int, post: Callable[..., HttpSink]) -> None:
    with receiver() as elsewhere, receiver([status], location=elsewhere.url) as server:
        sink = post(server.url, sleep=Pauses())
        with pytest.raises(LouverError, match=f"^the receiver answered {status}$"):
            sink.emit(an_event(1))
        sink.emit(an_event(2))
    assert len(server.posted) == 2
    assert elsewhere.posted == []


def test_once_it_was_in_vain_the_next_are_tried_once_until_one_is_taken(
    post: Callable[..., HttpSink],
) -> None:
    with receiver([503] * 4 + [204, 503, 503]) as server:
        sink = post(server.url, sleep=Pauses())
        for number in (1, 2):
            with pytest.raises(LouverError, match="answered 503"):
                sink.emit(an_event(number))
        sink.emit(an_event(3))
        sink.emit(an_event(4))
    assert [event.data["run_id"] for event in server.events] == [
        *["run-1"] * 3,
        "run-2",
        "run-3",
        *["run-4"] * 3,
    ]


def test_nobody_at_the_address_is_said_without_the_address(post: Callable[..., HttpSink]) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sink = post(f"http://127.0.0.1:{port}/zq7marker", secret=SECRET, sleep=Pauses())
    with pytest.raises(LouverError, match="cannot be reached: ConnectionRefusedError") as caught:
        sink.emit(an_event())
    assert "zq7marker" not in str(caught.value)


def served(answer: Callable[[socket.socket], object]) -> tuple[str, threading.Thread]:
    """A server that is none: what it does with each connection is said by the test."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}/", thread


def test_a_kept_connection_that_was_closed_meanwhile_is_no_failure(post: Callable[..., HttpSink]) -> None:
    asked: list[bytes] = []
    closed = threading.Event()

    def once(connection: socket.socket) -> None:
        asked.append(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        connection.close()
        closed.set()

    url, thread = served(once)
    pauses = Pauses()
    sink = post(url, sleep=pauses)
    sink.emit(an_event(1))
    assert closed.wait(30)
    sink.emit(an_event(2))
    thread.join(30)
    assert len(asked) == 2
    assert pauses == []


def test_a_receiver_that_does_not_answer_is_given_up(post: Callable[..., HttpSink]) -> None:
    let_go = threading.Event()
    url, thread = served(lambda connection: let_go.wait(30))
    sink = post(url, timeout=0.05, sleep=Pauses())
    with pytest.raises(LouverError, match="cannot be reached: TimeoutError"):
        sink.emit(an_event())
    let_go.set()
    thread.join(30)


def test_words_that_are_no_http_are_said(post: Callable[..., HttpSink]) -> None:
    url, thread = served(lambda connection: connection.sendall(b"hello zq7marker\r\n\r\n"))
    sink = post(url, sleep=Pauses())
    with pytest.raises(LouverError, match="cannot be reached: ") as caught:
        sink.emit(an_event())
    assert "zq7marker" not in str(caught.value)
    thread.join(30)


def test_a_forked_child_talks_over_a_connection_of_its_own(post: Callable[..., HttpSink]) -> None:
    with receiver() as server:
        sink = post(server.url)
        sink.emit(an_event(1))
        child = os.fork()
        if child == 0:
            try:
                sink.emit(an_event(2))
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        sink.emit(an_event(3))
    connections = {posted.event.data["run_id"]: posted.connection for posted in server.posted}
    assert connections["run-1"] == connections["run-3"] != connections["run-2"]
