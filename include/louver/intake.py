"""
How an event becomes a run, once (semantics section 10, the part without HTTP).

Submitted, an event is kept in the ledger and the run carries its reference alone. Handed in with the run's
``conf``, or typed into a form, it is taken in by the run's first step. Either way it is deduplicated by
(source, id).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from louver.cloudevents import (
    CloudEvent,
    EventProfile,
    OrderProfile,
    encode_event,
    identity,
    parse_event,
    payload_fingerprint,
    run_id_for,
)
from louver.errors import ConfigurationError, EventRejected, IntegrityError, LouverError
from louver.ledger.contract import Ledger
from louver.ledger.records import EventRecord
from louver.ledger.requests import EventOutcome
from louver.lifecycle import Ended
from louver.ports import StepRuntime
from louver.sessions import Change
from louver.states import TaskState

__all__ = ["EVENT", "REFERENCE", "Intake", "profile_for"]

REFERENCE = "louver_event"
"""Member of ``conf`` that refers to a submitted event."""

EVENT = "event"
"""Member of ``conf`` that holds a whole event, and the run parameter that steps take."""


class _DuplicateEvent(LouverError):
    """The event was taken in before, by another run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """
    Takes events in for one Dag.

    :param dag_id: the Dag that a run is started of.
    :param profile: what its events must look like.
    """

    dag_id: str
    profile: EventProfile

    def submit(self, ledger: Ledger, raw: bytes, *, now: datetime) -> tuple[EventOutcome, EventRecord]:
        """
        Accept an event before there is a run.

        :param raw: the event, in the JSON format of CloudEvents.
        :returns: whether it is new, and the row that names its run.
        :raises EventRejected: where it is no strict CloudEvent, or not one of the profile.
        :raises EventConflict: the same (source, id) was accepted with another payload.
        """
        event = parse_event(raw)
        self.profile.check(event)
        return self._accept(ledger, event, raw, run_id=run_id_for(event), now=now)

    def _accept(
        self, ledger: Ledger, event: CloudEvent, raw: bytes, *, run_id: str, now: datetime
    ) -> tuple[EventOutcome, EventRecord]:
        return ledger.accept_event(
            dag_id=self.dag_id,
            identity=hashlib.sha256(identity(event).encode("utf-8")).hexdigest(),
            payload_fingerprint=payload_fingerprint(event),
            run_id=run_id,
            event={"raw": raw},
            now=now,
        )

    @staticmethod
    def conf(record: EventRecord) -> dict[str, Any]:
        """What the run is triggered with: id and fingerprint, never the event (row O9)."""
        return {REFERENCE: {"identity": record.identity, "fingerprint": record.payload_fingerprint}}

    def take_in(self, conf: Mapping[str, Any], runtime: StepRuntime) -> dict[str, Any]:
        """
        The run's event, as the first step sees it; called by every attempt of that step.

        :param conf: as the run was triggered.
        :returns: ``id``, ``source``, ``type``, ``subject``, ``time`` and the checked ``data``.
        :raises Ended: where another run has taken the event in: this one ends ``cancelled``.
        :raises EventConflict: where another run has taken it in with another payload.
        :raises EventRejected: where there is no event, or not one of the profile.
        """
        run_id = runtime.token.key.run_id
        if REFERENCE in conf:
            record, raw = self._referred(conf[REFERENCE], runtime.ledger)
        else:
            event, raw = self._handed_in(conf, run_id)
            _, record = self._accept(runtime.ledger, event, raw, run_id=run_id, now=runtime.now())
        if record.run_id != run_id:
            change = Change(
                to=TaskState.CANCELLED,
                trigger="orchestrator:duplicate",
                reason=f"duplicate_of {record.run_id}",
            )
            raise Ended(change, _DuplicateEvent(f"the event was taken in before, by run {record.run_id}"))
        runtime.ledger.confirm_event(record, now=runtime.now())
        runtime.log.tell(
            "event.taken_in", "event %s, payload %s", record.identity[:12], record.payload_fingerprint[:12]
        )
        return self._parameter(parse_event(raw))

    def _referred(self, reference: Any, ledger: Ledger) -> tuple[EventRecord, bytes]:
        if not isinstance(reference, Mapping) or not isinstance(reference.get("identity"), str):
            raise EventRejected(REFERENCE, "must be the reference that `airflow louver submit` made")
        found = ledger.load_event(self.dag_id, reference["identity"])
        if found is None:
            raise EventRejected(REFERENCE, "refers to an event that is not in this ledger")
        record, stored = found
        if reference.get("fingerprint") != record.payload_fingerprint:
            raise IntegrityError("the run's reference and the stored event have different fingerprints")
        return record, stored["raw"]

    def _handed_in(self, conf: Mapping[str, Any], run_id: str) -> tuple[CloudEvent, bytes]:
        if conf.get(EVENT) is not None:
            event = parse_event(_as_bytes(conf[EVENT]))
            self.profile.check(event)
        else:
            fields = {name: value for name, value in conf.items() if name != EVENT}
            if not fields:
                raise EventRejected(
                    None, "the run was triggered without one; fill in the form, or use louver submit"
                )
            event = self.profile.from_form(fields, source=f"/airflow/dags/{self.dag_id}", id=run_id)
        return event, encode_event(event)

    def _parameter(self, event: CloudEvent) -> dict[str, Any]:
        return {
            "id": event.id,
            "source": event.source,
            "type": event.type,
            "subject": event.subject,
            "time": event.time_text,
            "data": self.profile.check(event),
        }


def _as_bytes(event: Any) -> bytes:
    """The event as a person put it into ``conf``, back in its JSON form: one strict reader reads all."""
    return json.dumps(event, allow_nan=False, ensure_ascii=False).encode("utf-8", "surrogatepass")


_PROFILES: Mapping[str, EventProfile] = {OrderProfile.event_type: OrderProfile}


def profile_for(event_type: str) -> EventProfile:
    """
    The shipped profile of that event type.

    :raises ConfigurationError: where Louver ships none; hand one to the Dag instead.
    """
    profile = _PROFILES.get(event_type)
    if profile is None:
        raise ConfigurationError(
            f"no profile is known for event type {event_type!r}; give profile= to the Dag"
        )
    return profile
