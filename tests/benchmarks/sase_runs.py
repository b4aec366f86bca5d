"""W5 and its relatives word for word from docs/language.md, section 4: the answer that benchmarks are held to."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

Taking = Callable[[list[int], int], bool]
"""Whether a list of prices takes the next price."""


def rising(prices: list[int], price: int) -> bool:
    """p2: above the price taken before."""
    return price > prices[-1]


def matches_of_runs(
    events: pa.Table,
    *,
    skipping: bool,
    window_ms: int | None = None,
    window_events: int | None = None,
    takes: Taking = rising,
) -> list[tuple[int, ...]]:
    """Rows of every match of SEQ(Stock+ a[], Stock b), [symbol], a[1].price % 500 = 0, b.volume < 150.

    A run starts at every event that can be a[1]. At each later event of its symbol one copy leaves with it as b where
    it can; the other takes it into a where it can, and else ignores it (`skipping`) or ends.
    """
    times = (events["timestamp"].cast(pa.int64()).to_numpy() // 1000).tolist()
    columns = {name: events[name].to_pylist() for name in ("symbol", "price", "volume")}
    found = []
    for symbol in sorted(set(columns["symbol"])):
        rows = [row for row, one in enumerate(columns["symbol"]) if one == symbol]
        for place, first in enumerate(rows):
            if columns["price"][first] % 500:
                continue
            bound, prices = [first], [columns["price"][first]]
            for position, row in enumerate(rows[place + 1 :], start=1):
                if window_ms is not None and times[row] - times[first] > window_ms:
                    break
                if window_events is not None and position > window_events - 1:
                    break
                if columns["volume"][row] < 150:
                    found.append((*bound, row))
                if takes(prices, columns["price"][row]):
                    bound.append(row)
                    prices.append(columns["price"][row])
                elif not skipping:
                    break
    return found
