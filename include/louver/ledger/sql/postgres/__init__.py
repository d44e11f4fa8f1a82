"""What Postgres does better than the common path: one statement for each frequent decision."""

from __future__ import annotations

__all__: list[str] = []
