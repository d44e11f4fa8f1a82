"""
The cluster policy that puts every task instance of a run into the pool of the run's bucket.

Airflow calls it wherever it makes or refreshes task instances: in the API server, the scheduler and the
command line. All of them import Airflow, and Airflow loads the ``airflow.policy`` entry point while it is
imported; so :data:`policy` makes the policy live in each of them, but only where ``[louver] buckets`` is set.
Without it nothing is registered, and Airflow creates task instances as if Louver were not there.

The hook decides from the run alone. It reads no file and no table, opens no session, and never raises: a task
whose run has no usable key keeps the pool that it has. Who is told of a bad key: the person who submits it,
and Airflow's audit log when the run starts (:mod:`louver_provider.buckets.runs`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.policies import hookimpl

if TYPE_CHECKING:
    from louver_provider.buckets.routes import BucketRouter

__all__ = ["PLUGIN", "BucketPlugin", "install", "installed", "policy"]

log = logging.getLogger(__name__)

PLUGIN = "louver"
"""The name under which Airflow's manager of policies knows it; also that of the entry point."""

if TYPE_CHECKING:
    policy: Any


class BucketPlugin:
    """
    What Airflow's manager of policies holds.

    :param router: decides.
    """

    def __init__(self, router: BucketRouter) -> None:
        self.router = router

    @hookimpl
    def task_instance_mutation_hook(self, task_instance: Any, dag_run: Any) -> None:
        """Give the task instance its bucket's pool, and its owner's queue."""
        # The first of two calls comes without the run, from inside the constructor: nothing is known yet.
        if dag_run is None:
            return
        try:
            self.router.apply(task_instance, dag_run)
        except Exception:
            # A raise would be HTTP 400 at a trigger and a run that hangs at an expansion. No line is logged
            # either: it would be one for each task instance, of something that a person typed.
            return


class _Off:
    """What is registered where there are no buckets, or none that can be used: no hook at all."""


def install() -> BucketRouter | None:
    """
    Make the policy live in this process, if buckets are configured; safe to call again.

    :returns: what decides; None where there are no buckets.
    :raises ConfigurationError: where an option cannot be used; then nothing is routed.
    """
    from airflow import settings

    found = installed()
    if found is not None:
        return found
    plugin = _make()
    if plugin is None:
        return None
    manager = settings.get_policy_plugin_manager()
    if manager.has_plugin(PLUGIN):
        # By the entry point, in a process that had no buckets, or none that could be used.
        manager.unregister(name=PLUGIN)
    manager.register(plugin, name=PLUGIN)
    _make_live()
    return plugin.router


def installed() -> BucketRouter | None:
    """What decides in this process; None where nothing does."""
    from airflow import settings

    plugin = settings.get_policy_plugin_manager().get_plugin(PLUGIN)
    return plugin.router if isinstance(plugin, BucketPlugin) else None


def _make() -> BucketPlugin | None:
    from airflow.configuration import conf

    # Asked first: where there are no buckets, nothing more of Louver is loaded into the process.
    if not conf.get("louver", "buckets", fallback="").strip():
        return None
    from louver_provider.buckets.routes import BucketRouter
    from louver_provider.buckets.settings import require_bucket_settings

    return BucketPlugin(BucketRouter.configured(require_bucket_settings()))


def _make_live() -> None:
    from airflow import settings

    # Airflow asks this flag before it creates task instances, and lowers it by itself only where there is a
    # module airflow_local_settings. Left up, the hook would be silently skipped.
    settings.task_instance_mutation_hook.is_noop = False  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    """:data:`policy`, made when the entry point asks for it: nothing happens at import."""
    if name != "policy":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        plugin = _make()
        if plugin is not None:
            _make_live()
    except Exception as error:
        from louver.errors import describe

        # Raised, it would end every Airflow process as it starts, for all Dags.
        log.error("louver: buckets are off: %s", describe(error))
        return _Off()
    return plugin or _Off()
