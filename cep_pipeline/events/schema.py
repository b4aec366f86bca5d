"""`StreamSchema`: what the events of a stream are, whatever file they come from.

The source layout (files, columns, time zone, key, derived attributes) stands in `events/stream_document.py` and is part
of the same YAML file.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Required

import numpy as np
import pyarrow as pa
from typing_extensions import TypedDict

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import ARROW_TYPES, DAY, EVENT_TYPE, ORDER_COLUMNS, SEQ, TIMESTAMP
from cep_pipeline.events.derived import Carry, derive
from cep_pipeline.events.timestamps import INSTANT, check_timezone, read_timestamps
from cep_pipeline.foreign_text import did_you_mean, html_table, listed
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.storage import digest_of

if TYPE_CHECKING:
    from cep_pipeline.events.stream_document import (
        DerivedAttribute,
        DerivedSettings,
        Quality,
        SourceLayout,
        StreamDocument,
        TimestampSettings,
    )

OnMissing = Literal["error", "empty", "skip"]


class _Misstated(InputError):
    """A rule that a stream schema breaks, and the setting that breaks it."""

    def __init__(self, message: str, location: tuple[int | str, ...] = ()) -> None:
        super().__init__(message)
        self.location = location


class PlainSchema(TypedDict, total=False):
    """The values of which `StreamSchema.from_dict` makes a schema."""

    name: str
    base_type: str | None
    type_attribute: str | None
    attributes: Required[Mapping[str, Literal["int64", "float64", "bool", "string", "timestamp", "list<float64>"]]]
    types: list[str | int] | None
    key: list[str]
    on_missing: OnMissing
    timezone: str
    pattern_timezone: str | None


PlainSchema.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]


class DataWarning(UserWarning):
    """Something about data that were read in part: rejected rows, columns that are left out."""


@dataclass(frozen=True)
class StreamSchema:
    """The events of a stream: their type, their attributes and what identifies them.

    Parameters
    ----------
    name
        Name of the stream; part of every match id and of the warehouse's namespace.
    base_type
        A type that every event also has, or None.
    type_attribute
        The attribute whose text is an event's type.
    attributes
        Type of every attribute of a published event, the type attribute and derived ones included; `timestamp` and
        `seq` are no attributes, but can be referenced like them.
    types
        All event types, where the stream has a closed list of them; None accepts any.
    key
        Attributes (or `timestamp`) that identify an event of a day: a later row of the day with the same key is a
        duplicate. Empty: there are no duplicates.
    on_missing
        What a day without files is: an `error`, an `empty` day, or a day to `skip`.
    timezone, pattern_timezone
        IANA names: the zone of the stream's days, and that of the clock of patterns, None where it is the same.
    times
        Attributes that are times. They are int64 to patterns: microseconds since the epoch.
    source
        Layout of the raw files; None for a stream that is given as rows.
    derived
        The attributes that are computed in preprocessing.
    quality
        What is asked of the events of a day, or None.

    Raises
    ------
    InputError
        A field that breaks its rule; the message names it.

    Examples
    --------
    >>> schema = StreamSchema.from_dict(
    ...     {"base_type": "Trade", "type_attribute": "symbol", "attributes": {"symbol": "string", "price": "float64"}}
    ... )
    >>> schema.table([{"timestamp": 5, "symbol": "SPY"}, {"timestamp": 2, "symbol": "SPY", "price": 1.5}]).to_pydict()[
    ...     "price"
    ... ]
    [1.5, None]
    """

    name: str
    base_type: str | None
    type_attribute: str
    attributes: Mapping[str, ValueType]
    types: tuple[str, ...] | None = None
    key: tuple[str, ...] = ()
    on_missing: OnMissing = "error"
    timezone: str = "UTC"
    source: SourceLayout | None = None
    derived: tuple[DerivedAttribute, ...] = ()
    quality: Quality | None = None
    pattern_timezone: str | None = None
    times: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", dict(self.attributes))
        if not self.name:
            raise self._error("a stream needs a name", "name")
        if self.base_type == "":
            raise self._error("base_type must be the name of a type", "base_type")
        self._check_names()
        if self.type_attribute not in self.raw_attributes:
            hint = did_you_mean(str(self.type_attribute), self.raw_attributes)
            raise self._error(
                f"type_attribute {self.type_attribute!r} is not among the attributes{hint}", "type_attribute"
            )
        if (kind := self.type_names[self.type_attribute]) not in ("string", "int64"):
            raise self._error(
                f"type_attribute {self.type_attribute!r} must be string or int64, not {kind}", "type_attribute"
            )
        if self.types is not None and (len(set(self.types)) < len(self.types) or "" in self.types):
            raise self._error("types: each type has a name and is listed once", "types")
        for place, name in enumerate(self.key):
            self._check_known(name, [*self.raw_attributes, TIMESTAMP], "key", "key", place)
        for place, expected in enumerate(self.quality.expectations if self.quality else ()):
            where = "quality", "expectations", place
            self._check_known(expected.column, self.raw_attributes, "expectation on", *where)
            if expected.has_bounds and self.type_names[expected.column] not in ("int64", "float64"):
                raise self._error(f"expectation on {expected.column!r}: bounds are for int64 and float64", *where)
        for clock, zone in (("timezone", self.timezone), ("pattern_timezone", self.clock_timezone)):
            try:
                check_timezone(zone)
            except InputError as error:
                raise self._error(str(error), clock) from error

    def _check_names(self) -> None:
        """All names must be columns of one table, which knows no case and has a column `day`."""
        owners: dict[str, str] = {}
        for name, kind in self.type_names.items():
            folded, said = name.lower(), ""
            if folded in (DAY, TIMESTAMP, SEQ, "") or name.startswith("_"):
                said = "this name belongs to the engine"
            elif folded in owners:
                said = f"a name of {owners[folded]!r} too, and names differ in more than case"
            if said and name in self.raw_attributes:
                column = name if self.source is None else self.source.columns.get(name, name)
                raise self._error(
                    f"attribute {name!r}: {said}; give it another name and name its source column beside the type: "
                    f"write for example `source_{folded.strip('_')}: {{type: {kind}, column: {column}}}`",
                    "attributes",
                    name,
                )
            if said:
                raise self._error(f"attribute {name!r}: {said}; write another name for it", "derived", name)
            owners[folded] = name

    def _check_known(self, name: str, choices: Collection[str], what: str, *location: int | str) -> None:
        if name not in choices:
            hint = did_you_mean(name, choices) or f"; there are: {listed([*choices])}"
            raise self._error(f"{what} {name!r} is no attribute that is read{hint}", *location)

    def __repr__(self) -> str:
        attributes = ", ".join(f"{name}: {kind}" for name, kind in self.type_names.items())
        return f"<StreamSchema {self.name}: {attributes}>"

    def _repr_html_(self) -> str:
        made_of = {one.name: f"{one.function} of {one.of}" for one in self.derived}
        rows = [
            (name, kind, "the type of an event" if name == self.type_attribute else made_of.get(name, ""))
            for name, kind in self.type_names.items()
        ]
        return html_table(("attribute", "type", ""), rows, f"stream {self.name}, {self.timezone}")

    def _error(self, message: str, *location: int | str) -> _Misstated:
        return _Misstated(f"stream {self.name!r}: {message}", location)

    @classmethod
    def load(cls, path: str | Path) -> StreamSchema:
        """Read a stream schema with its source layout from a YAML file (see `streams/`).

        Raises
        ------
        InputError
            The file is missing, is no YAML, or breaks a rule; the message names file and line.
        """
        from cep_pipeline.documents import example_at, line_at, load_document
        from cep_pipeline.events.stream_document import StreamDocument

        document = load_document(Path(path), StreamDocument, "stream schema")
        try:
            return schema_of(document)
        except _Misstated as fault:
            example = "" if "write " in str(fault) else example_at(StreamDocument, fault.location)
            raise InputError(f"{path}:{line_at(Path(path), fault.location)}: {fault}{example}") from fault

    @classmethod
    def infer(
        cls,
        path: str | Path,
        *,
        timezone: str | None = None,
        name: str | None = None,
        time_column: str | None = None,
        type_column: str | None = None,
    ) -> StreamSchema:
        """Make the schema that `cep init --data` proposes for a file of CSV, JSON lines or Parquet, or an access log.

        Times that do not say their zone are in `timezone`, and need one. The name is made from that of the file, and
        the columns with the time and the type are found by their names and values, where they are not given.
        """
        from cep_pipeline.events.inference import infer_schema
        from cep_pipeline.events.stream_document import StreamDocument

        made = infer_schema(Path(path), timezone=timezone, name=name, time_column=time_column, type_column=type_column)
        return schema_of(StreamDocument.model_validate(made.document))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str = "stream") -> StreamSchema:
        """Make a schema of plain values, for events that are given as rows.

        Parameters
        ----------
        data
            `attributes` (name to one of int64, float64, bool, string, timestamp, list<float64>), `type_attribute` or
            `base_type`, and optionally `types`, `key`, `on_missing`, `timezone`, `pattern_timezone`, `name`. Without
            `type_attribute` an attribute `event_type` is added that holds the type; it is the `base_type` where no
            event says another.
        name
            The stream's name where `data` has none.

        Raises
        ------
        InputError
            A field that is missing, unknown or wrong.
        """
        from cep_pipeline.documents import check_form

        said = f"stream {name!r}"
        check_form(PlainSchema, dict(data), "no stream schema", said, "see the help of StreamSchema.from_dict")
        base_type, type_attribute = data.get("base_type"), data.get("type_attribute")
        if type_attribute is None and base_type is None:
            raise InputError(
                f"{said}: type_attribute is missing: name the attribute that holds the type of an event, or "
                "give base_type, the one type of all"
            )
        types = data.get("types") or ([base_type] if type_attribute is None else None)
        added = {} if type_attribute else {EVENT_TYPE: "string"}
        return cls(
            name=data.get("name", name),
            base_type=base_type,
            type_attribute=type_attribute or EVENT_TYPE,
            attributes={name: _value_type(kind) for name, kind in {**added, **data["attributes"]}.items()},
            times=tuple(name for name, kind in data["attributes"].items() if kind == TIMESTAMP),
            types=None if types is None else tuple(map(str, types)),
            key=tuple(data.get("key", ())),
            on_missing=data.get("on_missing", "error"),
            timezone=data.get("timezone", "UTC"),
            pattern_timezone=data.get("pattern_timezone"),
        )

    @property
    def file_timezone(self) -> str:
        """The zone of times in the raw files that do not say theirs."""
        return (None if self.source is None else self.source.timestamp.timezone) or self.timezone

    @property
    def source_table(self) -> str | None:
        """The Iceberg table that holds the rows, None where raw files do."""
        return None if self.source is None else self.source.settings.table

    @property
    def clock_timezone(self) -> str:
        """The zone of the clock that patterns read."""
        return self.pattern_timezone or self.timezone

    @cached_property
    def referable(self) -> Mapping[str, ValueType]:
        """The names that a pattern can reference: the attributes, and `timestamp` and `seq` as int64."""
        return {**self.attributes, **ORDER_COLUMNS}

    @cached_property
    def type_names(self) -> Mapping[str, str]:
        """The type of every attribute as a schema writes it."""
        return {name: TIMESTAMP if name in self.times else kind.value for name, kind in self.attributes.items()}

    def arrow_type(self, attribute: str) -> pa.DataType:
        """Return the type in which an attribute is stored."""
        return INSTANT if attribute in self.times else ARROW_TYPES[self.attributes[attribute]]

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Columns of the stream's events: `timestamp`, `seq`, then the attributes."""
        return pa.schema(
            [
                pa.field(TIMESTAMP, INSTANT),
                pa.field(SEQ, pa.int64()),
                *(pa.field(name, self.arrow_type(name)) for name in self.attributes),
            ]
        )

    @cached_property
    def raw_attributes(self) -> Mapping[str, ValueType]:
        """The attributes that are read from the raw files: all but the derived ones."""
        names = {derived.name for derived in self.derived}
        return {name: kind for name, kind in self.attributes.items() if name not in names}

    @property
    def type_of_all(self) -> str | None:
        """The one type that all events have, None where each event tells its own."""
        if self.source is not None:
            return self.source.type_of_all
        alone = self.type_attribute == EVENT_TYPE and self.types is not None and len(self.types) == 1
        return self.types[0] if alone and self.types else None

    @cached_property
    def digest(self) -> str:
        """32 hex digits that change with anything that the published events of a day follow from.

        The bounds of quality and the handling of missing days are not part of it.
        """
        return digest_of(
            {
                "timezone": self.timezone,
                "type_attribute": self.type_attribute,
                "attributes": self.type_names,
                "key": list(self.key),
                "derived": list(map(asdict, self.derived)),
                "source": None if self.source is None else self.source.decisive,
            }
        )

    def table(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """The rows as an events table, sorted by (timestamp, seq).

        Parameters
        ----------
        rows
            One mapping an event: `timestamp`, `seq` (default: the row's index) and the attributes. A timestamp is a
            number of microseconds since the epoch (UTC), a datetime, a date or ISO 8601 text; without a time zone it is
            a local time of the stream. A missing attribute and None are null; a float NaN stays NaN. Derived attributes
            that no row has are computed, as ingestion does, and the type where all events have one.

        Returns
        -------
        pyarrow.Table
            With the columns of `arrow_schema`.

        Raises
        ------
        InputError
            A value that does not fit its attribute, an unknown attribute, a missing timestamp or a repeated seq;
            the message names the row, counted from 0: `[3].price` is that of the fourth.

        Warns
        -----
        DataWarning
            Some rows have a derived attribute and others have not; it is null in these.
        """
        from cep_pipeline.documents import check_form

        if hasattr(rows, "__arrow_c_stream__"):
            raise self._error("these are no rows but a data frame; cep.read(schema, frame) reads it")
        given_type = {} if self.type_of_all is None else {self.type_attribute: self.type_of_all}
        plain = [
            {SEQ: index, **given_type, **{name: _without_numpy(value) for name, value in row.items()}}
            for index, row in enumerate(rows)
        ]
        for one in self.derived:
            if 0 < (having := sum(one.name in row for row in plain)) < len(plain):
                warnings.warn(
                    f"{having:,} of {len(plain):,} rows have the derived attribute {one.name!r}, which is null in the "
                    "others; give it in all rows, or in none to have it computed",
                    DataWarning,
                    stacklevel=2,
                )
        self._read_times(plain)
        source, advice = f"stream {self.name!r}, rows from 0", f"the attributes are: {listed(self.referable)}"
        read = check_form(_form_of_rows(tuple(self.attributes.items())), plain, "no events", source, advice)
        seqs = [row[SEQ] for row in read]
        if (again := next((seq for seq, times in Counter(seqs).items() if times > 1), None)) is not None:
            first, second, *_ = (index for index, seq in enumerate(seqs) if seq == again)
            raise self._error(f"rows {first} and {second} have the same seq {again}; a seq is unique")
        read.sort(key=lambda row: (row[TIMESTAMP], row[SEQ]))
        columns = [pa.array([row.get(one.name) for row in read], one.type) for one in self.arrow_schema]
        return self.with_derived(pa.table(columns, schema=self.arrow_schema), {name for row in read for name in row})

    def _read_times(self, rows: list[dict[str, Any]]) -> None:
        """Put microseconds since the epoch in the place of times of rows that are text or datetimes."""
        for name in (TIMESTAMP, *self.times):
            written = [at for at, row in enumerate(rows) if isinstance(row.get(name), date | str)]
            values = [rows[at][name] for at in written]
            texts = [value.isoformat() if isinstance(value, date) else value for value in values]
            read = read_timestamps(pa.array(texts, pa.string()), "iso", self.timezone)
            for place, (at, instant) in enumerate(zip(written, read.utc.cast(pa.int64()).to_pylist(), strict=True)):
                if instant is None:
                    why = f"does not exist in {self.timezone}" if read.nonexistent[place] else "is no time of ISO 8601"
                    raise self._error(f"row {at}: {name}: {texts[place]!r} {why}")
                rows[at][name] = instant

    def with_derived(self, events: pa.Table, given: Collection[str]) -> pa.Table:
        """Return events with their derived attributes, and with the mark by which `detect` knows their stream.

        Parameters
        ----------
        events
            Events in stream order with the raw attributes.
        given
            Attributes that are there already, which stay as they are if they are derived ones.
        """
        missing = tuple(derived for derived in self.derived if derived.name not in given)
        if missing:
            raw = events.select([name for name in events.column_names if name not in {one.name for one in missing}])
            events = derive(raw, missing, self.type_attribute, Carry())
        told = {
            "name": self.name,
            "base_type": self.base_type,
            "type_attribute": self.type_attribute,
            "attributes": self.type_names,
            "types": self.types,
            "timezone": self.timezone,
            "pattern_timezone": self.pattern_timezone,
        }
        fitting = events.select(self.arrow_schema.names).cast(self.arrow_schema)
        return fitting.replace_schema_metadata({_STREAM_MARK: json.dumps(told)})


def schema_told_by(events: pa.Table) -> StreamSchema | None:
    """Return the schema of events that `StreamSchema.with_derived` marked, as far as patterns need it."""
    text = (events.schema.metadata or {}).get(_STREAM_MARK)
    return None if text is None else StreamSchema.from_dict(json.loads(text))


_STREAM_MARK = b"cep.stream"


def _without_numpy(value: Any) -> Any:
    if isinstance(value, date) and value != value:
        return None  # the NaT of pandas
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


@lru_cache(maxsize=64)
def _form_of_rows(attributes: tuple[tuple[str, ValueType], ...]) -> Any:
    """Return the form of rows with these attributes, for `check_form`."""
    from pydantic import Field, Strict

    integer = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
    number = Annotated[float, Strict()]
    forms: dict[ValueType, Any] = {
        ValueType.INT64: integer,
        ValueType.FLOAT64: number,
        ValueType.BOOL: Annotated[bool, Strict()],
        ValueType.STRING: Annotated[str, Strict()],
        ValueType.FLOAT64_LIST: list[number | None],
    }
    fields = {name: NotRequired[forms[kind] | None] for name, kind in attributes}
    row = TypedDict("row", {TIMESTAMP: integer, SEQ: integer, **fields})  # type: ignore[misc]
    row.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return list[row]


# -- schemas of documents ----------------------------------------------------------------------------------------------


def schema_of(document: StreamDocument) -> StreamSchema:
    """Make the schema of a document; the `_Misstated` of a rule that is broken says where it is."""
    from cep_pipeline.events.readers import READERS
    from cep_pipeline.events.stream_document import TYPE_OF_FILE, SourceLayout

    attributes = {name: _value_type(settings.type) for name, settings in document.attributes.items()}
    times = {name: _times_of(document, name) for name, its in document.attributes.items() if its.type == TIMESTAMP}
    derived: list[DerivedAttribute] = []
    for name, function in document.derived.items():
        if name in attributes:
            said = f"attribute {name!r}: a name of {name!r} too; write another name for it"
            raise _Misstated(said, ("derived", name))
        derived.append(_derived_of(name, function, {one: kind for one, kind in attributes.items() if one not in times}))
        is_list = derived[-1].function == "history"
        attributes[name] = ValueType.FLOAT64_LIST if is_list else attributes[derived[-1].of]
    columns = {name: settings.column or name for name, settings in document.attributes.items()}
    if document.type_attribute is None:
        columns = {EVENT_TYPE: _column_of_type(document), **columns}
        attributes = {EVENT_TYPE: ValueType.STRING, **attributes}
    source = SourceLayout(document.source, document.timestamp, columns, times)
    is_table = document.source.format == "iceberg"
    if is_table != (document.source.table is not None) or is_table == bool(document.source.path):
        said = "a table and no path" if is_table else "at least one path, and no table, which is for `format: iceberg`"
        place = "source", "table" if is_table else "path"
        raise _Misstated(f"{'.'.join(place)}: `format: {document.source.format}` has {said}", place)
    for index, path in enumerate(document.source.path):
        if document.type_attribute is not None and TYPE_OF_FILE in path:
            said = f"path {path!r} tells the event type, and so does type_attribute; leave one of them out"
            raise _Misstated(said, ("source", "path", index))
    try:
        READERS[document.source.format].check(source)
    except InputError as error:
        named = re.match(r"source\.(\w+)", str(error))
        raise _Misstated(str(error), ("source", named[1] if named else "columns")) from error
    return StreamSchema(
        name=document.name,
        base_type=document.base_type,
        type_attribute=document.type_attribute or EVENT_TYPE,
        attributes=attributes,
        types=None if document.types is None else tuple(document.types),
        key=tuple(document.key),
        on_missing=document.on_missing,
        timezone=document.timezone,
        pattern_timezone=document.pattern_timezone,
        times=tuple(times),
        source=source,
        derived=tuple(derived),
        quality=document.quality,
    )


def _value_type(name: str) -> ValueType:
    """The type that patterns see, of one that a schema writes."""
    return ValueType.INT64 if name == TIMESTAMP else ValueType(name)


def _times_of(document: StreamDocument, attribute: str) -> TimestampSettings:
    """The writing of an attribute that is a time: its own, or that of the time of the events."""
    from cep_pipeline.events.stream_document import TimestampSettings

    own, of_event = document.attributes[attribute], document.timestamp
    return TimestampSettings(
        column=[own.column or attribute],
        format=own.format if "format" in own.model_fields_set else of_event.format,
        timezone=own.timezone or of_event.timezone,
    )


def _column_of_type(document: StreamDocument) -> str:
    """The stand-in for the column of the attribute `event_type`, where the files have no column of the type."""
    from cep_pipeline.events.stream_document import TYPE_OF_FILE, type_of_all

    for part in ("attributes", "derived"):
        if EVENT_TYPE in getattr(document, part):
            raise _Misstated(
                f"attribute {EVENT_TYPE!r} has the name that is added where there is no type_attribute; write "
                f"`type_attribute: {EVENT_TYPE}` if it holds the types; else give it another name",
                (part, EVENT_TYPE),
            )
    telling = [path for path in document.source.path if TYPE_OF_FILE in path]
    if telling and len(telling) < len(document.source.path):
        said = "the types are told by {type} in some of the paths; write it in all of them"
        raise _Misstated(said, ("source", "path"))
    if telling:
        return TYPE_OF_FILE
    if document.base_type is None:
        text = next((name for name, its in document.attributes.items() if its.type == "string"), "symbol")
        raise _Misstated(
            f"no setting says what the types of the events are: write for example `type_attribute: {text}`, the "
            "attribute that holds the type; or {type} in source.path where the names of files tell it; or "
            "`base_type: Event`, the one type of all",
            ("source",),
        )
    return type_of_all(document.base_type)


def _derived_of(name: str, settings: DerivedSettings, attributes: dict[str, ValueType]) -> DerivedAttribute:
    from cep_pipeline.events.stream_document import DerivedAttribute

    function = settings.diff or settings.history
    assert function is not None
    kind = attributes.get(function.of)
    if kind is None or not kind.is_number:
        choices = listed([known for known, its in attributes.items() if its.is_number]) or "none"
        raise _Misstated(
            f"derived attribute {name!r}: {function.of!r} is no int64 or float64 attribute that stands before it; "
            f"there are: {choices}",
            ("derived", name),
        )
    if settings.history is not None:
        return DerivedAttribute(name, "history", settings.history.of, settings.history.length)
    return DerivedAttribute(name, "diff", function.of)
