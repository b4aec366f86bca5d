"""`StreamSchema`: what the events of a stream are, whatever file they come from.

The source layout (files, columns, time zone, key, derived attributes) stands in `events/source.py` and is part of
the same YAML file.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import ARROW_TYPES, EVENT_TYPE, ORDER_COLUMNS, SEQ, TIMESTAMP
from cep_pipeline.events.derived import Carry, derive
from cep_pipeline.events.timestamps import check_timezone, read_timestamps
from cep_pipeline.foreign_text import did_you_mean, html_table
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.storage import digest_of, with_former_names

if TYPE_CHECKING:
    from cep_pipeline.events.quality import Quality
    from cep_pipeline.events.source import DerivedAttribute, Renamed, SourceLayout

ON_MISSING = ("error", "empty", "skip")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_FIELDS = ("name", "base_type", "type_attribute", "attributes", "types", "key", "on_missing", "timezone")


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
    timezone
        IANA name; the zone of local source times and of the stream's days.
    source
        Layout of the raw files; None for a stream that is given as rows.
    derived
        The attributes that are computed in preprocessing.
    quality
        What is asked of the events of a day, or None.
    renamed
        The attributes that had other names before, none of them derived.

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
    on_missing: str = "error"
    timezone: str = "UTC"
    source: SourceLayout | None = None
    derived: tuple[DerivedAttribute, ...] = ()
    quality: Quality | None = None
    renamed: Mapping[str, Renamed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", dict(self.attributes))
        object.__setattr__(self, "renamed", dict(self.renamed))
        if not isinstance(self.name, str) or not self.name:
            raise self._error("a stream needs a name")
        if self.base_type is not None and (not isinstance(self.base_type, str) or not self.base_type):
            raise self._error(f"base_type must be the name of a type, not {self.base_type!r}")
        for attribute in self.attributes:
            if not isinstance(attribute, str) or not attribute:
                raise self._error(f"an attribute's name must be text, not {attribute!r}; put it in quotes")
            if attribute in ORDER_COLUMNS or attribute.startswith("_"):
                raise self._error(
                    f"attribute {attribute!r}: this name belongs to the engine; give the attribute another name, and "
                    f"name the source column beside its type, as in `source_{attribute.strip('_')}: "
                    f"{{type: …, column: {attribute}}}`"
                )
        if self.type_attribute not in self.attributes:
            hint = did_you_mean(str(self.type_attribute), self.attributes)
            raise self._error(f"type_attribute {self.type_attribute!r} is not among the attributes{hint}")
        if self.attributes[self.type_attribute] not in (ValueType.STRING, ValueType.INT64):
            raise self._error(
                f"type_attribute {self.type_attribute!r} must be string or int64, "
                f"not {self.attributes[self.type_attribute].value}"
            )
        if self.types is not None:
            if len(set(self.types)) < len(self.types):
                raise self._error("types lists a type twice")
            if not all(isinstance(name, str) and name for name in self.types):
                raise self._error("types must be a list of names")
        for name in self.key:
            if name not in self.attributes and name != TIMESTAMP:
                raise self._error(f"key {name!r} is not among the attributes{did_you_mean(str(name), self.attributes)}")
        if self.on_missing not in ON_MISSING:
            raise self._error(f"on_missing must be one of {', '.join(ON_MISSING)}, not {self.on_missing!r}")
        try:
            check_timezone(self.timezone)
        except InputError as error:
            raise self._error(str(error)) from error

    def __repr__(self) -> str:
        attributes = ", ".join(f"{name}: {kind.value}" for name, kind in self.attributes.items())
        return f"<StreamSchema {self.name}: {attributes}>"

    def _repr_html_(self) -> str:
        made_of = {one.name: f"{one.function} of {one.of}" for one in self.derived}
        rows = [
            (name, kind.value, "the type of an event" if name == self.type_attribute else made_of.get(name, ""))
            for name, kind in self.attributes.items()
        ]
        return html_table(("attribute", "type", ""), rows, f"stream {self.name}, {self.timezone}")

    def _error(self, message: str) -> InputError:
        return InputError(f"stream {self.name!r}: {message}")

    @classmethod
    def load(cls, path: str | Path) -> StreamSchema:
        """Read a stream schema with its source layout from a YAML file (see `streams/`).

        Raises
        ------
        InputError
            The file is missing, is no YAML, or breaks a rule; the message names file and line.
        """
        from cep_pipeline.events.stream_document import load_stream

        return load_stream(Path(path), cls)

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
        """Make the schema that `cep init --data` proposes for a CSV or Parquet file.

        Times that do not say their zone are in `timezone`, and need one. The name is made from that of the file, and
        the columns with the time and the type are found by their names and values, where they are not given.
        """
        from cep_pipeline.events.inference import infer_schema
        from cep_pipeline.events.stream_document import StreamDocument, schema_of

        made = infer_schema(Path(path), timezone=timezone, name=name, time_column=time_column, type_column=type_column)
        return schema_of(StreamDocument.model_validate(made.in_force), cls)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str = "stream") -> StreamSchema:
        """Make a schema of plain values, for events that are given as rows.

        Parameters
        ----------
        data
            `attributes` (name to one of int64, float64, bool, string, list<float64>), `type_attribute` or `base_type`,
            and optionally `types`, `key`, `on_missing`, `timezone`, `name`. Without `type_attribute` an attribute
            `event_type` is added that holds the type; it is the `base_type` where no event says another.
        name
            The stream's name where `data` has none.

        Raises
        ------
        InputError
            A field that is missing, unknown or wrong.
        """
        for field_name in data:
            if field_name not in _FIELDS:
                raise InputError(f"stream {name!r}: unknown field {field_name!r}{did_you_mean(field_name, _FIELDS)}")
        if "attributes" not in data:
            raise InputError(f"stream {name!r}: attributes is missing")
        base_type, type_attribute = data.get("base_type"), data.get("type_attribute")
        if type_attribute is None and base_type is None:
            raise InputError(
                f"stream {name!r}: type_attribute is missing: name the attribute that holds the type of an event, or "
                "give base_type, the one type of all"
            )
        if not isinstance(data["attributes"], Mapping):
            raise InputError(f"stream {name!r}: attributes must map each name to its type")
        types = data.get("types") or ([base_type] if type_attribute is None else None)
        if types is not None and not isinstance(types, list | tuple):
            raise InputError(f"stream {name!r}: types must be a list of names, not {types!r}")
        added = {} if type_attribute else {EVENT_TYPE: "string"}
        key = data.get("key") or ()
        if not isinstance(key, list | tuple):
            raise InputError(f"stream {name!r}: key must be a list of attributes, not {key!r}")
        return cls(
            name=data.get("name", name),
            base_type=base_type,
            type_attribute=type_attribute or EVENT_TYPE,
            attributes={
                attribute: attribute_type(text, where=f"stream {name!r}: attribute {attribute!r}")
                for attribute, text in {**added, **data["attributes"]}.items()
            },
            types=None if types is None else tuple(str(event_type) for event_type in types),
            key=tuple(key),
            on_missing=data.get("on_missing", "error"),
            timezone=data.get("timezone", "UTC"),
        )

    @cached_property
    def referable(self) -> Mapping[str, ValueType]:
        """The names that a pattern can reference: the attributes, and `timestamp` and `seq` as int64."""
        return {**self.attributes, **ORDER_COLUMNS}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Columns of the stream's events: `timestamp`, `seq`, then the attributes, which know their former names."""
        return pa.schema(
            [
                pa.field(TIMESTAMP, pa.timestamp("us", tz="UTC")),
                pa.field(SEQ, pa.int64()),
                *(
                    with_former_names(pa.field(name, ARROW_TYPES[kind]), self._names_before(name))
                    for name, kind in self.attributes.items()
                ),
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

        The bounds of quality, the handling of missing days and new names of attributes are not part of it.
        """
        source: dict[str, Any] | None = None
        if self.source is not None:
            source = self.source.decisive
            source["columns"] = {
                self.first_name(name): self.renamed[name].column or column if name in self.renamed else column
                for name, column in source["columns"].items()
            }
        return digest_of(
            {
                "timezone": self.timezone,
                "type_attribute": self.first_name(self.type_attribute),
                "attributes": {self.first_name(name): kind.value for name, kind in self.attributes.items()},
                "key": [self.first_name(name) for name in self.key],
                "derived": [{**asdict(derived), "of": self.first_name(derived.of)} for derived in self.derived],
                "source": source,
            }
        )

    @cached_property
    def staged_digest(self) -> str:
        """The digest that also changes with the names of attributes, for files that are passed on within a day."""
        return digest_of([self.digest, list(self.attributes)])

    def first_name(self, attribute: str) -> str:
        """Return the oldest name of an attribute, under which what is carried from day to day is kept."""
        return next(iter(self._names_before(attribute)), attribute)

    def _names_before(self, attribute: str) -> tuple[str, ...]:
        return self.renamed[attribute].names if attribute in self.renamed else ()

    def table(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """The rows as an events table, sorted by (timestamp, seq).

        Parameters
        ----------
        rows
            One mapping an event: `timestamp`, `seq` (default: the row's index) and the attributes. A timestamp is a
            number of microseconds since the epoch (UTC), a datetime or ISO 8601 text; without a time zone it is a local
            time of the stream. A missing attribute and None are null; a float NaN stays NaN. Derived attributes that
            no row has are computed, as ingestion does, and the type where all events have one.

        Returns
        -------
        pyarrow.Table
            With the columns of `arrow_schema`.

        Raises
        ------
        InputError
            A value that does not fit its attribute, an unknown attribute, a missing timestamp or a repeated seq;
            the message names the row, counted from 0.

        Warns
        -----
        DataWarning
            Some rows have a derived attribute and others have not; it is null in these.
        """
        if hasattr(rows, "__arrow_c_stream__"):
            raise self._error("these are no rows but a data frame; cep.read(schema, frame) reads it")
        given_type = {} if self.type_of_all is None else {self.type_attribute: self.type_of_all}
        rows = [{**given_type, **row} for row in rows]
        for index, row in enumerate(rows):
            for attribute in row:
                if attribute not in self.referable:
                    hint = did_you_mean(str(attribute), self.referable)
                    raise self._error(f"row {index}: unknown attribute {attribute!r}{hint}")
        for one in self.derived:
            if 0 < (having := sum(one.name in row for row in rows)) < len(rows):
                warnings.warn(
                    f"{having:,} of {len(rows):,} rows have the derived attribute {one.name!r}, which is null in the "
                    "others; give it in all rows, or in none to have it computed",
                    DataWarning,
                    stacklevel=2,
                )
        where = f"stream {self.name!r}: row"
        timestamps = self._instants([row.get(TIMESTAMP) for row in rows], where)
        seqs = [_int64(row.get(SEQ, index), f"{where} {index}: {SEQ}") for index, row in enumerate(rows)]
        if len(set(seqs)) < len(seqs):
            seen: dict[int, int] = {}
            for index, seq in enumerate(seqs):
                if seq in seen:
                    raise self._error(f"rows {seen[seq]} and {index} have the same seq {seq}; a seq is unique")
                seen[seq] = index
        order = sorted(range(len(rows)), key=lambda index: (timestamps[index], seqs[index]))
        columns: dict[str, pa.Array] = {
            TIMESTAMP: pa.array([timestamps[index] for index in order], type=pa.timestamp("us", tz="UTC")),
            SEQ: pa.array([seqs[index] for index in order], type=pa.int64()),
        }
        for attribute, kind in self.attributes.items():
            values = [
                None
                if rows[index].get(attribute) is None
                else _value(rows[index][attribute], kind, f"{where} {index}: attribute {attribute!r}")
                for index in order
            ]
            columns[attribute] = pa.array(values, type=ARROW_TYPES[kind], from_pandas=False)
        return self.with_derived(pa.table(columns, schema=self.arrow_schema), {name for row in rows for name in row})

    def _instants(self, values: list[Any], where: str) -> list[int]:
        """Return the timestamps of rows in microseconds since the epoch."""
        written = {at: value for at, value in enumerate(values) if isinstance(value, datetime | str)}
        texts = [value.isoformat() if isinstance(value, datetime) else value for value in written.values()]
        read = read_timestamps(pa.array(texts, pa.string()), "iso", self.timezone)
        for place, at in enumerate(written):
            if read.unreadable[place] or read.nonexistent[place]:
                why = f"does not exist in {self.timezone}" if read.nonexistent[place] else "is no time of ISO 8601"
                raise InputError(f"{where} {at}: {TIMESTAMP}: {texts[place]!r} {why}")
        known = dict(zip(written, read.utc.cast(pa.int64()).to_pylist(), strict=True))
        return [
            known[at] if at in known else _int64(value, f"{where} {at}: {TIMESTAMP}") for at, value in enumerate(values)
        ]

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
            events = derive(raw, replace(self, derived=missing), Carry())
        told = {
            "name": self.name,
            "base_type": self.base_type,
            "type_attribute": self.type_attribute,
            "attributes": {name: kind.value for name, kind in self.attributes.items()},
            "types": self.types,
            "timezone": self.timezone,
        }
        fitting = events.select(self.arrow_schema.names).cast(self.arrow_schema)
        return fitting.replace_schema_metadata({_STREAM_MARK: json.dumps(told)})


def schema_told_by(events: pa.Table) -> StreamSchema | None:
    """Return the schema of events that `StreamSchema.with_derived` marked, as far as patterns need it."""
    text = (events.schema.metadata or {}).get(_STREAM_MARK)
    return None if text is None else StreamSchema.from_dict(json.loads(text))


_STREAM_MARK = b"cep.stream"


def attribute_type(text: object, *, where: str) -> ValueType:
    """The type that `text` names; `where` begins the message of the InputError if there is none."""
    for kind in ValueType:
        if kind.value == text:
            return kind
    names = [kind.value for kind in ValueType]
    raise InputError(f"{where}: unknown type {text!r}; one of {', '.join(names)}{did_you_mean(str(text), names)}")


def _int64(value: object, where: str) -> int:
    if value is None:
        raise InputError(f"{where} is missing; it is an int64")
    number: int = _value(value, ValueType.INT64, where)
    return number


def _value(value: Any, kind: ValueType, where: str) -> Any:
    """A value as an attribute of the type has it; `where` begins the message of the InputError if it is none."""
    classes, make, said = _FORMS[kind]
    if not isinstance(value, classes) or (kind.is_number and isinstance(value, bool | np.bool_)):
        raise InputError(f"{where}: {value!r} is no {said}")
    if kind is ValueType.FLOAT64_LIST:
        return [
            None if one is None else _value(one, ValueType.FLOAT64, f"{where}, element {at}")
            for at, one in enumerate(value)
        ]
    try:
        made = make(value)
    except OverflowError as error:
        raise InputError(f"{where}: {value!r} is outside the range of {said}") from error
    if kind is ValueType.INT64 and not _INT64_MIN <= made <= _INT64_MAX:
        raise InputError(f"{where}: {made} is outside the range of int64")
    return made


_FORMS: Mapping[ValueType, Any] = {
    ValueType.INT64: ((Integral,), int, "int64"),
    ValueType.FLOAT64: ((Real,), float, "float64"),
    ValueType.BOOL: ((bool, np.bool_), bool, "bool"),
    ValueType.STRING: ((str,), lambda text: text, "string"),
    ValueType.FLOAT64_LIST: ((list, tuple, np.ndarray), list, "list of float64"),
}
"""Type of an attribute -> the classes of its values in Python, what makes the value of them, and its name."""
