"""Raw files of some days become staged days: typed rows in Parquet files, counted and validated.

    spark-submit spark_jobs/ingest.py --config pipeline.yaml --stream S --day D --result staged.json

1. Tasks read the raw files, or row groups of Parquet files, and write their rows, typed, with day, file and line, and
   with a reason if they are rejected (`spark.reading`). No row goes through the JVM.
2. Rows with a key that came before in the day are rejected, by a window over the key.
3. The accepted rows are counted by second. The counts cut each day into ranges, and their sums are what validation
   judges.
4. Great Expectations judges each day. Nothing is published yet, and nothing is sorted: `preprocess` does that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial, reduce
from operator import ge, gt, le, lt, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

from cep_pipeline.errors import DataError, InputError
from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.parse import REASON, EventRange, StagedDay, StagedFile
from cep_pipeline.events.readers import RejectedRow
from cep_pipeline.events.row_checks import FILE, FINER, LINE, LOCAL_DAY, day_number, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import Expectation, Quality
from cep_pipeline.events.validate import (
    Figures,
    Unexpected,
    asked_figures,
    start_import,
    validate,
)
from cep_pipeline.spark.reading import RawFiles, ReadDay, accepted_rows, rejected_rows, values_in_order
from cep_pipeline.spark.tasks import Batches, collect, of_partitions
from cep_pipeline.storage import DataDirectory

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.spark.tasks import Batches, Progress, of_partitions

TASK_ROWS = 1_000_000
"""Rows that one task reads, and events of a day that one task puts in order, about."""
_REJECTED_SHOWN, _VALUES_SHOWN = 5, 3


def stage_days(
    session: Callable[[], SparkSession],
    schema: StreamSchema,
    days: Sequence[date],
    data_root: str | Path,
    *,
    scratch: str,
    earlier_row_counts: Sequence[int] = (),
    data_docs: Callable[[date], Path | None] = lambda _: None,
    task_rows: int = TASK_ROWS,
    progress: Progress | None = None,
) -> list[StagedDay]:
    """Read, check, count and validate days; their rows stay in `scratch` until they are preprocessed.

    Parameters
    ----------
    session
        Makes the Spark session, which days without files do not need.
    days
        Ascending.
    data_root
        The folder or URI under which the source's paths lie.
    scratch
        Made by `new_scratch`, and removed by whoever made it.
    earlier_row_counts
        Numbers of events of published days before the first of `days`, the latest last.
    data_docs
        The folder for Great Expectations' pages about a day; None: they are not written.
    task_rows
        Rows that one task reads, and events of a range.
    progress
        Called with the number of tasks done and of all tasks, while raw files are read.

    Returns
    -------
    list of StagedDay
        One for each day, in order, up to the first that fails validation: that one says why, and is the last.

    Raises
    ------
    InputError
        A missing day (`on_missing: error`), a file that is truncated, corrupt or lacks a column.
    """
    if list(days) != sorted(set(days)):
        raise InputError("the days to ingest must be given once each, in order")
    if not days:
        return []
    read = [ReadDay(StagedDay(day, (), schema.digest)) for day in days]
    folder = DataDirectory(scratch, "scratch")
    raw = RawFiles(session, schema, read, str(data_root), folder, task_rows, progress)
    raw.find()
    with _loading_great_expectations(raw):
        raw.read()
        figures = _settle(raw, [state for state in raw.days if state.events])
    return _validated(raw, figures, earlier_row_counts, data_docs)


@contextmanager
def _loading_great_expectations(raw: RawFiles) -> Iterator[None]:
    """Import Great Expectations beside the work of the block, if there is any."""
    if not any(state.files for state in raw.days):
        yield
        return
    raw.session()  # it may fork, which it must before a thread imports
    importing = start_import()
    yield
    importing.result()


def _settle(raw: RawFiles, days: Sequence[ReadDay]) -> Mapping[date, Figures]:
    """Reject repeated keys, cut the days into ranges, and return the figures that validation judges."""
    if not days:
        return {}
    spark, schema, what = raw.session(), raw.schema, f"{raw.schema.name}: counting events"
    if schema.key:
        accepted = accepted_rows(spark, [state.staged for state in days], schema)
        again = repeated_keys(
            accepted.repartition(_parts(raw, days), LOCAL_DAY, *schema.key), schema.key, values_in_order(schema)
        )
        write = partial(_write_repeated, schema, raw.scratch)
        for path, counts in of_partitions(spark, again, write, f"{schema.name}: rejecting repeated keys"):
            for state in (state for state in days if state.day in counts):
                known = state.staged
                rejected = known.rejected_rows + counts[state.day]
                state.know(repeated=(*known.repeated, path), rejected_rows=rejected)
    accepted = accepted_rows(spark, [state.staged for state in days], schema)
    asked = {state.day: asked_figures(schema, state.day) for state in days}
    ranges = collect(spark, profile(accepted, asked, raw.task_rows), what)
    figures = {}
    for state in days:
        own = [row for row in ranges.to_pylist() if row[LOCAL_DAY] == day_number(state.day)]
        own.sort(key=lambda row: row["begin_s"])
        state.know(ranges=tuple(EventRange(row["begin_s"], row["events"]) for row in own))
        figures[state.day] = _summed(own, asked[state.day])
    _add_examples(raw, accepted, figures)
    return figures


def _parts(raw: RawFiles, days: Sequence[ReadDay]) -> int:
    return max(1, sum(state.events for state in days) // raw.task_rows)


# -- repeated keys -----------------------------------------------------------------------------------------------------


def repeated_keys(accepted: DataFrame, key: Sequence[str], values: Sequence[str] = ()) -> DataFrame:
    """Return the rows whose key came before in their day, with the place of the row that has it `_first`.

    Rows arrive in the order of some values, of their files' names and of their lines. A timestamp is compared to the
    nanosecond.
    """
    finer = [FINER] if TIMESTAMP in key else []
    arrival = Window.partitionBy(LOCAL_DAY, *key, *finer).orderBy(*values, FILE, LINE)
    own = F.struct(FILE, LINE)
    return accepted.withColumn("_first", F.first(own).over(arrival)).where(F.col("_first") != own)


def _write_repeated(
    schema: StreamSchema, scratch: DataDirectory, rows: Batches, number: int, attempt: int
) -> tuple[str, Mapping[date, int]]:
    """Write rows as rejected ones; returns the path of the staged file, and how many are of each day."""
    counts: Counter[date] = Counter()
    with StagedFile(schema, scratch, number, attempt) as staged:
        for batch in rows:
            for row in batch.to_pylist():
                key = ", ".join(f"{name}={row[name]}" for name in schema.key)
                reason = f"repeated key ({key}): first in {row['_first'][FILE]} on line {row['_first'][LINE]}"
                values = {name: row[name] for name in (TIMESTAMP, *schema.raw_attributes)}
                raw = json.dumps(values, default=str, ensure_ascii=False)
                staged.write_rejected([RejectedRow(row[LINE], reason, raw)], [row[LOCAL_DAY]], row[FILE])
                counts[day_of(row[LOCAL_DAY])] += 1
    return staged.path, counts


# -- the profile of a day ----------------------------------------------------------------------------------------------


def profile(accepted: DataFrame, asked: Mapping[date, Figures], range_rows: int) -> DataFrame:
    """Count events by second, and return ranges of seconds of about `range_rows` events each.

    A range has `_day`, its first second `begin_s`, its number of `events`, and the figures that validation asks for:
    `missing_0` is that of the first column in `Figures.missing`, and so on.
    """
    counts = {"events": F.count("*"), **_counts(asked)}
    second = F.unix_seconds(TIMESTAMP).alias("second")
    seconds = accepted.groupBy(LOCAL_DAY, second).agg(*(count.alias(name) for name, count in counts.items()))
    earlier = Window.partitionBy(LOCAL_DAY).orderBy("second").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum("events").over(earlier), F.lit(0))
    ranges = seconds.withColumn("range", F.floor(before / range_rows)).groupBy(LOCAL_DAY, "range")
    return ranges.agg(F.min("second").alias("begin_s"), *(F.sum(name).alias(name) for name in counts))


def _counts(asked: Mapping[date, Figures]) -> dict[str, Column]:
    figures = next(iter(asked.values()))
    counts = {}
    for place, name in enumerate(figures.missing):
        missing = F.col(name).isNull()
        counts[f"missing_{place}"] = F.count_if(missing | F.isnan(name) if name in figures.nans else missing)
    for place, name in enumerate(figures.nans):
        counts[f"nans_{place}"] = F.count_if(F.isnan(name))
    for place in range(len(figures.outside)):
        counts[f"outside_{place}"] = F.count_if(_outside_of_day(asked, place))
    return counts


def _outside_of_day(asked: Mapping[date, Figures], place: int) -> Column:
    """Return whether a value is outside the bounds at a place; those of the timestamp are others each day."""
    bounds = {day: list(figures.outside)[place] for day, figures in asked.items()}
    first, figures = next(iter(bounds.values())), next(iter(asked.values()))
    if len(set(bounds.values())) == 1:
        return _outside(first, figures)
    of_days = [(F.col(LOCAL_DAY) == day_number(day)) & _outside(one, figures) for day, one in bounds.items()]
    return reduce(or_, of_days)


def _outside(bounds: Expectation, figures: Figures) -> Column:
    """Return whether a value is outside bounds; null and NaN are not."""
    value = _value(bounds)
    fails = ((bounds.above, le), (bounds.at_least, lt), (bounds.below, ge), (bounds.at_most, gt))
    wrong: Column = reduce(or_, (is_beyond(value, bound) for bound, is_beyond in fails if bound is not None))
    return wrong & ~F.isnan(value) if bounds.column in figures.nans else wrong


def _value(bounds: Expectation) -> Column:
    return F.unix_micros(TIMESTAMP) if bounds.column == TIMESTAMP else F.col(bounds.column)


def _summed(ranges: Sequence[Mapping[str, Any]], asked: Figures) -> Figures:
    """Return the figures of a day, as yet without examples."""

    def total(name: str) -> Any:
        return sum(row[name] for row in ranges)

    return replace(
        asked,
        rows=total("events"),
        missing={name: total(f"missing_{place}") for place, name in enumerate(asked.missing)},
        nans={name: total(f"nans_{place}") for place, name in enumerate(asked.nans)},
        outside={bounds: Unexpected(total(f"outside_{place}")) for place, bounds in enumerate(asked.outside)},
    )


def _add_examples(raw: RawFiles, accepted: DataFrame, figures: dict[date, Figures]) -> None:
    """Look for the first values of each day that are outside of bounds; mostly there are none."""
    orders = {state.day: state.staged.order for state in raw.days}
    for day, known in figures.items():
        for bounds, unexpected in known.outside.items():
            if not unexpected.count:
                continue
            wrong = accepted.where((F.col(LOCAL_DAY) == day_number(day)) & _outside(bounds, known))
            first = wrong.orderBy(*orders[day]).limit(_VALUES_SHOWN).select(_value(bounds).alias("value"))
            values = collect(raw.session(), first, f"{raw.schema.name}: looking for values that are not as expected")
            found = {bounds: Unexpected(unexpected.count, tuple(values["value"].to_pylist()))}
            figures[day] = replace(figures[day], outside={**figures[day].outside, **found})


# -- validation --------------------------------------------------------------------------------------------------------


def _validated(
    raw: RawFiles,
    figures: Mapping[date, Figures],
    earlier_row_counts: Sequence[int],
    data_docs: Callable[[date], Path | None],
) -> list[StagedDay]:
    """Validate the days in order, up to the first that fails."""
    counts = list(earlier_row_counts)
    reached: list[ReadDay] = []
    for state in raw.days:
        reached.append(state)
        if state.staged.skipped:
            continue
        try:
            found = figures.get(state.day) or asked_figures(raw.schema, state.day)
            _validate(raw, state, found, counts, data_docs(state.day))
        except DataError as error:
            state.know(failure=str(error))
            break
        counts.append(state.staged.events)
    for state in reached:
        state.know(files=tuple(raw.fingerprints[file.name] for file in state.files))
    return [state.staged for state in reached]


def _validate(
    raw: RawFiles, state: ReadDay, figures: Figures, earlier_row_counts: Sequence[int], data_docs: Path | None
) -> None:
    staged, schema = state.staged, raw.schema
    examples: list[tuple[str, int, str]] = []
    if staged.rejected_rows > (schema.quality or Quality()).max_rejected_share * (staged.events + staged.rejected_rows):
        first = rejected_rows(raw.session(), [staged], schema).orderBy(FILE, LINE).limit(_REJECTED_SHOWN)
        rows = collect(raw.session(), first.select(FILE, LINE, REASON), f"{schema.name}: looking for rejected rows")
        examples = [(row[FILE], row[LINE], row[REASON]) for row in rows.to_pylist()]
    validation = validate(
        figures,
        schema,
        state.day,
        rejected=staged.rejected_rows,
        rejected_examples=examples,
        earlier_row_counts=earlier_row_counts,
        data_docs=data_docs,
    )
    state.know(validation=validation.document)
    validation.require(schema.name)
    state.know(warnings=validation.warnings)


if __name__ == "__main__":
    from cep_pipeline.pipeline.tasks import main

    main("ingest", __doc__)
