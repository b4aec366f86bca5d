"""The streams of `cep experiment multi_pattern`: 20 types with 2 to 47 events each in a window (MCEP [0131]).

The patent's types have 2 to 47 events a second, which its windows of 15 minutes and patterns of five events rule out:
of five types with only 10 a second there are 10^19 combinations in a window. So these rates are in a window here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
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
from benchmarks.traffic_stream import EVERY_S, SENSORS, generate_traffic
from cep_pipeline.events.schema import StreamSchema

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
