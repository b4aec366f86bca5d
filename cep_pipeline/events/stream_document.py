"""The YAML form of a stream schema, and the layout of the raw files; `events/schema.py` makes the schema of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, ConfigDict, ValidationInfo, field_validator, model_validator

from cep_pipeline.documents import Document, checked, mapping, one_of, setting
from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import NumberSigns
from cep_pipeline.events.columns import EVENT_TYPE
from cep_pipeline.events.raw_files import PathTemplate
from cep_pipeline.events.timestamps import check_format, check_timezone
from cep_pipeline.foreign_text import did_you_mean, listed

LONGEST_VALUE = 64 << 10
"""Bytes of a value of text, at most, where the schema does not say another number."""

_FORMATS = "cep_pipeline.events.readers:READERS"
TYPE_OF_FILE = "{type}"
"""Stands for the source column of a type that the names of the files tell."""


def type_of_all(name: str) -> str:
    """Stand for the source column of the one type that all events have."""
    return f"{{={name}}}"


_ONE_CHARACTER: dict[str, Any] = {"minLength": 1, "maxLength": 1}
"""A setting that is one character, for the JSON Schema."""


def _one_or_more() -> Any:
    """Accept one text where several may stand."""
    return BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]
    )


_for_all_paths = BeforeValidator(
    lambda value: value if isinstance(value, dict) else {"*": value},
    json_schema_input_type=str | list[str] | dict[str, str | list[str]],
)
"""Accepts formats where those of several paths may stand."""


class TimeSettings(Document):
    """The writing of times in a source column."""

    format: Annotated[dict[str, Annotated[list[str], _one_or_more()]], _for_all_paths] = setting(
        "How the time is written: `iso`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, `epoch` for such numbers that "
        "tell their unit by their size, or a format such as `%d/%b/%Y:%H:%M:%S %z`. Of several, each time has the "
        "first that reads it. Where files differ, it is a mapping of the ends of their paths, with the wildcards `*`, "
        "`?` and `[…]`, to their formats: a file has those of the first that fits. It is not used for a Parquet column "
        "of a timestamp or date type. An attribute has that of the event's own time where it has none.",
        default_factory=lambda: {"*": ["iso"]},
        example="%Y-%m-%d %H:%M",
        min_length=1,
    )
    timezone: str | None = setting(
        "Time zone of the times in the files that do not say theirs: an IANA name. Without it they are in the "
        "`timezone` of the stream; those of an attribute are where the event's own time is.",
        None,
        example="UTC",
    )

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str | None) -> str | None:
        return None if value is None else checked(check_timezone, value)

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        for formats in value.values():
            for one in formats:
                checked(check_format, one)
        return value

    def formats_of(self, path: str) -> list[str]:
        """The formats of the times of a file; where none are for it, that is an InputError."""
        if found := next((own for ends, own in self.format.items() if PurePosixPath(path).match(ends)), None):
            return found
        raise InputError(f"{path}: timestamp.format has no format for this file; it has: {listed(list(self.format))}")


class TimestampSettings(TimeSettings):
    """The source column that holds the time of an event, and how the time is written."""

    column: Annotated[list[str], _one_or_more()] = setting(
        "Name of the source column, or of several: what they hold is joined with a blank between it, such as a date, "
        "a time and an offset from UTC.",
        example=["date", "time"],
        min_length=1,
    )

    @property
    def said(self) -> str:
        """The column, or columns, for a person."""
        return f"column{'s' if len(self.column) > 1 else ''} {' and '.join(map(repr, self.column))}"


class SourceSettings(Document):
    """The layout of the raw files, or the Iceberg table that holds the rows."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["path"]}, {"required": ["table"]}]})

    format: str = setting(
        "Format of the files: `csv`; `jsonl`, an object of JSON on each line; `regex`, lines of text that a `pattern` "
        "takes apart; or `parquet`. An ending `.gz`, `.bz2`, `.zst` or `.lz4` says how a file of text is compressed. "
        "With `iceberg` the rows are those of a `table`.",
        example="csv",
        json_schema_extra=one_of(_FORMATS),
    )
    path: Annotated[list[str], _one_or_more()] = setting(
        "One path or several, relative to the data folder. A path may have date placeholders such as "
        "`{day:%Y-%m-%d}`, the wildcards `*`, `?` and `[…]`, `**` for any folders, and `{type}` where the name of a "
        "file tells the type of its events. All files that fit are read. It is required, but for `format: iceberg`.",
        default_factory=list,
        example="{day:%Y-%m-%d}/trades.csv.gz",
    )
    days_before: int = setting(
        "Days before those of its path of which a file may have rows: those of a UTC day in a stream of New York.",
        0,
        example=1,
        ge=0,
        le=31,
    )
    days_after: int = setting(
        "Days after those of its path of which a file may have rows, such as the one at 24:00.",
        0,
        example=1,
        ge=0,
        le=31,
    )
    table: str | None = setting(
        "The Iceberg table with its namespace. It is required with `format: iceberg`, and refused otherwise.",
        None,
        example="market.trades",
    )
    catalog: str | dict[str, str | bool | int | float] = setting(
        "The catalog of the `table`: its name in the configuration of PyIceberg, or a mapping of its properties, with "
        "its `name`. What is not given is from `.pyiceberg.yaml` and from `PYICEBERG_CATALOG__NAME__…` in the "
        "environment, where secrets belong.",
        "default",
        example={"name": "lake", "type": "rest", "uri": "https://catalog.example"},
    )
    longest_value: int = setting(
        "Most bytes that a value of text has. A row with a longer one is rejected.",
        LONGEST_VALUE,
        example=1_000_000,
        ge=1,
    )
    encoding: str = setting(
        "The encoding of a file of text, by its name in Python. A mark at the beginning of UTF-8 is left out.",
        "utf-8",
        example="cp1252",
    )
    skip_lines: int = setting("Lines at the beginning of a file of text that are left out.", 0, example=3, ge=0)
    comment: str | None = setting(
        "The text that lines begin with that are left out, in a file of text.", None, example="#", min_length=1
    )
    pattern: str | None = setting(
        "A regular expression, as in Python, that takes a whole line apart. Its named groups are the columns; what a "
        "group does not take is missing. It is required with `format: regex`, and refused otherwise.",
        None,
        example=r"(?P<ip>\S+) \S+ \S+ \[(?P<time>[^]]+)\] .*",
    )
    header: bool = setting("Whether the first row of a CSV file names its columns.", True, example=False)
    columns: list[str] = setting(
        "Names of all columns of a CSV file, in order. It is required with `header: false`, and refused otherwise.",
        default_factory=list,
        example=["time", "room", "temperature"],
    )
    delimiter: str = setting(
        "The character between the fields of a CSV file: one ASCII character.",
        ",",
        example=";",
        json_schema_extra=_ONE_CHARACTER,
    )
    quote: str = setting(
        "The character around a field that holds delimiters or line ends. Written twice in such a field it "
        "stands for itself.",
        '"',
        example="'",
        json_schema_extra=_ONE_CHARACTER,
    )
    escape: str | None = setting(
        "The character before a character of a CSV file that stands for itself, such as a quote in a field.",
        None,
        example="\\",
        json_schema_extra=_ONE_CHARACTER,
    )
    null_words: list[str] = setting(
        "Texts that stand for no value, in files of text, beside the empty one.",
        default_factory=list,
        example=["-", "NA"],
    )
    true_words: list[str] = setting(
        "Texts that stand for true, beside `true` and `1`.", default_factory=list, example=["J", "ja"]
    )
    false_words: list[str] = setting(
        "Texts that stand for false, beside `false` and `0`.", default_factory=list, example=["N", "nein"]
    )
    decimal: str = setting(
        "The decimal sign of numbers that are text: one character, and no letter, digit, `+` or `-`.",
        ".",
        example=",",
        json_schema_extra=_ONE_CHARACTER,
    )
    thousands: str | None = setting(
        "The sign between groups of three digits of numbers that are text. A number may also be without it. A blank "
        "means every kind of blank, and `'` also the curly apostrophe.",
        None,
        example=",",
        json_schema_extra=_ONE_CHARACTER,
    )

    @field_validator("format")
    @classmethod
    def _has_a_reader(cls, value: str) -> str:
        if value not in (formats := resolve_name(_FORMATS)):
            raise ValueError(f"the formats are {listed(list(formats))}")
        return value

    @field_validator("path")
    @classmethod
    def _is_template(cls, value: list[str]) -> list[str]:
        for path in value:
            checked(PathTemplate, path)
        return value

    @field_validator("table")
    @classmethod
    def _has_a_namespace(cls, value: str | None) -> str | None:
        if value is not None and not all((*value.split("."), "." in value)):
            raise ValueError(f"{value!r} is no table with its namespace, as market.trades is")
        return value

    @field_validator("columns")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("a column is named twice")
        return value

    @field_validator("delimiter", "quote", "escape")
    @classmethod
    def _is_character(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        if len(value) != 1 or not value.isascii() or value in "\r\n":
            raise ValueError(f"{value!r} is not one ASCII character")
        for other in ("delimiter", "quote"):
            if other in info.data and other != info.field_name and value == info.data[other]:
                raise ValueError(f"{other} and {info.field_name} must differ")
        return value

    @field_validator("encoding")
    @classmethod
    def _is_encoding(cls, value: str) -> str:
        try:
            "".encode(value)
        except (LookupError, ValueError):
            raise ValueError(f"Python knows no encoding {value!r}; there are utf-8, utf-16, cp1252, latin-1") from None
        return value

    @field_validator("pattern")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"it is no regular expression: {error}") from None
        return value

    @field_validator("decimal", "thousands")
    @classmethod
    def _is_sign(cls, value: str | None, info: ValidationInfo) -> str | None:
        given = {"decimal": info.data.get("decimal", "."), str(info.field_name): value}
        checked(lambda signs: NumberSigns(**signs), given)
        if value is not None and value == info.data.get("quote"):
            raise ValueError(f"{value!r} is `quote` too, which is the character around fields, mostly a double one")
        return value


def _as_written(texts: list[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else texts


@dataclass(frozen=True)
class SourceLayout:
    """Layout of the raw files of a stream.

    `columns` is the source column of every attribute that is read. The attribute of a type that no column has is there
    as `type_of_all` or `TYPE_OF_FILE`. `times` says how the attributes that are times are written.
    """

    settings: SourceSettings
    timestamp: TimestampSettings
    columns: Mapping[str, str]
    times: Mapping[str, TimestampSettings] = field(default_factory=dict)

    @cached_property
    def paths(self) -> tuple[PathTemplate, ...]:
        """Templates relative to the data folder; all files that fit are read."""
        around = self.settings.days_before, self.settings.days_after
        return tuple(PathTemplate(path, *around) for path in self.settings.path)

    @cached_property
    def signs(self) -> NumberSigns:
        """The signs in the numbers of columns of text."""
        return NumberSigns(self.settings.decimal, self.settings.thousands)

    def truths(self, column: pa.Array) -> pa.Array:
        """The truths of a column of text as `true` and `false`; other text and columns stay as they are."""
        for word, others in (("true", self.settings.true_words), ("false", self.settings.false_words)):
            if others and pa.types.is_string(column.type):
                column = pc.if_else(pc.is_in(pc.utf8_trim_whitespace(column), pa.array(others)), word, column)
        return column

    @property
    def decisive(self) -> dict[str, Any]:
        """All settings that published events follow from, for a digest; later ones only where they are given."""
        settings, first = self.settings, ("format", "header", "delimiter", "quote")
        return {
            **{name: getattr(settings, name) for name in first},
            "paths": [{"text": path} for path in settings.path],
            "names": settings.columns,
            "timestamp_column": _as_written(self.timestamp.column),
            "timestamp_format": _as_written(self.timestamp.format.get("*", []))
            if [*self.timestamp.format] == ["*"]
            else self.timestamp.format,
            "columns": self.columns,
            **({} if self.timestamp.timezone is None else {"timestamp_timezone": self.timestamp.timezone}),
            **({"times": {name: one.model_dump() for name, one in self.times.items()}} if self.times else {}),
            **settings.model_dump(exclude_defaults=True, exclude={*first, "path", "columns", "catalog"}),
        }

    @property
    def type_of_all(self) -> str | None:
        """The one type that all events have, None where columns or the names of files tell the types."""
        column = self.columns.get(EVENT_TYPE, "")
        return column[2:-1] if column.startswith("{=") else None

    @property
    def listed(self) -> tuple[str, ...]:
        """The source columns that are read, each once, the timestamp's first."""
        named = (column for name, column in self.columns.items() if name != EVENT_TYPE or column[:1] != "{")
        return tuple(dict.fromkeys((*self.timestamp.column, *named)))

    def given_type(self, attribute: str, path: str) -> str | None:
        """Return the text that an attribute has in all rows of a file, None where a column of the file has it.

        Where the name of the file is to tell the type, and does not, that is an InputError.
        """
        column = self.columns[attribute]
        if attribute != EVENT_TYPE or column[:1] != "{":
            return None
        if column != TYPE_OF_FILE:
            return self.type_of_all
        told = (template.type_in(path) for template in self.paths if template.names_type)
        if found := next((name for name in told if name), None):
            return found
        raise InputError(
            f"{path}: the name of the file does not tell the event type; the schema has "
            f"{', '.join(template.text for template in self.paths)}"
        )


def find_columns(path: str, wanted: Iterable[str], present: Sequence[str], what: str = "file") -> None:
    """Check that a file has some columns, each once; the InputError names the file, the column, and what is there."""
    for column in wanted:
        if present.count(column) > 1:
            raise InputError(
                f"{path}: column {column!r} is there {present.count(column)} times; a column is named once"
            )
        if column not in present:
            hint = did_you_mean(column, present) or "."
            raise InputError(
                f"{path}: column {column!r} is missing; the {what} has: {listed([*map(repr, present)])}{hint} "
                "If the delivery has changed, name the new column in the stream schema"
            )


@dataclass(frozen=True)
class DerivedAttribute:
    """An attribute computed in preprocessing, per event type, of one that is read or of an earlier `diff`.

    `diff` is the difference to the previous value; `history` the list of the last `length` values, the event's own the
    last of them.
    """

    name: str
    function: Literal["diff", "history"]
    of: str
    length: int = 1


Severity = Literal["critical", "warning"]
AttributeType = Literal["int64", "float64", "bool", "string", "timestamp"]


def _or_text(short: str, shape: Any) -> Any:
    """Accept plain text for a mapping whose setting `short` it is; `shape` is the type of both for the JSON Schema."""
    return BeforeValidator(
        lambda value: {short: value} if isinstance(value, str) else value, json_schema_input_type=shape
    )


class AttributeSettings(TimeSettings):
    """An attribute in its long form, for a source column with another name, or with times of another form."""

    type: AttributeType = setting(
        "Type of the attribute. A `timestamp` is a time beside that of the event: patterns read it as microseconds "
        "since 1970 (UTC), as they read `timestamp`, and tables have it as a time.",
        example="float64",
    )
    column: str | None = setting(
        "Name of the source column. Without it the column has the name of the attribute.", None, example="Temp (C)"
    )

    @model_validator(mode="after")
    def _writes_times(self) -> AttributeSettings:
        if self.type != "timestamp" and (given := self.model_fields_set & {"format", "timezone"}):
            raise ValueError(f"`{min(given)}` is for `type: timestamp`")
        return self


class DiffSettings(Document):
    """The difference between the value of an event and the value before it of the same event type."""

    of: str = setting(
        "An `int64` or `float64` attribute: one that is read, or a `diff` that stands before this one.", example="price"
    )


class HistorySettings(Document):
    """The list of the last values of the same event type, oldest first; the event's own value is the last."""

    of: str = setting(
        "An `int64` or `float64` attribute: one that is read, or a `diff` that stands before this one.", example="price"
    )
    length: int = setting("Number of values in the list.", example=10, ge=1, le=10_000)


class DerivedSettings(Document):
    """A derived attribute: either `diff` or `history`."""

    diff: DiffSettings | None = setting("A difference to the value before.", None, example={"of": "price"})
    history: HistorySettings | None = setting("A list of the last values.", None, example={"of": "price", "length": 10})

    @model_validator(mode="after")
    def _one_function(self) -> DerivedSettings:
        if (self.diff is None) == (self.history is None):
            raise ValueError("a derived attribute has either `diff: {of: …}` or `history: {of: …, length: …}`")
        return self


class Expectation(Document):
    """A check of all values of one attribute. At least one of the bounds or `not_null: true` is given."""

    column: str = setting("Name of the attribute. It is an attribute that is read, not a derived one.", example="price")
    above: float | None = setting(
        "Every value is greater than this number. Bounds are for `int64` and `float64`.", None, example=0
    )
    at_least: float | None = setting(
        "Every value is this number or greater. Not together with `above`.", None, example=-40
    )
    below: float | None = setting("Every value is less than this number.", None, example=1000)
    at_most: float | None = setting("Every value is this number or less. Not together with `below`.", None, example=40)
    not_null: bool = setting("Whether every event must have a value.", False, example=True)
    severity: Severity = setting(
        "What a failed check does: `critical` refuses the day, `warning` only records it.",
        "critical",
        example="warning",
    )

    @property
    def has_bounds(self) -> bool:
        """True if a number must not be too small or too large."""
        return bool(self.bounds)

    @property
    def bounds(self) -> str:
        """The bounds in words."""
        named = {"above": self.above, "at least": self.at_least, "below": self.below, "at most": self.at_most}
        return " and ".join(f"{name} {value:,.15g}" for name, value in named.items() if value is not None)

    @model_validator(mode="after")
    def _something(self) -> Expectation:
        if self.above is not None and self.at_least is not None:
            raise ValueError("give `above` or `at_least`, not both")
        if self.below is not None and self.at_most is not None:
            raise ValueError("give `below` or `at_most`, not both")
        if not self.not_null and not self.has_bounds:
            raise ValueError("an expectation has at least one of above, at_least, below, at_most, not_null: true")
        return self


class RowCount(Document):
    """The band of the number of events of a day, compared with earlier days. Outside the band there is a warning."""

    at_least: float = setting("The least share of the median.", 0.25, example=0.5, ge=0)
    at_most: float = setting("The largest multiple of the median.", 4.0, example=2, gt=0)
    days: int = setting("The median is of up to this many published days before.", 20, example=10, ge=1)

    @model_validator(mode="after")
    def _ascends(self) -> RowCount:
        if self.at_least > self.at_most:
            raise ValueError("at_least is greater than at_most")
        return self


class Quality(Document):
    """Requirements that the data of a day must fulfil."""

    max_rejected_share: float = setting(
        "The day is refused when a larger share of its rows is rejected.", 0.01, example=0.05, ge=0, le=1
    )
    expectations: list[Expectation] = setting(
        "Checks of the values of attributes.", example=[{"column": "price", "above": 0}], default_factory=list
    )
    row_count: RowCount = mapping(RowCount, "How many events a day should have.", at_least=0.5, at_most=2)


class StreamDocument(Document):
    """A stream schema: what the raw files of a stream look like, and what its events are."""

    model_config = ConfigDict(title="Stream schema")

    name: str = setting(
        "Name of the stream, as in `pipeline.yaml`: letters, digits and `_`. It names the folder and the "
        "namespace of the stream's tables.",
        example="cold_rooms",
    )
    timezone: str = setting(
        "Time zone of the stream's days, and of all below where they have no other: an IANA name.",
        "UTC",
        example="Europe/Copenhagen",
    )
    pattern_timezone: str | None = setting(
        "Time zone of the clock that patterns read: `time_of_day`, `TIMESTAMP '…'` and the intervals of SUMMARIZE. "
        "Without it, that of the days.",
        None,
        example="America/New_York",
    )
    base_type: str | None = setting(
        "An event type that every event has besides its own, so that a pattern can ask for any event.",
        None,
        example="Trade",
    )
    type_attribute: str | None = setting(
        "The `string` or `int64` attribute whose value is the event's type. Without it the type is what "
        "stands for `{type}` in the path of the event's file, or else all events have the `base_type`; an attribute "
        "`event_type` is added that holds it.",
        None,
        example="symbol",
    )
    types: list[str] | None = setting(
        "All event types of the stream. With it, a pattern that names another type is refused; without it "
        "any type is accepted. It rejects no rows.",
        None,
        example=["SPY", "IBM"],
    )
    timestamp: Annotated[TimestampSettings, _or_text("column", str | TimestampSettings)] = setting(
        "The column with the time of an event. Plain text is the name of a column with `iso` times.",
        example={"column": "time", "format": "epoch_ms"},
    )
    attributes: dict[str, Annotated[AttributeSettings, _or_text("type", AttributeType | AttributeSettings)]] = setting(
        "The attributes that are read, each with its type. Names differ in more than case, do not begin with `_`, "
        "and are not `day`, `timestamp` or `seq`.",
        example={"symbol": "string", "price": "float64"},
    )
    derived: dict[str, DerivedSettings] = setting(
        "Attributes that are computed of others, per event type.",
        example={"change": {"diff": {"of": "price"}}},
        default_factory=dict,
    )
    key: list[str] = setting(
        "Attributes, or `timestamp`, that together identify an event of a day. A later row with the same key is "
        "rejected. Without a key there are no duplicates.",
        example=["room", "timestamp"],
        default_factory=list,
    )
    on_missing: Literal["error", "empty", "skip"] = setting(
        "How a day without files is treated: `error` fails, `empty` publishes the day without events, and "
        "`skip` does not publish it.",
        "error",
        example="skip",
    )
    source: SourceSettings = setting(
        "The layout of the raw files.", example={"format": "csv", "path": "{day:%Y-%m-%d}.csv"}
    )
    quality: Quality = mapping(Quality, "What the data must fulfil.", max_rejected_share=0.05)
