"""`cep experiment join_plans`: what the planners' plans are worth (PVLDB'18, section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

from benchmarks.experiments.cells import Cell, Figure, Row, taken_apart
from benchmarks.experiments.experiment import Experiment, Request, Work
from benchmarks.experiments.join_plans.patterns import (
    SEQUENCE,
    SETS,
    Drawn,
    contiguous,
    draw_pattern,
    with_strategy,
)
from benchmarks.experiments.join_plans.runs import measure_within
from benchmarks.experiments.join_plans.streams import STOCKS, TRAFFIC, JoinStream, stock_stream, traffic_join_stream
from benchmarks.experiments.page import Page
from cep_pipeline.errors import CepError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import types_of
from cep_pipeline.planning import PLANNERS
from cep_pipeline.planning.explain.compare import PlannerResult, compare_planners
from cep_pipeline.questions.compare_plans import MeasuredRun, PlanRun
from cep_pipeline.statistics import estimate_statistics

CHAIN, TREE, FUSED = "lazy_chain_nfa", "evaluation_tree", "fused"
"""The mechanism that runs orders, the one that runs trees, and one to compare them with."""
FUSED_PLANNER, FUSED_COST = "dp_left_deep", "kernel"
ORDERS = tuple(name for name in PLANNERS if not PLANNERS[name].makes_trees)
TREES = tuple(name for name in PLANNERS if PLANNERS[name].makes_trees)
WEIGHED = ("greedy", "ii_random", "ii_greedy", "dp_left_deep", "zstream_ordered", "dp_bushy")
"""Planners that follow a cost: those of figure 18."""
PATTERNS, LARGE, ALPHA, STRATEGY = "patterns", "large", "alpha", "strategy"
"""Parts: figures 4 to 16; 17; 18; 19."""
ANY, CONTIGUOUS = "skip till any match", "contiguity"
STRATEGIES = (ANY, CONTIGUOUS)
"""Strategies by which all plans run figure 19: contiguity becomes conditions on the numbers of events. What JQPG
section 6.2 calls skip till next match is left out: no plan of ours binds events to one partial match only."""
NFAB = "nfab"


@dataclass(frozen=True)
class Sizes:
    """The amount of work that is measured.

    Attributes
    ----------
    stocks, stock_windows, traffic_windows
        Of the streams; windows are those of the patterns.
    sizes
        Events of a pattern.
    patterns
        Stream -> patterns of each set and size.
    limit_s
        Processor seconds after which a run is ended: it takes at least so long.
    large, large_patterns
        Events of the patterns that are planned only, and how many there are of each size.
    alphas, alpha_patterns
        Weights of latency, and sequences of each size.
    strategy_patterns
        Sequences of each size.
    repetitions
        Counted runs of each plan.
    """

    stocks: int
    stock_windows: int
    traffic_windows: int
    sizes: tuple[int, ...]
    patterns: Mapping[str, int]
    limit_s: float
    large: tuple[int, ...]
    large_patterns: int
    alphas: tuple[float, ...]
    alpha_patterns: int
    strategy_patterns: int
    repetitions: int = 3


SMALL = Sizes(
    stocks=200,
    stock_windows=6,
    traffic_windows=72,
    sizes=(3, 4, 5, 6, 7),
    patterns={STOCKS: 4, TRAFFIC: 1},
    limit_s=1.0,
    large=(3, 5, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22),
    large_patterns=2,
    alphas=(0.0, 0.5, 1.0, 10.0),
    alpha_patterns=2,
    strategy_patterns=1,
)
FULL = Sizes(
    stocks=2_100,
    stock_windows=6,
    traffic_windows=500,
    sizes=(3, 4, 5, 6, 7),
    patterns={STOCKS: 100, TRAFFIC: 100},
    limit_s=10.0,
    large=tuple(range(3, 23)),
    large_patterns=10,
    alphas=(0.0, 0.5, 1.0, 10.0),
    alpha_patterns=100,
    strategy_patterns=20,
)


class _Streams:
    """The streams, each made when it is first asked for."""

    def __init__(self, request: Request, sizes: Sizes) -> None:
        self._request, self._sizes = request, sizes

    @cached_property
    def _stocks(self) -> JoinStream:
        return stock_stream(self._sizes.stocks, self._sizes.stock_windows, self._request.seed)

    @cached_property
    def _traffic(self) -> JoinStream:
        return traffic_join_stream(self._request.data, self._sizes.traffic_windows, self._request.seed)

    def named(self, name: str) -> JoinStream:
        return self._stocks if name == STOCKS else self._traffic

    @property
    def descriptions(self) -> dict[str, str]:
        return {name: self.named(name).description for name in (STOCKS, TRAFFIC)}


def _planned_and_run(
    pattern: Pattern, planned: Mapping[str, PlannerResult], stream: JoinStream, repetitions: int, limit_s: float
) -> tuple[dict[str, Figure], Mapping[str, MeasuredRun | None]]:
    """Run plans, orders and trees each on their mechanism; the figures, each named `NAME.FIGURE`, and the runs."""
    runs = {}
    for name, one in planned.items():
        mechanism = FUSED if name == FUSED else TREE if one.planner in TREES else CHAIN
        runs[name] = PlanRun(mechanism, one.orders)
    measured = measure_within(pattern, runs, stream.events, repetitions, limit_s)
    figures: dict[str, Figure] = {}
    for name, one in planned.items():
        own = {**_planned_figures(one), **_run_figures(runs[name], measured[name], stream, limit_s)}
        figures |= _named(name, own)
    return figures, measured


def measure_planners(drawn: Drawn, stream: JoinStream, repetitions: int, limit_s: float) -> dict[str, Figure]:
    """Plan a pattern by every planner and run all plans; `fused` beside."""
    planned = {one.planner: one for one in compare_planners(drawn.pattern, drawn.snapshot, cost="throughput")}
    (planned[FUSED],) = compare_planners(drawn.pattern, drawn.snapshot, [FUSED_PLANNER], FUSED_COST)
    figures, _ = _planned_and_run(drawn.pattern, planned, stream, repetitions, limit_s)
    return {"pattern": drawn.text, **figures}


def plan_only(drawn: Drawn) -> dict[str, Figure]:
    """Plan a pattern by every planner."""
    figures: dict[str, Figure] = {}
    for one in compare_planners(drawn.pattern, drawn.snapshot, cost="throughput"):
        figures |= _named(one.planner, _planned_figures(one))
    return figures


def measure_alpha(
    drawn: Drawn, stream: JoinStream, alpha: float, repetitions: int, limit_s: float
) -> dict[str, Figure]:
    """The planners that follow a cost, with latency weighed by alpha."""
    planned = {
        one.planner: one for one in compare_planners(drawn.pattern, drawn.snapshot, WEIGHED, "throughput", alpha)
    }
    figures, measured = _planned_and_run(drawn.pattern, planned, stream, repetitions, limit_s)
    last = drawn.pattern.clauses[0].positive[-1]
    last_events = sum(map(stream.events_of, types_of(last.event_type)))
    for name, run in measured.items():
        if run is not None:
            after = sum(node.candidates for node in run.nodes if last.name in node.node)
            figures[f"{name}.after_last"] = after / max(last_events, 1)
    return figures


def measure_strategy(
    drawn: Drawn, stream: JoinStream, strategy: str, repetitions: int, limit_s: float
) -> dict[str, Figure]:
    """All planners under a selection strategy; beside them NFA^b, whose runs follow the strategy itself."""
    pattern = contiguous(drawn, stream) if strategy == CONTIGUOUS else drawn.pattern
    snapshot = estimate_statistics([pattern], stream.events)
    # JQPG section 6.2 plans contiguity by the cost model of events that are bound once.
    cost = "consume_matched" if strategy == CONTIGUOUS else "throughput"
    planned = {one.planner: one for one in compare_planners(pattern, snapshot, cost=cost)}
    figures, measured = _planned_and_run(pattern, planned, stream, repetitions, limit_s)
    own = {ANY: "skip_till_any_match", CONTIGUOUS: "strict_contiguity"}[strategy]
    by_nfab = with_strategy(drawn, stream, own)
    automaton = PlanRun(NFAB, [tuple(variable.name for variable in clause.positive) for clause in by_nfab.clauses])
    beside = measure_within(by_nfab, {NFAB: automaton}, stream.events, repetitions, limit_s)[NFAB]
    found = {run.matches for run in (*measured.values(), beside) if run is not None}
    if len(found) > 1:
        raise CepError(
            f"join_plans: under {strategy}, {NFAB} and the plans find different numbers of matches of {drawn.text}: "
            f"{', '.join(f'{number:,}' for number in sorted(found))}"
        )
    return figures | _named(NFAB, _run_figures(automaton, beside, stream, limit_s))


def _planned_figures(planned: PlannerResult) -> dict[str, Figure]:
    # Beyond what JSON holds nothing is lost: costs are compared by their logarithms.
    return {"plan": planned.text, "ln_cost": planned.ln_cost, "planning_s": planned.seconds}


def _run_figures(run: PlanRun, measured: MeasuredRun | None, stream: JoinStream, limit_s: float) -> dict[str, Figure]:
    """The figures of a run; of one that reached the limit, the seconds are a lower bound and counts are not known."""
    known: dict[str, Figure] = {"mechanism": run.mechanism, "events": stream.events.num_rows}
    if measured is None:
        return {**known, "reached_limit": True, "seconds": limit_s}
    repeated = sorted(measured.times)[:2]
    return {
        **known,
        **({"least_s": repeated[0], "next_s": repeated[1]} if len(repeated) == 2 else {}),
        "seconds": measured.seconds,
        "matches": measured.matches,
        "candidates": measured.candidates,
        "held": measured.peak_instances + measured.events_buffered,
    }


def _named(name: str, figures: Mapping[str, Figure]) -> dict[str, Figure]:
    return {f"{name}.{figure}": value for figure, value in figures.items()}


def by_planner(rows: Sequence[Row]) -> list[Row]:
    """The rows of cells, taken apart: one for each planner, and for what stands beside them."""
    apart: list[Row] = []
    for row in rows:
        key, own = taken_apart(row)
        apart += [{**key, "planner": planner, **own[planner]} for planner in (*PLANNERS, FUSED, NFAB) if planner in own]
    return apart


def plan_work(request: Request) -> Work:
    """The measurements, and their page."""
    sizes: Sizes = request.sizes or (FULL if request.full else SMALL)
    streams = _Streams(request, sizes)

    def page(rows: Sequence[Row]) -> Page:
        from benchmarks.experiments.join_plans.page import write_page

        return write_page(rows, sizes, request, streams.descriptions)

    return Work([*_cells(sizes, streams, request.seed)], page)


Measure = Callable[[Drawn, JoinStream], Mapping[str, Figure]]


def _cells(sizes: Sizes, streams: _Streams, seed: int) -> Iterator[Cell]:
    def cell(
        part: str, stream: str, size: int, number: int, how: Measure, kind: str = SEQUENCE, **more: Figure
    ) -> Cell:
        extent = {STOCKS: sizes.stock_windows, TRAFFIC: sizes.traffic_windows}[stream]
        key: dict[str, Figure] = {"part": part, "stream": stream, "windows": extent}
        key |= {"stocks": sizes.stocks} if stream == STOCKS else {}
        key |= {"limit_s": sizes.limit_s, "size": size, "number": number, **more}

        def run() -> Mapping[str, Figure]:
            events = streams.named(stream)
            return how(draw_pattern(events, kind, size, number, seed), events)

        return Cell(key, run)

    limits: dict[str, Any] = {"repetitions": sizes.repetitions, "limit_s": sizes.limit_s}
    for stream, patterns in sizes.patterns.items():
        for kind, size, number in product(SETS, sizes.sizes, range(patterns)):
            yield cell(PATTERNS, stream, size, number, partial(measure_planners, **limits), kind, set=kind)
    for size, number in product(sizes.large, range(sizes.large_patterns)):
        yield cell(LARGE, STOCKS, size, number, lambda drawn, _: plan_only(drawn))
    for size, number, alpha in product(sizes.sizes, range(sizes.alpha_patterns), sizes.alphas):
        yield cell(ALPHA, STOCKS, size, number, partial(measure_alpha, alpha=alpha, **limits), alpha=alpha)
    for size, number, strategy in product(sizes.sizes, range(sizes.strategy_patterns), STRATEGIES):
        how = partial(measure_strategy, strategy=strategy, **limits)
        yield cell(STRATEGY, STOCKS, size, number, how, strategy=strategy)


EXPERIMENT = Experiment("join_plans", plan_work)
