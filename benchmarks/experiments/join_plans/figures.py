"""Figures of the rows of `cep experiment join_plans`: planners in pairs on the same patterns, ratios, plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean, mean, median

from benchmarks.experiments.cells import Figure, Row, number, rows_of
from benchmarks.experiments.findings import geometric_mean, noise_of_runs, rank_correlation
from benchmarks.experiments.join_plans.experiment import ORDERS, WEIGHED
from cep_pipeline.cli.terminal import times_as_fast

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


def rate_together(rows: Sequence[Row]) -> Bounds:
    """Events a second of all runs together."""
    rates = [rate_of(row) for row in rows]
    return Bounds(harmonic_mean(rate.low for rate in rates), harmonic_mean(rate.high for rate in rates))


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


def cheap_patterns(
    rows: Sequence[Row], better: str, worse: str, mechanism: str
) -> tuple[list[tuple[Row, Row]], list[tuple[Row, Row]]]:
    """The pairs of two planners in which even the worse plan takes less than twice the cheapest run, and the others.

    Pairs of which both runs reached the limit are left out.
    """
    floor = min((number(row, "seconds") for row in rows if row.get("mechanism") == mechanism), default=0.0)
    by_time = [(number(pair[1], "seconds"), pair) for pair in decided(pairs_of(rows, better, worse))]
    return [pair for time, pair in by_time if time < 2 * floor], [pair for time, pair in by_time if time >= 2 * floor]


def geometric_gain(pairs: Pairs) -> Bounds:
    """Geometric mean of the ratios of seconds, the better planner first."""
    gain = geometric_mean(number(b, "seconds") / number(a, "seconds") for a, b in pairs)
    better_reached, worse_reached = (any(map(reached_limit, rows)) for rows in zip(*pairs, strict=True))
    return Bounds(0.0 if better_reached else gain, math.inf if worse_reached else gain)


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


def dearer_is_slower(plans: Sequence[Row]) -> float:
    """Return how often the dearer one of two plans of a pattern, by half or more, is also the slower one."""
    by_pattern: dict[tuple[object, ...], list[Row]] = {}
    for row in plans:
        by_pattern.setdefault(tuple(row.get(name) for name in ("set", "size", "number")), []).append(row)
    right = [
        number(a, "seconds") < number(b, "seconds")
        for own in by_pattern.values()
        for a in own
        for b in own
        if not (reached_limit(a) and reached_limit(b)) and number(b, "ln_cost") >= number(a, "ln_cost") + math.log(1.5)
    ]
    return sum(right) / len(right) if right else 1.0


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

    Empty with fewer than two weights. Latency is counted, where both runs ended: candidates looked at after the last
    event. The third figure is the share of plans that are others.
    """
    alphas = sorted({number(row, "alpha") for row in rows})
    if len(alphas) < 2:
        return {}
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
