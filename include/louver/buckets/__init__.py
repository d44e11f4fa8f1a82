"""
Buckets: one noisy tenant never starves the others (semantics section 7).

:mod:`~louver.buckets.policy` says in which bucket a key belongs, :mod:`~louver.buckets.keys` where a run has
its key, :mod:`~louver.buckets.slots` how many tasks of a bucket may run at a time, and
:mod:`~louver.buckets.owners` which nodes work for it. All of it is configuration, read once, and pure.
"""

from __future__ import annotations

from louver.buckets.policy import BucketPolicy

__all__ = ["BucketPolicy"]
