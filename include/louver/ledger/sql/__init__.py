"""The ledger in SQLite or Postgres. SQL is written here and nowhere else."""

from __future__ import annotations

__all__: list[str] = []
