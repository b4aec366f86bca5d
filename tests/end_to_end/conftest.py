"""`told.py` imports Airflow, and only Airflow's own processes may: the tests of the DAGs choose its home before."""

from __future__ import annotations

collect_ignore = ["told.py"]
