"""The streams of `cep experiment adaptation`, cut into jobs: days of traffic and of bars, and stretches of trades."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.experiments.events import (
    differences_by_type,
    event_table,
    events_schema,
    month_of_readings,
    named_types,
)
from cep_pipeline.events.schema import StreamSchema

TRAFFIC, BARS, TRADES, DISCREPANCY = "traffic", "bars", "trades", "discrepancy"
COMPARED = ("x", "y")
"""The two numbers of an event: changes of speed and of vehicles, of price and of volume."""
DAY_US = 86_400_000_000
CLASSES, ONE_OF = 20, 2
"""Classes of the roads, by how often vehicles are found there; and one of so many roads is read."""
SYMBOLS, BARS_A_DAY = 60, 390
TRADED, PER_S = 12, 10.0
"""Types of the trades, and events a second of all of them."""
DRIFT_EVERY = 100
"""Events after which rates of the trades change."""
_DRIFT, _BACK, _SHIFT = 0.1, 0.01, 0.02
"""A step of a type's ln rate, the part of it that it goes back, and the step of the means of its numbers."""
_DAY_DRIFT, _DAY_BACK = 0.4, 0.3
"""The same of ln rate and ln spread from day to day."""
WEEKEND = 0.4
"""The share of a weekday's events that the generated traffic has on the second and the third day."""
FLAPPING, TIED, CHANGING, STEADY = "F", ("B", "C"), "D", "A"
FLAP, CHANGE = 8.0, 3.0
"""The factors by which the rate of the irrelevant type flaps, and by which the relevant one changes."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JobStream:
    """A stream in jobs that follow each other, such as days.

    Attributes
    ----------
    name, description
        For keys, and for people.
    jobs
        The events of each job, in stream order.
    """

    name: str
    description: str
    jobs: tuple[pa.Table, ...]

    @cached_property
    def schema(self) -> StreamSchema:
        return events_schema(self.name, "Event", "kind", kind="string", **dict.fromkeys(COMPARED, "float64"))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The event types of the first job."""
        return tuple(sorted(pc.unique(self.jobs[0].column("kind")).to_pylist()))

    @property
    def events(self) -> pa.Table:
        """The events of all jobs."""
        return pa.concat_tables(self.jobs)


@lru_cache(maxsize=2)
def days_of_traffic(data: Path | None, days: int, seed: int) -> JobStream:
    """Looks at roads that found vehicles, by classes of roads, a job a day from Friday, 1 August 2014, on.

    Where the month is not there, days of a generated twin: few events on the second and the third day.
    """
    readings = month_of_readings(data)
    if readings is None:
        events = _generated_days(CLASSES, 8, 288, days, 0.5, seed, weekend=WEEKEND)
        return JobStream(TRAFFIC, "generated days of traffic (the real month was not there)", events)
    time_us = readings.column("timestamp").cast(pa.int64()).to_numpy()
    readings = readings.slice(0, int(np.searchsorted(time_us, time_us[0] + days * DAY_US)))
    time_us = time_us[: readings.num_rows]
    roads, road = np.unique(readings.column("report_id").to_numpy(), return_inverse=True)
    speed, vehicles = (readings.column(name).to_numpy().astype(float) for name in ("avg_speed", "vehicle_count"))
    x, y = (differences_by_type(road, of) for of in (speed, vehicles))
    place = np.argsort(np.argsort(np.bincount(road[vehicles > 0], minlength=len(roads)), kind="stable"), kind="stable")
    rows = np.flatnonzero((vehicles > 0) & (place % ONE_OF == 0)[road])
    codes = (place * CLASSES // len(roads))[road[rows]]
    number = (time_us[rows] - time_us[0]) // DAY_US
    table = _table(time_us[rows], codes, x[rows], y[rows])
    ends = np.searchsorted(number, np.arange(days + 1))
    jobs = tuple(table.slice(first, stop - first) for first, stop in itertools.pairwise(ends))
    described = f"looks at roads in use, every other road, in {CLASSES} classes, of Aarhus, {days} days of August 2014"
    return JobStream(TRAFFIC, described, jobs)


@lru_cache(maxsize=2)
def days_of_bars(days: int, seed: int) -> JobStream:
    """Minute bars of stocks of which some trade in few minutes; how many, and by how much prices move, changes daily.

    The real bars that come with the papers are of one day, so these are generated.
    """
    jobs = _generated_days(SYMBOLS, 1, BARS_A_DAY, days, 0.5, seed)
    return JobStream(BARS, f"generated minute bars of {SYMBOLS} stocks, {days} days", jobs)


def stretches_of_trades(jobs: int, events: int, seed: int) -> JobStream:
    """Trades of stocks that begin with one rate; rates, and means of the numbers, drift by a little, and often."""
    random = np.random.default_rng((seed, 1))
    steps = -(-jobs * events // DRIFT_EVERY)
    ln_rate, mean = np.zeros((steps, TRADED)), np.zeros((2, steps, TRADED))
    for step in range(1, steps):
        ln_rate[step] = (1 - _BACK) * ln_rate[step - 1] + random.normal(0, _DRIFT, TRADED)
        mean[:, step] = (1 - _BACK) * mean[:, step - 1] + random.normal(0, _SHIFT, (2, TRADED))
    step_of = np.arange(jobs * events) // DRIFT_EVERY
    codes = _drawn_types(random, np.exp(ln_rate)[step_of])
    numbers = random.normal(0, 1, (2, len(codes))) + mean[:, step_of, codes]
    time_us = np.cumsum(random.exponential(1e6 / PER_S, len(codes))).astype(np.int64)
    description = f"generated trades of {TRADED} stocks, whose rates are alike at first and drift"
    return JobStream(TRADES, description, _cut(_table(time_us, codes, *numbers), events))


def stretches_of_discrepancy(jobs: int, seconds: int, seed: int) -> JobStream:
    """Five types: one that is always the last of a good plan flaps, two are alike, and one changes what is best, once.

    The changing type is the rarest at first, and the least rare but for the flapping one in the middle third.
    """
    random = np.random.default_rng((seed, 3))
    names = (STEADY, *TIED, CHANGING, FLAPPING)
    rates = np.tile(np.array([0.55, 0.75, 0.76, 0.4, 1.5]), (jobs, 1))
    rates[jobs // 3 : 2 * jobs // 3, 3] *= CHANGE
    rates[(np.arange(jobs) // 2) % 2 == 1, 4] *= FLAP
    found = []
    for job, number in enumerate(random.poisson(rates * seconds)):
        time_us = np.sort(random.integers(job * seconds * 1_000_000, (job + 1) * seconds * 1_000_000, number.sum()))
        codes = random.permutation(np.arange(len(names)).repeat(number))
        x, y = random.normal(0, 1, (2, len(codes)))
        found.append(_table(time_us, codes, x, y, names))
    return JobStream(DISCREPANCY, "generated events of five types", _numbered(found))


def _generated_days(
    types: int, sources: int, ticks: int, days: int, share: float, seed: int, weekend: float = 1.0
) -> tuple[pa.Table, ...]:
    """Days on which each source of a type has an event at some ticks; how often, and how wide, drifts by the day."""
    random = np.random.default_rng((seed, types, days))
    base = random.normal(0, 0.8, (2, types))
    drift = np.zeros((2, types))
    found = []
    for day in range(days):
        drift = (1 - _DAY_BACK) * drift + random.normal(0, _DAY_DRIFT, (2, types))
        rate = np.minimum(share * np.exp(base[0] + drift[0]) * (weekend if day % 7 in (1, 2) else 1.0), 1.0)
        number = random.binomial(sources, rate, (ticks, types))
        tick, code = (of.repeat(number.reshape(-1)) for of in map(np.ravel, np.indices(number.shape)))
        shuffled = np.lexsort((random.random(len(tick)), tick))
        code = code[shuffled]
        time_us = day * DAY_US + tick[shuffled] * 60_000_000 * (1 if sources == 1 else 5)
        numbers = random.normal(0, 1, (2, len(code))) * np.exp(0.5 * (base[1] + drift[1])[code])
        found.append(_table(time_us, code, *numbers))
    return _numbered(found)


def _drawn_types(random: np.random.Generator, rates: Floats) -> Ints:
    """One type an event, in proportion to its row of rates."""
    cumulated = np.cumsum(rates, axis=1)
    drawn = random.random(len(rates)) * cumulated[:, -1]
    codes: Ints = np.minimum((cumulated <= drawn[:, None]).sum(axis=1), rates.shape[1] - 1)
    return codes


def _table(time_us: Ints, codes: Ints, x: Floats, y: Floats, names: Sequence[str] | None = None) -> pa.Table:
    names = names or [f"T{code:02d}" for code in range(int(codes.max(initial=0)) + 1)]
    kinds = named_types(codes, names).cast(pa.string())
    return event_table(time_us, kind=kinds, x=np.round(x, 4), y=np.round(y, 4))


def _numbered(tables: Sequence[pa.Table]) -> tuple[pa.Table, ...]:
    """The jobs, with their events numbered from the first job on."""
    ends = np.cumsum([table.num_rows for table in tables])
    place = tables[0].schema.get_field_index("seq")
    return tuple(
        table.set_column(place, "seq", pa.array(np.arange(end - table.num_rows, end, dtype=np.int64)))
        for table, end in zip(tables, ends, strict=True)
    )


def _cut(table: pa.Table, events: int) -> tuple[pa.Table, ...]:
    return tuple(table.slice(first, events) for first in range(0, table.num_rows, events))
