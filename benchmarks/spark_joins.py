"""Workloads in Spark SQL: the bucketed joins of `joins`, in its dialect, in a warm session with one core."""

from __future__ import annotations

import os
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine_processes import Engine, read_events
from benchmarks.joins import DUCKDB_QUERIES
from benchmarks.measure import Measurement
from benchmarks.processes import processor_s, told_here
from benchmarks.stock_stream import StockStream

LONGEST = dict.fromkeys(("W1", "W2", "W3", "W4"), 1_000_000)
"""Workload -> events of the longest stream over which it is run."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
}


def missing() -> str | None:
    """Return the names of what is missing and how to get them, or None."""
    return None if find_spec("pyspark") and find_spec("sqlglot") else "needs pyspark, sqlglot and Java"


def start(workload: str, events: Path) -> Engine:
    """Start a session with the events in a cached table, before anything is timed.

    A run is measured in seconds of the processor of the JVM, with all its threads; on the wall where the system does
    not tell them.
    """
    import sqlglot

    from cep_pipeline.spark import session

    os.environ.update(session.java_environment())
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    log = Path(session.__file__).with_name("log4j2.properties").as_uri()
    settings = {**_SETTINGS, "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log}"}
    builder = SparkSession.builder.master("local[1]").appName("cep bench").config(map=settings)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    table = read_events(events)
    columns = {
        "ts": StockStream.of(table).timestamp_ms,
        "ticker": table["ticker"].cast(pa.string()),
        "diff": table["diff"],
    }
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table(columns), f"{folder}/events.parquet")
        spark.read.parquet(f"{folder}/events.parquet").createOrReplaceTempView("events")
        spark.sql("CACHE TABLE s AS SELECT * FROM events")
    queries = [sqlglot.transpile(query, read="duckdb", write="spark")[0] for query in DUCKDB_QUERIES[workload]]

    def used_s() -> float:
        return sum(map(processor_s, psutil.Process().children(recursive=True))) if told_here() else time.perf_counter()

    def run() -> Measurement:
        began = used_s()
        matches = sum(int(spark.sql(query).collect()[0][0]) for query in queries)
        return Measurement(used_s() - began, matches)

    return run
