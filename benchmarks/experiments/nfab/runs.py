"""Runs of the queries of `nfab` by its algorithms in turn, several times: counts, and medians of seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import cast

import pyarrow as pa

import cep_pipeline as cep
from benchmarks.experiments.cells import Figure, Row, taken_apart
from benchmarks.experiments.nfab.queries import ALL, NON_OVERLAP, Query, pattern_of
from benchmarks.sase_stream import generate_sase_stream
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.mechanisms import EVERYTHING, PRUNE, Counters
from cep_pipeline.detection.nfab import words
from cep_pipeline.detection.nfab.automaton_runs import AutomatonRuns
from cep_pipeline.detection.outputs import Detection
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.prepared import PreparedEvents

MECHANISM = "nfab"
BASIC, BACKTRACK, MERGE = "basic", "backtrack", "merge"
LEAST_ROUNDS, MOST_ROUNDS, LEAST_S, SLOW_S = 5, 15, 1.5, 4.0
"""Algorithms run in turn so often, and on until so many seconds were measured; one that takes long runs once."""
WINDOW = "@"
"""Separator of algorithm and window in the names of figures that were measured for several windows in turn."""


def measure(query: Query, algorithms: Sequence[str], events: pa.Table) -> dict[str, Figure]:
    """Find all matches of a query by several algorithms in turn, several times.

    Returns
    -------
    dict of str to figure
        The figures of `_Listing`, each named `ALGORITHM.FIGURE`, with the median of the seconds, and as `ratio` the
        median of the ratios of the first algorithm's seconds to this one's in runs that followed each other. Both are
        there for the earlier and the later half of the runs, too, as `seconds_early` and so on.
    """
    return _in_turn({algorithm: _Listing(query, algorithm, events) for algorithm in algorithms})


def measure_windows(queries: Sequence[Query], events: Mapping[int, pa.Table]) -> dict[str, Figure]:
    """Find all matches of queries that differ in the window, in turn, by the basic algorithm.

    Since the windows take turns, a machine that is busy for a while does not bend a curve over the windows.

    Parameters
    ----------
    events
        By window.
    """
    runs = {f"{BASIC}{WINDOW}{q.window}": _Listing(q, BASIC, events[q.window]) for q in queries}
    figures = _in_turn(runs, 2 * LEAST_ROUNDS)
    return figures | {f"{name}.events": len(run.events) for name, run in runs.items()}


def measure_non_overlap(query: Query, algorithms: Sequence[str], events: pa.Table) -> dict[str, Figure]:
    """The same for non-overlapping matches: the shortest is kept, and ends the runs that would overlap it."""
    return _in_turn({algorithm: _NonOverlapping(query, algorithm, events) for algorithm in algorithms})


@dataclass(frozen=True)
class _Listing:
    """Lists all matches of a query, and counts what is done for it."""

    query: Query
    algorithm: str
    events: pa.Table

    def __call__(self) -> dict[str, Figure]:
        pattern = pattern_of(self.query)
        mechanism = MECHANISMS[MECHANISM].with_options(_options(self.algorithm))
        orders = [[variable.name for variable in clause.positive] for clause in pattern.clauses]
        counters = Counters()
        begin = time.process_time()
        prepared = PreparedEvents(self.events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
        matches = elements = 0
        for block in mechanism.find(pattern, orders, prepared, EVERYTHING, counters):
            matches += len(block)
            elements += len(block.rows) if isinstance(block, ListBlock) else block.rows.size
        seconds = time.process_time() - begin
        runs = counters.runs[pattern.name]
        return {
            "seconds": seconds,
            "matches": matches,
            "output_complexity": elements,
            "runs_started": runs.started,
            "runs_merged": runs.merged,
            "events_read": runs.read,
            "events_read_again": runs.read_again,
            "peak_runs": counters.peak_instances,
        }


@dataclass(frozen=True)
class _NonOverlapping:
    """Finds the non-overlapping matches of a query, and writes them."""

    query: Query
    algorithm: str
    events: pa.Table

    def __call__(self) -> dict[str, Figure]:
        pattern = pattern_of(self.query, NON_OVERLAP)
        mechanism = MECHANISMS[MECHANISM].with_options((*_options(self.algorithm), PRUNE))
        orders = [[variable.name for variable in clause.positive] for clause in pattern.clauses]
        counters = Counters()
        begin = time.process_time()
        prepared = PreparedEvents(self.events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
        batches = Detection(pattern, mechanism, orders, prepared, counters).batches()
        matches = sum(batch.num_rows for batch in batches)
        seconds = time.process_time() - begin
        runs = counters.runs[pattern.name]
        return {
            "seconds": seconds,
            "matches": matches,
            "events_read": runs.read,
            "events_read_again": runs.read_again,
        }


def measure_matching(query: Query, algorithms: Sequence[str], events: pa.Table, output: str = ALL) -> dict[str, Figure]:
    """The same for matching alone: it follows runs over prepared events and makes no match (experiment 6)."""
    pattern = pattern_of(query, output)
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    runs = {algorithm: _Matching(query, algorithm, prepared, output) for algorithm in algorithms}
    for run in runs.values():
        run()  # what is derived of the events is kept with them
    return _in_turn(runs)


@dataclass(frozen=True)
class _Matching:
    """Follows the runs of a query without making matches of them."""

    query: Query
    algorithm: str
    events: PreparedEvents
    output: str

    def __call__(self) -> dict[str, Figure]:
        pattern = pattern_of(self.query, self.output)
        (clause,) = pattern.clauses
        runs = AutomatonRuns(
            ClauseSlice(pattern, clause, self.events),
            frozenset((*_options(self.algorithm), *([PRUNE] if self.output == NON_OVERLAP else []))),
            construct=False,
        )
        assert len(runs.sequence.view)  # the query is compiled, and the events are in the order of its partitions
        begin = time.process_time()
        made = sum(len(block) for block in runs)
        seconds = time.process_time() - begin
        control = runs.control.tolist()
        return {
            "seconds": seconds,
            "matches": made,
            "runs_started": control[words.STARTED],
            "runs_merged": control[words.MERGED],
            "events_read": control[words.READ],
        }


def _in_turn(
    runs: Mapping[str, _Listing | _NonOverlapping | _Matching], least_rounds: int = LEAST_ROUNDS
) -> dict[str, Figure]:
    figures: dict[str, Mapping[str, Figure]] = {}
    seconds: dict[str, list[float]] = {algorithm: [] for algorithm in runs}
    for run in runs.values():
        _warm_up(run.query, run.algorithm)
    rounds = 0
    while rounds < MOST_ROUNDS and (rounds < least_rounds or sum(map(sum, seconds.values())) < LEAST_S):
        for algorithm, run in runs.items():
            if rounds and seconds[algorithm][0] > SLOW_S:
                continue
            figures[algorithm] = run()
            seconds[algorithm].append(cast(float, figures[algorithm]["seconds"]))
        rounds += 1
    first = next(iter(runs))
    measured: dict[str, Figure] = {}
    for algorithm, own in figures.items():
        ratios = [one / other for one, other in zip(seconds[first], seconds[algorithm], strict=False)]
        own = {**own, "n": len(seconds[algorithm]), **_repeated("seconds", seconds[algorithm])}
        measured.update({f"{algorithm}.{name}": figure for name, figure in (own | _repeated("ratio", ratios)).items()})
    return measured


def _repeated(name: str, values: Sequence[float]) -> dict[str, Figure]:
    """The median of a repeated figure; and those of the earlier and of the later half, by which its noise is told."""
    figures: dict[str, Figure] = {name: median(values)}
    if len(values) > 1:
        half = len(values) // 2
        figures |= {f"{name}_early": median(values[:half]), f"{name}_late": median(values[half:])}
    return figures


def by_algorithm(rows: Sequence[Row]) -> list[Row]:
    """The rows of cells, taken apart: one for each algorithm, and for each window where several were measured."""
    apart: list[Row] = []
    for row in rows:
        key, own = taken_apart(row)
        for measured, figures in own.items():
            algorithm, _, window = measured.partition(WINDOW)
            apart.append({**key, **({"window": int(window)} if window else {}), "algorithm": algorithm, **figures})
    return apart


def _options(algorithm: str) -> tuple[str, ...]:
    return () if algorithm == BASIC else (algorithm,)


@cache
def _warm_up(query: Query, algorithm: str) -> None:
    """Compile what is not compiled yet."""
    few = generate_sase_stream(200)
    cep.detect([pattern_of(query)], few, mechanism=MECHANISM, options=_options(algorithm))
