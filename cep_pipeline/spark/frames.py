"""DataFrames of the pipeline's steps: the rows of staged files, those that are accepted, and those that are rejected.

As with `tasks`, only what Spark Connect has too is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.events.parse import RAW, REASON, StagedDay, staged_columns
from cep_pipeline.events.row_checks import FILE, LINE, LOCAL_DAY, day_number
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.spark.tasks import Batches
from cep_pipeline.storage import object_store_properties, open_filesystem, reach_object_stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cep_pipeline.spark.session import SparkSession


def staged_rows(spark: SparkSession, paths: Iterable[str], schema: StreamSchema) -> DataFrame:
    """Return the rows of staged files (`events.parse`).

    Files of an object store are read by tasks: they reach it with the pipeline's own settings, which Spark's JVM does
    not have.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    columns, files = from_arrow_schema(staged_columns(schema)), sorted(set(paths))
    if not any("://" in path for path in files):
        local = (f"file://{_PATTERN.sub(_AS_IT_IS, str(Path(path).absolute()))}" for path in files)
        # Times before 1900 are those of today's calendar.
        return spark.read.schema(columns).option("datetimeRebaseMode", "CORRECTED").parquet(*local)
    properties = object_store_properties()

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        reach_object_stores(properties)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            filesystem, inner = open_filesystem(files[number])
            with pq.ParquetFile(inner, filesystem=filesystem) as file:
                yield from file.iter_batches()

    return spark.range(0, len(files), 1, len(files)).mapInArrow(read, columns)


_PATTERN, _AS_IT_IS = re.compile(r"([{}\[\]*?\\])"), r"\\\1"
"""What Spark takes for a pattern in the name of a file, and how it is written so that it is not."""


def accepted_rows(spark: SparkSession, days: Sequence[StagedDay], schema: StreamSchema) -> DataFrame:
    """Return the events of staged days, in no order, without those that are rejected because their key came before."""
    rows = staged_rows(spark, (path for day in days for path in day.rows), schema)
    accepted = rows.where(rows[REASON].isNull() & rows[LOCAL_DAY].isin(_numbers(days))).drop(REASON, RAW)
    if repeated := [path for day in days for path in day.repeated]:
        again = staged_rows(spark, repeated, schema).select(FILE, LINE)
        accepted = accepted.join(again, [FILE, LINE], "left_anti")
    return accepted


def rejected_rows(spark: SparkSession, days: Sequence[StagedDay], schema: StreamSchema) -> DataFrame:
    """Return the rejected rows of staged days, in no order: `_day`, `_file`, `_line`, `_reason` and `_raw`."""
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    rows = staged_rows(spark, (path for day in days for path in (*day.rows, *day.repeated)), schema)
    first_days = [F.lit(of) for day in days for name in day.undated for of in (name, day_number(day.day))]
    of_file = F.try_element_at(F.create_map(*first_days), rows[FILE]) if first_days else F.lit(None)
    of_day = F.coalesce(rows[LOCAL_DAY], of_file).alias(LOCAL_DAY)
    rejected = rows.where(rows[REASON].isNotNull()).select(of_day, FILE, LINE, REASON, RAW)
    return rejected.where(F.col(LOCAL_DAY).isin(_numbers(days)))


def _numbers(days: Sequence[StagedDay]) -> list[int]:
    return [day_number(day.day) for day in days]
