"""
The permit of a step at work: taken before its code runs, kept alive meanwhile, given back at any end.

Who waits does so without its process: :class:`~louver.ports.Waits` ends it, and whoever runs the step comes
back when the ledger says that it has something to do. A process that dies gives nothing back; its lease ends,
or its death is found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from louver.errors import LedgerError
from louver.leases import kept_alive
from louver.ledger.records import PermitRecord
from louver.observations import Observations
from louver.ports import StepRuntime, Waits
from louver.resource_tags import ResourceTags
from louver.semaphores import PermitTerms, ResourceLimit, Stage
from louver.sessions import Change
from louver.states import TaskState

__all__ = ["PermitSettings", "StepPermit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitSettings:
    """
    What is configured about resources.

    :param limits: by resource (:func:`louver.semaphores.parse_resources`).
    :param look_every: how often those who wait look whether they have something to do.
    :param tags: what tags imply (:mod:`louver.resource_tags`).
    :param implied: what the tags of this very step imply; of what it names itself, its own units count.
    """

    limits: Mapping[str, ResourceLimit] = field(default_factory=dict)
    terms: PermitTerms = field(default_factory=PermitTerms)
    look_every: timedelta = timedelta(seconds=1)
    tags: ResourceTags = field(default_factory=ResourceTags)
    implied: Mapping[str, int] = field(default_factory=dict)


class StepPermit:
    """
    What one process has of the resources of its step.

    :param needs: resource to units, beside what is implied; nothing is asked where there are none.
    :param priority: of the step.
    """

    def __init__(
        self, runtime: StepRuntime, needs: Mapping[str, int], *, priority: int, settings: PermitSettings
    ) -> None:
        self._runtime = runtime
        self._needs = {**settings.implied, **needs}
        self._priority = priority
        self._settings = settings
        self._waits = False
        self._free = False
        self._held = False

    def take(self, told: Observations) -> None:
        """
        Take it, or wait for it.

        :raises Waits: where it has to wait; the ledger has recorded that.
        :raises ConfigurationError: where the step needs more than there can ever be.
        :raises LedgerUnavailable: nobody gets anything without the ledger (row T13).
        """
        if not self._needs:
            return
        runtime, settings = self._runtime, self._settings
        permit = runtime.ledger.take_permit(
            runtime.token,
            self._needs,
            limits=settings.limits,
            priority=self._priority,
            terms=settings.terms,
            now=runtime.now(),
        )
        if permit is None:
            self._free = True
            return
        if permit.stage is Stage.HELD:
            self._held = True
            runtime.log.tell("permit.held", "it has %s", _words(permit))
            return
        told.tell_all(
            Change(to=TaskState.BLOCKED, trigger="resource:waiting", reason=f"waits for {_words(permit)}")
        )
        self._waits = True
        raise Waits(permit)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Renew its lease until the context is left."""
        if not self._held:
            yield
            return
        every = self._settings.terms.lease / 3
        with kept_alive(self._renew, every=every.total_seconds()):
            yield

    def _renew(self) -> None:
        runtime = self._runtime
        if self._held and not runtime.ledger.renew_permit(
            runtime.token, terms=self._settings.terms, now=runtime.now()
        ):
            # Its code cannot be taken back. Told once, so that people know of two who were inside at a time.
            self._held = False
            runtime.log.tell("permit.lost", "its permit was not renewed in time and is somebody else's now")

    def give_back(self) -> None:
        """
        Give it back, and leave the line; never fails the step, whose end is recorded already.

        Also where this process took nothing: an earlier one of the task may have left something.
        """
        if not self._needs or self._waits or self._free:
            return
        runtime = self._runtime
        try:
            given = runtime.ledger.release_permit(
                runtime.token.key,
                session=runtime.token.session,
                terms=self._settings.terms,
                now=runtime.now(),
            )
        except LedgerError as error:
            runtime.log.tell(
                "permit.kept", "its permit could not be given back; its lease ends it: %s", error
            )
            return
        if given is not None:
            runtime.log.tell("permit.returned", "given back; %s have their turn now", len(given.granted))


def _words(permit: PermitRecord) -> str:
    return ", ".join(f"{units} of {name}" for name, units in permit.units.items())
