"""The findings of the acep-invariants patent, beside the figures of `cep experiment adaptation`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.experiments.adaptation.figures import (
    INVARIANT,
    THRESHOLD,
    Case,
    Interval,
    Place,
    Tuned,
    all_seconds,
    interval_of,
    lost_seconds,
)
from benchmarks.experiments.adaptation.sizes import AVERAGE, FREQUENCY, STATIC, UNCONDITIONAL, distance_name
from benchmarks.experiments.adaptation.streams import TRAFFIC
from benchmarks.experiments.findings import Finding, Measured, Verdict, finding, geometric_mean, ratio_range
from cep_pipeline.cli.terminal import times_as_fast

OVER_ZERO, OF_TRAFFIC, OF_STOCKS = 2.0, 6.0, 1.3
"""The patent's smallest throughput of the best d over that of d = 0; its largest of invariants over the best threshold
in the traffic, and its smallest in the stocks."""
OVERHEAD, WITHIN = 0.01, 0.9
"""The most of the time that deciding and planning take; and the least share of the best d's throughput that the average
relative difference has."""


def all_findings(tuned: Sequence[Tuned], distances: Sequence[float]) -> list[Finding]:
    """The findings of the patent's experiments."""
    traffic = [of for of in tuned if of.case.stream == TRAFFIC]
    stocks = [of for of in tuned if of.case.stream != TRAFFIC]
    return [
        some_distance_is_best(tuned, distances),
        ahead_everywhere(tuned),
        far_ahead_in_traffic(traffic),
        ahead_in_stocks(stocks),
        fewer_alarms(tuned),
        little_overhead(tuned),
        static_is_ahead_in_stocks(stocks),
        more_for_trees(tuned),
        average_is_near_the_best(tuned),
    ]


@finding
def some_distance_is_best(tuned: Sequence[Tuned], distances: Sequence[float]) -> Measured:
    """Figure 6."""
    names = [distance_name(distance) for distance in distances if distance > 0]
    found = []
    for of in tuned:
        there = [name for name in names if name in of.case.names]
        if there:
            found.append(max((_over(of.case, distance_name(0.0), name) for name in there), key=lambda one: one.middle))
    if not found:
        return None
    verdict = Verdict.HOLDS if min(one.low for one in found) >= OVER_ZERO else Verdict.UNDECIDED
    if any(one.high < OVER_ZERO for one in found):
        verdict = Verdict.DIFFERS
    return verdict, {**_ahead_in(found), "overhead": _overhead_range(tuned, distance_name(0.0))}


@finding
def ahead_everywhere(tuned: Sequence[Tuned]) -> Measured:
    """Figures 7 and 8: throughput."""
    found = [of.ahead_of(INVARIANT, THRESHOLD).place for of in tuned]
    fewer = sum(of.mean(INVARIANT, "alarms") < of.mean(THRESHOLD, "alarms") for of in tuned)
    ahead, level, behind = (found.count(place) for place in Place)
    verdict = Verdict.DIFFERS if behind or 2 * level >= len(found) else Verdict.UNDECIDED
    figures = {"ahead": ahead, "level": level, "behind": behind, "cases": len(found), "fewer": fewer}
    return Verdict.HOLDS if ahead == len(found) else verdict, figures


@finding
def far_ahead_in_traffic(tuned: Sequence[Tuned]) -> Measured:
    """Figure 7, the greatest lead."""
    if not tuned:
        return None
    best = max((of.ahead_of(INVARIANT, THRESHOLD) for of in tuned), key=lambda one: one.middle)
    lost = [sum(of.seconds(THRESHOLD, lost_seconds)) / sum(of.seconds(THRESHOLD, all_seconds)) for of in tuned]
    return _at_least(best, OF_TRAFFIC), {"times": times_as_fast(best.middle), "lost": share_range(lost)}


@finding
def ahead_in_stocks(tuned: Sequence[Tuned]) -> Measured:
    """Figure 8."""
    if not tuned:
        return None
    found = [of.ahead_of(INVARIANT, THRESHOLD) for of in tuned]
    # Of each repetition the mean over the cases, so that the interval is that of repetitions.
    own, other = ([of.seconds(name, all_seconds) for of in tuned] for name in (INVARIANT, THRESHOLD))
    means = [
        geometric_mean(theirs[place] / ours[place] for ours, theirs in zip(own, other, strict=True))
        for place in range(min(map(len, own)))
    ]
    middle = interval_of(means)
    figures = {"times": times_as_fast(middle.middle), "all": ratio_range(one.middle for one in found)}
    return _at_least(middle, OF_STOCKS), figures


@finding
def fewer_alarms(tuned: Sequence[Tuned]) -> Measured:
    """Figures 7C, 7G, 8C, 8G."""
    alarms = [[of.mean(name, "alarms") for name in (INVARIANT, THRESHOLD, UNCONDITIONAL)] for of in tuned]
    fewer = sum(invariants < threshold < always for invariants, threshold, always in alarms)
    silent = sum(threshold == 0 for _, threshold, _ in alarms)
    never = sum(invariants < always and threshold < always for invariants, threshold, always in alarms)
    verdict = Verdict.HOLDS if fewer == len(alarms) else Verdict.DIFFERS
    return verdict, {"fewer": fewer, "cases": len(alarms), "never": never, "silent": silent}


@finding
def little_overhead(tuned: Sequence[Tuned]) -> Measured:
    """Figures 7D, 7H, 8D, 8H."""
    shares = [_overhead(of, INVARIANT) for of in tuned]
    first = sum(
        of.mean(STATIC, "planning") > OVERHEAD * (of.mean(STATIC, "planning") + of.mean(STATIC, "detecting"))
        for of in tuned
    )
    verdict = Verdict.HOLDS if max(shares) < OVERHEAD else Verdict.DIFFERS
    return verdict, {"shares": share_range(shares), "first": first, "cases": len(tuned)}


@finding
def static_is_ahead_in_stocks(tuned: Sequence[Tuned]) -> Measured:
    """Figure 8, on the static plan."""
    if not tuned:
        return None
    found = [of.ahead_of(STATIC, UNCONDITIONAL) for of in tuned]
    verdict = Verdict.UNDECIDED
    if all(one.place is Place.AHEAD for one in found):
        verdict = Verdict.HOLDS
    elif any(one.place is Place.BEHIND for one in found):
        verdict = Verdict.DIFFERS
    return verdict, {**_ahead_in(found), "overhead": _overhead_range(tuned, UNCONDITIONAL)}


@finding
def more_for_trees(tuned: Sequence[Tuned]) -> Measured:
    """The last observation."""
    pairs = [
        (one, other)
        for one in tuned
        for other in tuned
        if (one.case.planner, other.case.planner) == ("zstream", "greedy")
        and (one.case.part, one.case.often) == (other.case.part, other.case.often)
    ]
    if not pairs:
        return None
    found = []
    for pair in pairs:
        of_trees, of_orders = (
            [
                static / own
                for static, own in zip(of.seconds(STATIC, all_seconds), of.seconds(INVARIANT, all_seconds), strict=True)
            ]
            for of in pair
        )
        found.append(interval_of([tree / order for tree, order in zip(of_trees, of_orders, strict=True)]))
    verdict = Verdict.HOLDS if all(one.place is Place.AHEAD for one in found) else Verdict.UNDECIDED
    if any(one.place is Place.BEHIND for one in found):
        verdict = Verdict.DIFFERS
    return verdict, _ahead_in(found)


@finding
def average_is_near_the_best(tuned: Sequence[Tuned]) -> Measured:
    """The validation of the average relative difference, judged by the throughput that it has."""
    own = [of for of in tuned if AVERAGE in of.case.names and of.case.part != FREQUENCY]
    if not own:
        return None
    found = sorted((of.ahead_of(AVERAGE, INVARIANT) for of in own), key=lambda one: one.middle)
    return _at_least(found[0], WITHIN), {"least": found[0].middle, "most": found[-1].middle}


def _ahead_in(found: Sequence[Interval]) -> dict[str, object]:
    """The figures of quotients: their range, and how many of them are ahead."""
    ahead = sum(one.place is Place.AHEAD for one in found)
    return {"times": ratio_range(one.middle for one in found), "ahead": ahead, "cases": len(found)}


def _overhead(of: Tuned, name: str) -> float:
    """The share of all time that deciding and planning take by a decision function."""
    deciding, planning, detecting = (of.mean(name, figure) for figure in ("deciding", "planning", "detecting"))
    return (deciding + planning) / (deciding + planning + detecting)


def _overhead_range(tuned: Sequence[Tuned], name: str) -> str:
    """The least and the greatest share of all time that deciding and planning take by a decision function."""
    return share_range(_overhead(of, name) for of in tuned if name in (INVARIANT, THRESHOLD, *of.case.names))


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


def _over(case: Case, one: str, other: str) -> Interval:
    """Return the ratios of the seconds of decision function `one` to those of the other, as an interval."""
    return interval_of([all_seconds(row, one) / all_seconds(row, other) for row in case.rows])


def _at_least(found: Interval, bound: float) -> Verdict:
    if found.low >= bound:
        return Verdict.HOLDS
    return Verdict.DIFFERS if found.high < bound else Verdict.UNDECIDED
