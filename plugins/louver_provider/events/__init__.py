"""Events to the outside, as ``[louver]`` says it, and the metrics and traces of Airflow's own."""

from __future__ import annotations
