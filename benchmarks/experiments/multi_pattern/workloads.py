"""The input of `cep experiment multi_pattern`: two streams of 20 types, and workloads of patterns (MCEP [0128]-[0132]).

The patent's types have 2 to 47 events a second, which its windows of 15 minutes and patterns of five events rule out:
of five types with only 10 a second there are 10^19 combinations in a window. So these rates are in a window here.

What the patent leaves open of patterns is chosen so: which two types are compared, and by how much, is drawn once for a
workload, with the patent's range of selectivities, and so is the order in which its sequences have types. Patterns that
have two types have the same to say of them then, and can share it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.experiments.events import (
    differences_by_type,
    event_table,
    events_schema,
    month_of_readings,
    named_types,
)
from benchmarks.experiments.join_plans.experiment import CONJUNCTION, KLEENE, NEGATION, SEQUENCE, variable_names
from benchmarks.traffic_stream import EVERY_S, SENSORS, generate_traffic
from cep_pipeline.detection.detect import detect
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.statistics import estimate_statistics

WINDOW_S = 900
TYPES = 20
SLOWEST, BUSIEST = 2.0, 47.0
"""Trades of a stock in a window; their ratio is that of the numbers of sensors in the zones, too."""
RATES = BUSIEST * (SLOWEST / BUSIEST) ** (np.arange(TYPES) / (TYPES - 1))
"""The rates of the types, evenly on a logarithmic scale."""
STOCKS, TRAFFIC = "stocks", "traffic"
STREAMS = (STOCKS, TRAFFIC)
PERMUTED_TYPES = 5
"""y of the patent: types that a permutation of the input exchanges."""
LEAST_STEP, GREATEST_STEP = 6.0, 113.0
"""Standard deviations of the differences of prices in cents, as in minute bars of NASDAQ (CBRL 5.9, GOOG 112.7)."""
_STOCKS_SEED = 42
_STEPS_SEED = 43
_BEGINS = datetime(2014, 8, 4, 7, tzinfo=UTC)
"""The readings of the real month begin on a Monday morning."""
_LOOKS_BEFORE = 12
_ZONES_SEED = 5

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """A kind of events that patterns are about.

    Attributes
    ----------
    name
        For people.
    condition
        What each event of a pattern has to fulfil, with `{}` for its variable; none for all events.
    differences
        Of each type the differences of its events of this kind, in order of time.
    """

    name: str
    condition: str | None
    differences: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class WorkloadStream:
    """A stream whose patterns compare differences.

    Attributes
    ----------
    name, description
        For keys, and for people.
    schema, events
        The events in stream order, with the attribute `diff`; `seq` counts them.
    types
        The event types, by falling rates.
    windows
        How many windows of `window_s` they last.
    kinds
        The kinds of events that patterns are about.
    """

    name: str
    description: str
    schema: StreamSchema
    events: pa.Table
    types: tuple[str, ...]
    windows: float
    kinds: tuple[Kind, ...]
    window_s: int = WINDOW_S

    @property
    def longer(self) -> float:
        """The length of a window as a multiple of the patent's."""
        return self.window_s / WINDOW_S

    @cached_property
    def per_window(self) -> Floats:
        """Events of each kind and type in a window, shape (kinds, types)."""
        return np.array([[len(of) for of in kind.differences] for kind in self.kinds]) / self.windows


def window_s_of(name: str, events: int) -> int:
    """The seconds in which so many events of a stream come."""
    per_s = RATES.sum() / WINDOW_S if name == STOCKS else SENSORS / EVERY_S
    return round(events / per_s)


@cache
def stocks(windows: int, window_s: int = WINDOW_S) -> WorkloadStream:
    """Trades of 20 stocks whose prices walk at random, with 2 to 47 trades of a stock in a window.

    The steps of each stock have their own size, whatever its rate. Shorter streams are not beginnings of longer ones.
    """
    random = np.random.default_rng((_STOCKS_SEED, windows))
    trades = round(windows * window_s / WINDOW_S * float(RATES.sum()))
    times_us = np.sort(random.integers(0, windows * window_s * 1_000_000, trades))
    codes = random.choice(TYPES, trades, p=RATES / RATES.sum())
    evenly = LEAST_STEP * (GREATEST_STEP / LEAST_STEP) ** (np.arange(TYPES) / (TYPES - 1))
    steps = np.random.default_rng(_STEPS_SEED).permutation(evenly)
    differences = np.rint(random.normal(0.0, 1.0, trades) * steps[codes]) / 100
    names = [f"S{code:02d}" for code in range(TYPES)]
    events = event_table(times_us, ticker=named_types(codes, names), diff=differences)
    schema = events_schema(STOCKS, "Trade", "ticker", ticker="string", diff="float64")
    kind = Kind("all", None, _by_type(codes, differences, np.ones(trades, np.bool_)))
    description = f"{trades:,} generated trades of {TYPES} stocks in {windows} windows"
    return WorkloadStream(STOCKS, description, schema, events, tuple(names), float(windows), (kind,), window_s)


@cache
def traffic(data: Path | None, windows: int, window_s: int = WINDOW_S) -> WorkloadStream:
    """Readings of all road sensors, in zones of 3 to 71 sensors; a generated twin where the real month is not there.

    Every sensor reads every five minutes; its differences are to its own reading before.
    """
    looks = windows * window_s // EVERY_S + 1
    month = month_of_readings(data)
    if month is not None:
        readings = month
        source = "readings of the road sensors of Aarhus in August 2014"
        begins = _BEGINS.timestamp() * 1e6
    else:
        readings = _generated_readings(looks + _LOOKS_BEFORE)
        source = "generated readings of road sensors (the real month was not there)"
        begins = readings.column("timestamp").cast(pa.int64())[0].as_py() + _LOOKS_BEFORE * EVERY_S * 1e6
    timestamps = readings.column("timestamp").cast(pa.int64()).to_numpy()
    near = (timestamps >= begins - _LOOKS_BEFORE * EVERY_S * 1e6) & (timestamps < begins + windows * window_s * 1e6)
    readings, timestamps = readings.filter(pa.array(near)), timestamps[near]
    sensors = readings.column("report_id").combine_chunks().dictionary_encode()
    zones = _zones(len(sensors.dictionary))[np.argsort(np.argsort(sensors.dictionary.to_numpy()))]
    inside = timestamps >= begins
    numbers = [
        differences_by_type(sensors.indices.to_numpy(), readings.column(name).to_numpy().astype(np.float64))[inside]
        for name in ("avg_speed", "vehicle_count")
    ]
    codes = zones[sensors.indices.to_numpy()][inside]
    names = [f"Z{zone:02d}" for zone in range(TYPES)]
    diff, more = (of.astype(np.int64) for of in numbers)
    events = event_table(timestamps[inside], zone=named_types(codes, names), diff=diff, more=more)
    schema = events_schema(TRAFFIC, "Reading", "zone", zone="string", diff="int64", more="int64")
    kinds = tuple(
        Kind(name, f"{{0}}.diff {sign} 0 AND {{0}}.more {sign} 0", _by_type(codes, numbers[0], fits))
        for name, sign, fits in (
            ("both rise", ">", (numbers[0] > 0) & (numbers[1] > 0)),
            ("both fall", "<", (numbers[0] < 0) & (numbers[1] < 0)),
        )
    )
    description = f"{len(codes):,} {source} in {windows} windows, the sensors being in {TYPES} zones of 3 to 71"
    return WorkloadStream(TRAFFIC, description, schema, events, tuple(names), float(windows), kinds, window_s)


def permuted(
    stream: WorkloadStream, phase: int, types: Sequence[int], seed: int, *, on_top: bool = False
) -> WorkloadStream:
    """The stream with types exchanged (MCEP [0150]): in every `phase` events 5 of some types are put in random order.

    An event of one of them becomes one of the type that follows its own in that order, of the last one one of the
    first: none of the five keeps its events.

    Parameters
    ----------
    on_top
        Whether an exchange changes what those before it have left, so that soon all of the types have changed, or the
        stream as it was.
    """
    attribute = stream.schema.type_attribute
    column = stream.events.column(attribute).combine_chunks()
    codes = column.indices.to_numpy()
    random = np.random.default_rng((seed, phase))
    exchanged = np.empty_like(codes)
    left = np.arange(len(stream.types), dtype=codes.dtype)
    for first in range(0, len(codes), phase):
        chosen = random.choice(np.array(types), min(PERMUTED_TYPES, len(types)), replace=False)
        becomes = np.arange(len(stream.types), dtype=codes.dtype)
        becomes[chosen] = np.roll(chosen, -1)
        left = becomes[left] if on_top else becomes
        exchanged[first : first + phase] = left[codes[first : first + phase]]
    replaced = pa.DictionaryArray.from_arrays(pa.array(exchanged), column.dictionary)
    events = stream.events.set_column(stream.events.column_names.index(attribute), attribute, replaced)
    name = f"{stream.name}, types exchanged every {phase} events"
    return replace(stream, name=name, description=name, events=events)


def _by_type(codes: Ints, differences: Floats, fits: npt.NDArray[np.bool_]) -> tuple[Floats, ...]:
    return tuple(differences[fits & (codes == code)] for code in range(TYPES))


def _zones(sensors: int) -> Ints:
    """The zone of each sensor: so many sensors in each that their rates fall evenly on a logarithmic scale."""
    ends = np.rint(np.cumsum(RATES) / RATES.sum() * sensors).astype(np.int64)
    zones = np.searchsorted(ends, np.arange(sensors), side="right")
    return np.random.default_rng(_ZONES_SEED).permutation(zones).astype(np.int64)


def _generated_readings(looks: int) -> pa.Table:
    readings = generate_traffic(looks)
    random = np.random.default_rng(_ZONES_SEED)
    mean = np.exp(random.uniform(0.0, 3.0, SENSORS))
    counts = random.poisson(mean, (looks, SENSORS)).astype(np.int64)
    return readings.append_column("vehicle_count", pa.array(counts.reshape(-1)))


SELECTIVITIES = 0.003, 0.92
"""The selectivities of comparisons (MCEP [0131])."""
SELECTIVE = 0.0005, 0.01
"""Those in windows of thousands of events, in which all types of a pattern are compared."""
SPECIAL = 0.2
"""Share of patterns with NOT or KL."""
MOST_KLEENE_EVENTS = 4.0
"""The most events in a window of a type under KL: its lists double with each one."""
DEAREST = 20_000.0
"""Partial matches in a window of 15 minutes that a pattern may be expected to have by its own order."""
DEAREST_IN_LONG = 150_000.0
"""The same in windows that are much longer."""
MOST_MATCHES = 3.0
"""Matches in such a window that it may be expected to have: they cost the same by any plan."""
MORE_MATCHES = 5.0
"""Most matches that it may really have, as a multiple of those expected: conditions that share a variable pass together
more often than their selectivities say, and readings come at once."""
PAIRS = 2_000
"""Pairs of differences, by which it is chosen what a condition compares them with."""
MOST_DRAWS = 2_000


DEFAULT_WINDOW = f"{WINDOW_S // 60} minutes"


@dataclass(frozen=True)
class Shape:
    """The shape of a workload.

    Attributes
    ----------
    patterns, size
        How many, and of how many events in the mean: from one less to one more.
    types
        The pool that types are drawn from.
    rate_difference
        The largest difference of rates in a pattern, as a share of the largest there is (MCEP [0154]).
    window
        `15 minutes`, or a number of events.
    kleene
        Whether there are patterns with KL. Where any type may come to be busy there are none: lists double with each
        event.
    """

    patterns: int
    size: int = 5
    types: int = 12
    rate_difference: float = 1.0
    window: str = DEFAULT_WINDOW
    kleene: bool = True
    all_compared: bool = False
    """Whether any two types are compared, and selectively, as it takes where a window holds thousands of events."""


@dataclass(frozen=True, eq=False)
class PatternWorkload:
    """A workload that was drawn: its statements, and what they say."""

    text: str
    patterns: tuple[Pattern, ...]
    pool: tuple[int, ...]


@dataclass(frozen=True)
class _World:
    """The common part of a workload's patterns: types in the order of its sequences, and comparisons of two types.

    Attributes
    ----------
    pool
        Types in the order in which sequences have them.
    selectivities, margins
        For each kind, of two types (the earlier one first) that are compared.
    """

    pool: tuple[int, ...]
    selectivities: dict[tuple[int, int], float]
    margins: tuple[dict[tuple[int, int], float], ...]


@dataclass(frozen=True)
class _Draft:
    """A pattern before it is written: its kind, structure and types; the place of the special one."""

    kind: int
    structure: str
    types: tuple[int, ...]
    special: tuple[str, int] | None = None


@cache
def draw_workload(stream: WorkloadStream, shape: Shape, number: int, seed: int) -> PatternWorkload:
    """Draw a workload; the same for the same arguments, and its first patterns the same however many there are.

    Parameters
    ----------
    number, seed
        Which workload of this shape, and of which run. The window has no part in what is drawn.
    """
    return _draw_workload(stream, shape, number, seed, [stream])


def draw_workload_for(
    stream: WorkloadStream, changed: WorkloadStream, shape: Shape, number: int, seed: int
) -> PatternWorkload:
    """Draw a workload as of one stream, whose patterns have few matches in another one that is made of it, too."""
    return _draw_workload(stream, shape, number, seed, [stream, changed])


def pool_of(stream: WorkloadStream, shape: Shape, number: int, seed: int) -> tuple[int, ...]:
    """The types that the patterns of a workload are of."""
    return _first_world(stream, shape, number, seed)[1].pool


def _first_world(stream: WorkloadStream, shape: Shape, number: int, seed: int) -> tuple[np.random.Generator, _World]:
    random = np.random.default_rng((seed, number, shape.size, shape.types, round(1000 * shape.rate_difference)))
    world = _draw_world(random, stream, shape)
    while not _has_patterns(stream, shape, world):  # types whose rates differ too much, or no comparison among them
        world = _draw_world(random, stream, shape)
    return random, world


def _draw_workload(
    stream: WorkloadStream, shape: Shape, number: int, seed: int, inputs: Sequence[WorkloadStream]
) -> PatternWorkload:
    random, world = _first_world(stream, shape, number, seed)
    drawn: dict[_Draft, None] = {}
    kept: list[_Draft] = []
    while len(kept) < shape.patterns:
        new = [_next_draft(random, stream, shape, world, drawn) for _ in range(shape.patterns - len(kept))]
        for one in inputs:
            new = _with_few_matches(one, world, new)
        kept += new
    text = _text(stream, world, kept, shape.window)
    return PatternWorkload(text, tuple(parse_patterns(text, stream.schema)), world.pool)


def _has_patterns(stream: WorkloadStream, shape: Shape, world: _World) -> bool:
    probe = np.random.default_rng(0)
    return any(_draw(probe, stream, shape, world) is not None for _ in range(MOST_DRAWS))


def _next_draft(
    random: np.random.Generator, stream: WorkloadStream, shape: Shape, world: _World, drawn: dict[_Draft, None]
) -> _Draft:
    """The next pattern that is none of those drawn and not too dear; after `MOST_DRAWS` one that is."""
    draws = 0
    while True:
        draft = _draw(random, stream, shape, world)
        draws += 1
        if draft is None:
            if draws > 100 * MOST_DRAWS:
                raise ValueError(f"there are no patterns of this shape: {shape}")
            continue
        if draws >= MOST_DRAWS or (draft not in drawn and _affordable(stream, world, draft)):
            drawn[draft] = None
            return draft


def _with_few_matches(stream: WorkloadStream, world: _World, drafts: Sequence[_Draft]) -> list[_Draft]:
    """The drafts that have about as few matches as they are expected to, in all of the stream."""
    if not drafts:
        return []
    text = _text(stream, world, drafts, f"{stream.window_s} seconds")
    patterns = parse_patterns(text, stream.schema)
    snapshot = estimate_statistics(patterns, stream.events, max_pairs=PAIRS)
    counts = detect(
        patterns, stream.events, plan_workload(patterns, snapshot, "reordering"), mechanism="fused", output="count"
    )
    most = MORE_MATCHES * MOST_MATCHES * stream.longer * stream.windows
    return [
        draft
        for draft, pattern in zip(drafts, patterns, strict=True)
        if int(counts[pattern.name].column("count")[0].as_py()) <= most
    ]


def _text(stream: WorkloadStream, world: _World, drafts: Sequence[_Draft], window: str) -> str:
    return ";\n".join(
        _statement(f"p{place:04d}", stream.kinds[draft.kind], stream, world, draft, window)
        for place, draft in enumerate(drafts)
    )


def events_of_window(stream: WorkloadStream, window_s: int) -> int:
    """The events that come in a time, in the mean: the size of a count window like it."""
    events: int = round(stream.events.num_rows / stream.windows * window_s / WINDOW_S)
    return events


def _draw_world(random: np.random.Generator, stream: WorkloadStream, shape: Shape) -> _World:
    heard = np.flatnonzero((stream.per_window > 0).all(axis=0))
    pool = tuple(int(code) for code in random.choice(heard, min(shape.types, len(heard)), replace=False))
    selectivities: dict[tuple[int, int], float] = {}
    margins: tuple[dict[tuple[int, int], float], ...] = tuple({} for _ in stream.kinds)
    for pair in combinations(pool, 2):
        if not shape.all_compared and random.random() >= 1 / (shape.size - 1):  # half as many comparisons as events
            continue
        least, greatest = SELECTIVE if shape.all_compared else SELECTIVITIES
        selectivity = math.exp(random.uniform(math.log(least), math.log(greatest)))
        selectivities[pair] = selectivity
        for kind, of_kind in zip(stream.kinds, margins, strict=True):
            one, other = (random.choice(kind.differences[code], PAIRS) for code in pair)
            of_kind[pair] = float(np.quantile(other - one, 1 - selectivity, method="higher")) - 1e-6
    return _World(pool, selectivities, margins)


def _draw(random: np.random.Generator, stream: WorkloadStream, shape: Shape, world: _World) -> _Draft | None:
    """One pattern, or None where it has too few comparisons, or too many, or its rates differ too much."""
    size = shape.size if shape.size <= 2 or shape.all_compared else shape.size + int(random.integers(-1, 2))
    kind = int(random.integers(len(stream.kinds)))
    rates = stream.per_window[kind]
    highest = rates[int(random.choice(world.pool))]
    lowest = highest - shape.rate_difference * (rates.max() - rates.min())
    near = [code for code in world.pool if lowest <= rates[code] <= highest or shape.rate_difference >= 1]
    if len(near) < size:
        return None
    chosen = {int(code) for code in random.choice(near, size, replace=False)}
    types = tuple(code for code in world.pool if code in chosen)
    compared = sum(pair in world.selectivities for pair in combinations(types, 2))
    if not shape.all_compared and (compared < 1 or abs(compared - size / 2) > 1):
        return None
    structure = SEQUENCE if random.random() < 0.5 else CONJUNCTION
    if random.random() >= SPECIAL or size < 3:
        return _Draft(kind, structure, types)
    if random.random() < 0.5 or not shape.kleene:
        return _Draft(kind, SEQUENCE, types, (NEGATION, int(random.integers(1, size - 1))))
    slow = [place for place, code in enumerate(types) if rates[code] <= MOST_KLEENE_EVENTS]
    return _Draft(kind, structure, types, (KLEENE, int(random.choice(slow)))) if slow else None


def _affordable(stream: WorkloadStream, world: _World, draft: _Draft) -> bool:
    """Tell whether a pattern has as few partial matches by its own order, and matches, as are wanted."""
    rates = stream.per_window[draft.kind]
    bound: list[int] = []
    ways = 1.0
    for place, code in enumerate(draft.types):
        if draft.special == (NEGATION, place):
            continue
        ways *= math.exp(rates[code]) - 1 if draft.special == (KLEENE, place) else rates[code]
        for before in bound:
            ways *= world.selectivities.get((before, code), 1.0)
        bound.append(code)
        if draft.structure == SEQUENCE:
            ways /= len(bound)
        if ways > min(DEAREST * stream.longer, DEAREST_IN_LONG):
            return False
    return ways <= MOST_MATCHES * stream.longer


def _statement(name: str, kind: Kind, stream: WorkloadStream, world: _World, draft: _Draft, window: str) -> str:
    names = variable_names(len(draft.types))
    operands = [f'"{stream.types[code]}" {variable}' for code, variable in zip(draft.types, names, strict=True)]
    references = list(names)
    if draft.special is not None:
        what, place = draft.special
        operands[place] = f"{'NOT' if what == NEGATION else 'KL'}({operands[place]})"
        references[place] += "[i]" if what == KLEENE else ""
    conditions = [kind.condition.format(reference) for reference in references] if kind.condition else []
    margins = world.margins[draft.kind]
    for (one, first), (other, second) in combinations(zip(draft.types, references, strict=True), 2):
        if (one, other) in margins:
            conditions.append(f"{second}.diff - {first}.diff > {margins[one, other]:.6g}")
    operator = "SEQ" if draft.structure == SEQUENCE else "AND"
    return f"NAME {name} PATTERN {operator}({', '.join(operands)}) WHERE {' AND '.join(conditions)} WITHIN {window}"
