"""
What a step's process needs, imported where that process comes from.

Airflow forks a task's process from the scheduler's (LocalExecutor). What the scheduler has imported is there
at once; what it has not, every task imports again: some hundred milliseconds for the file of a Dag, and some
twenty for the ledger, measured. Modules alone: an engine or a connection must never be inherited.
"""

from __future__ import annotations

__all__ = ["preload"]


def preload() -> None:
    """
    Import what a step needs from the parse of its Dag to its end.

    :raises ConfigurationError: where the ledger's settings cannot be used.
    """
    import louver.ledger.sql.store
    import louver_provider.dag_builder
    import louver_provider.hooks.ledger
    import louver_provider.operators.closing
    import louver_provider.operators.step
    import louver_provider.xcom.backend  # noqa: F401
    from louver_provider.settings import load_settings

    if load_settings().ledger_url.startswith("postgresql"):
        import louver.ledger.sql.postgres.engine
        import louver.ledger.sql.postgres.store  # noqa: F401
