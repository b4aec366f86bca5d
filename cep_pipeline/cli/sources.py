"""What a command looks at: patterns over files, without a warehouse, or a stream of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from cep_pipeline.cli.options import note_unused_parameters, parse_parameters
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.warehouse.stream_tables import StreamTables


@dataclass(frozen=True)
class OpenedStream:
    """A configured stream with its tables, and the pattern sets that are meant."""

    stream: Stream
    tables: StreamTables
    pattern_sets: tuple[PatternSet, ...]


def open_stream(config: Path, stream: str | None, pattern_set: str | None) -> OpenedStream:
    """A stream of a configuration, the first if none is named, with one of its pattern sets, or all.

    Raises
    ------
    InputError
        There is no such stream or pattern set, or nothing of it is published.
    """
    from cep_pipeline.pipeline.configuration import Configuration

    configuration = Configuration.load(config)
    opened = configuration.stream(stream or configuration.stream_names()[0])
    if not opened.pattern_sets:
        raise InputError(f"{config}: stream {opened.name!r} has no pattern sets")
    chosen = opened.chosen_sets(pattern_set)
    return OpenedStream(opened, configuration.open_warehouse().open_stream(opened.name), chosen)


def patterns_over_files(
    patterns: Path, schema: Path, parameters: tuple[str, ...]
) -> tuple[StreamSchema, tuple[Pattern, ...]]:
    """Read a stream schema and the patterns over it; a value of `--param` that no pattern asks for is told."""
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.pipeline.configuration import read_patterns

    stream = StreamSchema.load(schema)
    values = parse_parameters(parameters)
    parsed = read_patterns(patterns, stream, values)
    note_unused_parameters(values, parsed)
    return stream, parsed


@dataclass(frozen=True)
class Asked:
    """The options that say of what something is wanted: of files, or of a day in the warehouse."""

    patterns: Path | None
    schema: Path | None
    events: tuple[Path, ...]
    parameters: tuple[str, ...]
    config: Path
    stream: str | None
    pattern_set: str | None
    day: date | None

    @property
    def over_files(self) -> bool:
        """True where files are given."""
        return bool(self.patterns or self.schema or self.events)

    def over_these_files(self) -> tuple[StreamSchema, tuple[Pattern, ...]]:
        """The stream of the files, and the patterns over it.

        Raises
        ------
        InputError
            Some of the files are not given, or one cannot be read.
        """
        if not (self.patterns and self.schema and self.events):
            raise InputError("over files --patterns, --schema and --events belong together")
        return patterns_over_files(self.patterns, self.schema, self.parameters)

    def open(self) -> OpenedStream:
        """The stream of the configuration; of its pattern sets the one that is named, or the first of several."""
        return open_stream(self.config, self.stream, self.pattern_set)
