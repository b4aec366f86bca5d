"""The input of a command: patterns over files, without a warehouse, or a stream of the configuration."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cep_pipeline.cli.options import note_unused_parameters, parse_parameters, repeat
from cep_pipeline.cli.terminal import Terminal
from cep_pipeline.errors import InputError
from cep_pipeline.guarded import read_json

if TYPE_CHECKING:
    from cep_pipeline.events.event_files import LoadedEvents
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import Configuration, PatternSet, Stream
    from cep_pipeline.planning import Plan
    from cep_pipeline.warehouse.stream_tables import StreamTables


@dataclass(frozen=True)
class OpenedStream:
    """A configured stream with its tables, and the pattern sets that are meant."""

    stream: Stream
    tables: StreamTables
    pattern_sets: tuple[PatternSet, ...]


def open_stream(config: Path, stream: str | None, pattern_set: str | None) -> OpenedStream:
    """A stream of a configuration, the published one if none is named, with one of its pattern sets, or all.

    Where there is none of this name, or nothing of it is published, that is an InputError.
    """
    from cep_pipeline.pipeline.configuration import Configuration

    configuration = Configuration.load(config)
    opened = configuration.stream(chosen_stream(configuration, stream))
    if not opened.pattern_sets:
        raise InputError(f"{config}: stream {opened.name!r} has no pattern sets")
    chosen = opened.chosen_sets(pattern_set)
    return OpenedStream(opened, configuration.open_warehouse().open_stream(opened.name), chosen)


def chosen_stream(configuration: Configuration, named: str | None) -> str:
    """The stream that is named, or the only one that is published; the first one where nothing is published.

    Several published streams, of which none is named, are an InputError.
    """
    names = configuration.stream_names()
    if named or len(names) == 1:
        return named or names[0]
    published = [name for name in names if name in configuration.open_warehouse().streams()]
    chosen = _only("stream", "--stream", published) if published else names[0]
    if chosen != names[0]:
        repeat("--stream", chosen)
    return chosen


def chosen_set(stream: str, sets: Sequence[str], named: str | None) -> str:
    """The pattern set that is named, or the only one of a stream; else an InputError."""
    if not sets and not named:
        raise InputError(f"stream {stream!r} has no pattern sets")
    return named or _only("pattern set", "--pattern-set", sets)


def _only(what: str, option: str, names: Sequence[str]) -> str:
    if len(names) > 1:
        raise InputError(f"there are several {what}s: {', '.join(names)}; say which: {option} {names[0]}")
    return names[0]


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


def read_plan(path: Path) -> Plan:
    """Read a plan file; an InputError says that it is missing or holds no plan."""
    from cep_pipeline.planning import Plan

    return Plan.from_json(read_json(path, "plan"), str(path))


def event_paths(given: Sequence[Path], schema: StreamSchema) -> list[Path]:
    """The files of events that a user means: files, all files of a folder or of a pattern, and `-` for stdin.

    A folder or a pattern without a file is an InputError.
    """
    found: dict[Path, None] = {}
    for path in given:
        if str(path) == "-":
            found[_stdin_file(schema.source.settings.format if schema.source else "parquet")] = None
        elif path.is_dir():
            found.update(dict.fromkeys(_files_in(path, schema)))
        elif not path.exists() and any(sign in str(path) for sign in "*?["):
            root = Path(path.anchor)
            matching = sorted(one for one in root.glob(str(path.relative_to(root))) if one.is_file())
            if not matching:
                raise InputError(f"{path}: no file fits this pattern")
            found.update(dict.fromkeys(matching))
        else:
            found[path] = None
    return list(found)


def _files_in(folder: Path, schema: StreamSchema) -> list[Path]:
    """The files of a folder that the schema's paths name; without a source, its Parquet files."""
    paths = schema.source.paths if schema.source else ()
    patterns = [template.any_day for template in paths] or ["*.parquet"]
    found = sorted({one for pattern in patterns for one in folder.glob(pattern) if one.is_file()})
    if not found:
        raise InputError(
            f"{folder}: no file of the stream is in this folder; its files are named {', '.join(patterns)}"
        )
    return found


@cache
def _stdin_file(form: str) -> Path:
    """A file with what is read from stdin; it is removed when the command ends."""
    data = sys.stdin.buffer.read()
    ending = {b"\x1f\x8b": ".gz", b"\x28\xb5": ".zst", b"BZ": ".bz2"}.get(data[:2], "") if form == "csv" else ""
    folder = TemporaryDirectory(prefix="cep-stdin-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / f"stdin.{form}{ending}"
    path.write_bytes(data)
    return path


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
    day: date | None = None

    @property
    def over_files(self) -> bool:
        """True where files are given."""
        return bool(self.patterns or self.schema or self.events)

    def read(self, *, places: bool = False) -> tuple[StreamSchema, tuple[Pattern, ...], LoadedEvents]:
        """The stream of the files, the patterns over it, and the events, with their places in the files if asked for.

        Files that are not given or readable are an InputError.
        """
        from cep_pipeline.events.event_files import load_events

        if not (self.patterns and self.schema and self.events):
            raise InputError("over files --patterns, --schema and --events belong together")
        stream, parsed = patterns_over_files(self.patterns, self.schema, self.parameters)
        with Terminal(stderr=True).status("reading events"):
            return stream, parsed, load_events(stream, event_paths(self.events, stream), places=places)

    def open(self, pattern: str | None = None) -> OpenedStream:
        """The stream of the configuration, with the pattern set that is named, or the only one that has the pattern."""
        opened = open_stream(self.config, self.stream, self.pattern_set)
        sets = opened.pattern_sets
        if pattern is not None and len(sets) > 1:
            sets = tuple(one for one in sets if pattern in {each.name for each in one.statements}) or sets
        chosen_set(opened.stream.name, [one.name for one in sets], self.pattern_set)
        return replace(opened, pattern_sets=sets)
