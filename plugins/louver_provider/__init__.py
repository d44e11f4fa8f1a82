"""Louver for Apache Airflow: operators, decorators and services over the pure core in ``louver``."""

from __future__ import annotations
