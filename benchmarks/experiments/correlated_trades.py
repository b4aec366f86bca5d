"""Trades of three stocks with price histories, one of them as rare as wanted: the input of the lazy NFA's experiments.

Two stocks trade about equally often, each of them more often for part of the time; of the third, which trades as often
or more, trades are left out (DEBS'15, section 7: "either duplicating or filtering out c events").
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.derived import Carry, derive
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate.market import Market

FREQUENT, RARE = ("AIG", "IBM"), "SPY"
"""The two stocks that trade about equally often, and the one that is made rare."""
HISTORY = 20
"""Prices in the history of a trade, its own among them."""
FIRST_DAY = date(2013, 10, 7)
COLUMNS = ("timestamp", "seq", "symbol", "price", "history")
_SCHEMA = """\
name: us_equity_trades
timezone: America/New_York
base_type: Trade
type_attribute: symbol
timestamp: {{column: timestamp, format: iso}}
attributes: {{symbol: string, price: float64}}
derived:
  history: {{history: {{of: price, length: {history}}}}}
source: {{format: csv, path: "{{day:%Y-%m-%d}}/trades.csv.gz"}}
"""


def trades_schema() -> StreamSchema:
    """Schema of the trades, raw and with their histories."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "us_equity_trades.yaml"
        path.write_text(_SCHEMA.format(history=HISTORY), encoding="utf-8")
        return StreamSchema.load(path)


@dataclass(frozen=True)
class Trades:
    """Trades of the three stocks in stream order, the rare one as often as the others or more, and where from."""

    events: pa.Table
    description: str

    def with_rare(self, share: float, seed: int) -> pa.Table:
        """The trades, with so many of the rare stock left out that it trades `share` times as often as the others.

        `share` is relative to the mean of the two frequent stocks; which trades are left out is drawn by the seed.
        """
        symbols = self.events.column("symbol")
        rows = np.arange(self.events.num_rows)
        rare = pc.equal(symbols, RARE).to_numpy(zero_copy_only=False)
        wanted = round(share * int((~rare).sum()) / len(FREQUENT))
        if wanted > int(rare.sum()):
            raise ValueError(f"{wanted:,} trades of {RARE} are wanted of {int(rare.sum()):,}")
        kept = np.random.default_rng(seed).permutation(rows[rare])[:wanted]
        return self.events.take(pa.array(np.sort(np.concatenate((rows[~rare], kept)))))


def read_trades(data: Path | None, days: int, most: int | None, seed: int) -> Trades:
    """The trades of some days: real ones of a folder of public data, or generated ones where they are missing.

    Parameters
    ----------
    data
        Folder with us_equity_trades/DATE/trades.csv.gz.
    days
        Trading days from 2013-10-07 on.
    most
        Only the first so many trades of the two frequent stocks, and of the other what falls between; None takes all.
    seed
        Of generated trades.

    Raises
    ------
    InputError
        A file of real trades is there and cannot be read.
    """
    wanted = [FIRST_DAY + timedelta(days=number) for number in range(days)]
    files = [] if data is None else [data / "us_equity_trades" / f"{day}" / "trades.csv.gz" for day in wanted]
    if files and all(file.is_file() for file in files):
        events = load_events(trades_schema(), files).events
        description = "real trades of " + " and ".join([", ".join(FREQUENT), RARE])
    else:
        events = _generate(wanted, seed)
        description = "generated trades that are named " + " and ".join([", ".join(FREQUENT), RARE])
    chosen = events.filter(pc.is_in(events.column("symbol"), pa.array([*FREQUENT, RARE])))
    if most is not None:
        frequent = pc.not_equal(chosen.column("symbol"), RARE).to_numpy(zero_copy_only=False)
        chosen = chosen.slice(0, int(np.searchsorted(np.cumsum(frequent), most)) + 1)
    chosen = chosen.select(COLUMNS).combine_chunks()
    span = f"{wanted[0]}" if days == 1 else f"{wanted[0]} to {wanted[-1]}"
    return Trades(chosen, f"{description}, {span}")


def _generate(days: list[date], seed: int) -> pa.Table:
    """Days of a market whose stocks trade about once a second each."""
    market = Market(stocks=4, seed=seed, min_rate_per_s=0.9, max_rate_per_s=1.6, drift=0.2)
    trades = pa.concat_tables([market.trades(day).select(["symbol", "timestamp", "price"]) for day in days])
    return with_histories(trades.column("timestamp").cast(pa.timestamp("us")), trades)


def with_histories(timestamp: pa.ChunkedArray, trades: pa.Table) -> pa.Table:
    """Symbols and prices in stream order as events, each with the last prices of its symbol."""
    numbered = pa.table(
        {
            "timestamp": timestamp.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "seq": pa.array(np.arange(trades.num_rows, dtype=np.int64)),
            "symbol": trades.column("symbol").cast(pa.string()),
            "price": trades.column("price"),
        }
    )
    return derive(numbered, trades_schema(), Carry()).select(COLUMNS)
