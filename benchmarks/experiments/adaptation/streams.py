"""The streams of `cep experiment adaptation`: rates that change seldom and by much, or always and by little."""

from __future__ import annotations

import math
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

TRAFFIC, STOCKS, AARHUS = "traffic", "stocks", "Aarhus"
TYPES, PER_S = 10, 120.0
"""Event types, and events a second of all types of a generated stream together."""
WINDOW_S = {TRAFFIC: 60, STOCKS: 80, AARHUS: 10_800}
PASSING = {TRAFFIC: 4.0, STOCKS: 2.4, AARHUS: 2.4}
"""Of the events of a type in a window, so many pass a condition with one of the other, in the middle."""
SKEW = 500.0
"""The rate of the most frequent type of the traffic, as a multiple of that of the rarest."""
STEPS = 4
"""Rates take a step so many times a window."""
FREQUENT = 3
"""The rarest type exchanges its rate with one of so many that are the most frequent."""
_WANDER, _WANDER_BACK = 0.12, 0.05
"""A step of the ln rate of a type of the traffic, and the part of it that it goes back: it wanders by 46 %."""
_WALK, _WALK_BACK = 0.07, 0.05
"""The same of the stocks, whose rates begin within 20 %."""
_SHIFT, _SHIFT_BACK = 0.05, 0.01
"""The same of the means of the stocks' numbers."""
ONE_OF = 2
"""One of so many roads is read."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stretch:
    """A stretch of a stream, whose events have a type and the numbers x and y.

    Attributes
    ----------
    name, description
        For keys, and for people.
    events
        In stream order.
    """

    name: str
    description: str
    events: pa.Table

    @cached_property
    def schema(self) -> StreamSchema:
        return events_schema(self.name.lower(), "Event", "kind", kind="string", x="float64", y="float64")

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The event types by their number of events before anything changes, the rarest first."""
        begin = self.events.slice(0, self.events.num_rows // 10)
        found = pc.value_counts(begin.column("kind")).to_pylist()
        return tuple(one["values"] for one in sorted(found, key=lambda one: (one["counts"], one["values"])))

    @property
    def window(self) -> int:
        """The events of a window, in the mean."""
        ends = self.events.column("timestamp").cast(pa.int64())
        span_us: int = ends[-1].as_py() - ends[0].as_py()
        events: int = self.events.num_rows
        return round(events * WINDOW_S[self.name] * 1e6 / span_us)


def stretch_of(name: str, windows: int, number: int, seed: int, data: Path | None) -> Stretch:
    """One stretch of a stream; those of other numbers are of the same kind, and no event is in two of them.

    Parameters
    ----------
    windows
        Of the generated streams: the rates of two types are exchanged after each third.
    number
        Which stretch, from 1 on; of the real month, which three days.
    """
    if name == AARHUS:
        return _days_of_month(number, data)
    random = np.random.default_rng((seed, number, len(name)))
    rates, means = (_exchanged if name == TRAFFIC else _drifting)(random, windows * STEPS)
    step_s = WINDOW_S[name] / STEPS
    counts = random.poisson(rates * (PER_S * step_s / rates.sum(axis=1, keepdims=True)))
    step_of = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    codes = np.concatenate([random.permutation(np.arange(TYPES).repeat(own)) for own in counts])
    time_us = np.sort((step_of + random.random(len(codes))) * step_s * 1e6).astype(np.int64)
    x, y = random.normal(0, 1, (2, len(codes))) + means[:, step_of, codes]
    return Stretch(name, f"generated events of {TYPES} types", _table(time_us, codes, x, y))


def has_month(data: Path | None) -> bool:
    """True where the month of real traffic is there."""
    return _readings(data) is not None


def _exchanged(random: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Rates over 1 : `SKEW`. After each third of the steps the rarest type and a frequent one exchange theirs."""
    level = np.linspace(0.0, -math.log(SKEW), TYPES)
    levels = np.empty((steps, TYPES))
    for third in np.array_split(np.arange(steps), 3):
        levels[third] = level
        order = np.argsort(-level)
        rare, frequent = order[-1], order[int(random.integers(FREQUENT))]
        level[[rare, frequent]] = level[[frequent, rare]]
    wander = _walk(random, (steps, TYPES), _WANDER, _WANDER_BACK)
    wander[levels < level.mean()] = 0.0
    return np.exp(levels + wander), np.zeros((2, steps, TYPES))


def _drifting(random: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Rates that are nearly the same, and means of the numbers; all of them walk."""
    begin = random.uniform(-0.1, 0.1, TYPES)
    ln_rates = begin + _walk(random, (steps, TYPES), _WALK, _WALK_BACK)
    return np.exp(ln_rates), np.stack([_walk(random, (steps, TYPES), _SHIFT, _SHIFT_BACK) for _ in range(2)])


def _walk(random: np.random.Generator, shape: tuple[int, int], step: float, back: float) -> Floats:
    """Walks from 0, a column each, that go back a part of the way with every step."""
    moves = random.normal(0, step, shape)
    walks = np.zeros(shape)
    for row in range(1, shape[0]):
        walks[row] = (1 - back) * walks[row - 1] + moves[row]
    return walks


@lru_cache(maxsize=1)
def _readings(data: Path | None) -> pa.Table | None:
    return month_of_readings(data)


DAYS_OF_A_STRETCH = 3
DAY_US = 86_400_000_000


def _days_of_month(number: int, data: Path | None) -> Stretch:
    """Looks at roads that found vehicles, by ten classes of roads; their rates change by ten between night and day."""
    readings = _readings(data)
    assert readings is not None, "asked for where the month is there"
    time_us = readings.column("timestamp").cast(pa.int64()).to_numpy()
    roads, road = np.unique(readings.column("report_id").to_numpy(), return_inverse=True)
    speed, vehicles = (readings.column(name).to_numpy().astype(float) for name in ("avg_speed", "vehicle_count"))
    x, y = (differences_by_type(road, of) for of in (speed, vehicles))
    place = np.argsort(np.argsort(np.bincount(road[vehicles > 0], minlength=len(roads)), kind="stable"), kind="stable")
    day = (time_us - time_us[0]) // DAY_US // DAYS_OF_A_STRETCH
    rows = np.flatnonzero((vehicles > 0) & (place % ONE_OF == 0)[road] & (day == number - 1))
    codes = (place * TYPES // len(roads))[road[rows]]
    described = f"looks at roads in use, one of {ONE_OF}, in {TYPES} classes, {DAYS_OF_A_STRETCH} days of August 2014"
    return Stretch(AARHUS, described, _table(time_us[rows], codes, x[rows], y[rows]))


def _table(time_us: Ints, codes: Ints, x: Floats, y: Floats) -> pa.Table:
    names: Sequence[str] = [f"T{code:02d}" for code in range(TYPES)]
    kinds = named_types(codes, names).cast(pa.string())
    return event_table(time_us, kind=kinds, x=np.round(x, 4), y=np.round(y, 4))
