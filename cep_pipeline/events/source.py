"""Parts of a stream schema: the layout of the raw files, and the derived attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cep_pipeline.errors import InputError
from cep_pipeline.events.casting import NumberSigns
from cep_pipeline.events.raw_files import PathTemplate
from cep_pipeline.events.timestamps import check_format
from cep_pipeline.foreign_text import did_you_mean, listed

LONGEST_VALUE = 64 << 10
"""Bytes of a value of text, at most, where the schema does not say another number."""

EVENT_TYPE = "event_type"
"""The attribute with the type of events whose files have no column of it."""
TYPE_OF_FILE = "{type}"
"""Stands for the source column of a type that the names of the files tell."""


def type_of_all(name: str) -> str:
    """Stand for the source column of the one type that all events have."""
    return f"{{={name}}}"


@dataclass(frozen=True)
class Renamed:
    """An attribute that had other names before, the oldest first.

    Days that were published from its source column under the oldest name are not stale.
    """

    names: tuple[str, ...]
    column: str | None = None


@dataclass(frozen=True)
class SourceLayout:
    """Layout of the raw files of a stream.

    - `format`: a key of `readers.READERS`. `csv` files may be compressed: gzip, bzip2, zstd and lz4 are known by the
      ending of the file's name.
    - `paths`: templates relative to the data folder; all files that fit are read.
    - `timestamp_format`: `iso`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, or a format of fixed width such as
      `%Y%m%d%H%M`. It says nothing for a Parquet column of a timestamp type.
    - `columns`: source column of every attribute that is read. The attribute of a type that no column has is here as
      `type_of_all` or `TYPE_OF_FILE`.
    - `longest_value`: a row with a value of text of more bytes is rejected.
    - `header`: the first row of a CSV file names its columns; else `names` does.
    - `delimiter`, `quote`: one ASCII character each.
    - `signs`: those in the numbers of columns of text.
    """

    format: str
    paths: tuple[PathTemplate, ...]
    timestamp_column: str
    columns: Mapping[str, str]
    timestamp_format: str = "iso"
    longest_value: int = LONGEST_VALUE
    header: bool = True
    names: tuple[str, ...] = ()
    delimiter: str = ","
    quote: str = '"'
    signs: NumberSigns = field(default_factory=NumberSigns)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))
        if not self.paths:
            raise InputError("source.path: at least one path is needed")
        check_format(self.timestamp_format)
        for name, character in (("delimiter", self.delimiter), ("quote", self.quote)):
            if len(character) != 1 or not character.isascii() or character in "\r\n":
                raise InputError(f"source.{name}: {character!r} is not one ASCII character")
        if self.delimiter == self.quote:
            raise InputError("source.delimiter and source.quote must differ")
        if self.quote in (self.signs.decimal, self.signs.thousands):
            raise InputError(
                f"source.quote: {self.quote!r} is a sign of numbers too, and the two differ; `quote` is the character "
                "around fields, mostly a double one"
            )
        if len(set(self.names)) < len(self.names):
            raise InputError("source.columns names a column twice")

    @property
    def type_of_all(self) -> str | None:
        """The one type that all events have, None where columns or the names of files tell the types."""
        column = self.columns.get(EVENT_TYPE, "")
        return column[2:-1] if column.startswith("{=") else None

    @property
    def listed(self) -> tuple[str, ...]:
        """The source columns that are read, each once, the timestamp's first."""
        named = (column for name, column in self.columns.items() if name != EVENT_TYPE or column[:1] != "{")
        return tuple(dict.fromkeys((self.timestamp_column, *named)))

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
        """Check that a file has every column that the schema reads, each once; their order is free.

        The InputError names the file, the column, and what is there.
        """
        for column in self.listed:
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
