"""An Iceberg table as its readers see it: the metadata file, the columns, and the data files of a snapshot.

What is published is read here and written by pyiceberg (`commits`, `catalog`, `iceberg_tables`). Importing that takes
longer than all else that a command such as `cep status` does, and readers need little of it: every table has identity
partitions and no delete files. Lists of files are Avro, which fastavro reads.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.foreign_text import listed
from cep_pipeline.lazy_names import late_module
from cep_pipeline.storage import damage_errors, former_names, with_former_names
from cep_pipeline.warehouse.records import EventsFile

if TYPE_CHECKING:
    from cep_pipeline.warehouse.layout import TableLayout

fastavro = late_module("fastavro")

_EPOCH = date(1970, 1, 1).toordinal()
_DELETED = 2
"""Status of an entry of a manifest whose file its snapshot removed."""
_DATA = 0
"""Content of manifests and files with rows; the others have deletes, which no table of the warehouse has."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A data file of a table, by the names that pyiceberg's `DataFile` has.

    `partition` has the values of the partition columns, of a date the days since 1970-01-01. The bounds of a column's
    values stand by its field id, as Iceberg serializes them; so do the numbers of rows without a value, where they are
    known.
    """

    file_path: str
    partition: tuple[Any, ...]
    record_count: int
    file_size_in_bytes: int
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    null_value_counts: Mapping[int, int]


_ALWAYS_THERE = {"events": ("timestamp", "seq"), "matches": ("pattern", "match_id", "start_ts", "end_ts", "bindings")}
"""Table -> columns of every version of it, beside those of its partitions: metadata without one is damaged."""


ReadFile = Callable[[str], bytes]
"""Reads a file that tells of others, whole; a DamagedError says that it is not what was written."""

Unit = tuple[str, date]
"""Pattern set (empty where a table has none) and day."""


class PublishedTable:
    """A table as one of its metadata files tells of it; `read` reads the lists of files that this one names."""

    def __init__(
        self, stream: str, name: str, metadata_location: str, metadata: Mapping[str, Any], read: ReadFile
    ) -> None:
        self.stream = stream
        self.name = name
        self.metadata_location = metadata_location
        self.location = str(metadata["location"])
        self.updated_at = metadata["last-updated-ms"] / 1000
        """The time at which the table was changed last, in seconds since the epoch."""
        self._read = read
        self._snapshots = {one["snapshot-id"]: str(one["manifest-list"]) for one in metadata.get("snapshots", ())}
        self._totals = {one["snapshot-id"]: one.get("summary", {}) for one in metadata.get("snapshots", ())}
        current = metadata.get("current-snapshot-id")
        self.current_snapshot_id: int | None = None if current in (None, -1) else int(current)
        if self.current_snapshot_id is not None and self.current_snapshot_id not in self._snapshots:
            raise ValueError("its current snapshot is not among its snapshots")
        (schema,) = (one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
        self._fields = {one["id"]: one for one in schema["fields"]}
        self._ids = {one["name"]: number for number, one in self._fields.items()}
        self._specs = {one["spec-id"]: tuple(one["fields"]) for one in metadata["partition-specs"]}
        partitions = {one["name"]: one["source-id"] for one in self._specs[metadata["default-spec-id"]]}
        self.partitions = tuple(partitions)
        lost = [one for one in _ALWAYS_THERE.get(name, ()) if one not in self._ids]
        lost += [one for one, number in partitions.items() if self._ids.get(one) != number]
        if lost:
            raise ValueError(f"its columns lack {', '.join(lost)}")
        mapping = json.loads(metadata.get("properties", {}).get("schema.name-mapping.default", "[]"))
        had = {
            name: self._fields[one["field-id"]]["name"]
            for one in mapping
            if one.get("field-id") in self._fields
            for name in one["names"]
        }
        self.present_names: Mapping[str, str] = had | {name: name for name in self._ids}
        """Every name that a column has or had -> its name now."""
        former: dict[str, list[str]] = {}
        for had_name, now in self.present_names.items():
            former.setdefault(now, []).extend([had_name] if had_name != now else [])
        fields = (pa.field(one["name"], _type(one["type"])) for one in self._fields.values())
        self.columns = pa.schema([with_former_names(one, former[one.name]) for one in fields])
        """The columns in the types that its files have; they know their former names."""

    @classmethod
    def read(cls, stream: str, name: str, metadata_location: str, read: ReadFile) -> PublishedTable:
        """Read a metadata file; the DamagedError of one that has been removed has FileNotFoundError as cause."""
        with damage_errors(metadata_location):
            content = read(metadata_location)
            if metadata_location.endswith(".gz.metadata.json"):
                content = gzip.decompress(content)
            return cls(stream, name, metadata_location, json.loads(content), read)

    def check_names(self, columns: pa.Schema) -> None:
        """Refuse columns that have been renamed since; files that were written after that have only the new name."""
        for name in columns.names:
            now = self.present_names.get(name, name)
            if now != name:
                raise InputError(
                    f"stream {self.stream}: attribute {name!r} has been renamed to {now!r}, and its old name stays "
                    f"with the days that were published under it: use the new name in the stream schema (`{now}: "
                    f"{{type: …, was: {name}}}`), or give a new attribute another name"
                )

    def renamed_columns(self, layout: TableLayout) -> dict[str, str]:
        """Return the columns that have another name in a layout: name in the table -> name in the layout.

        A column of another type, or with former names that do not fit those of the published columns, is an InputError.
        """
        published, now = self.columns, self.present_names
        found = {}
        for field in layout.schema:
            former = former_names(field)
            olds = {now[name] for name in former if name in now} - {field.name}
            there = field.name in published.names
            said = f"stream {self.stream}: attribute {field.name!r} was {' or '.join(map(repr, former))}"
            if former and not olds and not there:
                raise InputError(
                    f"{said}, and the published {layout.name} have no such column; there are: "
                    f"{listed(published.names)}. Correct `was` in the stream schema, or leave it out for a new "
                    "attribute"
                )
            if olds and len(olds) + there > 1:
                both = sorted({*olds, *([field.name] if there else [])})
                raise InputError(
                    f"{said}, and the published {layout.name} have columns {' and '.join(map(repr, both))}: they "
                    "cannot become one. Leave `was` out, or give the attribute a name that is not published yet"
                )
            for old in olds:
                self._check_type(field, published.field(old), layout)
                if now.get(field.name, old) == old:  # else the name is another column's, which is said later
                    found[old] = field.name
        return found

    def missing_columns(self, layout: TableLayout) -> list[pa.Field]:
        """Return the columns of a layout that the table lacks, once names and types of the others are checked.

        A column of another type than the published one, or with a name that another one had, is an InputError.
        """
        self.check_names(layout.schema)
        for field in layout.schema:
            if field.name in self.columns.names:
                self._check_type(field, self.columns.field(field.name), layout)
        return [field for field in layout.schema if field.name not in self.columns.names]

    def _check_type(self, field: pa.Field, published: pa.Field, layout: TableLayout) -> None:
        as_text = field.type == pa.uuid() and published.type == pa.string()  # a table of ids keeps the type that it had
        if published.type != _small(field.type) and not as_text:
            was = "" if field.name == published.name else f", which was {published.name!r},"
            before, after = (_TYPE_NAMES.get(str(kind), str(kind)) for kind in (published.type, field.type))
            raise InputError(
                f"stream {self.stream}: attribute {field.name!r}{was} is {before} in the published {layout.name}, and "
                f"{after} in the stream schema; an attribute keeps its type: give the new one another name, or the "
                "stream another name"
            )

    def has_snapshot(self, snapshot_id: int) -> bool:
        """True unless the snapshot has been expired."""
        return snapshot_id in self._snapshots

    def files(
        self,
        day_column: str,
        first: date | None = None,
        last: date | None = None,
        *,
        equal: Mapping[str, str] | None = None,
        snapshot_id: int | None = None,
    ) -> list[PublishedFile]:
        """Return the data files of some days, and of other partition values, in a snapshot (None: the current)."""
        snapshot_id = self.current_snapshot_id if snapshot_id is None else snapshot_id
        if snapshot_id is None:
            return []
        wanted: dict[str, tuple[Any, Any]] = {column: (value, value) for column, value in (equal or {}).items()}
        if first is not None or last is not None:
            wanted[day_column] = (first and first.toordinal() - _EPOCH, last and last.toordinal() - _EPOCH)
        found: list[PublishedFile] = []
        for manifest in self._manifests(snapshot_id):
            with damage_errors(self._snapshots[snapshot_id]):
                spec = self._specs[manifest["partition_spec_id"]]
                ranges = [wanted.get(one["name"], (None, None)) for one in spec]
                if manifest["content"] != _DATA or not self._may_hold(spec, manifest["partitions"], ranges):
                    continue
                path = manifest["manifest_path"]
            with damage_errors(path):
                entries = [one for one in self._records(path) if one["status"] != _DELETED]
                counted = len(entries), sum(one["data_file"]["record_count"] for one in entries)
                _check_numbers("the manifest list", counted, _numbers_of(manifest))
                found += _files_of(entries, ranges)
        return found

    def unit_of(self, file: PublishedFile) -> Unit:
        """Return the unit of a file, of a table that has days."""
        values = dict(zip(self.partitions, file.partition, strict=True))
        return values.get("pattern_set", ""), day_of(values["final_day" if "final_day" in values else "day"])

    def _manifests(self, snapshot_id: int) -> list[dict[str, Any]]:
        """The entries of a snapshot's manifest list, which are as many files and rows as the snapshot says."""
        path, said = self._snapshots[snapshot_id], self._totals[snapshot_id]
        with damage_errors(path):
            manifests = self._records(path)
            numbers = [_numbers_of(one) for one in manifests if one["content"] == _DATA]
            if "total-data-files" in said and "total-records" in said and None not in numbers:
                found = tuple(sum(one[at] for one in numbers if one is not None) for at in (0, 1))
                _check_numbers("the snapshot", found, (int(said["total-data-files"]), int(said["total-records"])))
        return manifests

    def _records(self, path: str) -> list[dict[str, Any]]:
        records: list[Any] = list(fastavro.reader(io.BytesIO(self._read(path))))
        return records

    def _may_hold(self, spec: Iterable[Mapping[str, Any]], said: Any, ranges: Iterable[tuple[Any, Any]]) -> bool:
        """Return False if the bounds of a manifest's partitions say that it has no file of these ranges."""
        for field, bounds, (least, most) in zip(spec, said or (), ranges, strict=False):
            kind = self._fields[field["source-id"]]["type"]
            if kind not in _PARTITION_VALUES or bounds["lower_bound"] is None or bounds["upper_bound"] is None:
                continue
            lower, upper = (_PARTITION_VALUES[kind](bounds[end]) for end in ("lower_bound", "upper_bound"))
            if (least is not None and upper < least) or (most is not None and lower > most):
                return False
        return True

    def bounds(self, file: PublishedFile, column: str) -> tuple[int, int]:
        """Return the least and the greatest value of a column of numbers or timestamps, as a manifest says them."""
        number = self._ids[column]
        with damage_errors(file.file_path):
            return bound(file.lower_bounds[number]), bound(file.upper_bounds[number])

    def may_have(self, file: PublishedFile, column: str) -> bool:
        """Return False if the manifest says that no row of a file has a value of a column, or the table has none."""
        number = self._ids.get(column)
        return number is not None and file.null_value_counts.get(number, 0) < file.record_count

    def events_files(self, first: date | None, last: date | None, snapshot_id: int | None) -> list[EventsFile]:
        """Return the files of events of the days from first to last (both in, None: open) in stream order."""
        files = self.files("day", first, last, snapshot_id=snapshot_id)
        return in_stream_order(files, self._ids["timestamp"], self._ids["seq"])


def in_stream_order(files: Iterable[Any], timestamp_id: int, seq_id: int) -> list[EventsFile]:
    """Return files of events (`PublishedFile`, or pyiceberg's `DataFile`) as readers take them, in stream order.

    The ids are those of the fields of the two columns.
    """

    def point(bounds: Mapping[int, bytes]) -> tuple[int, int]:
        return bound(bounds[timestamp_id]), bound(bounds[seq_id])

    return sorted(
        (
            EventsFile(
                file.file_path,
                day_of(file.partition[0]),
                file.record_count,
                file.file_size_in_bytes,
                point(file.lower_bounds),
                point(file.upper_bounds),
            )
            for file in files
        ),
        key=lambda file: file.order,
    )


def day_of(partition: int) -> date:
    """Return the day that a file's partition says."""
    return date.fromordinal(_EPOCH + partition)


def bound(serialized: bytes) -> int:
    """Return a bound of a long or a timestamp in microseconds: both are serialized alike."""
    return int(struct.unpack("<q", serialized)[0])


_PARTITION_VALUES = {
    "date": lambda serialized: struct.unpack("<i", serialized)[0],
    "string": lambda serialized: serialized.decode(),
}
"""Type of a partition column -> what makes its value of a serialized bound."""


def _numbers_of(manifest: Mapping[str, Any]) -> tuple[int, int] | None:
    """The files and rows that a manifest list says of a manifest; None where another engine has not written them."""
    numbers = [manifest.get(f"{kind}_{of}_count") for of in ("files", "rows") for kind in ("added", "existing")]
    counts = [number for number in numbers if number is not None]
    return (counts[0] + counts[1], counts[2] + counts[3]) if len(counts) == len(numbers) else None


def _check_numbers(whose: str, found: tuple[int, ...], said: tuple[int, int] | None) -> None:
    if said is not None and found != said:
        raise ValueError(f"{whose} says {said[0]} files with {said[1]} rows, and it lists {found[0]} with {found[1]}")


def _files_of(entries: Iterable[Mapping[str, Any]], ranges: list[tuple[Any, Any]]) -> Iterator[PublishedFile]:
    """The files of a manifest whose partition values are in these ranges."""
    for entry in entries:
        file = entry["data_file"]
        if file.get("content", _DATA) != _DATA or not file["record_count"]:
            continue
        values = tuple(map(_ordinal, file["partition"].values()))
        if all(_is_in(value, *wanted) for value, wanted in zip(values, ranges, strict=True)):
            yield PublishedFile(
                file["file_path"],
                values,
                file["record_count"],
                file["file_size_in_bytes"],
                _by_id(file["lower_bounds"]),
                _by_id(file["upper_bounds"]),
                _by_id(file.get("null_value_counts")),
            )


def _ordinal(value: Any) -> Any:
    """A partition value; of a date, the days since 1970-01-01."""
    return value.toordinal() - _EPOCH if isinstance(value, date) else value


def _is_in(value: Any, least: Any, most: Any) -> bool:
    if least is None and most is None:
        return True
    return value is not None and (least is None or least <= value) and (most is None or value <= most)


def _by_id(pairs: Iterable[Mapping[str, Any]] | None) -> dict[int, Any]:
    return {one["key"]: one["value"] for one in pairs or ()}


_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "binary": pa.large_binary(),
}


def _type(kind: Any) -> pa.DataType:
    """Return the type that a column of an Iceberg type has in files."""
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    if isinstance(kind, dict) and kind["type"] == "list":
        return pa.list_(_type(kind["element"]))
    if isinstance(kind, dict) and kind["type"] == "struct":
        return pa.struct([pa.field(field["name"], _type(field["type"])) for field in kind["fields"]])
    raise CepError(f"a column has the type {kind}, which no table of the warehouse has")


_TYPE_NAMES = {"double": "float64", "list<element: double>": "list<float64>", "list<item: double>": "list<float64>"}
"""Name of a type in Arrow -> its name in a stream schema, where they differ."""


def _small(kind: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets and plain field names: what the layouts and the files have."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _small(field.type)) for field in kind])
    return kind
