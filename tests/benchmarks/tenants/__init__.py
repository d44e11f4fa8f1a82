"""
How long tenants wait for a slot beside a noisy one (issue 5, point 6): ``make bench-tenants``.

Eight tenants on a real Airflow, on Postgres, with eight slots: alone, beside one of them with hundreds of
tasks that has a bucket of one slot, and the same in Airflow's one pool. By what Airflow records of its tasks.
"""
