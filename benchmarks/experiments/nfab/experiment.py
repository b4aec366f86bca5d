"""`cep experiment nfab`: what Kleene closure costs, and what sharing saves (SIGMOD'08, section 6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from statistics import median
from typing import cast

import pyarrow as pa

import cep_pipeline as cep
from benchmarks.experiments.experiment import Cell, Experiment, Figure, Request, Row, taken_apart
from benchmarks.sase_stream import SYMBOLS, generate_sase_stream, sase_schema
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.mechanisms import EVERYTHING, PRUNE, Counters
from cep_pipeline.detection.nfab import words
from cep_pipeline.detection.nfab.automaton_runs import AutomatonRuns
from cep_pipeline.detection.outputs import Detection
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.prepared import PreparedEvents

STRATEGIES: Mapping[str, str] = {"s2": "partition_contiguity", "s3": "skip_till_next_match"}
PREDICATES: Mapping[str, str] = {
    "p1": "",
    "p2": "a[i].price > a[i-1].price",
    "p3": "a[i].price > min(a[..i-1].price)",
    "p3 max": "a[i].price > max(a[..i-1].price)",
    "p3 avg": "a[i].price > avg(a[..i-1].price)",
}
"""The iterator predicates of table 1."""
LONGER = "*"
"""Suffix of a predicate's name: the pattern goes on with an event c, which most runs fail to find (experiment 4)."""
ALL, NON_OVERLAP = "ALL", "NON_OVERLAP"
"""Values of OUTPUT."""


@dataclass(frozen=True)
class Query:
    """A query of the template of section 6.

    Attributes
    ----------
    predicate, strategy
        Keys of `PREDICATES`, with `LONGER` or not, and of `STRATEGIES`.
    window
        Events of a partition.
    """

    predicate: str
    strategy: str
    window: int

    @property
    def name(self) -> str:
        """The query's name in the paper."""
        return f"{self.predicate}{self.strategy}"

    def text(self, output: str = ALL) -> str:
        """The statement."""
        longer = self.predicate.endswith(LONGER)
        conditions = [
            "[symbol]",
            "a[1].price % 500 = 0",
            PREDICATES[self.predicate.removesuffix(LONGER)],
            "b.volume < 150",
            "c.price > a[1].price AND c.price < a[a.LEN].price" if longer else "",
        ]
        return (
            f"NAME query PATTERN SEQ(Stock+ a[], Stock b{', Stock c' if longer else ''}) "
            f"WHERE {STRATEGIES[self.strategy]} {{ {' AND '.join(filter(None, conditions))} }} "
            f"WITHIN {self.window} EVENTS PARTITION BY symbol OUTPUT {output}"
        )


@cache
def pattern_of(query: Query, output: str = ALL) -> Pattern:
    """The pattern of a query."""
    return parse_patterns(query.text(output), sase_schema())[0]


MECHANISM = "nfab"
BASIC, BACKTRACK, MERGE = "basic", "backtrack", "merge"
LEAST_ROUNDS, MOST_ROUNDS, LEAST_S, SLOW_S = 5, 15, 1.5, 4.0
"""Algorithms run in turn so often, and on until so many seconds were measured; one that takes long runs once."""
WINDOW = "@"
"""Separator of algorithm and window in the names of figures that were measured for several windows in turn."""


def measure(query: Query, algorithms: Sequence[str], events: pa.Table, output: str = ALL) -> dict[str, Figure]:
    """Find the matches of a query by several algorithms in turn, several times: all, or the non-overlapping ones.

    Of matches that overlap the shortest is kept, and ends the runs that would overlap it.

    Returns
    -------
    dict of str to figure
        The figures of `_Listing`, each named `ALGORITHM.FIGURE`, with the median of the seconds, and as `ratio` the
        median of the ratios of the first algorithm's seconds to this one's in runs that followed each other. Both are
        there for the earlier and the later half of the runs, too, as `seconds_early` and so on.
    """
    return _in_turn({algorithm: _Listing(query, algorithm, events, output) for algorithm in algorithms})


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


@dataclass(frozen=True)
class _Listing:
    """Lists all matches of a query, or finds and writes the non-overlapping ones, and counts what is done for it."""

    query: Query
    algorithm: str
    events: pa.Table
    output: str = ALL

    def __call__(self) -> dict[str, Figure]:
        pattern = pattern_of(self.query, self.output)
        apart = self.output == NON_OVERLAP
        mechanism = MECHANISMS[MECHANISM].with_options((*_options(self.algorithm), *([PRUNE] if apart else [])))
        orders = [[variable.name for variable in clause.positive] for clause in pattern.clauses]
        counters = Counters()
        begin = time.process_time()
        prepared = PreparedEvents(self.events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
        matches = elements = 0
        if apart:
            matches = sum(len(one) for one in Detection(pattern, mechanism, orders, prepared, counters).batches())
        else:
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


def _in_turn(runs: Mapping[str, _Listing | _Matching], least_rounds: int = LEAST_ROUNDS) -> dict[str, Figure]:
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


MERGING, MATCHING, BACKTRACKING, NON_OVERLAPPING = "merging", "matching", "backtracking", "non-overlapping"
MATCHING_BACK, MATCHING_APART, GROWING = "matching, backtracking", "matching, non-overlapping", "growing windows"
"""Parts: experiments 1 and 5; 6; 3; 4; 3 and 4 in matching alone; and 2."""
LARGEST_STEP = 1
"""Largest change of a price. The paper does not say it; with 1 as many runs are merged in its smallest window as there
(48% in table 3), since runs begin at a price that is passed slowly, and its matches are as long (table 2)."""


@dataclass(frozen=True)
class Sizes:
    """The amount of work that is measured.

    Attributes
    ----------
    windows
        Partition windows in events, ascending; all queries and algorithms run with the first.
    length
        Of the stream: so many windows of events for each symbol.
    rising
        Probabilities that a price rises.
    predicates
        Of `PREDICATES`.
    """

    windows: tuple[int, ...]
    length: int
    rising: tuple[float, ...]
    predicates: tuple[str, ...]

    def events(self, window: int) -> int:
        """Length of the stream for queries of a window."""
        return len(SYMBOLS) * self.length * window


SMALL = Sizes((500, 1000, 1500, 2000), 200, (0.7,), ("p1", "p2", "p3"))
"""The paper's windows and streams."""
FULL = Sizes((500, 750, 1000, 1250, 1500, 1750, 2000), 200, (0.7, 0.55), tuple(PREDICATES))


Measure = Callable[[Query, Sequence[str], pa.Table], Mapping[str, Figure]]


@lru_cache(maxsize=1)
def _stream(events: int, seed: int, rising: float) -> pa.Table:
    return generate_sase_stream(events, seed, rising, LARGEST_STEP)


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    for rising in sizes.rising:
        yield from _cells_of(sizes, request.seed, rising)


def _cells_of(sizes: Sizes, seed: int, rising: float) -> Iterator[Cell]:
    """The cells of the streams in which prices rise with a probability."""
    names = [(predicate, strategy) for predicate in sizes.predicates for strategy in STRATEGIES]

    def cell(part: str, query: Query, how: Measure, algorithms: Sequence[str]) -> Cell:
        events = sizes.events(query.window)
        key: dict[str, Figure] = {
            "part": part,
            "rising": rising,
            "events": events,
            "window": query.window,
            "query": query.name,
        }
        return Cell(key, lambda: how(query, algorithms, _stream(events, seed, rising)))

    def growing(queries: Sequence[Query]) -> Cell:
        key: dict[str, Figure] = {"part": GROWING, "rising": rising, "query": queries[0].name}

        def run() -> Row:
            streams = {w: generate_sase_stream(sizes.events(w), seed, rising, LARGEST_STEP) for w in sizes.windows}
            return measure_windows(queries, streams)

        return Cell(key, run)

    for name in names:
        yield growing([Query(*name, window) for window in sizes.windows])
    for window in sizes.windows:
        for query in (Query(*name, window) for name in names):
            yield cell(MERGING, query, measure, (BASIC, MERGE))
            if query.strategy == "s3" or query.predicate == "p2":
                yield cell(MATCHING, query, measure_matching, (BASIC, MERGE))
    for query in (Query(*name, sizes.windows[0]) for name in names):
        yield cell(BACKTRACKING, query, measure, (BASIC, BACKTRACK))
        yield cell(MATCHING_BACK, query, measure_matching, (BASIC, BACKTRACK))
    apart = [(predicate, strategy) for predicate in ("p3", f"p3{LONGER}") for strategy in STRATEGIES]
    for window in sizes.windows:
        for query in (Query(*name, window) for name in apart):
            yield cell(NON_OVERLAPPING, query, partial(measure, output=NON_OVERLAP), (BASIC, BACKTRACK))
            yield cell(MATCHING_APART, query, partial(measure_matching, output=NON_OVERLAP), (BASIC, BACKTRACK))


EXPERIMENT = Experiment("nfab", SMALL, FULL, _cells)
