"""`cep experiment join_plans`: what the planners' plans are worth (PVLDB'18, section 7)."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property, partial
from itertools import combinations, pairwise, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.experiments.events import differences_by_type, event_table, events_schema, month_of_readings
from benchmarks.experiments.experiment import Cell, Experiment, Figure, Request, Row, taken_apart
from benchmarks.experiments.join_plans.measured_runs import MeasuredRun, PlanRun, measure_runs
from benchmarks.traffic_stream import generate_traffic
from cep_pipeline.errors import CepError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate import Market
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import types_of
from cep_pipeline.planning import PLANNERS
from cep_pipeline.planning.make_plan import PlannerResult, compare_planners
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

WINDOW_S = 1200
SLOWEST, FASTEST = 6.0, 270.0
"""Trades of a stock in a window."""
HOURS = 13.0
QUIET = 0.3
"""The instant of the session at which the stream begins: after the opening, when rates have settled."""
DAY = date(2013, 10, 7)
STOCKS, TRAFFIC = "stocks", "traffic"
_SKIPPED_LOOKS = 2_000
"""Looks at the sensors before those that are read: a week, so that the first ones are not a night's."""
_SENSORS_SEED = 3


@dataclass(frozen=True, eq=False)
class JoinStream:
    """A stream whose patterns compare differences.

    Attributes
    ----------
    name, description
        For keys, and for people.
    schema
        With the attribute `diff`.
    events
        In stream order; `seq` counts them.
    windows
        How many windows they last.
    """

    name: str
    description: str
    schema: StreamSchema
    events: pa.Table
    windows: float

    @cached_property
    def _codes(self) -> pa.DictionaryArray:
        return self.events.column(self.schema.type_attribute).combine_chunks().dictionary_encode()

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The event types."""
        return tuple(str(value) for value in self._codes.dictionary.to_pylist())

    @cached_property
    def per_window(self) -> npt.NDArray[np.float64]:
        """Events of each type in a window, shape (types,)."""
        counts = np.bincount(self._codes.indices.to_numpy(), minlength=len(self.types))
        return counts / self.windows

    @cached_property
    def differences(self) -> tuple[npt.NDArray[np.float64], ...]:
        """The differences of each type's events."""
        codes = self._codes.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(1, len(self.types)))
        return tuple(np.split(self.events.column("diff").to_numpy()[order], ends))

    def events_of(self, event_type: str) -> int:
        """Number of events of a type."""
        return len(self.differences[self.types.index(event_type)])

    @property
    def type_attribute(self) -> str:
        """The attribute that holds the type."""
        return self.schema.type_attribute


@cache
def stock_stream(stocks: int, windows: int, seed: int) -> JoinStream:
    """Trades of a generated market over so many windows, with the difference of the price to the trade before."""
    market = Market(
        stocks=stocks,
        seed=seed,
        min_rate_per_s=SLOWEST / WINDOW_S,
        max_rate_per_s=FASTEST / WINDOW_S,
        hours=HOURS,
    )
    trades = market.trades(DAY)
    timestamp = trades.column("timestamp").cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    first = timestamp[0] + int(QUIET * market.session_s * 1e6)
    inside = (timestamp >= first) & (timestamp < first + windows * WINDOW_S * 1_000_000)
    cents = np.rint(trades.column("price").to_numpy() * 100)
    symbol = trades.column("symbol").combine_chunks().dictionary_encode()
    difference = differences_by_type(symbol.indices.to_numpy(), cents) / 100
    schema = events_schema(STOCKS, "Trade", "symbol", symbol="string", diff="float64")
    events = event_table(timestamp[inside], symbol=symbol.filter(pa.array(inside)), diff=difference[inside])
    description = (
        f"{events.num_rows:,} generated trades of {stocks:,} stocks in {windows} windows, each stock with {SLOWEST:g} "
        f"to {FASTEST:g} trades a window"
    )
    return JoinStream(STOCKS, description, schema, events, windows)


@cache
def traffic_join_stream(data: Path | None, windows: int, seed: int) -> JoinStream:
    """Readings of road sensors that counted vehicles, with the difference of their speed to the sensor's one before.

    Every sensor reads every five minutes; which see a vehicle nearly always, and which seldom, makes their rates. Where
    the month of readings is not there, generated readings are thinned to such rates.
    """
    looks = 4 * windows
    month = month_of_readings(data)
    if month is not None:
        readings = month.filter(pc.greater(month.column("vehicle_count"), 0))
        source = "readings with vehicles of the sensors of Aarhus in August 2014"
    else:
        readings = generate_traffic(_SKIPPED_LOOKS + looks, seed=seed)
        random = np.random.default_rng((_SENSORS_SEED, seed))
        sensors = readings.column("report_id").to_numpy()
        busy = random.beta(1.2, 1.2, int(sensors.max() - sensors.min()) + 1)
        readings = readings.filter(pa.array(random.random(len(sensors)) < busy[sensors - sensors.min()]))
        source = "generated readings of road sensors (the real month was not there)"
    timestamp = readings.column("timestamp").cast(pa.int64()).to_numpy()
    first = timestamp[0] + _SKIPPED_LOOKS * 300 * 1_000_000
    inside = (timestamp >= first) & (timestamp < first + windows * WINDOW_S * 1_000_000)
    sensor = readings.column("report_id").combine_chunks()
    codes = sensor.dictionary_encode().indices.to_numpy()
    difference = differences_by_type(codes, readings.column("avg_speed").to_numpy().astype(np.float64))
    schema = events_schema(TRAFFIC, "Reading", "report_id", report_id="int64", diff="float64")
    events = event_table(timestamp[inside], report_id=sensor.filter(pa.array(inside)), diff=difference[inside])
    description = f"{events.num_rows:,} {source} in {windows} windows, each sensor with up to 4 a window"
    return JoinStream(TRAFFIC, description, schema, events, windows)


SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION = "sequence", "negation", "conjunction", "Kleene", "disjunction"
SETS = (SEQUENCE, NEGATION, CONJUNCTION, KLEENE, DISJUNCTION)
SEQUENCES_OF_A_DISJUNCTION = 3
LEAST_SELECTIVITY, GREATEST_SELECTIVITY = 0.002, 0.88
"""The paper's range; where in it a condition lies is drawn evenly on a logarithmic scale."""
MOST_KLEENE_EVENTS = 8.0
"""The most events of a list in a window: lists double with each one."""
PAIRS = 2_000
"""Number of pairs of differences by which the constant of a condition is chosen."""


@dataclass(frozen=True)
class Drawn:
    """A pattern that was drawn.

    Attributes
    ----------
    text, pattern
        The statement, and what it says.
    snapshot
        Statistics of its stream.
    """

    text: str
    pattern: Pattern
    snapshot: StatisticsSnapshot


def draw_pattern(stream: JoinStream, kind: str, size: int, number: int, seed: int) -> Drawn:
    """Draw a pattern of a set; the same for the same arguments, whatever its plans cost.

    Parameters
    ----------
    stream
        The stream that it is for.
    kind
        One of `SETS`.
    size
        Events of the pattern, the negated one and the one under KL among them; of a disjunction, events of each of its
        three sequences.
    number, seed
        Which pattern of this set and size, and of which run.
    """
    random = np.random.default_rng((seed, SETS.index(kind), size, number))
    text = _drawn_text(random, stream, kind, size)
    (pattern,) = parse_patterns(text, stream.schema)
    return Drawn(text, pattern, estimate_statistics([pattern], stream.events))


def contiguous(drawn: Drawn, stream: JoinStream) -> Pattern:
    """The sequence with its strict contiguity as conditions on the events' numbers (JQPG section 6.2)."""
    names = [operand.variable for operand in drawn.pattern.operands]
    adjacent = [f"{later}.seq = {earlier}.seq + 1" for earlier, later in pairwise(names)]
    head, _, tail = drawn.text.rpartition(" WITHIN ")
    return parse_patterns(f"{head} AND {' AND '.join(adjacent)} WITHIN {tail}", stream.schema)[0]


def with_strategy(drawn: Drawn, stream: JoinStream, strategy: str) -> Pattern:
    """The pattern under a selection strategy."""
    text = drawn.text.replace(" WHERE ", f" WHERE {strategy} {{ ").replace(" WITHIN ", " } WITHIN ")
    return parse_patterns(text, stream.schema)[0]


def _drawn_text(random: np.random.Generator, stream: JoinStream, kind: str, size: int) -> str:
    if kind == DISJUNCTION:
        parts = [
            _operator(random, stream, SEQUENCE, variable_names(size, f"{place + 1}"))
            for place in range(SEQUENCES_OF_A_DISJUNCTION)
        ]
        structure = f"OR({', '.join(structure for structure, _ in parts)})"
        conditions = [condition for _, own in parts for condition in own]
    else:
        structure, conditions = _operator(random, stream, kind, variable_names(size))
    return f"NAME p PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {WINDOW_S // 60} minutes"


def variable_names(size: int, suffix: str = "") -> list[str]:
    """The names of variables of a drawn pattern.

    Examples
    --------
    >>> variable_names(3, "1")
    ['a1', 'b1', 'c1']
    """
    return [f"{chr(ord('a') + place)}{suffix}" for place in range(size)]


def _operator(
    random: np.random.Generator, stream: JoinStream, kind: str, names: Sequence[str]
) -> tuple[str, list[str]]:
    """One operator over variables of these names, and its conditions."""
    size = len(names)
    special = int(random.integers(1, size - 1))
    types = random.choice(len(stream.types), size, replace=False)
    if kind == KLEENE:
        slow = np.flatnonzero(stream.per_window <= max(MOST_KLEENE_EVENTS, stream.per_window.min()))
        repeated = random.choice(slow)
        types[types == repeated] = types[special]  # no type twice
        types[special] = repeated
    operands = [f'"{stream.types[code]}" {name}' for code, name in zip(types, names, strict=True)]
    if kind in (NEGATION, KLEENE):
        operands[special] = f"{'NOT' if kind == NEGATION else 'KL'}({operands[special]})"
    pairs = list(combinations(range(size), 2))
    chosen = sorted(random.choice(len(pairs), size // 2, replace=False))
    conditions = []
    for one, other in (pairs[place] for place in chosen):
        margin = _margin(random, stream, types[one], types[other])
        left, right = (
            f"{names[place]}{'[i]' if kind == KLEENE and place == special else ''}.diff" for place in (one, other)
        )
        conditions.append(f"{right} - {left} > {margin:.6g}")
    return f"{'AND' if kind == CONJUNCTION else 'SEQ'}({', '.join(operands)})", conditions


def _margin(random: np.random.Generator, stream: JoinStream, one: int, other: int) -> float:
    """Choose the margin by which a difference has to be above another one, so that the drawn share of pairs passes."""
    selectivity = math.exp(random.uniform(math.log(LEAST_SELECTIVITY), math.log(GREATEST_SELECTIVITY)))
    of_pairs = random.choice(stream.differences[other], PAIRS) - random.choice(stream.differences[one], PAIRS)
    return float(np.quantile(of_pairs, 1 - selectivity, method="higher")) - 1e-6


FEW_EVENTS = 500
"""Number of events over which plans run first, so that compiling their code does not count against the limit."""


def measure_within(
    pattern: Pattern, runs: Mapping[str, PlanRun], events: pa.Table, repetitions: int, limit_s: float
) -> dict[str, MeasuredRun | None]:
    """Measure the runs that end within a time limit, as `measure_runs` does.

    Parameters
    ----------
    pattern, runs, events, repetitions
        As `measure_runs` takes them.
    limit_s
        Processor seconds of one run. Each distinct run is tried once in a process that ends when it reaches them.

    Returns
    -------
    dict of str to measured run
        None for a run that reached the limit.

    Raises
    ------
    CepError
        Two of them found different numbers of matches, or a process was ended from outside.
    """
    measure_runs(pattern, runs, events.slice(0, FEW_EVENTS), 0)
    distinct = {run.key: run for run in runs.values()}
    reached = {key for key, run in distinct.items() if _reaches_limit(pattern, run, events, limit_s)}
    measured = measure_runs(
        pattern, {name: run for name, run in runs.items() if run.key not in reached}, events, repetitions
    )
    return {name: measured.get(name) for name in runs}


def _reaches_limit(pattern: Pattern, run: PlanRun, events: pa.Table, limit_s: float) -> bool:
    """True for a run that reaches a limit of processor seconds, which ends its process."""
    # A fork has the events and the compiled code at once, and its memory is free again when it has been ended.
    process = get_context("fork").Process(target=_try, args=(pattern, run, events, limit_s), daemon=True)
    process.start()
    process.join()
    if process.exitcode not in (0, -signal.SIGPROF):
        raise CepError(
            f"join_plans: the process that tried a plan of {pattern.name!r} was ended with {process.exitcode}, most "
            "likely for want of memory"
        )
    return process.exitcode != 0


def _try(pattern: Pattern, run: PlanRun, events: pa.Table, limit_s: float) -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    measure_runs(pattern, {"tried": run}, events, 0)


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


def stream_named(name: str, sizes: Sizes, request: Request) -> JoinStream:
    """One of the two streams; it is made when it is first asked for."""
    if name == STOCKS:
        return stock_stream(sizes.stocks, sizes.stock_windows, request.seed)
    return traffic_join_stream(request.data, sizes.traffic_windows, request.seed)


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
        "held": measured.counters.peak_instances + measured.counters.events_buffered,
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


Measure = Callable[[Drawn, JoinStream], Mapping[str, Figure]]


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    def cell(
        part: str, stream: str, size: int, number: int, how: Measure, kind: str = SEQUENCE, **more: Figure
    ) -> Cell:
        extent = {STOCKS: sizes.stock_windows, TRAFFIC: sizes.traffic_windows}[stream]
        key: dict[str, Figure] = {"part": part, "stream": stream, "windows": extent}
        key |= {"stocks": sizes.stocks} if stream == STOCKS else {}
        key |= {"limit_s": sizes.limit_s, "size": size, "number": number, **more}

        def run() -> Mapping[str, Figure]:
            events = stream_named(stream, sizes, request)
            return how(draw_pattern(events, kind, size, number, request.seed), events)

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


EXPERIMENT = Experiment("join_plans", SMALL, FULL, _cells)
