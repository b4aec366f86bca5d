"""Rows of a raw block to typed events and rejected rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import as_mask, cast_checked_to, settings_for
from cep_pipeline.events.columns import ARROW_TYPES, TIMESTAMP
from cep_pipeline.events.raw_files import Period
from cep_pipeline.events.readers import RawBlock, RejectedRow, plain
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import SourceLayout, TimestampSettings
from cep_pipeline.events.timestamps import TimestampColumn, read_timestamps, timestamps_of
from cep_pipeline.patterns.expressions import ValueType

FILE = "_file"
LINE = "_line"
LOCAL_DAY = "_day"
FINER = "_finer"
TWICE = "_twice"
_EPOCH = date(1970, 1, 1)
_LONGEST_QUOTED = 60


@dataclass(frozen=True)
class CheckedBlock:
    """The rows of a raw block after the checks, in order of arrival; those that failed them are `rejected`.

    The events have the columns `timestamp`, the raw attributes, `_finer` (int16, the nanoseconds below the microsecond
    of the timestamp), `_line` (int64), `_day` (int32, days since 1970-01-01 of the local date) and `_twice` (a local
    time that the clock shows twice).
    """

    events: pa.Table
    rejected: tuple[RejectedRow, ...]


def day_number(day: date) -> int:
    """Days since 1970-01-01."""
    return (day - _EPOCH).days


def day_of(number: int) -> date:
    """The inverse of `day_number`."""
    return _EPOCH + timedelta(days=number)


def check_rows(
    block: RawBlock, schema: StreamSchema, period: Period, path: str, second: np.ndarray | None = None
) -> CheckedBlock:
    """Type the rows of a block and reject those that break a rule.

    A local time that the clock shows twice is the first of the two, and on the lines `second` the second.

    A row is rejected for a missing or unreadable timestamp, a local time that does not exist, a day outside the file's
    period, a missing event type or key, or a value that is too long or not of its column's type; all its reasons are
    said. A column of a Parquet file whose type can never be the one that the schema gives it is an InputError.
    """
    source = schema.source
    assert source is not None
    reasons: dict[int, list[str]] = defaultdict(list)
    stamps = timestamps_of(block.columns, source.timestamp.column)
    formats = source.timestamp.formats_of(path)
    later = None if second is None else np.isin(block.lines, second)
    instants = read_timestamps(stamps, formats, schema.file_timezone, later=later, days_of=schema.timezone)
    missing = as_mask(pc.is_null(stamps))
    outside = _outside(instants.local_day, period) & ~missing & ~instants.unreadable & ~instants.nonexistent

    def reject(wrong: np.ndarray, why: str | Callable[[int], str]) -> None:
        for index in np.flatnonzero(wrong).tolist():
            reasons[index].append(why if isinstance(why, str) else why(index))

    reject(missing, f"missing timestamp ({source.timestamp.said})")

    def reject_no_times(read: TimestampColumn, written: pa.Array, of: TimestampSettings, zone: str) -> None:
        form = " or ".join(of.formats_of(path))
        reject(
            read.unreadable,
            lambda at: f"{of.said}: {_quoted(written[at])} is no timestamp of the format {form}",
        )
        skipped = f"does not exist in {zone} (the clock skips it)"
        reject(read.nonexistent, lambda at: f"{of.said}: the local time {_quoted(written[at])} {skipped}")

    reject_no_times(instants, stamps, source.timestamp, schema.file_timezone)
    reject(outside, lambda at: f"day {day_of(int(instants.local_day[at]))} is outside the file's period, {period}")
    columns: dict[str, pa.Array] = {TIMESTAMP: instants.utc}
    for attribute, kind in schema.raw_attributes.items():
        if (given := source.given_type(attribute, path)) is not None:
            columns[attribute] = pa.repeat(pa.scalar(given, pa.string()), block.rows)
            continue
        raw = block.columns[source.columns[attribute]]
        if (of := source.times.get(attribute)) is not None:
            zone = of.timezone or schema.timezone
            read = read_timestamps(raw, of.formats_of(path), zone, later=later)
            reject_no_times(read, raw, of, zone)
            columns[attribute] = read.utc
        else:
            columns[attribute] = _typed(raw, attribute, kind, source, path, reasons)
        if kind is ValueType.STRING:
            _refuse_long(columns[attribute], source, source.columns[attribute], reasons)
        if attribute == schema.type_attribute or attribute in schema.key:
            what = "event type" if attribute == schema.type_attribute else "key"
            reject(as_mask(pc.is_null(raw)), f"missing {what} (column {source.columns[attribute]!r})")
    columns[FINER] = pa.array(instants.finer)
    columns[LINE] = pa.array(block.lines)
    columns[LOCAL_DAY] = pa.array(instants.local_day)
    columns[TWICE] = pa.array(instants.twice)
    events = pa.table(columns)
    rejected = list(block.rejected)
    if reasons:
        undated = missing | instants.unreadable | instants.nonexistent | outside
        rejected += [
            RejectedRow(
                line=int(block.lines[index]),
                reason="; ".join(reasons[index]),
                raw=block.raw(index),
                day=None if undated[index] else int(instants.local_day[index]),
            )
            for index in sorted(reasons)
        ]
        keep = np.ones(block.rows, dtype=bool)
        keep[list(reasons)] = False
        events = events.filter(pa.array(keep))
    return CheckedBlock(events, tuple(row.as_kept() for row in rejected))


def _typed(
    raw: pa.Array,
    attribute: str,
    kind: ValueType,
    source: SourceLayout,
    path: str,
    reasons: Mapping[int, list[str]],
) -> pa.Array:
    column, signs = source.columns[attribute], source.signs
    is_bool = (pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
    if kind is ValueType.BOOL and not any(is_one(raw.type) for is_one in is_bool):
        raise InputError(
            f"{path}: column {column!r} has the type {raw.type}, where the stream schema has bool "
            f"for {attribute!r}; change the type in the stream schema"
        )
    written = signs.with_point(raw) if kind.is_number else source.truths(raw) if kind is ValueType.BOOL else raw
    values, failed = cast_checked_to(written, ARROW_TYPES[kind])
    for index in np.flatnonzero(failed).tolist():
        hint = f" with `{signs.settings}`" if kind.is_number and signs.given else ""
        if kind.is_number and not hint and (settings := settings_for(str(plain(raw[index])))):
            hint = f"; it is a number with {settings} in `source` of the schema"
        reasons[index].append(f"column {column!r}: {_quoted(raw[index])} is no {kind.value}{hint}")
    return values


def _refuse_long(values: pa.Array, source: SourceLayout, column: str, reasons: Mapping[int, list[str]]) -> None:
    most = source.settings.longest_value
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    for index in np.flatnonzero(lengths > most).tolist():
        said = f"{_quoted(values[index])} has {lengths[index]:,} bytes, more than source.longest_value, {most:,}"
        reasons[index].append(f"column {column!r}: {said}")


def _outside(local_day: np.ndarray, period: Period) -> np.ndarray:
    first, last = period.first or date.min, period.last or date.max
    since, until = day_number(first) - period.before, day_number(last) + period.after
    outside: np.ndarray = (local_day < since) | (local_day > until)
    return outside


def _quoted(value: pa.Scalar) -> str:
    text = repr(plain(value)) if pa.types.is_string(value.type) else str(plain(value))
    return text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}…"
