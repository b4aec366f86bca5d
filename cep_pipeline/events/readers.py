"""The formats of raw files.

A format is read by a `RowReader` in a module of its own, and is known by its entry in `READERS`. All others ask this
registry: the first stage of ingestion, the loading of files into memory, and the settings that a stream schema may
have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep_pipeline.events.csv_rows import CsvReader
from cep_pipeline.events.parquet_rows import ParquetReader
from cep_pipeline.events.raw_files import SourceFile
from cep_pipeline.events.raw_rows import FilePart, RowReader
from cep_pipeline.events.source import SourceLayout

READERS: Mapping[str, type[RowReader]] = {"csv": CsvReader, "parquet": ParquetReader}
"""Name of the format in stream schemas -> the class that reads its files."""


def open_rows(file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> RowReader:
    """Open a raw file with the reader of its stream's format."""
    return READERS[source.settings.format](file, source, parts)
