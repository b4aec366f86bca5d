"""The cells of `cep experiment adaptation`: cases, tuned parameters, and quotients with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from benchmarks.experiments.adaptation.sizes import (
    AVERAGE,
    DAYS,
    FREQUENCY,
    META,
    PARTS,
    STATIC,
    TOGETHER,
    UNCONDITIONAL,
    distance_name,
    threshold_name,
)
from benchmarks.experiments.adaptation.streams import BARS, TRAFFIC
from benchmarks.experiments.cells import Row, number
from cep_pipeline.cli.terminal import times_as_fast

STUDENT = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t of 97.5 %, by degrees of freedom from 0 on."""
SAME = 0.01
"""A mean difference of less is none, however sure."""
THRESHOLD, INVARIANT = "constant threshold", "invariants"
"""Decision functions with the threshold t, and with the distance d, that was the best one on other data."""


class Place(StrEnum):
    """A comparison of one decision function with another one."""

    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"


@dataclass(frozen=True)
class Interval:
    """A quotient over repetitions: the geometric mean, and its interval of 95 %."""

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
        return f"{self.times}, {self.place}" if self.high < math.inf else "one repetition"

    @property
    def times(self) -> str:
        """The quotient with its ends."""
        ends = f"{times_as_fast(self.low)} to {times_as_fast(self.high)}"
        return f"{times_as_fast(self.middle)} ({ends})"


def interval_of(quotients: Sequence[float]) -> Interval:
    """The interval of a quotient by Student's t over the logarithms.

    Examples
    --------
    >>> str(interval_of([2.0, 2.2, 1.8, 2.1, 1.9])), interval_of([0.9, 1.1, 1.0]).place.value
    ('1.99 (1.81 to 2.20), ahead', 'level')
    """
    logs = [math.log(quotient) for quotient in quotients]
    middle, freedom = fmean(logs), min(len(logs), len(STUDENT)) - 1
    half = STUDENT[freedom] * stdev(logs) / math.sqrt(len(logs)) if freedom else math.inf
    return Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half) if freedom else math.inf)


@dataclass(frozen=True)
class Case:
    """A cell's repetitions.

    Attributes
    ----------
    part, stream, planner, size, often
        The part; the stream of days; the planner; events of the pattern or patterns of the set; decisions a window.
    rows
        One a repetition.
    """

    part: str
    stream: str
    planner: str
    size: int
    often: int
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        if self.part == FREQUENCY:
            return f"{self.planner}, {self.often} a window"
        what = f"{self.size:,} patterns" if self.part == DAYS or self.planner == TOGETHER else f"{self.size} events"
        of = f"{self.stream}, " if self.stream else ""
        return f"{of}{self.planner}" + (f", {what}" if self.size else "")

    def mean(self, name: str, figure: str) -> float:
        """The mean of a decision function's figure."""
        return fmean(number(row, f"{name}:{figure}") for row in self.rows)

    @property
    def names(self) -> list[str]:
        """The decision functions, with the parameters of each in their order."""
        names = dict.fromkeys(name.partition(":")[0] for name in self.rows[0] if ":" in name)
        return sorted(names, key=_in_order)

    @property
    def has_regret(self) -> bool:
        """True where the best plans are known."""
        return f"{STATIC}:regret" in self.rows[0]


def _in_order(name: str) -> tuple[bool, int, float]:
    """The place of a decision function: those with a price last, then by kind, then by parameter."""
    function, _, price = name.partition(", ")
    kinds = (STATIC, UNCONDITIONAL, "t", "d", AVERAGE, META)
    kind, _, parameter = function.partition("=")
    return bool(price), kinds.index(kind), float(parameter or 0)


def all_seconds(row: Row, name: str) -> float:
    """Seconds of deciding, planning and detecting."""
    return sum(number(row, f"{name}:{figure}") for figure in ("deciding", "planning", "detecting"))


def lost_seconds(row: Row, name: str) -> float:
    """Seconds that are lost beside the best plans known, if those were to be had for nothing."""
    return sum(number(row, f"{name}:{figure}") for figure in ("deciding", "planning", "switching", "regret"))


Seconds = Callable[[Row, str], float]


def cases_of(rows: Iterable[Row]) -> list[Case]:
    """The cases, part by part."""
    found: dict[tuple[str, str, str, int, int], list[Row]] = {}
    for row in rows:
        size, often = row.get("size"), row.get("a window")
        key = (
            str(row["part"]),
            str(row.get("stream", "")),
            str(row["planner"]),
            int(size) if isinstance(size, int) else 0,
            int(often) if isinstance(often, int) else 0,
        )
        found.setdefault(key, []).append(row)
    return sorted((Case(*key, tuple(of)) for key, of in found.items()), key=lambda case: PARTS.index(case.part))


@dataclass(frozen=True)
class Tuned:
    """A case, with the t and the d of each repetition: the best ones on other data.

    For days that is the other stream; elsewhere the other repetitions, whose streams are others.
    """

    case: Case
    thresholds: tuple[str, ...]
    distances: tuple[str, ...]

    def name_of(self, decision: str, place: int) -> str:
        """The decision function as it was run in a repetition."""
        tuned = {THRESHOLD: self.thresholds, INVARIANT: self.distances}
        return tuned[decision][place] if decision in tuned else decision

    def mean(self, decision: str, figure: str) -> float:
        """The mean of a figure of a decision function."""
        named = ((row, self.name_of(decision, place)) for place, row in enumerate(self.case.rows))
        return fmean(number(row, f"{name}:{figure}") for row, name in named)

    def seconds(self, decision: str, seconds: Seconds) -> list[float]:
        """Seconds of each repetition."""
        return [seconds(row, self.name_of(decision, place)) for place, row in enumerate(self.case.rows)]

    def ahead_of(self, one: str, other: str, seconds: Seconds = all_seconds) -> Interval:
        """Return the ratios of the seconds of the other decision function to those of `one`, as an interval."""
        pairs = zip(self.seconds(one, seconds), self.seconds(other, seconds), strict=True)
        return interval_of([theirs / own for own, theirs in pairs])

    @property
    def chosen(self) -> str:
        """The t and the d, for people."""
        of_t, of_d = (
            " or ".join(sorted({name[2:] for name in names}, key=float)) for names in (self.thresholds, self.distances)
        )
        return f"t {of_t}; d {of_d}"


def tuned_cases(cases: Sequence[Case], thresholds: Sequence[float], distances: Sequence[float]) -> list[Tuned]:
    """The cases with parameters that were chosen on other data than they are judged on."""
    return [
        Tuned(
            case,
            tuple(_best(_others(case, cases, place), [*map(threshold_name, thresholds)]) for place in places),
            tuple(_best(_others(case, cases, place), [*map(distance_name, distances)]) for place in places),
        )
        for case in cases
        for places in [range(len(case.rows))]
    ]


def _others(case: Case, cases: Sequence[Case], place: int) -> Sequence[Row]:
    if case.part == DAYS:
        other = {TRAFFIC: BARS, BARS: TRAFFIC}[case.stream]
        for one in cases:
            if (one.part, one.stream, one.planner, one.size) == (DAYS, other, case.planner, case.size):
                return one.rows
    return [row for number, row in enumerate(case.rows) if number != place] or case.rows


def _best(rows: Sequence[Row], names: Sequence[str]) -> str:
    there = [name for name in names if f"{name}:planning" in rows[0]]
    return min(there, key=lambda name: math.fsum(math.log(all_seconds(row, name)) for row in rows))


def spread(case: Case, names: Sequence[str]) -> float:
    """The factor between the most and the least seconds of these decision functions, in the geometric mean."""
    there = [name for name in names if name in case.names]
    means = [math.exp(fmean(math.log(all_seconds(row, name)) for row in case.rows)) for name in there]
    return max(means) / min(means)
