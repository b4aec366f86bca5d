"""Figures of the rows of `cep experiment join_plans`: planners in pairs on the same patterns, ratios, plans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

from benchmarks.experiments.cells import Row
from benchmarks.experiments.findings import rank_correlation
from benchmarks.experiments.join_plans.experiment import WEIGHED
from benchmarks.experiments.join_plans.patterns import KLEENE
from cep_pipeline.cli.figures import times_as_fast

II = ("ii_random", "ii_greedy")
DP_LD, DP_B = "dp_left_deep", "dp_bushy"


def per_s(row: Row) -> float:
    """Events a second of a run."""
    return figure(row, "events") / figure(row, "seconds")


def figure(row: Row, name: str) -> float:
    """A figure of a row as a number."""
    return cast(float, row[name])


def held_by(rows: Iterable[Row]) -> list[float]:
    """The most partial matches and events that each run held."""
    return [figure(row, "held") for row in rows]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def rows_of(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def pairs_of(rows: Iterable[Row], one: str, other: str) -> list[tuple[Row, Row]]:
    """The rows of two planners on the same patterns."""
    by_pattern: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("stream", "set", "size", "number", "alpha", "strategy"))
        by_pattern.setdefault(key, {})[str(row["planner"])] = row
    return [(found[one], found[other]) for found in by_pattern.values() if one in found and other in found]


def gains_by(rows: Sequence[Row], field: str, better: str, worse: str) -> dict[object, float]:
    """Ratio of the average throughputs of two planners for each value of a field."""
    gains: dict[object, float] = {}
    for value in dict.fromkeys(row[field] for row in rows):
        pairs = pairs_of(rows_of(rows, **{field: value}), better, worse)
        if pairs:
            gains[value] = mean([per_s(a) for a, _ in pairs]) / mean([per_s(b) for _, b in pairs])
    return gains


def total_gain(rows: Sequence[Row], better: str, worse: str) -> float:
    """Ratio of the seconds of two planners over all patterns together."""
    pairs = pairs_of(rows, better, worse)
    return sum(figure(b, "seconds") for _, b in pairs) / sum(figure(a, "seconds") for a, _ in pairs)


def listed(values: dict[object, float] | dict[str, float], *, times: bool = True) -> str:
    """Ratios by what they are of, in words."""
    return ", ".join(f"{times_as_fast(value)}{' times' if times else ''} ({name})" for name, value in values.items())


def share_of_optimal(rows: Sequence[Row]) -> float:
    """Share of the orders of local search that cost no more than the cheapest."""
    pairs = [pair for name in II for pair in pairs_of(rows, name, DP_LD)]
    return sum(figure(a, "ln_cost") <= figure(b, "ln_cost") + 1e-6 for a, b in pairs) / max(len(pairs), 1)


def distinct_plans(rows: Sequence[Row], mechanism: str) -> list[Row]:
    """One row for each plan that ran on a mechanism."""
    plans: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if row.get("mechanism") == mechanism:
            plans.setdefault(tuple(row.get(name) for name in ("set", "size", "number", "plan")), row)
    return list(plans.values())


def _by_pattern(plans: Iterable[Row]) -> list[list[Row]]:
    grouped: dict[tuple[object, ...], list[Row]] = {}
    for row in plans:
        grouped.setdefault(tuple(row.get(name) for name in ("set", "size", "number")), []).append(row)
    return list(grouped.values())


def dearer_is_slower(plans: Sequence[Row]) -> float:
    """Of two plans of a pattern, one dearer by half or more: how often the dearer one is also the slower one."""
    right = total = 0
    for own in _by_pattern(plans):
        for a in own:
            for b in own:
                if figure(b, "ln_cost") >= figure(a, "ln_cost") + math.log(1.5):
                    total += 1
                    right += figure(a, "seconds") < figure(b, "seconds")
    return right / total if total else 1.0


def candidates_tell(plans: Sequence[Row]) -> str:
    """How well candidates predict throughput, in words."""
    by_candidates = rank_correlation([figure(row, "candidates") for row in plans], [per_s(row) for row in plans])
    return f"is in the throughput, too: the rank correlation of candidates and throughput is {by_candidates:.2f}."


def kleene_memory(rows: Sequence[Row]) -> float:
    """What DP-B's trees hold on average under KL, relative to DP-LD's orders."""
    own = rows_of(rows, set=KLEENE)
    pairs = pairs_of(own, DP_B, DP_LD)
    return mean(held_by(a for a, _ in pairs)) / mean(held_by(b for _, b in pairs)) if pairs else 1.0


def share_of_linear(rows: Sequence[Row]) -> float:
    """Share of the cheapest trees that join one variable at a time."""
    trees = [str(row["plan"]) for row in rows if row["planner"] == DP_B]
    return sum(all(map(_is_linear, text.split("; "))) for text in trees) / max(len(trees), 1)


def _is_linear(text: str) -> bool:
    """Whether a tree, as it is written, joins one variable at a time: no join is of two joins."""
    return "), (" not in text


def pairs_by_alpha(rows: Sequence[Row], name: str, low: float, high: float) -> list[tuple[Row, Row]]:
    """The rows of a planner on the same patterns with two weights of latency."""
    found: dict[tuple[object, ...], dict[float, Row]] = {}
    for row in rows:
        if row["planner"] == name:
            found.setdefault((row["size"], row["number"]), {})[figure(row, "alpha")] = row
    return [(own[low], own[high]) for own in found.values() if low in own and high in own]


def changed_by_alpha(rows: Sequence[Row], low: float, high: float) -> float:
    """Share of plans that are others with the greater weight of latency."""
    pairs = [pair for name in WEIGHED for pair in pairs_by_alpha(rows, name, low, high)]
    return sum(a["plan"] != b["plan"] for a, b in pairs) / max(len(pairs), 1)
