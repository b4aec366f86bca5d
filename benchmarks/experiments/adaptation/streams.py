"""The streams of `cep experiment adaptation`: stocks of like rates that drift, traffic that is skewed, permuted rates.

The patent's stocks have "low skew, with the initial values nearly identical for all event types", and changes that are
"highly frequent, but mostly minor"; its traffic is "highly skewed and stable", and the changes "mostly very extreme".

In the traffic an event is a look at a road that found vehicles there, and its type the class of roads that it is of:
roads are put into classes by how often vehicles are found. Rates of classes differ by a factor of ten by day and of
hundreds by night; they stay as they are for many hours, and change by as much in the morning and in the evening.
Single roads, as in the patent, report twelve times an hour at most: within hours, a pattern over them is no work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.traffic_stream import EVERY_S, MONTH, generate_traffic, traffic_schema
from cep_pipeline.events.schema import StreamSchema

STOCKS, TRAFFIC, PERMUTED = "stocks", "traffic", "permuted"
TYPES = 10
"""Event types of the generated streams."""
PER_S = 10.0
"""Events a second of the generated streams, of all types together."""
DRIFT_EVERY = 100
"""Events after which rates and numbers of the stocks change."""
CLASSES = 10
"""Classes of the roads."""
ONE_OF = 2
"""One of so many roads is read, in the order of how often they have vehicles: all report at the same instants."""
REPORTS = 2
"""Reports of the roads between two decisions, at least: one alone has no pair of looks that follow each other."""
FIRST_MONDAY_US = 1_407_117_600_000_000
"""Four o'clock in the morning of the first Monday in the month: the shortest runs see rates change."""
BEGIN_S = 4 * 3_600
"""The same time of the first day of the generated twin."""
ROADS = 120
"""Roads of the generated twin of the traffic."""
_DRIFT, _BACK, _SHIFT = 0.03, 0.01, 0.015
"""A stock's step of its ln rate, the part of it that it goes back, and the step of the means of its numbers."""
ALIKE, SKEWED = (0.025, 0.025), (0.03, 0.3)
"""Selectivities of conditions: of the stocks, and of the traffic."""
LEAST_S = {STOCKS: 12, TRAFFIC: 2 * EVERY_S, PERMUTED: 12}
LONGEST_S = {STOCKS: 1_000, TRAFFIC: 14_400, PERMUTED: 1_000}
"""Seconds of the windows that are tried."""
SKEW = 2.0
"""Each type of the permuted stream has so many times the rate of the next one."""
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
        Seconds of the windows that are tried.
    least_interval_s
        Seconds between two decisions, at least: sensors that report together say nothing new before that.
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
    least_interval_s: int = 0

    @cached_property
    def time_us(self) -> Ints:
        """Microseconds of the events since the first one."""
        instants = self.events.column("timestamp").cast(pa.int64()).to_numpy()
        found: Ints = instants - instants[0]
        return found

    def before(self, time_us: int) -> pa.Table:
        """The events of so many microseconds from the first one on."""
        return self.events.slice(0, int(np.searchsorted(self.time_us, time_us)))


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
    description = f"generated trades of {TYPES} stocks, whose rates are alike at first and drift"
    return _generated(STOCKS, description, random, codes, numbers)


def permuted_rates(events: int, phase: int, seed: int) -> ExperimentStream:
    """Trades of stocks of skewed rates, which of them has which being drawn anew after every `phase` events."""
    random = np.random.default_rng((seed, events, 2))
    rates = SKEW ** -np.arange(TYPES // 2, dtype=np.float64).repeat(2)
    phases = np.array([random.permutation(rates) for _ in range(-(-events // phase))])
    codes = _drawn_types(random, phases[np.arange(events) // phase])
    description = f"generated trades of {TYPES} stocks, rates permuted every {phase:,} events"
    return _generated(PERMUTED, description, random, codes, random.normal(0, 1, (2, events)))


def traffic_readings(data: Path | None, seconds: int, seed: int) -> ExperimentStream:
    """The looks at roads with vehicles from four o'clock of the month's first Monday on, by classes of roads.

    Every road is looked at every five minutes. Where the month is not there, looks of a generated twin.
    """
    if data is not None and (data / MONTH).is_file():
        from cep_pipeline.events.event_files import load_events

        readings = load_events(traffic_schema(("avg_speed", "vehicle_count")), [data / MONTH]).events
        source = (
            "readings of roads in use, every other road, in {} classes, of Aarhus from Monday, 4 August 2014, "
            "at 4:00 on"
        )
        begin_us = FIRST_MONDAY_US
    else:
        readings = _generated_readings(-(-(BEGIN_S + seconds) // EVERY_S) + 1, seed)
        source = "generated readings of roads in use, every other road, in {} classes (the real month was not there)"
        begin_us = readings.column("timestamp").cast(pa.int64())[0].as_py() + BEGIN_S * 1_000_000
    rows, classes = _roads_in_use(readings, begin_us, begin_us + seconds * 1_000_000)
    taken = readings.take(pa.array(rows))
    types = tuple(f"R{code:02d}" for code in range(CLASSES))
    roads = pa.DictionaryArray.from_arrays(pa.array(classes.astype(np.int32)), pa.array(types))
    table = pa.table(
        {
            "timestamp": taken.column("timestamp"),
            "seq": pa.array(np.arange(taken.num_rows, dtype=np.int64)),
            "roads": roads.cast(pa.string()),
            "avg_speed": taken.column("avg_speed"),
            "vehicle_count": taken.column("vehicle_count"),
        }
    )
    attributes = {"roads": "string", "avg_speed": "int64", "vehicle_count": "int64"}
    schema = StreamSchema.from_dict(
        {"base_type": "Reading", "type_attribute": "roads", "attributes": attributes}, name=TRAFFIC
    )
    return ExperimentStream(
        TRAFFIC,
        source.format(CLASSES),
        schema,
        table,
        types,
        ("avg_speed", "vehicle_count"),
        SKEWED,
        LEAST_S[TRAFFIC],
        LONGEST_S[TRAFFIC],
        REPORTS * EVERY_S,
    )


def _roads_in_use(readings: pa.Table, begin_us: int, end_us: int) -> tuple[Ints, Ints]:
    """The rows of looks with vehicles in a time, and their classes, from the roads with the fewest of them on."""
    roads, road = np.unique(readings.column("report_id").to_numpy(), return_inverse=True)
    with_vehicles = readings.column("vehicle_count").to_numpy() > 0
    looks = np.bincount(road[with_vehicles], minlength=len(roads))
    place = np.argsort(np.argsort(looks, kind="stable"), kind="stable")
    time_us = readings.column("timestamp").cast(pa.int64()).to_numpy()
    rows = np.flatnonzero(with_vehicles & (begin_us <= time_us) & (time_us < end_us) & (place % ONE_OF == 0)[road])
    return rows, (place * CLASSES // len(roads))[road[rows]]


def _generated_readings(looks: int, seed: int) -> pa.Table:
    """Readings with vehicle counts: roads differ by orders of magnitude, and few of them are in use at night."""
    readings = generate_traffic(looks, ROADS, seed)
    random = np.random.default_rng((seed, 4))
    hour = np.arange(looks)[:, None] * 24 / _DAY_LOOKS
    peak = np.sort(random.normal(13, 3, ROADS))
    mean = np.exp(random.normal(1.0, 1.2, ROADS) + 2.5 * (np.cos((hour - peak) * np.pi / 12) - 1))
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
    compared = ("diff", "ln_volume")
    return ExperimentStream(name, description, schema, events, types, compared, ALIKE, LEAST_S[name], LONGEST_S[name])
