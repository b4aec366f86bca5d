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

from benchmarks.experiments.events import differences_by_type, event_table, events_schema, month_of_readings
from benchmarks.traffic_stream import generate_traffic
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate.market import Market

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
    schema = events_schema(STOCKS, "Trade", "symbol", symbol="string", diff="float64")
    events = event_table(timestamp[inside], symbol=symbol.filter(pa.array(inside)), diff=difference[inside])
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
    month = month_of_readings(data)
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
