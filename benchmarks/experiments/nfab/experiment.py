"""`cep experiment nfab`: what Kleene closure costs, and what sharing saves (SIGMOD'08, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from benchmarks.experiments.cells import Cell, Figure, Row
from benchmarks.experiments.experiment import Experiment, Request, Work
from benchmarks.experiments.nfab.queries import LONGER, NON_OVERLAP, PREDICATES, STRATEGIES, Query
from benchmarks.experiments.nfab.runs import (
    BACKTRACK,
    BASIC,
    MERGE,
    measure,
    measure_matching,
    measure_non_overlap,
    measure_windows,
)
from benchmarks.experiments.page import Page
from benchmarks.sase_stream import SYMBOLS, generate_sase_stream

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


class _Streams:
    """Streams by length and probability; the last is kept."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._last: tuple[tuple[int, float], pa.Table] | None = None

    def by_window(self, sizes: Sizes, rising: float) -> dict[int, pa.Table]:
        """Figures of all windows, for one cell; none is kept."""
        return {w: generate_sase_stream(sizes.events(w), self._seed, rising, LARGEST_STEP) for w in sizes.windows}

    def of(self, events: int, rising: float) -> pa.Table:
        if self._last is None or self._last[0] != (events, rising):
            self._last = (events, rising), generate_sase_stream(events, self._seed, rising, LARGEST_STEP)
        return self._last[1]


def plan_work(request: Request) -> Work:
    """The measurements of all algorithms, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)
    streams = _Streams(request.seed)
    cells = [cell for rising in sizes.rising for cell in _cells_of(sizes, streams, rising)]

    def page(rows: Sequence[Row]) -> Page:
        from benchmarks.experiments.nfab.page import write_page

        return write_page(rows, sizes, request)

    return Work(cells, page)


def _cells_of(sizes: Sizes, streams: _Streams, rising: float) -> Iterator[Cell]:
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
        return Cell(key, lambda: how(query, algorithms, streams.of(events, rising)))

    def growing(queries: Sequence[Query]) -> Cell:
        key: dict[str, Figure] = {"part": GROWING, "rising": rising, "query": queries[0].name}
        return Cell(key, lambda: measure_windows(queries, streams.by_window(sizes, rising)))

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
            yield cell(NON_OVERLAPPING, query, measure_non_overlap, (BASIC, BACKTRACK))
            yield cell(MATCHING_APART, query, partial(measure_matching, output=NON_OVERLAP), (BASIC, BACKTRACK))


EXPERIMENT = Experiment("nfab", plan_work)
