"""
What a step's process needs, imported where that process comes from.

Airflow forks a task's process from the scheduler's (LocalExecutor). What the scheduler has imported is there
at once; what it has not, every task imports again: some hundred milliseconds for the file of a Dag, and some
twenty for the ledger, measured; the same goes for the statements that it compiles. An engine or a connection
must never be inherited.
"""

from __future__ import annotations

__all__ = ["preload"]


def preload() -> None:
    """
    Import and compile what a step needs from the parse of its Dag to its end.

    :raises ConfigurationError: where the ledger's settings cannot be used.
    """
    import louver.ledger.sql.store
    import louver_provider.dag_builder
    import louver_provider.hooks.ledger
    import louver_provider.operators.closing
    import louver_provider.operators.step
    import louver_provider.xcom.backend  # noqa: F401
    from louver.ledger.sql.texts import DIALECTS, compile_all
    from louver_provider.settings import load_settings

    url = load_settings().ledger_url
    for dialect in DIALECTS:
        if url.startswith(dialect):
            compile_all(dialect)
    if url.startswith("postgresql"):
        import louver.ledger.sql.postgres.engine
        import louver.ledger.sql.postgres.store  # noqa: F401
