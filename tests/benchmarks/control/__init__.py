"""
What control costs (issue 4, point 9): checkpoints, pausing and resuming on a real Airflow, what a step adds
to a plain task, and a round of the reconciler.

Run by ``scripts/bench-control``. Everything runs in processes of its own: this one imports no Airflow.
"""
