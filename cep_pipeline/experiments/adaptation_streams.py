"""The streams of `cep experiment adaptation`: stocks of like rates that drift, traffic that is skewed, permuted rates.

The patent's stocks have "low skew, with the initial values nearly identical for all event types", and changes that are
"highly frequent, but mostly minor"; its traffic is "highly skewed and stable", and the changes "mostly very extreme".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.benchmarks.traffic_stream import EVERY_S, MONTH, generate_traffic, traffic_schema
from cep_pipeline.events.schema import StreamSchema

STOCKS, TRAFFIC, PERMUTED = "stocks", "traffic", "permuted"
TYPES = 12
"""Event types of the generated streams."""
PER_S = 10.0
"""Events a second of the generated streams, of all types together."""
DRIFT_EVERY = 200
"""Events after which rates and numbers of the stocks change."""
SENSORS = 24
"""Of the 449 so many are read, drawn by the seed: those that counted vehicles at different shares of the looks."""
_DRIFT, _BACK, _SHIFT = 0.10, 0.02, 0.05
"""Of a stock: what its ln rate moves by at a time, the part of it that it goes back, what means of numbers move by."""
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
        The attributes that patterns compare, each with an amount by which its values differ in many pairs.
    least_window_s, longest_window_s
        Seconds of the windows that are tried: the longest one is less than half of the time between two decisions.
    """

    name: str
    description: str
    schema: StreamSchema
    events: pa.Table
    types: tuple[str, ...]
    compared: Mapping[str, float]
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
    """The first readings with vehicles of some road sensors; a generated twin where the real month is not there.

    Every sensor reads every five minutes. Which see a vehicle nearly always, and which seldom, makes their rates, and
    the nights change them.
    """
    if data is not None and (data / MONTH).is_file():
        from cep_pipeline.events.loading import load_events

        readings = load_events(traffic_schema(("avg_speed", "vehicle_count")), [data / MONTH]).events
        source = "readings with vehicles of {} sensors of Aarhus in August 2014"
    else:
        readings = _generated_readings(-(-3 * events // SENSORS), seed)
        source = "generated readings of {} road sensors (the real month was not there)"
    readings = readings.filter(pc.greater(readings.column("vehicle_count"), 0))
    chosen = _sensors(readings, seed)
    readings = readings.filter(pc.is_in(readings.column("report_id"), pa.array(chosen))).slice(0, events)
    schema = StreamSchema.from_dict(
        {
            "base_type": "Reading",
            "type_attribute": "report_id",
            "attributes": {"report_id": "int64", "avg_speed": "int64", "vehicle_count": "int64"},
        },
        name=TRAFFIC,
    )
    numbered = readings.set_column(
        readings.column_names.index("seq"), "seq", pa.array(np.arange(readings.num_rows, dtype=np.int64))
    ).select(["timestamp", "seq", "report_id", "avg_speed", "vehicle_count"])
    description = f"{readings.num_rows:,} {source.format(len(chosen))}"
    types = tuple(str(sensor) for sensor in chosen)
    compared = {"avg_speed": 2.0, "vehicle_count": 0.5}
    return ExperimentStream(TRAFFIC, description, schema, numbered, types, compared, 3_600, 16_200)


def _sensors(readings: pa.Table, seed: int) -> list[int]:
    """Sensors at even steps from the busiest to the quietest, but for the ones that are hardly heard of."""
    counted = pc.value_counts(readings.column("report_id").combine_chunks())
    sensors, counts = counted.field("values").to_numpy(), counted.field("counts").to_numpy()
    heard = sensors[counts >= counts.max() / 20]
    by_count = heard[np.argsort(-counts[counts >= counts.max() / 20], kind="stable")]
    random = np.random.default_rng((seed, 3))
    places = np.linspace(0, len(by_count), SENSORS + 1).astype(np.int64)
    picked = [int(random.integers(low, max(high, low + 1))) for low, high in pairwise(places)]
    return sorted({int(by_count[min(place, len(by_count) - 1)]) for place in picked})


def _generated_readings(looks: int, seed: int) -> pa.Table:
    """Readings with vehicle counts: sensors are busy to different degrees, and few of them at night."""
    readings = generate_traffic(looks, SENSORS, seed)
    random = np.random.default_rng((seed, 4))
    busy = np.exp(np.linspace(1.5, -1.5, SENSORS))
    at_night = random.permutation(np.exp(np.linspace(0.0, -3.0, SENSORS)))
    night = (np.arange(looks) % _DAY_LOOKS) < _DAY_LOOKS // 3
    mean = np.where(night[:, None], busy * at_night, busy)
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
    return ExperimentStream(name, description, schema, events, types, {"diff": 0.5, "ln_volume": 0.5}, 6, 80)
