"""What PVLDB'18 found about plans, and whether the cells of `cep experiment join_plans` show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import Finding, geometric_mean, rank_correlation, ratio_range
from benchmarks.experiments.join_plans.experiment import (
    ALPHA,
    ANY,
    CHAIN,
    CONSUMED,
    CONTIGUOUS,
    LARGE,
    ORDERS,
    PATTERNS,
    STRATEGY,
    TREE,
    TREES,
    WEIGHED,
)
from benchmarks.experiments.join_plans.figures import (
    DP_B,
    DP_LD,
    II,
    candidates_tell,
    changed_by_alpha,
    dearer_is_slower,
    distinct_plans,
    figure,
    gains_by,
    held_by,
    kleene_memory,
    listed,
    mean,
    pairs_by_alpha,
    pairs_of,
    per_s,
    rows_of,
    share_of_linear,
    share_of_optimal,
    total_gain,
)
from benchmarks.experiments.join_plans.patterns import SEQUENCE, SETS
from benchmarks.experiments.join_plans.streams import STOCKS
from cep_pipeline.cli.figures import format_seconds, times_as_fast

EFREQ, ZSTREAM, TRIVIAL, GREEDY = "event_frequency", "zstream", "trivial", "greedy"
LEAST_GAIN, MOST_GAIN = 1.7, 2.7
MOST_TREE_GAIN = 7.6
CLOSE = 0.9
"""A throughput of so much of another's is close to it."""
PREDICTS = 0.8
"""Least rank correlation, of either sign, by which a cost predicts what happens."""
LESS_MEMORY = 0.85
TREES_FASTER = 1.2
QUICK_S, PAPERS_HOURS = 1.0, 50


def all_findings(rows: Sequence[Row]) -> list[Finding]:
    """The paper's findings with the figures of the rows of planners (`by_planner`)."""
    stocks = [row for row in rows if row["part"] == PATTERNS and row["stream"] == STOCKS]
    large = [row for row in rows if row["part"] == LARGE]
    return [
        orders_gain(stocks),
        trees_gain(stocks),
        local_search_is_close(stocks),
        cost_predicts(stocks, CHAIN, "orders"),
        cost_predicts(stocks, TREE, "trees"),
        cost_predicts_memory(stocks),
        orders_need_less_memory(stocks),
        trees_beat_orders(stocks),
        exact_plans_are_cheaper(large),
        heuristics_are_quick(large),
        exact_search_takes_long(large),
        alpha_trades([row for row in rows if row["part"] == ALPHA]),
        gains_shrink([row for row in rows if row["part"] == STRATEGY]),
        pattern_order_wins([row for row in rows if row["part"] == STRATEGY]),
    ]


def orders_gain(rows: Sequence[Row]) -> Finding:
    """Figure 4a."""
    expected = (
        f"DP-LD's orders have {LEAST_GAIN} (Kleene) to {MOST_GAIN} times (conjunctions) the throughput of EFREQ's"
    )
    gains = gains_by(rows, "set", DP_LD, EFREQ)
    if not gains:
        return _missing(expected)
    together = {kind: total_gain(rows_of(rows, set=kind), DP_LD, EFREQ) for kind in gains}
    measured = (
        f"{listed(gains)} in the average throughput of the patterns of a set; {listed(together)} in the seconds of "
        "all of them together"
    )
    return Finding(expected, measured, min(gains.values()) >= LEAST_GAIN, cheap_patterns(rows, DP_LD, EFREQ, CHAIN))


def trees_gain(rows: Sequence[Row]) -> Finding:
    """Figure 6b."""
    expected = (
        f"DP-B's gain over ZSTREAM on sequences grows with their size, from 1.2 times for 3 events to {MOST_TREE_GAIN} "
        "for 7"
    )
    own = rows_of(rows, set=SEQUENCE)
    gains = gains_by(own, "size", DP_B, ZSTREAM)
    if len(gains) < 2:
        return _missing(expected)
    together = {size: total_gain(rows_of(own, size=size), DP_B, ZSTREAM) for size in gains}
    sizes = list(gains)
    grows = rank_correlation([cast(float, size) for size in sizes], list(gains.values())) >= PREDICTS
    measured = (
        f"{listed(gains)} events in average throughput; {listed(together)} in the seconds of all patterns of a size"
    )
    holds = grows and gains[sizes[-1]] >= MOST_TREE_GAIN / 2
    by_set = {kind: total_gain(rows_of(rows, set=kind), DP_B, ZSTREAM) for kind in SETS if rows_of(rows, set=kind)}
    why = (
        f"{cheap_patterns(own, DP_B, ZSTREAM, TREE)} The order of a sequence, which ZSTREAM keeps, also "
        "bounds what its "
        f"joins look at; where there is none, it is worse: by set, in seconds of all patterns, {listed(by_set)}."
    )
    return Finding(expected, measured, holds, why)


def local_search_is_close(rows: Sequence[Row]) -> Finding:
    """Section 7.3 on figures 4 and 5."""
    expected = "iterative improvement (II-RANDOM, II-GREEDY) comes close to DP-LD"
    ratios = [gain for name in II for gain in gains_by(rows, "set", name, DP_LD).values()]
    if not ratios:
        return _missing(expected)
    optimal = share_of_optimal(rows)
    measured = (
        f"its average throughput is {ratio_range(ratios)} times DP-LD's; {optimal:.0%} of its orders are of least cost"
    )
    return Finding(expected, measured, min(ratios) >= CLOSE)


def cost_predicts(rows: Sequence[Row], mechanism: str, kind: str) -> Finding:
    """Figure 16a."""
    expected = f"the cost of {kind} predicts their throughput"
    plans = distinct_plans(rows, mechanism)
    if len(plans) < 3:
        return _missing(expected)
    overall = rank_correlation([figure(row, "ln_cost") for row in plans], [per_s(row) for row in plans])
    right = dearer_is_slower(plans)
    measured = (
        f"over {len(plans)} plans of all patterns the rank correlation of cost and throughput is {overall:.2f}; of two "
        f"plans of one pattern whose costs differ by half or more, the cheaper one is the faster one in {right:.0%}"
    )
    why = (
        "The cost counts the partial matches that are alive; what a plan does beside it, the candidates that it tests "
        f"and reading the stream, {candidates_tell(plans)}"
    )
    return Finding(expected, measured, overall <= -PREDICTS, why)


def cost_predicts_memory(rows: Sequence[Row]) -> Finding:
    """Figure 16b."""
    expected = "what is held in memory grows with the cost"
    plans = [row for mechanism in (CHAIN, TREE) for row in distinct_plans(rows, mechanism)]
    if len(plans) < 3:
        return _missing(expected)
    found = {
        kind: rank_correlation([figure(row, "ln_cost") for row in own], [figure(row, "held") for row in own])
        for kind, own in (("orders", distinct_plans(rows, CHAIN)), ("trees", distinct_plans(rows, TREE)))
        if len(own) > 2
    }
    measured = "rank correlation of cost and most partial matches and events held: " + listed(found, times=False)
    why = (
        "The most held at a time is that of the busiest moment, the cost is that of the average window; and the lazy "
        "chain buffers the events of types that it binds late, which the cost does not count (the paper says so)."
    )
    return Finding(expected, measured, min(found.values()) >= PREDICTS, why)


def orders_need_less_memory(rows: Sequence[Row]) -> Finding:
    """Figure 5a."""
    expected = "the orders of join algorithms need 65 to 85% of the memory of EFREQ's"
    shares = {
        kind: mean(held_by(rows_of(rows, set=kind, planner=DP_LD)))
        / mean(held_by(rows_of(rows, set=kind, planner=EFREQ)))
        for kind in SETS
        if rows_of(rows, set=kind, planner=EFREQ)
    }
    if not shares:
        return _missing(expected)
    measured = f"DP-LD's hold {listed(shares, times=False)} of what EFREQ's hold, on average"
    why = (
        "Averages are those of few patterns that hold much; the paper measured bytes of a whole Java system, of which "
        "partial matches are a part."
    )
    return Finding(expected, measured, round(max(shares.values()), 2) <= LESS_MEMORY, why)


def trees_beat_orders(rows: Sequence[Row]) -> Finding:
    """Section 7.3 on figures 4 and 5."""
    expected = "methods of trees greatly outperform those of orders"
    ratios = gains_by(rows, "set", DP_B, DP_LD)
    if not ratios:
        return _missing(expected)
    costs = [
        figure(order, "ln_cost") - figure(tree, "ln_cost")
        for order, tree in pairs_of(rows, DP_LD, DP_B)
        if figure(tree, "ln_cost") < figure(order, "ln_cost")
    ]
    linear = share_of_linear(rows)
    measured = f"DP-B's trees have {listed(ratios)} the throughput of DP-LD's orders"
    why = (
        f"{linear:.0%} of the cheapest trees are left-deep here, so that both do the same work and the mechanisms are "
        f"what is compared; a tree's cost also counts its leaves, and is the lower one in {len(costs)} patterns. "
        f"Under KL the trees hold {times_as_fast(kleene_memory(rows))} times as much as the orders: a "
        "leaf stores every "
        "list, where the chain makes lists once the other events are there."
    )
    return Finding(expected, measured, min(ratios.values()) >= TREES_FASTER, why)


def exact_plans_are_cheaper(rows: Sequence[Row]) -> Finding:
    """Figure 17a."""
    expected = "for large patterns the exact algorithms' plans are cheaper than heuristic ones, by up to 57 times"
    if not rows:
        return _missing(expected)
    largest = max(figure(row, "size") for row in rows)
    ratios = {
        name: max(
            math.exp(figure(one, "ln_cost") - figure(best, "ln_cost"))
            for one, best in pairs_of(rows, name, DP_LD if name in ORDERS else DP_B)
        )
        for name in (GREEDY, *II, ZSTREAM, "zstream_ordered")
    }
    efreq = geometric_mean(
        math.exp(figure(one, "ln_cost") - figure(best, "ln_cost"))
        for one, best in pairs_of(rows_of(rows, size=largest), EFREQ, DP_LD)
    )
    measured = (
        f"at most {listed(ratios)} the cost of the exact plan of their kind; EFREQ's orders of {largest:g} events are "
        f"{times_as_fast(efreq)} times as dear as DP-LD's (geometric mean)"
    )
    return Finding(expected, measured, max(ratios.values()) >= 2.0)


def heuristics_are_quick(rows: Sequence[Row]) -> Finding:
    """Figure 17b: all but dynamic programming."""
    expected = "all algorithms but the exact ones plan the largest patterns, of 22 events, in under a second"
    if not rows:
        return _missing(expected)
    largest = max(figure(row, "size") for row in rows)
    own = rows_of(rows, size=largest)
    slowest = {
        name: max(figure(row, "planning_s") for row in own if row["planner"] == name)
        for name in (*ORDERS, *TREES)
        if name not in (DP_LD, DP_B)
    }
    name = max(slowest, key=lambda key: slowest[key])
    measured = f"{name}, the slowest, takes {format_seconds(slowest[name])} for {largest:g} events"
    return Finding(expected, measured, slowest[name] < QUICK_S)


def exact_search_takes_long(rows: Sequence[Row]) -> Finding:
    """Figure 17b: DP-B."""
    expected = f"DP-B takes over {PAPERS_HOURS} hours for 22 events, which limits it to small patterns"
    if not rows:
        return _missing(expected)
    largest = max(figure(row, "size") for row in rows)
    seconds = {
        name: max(figure(row, "planning_s") for row in rows if row["planner"] == name and row["size"] == largest)
        for name in (DP_LD, DP_B)
    }
    measured = (
        f"for {largest:g} events DP-B takes {format_seconds(seconds[DP_B])} and DP-LD {format_seconds(seconds[DP_LD])}"
    )
    why = (
        "The search is compiled, runs on all cores, and gives up sets of which no tree can be cheaper than the best "
        "tree over a heuristic's order; what it returns is the optimum all the same."
    )
    return Finding(expected, measured, seconds[DP_B] >= PAPERS_HOURS * 3600, why)


def alpha_trades(rows: Sequence[Row]) -> Finding:
    """Figure 18."""
    expected = "a greater alpha lowers latency, and throughput with it"
    alphas = sorted({figure(row, "alpha") for row in rows})
    if len(alphas) < 2:
        return _missing(expected)
    latency: dict[str, float] = {}
    throughput: dict[str, float] = {}
    for name in WEIGHED:
        pairs = pairs_by_alpha(rows, name, alphas[0], alphas[-1])
        latency[name] = sum(figure(b, "after_last") for _, b in pairs) / max(
            sum(figure(a, "after_last") for a, _ in pairs), 1e-9
        )
        throughput[name] = mean([per_s(b) for _, b in pairs]) / mean([per_s(a) for a, _ in pairs])
    changed = changed_by_alpha(rows, alphas[0], alphas[-1])
    measured = (
        f"from alpha = {alphas[0]:g} to {alphas[-1]:g} the candidates looked at after the last event become "
        f"{listed(latency)} as many, and average throughput {ratio_range(throughput.values())} times what it was"
    )
    why = (
        f"{changed:.0%} of the plans change between these. What follows the cost exactly or searches long "
        "trades as the "
        "paper says; GREEDY adds the cheapest step at a time, and may end with more of both. Latency weighs against "
        "partial matches in the same unit: where those are many, alpha decides among nearly equal plans only, whose "
        "throughput differs by no more than runs do."
    )
    holds = max(latency.values()) <= 1.0 and min(latency.values()) < 0.9 and min(throughput.values()) < 1.0
    return Finding(expected, measured, holds, why)


def gains_shrink(rows: Sequence[Row]) -> Finding:
    """Figure 19: skip till next match."""
    expected = "where an event is in one match only, join algorithms gain less than under skip till any match"
    found = {}
    for strategy in (ANY, CONSUMED):
        own = rows_of(rows, strategy=strategy)
        if own:
            found[strategy] = total_gain(own, DP_LD, EFREQ)
    if len(found) < 2:
        return _missing(expected)
    measured = f"DP-LD over EFREQ, in the seconds of all patterns: {listed(found)}"
    why = (
        "CONSUME MATCHED is a last step behind every mechanism, which finds all matches first; so partial matches are "
        "as many as without it, and only the dropping of matches, the same for all plans, comes on top."
    )
    return Finding(expected, measured, found[CONSUMED] < found[ANY], why)


def pattern_order_wins(rows: Sequence[Row]) -> Finding:
    """Figure 19: contiguity."""
    expected = "under contiguity the pattern's own order is best"
    own = rows_of(rows, strategy=CONTIGUOUS)
    if not own:
        return _missing(expected)
    means = {name: mean([per_s(row) for row in own if row["planner"] == name]) for name in ORDERS}
    best = max(means[name] for name in ORDERS if name != TRIVIAL)
    nfab = mean([per_s(row) for row in own if row["planner"] == "nfab"])
    measured = (
        f"TRIVIAL has {times_as_fast(means[TRIVIAL] / best)} times the average throughput of the best "
        "other order; NFA^b, "
        f"which ends a run at the first event that does not fit, {times_as_fast(nfab / best)} times"
    )
    why = (
        "The chain finds the next event through conditions on the events' numbers, in whatever order, and does not end "
        "a run at the first gap as an automaton of this strategy does: a rare type first saves it instances here, too."
    )
    return Finding(expected, measured, means[TRIVIAL] >= best, why)


def cheap_patterns(rows: Sequence[Row], better: str, worse: str, mechanism: str) -> str:
    """Why an average over patterns shows less of a gain, by the figures."""
    floor = min((figure(row, "seconds") for row in rows if row.get("mechanism") == mechanism), default=0.0)
    pairs = pairs_of(rows, better, worse)
    if not pairs or not floor:
        return ""
    cheap = [pair for pair in pairs if figure(pair[1], "seconds") < 2 * floor]
    dear = [figure(b, "seconds") / figure(a, "seconds") for a, b in pairs if figure(b, "seconds") >= 2 * floor]
    text = (
        f"An average throughput is that of the cheap patterns: in {len(cheap)} of {len(pairs)} even the "
        "worse plan takes "
        f"less than twice as long as the cheapest run ({format_seconds(floor)}), which reads the stream and little else"
    )
    if dear:
        text += f"; over the others the gain is {times_as_fast(geometric_mean(dear))} (geometric mean)"
    return text + ". The paper's system spends its time on partial matches throughout."


def _missing(expected: str) -> Finding:
    return Finding(expected, "nothing that it is about", None)
