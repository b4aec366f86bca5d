"""Two plans run over the same sample of a day's events, to see which one does less."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cep_pipeline.detection.detect import detect
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.errors import CepError
from cep_pipeline.planning import Plan
from cep_pipeline.slices.extent import columns_needed
from cep_pipeline.spark.slicing import RowGroup, open_events, read_row_groups

if TYPE_CHECKING:
    from cep_pipeline.detection.mechanisms import Metrics
    from cep_pipeline.pipeline.configuration import PatternSet
    from cep_pipeline.warehouse.records import EventsSnapshot
    from cep_pipeline.warehouse.stream_reader import StreamReader

STRETCHES = 4
"""A sample is so many stretches of consecutive events, spread over the day: windows need neighbours."""
REPEATS = 2
"""Each plan runs so often; the fastest run counts."""
WARMING_EVENTS = 200
"""So many events are run first, so that kernels are compiled."""


@dataclass(frozen=True)
class Trial:
    """What a plan did over a sample.

    Attributes
    ----------
    seconds
        Of the fastest run.
    work
        Tuples of events that conditions were tested on, and partial matches that were stored.
    matches
        By pattern.
    """

    seconds: float
    work: int
    matches: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """It as JSON values."""
        return {"seconds": self.seconds, "work": self.work, "matches": self.matches}


def sample_of_day(
    tables: StreamReader, events: EventsSnapshot, day: date, pattern_set: PatternSet, size: int
) -> list[pa.Table]:
    """Stretches of consecutive events of a day, `size` events together; the whole day where it has no more."""
    files = tables.events_files(day, day, snapshot=events)
    groups = read_row_groups(file.path for file in files)
    rows = sum(group.rows for group in groups)
    columns = ["timestamp", "seq", *columns_needed(pattern_set.patterns)]
    if not rows or not size:
        return []
    if rows <= size:
        return [_rows_of(groups, 0, rows, columns)]
    length = max(1, size // STRETCHES)
    starts = [(rows - length) * place // (STRETCHES - 1) for place in range(STRETCHES)]
    return [_rows_of(groups, start, start + length, columns) for start in starts]


def _rows_of(groups: Sequence[RowGroup], first: int, end: int, columns: Sequence[str]) -> pa.Table:
    wanted = list(dict.fromkeys(columns))
    parts = []
    begin = 0
    for group in groups:
        if begin < end and first < begin + group.rows:
            with open_events(group.path) as file:
                names = set(file.schema_arrow.names)
                part = file.read_row_group(group.index, columns=[name for name in wanted if name in names])
            part = part.slice(max(0, first - begin), min(group.rows, end - begin) - max(0, first - begin))
            for name in wanted:  # an attribute that is newer than the file
                if name not in names:
                    part = part.append_column(name, pa.nulls(part.num_rows))
            parts.append(part.select(wanted))
        begin += group.rows
    return pa.concat_tables(parts, promote_options="permissive").unify_dictionaries().combine_chunks()


def run_plans(pattern_set: PatternSet, plans: Sequence[Plan], sample: Sequence[pa.Table]) -> list[Trial]:
    """Run plans over a sample, one after the other in turns, so that what slows the machine slows all of them.

    Raises
    ------
    CepError
        They find different matches.
    """
    for plan in plans:
        for stretch in sample[:1]:
            _run(pattern_set, plan, stretch.slice(0, WARMING_EVENTS))
    found: list[list[Trial]] = [[] for _ in plans]
    for _ in range(REPEATS):
        for place, plan in enumerate(plans):
            found[place].append(_over(pattern_set, plan, sample))
    trials = [min(of_plan, key=lambda trial: trial.seconds) for of_plan in found]
    for trial in trials[1:]:
        if trial.matches != trials[0].matches:
            raise CepError(
                f"pattern set {pattern_set.name!r}: two plans find different matches in a sample of events, "
                f"{trials[0].matches} and {trial.matches}: neither is to be trusted; the current plan stays"
            )
    return trials


def _over(pattern_set: PatternSet, plan: Plan, sample: Sequence[pa.Table]) -> Trial:
    work = 0
    matches = {pattern.name: 0 for pattern in pattern_set.patterns}
    begin = time.perf_counter()
    for stretch in sample:
        tables, metrics = _run(pattern_set, plan, stretch)
        work += sum(node.candidates + node.created for node in metrics.nodes)
        for name, number in _counts(tables):
            matches[name] += number
    return Trial(time.perf_counter() - begin, work, matches)


def _run(pattern_set: PatternSet, plan: Plan, events: pa.Table) -> tuple[dict[str, pa.Table], Metrics]:
    patterns = pattern_set.patterns
    output = "verbose" if any(map(has_output_policy, patterns)) else "count"
    return detect(patterns, events, plan=plan, mechanism=pattern_set.mechanism, output=output, metrics=True)


def _counts(tables: dict[str, pa.Table]) -> Iterator[tuple[str, int]]:
    for name, table in tables.items():
        counted = "count" in table.column_names
        yield name, int(table["count"][0].as_py()) if counted else table.num_rows
