"""A client's requests, handed to the API server of an Airflow in this process."""

from __future__ import annotations

from typing import Any

import httpx

__all__ = ["ThroughWeb"]


class ThroughWeb(httpx.BaseTransport):
    """
    Transport of httpx into an app in this process.

    :param web: starlette's test client around it.
    """

    def __init__(self, web: Any) -> None:
        self._web = web
        self.seen: list[str] = []
        """Method and path of what went through."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        self.seen.append(f"{request.method} {request.url.path}")
        # The app is asked by its own name, else it would be somebody else's.
        path = request.url.raw_path.decode("ascii")
        names = ("authorization", "content-type", "accept")
        headers = {name: request.headers[name] for name in names if name in request.headers}
        answer = self._web.request(request.method, path, content=request.read(), headers=headers)
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() not in ("content-encoding", "content-length")
        }
        return httpx.Response(answer.status_code, headers=kept, content=answer.content)
