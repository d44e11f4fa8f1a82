"""Events over HTTP: a POST each, in CloudEvents' structured mode."""

from __future__ import annotations

import http.client
import os
import random
import ssl
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from louver.errors import ConfigurationError, LouverError
from louver.events.cloud import CloudForm
from louver.events.event import Event
from louver.events.signature import SIGNATURE_HEADER, sign_body

__all__ = ["CONTENT_TYPE", "HttpSink"]

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"

_TRIES = 3
_FIRST_WAIT = 0.2
_MIN_SECRET = 16


class _NotTaken(LouverError):
    """The receiver did not take the event."""

    def __init__(self, message: str, *, again: bool) -> None:
        self.again = again
        super().__init__(message)


class HttpSink:
    """
    Posts CloudEvents to a URL, over one connection that is kept.

    A receiver that does not answer, or answers 408, 429 or 5xx, is asked again, at most three times for an
    event; once that was in vain, each next event is tried once, until one is taken. So an event may arrive
    twice: by its id the receiver knows it. A redirect is no answer.

    It is used by one thread at a time.

    :param url: ``https://host/path`` or ``http://``; without a user.
    :param secret: signs each body (:func:`~louver.events.signature.sign_body`), 16 bytes or more; None signs
        nothing.
    :param timeout: seconds for each step of an exchange.
    :raises ConfigurationError: for a URL or secret that cannot be used; the URL is not shown.
    """

    def __init__(
        self,
        url: str,
        form: CloudForm,
        *,
        secret: bytes | None = None,
        timeout: float = 2.0,
        sleep: Callable[[float], object] = time.sleep,
        unix: Callable[[], float] = time.time,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigurationError("a URL for events cannot be read") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
            raise ConfigurationError("a URL for events begins with https:// or http:// and names a host")
        if parts.username is not None or parts.password is not None:
            raise ConfigurationError(
                "a URL for events has no user and no password; sign the events with a secret instead"
            )
        if not url.isascii() or any(character <= " " for character in url):
            raise ConfigurationError("a URL for events is ASCII without blanks; write others as %XX")
        if secret is not None and len(secret) < _MIN_SECRET:
            raise ConfigurationError("the secret that signs events must be 16 bytes or more")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._form = form
        self._secret = secret
        self._timeout = timeout
        self._sleep = sleep
        self._unix = unix
        self._connection: http.client.HTTPConnection | None = None
        self._pid = os.getpid()
        self._discouraged = False

    def emit(self, event: Event) -> None:
        """
        Post it.

        :raises LouverError: where it was not taken.
        """
        body = self._form.encoded(event)
        if self._pid != os.getpid():
            # The parent talks over that one.
            self.close()
            self._pid = os.getpid()
        tries = 1 if self._discouraged else _TRIES
        for number in range(tries):
            try:
                self._post(body)
            except _NotTaken as error:
                last = number == tries - 1
                self._discouraged = error.again
                if last or not error.again:
                    raise
                self._sleep(_FIRST_WAIT * 2**number * random.uniform(0.5, 1.5))
            else:
                self._discouraged = False
                return

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": CONTENT_TYPE, "User-Agent": "louver"}
        if self._secret is not None:
            headers[SIGNATURE_HEADER] = sign_body(self._secret, body, unix=int(self._unix()))
        kept = self._connection is not None
        try:
            status = self._exchange(body, headers)
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            # A kept connection may have been closed by the other side since; that is no failure of its.
            self.close()
            if not kept:
                raise _NotTaken(
                    f"the receiver cannot be reached: {type(error).__name__}", again=True
                ) from error
            try:
                status = self._exchange(body, headers)
            except (OSError, http.client.HTTPException) as second:
                self.close()
                raise _NotTaken(
                    f"the receiver cannot be reached: {type(second).__name__}", again=True
                ) from second
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _NotTaken(f"the receiver cannot be reached: {type(error).__name__}", again=True) from error
        if not 200 <= status < 300:
            raise _NotTaken(f"the receiver answered {status}", again=status in (408, 429) or status >= 500)

    def _exchange(self, body: bytes, headers: dict[str, str]) -> int:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        connection.request("POST", self._target, body=body, headers=headers)
        with connection.getresponse() as response:
            # An answer is not for reading, but for as much as a kept connection needs.
            response.read(65536)
            whole = response.isclosed()
            status = response.status
        if not whole:
            self.close()
        return status

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def close(self) -> None:
        """Close the connection; the next event makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
