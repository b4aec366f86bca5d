"""Findings of PVLDB'18 about plans, compared with the cells of `cep experiment join_plans`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean
from typing import cast

from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.findings import (
    Finding,
    Verdict,
    not_measured,
    rank_correlation,
    said_of_noise,
    verdict_at_least,
    verdict_at_most,
)
from benchmarks.experiments.join_plans.experiment import (
    ALPHA,
    CHAIN,
    CONTIGUOUS,
    LARGE,
    ORDERS,
    PATTERNS,
    STRATEGY,
    TREE,
    TREES,
)
from benchmarks.experiments.join_plans.figures import (
    DP_B,
    DP_LD,
    EFREQ,
    II,
    ZSTREAM,
    Bounds,
    average_rate,
    changes_by_alpha,
    correlation_of,
    distinct_plans,
    gains_by,
    greatest_of,
    held_share,
    least_of,
    middle_of,
    most_dear,
    noise_of,
    pairs_by,
    quotient,
    range_of,
    share_of_linear,
    share_of_optimal,
)
from benchmarks.experiments.join_plans.patterns import SEQUENCE
from benchmarks.experiments.join_plans.streams import STOCKS
from cep_pipeline.cli.terminal import format_seconds, times_as_fast

TRIVIAL = "trivial"
LEAST_GAIN, MOST_GAIN = 1.7, 2.7
MOST_TREE_GAIN = 7.6
CLOSE = 0.9
"""A throughput of so much of another's is close to it."""
PREDICTS = 0.8
"""Least rank correlation, of either sign, by which a cost predicts what happens."""
LEAST_MEMORY, MOST_MEMORY = 0.645, 0.855
"""65 to 85%, rounded."""
TREES_FASTER = 1.2
CHEAPER = 2.0
MUCH_LOWER = 0.9
QUICK_S, PAPERS_HOURS = 1.0, 50
LIMIT_DECIDES = "Runs that reached the time limit leave it open."
FAR = 1e9
"""A ratio beyond all that are measured, in the place of an infinite one."""


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The paper's findings with the figures of the rows of planners (`by_planner`)."""
    stocks = rows_of(rows, part=PATTERNS, stream=STOCKS)
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    noise = noise_of(rows)
    found = [
        orders_gain(stocks, noise),
        trees_gain(stocks, noise),
        local_search_is_close(stocks, noise),
        cost_predicts(stocks, CHAIN, "orders"),
        cost_predicts(stocks, TREE, "trees"),
        cost_predicts_memory(stocks),
        orders_need_less_memory(stocks),
        trees_beat_orders(stocks, noise),
        exact_plans_are_cheaper(large),
        heuristics_are_quick(large, noise),
        exact_search_takes_long(large, noise),
        alpha_lowers_latency(alpha),
        alpha_lowers_throughput(alpha, noise),
        pattern_order_wins(strategy, noise),
    ]
    of_limit = {place for place, one in enumerate(found) if one.reason.startswith(LIMIT_DECIDES)}
    of_noise = said_of_noise(found)
    return [one if place in of_limit else of_noise[place] for place, one in enumerate(found)]


def found_between(
    claim: str, paper: str, ours: str, figure: Bounds, verdict: Callable[[float], Verdict], reason: str
) -> Finding:
    """A finding on a figure that is known between bounds: undecided where they have different verdicts."""
    low, high = (verdict(min(max(bound, 1 / FAR), FAR)) for bound in (figure.low, figure.high))
    if {low, high} == {Verdict.HOLDS, Verdict.SURPASSED}:
        return Finding(claim, paper, ours, Verdict.HOLDS, reason)
    if low is not high:
        return Finding(claim, paper, ours, Verdict.UNDECIDED, f"{LIMIT_DECIDES} {reason}")
    return Finding(claim, paper, ours, low, reason)


def orders_gain(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 4a."""
    claim, paper = "DP-LD's orders run faster than EFREQ's in every set of patterns", "1.7 to 2.7 times"
    gains = list(gains_by(rows, "set", DP_LD, EFREQ).values())
    if not gains:
        return not_measured(claim, paper)
    reason = (
        "An average throughput is that of the cheap patterns, and on some of them even the worse plan does little "
        "but read the stream. The tables of gains show it without those, and for the time of all patterns together. "
        "The paper's system spends its time on partial matches throughout."
    )
    return found_between(
        claim,
        paper,
        f"{range_of(gains)} times",
        least_of(gains),
        lambda gain: verdict_at_least(gain, LEAST_GAIN, noise=noise, surpassed=MOST_GAIN + 0.05),
        reason,
    )


def trees_gain(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 6b."""
    claim = "the gain of DP-B's trees over ZSTREAM's on sequences grows with their size"
    paper = f"1.2 times for 3 events, {MOST_TREE_GAIN} for 7"
    by_size = gains_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    gains = {cast(float, size): gain for size, gain in by_size.items()}
    if len(gains) < 2:
        return not_measured(claim, paper)
    least, most = min(gains), max(gains)
    grows = rank_correlation([*gains], [gain.low for gain in gains.values()]) >= PREDICTS

    def verdict(gain: float) -> Verdict:
        found = verdict_at_least(gain, MOST_TREE_GAIN / 2, noise=noise, surpassed=MOST_TREE_GAIN + 0.05)
        return found if grows or found is Verdict.DIFFERS else Verdict.DIFFERS

    reason = (
        "ZSTREAM keeps the order of a sequence, which here also bounds what its joins look at. The gain is greater "
        "where patterns have no order (conjunctions in the tables of gains). And an average is that of the cheap "
        "patterns, as above."
    )
    ours = f"{gains[least].text()} times for {least:g} events, {gains[most].text()} for {most:g}"
    return found_between(claim, paper, ours, gains[most], verdict, reason)


def local_search_is_close(rows: Sequence[Row], noise: float) -> Finding:
    """Section 7.3 on figures 4 and 5."""
    claim, paper = "iterative improvement comes close to DP-LD", "comparable throughput"
    ratios = [gain for name in II for gain in gains_by(rows, "set", name, DP_LD).values()]
    if not ratios:
        return not_measured(claim, paper)
    ours = f"{range_of(ratios)} times; {share_of_optimal(rows):.0%} of orders cost least"
    reason = "There are few enough orders of these sizes for a local search to find the best one nearly always."
    return found_between(
        claim, paper, ours, least_of(ratios), lambda ratio: verdict_at_least(ratio, CLOSE, noise=noise), reason
    )


def cost_predicts(rows: Sequence[Row], mechanism: str, kind: str) -> Finding:
    """Figure 16a."""
    claim, paper = f"the cost of {kind} predicts their throughput", "inversely proportional"
    plans = distinct_plans(rows, mechanism)
    if len(plans) < 4:
        return not_measured(claim, paper)
    found = correlation_of(plans, "ln_cost")
    reason = (
        f"A rank correlation of -{PREDICTS} or beyond counts as predicting. The cost counts the partial matches that "
        "are alive. A plan also tests candidates and reads the stream, which throughput pays for. Plans that reached "
        "the time limit share the last rank. The table of predictions has candidates beside the cost, and says how "
        "often the cheaper of two plans of a pattern is the faster one."
        if mechanism == CHAIN
        else "As with the cost of orders."
    )
    ours = f"rank correlation {found:.2f} over {len(plans)} plans"
    return Finding(claim, paper, ours, verdict_of_correlation(-found, len(plans)), reason)


def verdict_of_correlation(found: float, plans: int) -> Verdict:
    """The verdict on a rank correlation that should be `PREDICTS` or more.

    Notes
    -----
    A correlation over n plans is known to 1.06 / sqrt(n - 3) of its inverse hyperbolic tangent (one standard error); a
    difference within this decides nothing.
    """
    ours, bound = (math.exp(math.atanh(min(max(r, -0.999999), 0.999999))) for r in (found, PREDICTS))
    return verdict_at_least(ours, bound, noise=math.exp(1.06 / math.sqrt(plans - 3)))


def cost_predicts_memory(rows: Sequence[Row]) -> Finding:
    """Figure 16b."""
    claim, paper = "what is held in memory grows with the cost", "about linearly"
    plans = {
        kind: [row for row in distinct_plans(rows, mechanism) if "held" in row]
        for kind, mechanism in (("orders", CHAIN), ("trees", TREE))
    }
    found = {kind: correlation_of(own, "ln_cost", False) for kind, own in plans.items() if len(own) > 3}
    if not found:
        return not_measured(claim, paper)
    least = min(found, key=lambda kind: found[kind])
    reason = (
        "The most held at a time is that of the busiest moment; the cost is that of the average window. And the lazy "
        "chain buffers the events of types that it binds late, which the cost does not count, as the paper says. What "
        "plans hold that reached the time limit is not known, and they are left out."
    )
    ours = f"rank correlation {', '.join(f'{value:.2f} ({kind})' for kind, value in found.items())}"
    return Finding(claim, paper, ours, verdict_of_correlation(found[least], len(plans[least])), reason)


def orders_need_less_memory(rows: Sequence[Row]) -> Finding:
    """Figure 5a."""
    claim, paper = "DP-LD's orders hold less in memory than EFREQ's in every set", "65 to 85%"
    shares = [held_share(pairs) for pairs in pairs_by(rows, "set", DP_LD, EFREQ).values()]
    if not shares:
        return not_measured(claim, paper)
    reason = (
        "Averages are those of the few patterns that hold much, among those of which both runs ended within the time "
        "limit. The paper measured the bytes of a whole Java system, "
        "of which partial matches are a part; here partial matches and buffered events are counted."
    )
    known = [share.low for share in shares if not math.isinf(share.high)]
    ours = f"{min(known):.0%} to {max(known):.0%}" if known else "open"
    return found_between(
        claim,
        paper,
        ours,
        greatest_of(shares),
        lambda share: verdict_at_most(share, MOST_MEMORY, surpassed=LEAST_MEMORY),
        reason,
    )


def trees_beat_orders(rows: Sequence[Row], noise: float) -> Finding:
    """Section 7.3 on figures 4 and 5."""
    claim, paper = "trees greatly outperform orders", "greatly"
    ratios = list(gains_by(rows, "set", DP_B, DP_LD).values())
    if not ratios:
        return not_measured(claim, paper)
    reason = (
        f"{share_of_linear(rows):.0%} of DP-B's trees are left-deep here. They do the same work as an order, so that "
        "the two mechanisms are compared more than the plans. Under KL a leaf of a tree stores every list, where the "
        "chain makes lists once the other events are there; so these trees hold far more (tables of gains)."
    )
    ours = f"DP-B over DP-LD: {range_of(ratios)} times"
    return found_between(
        claim, paper, ours, least_of(ratios), lambda ratio: verdict_at_least(ratio, TREES_FASTER, noise=noise), reason
    )


def exact_plans_are_cheaper(rows: Sequence[Row]) -> Finding:
    """Figure 17a."""
    claim, paper = "exact plans of large patterns are cheaper than heuristic ones", "up to 57 times"
    if not rows:
        return not_measured(claim, paper)
    ratios = most_dear(rows)
    worst = max(ratios, key=lambda name: ratios[name])
    reason = "A type that is bound too early multiplies the cost of all that follows; in a large pattern much follows."
    ours = f"up to {times_as_fast(ratios[worst])} times ({worst})"
    return Finding(claim, paper, ours, verdict_at_least(ratios[worst], CHEAPER), reason)


def heuristics_are_quick(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 17b: all but dynamic programming."""
    claim, paper = "all but the exact algorithms plan the largest patterns quickly", "under 1 s for 22 events"
    if not rows:
        return not_measured(claim, paper)
    largest = max(number(row, "size") for row in rows)
    slowest = {
        name: max(number(row, "planning_s") for row in rows_of(rows, size=largest, planner=name))
        for name in (*ORDERS, *TREES)
        if name not in (DP_LD, DP_B)
    }
    name = max(slowest, key=lambda key: slowest[key])
    ours = f"{format_seconds(slowest[name])} for {largest:g} events ({name}, the slowest)"
    reason = "The number of plans that they look at grows with a power of the size only."
    return Finding(claim, paper, ours, verdict_at_most(slowest[name], QUICK_S, noise=noise), reason)


def exact_search_takes_long(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 17b: DP-B."""
    claim = "the exact search for trees takes so long that it is for small patterns only"
    paper = f"over {PAPERS_HOURS} hours for 22 events"
    if not rows:
        return not_measured(claim, paper)
    largest = max(number(row, "size") for row in rows)
    seconds = max(number(row, "planning_s") for row in rows_of(rows, size=largest, planner=DP_B))
    verdict = verdict_at_least(seconds, PAPERS_HOURS * 3600, noise=noise)
    reason = (
        "The search is compiled, runs on all cores, and gives up sets of which no tree can be cheaper than the best "
        "tree over a heuristic's order. Its result is the optimum all the same."
    )
    # A search that takes less time than the paper's is the better one.
    verdict = Verdict.SURPASSED if verdict is Verdict.DIFFERS else verdict
    return Finding(claim, paper, f"{format_seconds(seconds)} for {largest:g} events", verdict, reason)


def alpha_lowers_latency(rows: Sequence[Row]) -> Finding:
    """Figure 18: latency."""
    claim, paper = "a greater alpha lowers latency", "significantly"
    changes = changes_by_alpha(rows)
    if not changes:
        return not_measured(claim, paper)
    latencies = [latency for latency, _, _ in changes.values()]
    much_lower = any(latency.high < MUCH_LOWER for latency in latencies)

    def verdict(latency: float) -> Verdict:
        found = verdict_at_most(latency, 1.0)
        return found if much_lower or found is not Verdict.HOLDS else Verdict.DIFFERS

    changed = mean(share for _, _, share in changes.values())
    reason = (
        f"{changed:.0%} of the plans change between the least and the greatest alpha. The table of "
        "changes has each planner. GREEDY adds the cheapest step at a time, and may end with more of "
        "both. Where partial matches are many, latency weighs little, and alpha decides among nearly equal plans only."
    )
    ours = f"{range_of(latencies)} times the candidates after the last event"
    return found_between(claim, paper, ours, greatest_of(latencies), verdict, reason)


def alpha_lowers_throughput(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 18: throughput."""
    claim, paper = "a greater alpha lowers the throughput of most algorithms", "a considerable drop"
    changes = changes_by_alpha(rows)
    if not changes:
        return not_measured(claim, paper)
    rates = [rate for _, rate, _ in changes.values()]
    reason = "The plans that alpha exchanges are nearly equal in cost, and so is their throughput."
    middle = middle_of(rates)
    ours = f"{range_of(rates)} times, {middle.text()} in the middle"
    found = found_between(claim, paper, ours, middle, lambda rate: verdict_at_most(rate, 1.0, noise=noise), reason)
    return replace(found, reason="") if found.verdict is Verdict.HOLDS else found


def pattern_order_wins(rows: Sequence[Row], noise: float) -> Finding:
    """Figure 19: contiguity."""
    claim, paper = "under contiguity the pattern's own order is best", "best"
    own = rows_of(rows, strategy=CONTIGUOUS)
    if not own:
        return not_measured(claim, paper)
    means = {name: average_rate(rows_of(own, planner=name)) for name in ORDERS}
    ratio = quotient(means.pop(TRIVIAL), greatest_of(means.values()))
    reason = (
        "The chain finds the next event through conditions on the events' numbers, in whatever order, and does not end "
        "a run at the first gap. So a rare type first saves it instances here, too. NFA^b does end a run at the first "
        "gap (table of strategies)."
    )
    ours = f"{ratio.text()} times the best other order"
    found = found_between(claim, paper, ours, ratio, lambda rate: verdict_at_least(rate, 1.0, noise=noise), reason)
    return replace(found, reason="") if found.verdict is Verdict.HOLDS else found
