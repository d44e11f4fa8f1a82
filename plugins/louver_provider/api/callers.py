"""
Whether Airflow will let the sender of a request do what it asks for.

The middlewares around Airflow's API app run before a route has seen to that. Whoever is refused there gets
Airflow's own words, and learns nothing from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyio.to_thread import run_sync

from louver_provider.api.asgi import Scope

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

__all__ = ["is_allowed"]


async def is_allowed(
    scope: Scope, method: Literal["GET", "POST", "PUT", "DELETE"], entity: DagAccessEntity, *, dag_id: str
) -> bool:
    """
    Whether the route would let the request in, by the very calls that Airflow's routes depend on.

    :param method: as the route says it, which need not be the request's.
    :param entity: likewise: what of the Dag it is about.
    :param dag_id: from the request's path.
    """
    # Loaded here: the plugin is imported by every Airflow process, this only where requests arrive.
    from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, requires_access_dag
    from fastapi import HTTPException, Request

    request = Request(scope)
    try:
        user = await get_user(request, None, await bearer_scheme(request))
        # In a thread, as a route's dependency: it asks Airflow's database.
        await run_sync(requires_access_dag(method, entity, dag_id), request, user)
    except HTTPException:
        return False
    return True
