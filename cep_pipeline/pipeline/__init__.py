"""The pipeline: days of a stream from raw files to published matches, and plans that follow the data.

`configuration` reads `pipeline.yaml`. `day` lists the steps of a day in their order, which work on a `day_work`:

1. `ingest`, `validate`, `preprocess`: raw files to published events (`spark_jobs`);
2. `estimate_statistics`: the statistics of the day (`statistics`);
3. `plan`: a plan for each pattern set that has none (`plans`);
4. `detect`, `publish`: the matches that become final on the day (`detection`).

`run` does the steps in one process, for `cep run`, and tells which days there are and which are stale; `tasks` does
them one at a time, for Airflow.

Between days the plans are checked against the statistics of the latest day (`plan_checks`), and made again where the
data has changed (`replanning`), by commands and by `tasks`.
"""
