"""Trades of three stocks of which another one is rare after every so many events (DEBS'15, section 7, figure 10)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.experiments.correlated_trades import FREQUENT, RARE, with_histories

PHASES = (RARE, *FREQUENT)
"""The rare stock of each phase; then it begins again."""
PER_S = 4.0
"""Events a second."""
_MARKET_STEP, _OWN_STEP = 0.00028, 0.0004


def changing_trades(events: int, phase: int, rare_share: float, seed: int) -> pa.Table:
    """Make trades whose prices partly move together.

    Parameters
    ----------
    events
        Number of trades.
    phase
        Events after which the next stock of `PHASES` is the rare one.
    rare_share
        How often the rare stock trades, relative to each of the others, which trade equally often.
    seed
        Of all draws.

    Returns
    -------
    pyarrow.Table
        As `correlated_trades.with_histories` returns them.
    """
    rng = np.random.default_rng((seed, events))
    number = np.arange(events)
    others = rng.integers(1, len(PHASES), events)
    is_rare = rng.random(events) < rare_share / (rare_share + len(PHASES) - 1)
    # Counted from the rare stock of the phase, so that the others are the two after it.
    stock = (number // phase + np.where(is_rare, 0, others)) % len(PHASES)
    market = np.cumsum(rng.normal(0, _MARKET_STEP, events))
    own = rng.normal(0, _OWN_STEP, events)
    log_price = market.copy()
    for code in range(len(PHASES)):
        rows = np.flatnonzero(stock == code)
        log_price[rows] += np.cumsum(own[rows])
    time_us = np.cumsum(rng.exponential(1e6 / PER_S, events)).astype(np.int64)
    symbols = pa.DictionaryArray.from_arrays(pa.array(stock.astype(np.int32)), pa.array(PHASES))
    trades = pa.table({"symbol": symbols.cast(pa.string()), "price": pa.array(np.round(100 * np.exp(log_price), 4))})
    return with_histories(pa.chunked_array([pa.array(time_us)]), trades)
