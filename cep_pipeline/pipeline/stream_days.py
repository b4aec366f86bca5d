"""The days of a stream: those that raw files may hold, those that are stale, and those that were left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import SourceFile, files_of_day, fingerprint_file, periods_of
from cep_pipeline.pipeline.configuration import Stream
from cep_pipeline.storage import folder_exists

if TYPE_CHECKING:
    from cep_pipeline.events.raw_files import RawFile
    from cep_pipeline.events.stream_document import SourceLayout
    from cep_pipeline.warehouse.records import StaleDay
    from cep_pipeline.warehouse.stream_tables import StreamTables


def days_between(first: date, last: date) -> list[date]:
    """All days from the first to the last, both included."""
    if last < first:
        raise InputError(f"the last day {last} is before the first day {first}")
    return [first + timedelta(days=offset) for offset in range((last - first).days + 1)]


def days_with_files(stream: Stream) -> list[date]:
    """The days that the raw files present may hold, in order.

    An InputError says that the data folder is missing or holds no file of the stream, or that names do not tell the
    days.
    """
    source = _source(stream)
    periods = periods_of(source.paths, stream.data)
    if not periods:
        templates = ", ".join(template.text for template in source.paths)
        raise InputError(f"{stream.data}: no raw files of stream {stream.name!r} in it; they are named {templates}")
    days: set[date] = set()
    for period in periods:
        if period.first is None or period.last is None:
            raise InputError(
                f"stream {stream.name!r}: the names of its files do not tell their days; say which: "
                "--day YYYY-MM-DD, or --from and --to (`cep preview` shows the days in them)"
            )
        days.update(days_between(period.first, period.last))
    return sorted(days)


def has_files(stream: Stream, day: date) -> bool:
    """True if a raw file is there that may hold events of the day."""
    files, _ = files_of_day(_source(stream).paths, stream.data, day)
    return bool(files)


def days_without_files(stream: Stream, tables: StreamTables, days: Iterable[date]) -> list[str]:
    """Return a sentence for each published day that is not among `days`, those that the present raw files may hold."""
    there = set(days)
    return [
        f"{record.day} is published, and {', '.join(file.name for file in record.fingerprint.raw_files)} is no longer "
        f"in {stream.data}: the day is left as it is; `cep run --stream {stream.name} --day {record.day}` "
        "publishes it anew as on_missing says"
        for record in tables.days()
        if record.day not in there and record.fingerprint.raw_files
    ]


def raw_files(stream: Stream, days: Iterable[date]) -> dict[date, list[RawFile]]:
    """The raw files of each day with size and hash; a file that serves many days is read once."""
    source = _source(stream)
    known: dict[SourceFile, RawFile] = {}
    found: dict[date, list[RawFile]] = {}
    for day in days:
        files, _ = files_of_day(source.paths, stream.data, day)
        for file in files:
            if file not in known:
                known[file] = fingerprint_file(file)
        found[day] = [known[file] for file in files]
    return found


def find_stale_days(stream: Stream, tables: StreamTables) -> list[StaleDay]:
    """The published days whose inputs have changed: raw files, schema, carry-in, pattern sets, events.

    Where the data folder is not there at all (an archive that is mounted on another machine), the raw files count as
    unchanged.
    """
    published = [record.day for record in tables.days()]
    files: Mapping[date, list[RawFile]] | None = None
    if stream.schema.source is not None and folder_exists(stream.data):
        files = raw_files(stream, published)
    return tables.stale_days(
        raw_files=files,
        schema=stream.schema.digest,
        pattern_sets={pattern_set.name: pattern_set.version for pattern_set in stream.pattern_sets},
        patterns={pattern_set.name: pattern_set.statements for pattern_set in stream.pattern_sets},
    )


def _source(stream: Stream) -> SourceLayout:
    source = stream.schema.source
    if source is None:
        raise InputError(f"stream {stream.name!r}: its schema has no source, so there are no raw files to read")
    return source
