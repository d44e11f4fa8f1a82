"""Listeners for what only Airflow knows."""

from __future__ import annotations
