"""Pure: who asked for what became of a task; each request explains a change of it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from louver_provider.airflow_requests import Request, Verb, asked_by, cleared_by

__all__ = ["Askers", "Doing"]

_MARKED, _CLEARED = "marked", "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """
    Somebody's doing.

    :param actor: None where it may have been one of several.
    :param asked_at: when; of several requests the first.
    """

    actor: str | None
    source: str
    reason: str
    asked_at: datetime


class Askers:
    """
    The requests about a run, as far as they may have changed one task.

    :param requests: all of them, in order of time.

    ``explained``: those whose effect on the task was told.
    """

    def __init__(self, task_id: str, requests: Sequence[Request]) -> None:
        self._task_id = task_id
        self._requests = requests
        self._used: set[tuple[str, int]] = set()
        self.explained: list[Request] = []

    def marked(
        self, *, at: datetime, state: str | None, since: datetime | None = None
    ) -> tuple[Request, ...]:
        """Who may have set it to that state, or the whole run."""
        verbs = (Verb.MARK, Verb.MARK_RUN)
        return asked_by(self._unused(_MARKED), verbs, self._task_id, at=at, since=since, state=state)

    def cleared(self, *, at: datetime) -> tuple[Request, ...]:
        """Who may have cleared it."""
        return cleared_by(self._unused(_CLEARED), self._task_id, at=at)

    def tell_mark(self, asked: Sequence[Request]) -> Doing:
        """What these have done; they are used up by it."""
        return self._tell(_MARKED, asked, [request.words for request in asked])

    def tell_clear(self, asked: Sequence[Request]) -> Doing:
        """The same of a clear; a mark clears as well what had failed downstream of it."""
        return self._tell(_CLEARED, asked, [request.words_of_clear for request in asked])

    def _unused(self, what: str) -> list[Request]:
        return [request for request in self._requests if (what, id(request)) not in self._used]

    def _tell(self, what: str, asked: Sequence[Request], words: Sequence[str]) -> Doing:
        self._used.update((what, id(request)) for request in asked)
        self.explained.extend(asked)
        source, asked_at = str(asked[-1].source), asked[0].at
        if len(asked) == 1:
            return Doing(actor=asked[0].actor, source=source, reason=words[0], asked_at=asked_at)
        told = zip(asked, words, strict=True)
        names = ", ".join(f"{request.actor or 'somebody'} ({word})" for request, word in told)
        return Doing(actor=None, source=source, reason=f"one of: {names}", asked_at=asked_at)
