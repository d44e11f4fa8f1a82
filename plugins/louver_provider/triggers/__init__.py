"""What deferred tasks wait by."""

from __future__ import annotations
