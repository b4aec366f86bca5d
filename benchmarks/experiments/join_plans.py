"""`cep experiment join_plans`: what the planners' plans are worth (PVLDB'18, section 7).

In this order: plans that are run in turn, streams and patterns, the measurements, figures of pairs of planners,
findings, and the page.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, cached_property, partial
from itertools import combinations, pairwise, product
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.charts import Axis, Style, bar_chart, line_chart, scatter_chart
from benchmarks.experiments.events import differences_by_type, event_table, events_schema
from benchmarks.experiments.experiment import (
    Cell,
    Experiment,
    Figure,
    Request,
    Row,
    grouped,
    having,
    number,
    refuse_different_counts,
    rows_of,
    taken_apart,
)
from benchmarks.experiments.findings import (
    Finding,
    Measured,
    Verdict,
    finding,
    findings_of,
    noise_of_runs,
    rank_correlation,
    said_of_noise,
    verdict_at_least,
    verdict_at_most,
)
from benchmarks.experiments.page import Page, Picture, findings_page, table_across, zeros_not_drawn
from benchmarks.report import markdown_table
from benchmarks.traffic_stream import VEHICLES, generate_traffic, month_of_readings
from cep_pipeline.charts import PALETTE
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Orders
from cep_pipeline.errors import CepError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate import Market
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import types_of
from cep_pipeline.planning import PLANNERS
from cep_pipeline.planning.make_plan import PlannerResult, compare_planners
from cep_pipeline.planning.trees import Join
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.statistics.observed import NodeCounts
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

SLOW_S = 0.5
"""A plan that takes longer than this is run only once."""


@dataclass(frozen=True)
class PlanRun:
    """A way to run a pattern: a mechanism, and for each clause an order or a tree."""

    mechanism: str
    orders: Orders

    @property
    def key(self) -> Hashable:
        """The same for runs that do the same."""
        return self.mechanism, tuple(one if isinstance(one, Join) else tuple(one) for one in self.orders)


@dataclass(frozen=True)
class MeasuredRun:
    """The measurements of a run.

    Attributes
    ----------
    times
        Processor seconds of each of the counted runs.
    matches
        How many were found.
    counters
        The most partial matches, and the most events outside them, held at a time; and what happened at the nodes.
    """

    times: tuple[float, ...]
    matches: int
    counters: Counters

    @property
    def seconds(self) -> float:
        """The median of the times."""
        return max(median(self.times), 1e-9)

    @property
    def nodes(self) -> tuple[NodeCounts, ...]:
        """What happened at the nodes of the plan."""
        return tuple(self.counters.nodes.values())

    @property
    def candidates(self) -> int:
        """Tuples of events that conditions were tested on."""
        return sum(node.candidates for node in self.nodes)


def measure_runs(
    pattern: Pattern, runs: Mapping[str, PlanRun], events: pa.Table, repetitions: int = 3
) -> dict[str, MeasuredRun]:
    """List all matches of a pattern in several ways, in turn; ways that are the same are measured once.

    Parameters
    ----------
    runs
        Name -> how.
    events
        An events table. Reading it into a mechanism's columns is part of a run; what is compiled, is not: there is one
        run before those that count, which counts where it took long.
    repetitions
        Counted runs; with none, the one before them counts.

    Raises
    ------
    CepError
        Two of them found different numbers of matches.
    UnsupportedPattern, PlanError
        A mechanism does not run the pattern, or the order or tree.
    """
    distinct = {run.key: run for run in runs.values()}
    seconds: dict[Hashable, list[float]] = {key: [] for key in distinct}
    measured: dict[Hashable, MeasuredRun] = {}
    for repetition in range(repetitions + 1):
        for key, run in distinct.items():
            slow = bool(seconds[key]) and seconds[key][-1] > SLOW_S
            if slow and repetition > 1:
                continue
            if slow and seconds[key][-1] > 4 * SLOW_S:  # what it compiled is little beside that
                continue
            if repetition == 1:
                seconds[key].clear()
            taken, matches, counters = _run(pattern, run, events)
            seconds[key].append(taken)
            measured[key] = MeasuredRun(tuple(seconds[key]), matches, counters)
    found = {name: measured[run.key] for name, run in runs.items()}
    refuse_different_counts(
        {f"{name} on {runs[name].mechanism}": {pattern.name: run.matches} for name, run in found.items()}
    )
    return found


def _run(pattern: Pattern, run: PlanRun, events: pa.Table) -> tuple[float, int, Counters]:
    counters = Counters()
    begin = time.process_time()
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    blocks = MECHANISMS[run.mechanism].find(pattern, run.orders, prepared, EVERYTHING, counters)
    matches = sum(len(block) for block in blocks)
    return time.process_time() - begin, matches, counters


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
    month = month_of_readings(data, VEHICLES)
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
FULL = replace(
    SMALL,
    stocks=2_100,
    traffic_windows=500,
    patterns={STOCKS: 100, TRAFFIC: 100},
    limit_s=10.0,
    large=tuple(range(3, 23)),
    large_patterns=10,
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
    all_runs = {**measured, NFAB: beside}
    refuse_different_counts({name: {drawn.text: run.matches} for name, run in all_runs.items() if run is not None})
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
        for kind, size, nth in product(SETS, sizes.sizes, range(patterns)):
            yield cell(PATTERNS, stream, size, nth, partial(measure_planners, **limits), kind, set=kind)
    for size, nth in product(sizes.large, range(sizes.large_patterns)):
        yield cell(LARGE, STOCKS, size, nth, lambda drawn, _: plan_only(drawn))
    for size, nth, alpha in product(sizes.sizes, range(sizes.alpha_patterns), sizes.alphas):
        yield cell(ALPHA, STOCKS, size, nth, partial(measure_alpha, alpha=alpha, **limits), alpha=alpha)
    for size, nth, strategy in product(sizes.sizes, range(sizes.strategy_patterns), STRATEGIES):
        how = partial(measure_strategy, strategy=strategy, **limits)
        yield cell(STRATEGY, STOCKS, size, nth, how, strategy=strategy)


EFREQ, DP_LD, ZSTREAM, DP_B = "event_frequency", "dp_left_deep", "zstream", "dp_bushy"
II = ("ii_random", "ii_greedy")
HEURISTICS = ("greedy", *II, ZSTREAM, "zstream_ordered")


Pairs = Sequence[tuple[Row, Row]]
PATTERN = ("stream", "set", "size", "number")
"""The columns that identify a pattern among the rows of a part."""


@dataclass(frozen=True)
class Bounds:
    """A figure between two bounds, which are equal where it was measured.

    Runs that reached the time limit bound the figures that are made of them on one side.
    """

    low: float
    high: float

    def text(self, shown: Callable[[float], str] = times_as_fast) -> str:
        """The figure as people read it.

        Examples
        --------
        >>> Bounds(2.0, 2.0).text(), Bounds(2.0, math.inf).text(), Bounds(0.0, 2.0).text(), Bounds(0.0, math.inf).text()
        ('2.00', '>= 2.00', '<= 2.00', 'open')
        >>> Bounds(2.0, 3.0).text(), Bounds(2.0, 2.000001).text()
        ('2.00 to 3.00', '2.00')
        """
        if math.isinf(self.high):
            return f">= {shown(self.low)}" if self.low else "open"
        if not self.low < self.high or shown(self.low) == shown(self.high):
            return shown(self.high)
        return f"{shown(self.low)} to {shown(self.high)}" if self.low else f"<= {shown(self.high)}"


def range_of(figures: Sequence[Bounds]) -> str:
    """The least and the greatest of some ratios.

    Examples
    --------
    >>> range_of([Bounds(1.2, 1.2), Bounds(3.0, math.inf)]), range_of([Bounds(2.0, 2.0)])
    ('1.20 to >= 3.00', '2.00')
    >>> range_of([Bounds(0.0, 1.5), Bounds(3.0, 3.1)]), range_of([Bounds(0.0, math.inf)])
    ('<= 1.50 to 3.10', 'open')
    """
    low, high = bounds_by(min, figures), bounds_by(max, figures)
    if low == high or (low.low == 0.0 and math.isinf(high.high)):
        return low.text() if low == high else "open"
    first = times_as_fast(low.low) if low.low else f"<= {times_as_fast(low.high)}"
    last = f">= {times_as_fast(high.low)}" if math.isinf(high.high) else times_as_fast(high.high)
    return first if first == last else f"{first} to {last}"


def bounds_by(of: Callable[[list[float]], float], figures: Iterable[Bounds]) -> Bounds:
    """The least of some figures, the greatest, or another one that grows with each of them: once of each end."""
    own = list(figures)
    return Bounds(of([one.low for one in own]), of([one.high for one in own]))


def quotient(one: Bounds, other: Bounds) -> Bounds:
    """A figure over another one, neither of them below zero."""
    low = one.low / other.high if other.high and not math.isinf(other.high) else 0.0
    return Bounds(low, one.high / other.low if other.low else math.inf)


def reached_limit(row: Row) -> bool:
    """True if the run was ended at the time limit."""
    return bool(row.get("reached_limit"))


def per_s(row: Row) -> float:
    """Events a second of a run; of one that reached the limit, the most that they can be."""
    return number(row, "events") / number(row, "seconds")


def average_rate(rows: Sequence[Row]) -> Bounds:
    """Average of the events a second of runs."""
    return bounds_by(mean, (Bounds(0.0 if reached_limit(row) else per_s(row), per_s(row)) for row in rows))


def total_seconds(rows: Iterable[Row]) -> Bounds:
    """Seconds of all runs together."""
    own = list(rows)
    total = sum(number(row, "seconds") for row in own)
    return Bounds(total, math.inf if any(map(reached_limit, own)) else total)


def finished_by_all(rows: Sequence[Row], pattern: Sequence[str] = PATTERN) -> list[Row]:
    """The rows of the patterns of which no run reached the limit, so that counts of the same patterns are compared."""
    ended = {tuple(row.get(name) for name in pattern) for row in rows if reached_limit(row)}
    return [row for row in rows if tuple(row.get(name) for name in pattern) not in ended]


def noise_of(rows: Iterable[Row]) -> float:
    """The factor by which a run differs from the same one measured again, in the middle."""
    return noise_of_runs([(number(row, "least_s"), number(row, "next_s")) for row in rows if "next_s" in row])


def pairs_of(rows: Iterable[Row], one: str, other: str) -> list[tuple[Row, Row]]:
    """The rows of two planners on the same patterns."""
    of_patterns = grouped(rows, *PATTERN, "alpha", "strategy").values()
    by_planner = ({row["planner"]: row for row in own} for own in of_patterns)
    return [(found[one], found[other]) for found in by_planner if one in found and other in found]


def pairs_by(rows: Sequence[Row], field: str, one: str, other: str) -> dict[Figure, list[tuple[Row, Row]]]:
    """The rows of two planners on the same patterns, for each value of a field that has such patterns."""
    values = dict.fromkeys(row[field] for row in rows)
    pairs = {value: pairs_of(rows_of(rows, **{field: value}), one, other) for value in values}
    return {value: own for value, own in pairs.items() if own}


def decided(pairs: Pairs) -> Pairs:
    """The pairs of which one run at least ended within the limit: two lower bounds say nothing of each other."""
    return [(a, b) for a, b in pairs if not (reached_limit(a) and reached_limit(b))]


def average_gain(pairs: Pairs) -> Bounds:
    """Ratio of the average throughputs of two planners, the better one first."""
    own = decided(pairs)
    if not own:
        return Bounds(0.0, math.inf)
    return quotient(average_rate([a for a, _ in own]), average_rate([b for _, b in own]))


def total_gain(pairs: Pairs) -> Bounds:
    """Ratio of the seconds of two planners over all patterns together, the better one first."""
    own = decided(pairs)
    return quotient(total_seconds(b for _, b in own), total_seconds(a for a, _ in own))


def held_share(pairs: Pairs) -> Bounds:
    """The average of what the first planner's plans hold, relative to that of the second's, where both ended."""
    own = [(a, b) for a, b in pairs if not (reached_limit(a) or reached_limit(b))]
    held = [mean(number(row, "held") for row in rows) for rows in zip(*own, strict=True)]
    return quotient(*(Bounds(one, one) for one in held)) if own else Bounds(0.0, math.inf)


def gains_by(rows: Sequence[Row], field: str, better: str, worse: str) -> dict[Figure, Bounds]:
    """Ratio of the average throughputs of two planners for each value of a field."""
    return {value: average_gain(pairs) for value, pairs in pairs_by(rows, field, better, worse).items()}


def share_of_optimal(rows: Sequence[Row]) -> float:
    """Share of the orders of local search that cost no more than the cheapest."""
    pairs = [pair for name in II for pair in pairs_of(rows, name, DP_LD)]
    return sum(number(a, "ln_cost") <= number(b, "ln_cost") + 1e-6 for a, b in pairs) / max(len(pairs), 1)


def distinct_plans(rows: Sequence[Row], mechanism: str) -> list[Row]:
    """One row for each plan that ran on a mechanism."""
    plans = grouped(rows_of(rows, mechanism=mechanism), "set", "size", "number", "plan")
    return [first for first, *_ in plans.values()]


def correlation_of(plans: Sequence[Row], cause: str, with_throughput: bool = True) -> float:
    """Rank correlation, over plans, of a figure with throughput, or with what is held.

    Plans that reached the limit share the last rank of throughput; counts are those of the plans that have them.
    """
    plans = [row for row in plans if cause in row and (with_throughput or "held" in row)]
    effects = [per_s(row) if with_throughput else number(row, "held") for row in plans]
    return rank_correlation([number(row, cause) for row in plans], effects)


def share_of_linear(rows: Sequence[Row]) -> float:
    """Share of the cheapest trees that join one variable at a time: no join is of two joins."""
    trees = [str(row["plan"]) for row in rows_of(rows, planner=DP_B)]
    return sum("), (" not in text for text in trees) / max(len(trees), 1)


def most_dear(rows: Sequence[Row]) -> dict[str, float]:
    """Heuristic -> the most that a plan of it costs, relative to the exact plan of its kind."""
    return {
        name: max(
            math.exp(number(one, "ln_cost") - number(best, "ln_cost"))
            for one, best in pairs_of(rows, name, DP_LD if name in ORDERS else DP_B)
        )
        for name in HEURISTICS
    }


def changes_by_alpha(rows: Sequence[Row]) -> dict[str, tuple[Bounds, Bounds, float]]:
    """Planner -> latency, throughput, each with the greatest weight of latency over that with none; changed plans.

    Latency is counted, where both runs ended: candidates looked at after the last
    event. The third figure is the share of plans that are others.
    """
    alphas = sorted({number(row, "alpha") for row in rows})
    changes = {}
    for name in WEIGHED:
        low, high = (
            {(row["size"], row["number"]): row for row in rows_of(rows, planner=name, alpha=alpha)}
            for alpha in (alphas[0], alphas[-1])
        )
        pairs = [(high[key], low[key]) for key in high if key in low]
        ended = [pair for pair in pairs if not any(map(reached_limit, pair))]
        after = [sum(number(row, "after_last") for row in own) for own in zip(*ended, strict=True)]
        latency = after[0] / max(after[1], 1e-9) if after else 0.0
        changes[name] = (
            Bounds(latency, latency if after else math.inf),
            average_gain(pairs),
            mean(a["plan"] != b["plan"] for a, b in pairs),
        )
    return changes


TRIVIAL = "trivial"
LEAST_GAIN, MOST_GAIN, MOST_TREE_GAIN = 1.7, 2.75, 7.6
CLOSE = 0.9
"""A throughput of so much of another's is close to it."""
PREDICTS = 0.8
"""Least rank correlation, of either sign, by which a cost predicts what happens."""
LEAST_MEMORY, MOST_MEMORY = 0.645, 0.855
"""65 to 85%, rounded."""
TREES_FASTER = 1.2
CHEAPER = 2.0
MUCH_LOWER = 0.9
QUICK_S, PAPERS_S = 1.0, 50 * 3600
LIMIT_DECIDES = "Runs that reached the time limit leave it open."
FAR = 1e9
"""A ratio beyond all that are measured, in the place of an infinite one."""


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The paper's findings with the figures of the rows of planners (`by_planner`)."""
    found = findings_of(__name__, rows, noise_of(rows))
    of_noise = said_of_noise(found)
    return [one if one.reason.startswith(LIMIT_DECIDES) else other for one, other in zip(found, of_noise, strict=True)]


def between(figure: Bounds, verdict: Callable[[float], Verdict], **figures: object) -> Measured:
    """What is measured of a figure that is known between bounds: undecided where they have different verdicts."""
    low, high = (verdict(min(max(bound, 1 / FAR), FAR)) for bound in (figure.low, figure.high))
    if {low, high} == {Verdict.HOLDS, Verdict.SURPASSED}:
        low = high = Verdict.HOLDS
    if low is high:
        return low, {"limit": "", **figures}
    return Verdict.UNDECIDED, {"limit": f"{LIMIT_DECIDES} ", **figures}


@finding(having(part=PATTERNS, stream=STOCKS))
def orders_gain(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 4a."""
    gains = list(gains_by(rows, "set", DP_LD, EFREQ).values())
    verdict = partial(verdict_at_least, bound=LEAST_GAIN, noise=noise, surpassed=MOST_GAIN)
    return between(bounds_by(min, gains), verdict, gains=range_of(gains))


@finding(having(part=PATTERNS, stream=STOCKS))
def trees_gain(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 6b."""
    by_size = gains_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    gains = {cast(float, size): gain for size, gain in by_size.items()}
    least, most = min(gains), max(gains)
    grows = rank_correlation([*gains], [gain.low for gain in gains.values()]) >= PREDICTS

    def verdict(gain: float) -> Verdict:
        found = verdict_at_least(gain, MOST_TREE_GAIN / 2, noise=noise, surpassed=MOST_TREE_GAIN + 0.05)
        return found if grows or found is Verdict.DIFFERS else Verdict.DIFFERS

    figures = {"of_least": gains[least].text(), "of_most": gains[most].text()}
    return between(gains[most], verdict, least=least, most=most, **figures)


@finding(having(part=PATTERNS, stream=STOCKS))
def local_search_is_close(rows: Sequence[Row], noise: float) -> Measured:
    """Section 7.3 on figures 4 and 5."""
    ratios = [gain for name in II for gain in gains_by(rows, "set", name, DP_LD).values()]
    verdict = partial(verdict_at_least, bound=CLOSE, noise=noise)
    return between(bounds_by(min, ratios), verdict, ratios=range_of(ratios), optimal=share_of_optimal(rows))


@finding(having(part=PATTERNS, stream=STOCKS))
def cost_of_orders_predicts(rows: Sequence[Row], _: float) -> Measured:
    """Figure 16a."""
    return _predicts(distinct_plans(rows, CHAIN))


@finding(having(part=PATTERNS, stream=STOCKS))
def cost_of_trees_predicts(rows: Sequence[Row], _: float) -> Measured:
    """Figure 16a."""
    return _predicts(distinct_plans(rows, TREE))


def _predicts(plans: Sequence[Row]) -> Measured:
    found = correlation_of(plans, "ln_cost")
    return verdict_of_correlation(-found, len(plans)), {"found": found, "plans": len(plans)}


def verdict_of_correlation(found: float, plans: int) -> Verdict:
    """The verdict on a rank correlation that should be `PREDICTS` or more.

    Notes
    -----
    A correlation over n plans is known to 1.06 / sqrt(n - 3) of its inverse hyperbolic tangent (one standard error); a
    difference within this decides nothing.
    """
    ours, bound = (math.exp(math.atanh(min(max(r, -0.999999), 0.999999))) for r in (found, PREDICTS))
    return verdict_at_least(ours, bound, noise=math.exp(1.06 / math.sqrt(plans - 3)))


@finding(having(part=PATTERNS, stream=STOCKS))
def cost_predicts_memory(rows: Sequence[Row], _: float) -> Measured:
    """Figure 16b."""
    plans = {
        kind: [row for row in distinct_plans(rows, mechanism) if "held" in row]
        for kind, mechanism in (("orders", CHAIN), ("trees", TREE))
    }
    found = {kind: correlation_of(own, "ln_cost", False) for kind, own in plans.items() if len(own) > 3}
    least = min(found, key=lambda kind: found[kind])
    correlations = ", ".join(f"{value:.2f} ({kind})" for kind, value in found.items())
    return verdict_of_correlation(found[least], len(plans[least])), {"correlations": correlations}


@finding(having(part=PATTERNS, stream=STOCKS))
def orders_need_less_memory(rows: Sequence[Row], _: float) -> Measured:
    """Figure 5a."""
    shares = [held_share(pairs) for pairs in pairs_by(rows, "set", DP_LD, EFREQ).values()]
    known = [share.low for share in shares if not math.isinf(share.high)]
    verdict = partial(verdict_at_most, bound=MOST_MEMORY, surpassed=LEAST_MEMORY)
    return between(bounds_by(max, shares), verdict, shares=f"{min(known):.0%} to {max(known):.0%}" if known else "open")


@finding(having(part=PATTERNS, stream=STOCKS))
def trees_beat_orders(rows: Sequence[Row], noise: float) -> Measured:
    """Section 7.3 on figures 4 and 5."""
    ratios = list(gains_by(rows, "set", DP_B, DP_LD).values())
    verdict = partial(verdict_at_least, bound=TREES_FASTER, noise=noise)
    return between(bounds_by(min, ratios), verdict, ratios=range_of(ratios), linear=share_of_linear(rows))


@finding(having(part=LARGE))
def exact_plans_are_cheaper(rows: Sequence[Row], _: float) -> Measured:
    """Figure 17a."""
    ratios = most_dear(rows)
    worst = max(ratios, key=lambda name: ratios[name])
    return verdict_at_least(ratios[worst], CHEAPER), {"times": times_as_fast(ratios[worst]), "worst": worst}


@finding(having(part=LARGE))
def heuristics_are_quick(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 17b: all but dynamic programming."""
    largest, seconds = _planning_of_largest(rows)
    slowest = max((name for name in seconds if name not in (DP_LD, DP_B)), key=lambda name: seconds[name])
    figures = {"seconds": format_seconds(seconds[slowest]), "largest": largest, "slowest": slowest}
    return verdict_at_most(seconds[slowest], QUICK_S, noise=noise), figures


@finding(having(part=LARGE))
def exact_search_takes_long(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 17b: DP-B."""
    largest, seconds = _planning_of_largest(rows)
    verdict = verdict_at_least(seconds[DP_B], PAPERS_S, noise=noise)
    # A search that takes less time than the paper's is the better one.
    verdict = Verdict.SURPASSED if verdict is Verdict.DIFFERS else verdict
    return verdict, {"seconds": format_seconds(seconds[DP_B]), "largest": largest}


def _planning_of_largest(rows: Sequence[Row]) -> tuple[float, dict[str, float]]:
    """Events of the largest patterns, and the most seconds that each planner takes for one of them."""
    largest = max(number(row, "size") for row in rows)
    own = rows_of(rows, size=largest)
    return largest, {
        name: max(number(row, "planning_s") for row in rows_of(own, planner=name)) for name in (*ORDERS, *TREES)
    }


@finding(having(part=ALPHA))
def alpha_lowers_latency(rows: Sequence[Row], _: float) -> Measured:
    """Figure 18: latency."""
    changes = changes_by_alpha(rows)
    latencies = [latency for latency, _, _ in changes.values()]
    much_lower = any(latency.high < MUCH_LOWER for latency in latencies)

    def verdict(latency: float) -> Verdict:
        found = verdict_at_most(latency, 1.0)
        return found if much_lower or found is not Verdict.HOLDS else Verdict.DIFFERS

    changed = mean(share for _, _, share in changes.values())
    return between(bounds_by(max, latencies), verdict, latencies=range_of(latencies), changed=changed)


@finding(having(part=ALPHA))
def alpha_lowers_throughput(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 18: throughput."""
    changes = changes_by_alpha(rows)
    rates = [rate for _, rate, _ in changes.values()]
    middle = bounds_by(median, rates)
    verdict = partial(verdict_at_most, bound=1.0, noise=noise)
    return between(middle, verdict, rates=range_of(rates), middle=middle.text())


@finding(having(part=STRATEGY))
def pattern_order_wins(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 19: contiguity."""
    own = rows_of(rows, strategy=CONTIGUOUS)
    means = {name: average_rate(rows_of(own, planner=name)) for name in ORDERS}
    ratio = quotient(means.pop(TRIVIAL), bounds_by(max, means.values()))
    return between(ratio, partial(verdict_at_least, bound=1.0, noise=noise), ratio=ratio.text())


STYLES: Mapping[str, Style] = {
    name: Style(color, dashed)
    for name, color, dashed in (
        ("trivial", PALETTE[7], True),
        (EFREQ, PALETTE[0], False),
        ("greedy", PALETTE[3], False),
        ("ii_random", PALETTE[4], True),
        ("ii_greedy", PALETTE[4], False),
        (DP_LD, PALETTE[2], False),
        (ZSTREAM, PALETTE[6], False),
        ("zstream_ordered", PALETTE[5], False),
        (DP_B, PALETTE[1], False),
        (FUSED, "#79818c", True),
        (NFAB, "#79818c", False),
    )
}
RATE, HELD = Axis("per_s", "events/s", log=True), Axis("held", "partial matches and events", log=True)
SIZE = Axis("size", "events of the pattern")
AT_LIMIT = " Runs that reached the time limit are drawn at the throughput that they have at most."


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells; each of them checked that all plans found the same."""
    rows = by_planner(rows)
    stocks, traffic = (rows_of(rows, part=PATTERNS, stream=name) for name in (STOCKS, TRAFFIC))
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    return findings_page(
        __name__,
        sizes,
        request,
        all_findings(rows),
        [*_pictures(rows)],
        descriptions={name: stream_named(name, sizes, request).description for name in (STOCKS, TRAFFIC)},
        noise=noise_of(rows),
        stocks=stocks,
        traffic=traffic,
        large=large,
        alpha=alpha,
        strategy=strategy,
        normalized=_normalized(large),
        patterns=lambda rows: len({tuple(row.get(name) for name in PATTERN) for row in rows}),
        average=lambda rows: average_rate(rows).text(count_per_s),
        held=lambda rows: f"{mean(number(row, 'held') for row in rows):,.0f}",
        candidates=lambda rows: _three(mean(number(row, "candidates") / number(row, "events") for row in rows)),
        planning=lambda rows: _seconds(mean(number(row, "planning_s") for row in rows)),
        latency=lambda rows: _three(mean(number(row, "after_last") for row in rows)),
        gain=lambda rows: times_as_fast(number(rows[0], "gain")),
        at_limit=lambda rows: f"{sum(map(reached_limit, rows))} of {len(rows)}",
        average_gain=lambda pairs: average_gain(pairs).text(),
        total_gain=lambda pairs: total_gain(pairs).text(),
        held_share=lambda pairs: held_share(pairs).text(),
        most_dear=markdown_table(
            ["planner", "times"], [[name, times_as_fast(most)] for name, most in most_dear(large).items()]
        ),
        changes=markdown_table(
            ["planner", "latency", "throughput", "other plans"],
            [
                [name, latency.text(), rate.text(), f"{share:.0%}"]
                for name, (latency, rate, share) in changes_by_alpha(alpha).items()
            ],
        ),
    )


COMPARED = ((DP_LD, EFREQ), (DP_B, ZSTREAM), (DP_B, DP_LD))
"""Planners whose gains are shown, the better one first."""


def table(rows: Sequence[Row], across: str, cell: Callable[[Sequence[Row]], str]) -> str:
    """Planners down, in the order of their styles, and the values of `across` from left to right."""
    order = [*STYLES]
    ordered = sorted(rows, key=lambda row: order.index(str(row["planner"])))
    return table_across(ordered, "planner", across, "planner", cell)


def compared(rows: Sequence[Row], text: Callable[[Pairs], str]) -> str:
    """Two planners down, sets of patterns across."""
    lines = []
    for better, worse in COMPARED:
        by_set = pairs_by(rows, "set", better, worse)
        lines.append([f"{better} / {worse}", *(text(by_set[kind]) for kind in SETS)])
    return markdown_table(["plans", *SETS], lines)


def sequence_table(rows: Sequence[Row]) -> str:
    """DP-B's trees against ZSTREAM's on sequences, by their size."""
    by_size = pairs_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    lines = [
        [text, *(gain(pairs).text() for pairs in by_size.values())]
        for text, gain in (("average throughput", average_gain), ("all patterns together", total_gain))
    ]
    return markdown_table(["events", *map(str, by_size)], lines)


def prediction_table(rows: Sequence[Row]) -> str:
    """Rank correlations of costs and counts with throughput and memory."""
    lines = []
    for kind, mechanism in (("orders", CHAIN), ("trees", TREE)):
        plans = distinct_plans(rows, mechanism)
        correlations = [
            correlation_of(plans, "ln_cost"),
            correlation_of(plans, "candidates"),
            correlation_of(plans, "ln_cost", with_throughput=False),
        ]
        lines.append([kind, f"{len(plans)}", *(f"{value:.2f}" for value in correlations)])
    header = ["plans", "number", "cost, throughput", "candidates, throughput", "cost, memory"]
    return markdown_table(header, lines)


def _normalized(rows: Sequence[Row]) -> list[Row]:
    """Cost of EFREQ's order over that of each planner's plan, by size."""
    points: list[Row] = []
    for planner in (name for name in STYLES if name != EFREQ):
        for size, pairs in pairs_by(rows, "size", EFREQ, planner).items():
            gains = [math.exp(number(one, "ln_cost") - number(other, "ln_cost")) for one, other in pairs]
            points.append({"planner": planner, "size": size, "gain": geometric_mean(gains)})
    return points


def _pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    for stream in (STOCKS, TRAFFIC):
        own = rows_of(rows, part=PATTERNS, stream=stream)
        if own:
            yield from _pictures_of_sets(own, stream)
    stocks = rows_of(rows, part=PATTERNS, stream=STOCKS)
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    plans = [
        {**row, "kind": kind, "cost": 10 ** min(number(row, "ln_cost") / math.log(10), 300), "per_s": per_s(row)}
        for kind, mechanism in (("orders", CHAIN), ("trees", TREE))
        for row in distinct_plans(stocks, mechanism)
    ]
    cost = Axis("cost", "cost: partial matches alive", log=True)
    for name, axis in (("throughput", RATE), ("memory", HELD)):
        drawn = [row for row in plans if axis.field in row]
        chart = scatter_chart(drawn, cost, axis, "set", facet="kind")
        ended = AT_LIMIT if axis is RATE else " Plans that reached the time limit are left out."
        caption = f"Figure 16: a point for each plan on the stocks.{ended}{zeros_not_drawn(drawn, axis.field, 'set')}"
        yield Picture(f"cost-{name}", f"Cost against {name}", caption, chart)
    gain, planning = Axis("gain", "cost of EFREQ's order / cost", log=True), Axis("planning_s", "seconds", log=True)
    yield Picture(
        "large-cost",
        "Normalized cost against size",
        "Figure 17: sequences that are planned and not run; higher is better.",
        line_chart(_normalized(large), SIZE, gain, "planner", styles=STYLES, width=480),
    )
    yield Picture(
        "planning",
        "Planning time against size",
        "Figure 17: the same sequences; lower is better.",
        line_chart(_means(large, ("size",)), SIZE, planning, "planner", styles=STYLES, width=480),
    )
    after, reached = Axis("after_last", "candidates after the last event"), Axis("per_s", "events/s")
    yield Picture(
        "alpha",
        "Throughput against latency",
        "Figure 18: a point for each alpha, over the sequences of which all runs ended. Where alpha changes no plan, "
        "points differ by chance only.",
        line_chart(_means(finished_by_all(alpha), ("alpha",)), after, reached, "planner", styles=STYLES, width=480),
    )
    by_strategy = _means(strategy, ("strategy",))
    shown = [row for name in STRATEGIES for row in rows_of(by_strategy, strategy=name)]
    yield Picture(
        "strategies",
        "Throughput by strategy",
        f"Figure 19: sequences on the stocks; higher is better.{AT_LIMIT}",
        bar_chart(shown, Axis("strategy", ""), RATE, "planner", styles=STYLES, width=640),
    )


def _pictures_of_sets(rows: Sequence[Row], stream: str) -> Iterator[Picture]:
    by_size = _means(rows, ("set", "size"))
    ended = _means(finished_by_all(rows), ("set", "size"))
    kept = [row for row in ended if row["planner"] != FUSED]
    yield Picture(
        f"{stream}-sets",
        f"Throughput by pattern type: {stream}",
        f"Figure 4: averages; higher is better.{AT_LIMIT}",
        bar_chart(_means(rows, ("set",)), Axis("set", ""), RATE, "planner", styles=STYLES, width=640),
    )
    yield Picture(
        f"{stream}-throughput",
        f"Throughput against size: {stream}",
        f"Figures 6 to 14: averages; higher is better.{AT_LIMIT}",
        line_chart(by_size, SIZE, RATE, "planner", styles=STYLES, facet="set", width=220),
    )
    yield Picture(
        f"{stream}-memory",
        f"Memory against size: {stream}",
        f"Figures 7 to 15: averages where all plans ended; lower is better. `{FUSED}` holds nothing."
        f"{zeros_not_drawn(kept, 'held', 'planner')}",
        line_chart(kept, SIZE, HELD, "planner", styles=STYLES, facet="set", width=220),
    )


def _means(rows: Sequence[Row], fields: Sequence[str]) -> list[Row]:
    """A row for each planner and value of the fields, with the means of those of its figures that it has."""
    with_rates = ({**row, "per_s": per_s(row)} if "seconds" in row else row for row in rows)
    return [
        {
            **{field: own[0][field] for field in ("planner", *fields)},
            **{
                name: mean(number(row, name) for row in own)
                for name in ("planning_s", "per_s", "held", "after_last")
                if all(name in row for row in own)
            },
        }
        for own in grouped(with_rates, "planner", *fields).values()
    ]


def _seconds(value: float) -> str:
    return f"{value * 1e6:.0f} µs" if value < 1e-4 else format_seconds(value)


def _three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


EXPERIMENT = Experiment("join_plans", SMALL, FULL, _cells, write_page)
