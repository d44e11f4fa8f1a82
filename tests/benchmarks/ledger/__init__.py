"""
``make bench-ledger``: what the ledger costs, beside a bare insert and beside dbos, on one Postgres server.

``scripts/bench-ledger`` sets up what it needs and runs ``python -m benchmarks.ledger`` with ``include`` and
``tests`` on the path. What is compared is measured in turns within the same run, so that a noisy machine is
noisy for all of it.
"""
