"""
What a feature needs of its store, asked at start and not in the middle of a run (row W15).

Every store keeps the whole contract for those who hold a handle on it. Beyond that they differ, and say so in
``CAPABILITIES``:

============  ======  ======  ========  =============================================================
capability    memory  SQLite  Postgres  who needs it
============  ======  ======  ========  =============================================================
listing       yes     yes     yes       whatever looks for runs by state or time: ``ps``, the reconciler,
                                        retention, the page in Airflow's web server
shared        no      yes     yes       Airflow, whose parts are processes of their own; control of tasks
                                        from another process (row T12)
durable       no      yes     yes       Airflow: effects and undos must outlive the process that began them
skip_locked   no      no      yes       nothing by itself; without it claimers wait for each other
notify        no      no      no        nothing by itself; without it whoever waits asks again and again
============  ======  ======  ========  =============================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from louver.errors import ConfigurationError
from louver.ledger.requests import Capability

if TYPE_CHECKING:
    from louver.ledger.contract import Ledger

__all__ = ["require"]

_LACKS = {
    Capability.LISTING: "it cannot list runs",
    Capability.SHARED: "no other process sees it",
    Capability.DURABLE: "it is gone with its process",
    Capability.SKIP_LOCKED: "those who claim from it wait for each other",
    Capability.NOTIFY: "it tells nobody of a change",
}

_MEMORY, _SQLITE, _POSTGRES = "memory://", "sqlite:///", "postgresql://"

_OFFERED_BY = {
    Capability.LISTING: (_MEMORY, _SQLITE, _POSTGRES),
    Capability.SHARED: (_SQLITE, _POSTGRES),
    Capability.DURABLE: (_SQLITE, _POSTGRES),
    Capability.SKIP_LOCKED: (_POSTGRES,),
    Capability.NOTIFY: (),
}


def require(ledger: Ledger, *needed: Capability, feature: str) -> None:
    """
    Go on if the store offers all that the feature needs.

    :param ledger: the store, open.
    :param needed: what the feature cannot do without.
    :param feature: its name, with which the message begins.
    :raises ConfigurationError: naming the feature, the store, what it lacks, and which one to take instead.
    """
    missing = [capability for capability in dict.fromkeys(needed) if capability not in ledger.CAPABILITIES]
    if not missing:
        return
    lacks = ", ".join(f"{_LACKS[capability]} ({capability})" for capability in missing)
    raise ConfigurationError(f"{feature} cannot use {type(ledger).__name__}: {lacks}; {_way_out(needed)}")


def _way_out(needed: tuple[Capability, ...]) -> str:
    urls = [
        url
        for url in (_MEMORY, _SQLITE, _POSTGRES)
        if all(url in _OFFERED_BY[capability] for capability in needed)
    ]
    if not urls:
        return "no store of this release offers that, so leave the feature off"
    return f"give a ledger URL ([louver] ledger_url) that begins with {' or '.join(urls)}"
