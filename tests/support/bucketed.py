"""Buckets in this process: the cluster policy made live by settings of a test, and gone again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow import settings as airflow_settings

from louver_provider import cluster_policies
from louver_provider.buckets import runs
from louver_provider.buckets.routes import BucketRouter

__all__ = ["bucketed"]


@contextmanager
def bucketed(**options: Any) -> Iterator[BucketRouter]:
    """
    The policy, live.

    :param options: of ``[louver]``; 64 buckets unless ``buckets`` says otherwise.
    """
    manager = airflow_settings.get_policy_plugin_manager()
    hook: Any = airflow_settings.task_instance_mutation_hook
    before, was_noop = manager.get_plugin(cluster_policies.PLUGIN), hook.is_noop
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({"buckets": "64"} | options).items():
            patch.setenv(f"AIRFLOW__LOUVER__{name.upper()}", str(value))
        patch.setattr(runs, "_SEEN", runs._Seen())
        router = cluster_policies.install()
        assert router is not None
        try:
            yield router
        finally:
            if manager.has_plugin(cluster_policies.PLUGIN):
                manager.unregister(name=cluster_policies.PLUGIN)
            if before is not None:
                manager.register(before, name=cluster_policies.PLUGIN)
            hook.is_noop = was_noop
