"""
A small shop: what the business code of a Louver user looks like.

``orders`` holds the steps of the order workflow (``dags/order.json``) and their undos. ``providers`` stand
for other people's systems, with a real SQLite file behind them that counts what was really done; they know
nothing of Louver. ``faults`` tells them to misbehave, and ``report`` reads the count.
"""

from __future__ import annotations

__all__: list[str] = []
