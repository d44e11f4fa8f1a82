"""Where Airflow is, and how to log in there, from a connection that people keep in Airflow itself."""

from __future__ import annotations

from typing import Any

from louver.errors import ConfigurationError

__all__ = ["login_of"]


def login_of(conn_id: str) -> dict[str, Any]:
    """
    ``url`` and login of a connection.

    :raises ConfigurationError: where it lacks something.
    """
    # Only here is anything of Airflow needed; whoever has connections has it.
    from airflow.sdk import BaseHook

    connection = BaseHook.get_connection(conn_id)
    if not connection.host:
        raise ConfigurationError(f"connection {conn_id!r} has no host; it is that of Airflow's web server")
    host, scheme = connection.host, connection.schema or "http"
    if "://" in host:
        scheme, _, host = host.partition("://")
    host, slash, path = host.partition("/")
    port = f":{connection.port}" if connection.port else ""
    url = f"{scheme}://{host}{port}{slash}{path}"
    token = connection.extra_dejson.get("token")
    if token:
        return {"url": url, "token": token}
    if connection.login and connection.password:
        return {"url": url, "username": connection.login, "password": connection.password}
    raise ConfigurationError(
        f"connection {conn_id!r} has no login: give it login and password, or a token in its extra"
    )
