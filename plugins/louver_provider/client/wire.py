"""
Requests to Airflow's API server: logged in, tried again where that cannot do anything twice, and every
answer that is no success turned into an error that says what, where, and what to do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from louver.clock import Clock, SystemClock
from louver.errors import ConfigurationError
from louver_provider.client.errors import (
    ClientError,
    Forbidden,
    NotFound,
    Refused,
    ServerError,
    Unauthenticated,
    Unreachable,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["Wire", "reading"]

_FIRST_WAIT, _MOST_WAIT = 0.25, 4.0
_BUSY = (429, 503)
_FAILED = (500, 502, 504)


@contextmanager
def reading(about: str) -> Iterator[None]:
    """
    An answer is read in the block.

    :raises ServerError: where it is not what this client reads.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError(
            f"{about}: the answer is not what this client reads ({type(error).__name__}); the server may "
            "have another version of Louver, or this is not its URL",
            status=200,
        ) from None


class Wire:
    """
    The way to one API server.

    :param url: of Airflow's web server, with the path below which it is served, if any.
    :param token: a token, or what gives one; that is asked again when a token has expired.
    :param username: with ``password``, instead of a token: logs in at ``POST /auth/token``.
    :param timeout: seconds for one answer.
    :param patience: seconds in which a request is tried again where the server is away or busy.
    :param verify: as httpx takes it: False, or an ``ssl.SSLContext``, for a certificate of one's own.
    :param transport: of httpx; for tests, and for what httpx cannot do by itself.
    :raises ConfigurationError: where this is no URL, or no login.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str] | None = None,
        username: str | None = None,
        password: str | None = None,
        timeout: float = 30.0,
        patience: float = 30.0,
        verify: Any = True,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        # Loaded here: it takes longer than all the rest of this package.
        import httpx

        self.url = _checked(url)
        if (token is None) == (username is None) or (username is None) != (password is None):
            raise ConfigurationError(f"the login at {self.url}: give a token, or username and password")
        self._token = token if isinstance(token, str) else None
        self._renew: Callable[[], str] | None = token if callable(token) else None
        if username is not None:
            login = {"username": username, "password": password}
            self._renew = lambda: self._log_in(login)
        self._patience = timedelta(seconds=patience)
        self._clock = clock or SystemClock()
        # Redirects are not followed: the token would go along.
        self._http = httpx.Client(timeout=timeout, verify=verify, transport=transport, follow_redirects=False)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        params: Mapping[str, Any] | None = None,
        repeatable: bool,
        about: str,
    ) -> Any:
        """
        The JSON of the answer.

        :param path: below the URL.
        :param body: sent as JSON; or ``content``, as it is.
        :param repeatable: whether doing it twice is doing it once. What is not is tried again only where the
            server surely has not begun with it.
        :param about: what is asked for, for errors.
        :raises ClientError: see :mod:`louver_provider.client.errors`.
        """
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = content_type
        send = {"json": body, "content": content, "params": params, "headers": headers}
        return self._patiently(method, path, send, repeatable=repeatable, about=about, login=True)

    def _patiently(
        self, method: str, path: str, send: dict[str, Any], *, repeatable: bool, about: str, login: bool
    ) -> Any:
        import httpx

        until, wait, renewed = self._clock.now() + self._patience, _FIRST_WAIT, False
        while True:
            response: httpx.Response | None = None
            try:
                response = self._send(method, path, send, login=login)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                failed: ClientError = Unreachable(f"{about}: {self.url} does not answer: {_words(error)}")
                again = True
            except httpx.RequestError as error:
                failed = Unreachable(
                    f"{about}: {self.url} broke off ({type(error).__name__}); it may have been done"
                )
                again = repeatable
            else:
                if response.is_success:
                    return _json(response, about)
                if response.status_code == 401 and login and self._renew is not None and not renewed:
                    self._token, renewed = None, True
                    continue
                failed = _error(response, about, login=login)
                again = _worth_trying(response, repeatable=repeatable)
            left = (until - self._clock.now()).total_seconds()
            pause = _asked_wait(response)
            if pause is None:
                pause, wait = wait * random.uniform(0.75, 1.25), min(wait * 2, _MOST_WAIT)
            if not again or pause > left:
                raise failed
            self._clock.sleep(timedelta(seconds=pause))

    def _send(self, method: str, path: str, send: dict[str, Any], *, login: bool) -> httpx.Response:
        headers = dict(send.get("headers") or {})
        if login:
            if self._token is None and self._renew is not None:
                self._token = self._renew()
            headers["Authorization"] = f"Bearer {self._token}"
        return self._http.request(method, self.url + path, **{**send, "headers": headers})

    def _log_in(self, login: Mapping[str, Any]) -> str:
        about = f"the login of {login['username']!r}"
        answer = self._patiently(
            "POST", "/auth/token", {"json": dict(login)}, repeatable=True, about=about, login=False
        )
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise ServerError(f"{about}: {self.url}/auth/token gave no token", status=200)
        return token


def _checked(url: str) -> str:
    import httpx

    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parts = httpx.URL("")
    if parts.scheme not in ("http", "https") or not parts.host:
        # What it holds may be a secret that came into the wrong place.
        raise ConfigurationError("the URL of Airflow must be like http://localhost:8080")
    if parts.userinfo:
        raise ConfigurationError("the URL of Airflow has a login in it; give username and password")
    return str(parts).rstrip("/")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _asked_wait(response: httpx.Response | None) -> float | None:
    """Seconds after which the server wants to be asked again."""
    text = response.headers.get("retry-after", "") if response is not None else ""
    return float(text) if text.isdecimal() else None


def _worth_trying(response: httpx.Response, *, repeatable: bool) -> bool:
    status = response.status_code
    if status in _BUSY:
        # It says that it has not begun, or else nobody knows.
        return repeatable or _asked_wait(response) is not None
    if status == 409:
        # A step that has only just parked cannot be woken yet, say; when to come again stands there.
        return _asked_wait(response) is not None
    return repeatable and status in _FAILED


def _json(response: httpx.Response, about: str) -> Any:
    try:
        return response.json()
    except ValueError:
        raise ServerError(
            f"{about}: the answer is no JSON; is this the URL of Airflow?", status=response.status_code
        ) from None


def _error(response: httpx.Response, about: str, *, login: bool) -> ClientError:
    status, said = response.status_code, _detail(response)
    text = f"{about}: {said}"
    if status == 401 and not login:
        return Unauthenticated(f"{text}; check username and password")
    if status == 401:
        return Unauthenticated(f"{text}; a token expires: give what renews it, or username and password")
    if status == 403:
        return Forbidden(text)
    if status == 404:
        return NotFound(text)
    if 400 <= status < 500:
        return Refused(text, status=status)
    if 300 <= status < 400:
        return ServerError(f"{about}: the server sends elsewhere ({status}); check the URL", status=status)
    return ServerError(f"{text} (HTTP {status})", status=status)


def _detail(response: httpx.Response) -> str:
    """The server's reason; of its lists of errors the places and rules, without what was sent."""
    try:
        body = response.json()
    except ValueError:
        return f"HTTP {response.status_code}"
    detail = body.get("detail", body.get("error")) if isinstance(body, dict) else None
    if isinstance(detail, list):
        places = [each for each in detail if isinstance(each, dict)]
        return "; ".join(f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg')}" for each in places)
    if isinstance(detail, dict):
        detail = detail.get("reason")
    return detail if isinstance(detail, str) and detail else f"HTTP {response.status_code}"
