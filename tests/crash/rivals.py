"""What processes do that are after the same thing; see :class:`support.nursery.Nursery`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from support.nursery import Talk

from crash.stories import STORIES
from crash.story import KEYS, Clock, Scene
from louver.canonical import fingerprint
from louver.errors import LouverError
from louver.ledger import open_ledger
from louver.ledger.contract import Ledger
from louver.ledger.names import CommandState, OnUnknown, RunKey, TaskKey, Token, Verb
from louver.ledger.records import RECORDS, STATE, EffectRecord
from louver.ledger.requests import ApprovalRequest, CommandRequest, EffectRequest, RunStart
from louver.liveness import LocalProcesses
from louver.sessions import Change, Claim
from louver.states import Source, TaskState
from louver.testing import crashes

__all__ = ["begin_at", "hold_and_try", "play_in_the_way", "snapshot", "take_over"]

_RUN = RunKey("rivals", "run-1")
_START = RunStart(
    key=_RUN,
    definition_name="rivals",
    definition_version="1",
    definition_fingerprint="f" * 64,
    definition={"name": "rivals"},
)


def now() -> datetime:
    return datetime.now(timezone.utc)


def launched(ledger: Ledger, task_id: str, *, tries: int = 1) -> Token:
    """Open a task of the run and have it running."""
    ledger.open_run(_START, now=now())
    claim = Claim(try_number=tries, max_tries=9, process=LocalProcesses().name(), source=Source.ENGINE)
    key = TaskKey(_RUN.dag_id, _RUN.run_id, task_id)
    token = ledger.open_task(key, claim, now=now()).token
    ledger.advance(token, Change(to=TaskState.RUNNING, trigger="executor:launched"), now=now())
    return token


def effect(key: str) -> EffectRequest:
    """One that is the same for all rivals, but for the moment."""
    return EffectRequest(
        scope="global",
        key=key,
        name="act",
        intent=1,
        intent_hash=fingerprint(1),
        undo=None,
        on_unknown=OnUnknown.MANUAL,
        provider_idempotent=False,
        lease_until=now() + timedelta(seconds=60),
        quiesce_seconds=30.0,
    )


def begin_at(talk: Talk, *, url: str, task_id: str) -> list[EffectRecord]:
    """
    Begin effects, each at the moment that the test names; the effects that this process has begun.

    It says of each when it was called (monotonic time, the same for all processes) and what it was told.
    """
    mine = []
    with open_ledger(url, KEYS) as ledger:
        token = launched(ledger, task_id)
        talk.say("ready")
        while (order := talk.hear()) is not None:
            key, moment = order
            request = effect(key)
            while time.monotonic() < moment:
                pass
            called = time.monotonic()
            begun = ledger.begin_effect(token, request, now=now())
            if begun.outcome.value == "begun":
                mine.append(begun.record)
            talk.say((called, begun.outcome.value, begun.record))
    return mine


def hold_and_try(talk: Talk, *, url: str) -> dict[str, str]:
    """
    Hold a task until another process has taken it over, then try to go on; how each write was refused.

    A write that came through is told as ``written``.
    """
    with open_ledger(url, KEYS) as ledger:
        token = launched(ledger, "work")
        begun = ledger.begin_effect(token, effect("begun"), now=now()).record
        ledger.begin_effect(token, effect("lost"), now=now())
        ledger.save_checkpoint(token, STATE, "saved", now=now())
        talk.say("holding")
        talk.hear()
        return {name: _tried(write) for name, write in _writes(ledger, token, begun).items()}


def _tried(write: Callable[[], Any]) -> str:
    try:
        write()
    except LouverError as error:
        return type(error).__name__
    return "written"


def _writes(ledger: Ledger, token: Token, begun: EffectRecord) -> dict[str, Callable[[], Any]]:
    """All that is conditional on the token."""
    done = Change(to=TaskState.SUCCEEDED, trigger="runtime:completed")
    parked = Change(to=TaskState.PAUSED, trigger="approval:requested")
    lease = now() + timedelta(minutes=5)
    request = ApprovalRequest(
        request_id="stale",
        of="work",
        payload=1,
        payload_fingerprint=fingerprint(1),
        ancestors=(),
        approvers=(),
        four_eyes=False,
        expires_at=None,
    )
    (command,) = [one for one in ledger.list_commands(_RUN) if one.state is not CommandState.DONE]
    unknown = ledger.get_effect("global", "lost") or begun
    return {
        "begin_effect": lambda: ledger.begin_effect(token, effect("another"), now=now()),
        "begin_effect of the same": lambda: ledger.begin_effect(token, effect("begun"), now=now()),
        "retry_effect": lambda: ledger.retry_effect(token, unknown, lease_until=lease, now=now()),
        "commit_effect": lambda: ledger.commit_effect(token, begun, "stale", now=now()),
        "commit_effect of an unknown one": lambda: ledger.commit_effect(token, unknown, "stale", now=now()),
        "fail_effect": lambda: ledger.fail_effect(token, begun, reason="stale", now=now()),
        "keep_effect": lambda: ledger.keep_effect(token, begun, lease_until=lease),
        "give_up_undo": lambda: ledger.give_up_undo(token, begun, reason="stale", now=now()),
        "save_checkpoint": lambda: ledger.save_checkpoint(token, STATE, "stale", now=now()),
        "advance": lambda: ledger.advance(token, done, now=now()),
        "advance by nothing": lambda: ledger.advance(token, now=now()),
        "complete": lambda: ledger.complete(token, done, "stale", now=now()),
        "park": lambda: ledger.park(token, parked, nonce="stale", request=request, now=now()),
        "claim_commands": lambda: ledger.claim_commands(token, lease_until=lease, now=now()),
        # A sign of life that nobody asked for is no error; it is not written either.
        "touch": lambda: ledger.touch(token, now=now()),
        "obey": lambda: ledger.obey(token, command, parked, outcome="stale", now=now()),
    }


def take_over(talk: Talk, *, url: str) -> None:
    """Open the task as its next try, and stay at it."""
    with open_ledger(url, KEYS) as ledger:
        token = launched(ledger, "work", tries=2)
        lost = ledger.get_effect("global", "lost")
        if lost is not None:
            ledger.lose_effect(lost, reason="as it were", now=now())
        request = CommandRequest(
            command_id="stop", task=token.key, verb=Verb.STOP, actor="ann", reason=None, source=Source.CLI
        )
        ledger.send_command(request, now=now())
        ledger.touch(token, now=now())
        talk.say("taken over")
        talk.hear()


def snapshot(talk: Talk, *, url: str, when_told: bool = False) -> dict[str, Any]:
    """
    All rows.

    :param when_told: open the ledger, and read it at the test's word.
    """
    with open_ledger(url, KEYS) as ledger:
        if when_told:
            talk.say("open")
            talk.hear()
        with ledger._transaction(write=False) as rows:  # type: ignore[attr-defined]
            return {kind.__name__: rows.find(kind) for kind in RECORDS}


def play_in_the_way(talk: Talk, *, story: str, url: str, shop: str, case: str, stand_at: str) -> None:
    """Play a story, and stand still at a point until told, while another process plays it to its end."""
    os.environ["SHOP_DB"] = shop

    def stand() -> None:
        talk.say("standing")
        talk.hear()

    with open_ledger(url, KEYS) as ledger:
        scene = Scene(ledger=ledger, clock=Clock(STORIES[story].LATER), case=case)
        STORIES[story].prepare(scene)
        crashes.act_at(stand_at, stand)
        STORIES[story].play(scene)
