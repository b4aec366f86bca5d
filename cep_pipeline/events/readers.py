"""The formats of raw files.

A format is read by a class that has the methods of `RowReader`, in a module of its own, and is known by its entry in
`READERS`. All others ask this registry: the first stage of ingestion, the loading of files into memory, and the
settings that a stream schema may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from cep_pipeline.events.csv_rows import CsvReader, Survey, Surveyed
from cep_pipeline.events.parquet_rows import ParquetReader
from cep_pipeline.events.raw_files import RawFile, SourceFile
from cep_pipeline.events.raw_rows import FilePart, RawBlock
from cep_pipeline.events.source import SourceLayout
from cep_pipeline.storage import DataDirectory


class RowReader(Protocol):
    """Reads the rows of one raw file, block after block; a context manager, which closes the file.

    The constructor opens the file. With `parts`, only those parts of it are read.
    """

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None: ...

    def __enter__(self) -> RowReader: ...

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[RawBlock]:
        """Yield the rows in their order; a file that is truncated, corrupt, or lacks a column is an InputError."""

    @property
    def dropped_columns(self) -> tuple[str, ...]:
        """Columns of the file that the schema does not list; complete once all rows have been read."""

    def raw_file(self) -> RawFile | None:
        """Return the fingerprint of the file if reading its rows has hashed it, else None; called after the rows."""

    @staticmethod
    def survey(file: SourceFile, source: SourceLayout, scratch: DataDirectory, part_bytes: int) -> Survey | None:
        """Return the task, for `survey_text`, that must have been run before the file can be cut, if there is one."""

    @staticmethod
    def parts_of(file: SourceFile, source: SourceLayout, surveyed: Surveyed | None = None) -> Sequence[FilePart] | None:
        """Return the parts of a file that can be read on their own, by the result of its survey; None: it is one."""

    @staticmethod
    def check(source: SourceLayout) -> None:
        """Refuse, with an InputError, a layout that files of this format cannot have."""


READERS: Mapping[str, type[RowReader]] = {"csv": CsvReader, "parquet": ParquetReader}
"""Name of the format in stream schemas -> the class that reads its files."""


def open_rows(file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> RowReader:
    """Open a raw file with the reader of its stream's format."""
    return READERS[source.format](file, source, parts)
