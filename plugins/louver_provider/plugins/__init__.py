"""The Airflow plugin."""

from __future__ import annotations
