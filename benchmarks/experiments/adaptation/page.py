"""The page of `cep experiment adaptation`: cases and their figures, the patent's findings, and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, geometric_mean, stdev

from scipy import stats

from benchmarks.charts import Axis, line_chart
from benchmarks.experiments.adaptation import experiment as measured
from benchmarks.experiments.adaptation.experiment import (
    AARHUS,
    AVERAGE,
    DISTANCE,
    FULL,
    KINDS,
    MEASURES,
    MECHANISMS,
    META,
    PRICED,
    REACH,
    STATIC,
    STOCKS,
    UNCONDITIONAL,
    Sizes,
    named,
)
from benchmarks.experiments.experiment import Request, Row, number
from benchmarks.experiments.findings import Finding, Measured, Verdict, finding, ratio_range
from benchmarks.experiments.page import Page, Picture, findings_page
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast

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
    middle = fmean(logs)
    if len(logs) == 1:
        return Interval(0.0, math.exp(middle), math.inf)
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(middle - half), math.exp(middle), math.exp(middle + half))


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


OVER_ZERO, OF_TRAFFIC, OF_STOCKS = 2.0, 6.0, 1.3
"""The patent's smallest throughput of the best d over that of d = 0; its largest of invariants over the best threshold
in the traffic, and its smallest in the stocks."""
LITTLE, WITHIN = 0.01, 0.9
"""The most of the time that deciding and planning take; and the least share of the best d's throughput that the average
relative difference has."""
ZERO = named(DISTANCE, 0.0)


def all_findings(cases: Sequence[Case]) -> list[Finding]:
    """The findings of the patent's experiments."""
    traffic = [of for of in cases if of.stream != STOCKS]
    stocks = [of for of in cases if of.stream == STOCKS]
    return [
        some_distance_is_best(cases),
        ahead_everywhere(cases),
        far_ahead_in_traffic(traffic),
        ahead_in_stocks(stocks),
        fewer_alarms(cases),
        little_overhead(cases),
        static_is_ahead_in_stocks(stocks),
        more_for_trees(cases),
        average_is_near_the_best(cases),
    ]


@finding
def some_distance_is_best(cases: Sequence[Case]) -> Measured:
    """Figure 6."""
    found = [
        max(
            (of.ahead_of(name, ZERO) for name in of.of_kind(INVARIANT) if name != ZERO),
            key=lambda one: one.middle,
        )
        for of in cases
    ]
    verdict = Verdict.HOLDS if min(one.low for one in found) >= OVER_ZERO else Verdict.UNDECIDED
    if any(one.high < OVER_ZERO for one in found):
        verdict = Verdict.DIFFERS
    overhead = share_range(of.overhead(ZERO) for of in cases)
    return verdict, {**_ahead_in(found), "overhead": overhead}


@finding
def ahead_everywhere(cases: Sequence[Case]) -> Measured:
    """Figures 7 and 8: throughput."""
    found = [of.ahead_of(INVARIANT, THRESHOLD).place for of in cases]
    fewer = sum(of.mean(INVARIANT, "alarms") < of.mean(THRESHOLD, "alarms") for of in cases)
    ahead, level, behind = (found.count(place) for place in Place)
    verdict = Verdict.DIFFERS if behind or 2 * level >= len(found) else Verdict.UNDECIDED
    figures = {"ahead": ahead, "level": level, "behind": behind, "cases": len(found), "fewer": fewer}
    return Verdict.HOLDS if ahead == len(found) else verdict, figures


@finding
def far_ahead_in_traffic(cases: Sequence[Case]) -> Measured:
    """Figure 7, the greatest lead."""
    best = max((of.ahead_of(INVARIANT, THRESHOLD) for of in cases), key=lambda one: one.middle)
    static = ratio_range(of.ahead_of(INVARIANT, STATIC).middle for of in cases)
    return _at_least(best, OF_TRAFFIC), {"times": times_as_fast(best.middle), "static": static}


@finding
def ahead_in_stocks(cases: Sequence[Case]) -> Measured:
    """Figure 8."""
    found = [of.ahead_of(INVARIANT, THRESHOLD) for of in cases]
    # Of each repetition the mean over the cases, so that the interval is that of repetitions.
    pairs = [(of.seconds(INVARIANT), of.seconds(THRESHOLD)) for of in cases]
    repetitions = range(min(len(own) for own, _ in pairs))
    middle = interval_of([geometric_mean(other[at] / own[at] for own, other in pairs) for at in repetitions])
    figures = {"times": times_as_fast(middle.middle), "all": ratio_range(one.middle for one in found)}
    return _at_least(middle, OF_STOCKS), figures


@finding
def fewer_alarms(cases: Sequence[Case]) -> Measured:
    """Figures 7C, 7G, 8C, 8G."""
    alarms = [[of.mean(name, "alarms") for name in (INVARIANT, THRESHOLD, UNCONDITIONAL)] for of in cases]
    fewer = sum(invariants < threshold < always for invariants, threshold, always in alarms)
    silent = sum(threshold == 0 for _, threshold, _ in alarms)
    never = sum(invariants < always and threshold < always for invariants, threshold, always in alarms)
    verdict = Verdict.HOLDS if fewer == len(alarms) else Verdict.DIFFERS
    return verdict, {"fewer": fewer, "cases": len(alarms), "never": never, "silent": silent}


@finding
def little_overhead(cases: Sequence[Case]) -> Measured:
    """Figures 7D, 7H, 8D, 8H."""
    shares = [of.overhead(INVARIANT) for of in cases]
    verdict = Verdict.HOLDS if max(shares) < LITTLE else Verdict.DIFFERS
    estimating = share_range(of.overhead(INVARIANT, ["estimating"]) for of in cases)
    return verdict, {"shares": share_range(shares), "estimating": estimating}


@finding
def static_is_ahead_in_stocks(cases: Sequence[Case]) -> Measured:
    """Figure 8, on the static plan."""
    found = [of.ahead_of(STATIC, UNCONDITIONAL) for of in cases]
    overhead = share_range(of.overhead(UNCONDITIONAL, ("estimating", "deciding", "planning")) for of in cases)
    return _all_ahead(found), {**_ahead_in(found), "overhead": overhead}


@finding
def more_for_trees(cases: Sequence[Case]) -> Measured:
    """The last observation."""
    by_key = {(of.stream, of.planner, of.kind, of.size, of.often): of for of in cases}
    pairs = [
        (of, by_key[other])
        for (stream, planner, *rest), of in by_key.items()
        if planner == "zstream" and (other := (stream, "greedy", *rest)) in by_key
    ]
    found = []
    for pair in pairs:
        trees, orders = (
            [static / own for static, own in zip(of.seconds(STATIC), of.seconds(INVARIANT), strict=True)] for of in pair
        )
        found.append(interval_of([tree / order for tree, order in zip(trees, orders, strict=True)]))
    return _all_ahead(found), _ahead_in(found)


@finding
def average_is_near_the_best(cases: Sequence[Case]) -> Measured:
    """The validation of the average relative difference, judged by the throughput that it has."""
    found = sorted((of.ahead_of(AVERAGE, INVARIANT) for of in cases), key=lambda one: one.middle)
    return _at_least(found[0], WITHIN), {"least": found[0].middle, "most": found[-1].middle}


def share_range(shares: Iterable[float]) -> str:
    """The least and the greatest share.

    Examples
    --------
    >>> share_range([0.25, 0.031, 0.6])
    '3.1% to 60.0%'
    """
    found = sorted(shares)
    low, high = f"{found[0]:.1%}", f"{found[-1]:.1%}"
    return low if low == high else f"{low} to {high}"


def _ahead_in(found: Sequence[Interval]) -> dict[str, object]:
    """The figures of ratios: their range, and how many of them are ahead."""
    ahead = sum(one.place is Place.AHEAD for one in found)
    return {"times": ratio_range(one.middle for one in found), "ahead": ahead, "cases": len(found)}


def _all_ahead(found: Sequence[Interval]) -> Verdict:
    if any(one.place is Place.BEHIND for one in found):
        return Verdict.DIFFERS
    return Verdict.HOLDS if all(one.place is Place.AHEAD for one in found) else Verdict.UNDECIDED


def _at_least(found: Interval, bound: float) -> Verdict:
    if found.low >= bound:
        return Verdict.HOLDS
    return Verdict.DIFFERS if found.high < bound else Verdict.UNDECIDED


OTHERS = (THRESHOLD, UNCONDITIONAL, STATIC)
SHOWN = (STATIC, UNCONDITIONAL, THRESHOLD, INVARIANT, ZERO, AVERAGE, META, f"{ZERO}, {PRICED}")


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of the cells."""
    cases = cases_of(rows)
    places = {other: [of.ahead_of(INVARIANT, other).place for of in cases] for other in OTHERS}
    said = (f"{one}: {', '.join(f'{at} in {found.count(at)}' for at in Place)}" for one, found in places.items())
    return findings_page(
        "adaptation",
        request,
        all_findings(cases),
        [_picture(cases)],
        cases=cases,
        ahead="; ".join(said),
        ahead_table=_ahead_table(cases),
        times=_times_table(cases),
        tried=_tried_table(cases),
        tries=[of.mean(STATIC, "tries") for of in cases],
        shares=[number(row, "matches") / number(row, "events") for row in rows],
        beside=fmean(number(row, "beside measured") for row in rows),
        windows=[round(number(row, "events") / number(row, "windows")) for row in rows],
        described=dict.fromkeys(f"{row['stream']}: {row['stream is']}" for row in rows),
        measured=measured,
        has_month=any(of.stream == AARHUS for of in cases),
        mechanisms={planner: MECHANISMS[planner] for planner in sizes.planners},
        reach=REACH,
        sizes=sizes,
        is_full=sizes is FULL,
    )


def _ahead_table(cases: Sequence[Case]) -> str:
    lines = [
        [
            str(of),
            of.chosen(THRESHOLD),
            of.chosen(INVARIANT),
            *(str(of.ahead_of(INVARIANT, one)) for one in OTHERS),
            str(of.ahead_of(of.in_hindsight(INVARIANT), of.in_hindsight(THRESHOLD))),
        ]
        for of in cases
    ]
    header = ["case", "threshold", "distance", *(f"beside {one}" for one in OTHERS), "beside threshold, in hindsight"]
    return markdown_table(header, lines)


def _times_table(cases: Sequence[Case]) -> str:
    lines = []
    for of in cases:
        for name in SHOWN:
            counts = (f"{of.mean(name, figure):,.1f}" for figure in ("alarms", "switches"))
            seconds = (format_seconds(of.mean(name, figure)) for figure in (*OVERHEAD, "detecting"))
            throughput = fmean(number(row, "events") for row in of.rows) / fmean(of.seconds(name))
            lines.append(
                [str(of), name, *counts, f"{of.mean(name, 'tries'):.2g}", *seconds, count_per_s(throughput)],
            )
    header = ["case", "decision", "alarms", "switches", "tries", *OVERHEAD, "detecting"]
    return markdown_table([*header, "events/s, all of it"], lines)


def _tried_table(cases: Sequence[Case]) -> str:
    """All seconds by each value of t and d."""
    names = [*cases[0].of_kind(THRESHOLD), *cases[0].of_kind(INVARIANT)]
    lines = [[str(of), *(format_seconds(fmean(of.seconds(name))) for name in names)] for of in cases]
    return markdown_table(["case", *names], lines)


def _picture(cases: Sequence[Case]) -> Picture:
    points: list[Row] = []
    for of in cases:
        for name in of.of_kind(INVARIANT):
            over = of.ahead_of(name, ZERO).middle
            case = f"{of.planner}, {of.kind}, {of.often} a window"
            points.append(
                {"d": float(name.partition("=")[2]), "throughput": over, "case": case, "stream": of.stream},
            )
    shows = "Throughput against the minimal distance"
    svg = line_chart(points, Axis("d", "d"), Axis("throughput", "times that of d = 0"), "case", facet="stream")
    return Picture("distance", shows, "Throughput against the minimal distance d (figure 6).", svg)
