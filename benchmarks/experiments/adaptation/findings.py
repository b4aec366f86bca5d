"""The findings of the acep-invariants patent, beside the figures of `cep experiment adaptation`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.experiments.adaptation.decisions import AVERAGE, DISTANCE, STATIC, UNCONDITIONAL, named
from benchmarks.experiments.adaptation.figures import INVARIANT, THRESHOLD, Case, Interval, Place, interval_of
from benchmarks.experiments.adaptation.streams import STOCKS
from benchmarks.experiments.findings import Finding, Measured, Verdict, finding, geometric_mean, ratio_range
from cep_pipeline.cli.terminal import times_as_fast

OVER_ZERO, OF_TRAFFIC, OF_STOCKS = 2.0, 6.0, 1.3
"""The patent's smallest throughput of the best d over that of d = 0; its largest of invariants over the best threshold
in the traffic, and its smallest in the stocks."""
OVERHEAD, WITHIN = 0.01, 0.9
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
    if not cases:
        return None
    best = max((of.ahead_of(INVARIANT, THRESHOLD) for of in cases), key=lambda one: one.middle)
    static = ratio_range(of.ahead_of(INVARIANT, STATIC).middle for of in cases)
    return _at_least(best, OF_TRAFFIC), {"times": times_as_fast(best.middle), "static": static}


@finding
def ahead_in_stocks(cases: Sequence[Case]) -> Measured:
    """Figure 8."""
    if not cases:
        return None
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
    verdict = Verdict.HOLDS if max(shares) < OVERHEAD else Verdict.DIFFERS
    estimating = share_range(of.overhead(INVARIANT, ["estimating"]) for of in cases)
    return verdict, {"shares": share_range(shares), "estimating": estimating}


@finding
def static_is_ahead_in_stocks(cases: Sequence[Case]) -> Measured:
    """Figure 8, on the static plan."""
    if not cases:
        return None
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
    if not pairs:
        return None
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
