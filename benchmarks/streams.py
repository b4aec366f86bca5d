"""The streams of one benchmark run, each made or read once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.sase_stream import generate_sase_stream
from benchmarks.stock_stream import MAX_EVENTS, generate_stock_stream
from benchmarks.traffic_stream import Traffic, traffic_stream
from benchmarks.workloads import SASE, STOCK

TWIN_LOOKS = 8_000
"""The looks of the generated readings, which are then as many as in a month."""


@dataclass
class Streams:
    """Streams by their length.

    Where the folder of public data lacks the traffic readings, they are generated, so many looks at each sensor.
    """

    data: Path | None = None
    looks: int = TWIN_LOOKS
    _stock: pa.Table | None = field(default=None, repr=False)
    _traffic: Traffic | None = field(default=None, repr=False)
    _sase: dict[int, pa.Table] = field(default_factory=dict, repr=False)

    @property
    def traffic(self) -> Traffic:
        """The traffic readings."""
        if self._traffic is None:
            self._traffic = traffic_stream(self.data, self.looks)
        return self._traffic

    def table(self, stream: str, events: int) -> pa.Table:
        """A stream of so many events, as a table; of the readings there may be fewer."""
        if stream == STOCK:
            if self._stock is None:
                self._stock = generate_stock_stream(MAX_EVENTS)
            return self._stock.slice(0, events)
        if stream == SASE:
            if events not in self._sase:
                self._sase[events] = generate_sase_stream(events)
            return self._sase[events]
        return self.traffic.events.slice(0, events)
