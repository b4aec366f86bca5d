"""The streams of `cep experiment adaptation`: stocks of like rates that drift, traffic that is skewed, permuted rates.

The patent's stocks have "low skew, with the initial values nearly identical for all event types", and changes that are
"highly frequent, but mostly minor"; its traffic is "highly skewed and stable", and the changes "mostly very extreme".

In the traffic an event is a look at a road that is busy for it, as busy as in one look of ten, and its type the class
of roads that it is of: roads are put into classes by the hour around which they are busy. Single roads report twelve
times an hour, and a pattern over them is no work within hours, over which day and night blend into one; classes have
rates that differ by orders of magnitude at any time, and change by as much while the hours pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.benchmarks.traffic_stream import EVERY_S, MONTH, generate_traffic, traffic_schema
from cep_pipeline.events.schema import StreamSchema

STOCKS, TRAFFIC, PERMUTED = "stocks", "traffic", "permuted"
TYPES = 10
"""Event types of the generated streams."""
PER_S = 10.0
"""Events a second of the generated streams, of all types together."""
DRIFT_EVERY = 200
"""Events after which rates and numbers of the stocks change."""
CLASSES = 10
"""Classes of the roads."""
BUSY = 0.9
"""A road is busy where it has as many vehicles as this share of its looks has at most."""
ROADS = 120
"""Roads of the generated twin of the traffic."""
_DRIFT, _BACK, _SHIFT = 0.10, 0.01, 0.05
"""Of a stock: what its ln rate moves by at a time, the part of it that it goes back, what means of numbers move by."""
ALIKE, SKEWED = (0.05, 0.05), (0.01, 0.3)
"""Selectivities of conditions: of the stocks, and of the traffic."""
SKEW = 2.0
"""Of the permuted stream each type has so many times the rate of the next one."""
_DAY_LOOKS = 86_400 // EVERY_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExperimentStream:
    """A stream with two numbers an event, which patterns compare.

    Attributes
    ----------
    name, description
        For keys, and for people.
    schema, events
        The events in stream order; `seq` counts them.
    types
        The event types.
    compared
        The attributes that patterns compare.
    selectivities
        Between which the selectivities of patterns' conditions are drawn, evenly by their logarithms.
    least_window_s, longest_window_s
        Seconds of the windows that are tried: the longest one is less than half of the time between two decisions.
    """

    name: str
    description: str
    schema: StreamSchema
    events: pa.Table
    types: tuple[str, ...]
    compared: tuple[str, str]
    selectivities: tuple[float, float]
    least_window_s: int
    longest_window_s: int


def drifting_stocks(events: int, seed: int) -> ExperimentStream:
    """Trades of stocks that begin with one rate; rates, and means of the numbers, drift by a little, and often."""
    random = np.random.default_rng((seed, events, 1))
    periods = -(-events // DRIFT_EVERY)
    ln_rate, mean = np.zeros((periods, TYPES)), np.zeros((2, periods, TYPES))
    for period in range(1, periods):
        ln_rate[period] = (1 - _BACK) * ln_rate[period - 1] + random.normal(0, _DRIFT, TYPES)
        mean[:, period] = (1 - _BACK) * mean[:, period - 1] + random.normal(0, _SHIFT, (2, TYPES))
    period_of = np.arange(events) // DRIFT_EVERY
    codes = _drawn_types(random, np.exp(ln_rate)[period_of])
    numbers = random.normal(0, 1, (2, events)) + mean[:, period_of, codes]
    description = f"{events:,} generated trades of {TYPES} stocks, whose rates are alike at first and drift"
    return _generated(STOCKS, description, random, codes, numbers)


def permuted_rates(events: int, phase: int, seed: int) -> ExperimentStream:
    """Trades of stocks of skewed rates, which of them has which being drawn anew after every `phase` events."""
    random = np.random.default_rng((seed, events, 2))
    rates = SKEW ** -np.arange(TYPES // 2, dtype=np.float64).repeat(2)
    phases = np.array([random.permutation(rates) for _ in range(-(-events // phase))])
    codes = _drawn_types(random, phases[np.arange(events) // phase])
    description = f"{events:,} generated trades of {TYPES} stocks, rates permuted every {phase:,} events"
    return _generated(PERMUTED, description, random, codes, random.normal(0, 1, (2, events)))


def traffic_readings(data: Path | None, events: int, seed: int) -> ExperimentStream:
    """The first looks at busy roads of a month, by classes of roads; of a generated twin where the month is not there.

    Every road is looked at every five minutes.
    """
    if data is not None and (data / MONTH).is_file():
        from cep_pipeline.events.loading import load_events

        readings = load_events(traffic_schema(("avg_speed", "vehicle_count")), [data / MONTH]).events
        source = "readings of busy roads, in {} classes, of Aarhus in August 2014"
    else:
        readings = _generated_readings(-(-events // round(ROADS * (1 - BUSY))) + 2 * _DAY_LOOKS, seed)
        source = "generated readings of busy roads, in {} classes (the real month was not there)"
    rows, classes = _busy_roads(readings)
    busy = readings.take(pa.array(rows[:events]))
    types = tuple(f"R{code:02d}" for code in range(CLASSES))
    roads = pa.DictionaryArray.from_arrays(pa.array(classes[:events].astype(np.int32)), pa.array(types))
    table = pa.table(
        {
            "timestamp": busy.column("timestamp"),
            "seq": pa.array(np.arange(busy.num_rows, dtype=np.int64)),
            "roads": roads.cast(pa.string()),
            "avg_speed": busy.column("avg_speed"),
            "vehicle_count": busy.column("vehicle_count"),
        }
    )
    attributes = {"roads": "string", "avg_speed": "int64", "vehicle_count": "int64"}
    schema = StreamSchema.from_dict(
        {"base_type": "Reading", "type_attribute": "roads", "attributes": attributes}, name=TRAFFIC
    )
    return ExperimentStream(
        TRAFFIC,
        f"{table.num_rows:,} {source.format(CLASSES)}",
        schema,
        table,
        types,
        ("avg_speed", "vehicle_count"),
        SKEWED,
        1_200,
        7_200,
    )


def _busy_roads(readings: pa.Table) -> tuple[Ints, Ints]:
    """The rows of looks at busy roads, and their classes, from the roads that are busy early to those that are late."""
    roads, road = np.unique(readings.column("report_id").to_numpy(), return_inverse=True)
    vehicles = readings.column("vehicle_count").to_numpy()
    by_road = np.lexsort((vehicles, road))
    ends = np.cumsum(np.bincount(road))
    starts = np.concatenate(([0], ends[:-1]))
    enough = np.maximum(vehicles[by_road][starts + ((ends - starts - 1) * BUSY).astype(np.int64)], 1)
    rows = np.flatnonzero(vehicles >= enough[road])
    hours = readings.column("timestamp").cast(pa.int64()).to_numpy()[rows] / 3.6e9
    at = np.exp(2j * np.pi * hours / 24)
    middle = np.bincount(road[rows], at.real, len(roads)) + 1j * np.bincount(road[rows], at.imag, len(roads))
    place = np.argsort(np.argsort(np.angle(middle) % (2 * np.pi), kind="stable"), kind="stable")
    return rows, (place * CLASSES // len(roads))[road[rows]]


def _generated_readings(looks: int, seed: int) -> pa.Table:
    """Readings with vehicle counts: each road is busy around an hour of its own, and few of them are at night."""
    readings = generate_traffic(looks, ROADS, seed)
    random = np.random.default_rng((seed, 4))
    hour = np.arange(looks)[:, None] * 24 / _DAY_LOOKS
    peak = np.sort(random.normal(13, 3, ROADS))
    mean = np.exp(random.normal(1.5, 0.7, ROADS) + 2.5 * (np.cos((hour - peak) * np.pi / 12) - 1))
    return readings.append_column("vehicle_count", pa.array(random.poisson(mean).astype(np.int64).reshape(-1)))


def _drawn_types(random: np.random.Generator, rates: Floats) -> Ints:
    """One type an event, in proportion to its row of rates."""
    cumulated = np.cumsum(rates, axis=1)
    drawn = random.random(len(rates)) * cumulated[:, -1]
    codes: Ints = np.minimum((cumulated <= drawn[:, None]).sum(axis=1), rates.shape[1] - 1)
    return codes


def _generated(
    name: str, description: str, random: np.random.Generator, codes: Ints, numbers: Floats
) -> ExperimentStream:
    types = tuple(f"S{code:02d}" for code in range(TYPES))
    time_us = np.cumsum(random.exponential(1e6 / PER_S, len(codes))).astype(np.int64)
    symbols = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(types))
    events = pa.table(
        {
            "timestamp": pa.array(time_us).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(len(codes), dtype=np.int64)),
            "symbol": symbols.cast(pa.string()),
            "diff": pa.array(np.round(numbers[0], 4)),
            "ln_volume": pa.array(np.round(numbers[1], 4)),
        }
    )
    attributes = {"symbol": "string", "diff": "float64", "ln_volume": "float64"}
    schema = StreamSchema.from_dict(
        {"base_type": "Trade", "type_attribute": "symbol", "attributes": attributes}, name=name
    )
    return ExperimentStream(name, description, schema, events, types, ("diff", "ln_volume"), ALIKE, 12, 160)
