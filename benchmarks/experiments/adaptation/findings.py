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
from benchmarks.experiments.findings import Finding, Verdict, geometric_mean, not_measured, ratio_range
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


def some_distance_is_best(tuned: Sequence[Tuned], distances: Sequence[float]) -> Finding:
    """Figure 6."""
    names = [distance_name(distance) for distance in distances if distance > 0]
    claim, paper = "a distance d above 0 is the best one everywhere", "2 to 25 times the throughput of d = 0"
    found = []
    for of in tuned:
        there = [name for name in names if name in of.case.names]
        if there:
            found.append(max((_over(of.case, distance_name(0.0), name) for name in there), key=lambda one: one.middle))
    if not found:
        return not_measured(claim, paper)
    ahead = sum(one.place is Place.AHEAD for one in found)
    verdict = Verdict.HOLDS if min(one.low for one in found) >= OVER_ZERO else Verdict.UNDECIDED
    if any(one.high < OVER_ZERO for one in found):
        verdict = Verdict.DIFFERS
    return Finding(
        claim,
        paper,
        f"{ratio_range(one.middle for one in found)} times; ahead of d = 0 in {ahead} of {len(found)} cases",
        verdict,
        "A distance saves planning and switches that bring little. With d = 0 deciding and planning take "
        f"{_overhead_range(tuned, distance_name(0.0))} of the time, and no more than that, switches and worse plans "
        "can be saved.",
    )


def ahead_everywhere(tuned: Sequence[Tuned]) -> Finding:
    """Figures 7 and 8: throughput."""
    found = [of.ahead_of(INVARIANT, THRESHOLD).place for of in tuned]
    fewer = sum(of.mean(INVARIANT, "alarms") < of.mean(THRESHOLD, "alarms") for of in tuned)
    ahead, level, behind = (found.count(place) for place in Place)
    verdict = Verdict.DIFFERS if behind or 2 * level >= len(found) else Verdict.UNDECIDED
    return Finding(
        "invariants are ahead of the best constant threshold everywhere",
        "ahead for every pattern",
        f"ahead in {ahead}, level in {level}, behind in {behind} of {len(found)} cases",
        Verdict.HOLDS if ahead == len(found) else verdict,
        "Both have parameters that were chosen on other data. A new plan is used only where it costs less on the "
        "latest statistics, whoever asked for it. What is left to differ in is how often they plan and switch: "
        f"invariants ask for fewer plans than the threshold in {fewer} of the cases (*Who is ahead*).",
    )


def far_ahead_in_traffic(tuned: Sequence[Tuned]) -> Finding:
    """Figure 7, the greatest lead."""
    claim, paper = "in the traffic, invariants are far ahead of the best constant threshold", "up to 6 times"
    if not tuned:
        return not_measured(claim, paper)
    found = [of.ahead_of(INVARIANT, THRESHOLD) for of in tuned]
    best = max(found, key=lambda one: one.middle)
    lost = [sum(of.seconds(THRESHOLD, lost_seconds)) / sum(of.seconds(THRESHOLD, all_seconds)) for of in tuned]
    return Finding(
        claim,
        paper,
        f"up to {times_as_fast(best.middle)} times",
        _at_least(best, OF_TRAFFIC),
        "A lead is bounded by what there is to lose. Deciding, planning and the time lost by worse plans, with a "
        f"threshold, take {share_range(lost)} of all time in these cases (*Days*).",
    )


def ahead_in_stocks(tuned: Sequence[Tuned]) -> Finding:
    """Figure 8."""
    claim, paper = "in the stocks, invariants are ahead of the best constant threshold", "1.3 to 1.6 times"
    if not tuned:
        return not_measured(claim, paper)
    found = [of.ahead_of(INVARIANT, THRESHOLD) for of in tuned]
    # Of each repetition the mean over the cases, so that the interval is that of repetitions.
    own, other = ([of.seconds(name, all_seconds) for of in tuned] for name in (INVARIANT, THRESHOLD))
    means = [
        geometric_mean(theirs[place] / ours[place] for ours, theirs in zip(own, other, strict=True))
        for place in range(min(map(len, own)))
    ]
    middle = interval_of(means)
    return Finding(
        claim,
        paper,
        f"{times_as_fast(middle.middle)} times in the mean ({ratio_range(one.middle for one in found)})",
        _at_least(middle, OF_STOCKS),
        "The generated streams in place of the patent's stocks are bars by days, trades that drift, and events of "
        "which one type flaps.",
    )


def fewer_alarms(tuned: Sequence[Tuned]) -> Finding:
    """Figures 7C, 7G, 8C, 8G."""
    alarms = [[of.mean(name, "alarms") for name in (INVARIANT, THRESHOLD, UNCONDITIONAL)] for of in tuned]
    fewer = sum(invariants < threshold < always for invariants, threshold, always in alarms)
    silent = sum(threshold == 0 for _, threshold, _ in alarms)
    never = sum(invariants < always and threshold < always for invariants, threshold, always in alarms)
    return Finding(
        "invariants plan anew less often than the best threshold, and that less than always",
        "few in both streams",
        f"so in {fewer} of {len(alarms)} cases; both less than always in {never}",
        Verdict.HOLDS if fewer == len(alarms) else Verdict.DIFFERS,
        f"The t that was the best one elsewhere asks for no plan at all in {silent} of the cases: it saves planning, "
        "and misses changes. The time that is lost by worse plans is in the tables of the parts.",
    )


def little_overhead(tuned: Sequence[Tuned]) -> Finding:
    """Figures 7D, 7H, 8D, 8H."""
    shares = [
        (of.mean(INVARIANT, "deciding") + of.mean(INVARIANT, "planning"))
        / sum(of.mean(INVARIANT, name) for name in ("deciding", "planning", "detecting"))
        for of in tuned
    ]
    first = sum(
        of.mean(STATIC, "planning") > OVERHEAD * (of.mean(STATIC, "planning") + of.mean(STATIC, "detecting"))
        for of in tuned
    )
    return Finding(
        "with invariants, deciding and planning take little of the time",
        "below 1 %",
        share_range(shares),
        Verdict.HOLDS if max(shares) < OVERHEAD else Verdict.DIFFERS,
        "These cases were chosen because a plan is dear in them. The first plan alone, which every decision function "
        f"makes, is more than 1 % of the static plan's time in {first} of {len(tuned)}.",
    )


def static_is_ahead_in_stocks(tuned: Sequence[Tuned]) -> Finding:
    """Figure 8, on the static plan."""
    claim, paper = "in the stocks, the static plan is decidedly ahead of always planning anew", "decidedly ahead"
    if not tuned:
        return not_measured(claim, paper)
    found = [of.ahead_of(STATIC, UNCONDITIONAL) for of in tuned]
    ahead = sum(one.place is Place.AHEAD for one in found)
    verdict = Verdict.HOLDS if ahead == len(found) else Verdict.DIFFERS
    if verdict is Verdict.DIFFERS and all(one.place is not Place.BEHIND for one in found):
        verdict = Verdict.UNDECIDED
    return Finding(
        claim,
        paper,
        f"{ratio_range(one.middle for one in found)} times; ahead in {ahead} of {len(found)} cases",
        verdict,
        "Always planning anew pays for a plan at each decision, whatever it brings: planning takes "
        f"{_overhead_range(tuned, UNCONDITIONAL)} of its time.",
    )


def more_for_trees(tuned: Sequence[Tuned]) -> Finding:
    """The last observation."""
    claim, paper = "invariants gain more with zstream than with greedy", "considerably more in all experiments"
    pairs = [
        (one, other)
        for one in tuned
        for other in tuned
        if (one.case.planner, other.case.planner) == ("zstream", "greedy")
        and (one.case.part, one.case.often) == (other.case.part, other.case.often)
    ]
    if not pairs:
        return not_measured(claim, paper)
    found = []
    for one, other in pairs:
        of_trees, of_orders = (
            [
                static / own
                for static, own in zip(of.seconds(STATIC, all_seconds), of.seconds(INVARIANT, all_seconds), strict=True)
            ]
            for of in (one, other)
        )
        found.append(interval_of([tree / order for tree, order in zip(of_trees, of_orders, strict=True)]))
    ahead = sum(one.place is Place.AHEAD for one in found)
    verdict = Verdict.HOLDS if ahead == len(found) else Verdict.UNDECIDED
    if any(one.place is Place.BEHIND for one in found):
        verdict = Verdict.DIFFERS
    return Finding(
        claim,
        paper,
        f"gains over the static plan are {ratio_range(one.middle for one in found)} times those of greedy",
        verdict,
        f"Both planners run over the same streams; zstream is ahead in {ahead} of {len(found)} comparisons of their "
        "gains.",
    )


def average_is_near_the_best(tuned: Sequence[Tuned]) -> Finding:
    """The validation of the average relative difference, judged by the throughput that it has."""
    claim, paper = "the average relative difference is near the best d", "87 % to 92 % alike"
    own = [of for of in tuned if AVERAGE in of.case.names and of.case.part != FREQUENCY]
    if not own:
        return not_measured(claim, paper)
    found = [of.ahead_of(AVERAGE, INVARIANT) for of in own]
    least = min(found, key=lambda one: one.middle)
    return Finding(
        claim,
        paper,
        f"{min(one.middle for one in found):.0%} to {max(one.middle for one in found):.0%} of the throughput",
        _at_least(least, WITHIN),
        "The patent compares the two values of d; here the throughput is compared that they lead to.",
    )


def _overhead_range(tuned: Sequence[Tuned], name: str) -> str:
    """The least and the greatest share of all time that deciding and planning take by a decision function."""
    there = [of for of in tuned if name in (INVARIANT, THRESHOLD, *of.case.names)]
    return share_range(
        (of.mean(name, "deciding") + of.mean(name, "planning"))
        / sum(of.mean(name, figure) for figure in ("deciding", "planning", "detecting"))
        for of in there
    )


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
