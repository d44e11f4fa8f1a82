"""A lease is kept alive from beside the call that it guards."""

from __future__ import annotations

import threading

import pytest

from louver.errors import LedgerUnavailable
from louver.leases import kept_alive

PATIENCE = 10.0
"""How long a test waits for another thread before it fails; seconds."""


class Renewals:
    """Counts renewals and lets a test wait for them; the first ones raise what they are told to."""

    def __init__(self, *errors: Exception) -> None:
        self.count = 0
        self._errors = list(errors)
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()
        if self._errors:
            raise self._errors.pop(0)

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, timeout=PATIENCE)


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "louver-lease"]


def test_a_lease_is_renewed_again_and_again_until_the_call_is_over() -> None:
    renew = Renewals()
    with kept_alive(renew, every=0.001):
        renew.wait_for(3)
    seen = renew.count
    assert keepers() == []
    assert renew.count == seen


def test_a_short_call_is_over_before_the_first_renewal() -> None:
    """Leaving does not wait for the next renewal either."""
    renew = Renewals()
    with kept_alive(renew, every=3600):
        assert len(keepers()) == 1
    assert keepers() == []
    assert renew.count == 0


def test_a_renewal_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    renew = Renewals(LedgerUnavailable("no route"))
    with kept_alive(renew, every=0.001):
        renew.wait_for(2)
    assert any(record.name == "louver.leases" for record in caplog.records)


@pytest.mark.parametrize("error", [ValueError("inside"), KeyboardInterrupt()])
def test_what_the_call_raises_comes_out_and_ends_the_keeping(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, kept_alive(Renewals(), every=3600):
        raise error
    assert caught.value is error
    assert keepers() == []


def test_the_keeper_holds_no_process_up() -> None:
    with kept_alive(Renewals(), every=3600):
        assert keepers()[0].daemon
