"""`cep experiment multi_pattern`: plans of many patterns at once against plans of each by itself (MCEP, section 6)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from benchmarks.experiments.cells import Cell, Figure, Row
from benchmarks.experiments.experiment import Experiment, Request, Work
from benchmarks.experiments.multi_pattern.adaptive import AdaptiveSizes, measure_adaptive
from benchmarks.experiments.multi_pattern.parts import (
    ADAPTIVE,
    COUNT,
    DENSITY,
    RATES,
    RECOMPUTED,
    SEARCH,
    SIZE,
    TIME,
    WORKLOAD,
)
from benchmarks.experiments.multi_pattern.runs import (
    ALL,
    COMPARED,
    Contender,
    SearchLimit,
    measure_workload,
    snapshot_for,
)
from benchmarks.experiments.multi_pattern.streams import (
    STOCKS,
    STREAMS,
    WINDOW_S,
    WorkloadStream,
    stocks,
    traffic,
    window_s_of,
)
from benchmarks.experiments.multi_pattern.workloads import Shape, draw_workload, events_of_window
from benchmarks.experiments.page import Page
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload


@dataclass(frozen=True)
class Sizes:
    """The extent of what is measured.

    Attributes
    ----------
    windows
        How many windows of 15 minutes the streams last.
    patterns
        Numbers of patterns, and how many workloads are drawn of each.
    most_for_all
        Of more patterns only the best searches and the baselines are measured.
    workloads
        Workloads that are drawn of each shape in the other parts.
    base
        Patterns of the workloads of the other parts.
    pattern_sizes
        Average sizes.
    search
        How far a local search goes.
    search_s
        Seconds of search, in that part.
    window_s
        Windows, in seconds; of count windows as many events as come in these on average.
    types
        Types that the patterns of a workload are of: the fewer, the denser the graph.
    rate_differences
        Largest difference of rates in a pattern, as a share of the largest there is.
    adaptive
        Of the part with types exchanged.
    recomputed
        Patterns of the part that computes costs anew.
    ours_s, ratio
        Seconds of the search with differences, and how many times as long the one that recomputes has.
    """

    windows: int
    patterns: Mapping[int, int]
    most_for_all: int
    workloads: int
    base: int
    pattern_sizes: tuple[int, ...]
    search: SearchLimit
    search_s: tuple[float, ...]
    window_s: tuple[int, ...]
    types: tuple[int, ...]
    rate_differences: tuple[float, ...]
    adaptive: AdaptiveSizes
    recomputed: int
    ours_s: float
    ratio: float = 36.0


SMALL = Sizes(
    windows=20,
    patterns={10: 10, 30: 10, 100: 10},
    most_for_all=30,
    workloads=2,
    base=30,
    pattern_sizes=(3, 5, 7),
    search=SearchLimit(steps=50_000),
    search_s=(0.1, 0.4, 1.6),
    window_s=(600, 900, 1_200),
    types=(7, 12, 18),
    rate_differences=(0.2, 0.4, 1.0),
    adaptive=AdaptiveSizes(
        patterns=20,
        size=3,
        windows=4,
        window_events=10_000,
        phases=(10, 1_000, 10_000),
        workloads=2,
        every_windows=1,
        reach_windows=2,
        steps=5_000,
        threshold=1.0,
        minimum_gain=0.5,
    ),
    recomputed=50,
    ours_s=0.4,
)
FULL = replace(
    SMALL,
    patterns={**SMALL.patterns, 300: 1, 1_000: 1},
    most_for_all=100,
    workloads=10,
    base=100,
    search=SearchLimit(steps=200_000),
    search_s=(0.25, 1.0, 4.0, 16.0),
    adaptive=replace(
        SMALL.adaptive,
        patterns=40,
        windows=8,
        phases=(10, 30, 100, 300, 1_000, 10_000, 100_000),
        workloads=10,
    ),
    recomputed=100,
    ours_s=5.0,
)


class _Streams:
    """The streams, each made when it is first asked for."""

    def __init__(self, request: Request, sizes: Sizes) -> None:
        self._request, self._sizes = request, sizes
        self._kept: dict[tuple[str, int, int], WorkloadStream] = {}

    def named(self, name: str, windows: int | None = None, window_s: int = WINDOW_S) -> WorkloadStream:
        key = name, self._sizes.windows if windows is None else windows, window_s
        if key not in self._kept:
            _, *extent = key
            self._kept[key] = stocks(*extent) if name == STOCKS else traffic(self._request.data, *extent)
        return self._kept[key]

    @property
    def descriptions(self) -> dict[str, str]:
        """Descriptions of the streams, for people."""
        return {name: self.named(name).description for name in STREAMS}


def plan_work(request: Request) -> Work:
    """The measurements, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)
    streams = _Streams(request, sizes)
    cells = [
        *_workload_cells(sizes, streams, request.seed),
        *_adaptive_cells(sizes, streams, request.seed),
        *_recomputed_cells(sizes, streams, request.seed),
    ]

    def page(rows: Sequence[Row]) -> Page:
        from benchmarks.experiments.multi_pattern.page import write_page

        return write_page(rows, sizes, request, streams.descriptions)

    return Work(cells, page)


def _workload_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    base = Shape(sizes.base)

    def run(
        stream: str,
        shape: Shape | Callable[[WorkloadStream], Shape],
        number: int,
        contenders: Sequence[Contender],
        search: SearchLimit,
    ) -> Row:
        of = streams.named(stream)
        wanted = shape if isinstance(shape, Shape) else shape(of)
        return measure_workload(of, wanted, number, contenders, search, seed)

    def cell(
        part: str,
        value: float,
        stream: str,
        shape: Shape | Callable[[WorkloadStream], Shape],
        number: int,
        contenders: Sequence[Contender] = COMPARED,
        search: SearchLimit = sizes.search,
    ) -> Cell:
        key: dict[str, Figure] = {
            "part": part,
            "stream": stream,
            "value": value,
            "patterns": shape.patterns if isinstance(shape, Shape) else base.patterns,
            "number": number,
            "windows": sizes.windows,
            "search": str(search),
        }
        return Cell(key, partial(run, stream, shape, number, contenders, search))

    for stream, (patterns, workloads) in product(STREAMS, sizes.patterns.items()):
        for number in range(workloads):
            contenders = ALL if patterns <= sizes.most_for_all else COMPARED
            yield cell(WORKLOAD, patterns, stream, Shape(patterns), number, contenders)
    shapes: list[tuple[str, float, Shape | Callable[[WorkloadStream], Shape]]] = [
        *((SIZE, size, replace(base, size=size)) for size in sizes.pattern_sizes),
        *((TIME, length, replace(base, window=f"{length} seconds")) for length in sizes.window_s),
        *((COUNT, length, partial(_counted, base, length)) for length in sizes.window_s),
        *((DENSITY, types, replace(base, types=types)) for types in sizes.types),
        *((RATES, share, replace(base, rate_difference=share)) for share in sizes.rate_differences),
    ]
    for (part, value, shape), stream, number in product(shapes, STREAMS, range(sizes.workloads)):
        yield cell(part, value, stream, shape, number)
    searched = [contender for contender in COMPARED if contender.searches or contender.is_trivial]
    for seconds, stream, number in product(sizes.search_s, STREAMS, range(sizes.workloads)):
        yield cell(SEARCH, seconds, stream, base, number, searched, SearchLimit(seconds=seconds))


def _counted(shape: Shape, length: int, stream: WorkloadStream) -> Shape:
    """Return the shape with a count window. Its length depends on the stream, which is made when it is asked for."""
    return replace(shape, window=f"{events_of_window(stream, length)} events")


def _adaptive_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def run(stream: str, exchange: str, phase: int, number: int) -> Row:
        read = streams.named(stream, of.windows, window_s_of(stream, of.window_events))
        return measure_adaptive(read, exchange, phase, number, of, seed)

    of = sizes.adaptive
    for stream, exchange, phase, number in of.cells():
        key: dict[str, Figure] = {"part": ADAPTIVE, "stream": stream, "value": phase, "windows": of.windows}
        key |= {"exchange": exchange, "number": number, "patterns": of.patterns, "size": of.size}
        key |= {"steps": of.steps, "threshold": of.threshold, "minimum gain": of.minimum_gain}
        key |= {"every": of.every_windows, "reach": of.reach_windows, "events a window": of.window_events}
        yield Cell(key, partial(run, stream, exchange, phase, number))


def _recomputed_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def run(stream: str, patterns: int) -> Row:
        return _recomputed(streams.named(stream), patterns, sizes.ours_s, sizes.ratio, seed)

    for stream in STREAMS:
        patterns = sizes.recomputed
        key: dict[str, Figure] = {"part": RECOMPUTED, "stream": stream, "value": patterns, "ours_s": sizes.ours_s}
        key |= {"ratio": sizes.ratio, "windows": sizes.windows}
        yield Cell(key, partial(run, stream, patterns))


def _recomputed(stream: WorkloadStream, patterns: int, ours_s: float, ratio: float, seed: int) -> Row:
    """The same search with costs by differences, and with all of them computed anew in each step."""
    workload = draw_workload(stream, Shape(patterns), 0, seed)
    snapshot = snapshot_for(workload.patterns, stream.events)
    row: dict[str, Figure] = {}
    for name, seconds, recompute in (("ours", ours_s, False), ("recomputed", ratio * ours_s, True)):
        begun = time.perf_counter()
        plan = plan_workload(
            workload.patterns, snapshot, "simulated_annealing", time_limit_s=seconds, seed=seed, recompute=recompute
        )
        assert plan.workload is not None and plan.workload.search is not None
        row[f"{name}:search_s"] = time.perf_counter() - begun
        row[f"{name}:steps"] = plan.workload.search.steps
        row[f"{name}:cost"] = math.exp(plan.ln_cost)
    start = plan_workload(workload.patterns, snapshot, "simulated_annealing", steps=1, seed=seed)
    row["start:cost"] = math.exp(start.ln_cost)
    return row


EXPERIMENT = Experiment("multi_pattern", plan_work)
