"""
A request that changes something and is authenticated by nothing but a cookie has to come from Airflow's own
pages: a browser adds the cookie to whatever another site makes it send.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow.configuration import conf
from fastapi import HTTPException, Request, status

__all__ = ["own_origin"]

_SAFE = ("GET", "HEAD", "OPTIONS")


def own_origin(request: Request) -> None:
    """
    FastAPI dependency: refuse what another site may have sent.

    :raises HTTPException: 403.
    """
    if request.method in _SAFE or _has_bearer(request):
        return
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() in _own_origins(request):
        return
    raise HTTPException(
        status.HTTP_403_FORBIDDEN,
        "A cookie alone changes nothing from outside Airflow's own pages; send the token as "
        "`Authorization: Bearer TOKEN`",
    )


def _has_bearer(request: Request) -> bool:
    # What get_user takes for an identity that was given on purpose.
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and bool(credentials.strip())


def _own_origins(request: Request) -> set[str]:
    """Where Airflow's pages may be: by its own settings, and where this request went to."""
    url = request.url
    known = {
        f"{url.scheme}://{url.netloc}",
        *conf.getlist("api", "access_control_allow_origins"),
    }
    if base := conf.get("api", "base_url", fallback=""):
        parts = urlsplit(base)
        known.add(f"{parts.scheme}://{parts.netloc}")
    return {origin.lower().rstrip("/") for origin in known}
