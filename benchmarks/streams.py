"""The streams of one benchmark run, each made or read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from benchmarks.sase_stream import generate_sase_stream
from benchmarks.stock_stream import MAX_EVENTS, generate_stock_stream
from benchmarks.traffic_stream import Traffic, traffic_stream
from benchmarks.workloads import SASE, STOCK


@dataclass(frozen=True)
class Streams:
    """Streams by their length.

    Where the folder of public data lacks the traffic readings, they are generated, so many looks at each sensor: as
    they stand here, as many readings as in a month.
    """

    data: Path | None = None
    looks: int = 8_000

    @cached_property
    def traffic(self) -> Traffic:
        """The traffic readings."""
        return traffic_stream(self.data, self.looks)

    @cached_property
    def _stock(self) -> pa.Table:
        return generate_stock_stream(MAX_EVENTS)

    def table(self, stream: str, events: int) -> pa.Table:
        """A stream of so many events, as a table; of the readings there may be fewer."""
        if stream == SASE:
            return generate_sase_stream(events)
        return (self._stock if stream == STOCK else self.traffic.events).slice(0, events)
