"""The page of `cep experiment join_plans`: figures of planners in pairs, the paper's findings, charts and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean, mean, median
from typing import cast

from benchmarks.charts import Axis, Style, bar_chart, line_chart, scatter_chart
from benchmarks.experiments.experiment import Figure, Request, Row, number, rows_of
from benchmarks.experiments.findings import (
    Finding,
    Measured,
    Verdict,
    finding,
    noise_of_runs,
    rank_correlation,
    said_of_noise,
    verdict_at_least,
    verdict_at_most,
)
from benchmarks.experiments.join_plans.experiment import (
    ALPHA,
    CHAIN,
    CONTIGUOUS,
    FUSED,
    GREATEST_SELECTIVITY,
    LARGE,
    LEAST_SELECTIVITY,
    MOST_KLEENE_EVENTS,
    NFAB,
    ORDERS,
    PATTERNS,
    SEQUENCE,
    SETS,
    STOCKS,
    STRATEGIES,
    STRATEGY,
    TRAFFIC,
    TREE,
    TREES,
    WEIGHED,
    WINDOW_S,
    Sizes,
    by_planner,
    stream_named,
)
from benchmarks.experiments.page import Page, Picture, findings_page, table_across, zeros_not_drawn
from benchmarks.report import markdown_table
from cep_pipeline.charts import PALETTE
from cep_pipeline.cli.terminal import count_per_s, format_seconds, times_as_fast

EFREQ, DP_LD, ZSTREAM, DP_B = "event_frequency", "dp_left_deep", "zstream", "dp_bushy"
II = ("ii_random", "ii_greedy")
HEURISTICS = ("greedy", *II, ZSTREAM, "zstream_ordered")


Pairs = Sequence[tuple[Row, Row]]
PATTERN = ("stream", "set", "size", "number")
"""The columns that identify a pattern among the rows of a part."""


@dataclass(frozen=True)
class Bounds:
    """A figure between two bounds, which are equal where it was measured.

    Runs that reached the time limit bound the figures that are made of them on one side.
    """

    low: float
    high: float

    def text(self, shown: Callable[[float], str] = times_as_fast) -> str:
        """The figure as people read it.

        Examples
        --------
        >>> Bounds(2.0, 2.0).text(), Bounds(2.0, math.inf).text(), Bounds(0.0, 2.0).text(), Bounds(0.0, math.inf).text()
        ('2.00', '>= 2.00', '<= 2.00', 'open')
        >>> Bounds(2.0, 3.0).text(), Bounds(2.0, 2.000001).text()
        ('2.00 to 3.00', '2.00')
        """
        if math.isinf(self.high):
            return f">= {shown(self.low)}" if self.low else "open"
        if not self.low < self.high or shown(self.low) == shown(self.high):
            return shown(self.high)
        return f"{shown(self.low)} to {shown(self.high)}" if self.low else f"<= {shown(self.high)}"


def range_of(figures: Sequence[Bounds]) -> str:
    """The least and the greatest of some ratios.

    Examples
    --------
    >>> range_of([Bounds(1.2, 1.2), Bounds(3.0, math.inf)]), range_of([Bounds(2.0, 2.0)])
    ('1.20 to >= 3.00', '2.00')
    >>> range_of([Bounds(0.0, 1.5), Bounds(3.0, 3.1)]), range_of([Bounds(0.0, math.inf)])
    ('<= 1.50 to 3.10', 'open')
    """
    low, high = least_of(figures), greatest_of(figures)
    if low == high or (low.low == 0.0 and math.isinf(high.high)):
        return low.text() if low == high else "open"
    first = times_as_fast(low.low) if low.low else f"<= {times_as_fast(low.high)}"
    last = f">= {times_as_fast(high.low)}" if math.isinf(high.high) else times_as_fast(high.high)
    return first if first == last else f"{first} to {last}"


def least_of(figures: Iterable[Bounds]) -> Bounds:
    """The least of some figures."""
    own = list(figures)
    return Bounds(min(one.low for one in own), min(one.high for one in own))


def greatest_of(figures: Iterable[Bounds]) -> Bounds:
    """The greatest of some figures."""
    own = list(figures)
    return Bounds(max(one.low for one in own), max(one.high for one in own))


def middle_of(figures: Iterable[Bounds]) -> Bounds:
    """The median of some figures."""
    own = list(figures)
    return Bounds(median(one.low for one in own), median(one.high for one in own))


def quotient(one: Bounds, other: Bounds) -> Bounds:
    """A figure over another one, neither of them below zero."""
    low = one.low / other.high if other.high and not math.isinf(other.high) else 0.0
    return Bounds(low, one.high / other.low if other.low else math.inf)


def reached_limit(row: Row) -> bool:
    """True if the run was ended at the time limit."""
    return bool(row.get("reached_limit"))


def per_s(row: Row) -> float:
    """Events a second of a run; of one that reached the limit, the most that they can be."""
    return number(row, "events") / number(row, "seconds")


def rate_of(row: Row) -> Bounds:
    """Events a second of a run."""
    return Bounds(0.0 if reached_limit(row) else per_s(row), per_s(row))


def average_rate(rows: Sequence[Row]) -> Bounds:
    """Average of the events a second of runs."""
    rates = [rate_of(row) for row in rows]
    return Bounds(mean(rate.low for rate in rates), mean(rate.high for rate in rates))


def total_seconds(rows: Iterable[Row]) -> Bounds:
    """Seconds of all runs together."""
    own = list(rows)
    total = sum(number(row, "seconds") for row in own)
    return Bounds(total, math.inf if any(map(reached_limit, own)) else total)


def finished_by_all(rows: Sequence[Row], pattern: Sequence[str] = PATTERN) -> list[Row]:
    """The rows of the patterns of which no run reached the limit, so that counts of the same patterns are compared."""
    ended = {tuple(row.get(name) for name in pattern) for row in rows if reached_limit(row)}
    return [row for row in rows if tuple(row.get(name) for name in pattern) not in ended]


def noise_of(rows: Iterable[Row]) -> float:
    """The factor by which a run differs from the same one measured again, in the middle."""
    return noise_of_runs([(number(row, "least_s"), number(row, "next_s")) for row in rows if "next_s" in row])


def pairs_of(rows: Iterable[Row], one: str, other: str) -> list[tuple[Row, Row]]:
    """The rows of two planners on the same patterns."""
    by_pattern: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in (*PATTERN, "alpha", "strategy"))
        by_pattern.setdefault(key, {})[str(row["planner"])] = row
    return [(found[one], found[other]) for found in by_pattern.values() if one in found and other in found]


def pairs_by(rows: Sequence[Row], field: str, one: str, other: str) -> dict[Figure, list[tuple[Row, Row]]]:
    """The rows of two planners on the same patterns, for each value of a field that has such patterns."""
    values = dict.fromkeys(row[field] for row in rows)
    pairs = {value: pairs_of(rows_of(rows, **{field: value}), one, other) for value in values}
    return {value: own for value, own in pairs.items() if own}


def decided(pairs: Pairs) -> Pairs:
    """The pairs of which one run at least ended within the limit: two lower bounds say nothing of each other."""
    return [(a, b) for a, b in pairs if not (reached_limit(a) and reached_limit(b))]


def average_gain(pairs: Pairs) -> Bounds:
    """Ratio of the average throughputs of two planners, the better one first."""
    own = decided(pairs)
    if not own:
        return Bounds(0.0, math.inf)
    return quotient(average_rate([a for a, _ in own]), average_rate([b for _, b in own]))


def total_gain(pairs: Pairs) -> Bounds:
    """Ratio of the seconds of two planners over all patterns together, the better one first."""
    own = decided(pairs)
    return quotient(total_seconds(b for _, b in own), total_seconds(a for a, _ in own))


def held_share(pairs: Pairs) -> Bounds:
    """The average of what the first planner's plans hold, relative to that of the second's, where both ended."""
    own = [(a, b) for a, b in pairs if not (reached_limit(a) or reached_limit(b))]
    held = [mean(number(row, "held") for row in rows) for rows in zip(*own, strict=True)]
    return quotient(*(Bounds(one, one) for one in held)) if own else Bounds(0.0, math.inf)


def gains_by(rows: Sequence[Row], field: str, better: str, worse: str) -> dict[Figure, Bounds]:
    """Ratio of the average throughputs of two planners for each value of a field."""
    return {value: average_gain(pairs) for value, pairs in pairs_by(rows, field, better, worse).items()}


def share_of_optimal(rows: Sequence[Row]) -> float:
    """Share of the orders of local search that cost no more than the cheapest."""
    pairs = [pair for name in II for pair in pairs_of(rows, name, DP_LD)]
    return sum(number(a, "ln_cost") <= number(b, "ln_cost") + 1e-6 for a, b in pairs) / max(len(pairs), 1)


def distinct_plans(rows: Sequence[Row], mechanism: str) -> list[Row]:
    """One row for each plan that ran on a mechanism."""
    plans: dict[tuple[object, ...], Row] = {}
    for row in rows_of(rows, mechanism=mechanism):
        plans.setdefault(tuple(row.get(name) for name in ("set", "size", "number", "plan")), row)
    return list(plans.values())


def correlation_of(plans: Sequence[Row], cause: str, with_throughput: bool = True) -> float:
    """Rank correlation, over plans, of a figure with throughput, or with what is held.

    Plans that reached the limit share the last rank of throughput; counts are those of the plans that have them.
    """
    plans = [row for row in plans if cause in row and (with_throughput or "held" in row)]
    effects = [per_s(row) if with_throughput else number(row, "held") for row in plans]
    return rank_correlation([number(row, cause) for row in plans], effects)


def share_of_linear(rows: Sequence[Row]) -> float:
    """Share of the cheapest trees that join one variable at a time: no join is of two joins."""
    trees = [str(row["plan"]) for row in rows_of(rows, planner=DP_B)]
    return sum("), (" not in text for text in trees) / max(len(trees), 1)


def most_dear(rows: Sequence[Row]) -> dict[str, float]:
    """Heuristic -> the most that a plan of it costs, relative to the exact plan of its kind."""
    return {
        name: max(
            math.exp(number(one, "ln_cost") - number(best, "ln_cost"))
            for one, best in pairs_of(rows, name, DP_LD if name in ORDERS else DP_B)
        )
        for name in HEURISTICS
    }


def changes_by_alpha(rows: Sequence[Row]) -> dict[str, tuple[Bounds, Bounds, float]]:
    """Planner -> latency, throughput, each with the greatest weight of latency over that with none; changed plans.

    Latency is counted, where both runs ended: candidates looked at after the last
    event. The third figure is the share of plans that are others.
    """
    alphas = sorted({number(row, "alpha") for row in rows})
    changes = {}
    for name in WEIGHED:
        low, high = (
            {(row["size"], row["number"]): row for row in rows_of(rows, planner=name, alpha=alpha)}
            for alpha in (alphas[0], alphas[-1])
        )
        pairs = [(high[key], low[key]) for key in high if key in low]
        ended = [pair for pair in pairs if not any(map(reached_limit, pair))]
        after = [sum(number(row, "after_last") for row in own) for own in zip(*ended, strict=True)]
        latency = after[0] / max(after[1], 1e-9) if after else 0.0
        changes[name] = (
            Bounds(latency, latency if after else math.inf),
            average_gain(pairs),
            mean(a["plan"] != b["plan"] for a, b in pairs),
        )
    return changes


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
    verdict = partial(verdict_at_least, bound=LEAST_GAIN, noise=noise, surpassed=MOST_GAIN)
    return between(least_of(gains), verdict, gains=range_of(gains))


@finding
def trees_gain(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 6b."""
    by_size = gains_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    gains = {cast(float, size): gain for size, gain in by_size.items()}
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
    least = min(found, key=lambda kind: found[kind])
    correlations = ", ".join(f"{value:.2f} ({kind})" for kind, value in found.items())
    return verdict_of_correlation(found[least], len(plans[least])), {"correlations": correlations}


@finding
def orders_need_less_memory(rows: Sequence[Row]) -> Measured:
    """Figure 5a."""
    shares = [held_share(pairs) for pairs in pairs_by(rows, "set", DP_LD, EFREQ).values()]
    known = [share.low for share in shares if not math.isinf(share.high)]
    verdict = partial(verdict_at_most, bound=MOST_MEMORY, surpassed=LEAST_MEMORY)
    return between(greatest_of(shares), verdict, shares=f"{min(known):.0%} to {max(known):.0%}" if known else "open")


@finding
def trees_beat_orders(rows: Sequence[Row], noise: float) -> Measured:
    """Section 7.3 on figures 4 and 5."""
    ratios = list(gains_by(rows, "set", DP_B, DP_LD).values())
    verdict = partial(verdict_at_least, bound=TREES_FASTER, noise=noise)
    return between(least_of(ratios), verdict, ratios=range_of(ratios), linear=share_of_linear(rows))


@finding
def exact_plans_are_cheaper(rows: Sequence[Row]) -> Measured:
    """Figure 17a."""
    ratios = most_dear(rows)
    worst = max(ratios, key=lambda name: ratios[name])
    return verdict_at_least(ratios[worst], CHEAPER), {"times": times_as_fast(ratios[worst]), "worst": worst}


@finding
def heuristics_are_quick(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 17b: all but dynamic programming."""
    largest, seconds = _planning_of_largest(rows)
    slowest = max((name for name in seconds if name not in (DP_LD, DP_B)), key=lambda name: seconds[name])
    figures = {"seconds": format_seconds(seconds[slowest]), "largest": largest, "slowest": slowest}
    return verdict_at_most(seconds[slowest], QUICK_S, noise=noise), figures


@finding
def exact_search_takes_long(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 17b: DP-B."""
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
    rates = [rate for _, rate, _ in changes.values()]
    middle = middle_of(rates)
    verdict = partial(verdict_at_most, bound=1.0, noise=noise)
    return between(middle, verdict, rates=range_of(rates), middle=middle.text())


@finding
def pattern_order_wins(rows: Sequence[Row], noise: float) -> Measured:
    """Figure 19: contiguity."""
    own = rows_of(rows, strategy=CONTIGUOUS)
    means = {name: average_rate(rows_of(own, planner=name)) for name in ORDERS}
    ratio = quotient(means.pop(TRIVIAL), greatest_of(means.values()))
    return between(ratio, partial(verdict_at_least, bound=1.0, noise=noise), ratio=ratio.text())


STYLES: Mapping[str, Style] = {
    name: Style(color, dashed)
    for name, color, dashed in (
        ("trivial", PALETTE[7], True),
        (EFREQ, PALETTE[0], False),
        ("greedy", PALETTE[3], False),
        ("ii_random", PALETTE[4], True),
        ("ii_greedy", PALETTE[4], False),
        (DP_LD, PALETTE[2], False),
        (ZSTREAM, PALETTE[6], False),
        ("zstream_ordered", PALETTE[5], False),
        (DP_B, PALETTE[1], False),
        (FUSED, "#79818c", True),
        (NFAB, "#79818c", False),
    )
}
RATE, HELD = Axis("per_s", "events/s", log=True), Axis("held", "partial matches and events", log=True)
SIZE = Axis("size", "events of the pattern")
AT_LIMIT = " Runs that reached the time limit are drawn at the throughput that they have at most."


def write_page(rows: Sequence[Row], sizes: Sizes, request: Request) -> Page:
    """The page of finished cells; each of them checked that all plans found the same."""
    rows = by_planner(rows)
    stocks, traffic = (rows_of(rows, part=PATTERNS, stream=name) for name in (STOCKS, TRAFFIC))
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    return findings_page(
        "join_plans",
        request,
        all_findings(rows),
        [*_pictures(rows)],
        chain=CHAIN,
        tree=TREE,
        sizes=sizes,
        descriptions={name: stream_named(name, sizes, request).description for name in (STOCKS, TRAFFIC)},
        window_s=WINDOW_S,
        selectivities=(LEAST_SELECTIVITY, GREATEST_SELECTIVITY),
        most_kleene=MOST_KLEENE_EVENTS,
        noise=noise_of(rows),
        stocks=stocks,
        traffic=traffic,
        large=large,
        alpha=alpha,
        strategy=strategy,
        normalized=_normalized(large),
        finished=finished_by_all,
        patterns=lambda rows: len({tuple(row.get(name) for name in PATTERN) for row in rows}),
        table=_table,
        average=lambda rows: average_rate(rows).text(count_per_s),
        held=lambda rows: f"{mean(number(row, 'held') for row in rows):,.0f}",
        candidates=lambda rows: _three(mean(number(row, "candidates") / number(row, "events") for row in rows)),
        planning=lambda rows: _seconds(mean(number(row, "planning_s") for row in rows)),
        latency=lambda rows: _three(mean(number(row, "after_last") for row in rows)),
        gain=lambda rows: times_as_fast(number(rows[0], "gain")),
        at_limit=lambda rows: f"{sum(map(reached_limit, rows))} of {len(rows)}",
        compared=_compared,
        average_gain=lambda pairs: average_gain(pairs).text(),
        total_gain=lambda pairs: total_gain(pairs).text(),
        held_share=lambda pairs: held_share(pairs).text(),
        sequences=_sequences(stocks),
        predictions=_prediction_table(stocks),
        most_dear=markdown_table(
            ["planner", "times"], [[name, times_as_fast(most)] for name, most in most_dear(large).items()]
        ),
        changes=markdown_table(
            ["planner", "latency", "throughput", "other plans"],
            [
                [name, latency.text(), rate.text(), f"{share:.0%}"]
                for name, (latency, rate, share) in changes_by_alpha(alpha).items()
            ],
        ),
    )


COMPARED = ((DP_LD, EFREQ), (DP_B, ZSTREAM), (DP_B, DP_LD))
"""Planners whose gains are shown, the better one first."""


def _table(rows: Sequence[Row], across: str, cell: Callable[[Sequence[Row]], str]) -> str:
    """Planners down, in the order of their styles, and the values of `across` from left to right."""
    order = [*STYLES]
    ordered = sorted(rows, key=lambda row: order.index(str(row["planner"])))
    return table_across(ordered, "planner", across, "planner", cell)


def _compared(rows: Sequence[Row], text: Callable[[Pairs], str]) -> str:
    """Two planners down, sets of patterns across."""
    lines = []
    for better, worse in COMPARED:
        by_set = pairs_by(rows, "set", better, worse)
        lines.append([f"{better} / {worse}", *(text(by_set[kind]) for kind in SETS)])
    return markdown_table(["plans", *SETS], lines)


def _sequences(rows: Sequence[Row]) -> str:
    by_size = pairs_by(rows_of(rows, set=SEQUENCE), "size", DP_B, ZSTREAM)
    lines = [
        [text, *(gain(pairs).text() for pairs in by_size.values())]
        for text, gain in (("average throughput", average_gain), ("all patterns together", total_gain))
    ]
    return markdown_table(["events", *map(str, by_size)], lines)


def _prediction_table(rows: Sequence[Row]) -> str:
    lines = []
    for kind, mechanism in (("orders", CHAIN), ("trees", TREE)):
        plans = distinct_plans(rows, mechanism)
        correlations = [
            correlation_of(plans, "ln_cost"),
            correlation_of(plans, "candidates"),
            correlation_of(plans, "ln_cost", with_throughput=False),
        ]
        lines.append([kind, f"{len(plans)}", *(f"{value:.2f}" for value in correlations)])
    header = ["plans", "number", "cost, throughput", "candidates, throughput", "cost, memory"]
    return markdown_table(header, lines)


def _normalized(rows: Sequence[Row]) -> list[Row]:
    """Cost of EFREQ's order over that of each planner's plan, by size."""
    points: list[Row] = []
    for planner in (name for name in STYLES if name != EFREQ):
        for size in dict.fromkeys(row["size"] for row in rows):
            pairs = pairs_of(rows_of(rows, size=size), EFREQ, planner)
            gains = [math.exp(number(one, "ln_cost") - number(other, "ln_cost")) for one, other in pairs]
            if gains:
                points.append({"planner": planner, "size": size, "gain": geometric_mean(gains)})
    return points


def _alpha_points(rows: Sequence[Row]) -> list[Row]:
    rows = finished_by_all(rows)
    points: list[Row] = []
    for planner in WEIGHED:
        for alpha in dict.fromkeys(row["alpha"] for row in rows):
            own = rows_of(rows, planner=planner, alpha=alpha)
            latency, rate = mean(number(row, "after_last") for row in own), mean(map(per_s, own))
            points.append({"planner": planner, "alpha": alpha, "after_last": latency, "per_s": rate})
    return points


def _pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    for stream in (STOCKS, TRAFFIC):
        own = rows_of(rows, part=PATTERNS, stream=stream)
        if own:
            yield from _pictures_of_sets(own, stream)
    stocks = rows_of(rows, part=PATTERNS, stream=STOCKS)
    large, alpha, strategy = (rows_of(rows, part=part) for part in (LARGE, ALPHA, STRATEGY))
    plans = [
        {**row, "kind": kind, "cost": 10 ** min(number(row, "ln_cost") / math.log(10), 300), "per_s": per_s(row)}
        for kind, mechanism in (("orders", CHAIN), ("trees", TREE))
        for row in distinct_plans(stocks, mechanism)
    ]
    cost = Axis("cost", "cost: partial matches alive", log=True)
    for name, axis in (("throughput", RATE), ("memory", HELD)):
        drawn = [row for row in plans if axis.field in row]
        chart = scatter_chart(drawn, cost, axis, "set", facet="kind")
        ended = AT_LIMIT if axis is RATE else " Plans that reached the time limit are left out."
        caption = f"Figure 16: a point for each plan on the stocks.{ended}{zeros_not_drawn(drawn, axis.field, 'set')}"
        yield Picture(f"cost-{name}", f"Cost against {name}", caption, chart)
    gain, planning = Axis("gain", "cost of EFREQ's order / cost", log=True), Axis("planning_s", "seconds", log=True)
    yield Picture(
        "large-cost",
        "Normalized cost against size",
        "Figure 17: sequences that are planned and not run; higher is better.",
        line_chart(_normalized(large), SIZE, gain, "planner", styles=STYLES, width=480),
    )
    yield Picture(
        "planning",
        "Planning time against size",
        "Figure 17: the same sequences; lower is better.",
        line_chart(_means(large, ("size",)), SIZE, planning, "planner", styles=STYLES, width=480),
    )
    after, reached = Axis("after_last", "candidates after the last event"), Axis("per_s", "events/s")
    yield Picture(
        "alpha",
        "Throughput against latency",
        "Figure 18: a point for each alpha, over the sequences of which all runs ended. Where alpha changes no plan, "
        "points differ by chance only.",
        line_chart(_alpha_points(alpha), after, reached, "planner", styles=STYLES, width=480),
    )
    by_strategy = _means(strategy, ("strategy",))
    shown = [row for name in STRATEGIES for row in rows_of(by_strategy, strategy=name)]
    yield Picture(
        "strategies",
        "Throughput by strategy",
        f"Figure 19: sequences on the stocks; higher is better.{AT_LIMIT}",
        bar_chart(shown, Axis("strategy", ""), RATE, "planner", styles=STYLES, width=640),
    )


def _pictures_of_sets(rows: Sequence[Row], stream: str) -> Iterator[Picture]:
    by_size = _means(rows, ("set", "size"))
    ended = _means(finished_by_all(rows), ("set", "size"))
    kept = [row for row in ended if row["planner"] != FUSED]
    yield Picture(
        f"{stream}-sets",
        f"Throughput by pattern type: {stream}",
        f"Figure 4: averages; higher is better.{AT_LIMIT}",
        bar_chart(_means(rows, ("set",)), Axis("set", ""), RATE, "planner", styles=STYLES, width=640),
    )
    yield Picture(
        f"{stream}-throughput",
        f"Throughput against size: {stream}",
        f"Figures 6 to 14: averages; higher is better.{AT_LIMIT}",
        line_chart(by_size, SIZE, RATE, "planner", styles=STYLES, facet="set", width=220),
    )
    yield Picture(
        f"{stream}-memory",
        f"Memory against size: {stream}",
        f"Figures 7 to 15: averages where all plans ended; lower is better. `{FUSED}` holds nothing."
        f"{zeros_not_drawn(kept, 'held', 'planner')}",
        line_chart(kept, SIZE, HELD, "planner", styles=STYLES, facet="set", width=220),
    )


def _means(rows: Sequence[Row], fields: Sequence[str]) -> list[Row]:
    """A row for each planner and value of the fields, with the means of those of its figures that it has."""
    grouped: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        figures = {"per_s": per_s(row)} if "seconds" in row else {}
        grouped.setdefault((row["planner"], *(row[field] for field in fields)), []).append({**row, **figures})
    return [
        {
            **{field: own[0][field] for field in ("planner", *fields)},
            **{
                name: mean(number(row, name) for row in own)
                for name in ("planning_s", "per_s", "held")
                if all(name in row for row in own)
            },
        }
        for own in grouped.values()
    ]


def _seconds(value: float) -> str:
    return f"{value * 1e6:.0f} µs" if value < 1e-4 else format_seconds(value)


def _three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
