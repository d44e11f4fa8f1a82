"""What is refused where a person starts a run: a key that cannot be used, a bucket that nobody owns."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from louver.errors import ConfigurationError
from louver_provider.buckets.declared import declared_for
from louver_provider.buckets.routes import BucketRouter, Route

__all__ = ["check_submission", "submitted_conf"]


def check_submission(router: BucketRouter, dag_id: str, conf: Any, *, now: datetime) -> Route | None:
    """
    Where a run that is started now will go.

    :param conf: what it is to be started with.
    :returns: None where it is in no bucket.
    :raises ValueRefused: where it has a key that cannot be used; the key is not shown.
    :raises ConfigurationError: where nobody owns its bucket; it names those who own others.
    """
    route = router.route(dag_id, conf, now, declared=declared_for(dag_id))
    owners = router.settings.owners
    if route is not None and owners and route.queue is None:
        raise ConfigurationError(
            f"nobody owns bucket {route.bucket}, which is that of the run's key; there are {owners}. "
            "Give the bucket an owner in [louver] bucket_owners, and restart what reads it"
        )
    return route


def submitted_conf(dag_id: str, data: Any, *, now: datetime) -> dict[str, str]:
    """
    What the ``conf`` of a run needs beside the reference to its event.

    :param data: of the event.
    :returns: the hash of the bucket key; nothing where there are no buckets, or no key.
    :raises ValueRefused: as :func:`check_submission`.
    :raises ConfigurationError: the same; also where the options of buckets cannot be used.
    """
    from louver_provider.cluster_policies import install

    router = install()
    if router is None:
        return {}
    reference = router.settings.keys.of(dag_id, declared_for(dag_id)).reference(data)
    check_submission(router, dag_id, reference, now=now)
    return reference
