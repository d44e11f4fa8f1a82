"""The ledger, as Airflow processes reach it."""

from __future__ import annotations
