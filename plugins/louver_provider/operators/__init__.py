"""Operators: one task of a Louver Dag each."""

from __future__ import annotations
