"""
The shop's daily sales, from the files of its branches to a table: a pipeline as a data engineer writes one.

``pipeline`` says what runs when; ``landing`` finds the files, ``rows`` reads them, ``sales`` and ``quality``
hold the steps, ``report`` those of the Dag behind it, ``warehouse`` is the database. No airflow is imported
here. ``data`` are files as they arrive, with all that is wrong with such files.
"""

from __future__ import annotations

__all__: list[str] = []
