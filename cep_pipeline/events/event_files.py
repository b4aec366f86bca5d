"""Events of files in memory, without Spark and warehouse: for a look at a pattern on a laptop."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.errors import InputError
from cep_pipeline.events.clock import SecondPass, rows_shown_twice, second_pass
from cep_pipeline.events.columns import EVENT_TYPE, SEQ, SEQ_PER_DAY, TIMESTAMP
from cep_pipeline.events.raw_files import UNBOUNDED, SourceFile, readable, refuse_other_formats
from cep_pipeline.events.readers import RawBlock, RejectedRow, open_rows, plain
from cep_pipeline.events.row_checks import FILE, FINER, LINE, LOCAL_DAY, check_rows, day_of
from cep_pipeline.events.schema import DataWarning, StreamSchema
from cep_pipeline.events.stream_document import (
    LONGEST_VALUE,
    TYPE_OF_FILE,
    SourceLayout,
    SourceSettings,
    TimestampSettings,
    find_columns,
    type_of_all,
)
from cep_pipeline.foreign_text import listed

EXAMPLES = 20
"""Rejected rows of a file that are kept."""
_EXAMPLES_NOTED = 3
_CODED = pa.dictionary(pa.int32(), pa.string())
_INDEX_OF_PANDAS = re.compile(r"__index_level_\d+__")
"""A column for the numbers of rows of a data frame, which has no name."""


@dataclass(frozen=True, eq=False)
class EventPlaces:
    """The places of events in the files that they were read from.

    `seqs` are the events, ascending; `file` has the number of the file of each, and `line` the line of a text file, or
    the row of a Parquet file, from 1.
    """

    files: tuple[str, ...]
    seqs: np.ndarray[Any, Any]
    file: np.ndarray[Any, Any]
    line: np.ndarray[Any, Any]

    @classmethod
    def sorted(
        cls, paths: Sequence[Path], seqs: np.ndarray[Any, Any], file: np.ndarray[Any, Any], line: np.ndarray[Any, Any]
    ) -> EventPlaces:
        """The places of events that come in any order."""
        order = np.argsort(seqs, kind="stable")
        return cls(tuple(map(str, paths)), seqs[order], file[order], line[order])

    @classmethod
    def in_parquet(cls, paths: Sequence[Path]) -> EventPlaces:
        """The places of the events of Parquet files of events, of which the column `seq` is read."""
        columns = [np.asarray(pq.read_table(path, columns=[SEQ], partitioning=None)[SEQ]) for path in paths]
        file = np.repeat(np.arange(len(paths)), [len(one) for one in columns])
        line = np.concatenate([np.arange(1, len(one) + 1) for one in columns])
        return cls.sorted(paths, np.concatenate(columns), file, line)

    def of(self, seqs: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the path and the line of each of some of the events."""
        rows = np.searchsorted(self.seqs, seqs.to_numpy())
        return pa.array(self.files).take(pa.array(self.file[rows])), pa.array(self.line[rows])

    def has_file(self, name: str) -> bool:
        """True if a file of this path, or of this name, was read."""
        return bool(self._files(name))

    def seq_at(self, name: str, line: int) -> int | None:
        """The event on a line of a file that is named by its path or name; None where none was read from there."""
        found = np.flatnonzero(np.isin(self.file, self._files(name)) & (self.line == line))
        return int(self.seqs[found[0]]) if len(found) == 1 else None

    def _files(self, name: str) -> list[int]:
        return [number for number, path in enumerate(self.files) if name in (path, Path(path).name)]


@dataclass(frozen=True)
class LoadedEvents:
    """Events of files in stream order with the columns of the schema, and what was left out of them.

    `rejected` counts the rows that break a rule of the schema, and `examples` has the first of each file, with its
    path. `notes` are sentences for a person about these rows, hours that come twice, and columns that the schema does
    not list. `places` are there where they were asked for.
    """

    events: pa.Table
    rejected: int
    notes: tuple[str, ...]
    examples: tuple[tuple[str, RejectedRow], ...] = ()
    places: EventPlaces | None = None


def load_events(
    schema: StreamSchema, paths: Sequence[Path], *, places: bool = False, columns: Collection[str] | None = None
) -> LoadedEvents:
    """Read files of a stream: raw ones of its source, or Parquet files of events that have `timestamp` and `seq`.

    With `places` it is kept on which line of which file each event stands. With `columns`, which have `timestamp` and
    `seq`, only these are read of Parquet files of events, and text is a dictionary. Raw rows are checked, ordered,
    freed of repeated keys and given their derived attributes as ingestion does, with nothing carried in; nothing is
    validated and nothing is published. A file that cannot be read or lacks a column, or files of both kinds, are an
    InputError.
    """
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file of events")
        refuse_other_formats(path, "parquet" if schema.source is None else schema.source.settings.format)
    present = {path: _columns_of(path) for path in paths if path.suffix == ".parquet"}
    ready = [path for path, names in present.items() if {TIMESTAMP, SEQ} <= set(names)]
    if not ready:
        return _read_raw(schema, paths, places)
    if len(ready) < len(paths):
        raise InputError(f"{ready[0]} holds events that are ready, the other files are raw: give files of one kind")
    for path in paths:
        find_columns(str(path), schema.arrow_schema.names, present[path])
    loaded = _read_ready(schema, paths, columns)
    return replace(loaded, places=EventPlaces.in_parquet(paths)) if places else loaded


def _columns_of(path: Path) -> list[str]:
    with readable(path):
        return [str(name) for name in pq.read_schema(path).names]


def _fitting(table: pa.Table, wanted: pa.Schema, path: Path) -> pa.Table:
    """The columns that are wanted, of their types, every event with its place in the stream."""
    events = table.select(wanted.names).cast(wanted)
    for column in events.columns:
        for chunk in column.chunks:  # text that is no UTF-8
            (chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk).validate(full=True)
    for name in (TIMESTAMP, SEQ):
        nulls = events.column(name).null_count
        if nulls:
            raise InputError(
                f"{path}: {nulls:,} of {events.num_rows:,} rows have no {name!r}; each event has its time and its "
                "number in the stream: write the file anew without these rows"
            )
    return events


def _read_ready(schema: StreamSchema, paths: Sequence[Path], columns: Collection[str] | None) -> LoadedEvents:
    fields = [one for one in schema.arrow_schema if columns is None or one.name in columns]
    texts = [] if columns is None else [one.name for one in fields if pa.types.is_string(one.type)]
    wanted = pa.schema([one.with_type(_CODED) if one.name in texts else one for one in fields])
    parts, no_fit = [], "the file does not fit the stream schema"
    for path in paths:
        with readable(path, no_fit), pq.ParquetFile(path, read_dictionary=texts) as file:  # one piece of each column
            read = file.read(wanted.names)
            for place, (name, kind) in enumerate(zip(read.column_names, read.schema.types, strict=True)):
                if name in texts and not pa.types.is_dictionary(kind):  # numbers, which are text in this stream
                    read = read.set_column(place, name, read.column(place).cast(pa.string()).dictionary_encode())
            parts.append(_fitting(read, wanted, path))
    events = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    return LoadedEvents(in_order(events, [TIMESTAMP, SEQ]), 0, ())


@dataclass(frozen=True)
class _CheckedRows:
    """The checked rows of a file or a data frame; `examples` are the first of those that are `rejected`."""

    events: list[pa.Table]
    rejected: int
    examples: list[RejectedRow]
    notes: list[str]

    def refused(self, word: str) -> str:
        """A sentence on the rejected rows, with the first of them by their `word`: line or row."""
        said = "; ".join(f"{word} {row.line}: {row.reason}" for row in self.examples[:_EXAMPLES_NOTED])
        return f"{_refused(self.rejected)}, such as {said}"


def _checked(
    schema: StreamSchema, blocks: Callable[[], Iterable[RawBlock]], where: str, second: SecondPass | None = None
) -> _CheckedRows:
    """Check rows, and once more where they tell which of them are of the second pass of an hour."""
    events: list[pa.Table] = []
    examples: list[RejectedRow] = []
    twice: list[pa.Table] = []
    rejected = 0
    for block in blocks():
        checked = check_rows(block, schema, UNBOUNDED, where, None if second is None else second.lines)
        events.append(checked.events)
        twice.append(rows_shown_twice(checked.events, schema))
        examples += checked.rejected[: EXAMPLES - len(examples)]
        rejected += len(checked.rejected)
    if second is None and twice:
        second = second_pass(pa.concat_tables(twice), schema, where)
        if len(second.lines):
            return _checked(schema, blocks, where, second)
    return _CheckedRows(events, rejected, examples, [] if second is None else [note for _, note in second.notes])


def _read_raw(schema: StreamSchema, paths: Sequence[Path], places: bool) -> LoadedEvents:
    source = schema.source
    if source is None:
        raise InputError(f"stream {schema.name!r} has no source: its schema does not say what its raw files look like")
    tables: list[pa.Table] = []
    notes: list[str] = []
    rejected = 0
    rows: list[tuple[str, RejectedRow]] = []
    for number, path in enumerate(sorted(paths)):
        dropped: dict[str, None] = {}
        read = _checked(schema, partial(_blocks, source, path, dropped), str(path))
        tables += (events.append_column(FILE, pa.array(np.full(events.num_rows, number))) for events in read.events)
        if dropped:
            notes.append(f"{path}: columns that the schema does not list are left out: {listed([*dropped])}")
        notes += read.notes
        if read.rejected:
            notes.append(f"{path}: {read.refused('line')}")
        rows += [(str(path), row) for row in read.examples]
        rejected += read.rejected
    if not tables:
        nothing = schema.arrow_schema.empty_table()
        return LoadedEvents(nothing, rejected, (*notes, "there are no events in the files"), tuple(rows))
    events, repeated = _ordered(schema, pa.concat_tables(tables), notes)
    found = None
    if places:
        found = EventPlaces.sorted(sorted(paths), *(events.column(name).to_numpy() for name in (SEQ, FILE, LINE)))
    loaded = schema.with_derived(events, ())
    return LoadedEvents(loaded, rejected + repeated, tuple(notes), tuple(rows), found)


def _refused(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'} rejected"


def read(schema: StreamSchema, source: Any) -> pa.Table:
    """Read events of a stream from files, or from a data frame, as ingestion does.

    Rows are checked, ordered, freed of repeated keys, numbered, and given their derived attributes. Times without a
    time zone are local times of the stream.

    Parameters
    ----------
    schema
        The stream. For files it says how they are written.
    source
        A path, several paths, or whatever has the Arrow C stream interface: a data frame of pandas or Polars, an Arrow
        table, a relation of DuckDB. The columns of a data frame are named as the schema's source names them, or as the
        attributes and `timestamp`. Integers as timestamps are microseconds since the epoch, unless the source says
        otherwise. Where the names of files tell the types, a data frame has a column `event_type`. With a column `seq`
        the events keep their numbers, and with a derived attribute its values.

    Returns
    -------
    pyarrow.Table
        The events in stream order, for `detect`.

    Raises
    ------
    InputError
        Something cannot be read, lacks a column, or has no row that fits the schema.

    Warns
    -----
    DataWarning
        Rows were rejected, or columns are left out; the message has examples.

    Examples
    --------
    >>> schema = StreamSchema.from_dict(
    ...     {"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}, "timezone": "America/New_York"}
    ... )
    >>> frame = pa.table({"timestamp": ["2024-03-04 09:30:00"], "kind": ["A"], "x": [1]})
    >>> read(schema, frame).column("timestamp")[0].as_py().isoformat()
    '2024-03-04T14:30:00+00:00'
    """
    if hasattr(source, "__arrow_c_stream__"):
        loaded = _read_table(schema, pa.table(source))
    else:
        several = isinstance(source, Iterable) and not isinstance(source, str | Mapping)
        paths = list(source) if several else [source]
        if not all(isinstance(one, str | Path) for one in paths):
            raise InputError(
                f"events are read from a path, several paths, or a data frame, not from {type(source).__name__}; "
                "schema.table(rows) takes rows: a mapping for each event"
            )
        loaded = load_events(schema, [Path(one) for one in paths])
    for note in loaded.notes:
        warnings.warn(note, DataWarning, stacklevel=2)
    if loaded.rejected and not loaded.events.num_rows:
        raise InputError(f"no event is left: {_refused(loaded.rejected)}: {'; '.join(loaded.notes)}")
    return schema.with_derived(loaded.events, loaded.events.column_names)


def _read_table(schema: StreamSchema, table: pa.Table) -> LoadedEvents:
    """Read the rows of a table, whose columns may be named as those of files or as the attributes."""
    layout = schema.source
    by_source = layout is not None and set(layout.listed) <= set(table.column_names)
    if layout is None or (not by_source and TIMESTAMP in table.column_names):
        named = {name: name for name in schema.raw_attributes}
        if schema.type_of_all is not None:
            named[EVENT_TYPE] = type_of_all(schema.type_of_all)
        elif layout is not None and layout.columns.get(EVENT_TYPE) == TYPE_OF_FILE:
            named[EVENT_TYPE] = TYPE_OF_FILE

        def of_table(name: str) -> TimestampSettings:
            is_number = name in table.column_names and pa.types.is_integer(table.schema.field(name).type)
            return TimestampSettings(column=[name], format={"*": ["epoch_us" if is_number else "iso"]})

        longest = LONGEST_VALUE if layout is None else layout.settings.longest_value
        settings = SourceSettings(format="parquet", path=["*"], longest_value=longest)
        layout = SourceLayout(settings, of_table(TIMESTAMP), named, {name: of_table(name) for name in schema.times})
    if layout.columns.get(EVENT_TYPE, "")[:1] == "{":  # a column tells the types of a data frame, if there is one
        if EVENT_TYPE in table.column_names:
            layout = replace(layout, columns={**layout.columns, EVENT_TYPE: EVENT_TYPE})
        elif layout.type_of_all is None:
            raise InputError(
                f"the data frame: column {EVENT_TYPE!r} is missing, which holds the types of the events; for files of "
                "this stream their names tell them"
            )
    find_columns("the data frame", layout.listed, table.column_names)
    kept = [one.name for one in schema.derived if one.name in table.column_names]
    used = {*layout.listed, SEQ, *kept}
    left_out = [name for name in table.column_names if name not in used and not _INDEX_OF_PANDAS.fullmatch(name)]
    notes = [f"columns that the schema does not list are left out: {listed(left_out)}"] if left_out else []
    columns = {name: _one_array(table.column(name)) for name in layout.listed}
    lines = np.arange(1, table.num_rows + 1)
    block = RawBlock(columns, lines, lambda row: str({name: plain(column[row]) for name, column in columns.items()}))
    checked = _checked(replace(schema, source=layout), lambda: [block], "the data frame")
    notes += checked.notes
    (events,) = checked.events
    own = pa.array(events.column(LINE).to_numpy() - 1)
    events = events.append_column(FILE, pa.repeat(0, events.num_rows))
    for name in (*kept, *([SEQ] if SEQ in table.column_names else [])):
        events = events.append_column(name, table.column(name).take(own))
    if checked.rejected:
        notes.append(checked.refused("row"))
    events, repeated = _ordered(schema, events, notes)
    return LoadedEvents(schema.with_derived(events, kept), checked.rejected + repeated, tuple(notes))


def _ordered(schema: StreamSchema, events: pa.Table, notes: list[str]) -> tuple[pa.Table, int]:
    """Checked events in stream order, numbered, without those whose key came before, and the number of these."""
    numbered = SEQ in events.column_names
    events = in_order(events.combine_chunks(), [TIMESTAMP, *([SEQ] if numbered else [FINER, FILE]), LINE])
    repeated = 0
    if schema.key and events.num_rows:
        own = _are_first_of_their_keys(events, schema.key)
        repeated = int((~own).sum())
    if repeated:
        events = events.filter(pa.array(own))
        notes.append(f"{_refused(repeated)}, whose key ({', '.join(schema.key)}) came before")
    return (events if numbered else events.append_column(SEQ, pa.array(_seqs(events)))), repeated


def in_order(events: pa.Table, columns: list[str]) -> pa.Table:
    """The events sorted by these columns, the first of them the timestamp; nothing to do where they already are."""
    keys = [events.column(TIMESTAMP).cast(pa.int64()).to_numpy()]
    keys += [events.column(column).to_numpy() for column in columns[1:]]
    tied = np.ones(max(events.num_rows - 1, 0), dtype=bool)  # each row with the one behind it, by the columns before
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return events.take(pa.array(np.lexsort(keys[::-1])))
        tied &= key[1:] == key[:-1]
    return events


def _are_first_of_their_keys(events: pa.Table, key: Sequence[str]) -> np.ndarray:
    """True for events that are the first with their key, in order of arrival (`_file` and `_line`).

    A timestamp is compared to the nanosecond.
    """
    arrival = np.empty(events.num_rows, np.int64)
    arrival[np.lexsort([events.column(LINE).to_numpy(), events.column(FILE).to_numpy()])] = np.arange(events.num_rows)
    names = [*key, *([FINER] if TIMESTAMP in key else [])]
    firsts = events.append_column("_arrival", pa.array(arrival)).group_by(names).aggregate([("_arrival", "min")])
    return np.isin(arrival, firsts.column("_arrival_min"))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column of a data frame in one array, of a type that files may have."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        column = column.cast(pa.string())
    array = column.combine_chunks()
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array


def _blocks(source: SourceLayout, path: Path, dropped: dict[str, None]) -> Iterator[RawBlock]:
    """The blocks of a raw file; at its end the columns that the schema does not list are added to `dropped`."""
    name = path.absolute().as_posix()  # its folders may tell columns
    with open_rows(SourceFile(name, str(path), path.stat().st_size, UNBOUNDED), source) as rows:
        yield from rows
        dropped.update(dict.fromkeys(rows.dropped_columns))


def _seqs(events: pa.Table) -> np.ndarray:
    """The seq of each event, by its local day and its position in it."""
    days = events.column(LOCAL_DAY).to_numpy().astype(np.int64)
    position = np.empty(len(days), dtype=np.int64)
    order = np.argsort(days, kind="stable")
    starts = np.searchsorted(days[order], days[order])
    position[order] = np.arange(len(days)) - starts
    seqs: np.ndarray = (days + day_of(0).toordinal()) * SEQ_PER_DAY + position
    return seqs
