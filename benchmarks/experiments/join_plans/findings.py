"""Findings of PVLDB'18 about plans, compared with the cells of `cep experiment join_plans`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from typing import cast

from benchmarks.experiments.cells import Row, number, rows_of
from benchmarks.experiments.findings import (
    Finding,
    Measured,
    Verdict,
    finding,
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
LEAST_GAIN, MOST_GAIN, MOST_TREE_GAIN = 1.7, 2.75, 7.6
CLOSE = 0.9
"""A throughput of so much of another's is close to it."""
PREDICTS = 0.8
"""Least rank correlation, of either sign, by which a cost predicts what happens."""
LEAST_MEMORY, MOST_MEMORY = 0.645, 0.855
"""65 to 85%, rounded."""
TREES_FASTER = 1.2
CHEAPER = 2.0
MUCH_LOWER = 0.9
QUICK_S, PAPERS_S = 1.0, 50 * 3600
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
        cost_of_orders_predicts(stocks),
        cost_of_trees_predicts(stocks),
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
    of_noise = said_of_noise(found)
    return [one if one.reason.startswith(LIMIT_DECIDES) else other for one, other in zip(found, of_noise, strict=True)]


def between(figure: Bounds, verdict: Callable[[float], Verdict], **figures: object) -> Measured:
    """What is measured of a figure that is known between bounds: undecided where they have different verdicts."""
    low, high = (verdict(min(max(bound, 1 / FAR), FAR)) for bound in (figure.low, figure.high))
    if {low, high} == {Verdict.HOLDS, Verdict.SURPASSED}:
        low = high = Verdict.HOLDS
    if low is high:
        return low, {"limit": "", **figures}
    return Verdict.UNDECIDED, {"limit": f"{LIMIT_DECIDES} ", **figures}


@finding
def orders_gain(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 4a."""
    gains = list(gains_by(rows, "set", DP_LD, EFREQ).values())
    if not gains:
        return None
    verdict = partial(verdict_at_least, bound=LEAST_GAIN, noise=noise, surpassed=MOST_GAIN)
    return between(least_of(gains), verdict, gains=range_of(gains))


@finding
def trees_gain(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 6b."""
    by_size = gains_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    gains = {cast(float, size): gain for size, gain in by_size.items()}
    if len(gains) < 2:
        return None
    least, most = min(gains), max(gains)
    grows = rank_correlation([*gains], [gain.low for gain in gains.values()]) >= PREDICTS

    def verdict(gain: float) -> Verdict:
        found = verdict_at_least(gain, MOST_TREE_GAIN / 2, noise=noise, surpassed=MOST_TREE_GAIN + 0.05)
        return found if grows or found is Verdict.DIFFERS else Verdict.DIFFERS

    figures = {"of_least": gains[least].text(), "of_most": gains[most].text()}
    return between(gains[most], verdict, least=least, most=most, **figures)


@finding
def local_search_is_close(rows: Sequence[Row], noise: float) -> Measured:
    """Section 7.3 on figures 4 and 5."""
    ratios = [gain for name in II for gain in gains_by(rows, "set", name, DP_LD).values()]
    if not ratios:
        return None
    verdict = partial(verdict_at_least, bound=CLOSE, noise=noise)
    return between(least_of(ratios), verdict, ratios=range_of(ratios), optimal=share_of_optimal(rows))


@finding
def cost_of_orders_predicts(rows: Sequence[Row]) -> Measured:
    """Figure 16a."""
    return _predicts(distinct_plans(rows, CHAIN))


@finding
def cost_of_trees_predicts(rows: Sequence[Row]) -> Measured:
    """Figure 16a."""
    return _predicts(distinct_plans(rows, TREE))


def _predicts(plans: Sequence[Row]) -> Measured:
    if len(plans) < 4:
        return None
    found = correlation_of(plans, "ln_cost")
    return verdict_of_correlation(-found, len(plans)), {"found": found, "plans": len(plans)}


def verdict_of_correlation(found: float, plans: int) -> Verdict:
    """The verdict on a rank correlation that should be `PREDICTS` or more.

    Notes
    -----
    A correlation over n plans is known to 1.06 / sqrt(n - 3) of its inverse hyperbolic tangent (one standard error); a
    difference within this decides nothing.
    """
    ours, bound = (math.exp(math.atanh(min(max(r, -0.999999), 0.999999))) for r in (found, PREDICTS))
    return verdict_at_least(ours, bound, noise=math.exp(1.06 / math.sqrt(plans - 3)))


@finding
def cost_predicts_memory(rows: Sequence[Row]) -> Measured:
    """Figure 16b."""
    plans = {
        kind: [row for row in distinct_plans(rows, mechanism) if "held" in row]
        for kind, mechanism in (("orders", CHAIN), ("trees", TREE))
    }
    found = {kind: correlation_of(own, "ln_cost", False) for kind, own in plans.items() if len(own) > 3}
    if not found:
        return None
    least = min(found, key=lambda kind: found[kind])
    correlations = ", ".join(f"{value:.2f} ({kind})" for kind, value in found.items())
    return verdict_of_correlation(found[least], len(plans[least])), {"correlations": correlations}


@finding
def orders_need_less_memory(rows: Sequence[Row]) -> Measured:
    """Figure 5a."""
    shares = [held_share(pairs) for pairs in pairs_by(rows, "set", DP_LD, EFREQ).values()]
    if not shares:
        return None
    known = [share.low for share in shares if not math.isinf(share.high)]
    verdict = partial(verdict_at_most, bound=MOST_MEMORY, surpassed=LEAST_MEMORY)
    return between(greatest_of(shares), verdict, shares=f"{min(known):.0%} to {max(known):.0%}" if known else "open")


@finding
def trees_beat_orders(rows: Sequence[Row], noise: float) -> Measured:
    """Section 7.3 on figures 4 and 5."""
    ratios = list(gains_by(rows, "set", DP_B, DP_LD).values())
    if not ratios:
        return None
    verdict = partial(verdict_at_least, bound=TREES_FASTER, noise=noise)
    return between(least_of(ratios), verdict, ratios=range_of(ratios), linear=share_of_linear(rows))


@finding
def exact_plans_are_cheaper(rows: Sequence[Row]) -> Measured:
    """Figure 17a."""
    if not rows:
        return None
    ratios = most_dear(rows)
    worst = max(ratios, key=lambda name: ratios[name])
    return verdict_at_least(ratios[worst], CHEAPER), {"times": times_as_fast(ratios[worst]), "worst": worst}


@finding
def heuristics_are_quick(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 17b: all but dynamic programming."""
    if not rows:
        return None
    largest, seconds = _planning_of_largest(rows)
    slowest = max((name for name in seconds if name not in (DP_LD, DP_B)), key=lambda name: seconds[name])
    figures = {"seconds": format_seconds(seconds[slowest]), "largest": largest, "slowest": slowest}
    return verdict_at_most(seconds[slowest], QUICK_S, noise=noise), figures


@finding
def exact_search_takes_long(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 17b: DP-B."""
    if not rows:
        return None
    largest, seconds = _planning_of_largest(rows)
    verdict = verdict_at_least(seconds[DP_B], PAPERS_S, noise=noise)
    # A search that takes less time than the paper's is the better one.
    verdict = Verdict.SURPASSED if verdict is Verdict.DIFFERS else verdict
    return verdict, {"seconds": format_seconds(seconds[DP_B]), "largest": largest}


def _planning_of_largest(rows: Sequence[Row]) -> tuple[float, dict[str, float]]:
    """Events of the largest patterns, and the most seconds that each planner takes for one of them."""
    largest = max(number(row, "size") for row in rows)
    own = rows_of(rows, size=largest)
    return largest, {
        name: max(number(row, "planning_s") for row in rows_of(own, planner=name)) for name in (*ORDERS, *TREES)
    }


@finding
def alpha_lowers_latency(rows: Sequence[Row]) -> Measured:
    """Figure 18: latency."""
    changes = changes_by_alpha(rows)
    if not changes:
        return None
    latencies = [latency for latency, _, _ in changes.values()]
    much_lower = any(latency.high < MUCH_LOWER for latency in latencies)

    def verdict(latency: float) -> Verdict:
        found = verdict_at_most(latency, 1.0)
        return found if much_lower or found is not Verdict.HOLDS else Verdict.DIFFERS

    changed = mean(share for _, _, share in changes.values())
    return between(greatest_of(latencies), verdict, latencies=range_of(latencies), changed=changed)


@finding
def alpha_lowers_throughput(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 18: throughput."""
    changes = changes_by_alpha(rows)
    if not changes:
        return None
    rates = [rate for _, rate, _ in changes.values()]
    middle = middle_of(rates)
    verdict = partial(verdict_at_most, bound=1.0, noise=noise)
    return between(middle, verdict, rates=range_of(rates), middle=middle.text())


@finding
def pattern_order_wins(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 19: contiguity."""
    own = rows_of(rows, strategy=CONTIGUOUS)
    if not own:
        return None
    means = {name: average_rate(rows_of(own, planner=name)) for name in ORDERS}
    ratio = quotient(means.pop(TRIVIAL), greatest_of(means.values()))
    return between(ratio, partial(verdict_at_least, bound=1.0, noise=noise), ratio=ratio.text())
