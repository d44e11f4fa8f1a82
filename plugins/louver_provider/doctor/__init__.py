"""``airflow louver doctor``: what is wrong with this installation, and how each thing is mended."""
