"""`cep experiment adaptation`: decisions to plan again, over streams whose best plan changes (ACEP patent)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.experiments.events import (
    differences_by_type,
    event_table,
    events_schema,
    month_of_readings,
    named_types,
)
from benchmarks.experiments.experiment import Cell, Experiment, Figure, Request
from benchmarks.experiments.join_plans.experiment import variable_names
from benchmarks.measure import one_core
from cep_pipeline.adaptation.decisions import (
    DecisionFunction,
    DecisionState,
    Deviation,
    InvariantBased,
    Static,
    Unconditional,
    Verdict,
    deviations,
)
from cep_pipeline.adaptation.distance import AverageRelativeDifference, Fixed, MetaAdaptive
from cep_pipeline.adaptation.loop import AdaptiveDetection, AdaptiveRun
from cep_pipeline.adaptation.plan_loop import AdaptationReport
from cep_pipeline.errors import CepError
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

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        for moved in deviations(state.before, state.questions, snapshot):
            if MEASURES[self.measure](moved) >= self.least:
                return Verdict(True, str(moved), (moved,))
        return Verdict(False, f"no number has moved by {self.least:g} or more")


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


def has_month(data: Path | None) -> bool:
    """True where the month of real traffic is there."""
    return _readings(data) is not None


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


@lru_cache(maxsize=1)
def _readings(data: Path | None) -> pa.Table | None:
    return month_of_readings(data)


DAYS_OF_A_STRETCH = 3
DAY_US = 86_400_000_000


def _days_of_month(number: int, data: Path | None) -> Stretch:
    """Looks at roads that found vehicles, by ten classes of roads; their rates change by ten between night and day."""
    readings = _readings(data)
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
        *product([AARHUS] if has_month(request.data) else [], sizes.planners, seldom[:1]),
    ]
    for (stream, planner, case), number in product(of_streams, range(1, sizes.repetitions + 1)):
        kind, size, often, windows = case
        key: dict[str, Figure] = {"stream": stream, "planner": planner, "set": kind, "size": size, "a window": often}
        key |= {"windows": windows, "parameters": " ".join(f"{one:g}" for one in sizes.parameters)}
        run = partial(_measure, stream, planner, case, number, sizes.parameters, request)
        yield Cell({**key, "repetition": number}, run)


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
    for own, (matches, report) in found.items():
        if matches != figures["matches"]:
            raise CepError(f"adaptation: {own} finds {matches:,} matches, where {figures['matches']:,} were found")
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


EXPERIMENT = Experiment("adaptation", SMALL, FULL, _cells)
