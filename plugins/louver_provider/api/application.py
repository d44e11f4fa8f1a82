"""
The web application behind ``/louver``: routes, errors, and who may ask.

Airflow mounts the apps of plugins unprotected, and its handlers of errors are not inherited. So every route
here names what a user must be allowed, as Airflow's own routes do, and every error is answered here.
"""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI

from louver import __version__
from louver_provider.api.event_routes import event_routes
from louver_provider.api.origin import own_origin
from louver_provider.api.problems import PROBLEMS, handle_problems
from louver_provider.api.run_routes import run_routes

__all__ = ["build_application"]

_ABOUT = """
Runs of Louver's workflows: what became of their nodes, their results, their trail, and control over them.

Runs are started, listed and deleted by Airflow's own interface. Log in as there: `POST /auth/token`, then
`Authorization: Bearer TOKEN`.
"""


def build_application() -> FastAPI:
    """The app; reads no setting, and opens nothing before it is asked something."""
    app = FastAPI(
        title="Louver",
        version=__version__,
        description=_ABOUT,
        # The pages and the document that FastAPI serves by itself are open to everybody.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # Nobody is sent elsewhere (semantics section 10): a redirect would lose the body, or the token.
        redirect_slashes=False,
        # Before anything is read, and before what a single route asks for.
        dependencies=[Depends(get_user), Depends(own_origin)],
        responses=PROBLEMS,
    )
    handle_problems(app)
    app.include_router(run_routes, prefix="/v1")
    app.include_router(event_routes, prefix="/v1")

    @app.get("/v1/openapi.json", include_in_schema=False)
    def describe_interface() -> dict[str, Any]:
        """This interface, as an OpenAPI document."""
        return app.openapi()

    return app
