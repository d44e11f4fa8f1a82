"""An answer that is not passed on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """
    Why an answer is not passed on.

    :param status: the HTTP status.
    :param detail: for the person, in Airflow's own shape of an error.
    :param retry_after: whole seconds after which the same answer is worth trying again.
    """

    status: int
    detail: str
    retry_after: int | None = None
