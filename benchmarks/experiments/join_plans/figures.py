"""Figures of the rows of `cep experiment join_plans`: planners in pairs on the same patterns, ratios, plans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import mean

from benchmarks.experiments.cells import Figure, Row, number, rows_of
from benchmarks.experiments.findings import geometric_mean, noise_of_runs, rank_correlation
from benchmarks.experiments.join_plans.experiment import ORDERS, WEIGHED

EFREQ, DP_LD, ZSTREAM, DP_B = "event_frequency", "dp_left_deep", "zstream", "dp_bushy"
II = ("ii_random", "ii_greedy")
HEURISTICS = ("greedy", *II, ZSTREAM, "zstream_ordered")


def per_s(row: Row) -> float:
    """Events a second of a run."""
    return number(row, "events") / number(row, "seconds")


def noise_of(rows: Iterable[Row]) -> float:
    """The factor by which a run differs from the same one measured again, in the middle."""
    return noise_of_runs([(number(row, "least_s"), number(row, "next_s")) for row in rows if "next_s" in row])


def pairs_of(rows: Iterable[Row], one: str, other: str) -> list[tuple[Row, Row]]:
    """The rows of two planners on the same patterns."""
    by_pattern: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("stream", "set", "size", "number", "alpha", "strategy"))
        by_pattern.setdefault(key, {})[str(row["planner"])] = row
    return [(found[one], found[other]) for found in by_pattern.values() if one in found and other in found]


def pairs_by(rows: Sequence[Row], field: str, one: str, other: str) -> dict[Figure, list[tuple[Row, Row]]]:
    """The rows of two planners on the same patterns, for each value of a field that has such patterns."""
    values = dict.fromkeys(row[field] for row in rows)
    pairs = {value: pairs_of(rows_of(rows, **{field: value}), one, other) for value in values}
    return {value: own for value, own in pairs.items() if own}


def average_gain(pairs: Sequence[tuple[Row, Row]]) -> float:
    """Ratio of the average throughputs of two planners, the better one first."""
    return mean(per_s(a) for a, _ in pairs) / mean(per_s(b) for _, b in pairs)


def total_gain(pairs: Sequence[tuple[Row, Row]]) -> float:
    """Ratio of the seconds of two planners over all patterns together, the better one first."""
    return sum(number(b, "seconds") for _, b in pairs) / sum(number(a, "seconds") for a, _ in pairs)


def held_share(pairs: Sequence[tuple[Row, Row]]) -> float:
    """The average of what the first planner's plans hold, relative to that of the second's."""
    return mean(number(a, "held") for a, _ in pairs) / mean(number(b, "held") for _, b in pairs)


def gains_by(rows: Sequence[Row], field: str, better: str, worse: str) -> dict[Figure, float]:
    """Ratio of the average throughputs of two planners for each value of a field."""
    return {value: average_gain(pairs) for value, pairs in pairs_by(rows, field, better, worse).items()}


def share_of_optimal(rows: Sequence[Row]) -> float:
    """Share of the orders of local search that cost no more than the cheapest."""
    pairs = [pair for name in II for pair in pairs_of(rows, name, DP_LD)]
    return sum(number(a, "ln_cost") <= number(b, "ln_cost") + 1e-6 for a, b in pairs) / max(len(pairs), 1)


def cheap_patterns(
    rows: Sequence[Row], better: str, worse: str, mechanism: str
) -> tuple[list[tuple[Row, Row]], list[tuple[Row, Row]]]:
    """The pairs of two planners in which even the worse plan takes less than twice the cheapest run, and the others."""
    floor = min((number(row, "seconds") for row in rows if row.get("mechanism") == mechanism), default=0.0)
    by_time = [(number(pair[1], "seconds"), pair) for pair in pairs_of(rows, better, worse)]
    return [pair for time, pair in by_time if time < 2 * floor], [pair for time, pair in by_time if time >= 2 * floor]


def geometric_gain(pairs: Sequence[tuple[Row, Row]]) -> float:
    """Geometric mean of the ratios of seconds, the better planner first."""
    return geometric_mean(number(b, "seconds") / number(a, "seconds") for a, b in pairs)


def distinct_plans(rows: Sequence[Row], mechanism: str) -> list[Row]:
    """One row for each plan that ran on a mechanism."""
    plans: dict[tuple[object, ...], Row] = {}
    for row in rows_of(rows, mechanism=mechanism):
        plans.setdefault(tuple(row.get(name) for name in ("set", "size", "number", "plan")), row)
    return list(plans.values())


def correlation_of(plans: Sequence[Row], cause: str, with_throughput: bool = True) -> float:
    """Rank correlation, over plans, of a figure with throughput, or with what is held."""
    effects = [per_s(row) if with_throughput else number(row, "held") for row in plans]
    return rank_correlation([number(row, cause) for row in plans], effects)


def dearer_is_slower(plans: Sequence[Row]) -> float:
    """Of two plans of a pattern, one dearer by half or more: how often the dearer one is also the slower one."""
    by_pattern: dict[tuple[object, ...], list[Row]] = {}
    for row in plans:
        by_pattern.setdefault(tuple(row.get(name) for name in ("set", "size", "number")), []).append(row)
    right = [
        number(a, "seconds") < number(b, "seconds")
        for own in by_pattern.values()
        for a in own
        for b in own
        if number(b, "ln_cost") >= number(a, "ln_cost") + math.log(1.5)
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


def changes_by_alpha(rows: Sequence[Row]) -> dict[str, tuple[float, float, float]]:
    """Planner -> latency, throughput, each with the greatest weight of latency over that with none; changed plans.

    Empty with fewer than two weights. Latency is counted: candidates looked at after the last event. The third figure
    is the share of plans that are others.
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
        after = [sum(number(row, "after_last") for row in own) for own in zip(*pairs, strict=True)]
        changes[name] = (
            after[0] / max(after[1], 1e-9),
            average_gain(pairs),
            mean(a["plan"] != b["plan"] for a, b in pairs),
        )
    return changes
