"""Buckets in Airflow: routes to pools and queues, refusals at intake, pools, and who waits."""
