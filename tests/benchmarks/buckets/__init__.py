"""
What routing into buckets costs: ``make bench-buckets`` (issue 5, point 7).

The hook alone, for each task instance that Airflow makes; and the creation of many task instances by Airflow
itself, without any policy, with Louver's, and with an empty one of somebody else, in turns. Airflow takes
another way to the database as soon as there is any policy; the third tells that apart from what Louver adds.
"""
