"""`cep experiment adaptation`: four decisions about replanning, over streams that change (acep-invariants patent)."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

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
from cep_pipeline.experiments.adaptation_patterns import SEQUENCE, SETS, fitted_pattern
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
        The sets that `fused` runs too.
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
    {STOCKS: 40_000, TRAFFIC: 32_000, PERMUTED: 32_000},
    {STOCKS: 4_000, TRAFFIC: 2_000, PERMUTED: 2_000},
    (4, 6, 8),
    (5,),
    (0.0, 0.1, 0.25, 0.5),
    (0.1, 0.3, 0.75, 2.0),
    3_000.0,
    (4_000, 8_000, 16_000),
    5,
    1,
    beside=(SEQUENCE,),
)
_THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0)
FULL = Sizes(
    {STOCKS: 200_000, TRAFFIC: 120_000, PERMUTED: 200_000},
    {STOCKS: 5_000, TRAFFIC: 2_000, PERMUTED: 2_500},
    (3, 4, 5, 6, 7, 8),
    (3, 4, 5, 6, 7, 8),
    SCANNED_DISTANCES,
    _THRESHOLDS,
    10_000.0,
    (5_000, 10_000, 20_000, 50_000, 100_000),
    6,
    3,
)


@dataclass(frozen=True)
class Contender:
    """A mechanism and the planner whose plans it runs."""

    name: str
    mechanism: str
    planner: str
    unmeasured: int = 0
    """Runs before those that count: a mechanism that compiles a kernel for each plan is given one."""


CHAIN = Contender("greedy", "lazy_chain_nfa", "greedy")
TREE = Contender("zstream", "evaluation_tree", "zstream")
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
        **{distance_name(d): InvariantBased(distance=Fixed(d)) for d in sizes.distances},
        AVERAGE: InvariantBased(distance=average),
        META: InvariantBased(distance=MetaAdaptive()),
    }


@dataclass
class _Runs:
    """The runs of one decision function; of what was timed the least."""

    report: AdaptationReport
    matches: int
    least: dict[str, float] = field(default_factory=dict)

    def add(self, report: AdaptationReport) -> None:
        total = report.total
        times = {
            "detecting": total.detecting,
            "deciding": total.deciding,
            "planning": total.planning,
            "estimating": report.seconds_estimating,
        }
        self.least = {name: min(seconds, self.least.get(name, seconds)) for name, seconds in times.items()}

    @property
    def work(self) -> tuple[tuple[int, str], ...]:
        """What the mechanism was asked to run: the same for runs that switched to the same plans at the same events."""
        return tuple((switch.row, switch.new_plan) for switch in self.report.switches)


def measure(
    contender: Contender, stream: ExperimentStream, pattern: Pattern, sizes: Sizes, seed: int
) -> dict[str, Figure]:
    """Run a pattern under every decision function in turn, so often as is asked for.

    Returns
    -------
    dict of str to figure
        For each decision function `NAME:` and a figure; seconds of processor time. Runs that switched plans alike
        asked the same of the mechanism, so theirs is the least time that any of them had it take.

    Raises
    ------
    CepError
        A decision function led to other matches.
    """
    average = _Noted()
    decisions = decisions_of(sizes, average)
    runs: dict[str, _Runs] = {}
    ids = None
    for _ in range(contender.unmeasured + sizes.repetitions):
        for name, decision in decisions.items():
            loop = AdaptiveDetection(
                planner=contender.planner,
                mechanism=contender.mechanism,
                decision=decision,
                every_events=sizes.every[stream.name],
                seed=seed,
                max_pairs=PAIRS_A_CHECK,
                clock=time.process_time,
            )
            gc.collect()  # what earlier runs left behind is not to be swept up in the middle of a plan
            with one_core():
                tables, report = loop.detect([pattern], stream.events)
            found = tables[pattern.name].column("match_id")
            if ids is None:
                ids = found
            if not found.equals(ids):
                raise CepError(
                    f"adaptation: {name} on {contender.mechanism} finds {len(found):,} matches in the {stream.name}, "
                    f"not the {len(ids):,} that {STATIC} finds; plans must not change what is found"
                )
            runs.setdefault(name, _Runs(report, len(found))).add(report)
    detecting: dict[object, float] = {}
    for of in runs.values():
        detecting[of.work] = min(of.least["detecting"], detecting.get(of.work, of.least["detecting"]))
    figures: dict[str, Figure] = {"events_read": stream.events.num_rows, "average_d": average.found}
    for name, of in runs.items():
        figures |= {f"{name}:{figure}": value for figure, value in _figures(of, detecting[of.work]).items()}
    return figures


def _figures(runs: _Runs, detecting: float) -> dict[str, Figure]:
    report = runs.report
    return {
        **runs.least,
        "detecting": detecting,
        "matches": runs.matches,
        "checks": len(report.checks),
        "planned": report.replannings,
        "switches": len(report.switches),
        "candidates": sum(node.candidates for node in report.metrics.nodes),
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
        contenders = CONTENDERS if kind in sizes.beside else OF_THE_PATENT
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
    fitted = fitted_pattern(stream, kind, size, seed, sizes.work)
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
