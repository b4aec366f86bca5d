"""`cep experiment adaptation`: four decisions about replanning, over streams that change (acep-invariants patent)."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa

from cep_pipeline.adaptation import AdaptationReport, AdaptiveDetection, Distances
from cep_pipeline.adaptation.decisions import (
    ConstantThreshold,
    DecisionFunction,
    InvariantBased,
    Static,
    Unconditional,
)
from cep_pipeline.adaptation.distance import SCANNED_DISTANCES, AverageRelativeDifference, Fixed, MetaAdaptive
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.benchmarks.measure import one_core
from cep_pipeline.errors import CepError
from cep_pipeline.experiments.adaptation_patterns import (
    CHAIN_BY,
    KLEENE,
    SEQUENCE,
    SETS,
    TREE_BY,
    fitted_pattern,
    matches_in,
    output_of,
)
from cep_pipeline.experiments.adaptation_streams import (
    PERMUTED,
    STOCKS,
    TRAFFIC,
    ExperimentStream,
    drifting_stocks,
    permuted_rates,
    traffic_readings,
)
from cep_pipeline.experiments.cells import Cell, Figure, Row
from cep_pipeline.experiments.experiment import Experiment, Request, Work
from cep_pipeline.experiments.page import Page
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan

COMPARISON, CHANGES = "comparison", "changes"
"""The parts: patterns of five sets over stocks and traffic, and one over rates that are permuted."""
STATIC, UNCONDITIONAL, AVERAGE, META = "static", "unconditional", "average", "meta"
PAIRS_A_CHECK = 1000
"""Pairs that the statistics test a scope between two decisions."""
SWEPT_BYTES = 1 << 24
"""More than the caches of a core hold."""
Asked = tuple[tuple[int, str], ...]
"""Which plans a mechanism is to run from which events on, after the first one."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes
    ----------
    events
        Stream -> how many of its events are read.
    every
        Stream -> events between two decisions.
    sequences, others
        Pattern sizes of the sequences, by which t and d are chosen, and of the other four sets.
    distances, thresholds
        What is tried of d, and of t: as many.
    work
        Tries of an event on a partial match that a pattern asks for, for each event of its stream: the windows are
        chosen so.
    phases, phase_size
        Events after which rates are permuted, and the size of the sequence there.
    repetitions
        Runs of each that count; of them the least times.
    beside
        The sets that `fused` runs too, beside permuted rates.
    """

    events: Mapping[str, int]
    every: Mapping[str, int]
    sequences: tuple[int, ...]
    others: tuple[int, ...]
    distances: tuple[float, ...]
    thresholds: tuple[float, ...]
    work: float
    phases: tuple[int, ...]
    phase_size: int
    repetitions: int
    beside: tuple[str, ...] = SETS

    def __post_init__(self) -> None:
        if len(self.distances) != len(self.thresholds):
            raise ValueError("as many distances as thresholds are tried")


SMALL = Sizes(
    {STOCKS: 100_000, TRAFFIC: 60_000, PERMUTED: 100_000},
    {STOCKS: 6_250, TRAFFIC: 2_500, PERMUTED: 6_250},
    (4, 6, 8),
    (5,),
    (0.0, 0.1, 0.25, 0.5),
    (0.1, 0.3, 0.75, 2.0),
    250.0,
    (12_500, 25_000, 50_000),
    5,
    1,
    beside=(),
)
_THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0)
FULL = Sizes(
    {STOCKS: 400_000, TRAFFIC: 320_000, PERMUTED: 320_000},
    {STOCKS: 10_000, TRAFFIC: 2_500, PERMUTED: 10_000},
    (3, 4, 5, 6, 7, 8),
    (3, 4, 5, 6, 7, 8),
    SCANNED_DISTANCES,
    _THRESHOLDS,
    1_000.0,
    (20_000, 40_000, 80_000, 160_000),
    6,
    2,
)


@dataclass(frozen=True)
class Contender:
    """A mechanism and the planner whose plans it runs."""

    name: str
    mechanism: str
    planner: str
    cost: str | None = None
    """The cost model, where it is not that of the mechanism."""
    unmeasured: int = 0
    """Runs before those that count: a mechanism that compiles a kernel for each plan is given one."""


CHAIN = Contender("greedy", CHAIN_BY[2], CHAIN_BY[0], CHAIN_BY[1])
TREE = Contender("zstream", TREE_BY[2], TREE_BY[0], TREE_BY[1])
FUSED = Contender("fused", "fused", "dp_left_deep", unmeasured=1)
CONTENDERS = (CHAIN, TREE, FUSED)
OF_THE_PATENT = (CHAIN, TREE)


def threshold_name(threshold: float) -> str:
    """The name of a decision function by a constant threshold."""
    return f"t={threshold:g}"


def distance_name(distance: float) -> str:
    """The name of one by invariants with a minimal distance."""
    return f"d={distance:g}"


@dataclass
class _Noted:
    """The average relative difference, noted as it is found."""

    found: float = 0.0

    def begin(self, plan: Plan) -> Distances:
        distances = AverageRelativeDifference().begin(plan)
        self.found = distances.everywhere
        return distances

    def after_replanning(self, distances: Distances, violated: Sequence[Invariant], gain: float) -> Distances:
        return distances


def decisions_of(sizes: Sizes, average: _Noted) -> dict[str, DecisionFunction]:
    """What is compared: the four decision functions, with all that is tried of t and d."""
    return {
        STATIC: Static(),
        UNCONDITIONAL: Unconditional(),
        **{threshold_name(t): ConstantThreshold(t) for t in sizes.thresholds},
        **{distance_name(d): InvariantBased(k=None, distance=Fixed(d)) for d in sizes.distances},
        AVERAGE: InvariantBased(k=None, distance=average),
        META: InvariantBased(k=None, distance=MetaAdaptive()),
    }


@dataclass
class _Decided:
    """What a decision function did; of what was timed the least."""

    report: AdaptationReport
    least: dict[str, float] = field(default_factory=dict)

    def add(self, report: AdaptationReport) -> None:
        total = report.total
        times = {"deciding": total.deciding, "planning": total.planning, "estimating": report.seconds_estimating}
        self.least = {name: min(seconds, self.least.get(name, seconds)) for name, seconds in times.items()}

    @property
    def asked(self) -> Asked:
        """What the mechanism is asked to run."""
        return tuple((switch.row, switch.orders) for switch in self.report.switches)


@dataclass
class _Detected:
    """What a mechanism found, how many events it tried on partial matches, and the least time that it took."""

    output: pa.Table
    candidates: int
    seconds: float


def measure(
    contender: Contender, stream: ExperimentStream, pattern: Pattern, sizes: Sizes, seed: int
) -> dict[str, Figure]:
    """Run a pattern under every decision function, so often as is asked for.

    What is decided does not depend on what is found. So decisions are timed first, without detection: in between the
    caches are swept, as detection would. Then the mechanism runs, once for all decision functions that switched to the
    same plans at the same events, which ask the same of it.

    Returns
    -------
    dict of str to figure
        For each decision function `NAME:` and a figure; seconds of processor time.

    Raises
    ------
    CepError
        A decision function led to other matches.
    """
    average = _Noted()
    loops = {
        name: AdaptiveDetection(
            planner=contender.planner,
            cost=contender.cost,
            mechanism=contender.mechanism,
            decision=decision,
            every_events=sizes.every[stream.name],
            seed=seed,
            max_pairs=PAIRS_A_CHECK,
            clock=time.process_time,
        )
        for name, decision in decisions_of(sizes, average).items()
    }
    decided: dict[str, _Decided] = {}
    gc.collect()
    for _ in range(sizes.repetitions):
        for name, loop in loops.items():
            _, report = _run(replace(loop, find=False), pattern, _swept(stream, sizes))
            decided.setdefault(name, _Decided(report)).add(report)
    detected: dict[Asked, _Detected] = {}
    for _ in range(contender.unmeasured + sizes.repetitions):
        for asked, name in {of.asked: name for name, of in reversed(decided.items())}.items():
            output, report = _run(loops[name], pattern, stream.events)
            first = next(iter(detected.values()), None)
            if first is not None and not output.equals(first.output):
                raise CepError(
                    f"adaptation: {name} on {contender.mechanism} finds {matches_in(output):,} matches in the "
                    f"{stream.name}, where {matches_in(first.output):,} were found; plans must not change what is found"
                )
            candidates, seconds = sum(node.candidates for node in report.metrics.nodes), report.total.detecting
            of = detected.setdefault(asked, _Detected(output, candidates, seconds))
            of.seconds = min(of.seconds, seconds)
    figures: dict[str, Figure] = {"events_read": stream.events.num_rows, "average_d": average.found}
    for name, by in decided.items():
        figures |= {f"{name}:{figure}": value for figure, value in _figures(by, detected[by.asked]).items()}
    return figures


def _run(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table | Iterator[pa.Table]
) -> tuple[pa.Table, AdaptationReport]:
    with one_core(), _nothing_collected():
        tables, report = loop.detect([pattern], events, output=output_of(pattern))
    return tables[pattern.name], report


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What runs leave behind is not swept up in the middle of a plan."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _swept(stream: ExperimentStream, sizes: Sizes) -> Iterator[pa.Table]:
    """The stream in the parts between decisions, with nothing left in the caches of the one before."""
    sweep = np.zeros(SWEPT_BYTES // 8)
    every = sizes.every[stream.name]
    for first in range(0, stream.events.num_rows, every):
        sweep += 1.0
        yield stream.events.slice(first, every)


def _figures(decided: _Decided, detected: _Detected) -> dict[str, Figure]:
    report = decided.report
    return {
        **decided.least,
        "detecting": detected.seconds,
        "matches": matches_in(detected.output),
        "checks": len(report.checks),
        "planned": report.replannings,
        "switches": len(report.switches),
        "candidates": detected.candidates,
    }


class _Streams:
    """The streams, each made when it is first asked for; of those that are permuted the last one is kept."""

    def __init__(self, request: Request, sizes: Sizes) -> None:
        self._request, self._sizes = request, sizes
        self._kept: dict[str, ExperimentStream] = {}
        self._permuted: tuple[int, ExperimentStream] | None = None

    def named(self, name: str) -> ExperimentStream:
        if name not in self._kept:
            events, seed = self._sizes.events[name], self._request.seed
            if name == STOCKS:
                self._kept[name] = drifting_stocks(events, seed)
            else:
                self._kept[name] = traffic_readings(self._request.data, events, seed)
        return self._kept[name]

    def permuted(self, phase: int) -> ExperimentStream:
        if self._permuted is None or self._permuted[0] != phase:
            self._permuted = phase, permuted_rates(self._sizes.events[PERMUTED], phase, self._request.seed)
        return self._permuted[1]

    @property
    def descriptions(self) -> dict[str, str]:
        """Of stocks and traffic, for people."""
        return {name: self.named(name).description for name in (STOCKS, TRAFFIC)}


def plan_work(request: Request) -> Work:
    """The measurements, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)
    streams = _Streams(request, sizes)
    cells = [*_comparison_cells(sizes, streams, request.seed), *_change_cells(sizes, streams, request.seed)]

    def page(rows: Sequence[Row]) -> Page:
        from cep_pipeline.experiments.adaptation_page import write_page

        return write_page(rows, sizes, request, streams.descriptions)

    return Work(cells, page)


def _comparison_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def run(stream: str, kind: str, size: int, contender: Contender) -> Row:
        return _measured(streams.named(stream), kind, size, contender, sizes, seed)

    for stream, kind in product((STOCKS, TRAFFIC), SETS):
        contenders: tuple[Contender, ...] = CONTENDERS if kind in sizes.beside else OF_THE_PATENT
        if (stream, kind) == (TRAFFIC, KLEENE):
            # Dozens of roads of a class report at one instant: a tree would hold all lists of them.
            contenders = (CHAIN,)
        for size, contender in product(sizes.sequences if kind == SEQUENCE else sizes.others, contenders):
            key = {**_key(COMPARISON, stream, sizes), "set": kind, "size": size, "contender": contender.name}
            yield Cell(key, partial(run, stream, kind, size, contender))


def _change_cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def run(phase: int, contender: Contender) -> Row:
        return _measured(streams.permuted(phase), SEQUENCE, sizes.phase_size, contender, sizes, seed)

    for phase, contender in product(sizes.phases, CONTENDERS):
        key = {**_key(CHANGES, PERMUTED, sizes), "phase": phase, "size": sizes.phase_size}
        yield Cell({**key, "contender": contender.name}, partial(run, phase, contender))


def _measured(
    stream: ExperimentStream, kind: str, size: int, contender: Contender, sizes: Sizes, seed: int
) -> dict[str, Figure]:
    by = CHAIN_BY if contender is CHAIN else TREE_BY
    fitted = fitted_pattern(stream, kind, size, seed, sizes.work, sizes.every[stream.name], by)
    return {
        "pattern": fitted.text,
        "window_s": fitted.window_s,
        **measure(contender, stream, fitted.pattern, sizes, seed),
    }


def _key(part: str, stream: str, sizes: Sizes) -> dict[str, Figure]:
    """What figures depend on beside the pattern."""
    return {
        "part": part,
        "stream": stream,
        "events": sizes.events[stream],
        "every": sizes.every[stream],
        "work": sizes.work,
        "distances": " ".join(f"{d:g}" for d in sizes.distances),
        "thresholds": " ".join(f"{t:g}" for t in sizes.thresholds),
        "repetitions": sizes.repetitions,
    }


EXPERIMENT = Experiment(
    "adaptation",
    "The plan follows the data: invariants and other decisions to plan again",
    "Kolchinsky, Schuster: Efficient Adaptive Detection of Complex Event Patterns (patent), Experimental Evaluation",
    plan_work,
)
