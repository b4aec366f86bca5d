"""The input of `cep experiment multi_pattern`: two streams of 20 types, and workloads of patterns (MCEP [0128]-[0132]).

The patent's types have 2 to 47 events a second, which its windows of 15 minutes and patterns of five events rule out:
of five types with only 10 a second there are 10^19 combinations in a window. So these rates are in a window here.

What the patent leaves open of patterns is chosen so: which two types are compared, and by how much, is drawn once for a
workload, with the patent's range of selectivities, and so is the order in which its sequences have types. Patterns that
have two types have the same to say of them then, and can share it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import combinations, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.experiments.events import (
    differences_by_type,
    event_table,
    events_schema,
    named_types,
)
from benchmarks.experiments.join_plans import CONJUNCTION, KLEENE, NEGATION, SEQUENCE, variable_names
from benchmarks.traffic_stream import EVERY_S, SENSORS, VEHICLES, generate_traffic, month_of_readings
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
    condition
        What each event of a pattern has to fulfil, with `{}` for its variable; none for all events.
    differences
        Of each type the differences of its events of this kind, in order of time.
    """

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
    windows, window_s
        How many windows they last, and the seconds of one.
    kinds
        The kinds of events that patterns are about.
    """

    name: str
    description: str
    schema: StreamSchema
    events: pa.Table
    types: tuple[str, ...]
    windows: int
    window_s: int
    kinds: tuple[Kind, ...]

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
    diff = np.rint(random.normal(0.0, 1.0, trades) * steps[codes]) / 100
    names = tuple(f"S{code:02d}" for code in range(TYPES))
    events = event_table(times_us, ticker=named_types(codes, names), diff=diff)
    schema = events_schema(STOCKS, "Trade", "ticker", ticker="string", diff="float64")
    description = f"{trades:,} generated trades of {TYPES} stocks in {windows} windows"
    kinds = _kinds(codes, diff, {None: np.ones(trades, np.bool_)})
    return WorkloadStream(STOCKS, description, schema, events, names, windows, window_s, kinds)


@cache
def traffic(data: Path | None, windows: int, window_s: int = WINDOW_S) -> WorkloadStream:
    """Readings of all road sensors, in zones of 3 to 71 sensors; a generated twin where the real month is not there.

    Every sensor reads every five minutes; its differences are to its own reading before.
    """
    readings = month_of_readings(data, VEHICLES)
    source, begins = "readings of the road sensors of Aarhus in August 2014", _BEGINS.timestamp() * 1e6
    before_us = _LOOKS_BEFORE * EVERY_S * 1e6
    if readings is None:
        readings = _generated_readings(windows * window_s // EVERY_S + 1 + _LOOKS_BEFORE)
        source = "generated readings of road sensors (the real month was not there)"
        begins = readings.column("timestamp").cast(pa.int64())[0].as_py() + before_us
    timestamps = readings.column("timestamp").cast(pa.int64()).to_numpy()
    near = (timestamps >= begins - before_us) & (timestamps < begins + windows * window_s * 1e6)
    readings, timestamps = readings.filter(pa.array(near)), timestamps[near]
    sensors = readings.column("report_id").combine_chunks().dictionary_encode()
    zones = _zones(len(sensors.dictionary))[np.argsort(np.argsort(sensors.dictionary.to_numpy()))]
    inside = timestamps >= begins
    diff, more = (
        differences_by_type(sensors.indices.to_numpy(), readings.column(name).to_numpy().astype(np.float64))[inside]
        for name in ("avg_speed", "vehicle_count")
    )
    codes = zones[sensors.indices.to_numpy()][inside]
    names = tuple(f"Z{zone:02d}" for zone in range(TYPES))
    numbers = {"diff": diff.astype(np.int64), "more": more.astype(np.int64)}
    events = event_table(timestamps[inside], zone=named_types(codes, names), **numbers)
    schema = events_schema(TRAFFIC, "Reading", "zone", zone="string", diff="int64", more="int64")
    description = f"{len(codes):,} {source} in {windows} windows, the sensors being in {TYPES} zones of 3 to 71"
    both_rise, both_fall = (diff > 0) & (more > 0), (diff < 0) & (more < 0)
    rise, fall = "{0}.diff > 0 AND {0}.more > 0", "{0}.diff < 0 AND {0}.more < 0"
    kinds = _kinds(codes, diff, {rise: both_rise, fall: both_fall})
    return WorkloadStream(TRAFFIC, description, schema, events, names, windows, window_s, kinds)


def _kinds(
    codes: Ints, differences: Floats, conditions: Mapping[str | None, npt.NDArray[np.bool_]]
) -> tuple[Kind, ...]:
    """The kinds of events that fulfil conditions."""
    return tuple(
        Kind(condition, tuple(differences[fits & (codes == code)] for code in range(TYPES)))
        for condition, fits in conditions.items()
    )


def _zones(sensors: int) -> Ints:
    """The zone of each sensor: so many sensors in each that their rates fall evenly on a logarithmic scale."""
    ends = np.rint(np.cumsum(RATES) / RATES.sum() * sensors).astype(np.int64)
    zones = np.searchsorted(ends, np.arange(sensors), side="right")
    return np.random.default_rng(_ZONES_SEED).permutation(zones).astype(np.int64)


def _generated_readings(looks: int) -> pa.Table:
    random = np.random.default_rng(_ZONES_SEED)
    mean = np.exp(random.uniform(0.0, 3.0, SENSORS))
    counts = random.poisson(mean, (looks, SENSORS)).astype(np.int64)
    return generate_traffic(looks).append_column("vehicle_count", pa.array(counts.reshape(-1)))


def permuted(stream: WorkloadStream, phase: int, types: Sequence[int], seed: int) -> WorkloadStream:
    """The stream with types exchanged (MCEP [0150]): in every `phase` events 5 of some types are put in random order.

    An event of one of them becomes one of the type that follows its own in that order, of the last one one of the
    first: none of the five keeps its events.
    """
    attribute = stream.schema.type_attribute
    column = stream.events.column(attribute).combine_chunks()
    codes = column.indices.to_numpy()
    random = np.random.default_rng((seed, phase))
    exchanged = np.empty_like(codes)
    for first in range(0, len(codes), phase):
        chosen = random.choice(np.array(types), min(PERMUTED_TYPES, len(types)), replace=False)
        becomes = np.arange(len(stream.types), dtype=codes.dtype)
        becomes[chosen] = np.roll(chosen, -1)
        exchanged[first : first + phase] = becomes[codes[first : first + phase]]
    replaced = pa.DictionaryArray.from_arrays(pa.array(exchanged), column.dictionary)
    events = stream.events.set_column(stream.events.column_names.index(attribute), attribute, replaced)
    return replace(stream, events=events)


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
    window_s, counts_events
        The seconds of the window; and whether it is one of as many events as come in these in the mean.
    all_compared
        Whether any two types are compared, and selectively, as it takes where a window holds thousands of events; there
        is no KL then, whose lists double with each event.
    """

    patterns: int
    size: int = 5
    types: int = 12
    rate_difference: float = 1.0
    window_s: int = WINDOW_S
    counts_events: bool = False
    all_compared: bool = False

    def window_in(self, stream: WorkloadStream) -> str:
        """The window of the patterns, as statements have it."""
        if not self.counts_events:
            return f"{self.window_s} seconds"
        return f"{round(stream.events.num_rows / stream.windows * self.window_s / stream.window_s)} events"


@dataclass(frozen=True, eq=False)
class PatternWorkload:
    """A workload that was drawn: its statements, and what they say."""

    text: str
    patterns: tuple[Pattern, ...]


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
def draw_workload(
    stream: WorkloadStream, shape: Shape, number: int, seed: int, changed: WorkloadStream | None = None
) -> PatternWorkload:
    """Draw a workload; the same for the same arguments, and its first patterns the same however many there are.

    Parameters
    ----------
    number, seed
        Which workload of this shape, and of which run. The window has no part in what is drawn.
    changed
        Another stream that is made of this one, in which the patterns are to have few matches, too.
    """
    random, world = _first_world(stream, shape, number, seed)
    drafts = _drafts(random, stream, shape, world)
    kept: list[_Draft] = []
    while len(kept) < shape.patterns:
        new = list(islice(drafts, shape.patterns - len(kept)))
        for one in (stream, changed):
            new = _with_few_matches(one, world, new) if one is not None and new else new
        kept += new
    text = _text(stream, world, kept, shape.window_in(stream))
    return PatternWorkload(text, tuple(parse_patterns(text, stream.schema)))


def pool_of(stream: WorkloadStream, shape: Shape, number: int, seed: int) -> tuple[int, ...]:
    """The types that the patterns of a workload are of."""
    return _first_world(stream, shape, number, seed)[1].pool


def _first_world(stream: WorkloadStream, shape: Shape, number: int, seed: int) -> tuple[np.random.Generator, _World]:
    """The first world that has patterns, and the draws after it; types may differ too much, or not be compared."""
    random = np.random.default_rng((seed, number, shape.size, shape.types, round(1000 * shape.rate_difference)))
    while True:
        world, probe = _draw_world(random, stream, shape), np.random.default_rng(0)
        if any(_draw(probe, stream, shape, world) is not None for _ in range(MOST_DRAWS)):
            return random, world


def _drafts(random: np.random.Generator, stream: WorkloadStream, shape: Shape, world: _World) -> Iterator[_Draft]:
    """Patterns that are none of those before and not too dear; after `MOST_DRAWS` in vain one that is."""
    drawn: set[_Draft] = set()
    in_vain = 0
    while in_vain < 100 * MOST_DRAWS:
        draft = _draw(random, stream, shape, world)
        in_vain += 1
        if draft and (in_vain >= MOST_DRAWS or (draft not in drawn and _affordable(stream, world, draft))):
            drawn.add(draft)
            in_vain = 0
            yield draft
    raise ValueError(f"there are no patterns of this shape: {shape}")


def _with_few_matches(stream: WorkloadStream, world: _World, drafts: Sequence[_Draft]) -> list[_Draft]:
    """The drafts that have about as few matches as they are expected to, in all of the stream."""
    patterns = parse_patterns(_text(stream, world, drafts, f"{stream.window_s} seconds"), stream.schema)
    snapshot = estimate_statistics(patterns, stream.events, max_pairs=PAIRS)
    plan = plan_workload(patterns, snapshot, "reordering")
    counts = detect(patterns, stream.events, plan, mechanism="fused", output="count")
    most = MORE_MATCHES * MOST_MATCHES * stream.longer * stream.windows
    return [
        draft
        for draft, pattern in zip(drafts, patterns, strict=True)
        if int(counts[pattern.name].column("count")[0].as_py()) <= most
    ]


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
    size = shape.size if shape.all_compared else shape.size + int(random.integers(-1, 2))
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
    if random.random() < 0.5 or shape.all_compared:
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
        ways *= math.prod(world.selectivities.get((before, code), 1.0) for before in bound)
        bound.append(code)
        if draft.structure == SEQUENCE:
            ways /= len(bound)
        if ways > min(DEAREST * stream.longer, DEAREST_IN_LONG):
            return False
    return ways <= MOST_MATCHES * stream.longer


def _text(stream: WorkloadStream, world: _World, drafts: Sequence[_Draft], window: str) -> str:
    """The statements of drafts."""
    return ";\n".join(
        f"NAME p{place:04d} PATTERN {_pattern(stream, world, draft)} WITHIN {window}"
        for place, draft in enumerate(drafts)
    )


def _pattern(stream: WorkloadStream, world: _World, draft: _Draft) -> str:
    """The structure and the conditions of a draft."""
    names = variable_names(len(draft.types))
    operands = [f'"{stream.types[code]}" {variable}' for code, variable in zip(draft.types, names, strict=True)]
    references = list(names)
    if draft.special is not None:
        what, place = draft.special
        operands[place] = f"{'NOT' if what == NEGATION else 'KL'}({operands[place]})"
        references[place] += "[i]" if what == KLEENE else ""
    of_each, margins = stream.kinds[draft.kind].condition, world.margins[draft.kind]
    conditions = [of_each.format(reference) for reference in references] if of_each else []
    for (one, first), (other, second) in combinations(zip(draft.types, references, strict=True), 2):
        if (one, other) in margins:
            conditions.append(f"{second}.diff - {first}.diff > {margins[one, other]:.6g}")
    operator = "SEQ" if draft.structure == SEQUENCE else "AND"
    return f"{operator}({', '.join(operands)}) WHERE {' AND '.join(conditions)}"
