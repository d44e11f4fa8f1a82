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
    return [thread for thread in threading.enumerate() if thread.name == "louver-leases"]


def test_a_lease_is_renewed_again_and_again_until_the_call_is_over() -> None:
    renew = Renewals()
    with kept_alive(renew, every=0.001):
        renew.wait_for(3)
    seen = renew.count
    # The same thread goes on to renew for others, and never again for this one.
    other = Renewals()
    with kept_alive(other, every=0.001):
        other.wait_for(3)
    assert renew.count == seen


def test_one_thread_renews_for_all_and_each_in_its_own_time() -> None:
    slow, quick = Renewals(), Renewals()
    with kept_alive(slow, every=3600), kept_alive(quick, every=0.001):
        quick.wait_for(3)
        assert len(keepers()) == 1
    assert slow.count == 0


def test_leaving_waits_for_a_renewal_that_is_under_way() -> None:
    inside, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def renew() -> None:
        inside.set()
        assert go_on.wait(PATIENCE)

    def call() -> None:
        with kept_alive(renew, every=0.001):
            assert inside.wait(PATIENCE)
        over.set()

    thread = threading.Thread(target=call)
    thread.start()
    assert inside.wait(PATIENCE)
    assert not over.is_set()
    go_on.set()
    thread.join(PATIENCE)
    assert over.is_set()


def test_a_short_call_is_over_before_the_first_renewal() -> None:
    """Leaving does not wait for the next renewal either."""
    renew = Renewals()
    with kept_alive(renew, every=3600):
        assert len(keepers()) == 1
    assert renew.count == 0


def test_a_renewal_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    renew = Renewals(LedgerUnavailable("no route"))
    with kept_alive(renew, every=0.001):
        renew.wait_for(2)
    assert any(record.name == "louver.leases" for record in caplog.records)


@pytest.mark.parametrize("error", [ValueError("inside"), KeyboardInterrupt()])
def test_what_the_call_raises_comes_out_and_ends_the_keeping(error: BaseException) -> None:
    renew = Renewals()
    with pytest.raises(type(error)) as caught, kept_alive(renew, every=0.001):
        raise error
    assert caught.value is error
    seen, other = renew.count, Renewals()
    with kept_alive(other, every=0.001):
        other.wait_for(3)
    assert renew.count == seen


def test_the_keeper_holds_no_process_up() -> None:
    with kept_alive(Renewals(), every=3600):
        assert keepers()[0].daemon
