"""`cep experiment adaptation`: decisions to plan again, over streams whose best plan changes (ACEP patent).

In this order: decision functions, streams and patterns, the measurements, intervals of ratios, findings, and the page.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean, geometric_mean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

from benchmarks.charts import Axis, line_chart
from benchmarks.experiments.events import (
    differences_by_type,
    event_table,
    events_schema,
    named_types,
)
from benchmarks.experiments.experiment import (
    Cell,
    Experiment,
    Figure,
    Request,
    Row,
    grouped,
    number,
    refuse_different_counts,
)
from benchmarks.experiments.findings import Measured, Verdict, finding, findings_of, ratio_range
from benchmarks.experiments.join_plans import variable_names
from benchmarks.experiments.page import Page, Picture, findings_page
from benchmarks.measure import one_core
from benchmarks.report import markdown_table
from benchmarks.traffic_stream import VEHICLES, month_of_readings
from cep_pipeline.adaptation import decisions
from cep_pipeline.adaptation.decisions import (
    DecisionFunction,
    DecisionState,
    Deviation,
    InvariantBased,
    Static,
    Unconditional,
    deviations,
)
from cep_pipeline.adaptation.distance import AverageRelativeDifference, Fixed, MetaAdaptive
from cep_pipeline.adaptation.loop import AdaptiveDetection, AdaptiveRun
from cep_pipeline.adaptation.plan_loop import AdaptationReport
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

STATIC, UNCONDITIONAL, AVERAGE, META = "static", "unconditional", "average", "meta"
RELATIVE, ABSOLUTE, RATIO = "relative t", "absolute t", "ratio t"
DISTANCE = "d"
MEASURES: Mapping[str, Callable[[Deviation], float]] = {
    RELATIVE: lambda moved: moved.relative,
    ABSOLUTE: lambda moved: abs(moved.now - moved.before),
    RATIO: lambda moved: math.expm1(abs(math.log(moved.now / moved.before))),
}
"""How far a number has moved: as a share of what it was, in its own unit, and by its ratio, up or down, less 1."""
KINDS = (STATIC, UNCONDITIONAL, *MEASURES, DISTANCE, AVERAGE, META)


@dataclass(frozen=True, slots=True)
class Threshold(DecisionFunction):
    """Plan again when a number that the plan rests on has moved by `least` or more, in one of `MEASURES`."""

    measure: str
    least: float

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> decisions.Verdict:
        for moved in deviations(state.before, state.questions, snapshot):
            if MEASURES[self.measure](moved) >= self.least:
                return decisions.Verdict(True, str(moved), (moved,))
        return decisions.Verdict(False, f"no number has moved by {self.least:g} or more")


def named(kind: str, parameter: float) -> str:
    """The name of a decision function with a parameter."""
    return f"{kind}={parameter:g}"


def decisions_of(parameters: Sequence[float]) -> dict[str, DecisionFunction]:
    """The decision functions, each kind of threshold and the distances with these parameters; d = 0 is among them."""
    return {
        STATIC: Static(),
        UNCONDITIONAL: Unconditional(),
        **{named(of, t): Threshold(of, t) for of in MEASURES for t in parameters},
        **{named(DISTANCE, d): InvariantBased(distance=Fixed(d)) for d in (0.0, *parameters)},
        AVERAGE: InvariantBased(distance=AverageRelativeDifference()),
        META: InvariantBased(distance=MetaAdaptive()),
    }


TRAFFIC, STOCKS, AARHUS = "traffic", "stocks", "Aarhus"
TYPES, PER_S = 10, 84.0
"""Event types, and events a second of all types of a generated stream together."""
WINDOW_S = {TRAFFIC: 60, STOCKS: 80, AARHUS: 10_800}
PASSING = {TRAFFIC: 4.0, STOCKS: 2.4, AARHUS: 2.4}
"""Of the events of a type in a window, so many pass a condition with one of the other, in the middle."""
SKEW = 500.0
"""The rate of the most frequent type of the traffic, as a multiple of that of the rarest."""
STEPS = 4
"""Rates take a step so many times a window."""
FREQUENT = 3
"""The rarest type exchanges its rate with one of so many that are the most frequent."""
_WANDER, _WANDER_BACK = 0.12, 0.05
"""A step of the ln rate of a type of the traffic, and the part of it that it goes back: it wanders by 46 %."""
_WALK, _WALK_BACK = 0.07, 0.05
"""The same of the stocks, whose rates begin within 20 %."""
_SHIFT, _SHIFT_BACK = 0.05, 0.01
"""The same of the means of the stocks' numbers."""
ONE_OF = 2
"""One of so many roads is read."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stretch:
    """A stretch of a stream, whose events have a type and the numbers x and y.

    Attributes
    ----------
    name, description
        For keys, and for people.
    events
        In stream order.
    """

    name: str
    description: str
    events: pa.Table

    @cached_property
    def schema(self) -> StreamSchema:
        return events_schema(self.name.lower(), "Event", "kind", kind="string", x="float64", y="float64")

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The event types by their number of events before anything changes, the rarest first."""
        begin = self.events.slice(0, self.events.num_rows // 10)
        found = pc.value_counts(begin.column("kind")).to_pylist()
        return tuple(one["values"] for one in sorted(found, key=lambda one: (one["counts"], one["values"])))

    @property
    def window(self) -> int:
        """The events of a window, in the mean."""
        ends = self.events.column("timestamp").cast(pa.int64())
        span_us: int = ends[-1].as_py() - ends[0].as_py()
        events: int = self.events.num_rows
        return round(events * WINDOW_S[self.name] * 1e6 / span_us)


def stretch_of(name: str, windows: int, number: int, seed: int, data: Path | None) -> Stretch:
    """One stretch of a stream; those of other numbers are of the same kind, and no event is in two of them.

    Parameters
    ----------
    windows
        Of the generated streams: the rates of two types are exchanged after each third.
    number
        Which stretch, from 1 on; of the real month, which three days.
    """
    if name == AARHUS:
        return _days_of_month(number, data)
    random = np.random.default_rng((seed, number, len(name)))
    rates, means = (_exchanged if name == TRAFFIC else _drifting)(random, windows * STEPS)
    step_s = WINDOW_S[name] / STEPS
    counts = random.poisson(rates * (PER_S * step_s / rates.sum(axis=1, keepdims=True)))
    step_of = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    codes = np.concatenate([random.permutation(np.arange(TYPES).repeat(own)) for own in counts])
    time_us = np.sort((step_of + random.random(len(codes))) * step_s * 1e6).astype(np.int64)
    x, y = random.normal(0, 1, (2, len(codes))) + means[:, step_of, codes]
    return Stretch(name, f"generated events of {TYPES} types", _table(time_us, codes, x, y))


def _exchanged(random: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Rates over 1 : `SKEW`. After each third of the steps the rarest type and a frequent one exchange theirs."""
    level = np.linspace(0.0, -math.log(SKEW), TYPES)
    levels = np.empty((steps, TYPES))
    for third in np.array_split(np.arange(steps), 3):
        levels[third] = level
        order = np.argsort(-level)
        rare, frequent = order[-1], order[int(random.integers(FREQUENT))]
        level[[rare, frequent]] = level[[frequent, rare]]
    wander = _walk(random, (steps, TYPES), _WANDER, _WANDER_BACK)
    wander[levels < level.mean()] = 0.0
    return np.exp(levels + wander), np.zeros((2, steps, TYPES))


def _drifting(random: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Rates that are nearly the same, and means of the numbers; all of them walk."""
    begin = random.uniform(-0.1, 0.1, TYPES)
    ln_rates = begin + _walk(random, (steps, TYPES), _WALK, _WALK_BACK)
    return np.exp(ln_rates), np.stack([_walk(random, (steps, TYPES), _SHIFT, _SHIFT_BACK) for _ in range(2)])


def _walk(random: np.random.Generator, shape: tuple[int, int], step: float, back: float) -> Floats:
    """Walks from 0, a column each, that go back a part of the way with every step."""
    moves = random.normal(0, step, shape)
    walks = np.zeros(shape)
    for row in range(1, shape[0]):
        walks[row] = (1 - back) * walks[row - 1] + moves[row]
    return walks


DAYS_OF_A_STRETCH = 3
DAY_US = 86_400_000_000


def _days_of_month(number: int, data: Path | None) -> Stretch:
    """Looks at roads that found vehicles, by ten classes of roads; their rates change by ten between night and day."""
    readings = month_of_readings(data, VEHICLES)
    assert readings is not None, "asked for where the month is there"
    time_us = readings.column("timestamp").cast(pa.int64()).to_numpy()
    roads, road = np.unique(readings.column("report_id").to_numpy(), return_inverse=True)
    speed, vehicles = (readings.column(name).to_numpy().astype(float) for name in ("avg_speed", "vehicle_count"))
    x, y = (differences_by_type(road, of) for of in (speed, vehicles))
    place = np.argsort(np.argsort(np.bincount(road[vehicles > 0], minlength=len(roads)), kind="stable"), kind="stable")
    day = (time_us - time_us[0]) // DAY_US // DAYS_OF_A_STRETCH
    rows = np.flatnonzero((vehicles > 0) & (place % ONE_OF == 0)[road] & (day == number - 1))
    codes = (place * TYPES // len(roads))[road[rows]]
    described = f"looks at roads in use, one of {ONE_OF}, in {TYPES} classes, {DAYS_OF_A_STRETCH} days of August 2014"
    return Stretch(AARHUS, described, _table(time_us[rows], codes, x[rows], y[rows]))


def _table(time_us: Ints, codes: Ints, x: Floats, y: Floats) -> pa.Table:
    names: Sequence[str] = [f"T{code:02d}" for code in range(TYPES)]
    kinds = named_types(codes, names).cast(pa.string())
    return event_table(time_us, kind=kinds, x=np.round(x, 4), y=np.round(y, 4))


SEQUENCE, CONJUNCTION, NEGATION, KLEENE, DISJUNCTION = "sequence", "conjunction", "negation", "Kleene", "disjunction"
SETS = (SEQUENCE, CONJUNCTION, NEGATION, KLEENE, DISJUNCTION)
DRAWN_PAIRS = 20_000
"""Pairs of events by which it is said how far above the one before the next event has to be."""
BEGIN_WINDOWS = 20
"""Windows of the stretch that are looked at for this, or its first third, in which nothing is exchanged."""
_SPREAD = 1.5
"""A selectivity is at most so many times the middle one, or that much smaller."""


def pattern_of(stretch: Stretch, kind: str, size: int, seed: int) -> Pattern:
    """A pattern of a set: of the rarest type and the most frequent ones, in an order that the seed draws.

    Parameters
    ----------
    stretch
        Its beginning says how far numbers of its types are from each other.
    kind, size
        One of `SETS`; events, of a disjunction those of each of its two sequences.
    """
    random = np.random.default_rng((seed, size, SETS.index(kind)))
    begin = stretch.events.slice(0, min(BEGIN_WINDOWS * stretch.window, stretch.events.num_rows // 3))
    windows = begin.num_rows / stretch.window
    # A list is of the rarest type, which others are frequent beside, for lists double with each event.
    types = [*stretch.types[:1], *stretch.types[len(stretch.types) - size + 1 :]]
    parts = []
    conditions: list[str] = []
    names = variable_names(2 * size)
    for variables in (names[:size], names[size:])[: 2 if kind == DISJUNCTION else 1]:
        drawn = [str(one) for one in random.permutation(types)]
        operands = [f'"{of}" {name}' for of, name in zip(drawn, variables, strict=True)]
        references = list(variables)
        if kind == NEGATION:
            operands[-2] = f"~{operands[-2]}"
        elif kind == KLEENE:
            place = drawn.index(types[0])
            operands[place] = f'"{types[0]}"{{1,2}} {variables[place]}[]'
            references[place] += "[i]"
        for place, ((one, other), pair) in enumerate(zip(pairwise(references), pairwise(drawn), strict=True)):
            attribute = "xy"[place % 2]
            passing = PASSING[stretch.name] * math.exp(random.uniform(-1, 1) * math.log(_SPREAD))
            least = _least_difference(random, begin, pair, attribute, passing * windows)
            conditions.append(f"{other}.{attribute} - {one}.{attribute} > {least:.4g}")
        parts.append(f"{'AND' if kind == CONJUNCTION else 'SEQ'}({', '.join(operands)})")
    structure = f"OR({', '.join(parts)})" if kind == DISJUNCTION else parts[0]
    text = f"NAME p PATTERN {structure} WHERE {' AND '.join(conditions)} WITHIN {WINDOW_S[stretch.name]} seconds"
    (pattern,) = parse_patterns(text, stretch.schema)
    return pattern


def _least_difference(
    random: np.random.Generator, events: pa.Table, types: tuple[str, str], attribute: str, passing: float
) -> float:
    """The difference that so many of the events pass, of the more frequent type with one of the other."""
    numbers = [events.filter(pc.equal(events.column("kind"), of)).column(attribute).to_numpy() for of in types]
    before, after = (random.choice(of, DRAWN_PAIRS) for of in numbers)
    share = passing / max(map(len, numbers))
    return float(np.quantile(after - before, max(1 - share, 0.0)))


MECHANISMS = {
    "greedy": ("lazy_chain_nfa", "throughput"),
    "zstream": ("evaluation_tree", "throughput"),
    "zstream, instances": ("evaluation_tree", "instances"),
}
"""Planner -> the mechanism that runs its plans, and their cost."""
PRICED = "a price"
"""A switch has to pay for its price, which is the product's default; elsewhere any gain is enough, as in the patent."""
REACH = 2
"""Windows that the statistics reach back."""
MAX_PAIRS = 512
"""Pairs that the statistics test a scope between two decisions."""


@dataclass(frozen=True)
class Sizes:
    """The extent of what is measured.

    Attributes
    ----------
    repetitions
        Stretches of each stream.
    parameters
        What is tried of t, of each kind, and of d beside 0.
    frequencies
        Decisions a window, each with the number of windows of a generated stretch; all streams have the first one.
    sets
        Sets of patterns and their sizes, which all decide as often as the first of `frequencies` says.
    base
        The set and the size for all frequencies.
    planners
        Of `MECHANISMS`.
    """

    repetitions: int
    parameters: tuple[float, ...]
    frequencies: tuple[tuple[int, int], ...]
    sets: tuple[tuple[str, int], ...]
    base: tuple[str, int]
    planners: tuple[str, ...]


SMALL = Sizes(3, (0.3, 2.4, 19.2), ((4, 100), (64, 18)), (), (SEQUENCE, 5), ("greedy", "zstream"))
FULL = Sizes(
    5,
    (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8),
    ((4, 450), (16, 300), (64, 150)),
    tuple(product(SETS, range(3, 9))),
    (SEQUENCE, 5),
    tuple(MECHANISMS),
)


def _cells(sizes: Sizes, request: Request) -> Iterator[Cell]:
    """The cells; all repetitions of a case follow each other."""
    often, windows = sizes.frequencies[0]
    cases = [
        *((*sizes.base, *frequency) for frequency in sizes.frequencies),
        *((*one, often, windows) for one in sizes.sets if one != sizes.base),
    ]
    seldom = [case for case in cases if case[2] == often]
    # By the first planner alone: what is decided more often, where estimating takes most of the time by any plan, and
    # the stocks, where all plans are dear.
    first = sizes.planners[:1]
    of_streams = [
        *product([TRAFFIC], first, [case for case in cases if case not in seldom]),
        *product([TRAFFIC], sizes.planners, seldom),
        *product([STOCKS], first, seldom),
        *product([] if month_of_readings(request.data, VEHICLES) is None else [AARHUS], sizes.planners, seldom[:1]),
    ]
    for (stream, planner, case), nth in product(of_streams, range(1, sizes.repetitions + 1)):
        kind, size, often, windows = case
        key: dict[str, Figure] = {"stream": stream, "planner": planner, "set": kind, "size": size, "a window": often}
        key |= {"windows": windows, "parameters": " ".join(f"{one:g}" for one in sizes.parameters)}
        run = partial(_measure, stream, planner, case, nth, sizes.parameters, request)
        yield Cell({**key, "repetition": nth}, run)


class _Replay(AdaptiveRun):
    """A run of the loop by statistics that were estimated before: they are the same whatever is decided.

    The first run, which finds none, estimates them.
    """

    estimated: dict[int, StatisticsSnapshot]

    def _count(self, first: int, stop: int) -> None:
        self._at = stop
        if stop not in self.estimated:
            super()._count(first, stop)

    def _fresh(self) -> StatisticsSnapshot:
        if self._at not in self.estimated:
            self.estimated[self._at] = super()._fresh()
        return self.estimated[self._at]


def _measure(
    name: str,
    planner: str,
    case: tuple[str, int, int, int],
    number: int,
    parameters: Sequence[float],
    request: Request,
) -> dict[str, Figure]:
    """Run one pattern over one stretch by all decision functions.

    What is the same for several of them is measured once, so that it is their decisions that differ, not the noise of
    the machine: statistics; and a run of detection that switches to the same plans at the same events. The time of
    detection is that of its tries and switches, each at the price that least squares find over all runs.

    Raises
    ------
    CepError
        Two decision functions found different matches.
    """
    kind, size, often, windows = case
    stretch = stretch_of(name, windows, number, request.seed, request.data)
    pattern = pattern_of(stretch_of(name, windows, 1, request.seed, request.data), kind, size, request.seed)
    begin = stretch.events.slice(0, REACH * stretch.window)
    known = estimate_statistics([pattern], begin, seed=number)
    mechanism, cost = MECHANISMS[planner]
    settled = AdaptiveDetection(
        planner=planner.partition(",")[0],
        cost=cost,
        mechanism=mechanism,
        every_events=max(stretch.window // often, 1),
        window=REACH * stretch.window,
        minimum_gain=0.0,
        seed=number,
        max_pairs=MAX_PAIRS,
        clock=time.process_time,
    )
    estimated: dict[int, StatisticsSnapshot] = {}

    def run(loop: AdaptiveDetection) -> tuple[int, AdaptationReport]:
        running = _Replay(loop, [pattern], stretch.events, None, known, "count", None)
        running.estimated = estimated
        counts = [int(count) for _, batch in running.batches() for count in batch.column("count").to_pylist()]
        return sum(counts), running.report()

    decided: dict[str, AdaptationReport] = {}
    found: dict[str, tuple[int, AdaptationReport]] = {}
    runs: dict[tuple[tuple[int, str], ...], tuple[int, AdaptationReport]] = {}
    with one_core():
        # What is loaded or compiled on first use is no part of any decision function's time.
        settled.detect([pattern], begin, snapshot=known, output="count")
        estimating = run(replace(settled, decision=Unconditional(), find=False))[1].seconds_estimating
        for own, decision in decisions_of(parameters).items():
            loop = replace(settled, decision=decision)
            if own == META:  # it learns from the work that a switch has saved
                found[own] = run(loop)
                decided[own] = found[own][1]
                continue
            _, decided[own] = run(replace(loop, find=False))
            switches = tuple((one.row, one.orders) for one in decided[own].switches)
            if switches not in runs:
                runs[switches] = run(loop)
            found[own] = runs[switches]
        for own in (UNCONDITIONAL, named("d", 0.0)):
            priced = run(replace(settled, decision=decisions_of(())[own], minimum_gain=None))
            found[f"{own}, {PRICED}"], decided[f"{own}, {PRICED}"] = priced, priced[1]
    figures: dict[str, Figure] = {"stream is": stretch.description, "events": stretch.events.num_rows}
    figures |= {"matches": found[STATIC][0], "decisions": len(decided[UNCONDITIONAL].checks)}
    prices, figures["beside measured"] = _prices([report for _, report in found.values()])
    refuse_different_counts({own: {"pattern": matches} for own, (matches, _) in found.items()})
    for own, (_, report) in found.items():
        work = _work(report)
        figures |= {
            f"{own}:alarms": decided[own].replannings,
            f"{own}:switches": len(decided[own].switches),
            f"{own}:estimating": 0.0 if own == STATIC else estimating,
            f"{own}:deciding": decided[own].total.deciding,
            f"{own}:planning": decided[own].total.planning,
            f"{own}:detecting": float(work @ prices),
            f"{own}:tries": int(work[0]),
        }
    return figures


def _work(report: AdaptationReport) -> Floats:
    """The work of a run of detection: its tries, and its beginnings."""
    return np.array([sum(node.candidates for node in report.metrics.nodes), len(report.switches) + 1.0])


def _prices(reports: Sequence[AdaptationReport]) -> tuple[Floats, float]:
    """Seconds of a try and of a beginning; and how far the times by them are from those measured, in the mean."""
    work = np.array([_work(report) for report in reports])
    seconds = np.array([report.total.detecting for report in reports])
    # Relative errors count: long runs are not to have all the say.
    prices = np.linalg.lstsq(work / seconds[:, None], np.ones(len(seconds)), rcond=None)[0]
    if prices.min() < 0:
        prices = np.array([np.median(seconds / work[:, 0]), 0.0])
    return prices, float(np.abs(work @ prices / seconds - 1).mean())


SAME = 0.01
"""A mean difference of less is none, however sure."""
THRESHOLD, INVARIANT = "constant threshold", "invariants"
"""The threshold, of any kind, and the distance that were the best ones on other stretches."""
OVERHEAD = ("estimating", "deciding", "planning")


class Place(StrEnum):
    """A comparison of one decision function with another one."""

    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"


@dataclass(frozen=True)
class Interval:
    """A ratio over repetitions: the geometric mean, and its interval of 95 %."""

    low: float
    middle: float
    high: float

    @property
    def place(self) -> Place:
        """Ahead or behind where all of the interval is, by more than `SAME`."""
        if self.low > 1 and self.middle >= 1 + SAME:
            return Place.AHEAD
        return Place.BEHIND if self.high < 1 and self.middle <= 1 / (1 + SAME) else Place.LEVEL

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"{times_as_fast(self.middle)}, one repetition"
        ends = f"{times_as_fast(self.low)} to {times_as_fast(self.high)}"
        return f"{times_as_fast(self.middle)} ({ends}), {self.place}"


def interval_of(ratios: Sequence[float]) -> Interval:
    """The interval of a ratio by Student's t over the logarithms.

    Examples
    --------
    >>> str(interval_of([2.0, 2.2, 1.8, 2.1, 1.9])), interval_of([0.9, 1.1, 1.0]).place.value
    ('1.99 (1.81 to 2.20), ahead', 'level')
    """
    logs = [math.log(ratio) for ratio in ratios]
    middle = fmean(logs)
    if len(logs) == 1:
        return Interval(0.0, math.exp(middle), math.inf)
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half))


def all_seconds(row: Row, name: str) -> float:
    """Processor seconds of estimating, deciding, planning and detecting."""
    return sum(number(row, f"{name}:{figure}") for figure in (*OVERHEAD, "detecting"))


@dataclass(frozen=True)
class Case:
    """One pattern over a stream, by plans of a planner, with so many decisions a window; its repetitions are stretches.

    `THRESHOLD` and `INVARIANT` take the place of names: they are the functions that were the best ones in the other
    repetitions.
    """

    rows: tuple[Row, ...]
    stream: str
    planner: str
    kind: str
    size: int
    often: int

    def __str__(self) -> str:
        return f"{self.stream}, {self.planner}, {self.kind} of {self.size}, {self.often} a window"

    @property
    def names(self) -> list[str]:
        """The decision functions, by kind and parameter; those with a price last."""
        names = dict.fromkeys(name.partition(":")[0] for name in self.rows[0] if ":" in name)
        return sorted(names, key=_in_order)

    def of_kind(self, decision: str) -> list[str]:
        """The decision functions that `THRESHOLD` or `INVARIANT` is chosen from."""
        kinds = {THRESHOLD: tuple(MEASURES), INVARIANT: (DISTANCE,)}[decision]
        return [name for name in self.names if name.startswith(tuple(f"{kind}=" for kind in kinds)) and "," not in name]

    def name_of(self, decision: str, place: int) -> str:
        """The decision function as it was run in a repetition."""
        if decision not in (THRESHOLD, INVARIANT):
            return decision
        others = [row for at, row in enumerate(self.rows) if at != place] or self.rows
        return _best(others, self.of_kind(decision))

    def in_hindsight(self, decision: str) -> str:
        """The one that is the best in these repetitions themselves, as the patent chose it."""
        return _best(self.rows, self.of_kind(decision))

    def mean(self, decision: str, figure: str) -> float:
        """The mean of a figure of a decision function."""
        return fmean(number(row, f"{self.name_of(decision, at)}:{figure}") for at, row in enumerate(self.rows))

    def seconds(self, decision: str) -> list[float]:
        """All seconds of each repetition."""
        return [all_seconds(row, self.name_of(decision, place)) for place, row in enumerate(self.rows)]

    def ahead_of(self, one: str, other: str) -> Interval:
        """The throughput by one decision function as a multiple of that by the other."""
        pairs = zip(self.seconds(one), self.seconds(other), strict=True)
        return interval_of([theirs / own for own, theirs in pairs])

    def overhead(self, decision: str, figures: Iterable[str] = ("deciding", "planning")) -> float:
        """The share of all seconds that these take."""
        return sum(self.mean(decision, figure) for figure in figures) / fmean(self.seconds(decision))

    def chosen(self, decision: str) -> str:
        """The functions that were chosen, for people."""
        return " or ".join(sorted({self.name_of(decision, place) for place in range(len(self.rows))}, key=_in_order))


def cases_of(rows: Iterable[Row]) -> list[Case]:
    """The cases, in the order of their cells."""
    found: dict[Any, list[Row]] = grouped(rows, "stream", "planner", "set", "size", "a window")
    return [Case(tuple(of), *key) for key, of in found.items()]


def _in_order(name: str) -> tuple[bool, int, float]:
    function, _, price = name.partition(", ")
    kind, _, parameter = function.partition("=")
    return bool(price), KINDS.index(kind), float(parameter or 0)


def _best(rows: Sequence[Row], names: Sequence[str]) -> str:
    return min(names, key=lambda name: math.fsum(math.log(all_seconds(row, name)) for row in rows))


OVER_ZERO, OF_TRAFFIC, OF_STOCKS = 2.0, 6.0, 1.3
"""The patent's smallest throughput of the best d over that of d = 0; its largest of invariants over the best threshold
in the traffic, and its smallest in the stocks."""
LITTLE, WITHIN = 0.01, 0.9
"""The most of the time that deciding and planning take; and the least share of the best d's throughput that the average
relative difference has."""
ZERO = named(DISTANCE, 0.0)
SHARE = "{:.1%}".format


@finding()
def some_distance_is_best(cases: Sequence[Case]) -> Measured:
    """Figure 6."""
    found = [
        max(
            (of.ahead_of(name, ZERO) for name in of.of_kind(INVARIANT) if name != ZERO),
            key=lambda one: one.middle,
        )
        for of in cases
    ]
    verdict = Verdict.HOLDS if min(one.low for one in found) >= OVER_ZERO else Verdict.UNDECIDED
    if any(one.high < OVER_ZERO for one in found):
        verdict = Verdict.DIFFERS
    overhead = ratio_range((of.overhead(ZERO) for of in cases), SHARE)
    return verdict, {**_ahead_in(found), "overhead": overhead}


@finding()
def ahead_everywhere(cases: Sequence[Case]) -> Measured:
    """Figures 7 and 8: throughput."""
    found = [of.ahead_of(INVARIANT, THRESHOLD).place for of in cases]
    fewer = sum(of.mean(INVARIANT, "alarms") < of.mean(THRESHOLD, "alarms") for of in cases)
    ahead, level, behind = (found.count(place) for place in Place)
    verdict = Verdict.DIFFERS if behind or 2 * level >= len(found) else Verdict.UNDECIDED
    figures = {"ahead": ahead, "level": level, "behind": behind, "cases": len(found), "fewer": fewer}
    return Verdict.HOLDS if ahead == len(found) else verdict, figures


@finding(lambda case: case.stream != STOCKS)
def far_ahead_in_traffic(cases: Sequence[Case]) -> Measured:
    """Figure 7, the greatest lead."""
    best = max((of.ahead_of(INVARIANT, THRESHOLD) for of in cases), key=lambda one: one.middle)
    static = ratio_range(of.ahead_of(INVARIANT, STATIC).middle for of in cases)
    return _at_least(best, OF_TRAFFIC), {"times": times_as_fast(best.middle), "static": static}


@finding(lambda case: case.stream == STOCKS)
def ahead_in_stocks(cases: Sequence[Case]) -> Measured:
    """Figure 8."""
    found = [of.ahead_of(INVARIANT, THRESHOLD) for of in cases]
    # Of each repetition the mean over the cases, so that the interval is that of repetitions.
    pairs = [(of.seconds(INVARIANT), of.seconds(THRESHOLD)) for of in cases]
    repetitions = range(min(len(own) for own, _ in pairs))
    middle = interval_of([geometric_mean(other[at] / own[at] for own, other in pairs) for at in repetitions])
    figures = {"times": times_as_fast(middle.middle), "all": ratio_range(one.middle for one in found)}
    return _at_least(middle, OF_STOCKS), figures


@finding()
def fewer_alarms(cases: Sequence[Case]) -> Measured:
    """Figures 7C, 7G, 8C, 8G."""
    alarms = [[of.mean(name, "alarms") for name in (INVARIANT, THRESHOLD, UNCONDITIONAL)] for of in cases]
    fewer = sum(invariants < threshold < always for invariants, threshold, always in alarms)
    silent = sum(threshold == 0 for _, threshold, _ in alarms)
    never = sum(invariants < always and threshold < always for invariants, threshold, always in alarms)
    verdict = Verdict.HOLDS if fewer == len(alarms) else Verdict.DIFFERS
    return verdict, {"fewer": fewer, "cases": len(alarms), "never": never, "silent": silent}


@finding()
def little_overhead(cases: Sequence[Case]) -> Measured:
    """Figures 7D, 7H, 8D, 8H."""
    shares = [of.overhead(INVARIANT) for of in cases]
    verdict = Verdict.HOLDS if max(shares) < LITTLE else Verdict.DIFFERS
    estimating = ratio_range((of.overhead(INVARIANT, ["estimating"]) for of in cases), SHARE)
    return verdict, {"shares": ratio_range(shares, SHARE), "estimating": estimating}


@finding(lambda case: case.stream == STOCKS)
def static_is_ahead_in_stocks(cases: Sequence[Case]) -> Measured:
    """Figure 8, on the static plan."""
    found = [of.ahead_of(STATIC, UNCONDITIONAL) for of in cases]
    overhead = ratio_range((of.overhead(UNCONDITIONAL, ("estimating", "deciding", "planning")) for of in cases), SHARE)
    return _all_ahead(found), {**_ahead_in(found), "overhead": overhead}


@finding()
def more_for_trees(cases: Sequence[Case]) -> Measured:
    """The last observation."""
    by_key = {(of.stream, of.planner, of.kind, of.size, of.often): of for of in cases}
    pairs = [
        (of, by_key[other])
        for (stream, planner, *rest), of in by_key.items()
        if planner == "zstream" and (other := (stream, "greedy", *rest)) in by_key
    ]
    found = []
    for pair in pairs:
        trees, orders = (
            [static / own for static, own in zip(of.seconds(STATIC), of.seconds(INVARIANT), strict=True)] for of in pair
        )
        found.append(interval_of([tree / order for tree, order in zip(trees, orders, strict=True)]))
    return _all_ahead(found), _ahead_in(found)


@finding()
def average_is_near_the_best(cases: Sequence[Case]) -> Measured:
    """The validation of the average relative difference, judged by the throughput that it has."""
    found = sorted((of.ahead_of(AVERAGE, INVARIANT) for of in cases), key=lambda one: one.middle)
    return _at_least(found[0], WITHIN), {"least": found[0].middle, "most": found[-1].middle}


def _ahead_in(found: Sequence[Interval]) -> dict[str, object]:
    """The figures of ratios: their range, and how many of them are ahead."""
    ahead = sum(one.place is Place.AHEAD for one in found)
    return {"times": ratio_range(one.middle for one in found), "ahead": ahead, "cases": len(found)}


def _all_ahead(found: Sequence[Interval]) -> Verdict:
    if any(one.place is Place.BEHIND for one in found):
        return Verdict.DIFFERS
    return Verdict.HOLDS if all(one.place is Place.AHEAD for one in found) else Verdict.UNDECIDED


def _at_least(found: Interval, bound: float) -> Verdict:
    if found.low >= bound:
        return Verdict.HOLDS
    return Verdict.DIFFERS if found.high < bound else Verdict.UNDECIDED


OTHERS = (THRESHOLD, UNCONDITIONAL, STATIC)
SHOWN = (STATIC, UNCONDITIONAL, THRESHOLD, INVARIANT, ZERO, AVERAGE, META, f"{ZERO}, {PRICED}")


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of the cells."""
    cases = cases_of(rows)
    places = {other: [of.ahead_of(INVARIANT, other).place for of in cases] for other in OTHERS}
    said = (f"{one}: {', '.join(f'{at} in {found.count(at)}' for at in Place)}" for one, found in places.items())
    return findings_page(
        __name__,
        sizes,
        request,
        findings_of(__name__, cases),
        [_picture(cases)],
        cases=cases,
        ahead="; ".join(said),
        ahead_table=_ahead_table(cases),
        times=_times_table(cases),
        tried=_tried_table(cases),
        tries=[of.mean(STATIC, "tries") for of in cases],
        shares=[number(row, "matches") / number(row, "events") for row in rows],
        beside=fmean(number(row, "beside measured") for row in rows),
        windows=[round(number(row, "events") / number(row, "windows")) for row in rows],
        described=dict.fromkeys(f"{row['stream']}: {row['stream is']}" for row in rows),
        has_month=any(of.stream == AARHUS for of in cases),
    )


def _ahead_table(cases: Sequence[Case]) -> str:
    lines = [
        [
            str(of),
            of.chosen(THRESHOLD),
            of.chosen(INVARIANT),
            *(str(of.ahead_of(INVARIANT, one)) for one in OTHERS),
            str(of.ahead_of(of.in_hindsight(INVARIANT), of.in_hindsight(THRESHOLD))),
        ]
        for of in cases
    ]
    header = ["case", "threshold", "distance", *(f"beside {one}" for one in OTHERS), "beside threshold, in hindsight"]
    return markdown_table(header, lines)


def _times_table(cases: Sequence[Case]) -> str:
    lines = []
    for of in cases:
        for name in SHOWN:
            counts = (f"{of.mean(name, figure):,.1f}" for figure in ("alarms", "switches"))
            seconds = (format_seconds(of.mean(name, figure)) for figure in (*OVERHEAD, "detecting"))
            throughput = fmean(number(row, "events") for row in of.rows) / fmean(of.seconds(name))
            lines.append(
                [str(of), name, *counts, f"{of.mean(name, 'tries'):.2g}", *seconds, count_per_s(throughput)],
            )
    header = ["case", "decision", "alarms", "switches", "tries", *OVERHEAD, "detecting"]
    return markdown_table([*header, "events/s, all of it"], lines)


def _tried_table(cases: Sequence[Case]) -> str:
    """All seconds by each value of t and d."""
    names = [*cases[0].of_kind(THRESHOLD), *cases[0].of_kind(INVARIANT)]
    lines = [[str(of), *(format_seconds(fmean(of.seconds(name))) for name in names)] for of in cases]
    return markdown_table(["case", *names], lines)


def _picture(cases: Sequence[Case]) -> Picture:
    points: list[Row] = []
    for of in cases:
        for name in of.of_kind(INVARIANT):
            over = of.ahead_of(name, ZERO).middle
            case = f"{of.planner}, {of.kind}, {of.often} a window"
            points.append(
                {"d": float(name.partition("=")[2]), "throughput": over, "case": case, "stream": of.stream},
            )
    shows = "Throughput against the minimal distance"
    svg = line_chart(points, Axis("d", "d"), Axis("throughput", "times that of d = 0"), "case", facet="stream")
    return Picture("distance", shows, "Throughput against the minimal distance d (figure 6).", svg)


EXPERIMENT = Experiment("adaptation", SMALL, FULL, _cells, write_page)
