"""The figures of `cep experiment adaptation`: cases, parameters tuned elsewhere, and ratios with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from benchmarks.experiments.adaptation.decisions import DISTANCE, KINDS, MEASURES
from benchmarks.experiments.cells import Row, number
from cep_pipeline.cli.terminal import times_as_fast

STUDENT = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t of 97.5 %, by degrees of freedom from 0 on."""
SAME = 0.01
"""A mean difference of less is none, however sure."""
THRESHOLD, INVARIANT = "constant threshold", "invariants"
"""The threshold, of any kind, and the distance that were the best ones on other stretches."""
OVERHEAD = ("estimating", "deciding", "planning")


class Place(StrEnum):
    """A comparison of one decision function with another one."""

    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"


@dataclass(frozen=True)
class Interval:
    """A ratio over repetitions: the geometric mean, and its interval of 95 %."""

    low: float
    middle: float
    high: float

    @property
    def place(self) -> Place:
        """Ahead or behind where all of the interval is, by more than `SAME`."""
        if self.low > 1 and self.middle >= 1 + SAME:
            return Place.AHEAD
        return Place.BEHIND if self.high < 1 and self.middle <= 1 / (1 + SAME) else Place.LEVEL

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"{times_as_fast(self.middle)}, one repetition"
        ends = f"{times_as_fast(self.low)} to {times_as_fast(self.high)}"
        return f"{times_as_fast(self.middle)} ({ends}), {self.place}"


def interval_of(ratios: Sequence[float]) -> Interval:
    """The interval of a ratio by Student's t over the logarithms.

    Examples
    --------
    >>> str(interval_of([2.0, 2.2, 1.8, 2.1, 1.9])), interval_of([0.9, 1.1, 1.0]).place.value
    ('1.99 (1.81 to 2.20), ahead', 'level')
    """
    logs = [math.log(ratio) for ratio in ratios]
    middle, freedom = fmean(logs), min(len(logs), len(STUDENT)) - 1
    half = STUDENT[freedom] * stdev(logs) / math.sqrt(len(logs)) if freedom else math.inf
    return Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half) if freedom else math.inf)


def all_seconds(row: Row, name: str) -> float:
    """Processor seconds of estimating, deciding, planning and detecting."""
    return sum(number(row, f"{name}:{figure}") for figure in (*OVERHEAD, "detecting"))


@dataclass(frozen=True)
class Case:
    """One pattern over a stream, by plans of a planner, with so many decisions a window; its repetitions are stretches.

    `THRESHOLD` and `INVARIANT` take the place of names: they are the functions that were the best ones in the other
    repetitions.
    """

    stream: str
    planner: str
    kind: str
    size: int
    often: int
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return f"{self.stream}, {self.planner}, {self.kind} of {self.size}, {self.often} a window"

    @property
    def names(self) -> list[str]:
        """The decision functions, by kind and parameter; those with a price last."""
        names = dict.fromkeys(name.partition(":")[0] for name in self.rows[0] if ":" in name)
        return sorted(names, key=_in_order)

    def of_kind(self, decision: str) -> list[str]:
        """The decision functions that `THRESHOLD` or `INVARIANT` is chosen from."""
        kinds = {THRESHOLD: tuple(MEASURES), INVARIANT: (DISTANCE,)}[decision]
        return [name for name in self.names if name.startswith(tuple(f"{kind}=" for kind in kinds)) and "," not in name]

    def name_of(self, decision: str, place: int) -> str:
        """The decision function as it was run in a repetition."""
        if decision not in (THRESHOLD, INVARIANT):
            return decision
        others = [row for number, row in enumerate(self.rows) if number != place] or self.rows
        return _best(others, self.of_kind(decision))

    def in_hindsight(self, decision: str) -> str:
        """The one that is the best in these repetitions themselves, as the patent chose it."""
        return _best(self.rows, self.of_kind(decision))

    def mean(self, decision: str, figure: str) -> float:
        """The mean of a figure of a decision function."""
        return fmean(number(row, f"{self.name_of(decision, at)}:{figure}") for at, row in enumerate(self.rows))

    def seconds(self, decision: str) -> list[float]:
        """All seconds of each repetition."""
        return [all_seconds(row, self.name_of(decision, place)) for place, row in enumerate(self.rows)]

    def ahead_of(self, one: str, other: str) -> Interval:
        """The throughput by one decision function as a multiple of that by the other."""
        pairs = zip(self.seconds(one), self.seconds(other), strict=True)
        return interval_of([theirs / own for own, theirs in pairs])

    def overhead(self, decision: str, figures: Iterable[str] = ("deciding", "planning")) -> float:
        """The share of all seconds that these take."""
        return sum(self.mean(decision, figure) for figure in figures) / fmean(self.seconds(decision))

    def chosen(self, decision: str) -> str:
        """The functions that were chosen, for people."""
        return " or ".join(sorted({self.name_of(decision, place) for place in range(len(self.rows))}, key=_in_order))


def cases_of(rows: Iterable[Row]) -> list[Case]:
    """The cases, in the order of their cells."""
    found: dict[tuple[str, str, str, int, int], list[Row]] = {}
    for row in rows:
        size, often = int(number(row, "size")), int(number(row, "a window"))
        key = str(row["stream"]), str(row["planner"]), str(row["set"]), size, often
        found.setdefault(key, []).append(row)
    return [Case(*key, tuple(of)) for key, of in found.items()]


def _in_order(name: str) -> tuple[bool, int, float]:
    function, _, price = name.partition(", ")
    kind, _, parameter = function.partition("=")
    return bool(price), KINDS.index(kind), float(parameter or 0)


def _best(rows: Sequence[Row], names: Sequence[str]) -> str:
    return min(names, key=lambda name: math.fsum(math.log(all_seconds(row, name)) for row in rows))
