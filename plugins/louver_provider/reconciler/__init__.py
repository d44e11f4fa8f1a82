"""The reconciler: repairs what no process could do itself (semantics section 9)."""

from __future__ import annotations
