"""The streams of `cep experiment join_plans`: types of different rates, and the difference to the type's event before.

The paper writes of 1 to 45 events a second of each stock, which its windows of 20 minutes and its 80 million events of
a year of 2,100 stocks rule out. The ratio of 45 between the busiest and the slowest stock is kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.traffic_stream import MONTH, generate_traffic, traffic_schema
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate.market import Market

WINDOW_S = 1200
SLOWEST, FASTEST = 6.0, 270.0
"""Trades of a stock in a window."""
HOURS = 13.0
QUIET = 0.3
"""Part of the session that is skipped: the opening, after which rates have settled."""
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
    schema = StreamSchema.from_dict(
        {"base_type": "Trade", "type_attribute": "symbol", "attributes": {"symbol": "string", "diff": "float64"}},
        name=STOCKS,
    )
    events = _table(timestamp, "symbol", symbol, difference, inside)
    description = (
        f"{events.num_rows:,} generated trades of {stocks:,} stocks in {windows} windows, each stock with {SLOWEST:g} "
        f"to {FASTEST:g} trades a window"
    )
    return JoinStream(STOCKS, description, schema, events, windows)


def traffic_join_stream(data: Path | None, windows: int, seed: int) -> JoinStream:
    """Readings of road sensors that counted vehicles, with the difference of their speed to the sensor's one before.

    Every sensor reads every five minutes; which see a vehicle nearly always, and which seldom, makes their rates. Where
    the month of readings is not there, generated readings are thinned to such rates.
    """
    looks = 4 * windows
    if data is not None and (data / MONTH).is_file():
        from cep_pipeline.events.event_files import load_events

        readings = load_events(traffic_schema(("avg_speed", "vehicle_count")), [data / MONTH]).events
        readings = readings.filter(pc.greater(readings.column("vehicle_count"), 0))
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
    schema = StreamSchema.from_dict(
        {
            "base_type": "Reading",
            "type_attribute": "report_id",
            "attributes": {"report_id": "int64", "diff": "float64"},
        },
        name=TRAFFIC,
    )
    events = _table(timestamp, "report_id", sensor, difference, inside)
    description = f"{events.num_rows:,} {source} in {windows} windows, each sensor with up to 4 a window"
    return JoinStream(TRAFFIC, description, schema, events, windows)


def differences_by_type(codes: npt.NDArray[np.integer], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The difference of each value to the one before of its type; 0 for the first."""
    order = np.argsort(codes, kind="stable")
    sorted_codes, sorted_values = codes[order], values[order]
    steps = np.zeros(len(values))
    steps[1:] = np.where(sorted_codes[1:] == sorted_codes[:-1], np.diff(sorted_values), 0.0)
    differences = np.empty(len(values))
    differences[order] = steps
    return differences


def _table(
    timestamp: npt.NDArray[np.int64],
    type_attribute: str,
    types: pa.Array,
    difference: npt.NDArray[np.float64],
    inside: npt.NDArray[np.bool_],
) -> pa.Table:
    kept = np.flatnonzero(inside)
    return pa.table(
        {
            "timestamp": pa.array(timestamp[kept]).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(len(kept), dtype=np.int64)),
            type_attribute: types.take(pa.array(kept)),
            "diff": pa.array(difference[kept]),
        }
    )
