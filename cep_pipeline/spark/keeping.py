"""The pass of OUTPUT and CONSUME over what the slices of a day found: one task, in the page's order, batch after batch.

Which matches are kept depends on all earlier kept ones. So slices write all matches of such patterns as candidates,
and when the last slice is done one pass reads them in the order of the slices and writes those that are kept. It starts
from the carry state of the day before and ends with that of the day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.detection.extent import waits_for_later_events
from cep_pipeline.detection.matches import CANDIDATES, MANY_PATTERNS, candidates_of
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy, policy_text
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.warehouse.data_files import DataDirectory, open_data_file, open_filesystem, storage_errors
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES

CANDIDATES_SCHEMA = pa.schema([*MATCHES_SCHEMA, *list(CANDIDATES)[len(MANY_PATTERNS) :]])
"""Columns of a file of candidates: those of the matches table, and what deciding about them needs."""


@dataclass(frozen=True)
class CarryState:
    """What a day hands on to the next about the matches that are kept so far.

    Attributes
    ----------
    pattern_set_version
        For which patterns it holds; a pattern set that has changed starts anew.
    patterns
        Pattern -> the state of its `KeptMatches`, where there is anything to remember.
    """

    pattern_set_version: str
    patterns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, {} where nothing is remembered, so that it is equal where it decides the same."""
        if not self.patterns:
            return {}
        return {"pattern_set_version": self.pattern_set_version, "patterns": dict(self.patterns)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], pattern_set_version: str) -> CarryState:
        """Read the JSON form; nothing is remembered of other versions of the pattern set."""
        if document.get("pattern_set_version") != pattern_set_version:
            return cls(pattern_set_version)
        return cls(pattern_set_version, document["patterns"])

    def kept(self, patterns: Iterable[Pattern]) -> dict[str, KeptMatches]:
        """What each of these patterns that has OUTPUT or CONSUME goes on from."""
        return {
            pattern.name: KeptMatches(pattern, self.patterns.get(pattern.name))
            for pattern in patterns
            if has_output_policy(pattern)
        }

    def after(self, patterns: Iterable[Pattern], kept: Mapping[str, KeptMatches], end_us: int) -> CarryState:
        """The state at the end of the day, `end_us`: without what no later match can reach."""
        states = {}
        for pattern in patterns:
            if pattern.name in kept:
                if pattern.window.time_us is not None:
                    kept[pattern.name].forget(end_us - pattern.window.time_us)
                if state := kept[pattern.name].to_json():
                    states[pattern.name] = state
        return CarryState(self.pattern_set_version, states)


@dataclass(frozen=True)
class Kept:
    """What the pass gave: files to publish, kept matches by pattern, and what the next day goes on from."""

    files: tuple[str, ...]
    matches: Mapping[str, int]
    carry_out: CarryState


@dataclass(frozen=True)
class KeepingPass:
    """One pass over a day.

    Attributes
    ----------
    patterns
        Those of the pattern set.
    carry_in
        The state of the latest earlier day.
    end_us
        When the day ends, in microseconds.
    directory
        Where the kept matches are written.
    first_file
        Number of the first file: behind those of the slices, so that the order of files is always the same.
    """

    patterns: Sequence[Pattern]
    carry_in: CarryState
    end_us: int
    directory: DataDirectory
    first_file: int

    def run(self, candidates: Sequence[str | None], attempt: int = 0) -> Kept:
        """Decide about the candidates of all slices, a file for each in the order of the slices (None: it has none)."""
        kept = self.carry_in.kept(self.patterns)
        matches = dict.fromkeys(kept, 0)
        files = []
        for number, source in enumerate(candidates):
            with ExitStack() as stack:
                writer = None
                for name, batch in _batches(source):
                    chosen = batch.filter(pa.array(kept[name].keep(candidates_of(batch))))
                    if not chosen.num_rows:
                        continue
                    if writer is None:
                        path = self.directory.file(self.first_file + number, attempt)
                        writer = stack.enter_context(
                            open_data_file(path, MATCHES_SCHEMA, dictionaries=REPEATING_IN_MATCHES)
                        )
                        files.append(path)
                    writer.write_batch(chosen.select(MATCHES_SCHEMA.names))
                    matches[name] += chosen.num_rows
        return Kept(tuple(files), matches, self.carry_in.after(self.patterns, kept, self.end_us))


def _batches(path: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The candidates of a slice, a batch of one pattern after another."""
    if path is None:
        return
    filesystem, name = open_filesystem(path)
    with storage_errors(f"reading {path}"), pq.ParquetFile(filesystem.open_input_file(name)) as file:
        for group in range(file.num_row_groups):
            for batch in file.read_row_group(group).cast(CANDIDATES_SCHEMA).to_batches():
                for pattern in pc.unique(batch.column("pattern")).to_pylist():
                    yield pattern, batch.filter(pc.equal(batch.column("pattern"), pattern))


def refuse_undecidable(patterns: Iterable[Pattern]) -> None:
    """Refuse the patterns whose OUTPUT and CONSUME cannot be decided day by day.

    Raises
    ------
    UnsupportedPattern
        A match waits for later events, so that earlier matches may become final after later ones.
    """
    for pattern in patterns:
        if has_output_policy(pattern) and waits_for_later_events(pattern):
            raise UnsupportedPattern(
                "the daily pipeline",
                f"{policy_text(pattern)} with a negated variable that nothing follows",
                pattern=pattern.name,
                hint="put an event after the negated one, or use `cep detect` over all events",
            )
