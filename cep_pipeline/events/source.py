"""Parts of a stream schema: the settings and the layout of the raw files, and the derived attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationInfo, field_validator

from cep_pipeline.documents import Document, checked, one_of, setting
from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import NumberSigns
from cep_pipeline.events.columns import EVENT_TYPE
from cep_pipeline.events.raw_files import PathTemplate
from cep_pipeline.events.timestamps import check_format
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


class TimestampSettings(Document):
    """The source column that holds the time of an event, and how the time is written."""

    column: str = setting("Name of the source column.", example="time")
    format: str = setting(
        "How the time is written: `iso`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, or a format of fixed width "
        "such as `%Y%m%d%H%M`. It is not used for a Parquet column of a timestamp or date type.",
        "iso",
        example="%Y-%m-%d %H:%M",
    )

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: str) -> str:
        return checked(check_format, value)


class SourceSettings(Document):
    """The layout of the raw files."""

    format: str = setting(
        "Format of the files. A CSV file is UTF-8 text; an ending `.gz`, `.bz2`, `.zst` or `.lz4` says how it is "
        "compressed.",
        example="csv",
        json_schema_extra=one_of(_FORMATS),
    )
    path: Annotated[
        list[str],
        BeforeValidator(
            lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]
        ),
    ] = setting(
        "One path or several, relative to the data folder. A path may have date placeholders such as "
        "`{day:%Y-%m-%d}`, the wildcards `*`, `?` and `[…]`, and `{type}` where the name of a file tells the type "
        "of its events. All files that fit are read.",
        example="{day:%Y-%m-%d}/trades.csv.gz",
    )
    longest_value: int = setting(
        "Most bytes that a value of text has. A row with a longer one is rejected.",
        LONGEST_VALUE,
        example=1_000_000,
        ge=1,
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
        if not value:
            raise ValueError("at least one path is needed")
        for path in value:
            checked(PathTemplate, path)
        return value

    @field_validator("columns")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("a column is named twice")
        return value

    @field_validator("delimiter", "quote")
    @classmethod
    def _is_character(cls, value: str, info: ValidationInfo) -> str:
        if len(value) != 1 or not value.isascii() or value in "\r\n":
            raise ValueError(f"{value!r} is not one ASCII character")
        if info.field_name == "quote" and value == info.data.get("delimiter"):
            raise ValueError("delimiter and quote must differ")
        return value

    @field_validator("decimal", "thousands")
    @classmethod
    def _is_sign(cls, value: str | None, info: ValidationInfo) -> str | None:
        given = {"decimal": info.data.get("decimal", "."), str(info.field_name): value}
        checked(lambda signs: NumberSigns(**signs), given)
        if value is not None and value == info.data.get("quote"):
            raise ValueError(f"{value!r} is `quote` too, which is the character around fields, mostly a double one")
        return value


@dataclass(frozen=True)
class SourceLayout:
    """Layout of the raw files of a stream.

    `columns` is the source column of every attribute that is read. The attribute of a type that no column has is there
    as `type_of_all` or `TYPE_OF_FILE`.
    """

    settings: SourceSettings
    timestamp: TimestampSettings
    columns: Mapping[str, str]

    @cached_property
    def paths(self) -> tuple[PathTemplate, ...]:
        """Templates relative to the data folder; all files that fit are read."""
        return tuple(map(PathTemplate, self.settings.path))

    @cached_property
    def signs(self) -> NumberSigns:
        """The signs in the numbers of columns of text."""
        return NumberSigns(self.settings.decimal, self.settings.thousands)

    @property
    def decisive(self) -> dict[str, Any]:
        """All settings that published events follow from, for a digest."""
        settings = self.settings
        found: dict[str, Any] = {
            **{name: getattr(settings, name) for name in ("format", "header", "delimiter", "quote")},
            "paths": [{"text": path} for path in settings.path],
            "names": settings.columns,
            "timestamp_column": self.timestamp.column,
            "timestamp_format": self.timestamp.format,
            "columns": self.columns,
        }
        if self.signs.settings:
            found["signs"] = asdict(self.signs)
        if settings.longest_value != LONGEST_VALUE:
            found["longest_value"] = settings.longest_value
        return found

    @property
    def type_of_all(self) -> str | None:
        """The one type that all events have, None where columns or the names of files tell the types."""
        column = self.columns.get(EVENT_TYPE, "")
        return column[2:-1] if column.startswith("{=") else None

    @property
    def listed(self) -> tuple[str, ...]:
        """The source columns that are read, each once, the timestamp's first."""
        named = (column for name, column in self.columns.items() if name != EVENT_TYPE or column[:1] != "{")
        return tuple(dict.fromkeys((self.timestamp.column, *named)))

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

    def find_columns(self, path: str, present: Sequence[str]) -> None:
        """Check that a file has every column that the schema reads, each once; their order is free."""
        find_columns(path, self.listed, present)


def find_columns(path: str, wanted: Iterable[str], present: Sequence[str]) -> None:
    """Check that a file has some columns, each once; the InputError names the file, the column, and what is there."""
    for column in wanted:
        if present.count(column) > 1:
            raise InputError(
                f"{path}: column {column!r} is there {present.count(column)} times; a column is named once"
            )
        if column not in present:
            hint = did_you_mean(column, present) or "."
            raise InputError(
                f"{path}: column {column!r} is missing; the file has: {listed([*map(repr, present)])}{hint} "
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
