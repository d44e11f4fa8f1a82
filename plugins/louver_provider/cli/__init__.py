"""The ``airflow louver`` command group."""

from __future__ import annotations
