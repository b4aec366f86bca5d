"""What a check of a plan has compared, as decisions record it: invariants, and how far numbers have moved.

A shared plan of a thousand patterns has thousands of invariants, and rests on as many numbers. A record names those
that decide, or are next to, and counts the others: all follow from the plan and the statistics that it names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cep_pipeline.adaptation import DecisionState, Verdict, Verification, verify
from cep_pipeline.adaptation.describe import describe, describe_deviation
from cep_pipeline.adaptation.thresholds import Deviation
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot

MOST_RECORDED = 40
"""Invariants, and numbers, that a decision records one by one."""


def compared_json(
    state: DecisionState, verdict: Verdict, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot
) -> dict[str, Any]:
    """What a check has compared, those behind a violated invariant too, as JSON values.

    Returns
    -------
    dict
        `tightest`: the invariant that is closest to its violation, or beyond it most; `verdicts`: up to `MOST_RECORDED`
        of them, in the order of the plan, the closest ones where there are more; `verified` and `violated`: how many
        there are, and are violated; `moved`: the numbers that have moved most, as many; `numbers`: how many there are.
    """
    distance = state.distances.of(state.invariants)
    found = verify(state.invariants, patterns, snapshot, distance=distance)
    moved = [one for one in verdict.checks if isinstance(one, Deviation)]
    tightest = min(found, key=lambda one: one.distance_to_violation, default=None)
    return {
        "tightest": None if tightest is None else verification_json(tightest, patterns),
        "verdicts": [
            verification_json(found[place], patterns)
            for place in _least([(not one.violated, one.distance_to_violation) for one in found])
        ],
        "verified": len(found),
        "violated": sum(one.violated for one in found),
        "moved": [deviation_json(moved[place]) for place in _least([(-one.relative,) for one in moved])],
        "numbers": len(moved),
    }


def _least(ranks: Sequence[tuple[float, ...]]) -> list[int]:
    """The places of the least ranks, `MOST_RECORDED` at most, in their order."""
    return sorted(sorted(range(len(ranks)), key=ranks.__getitem__)[:MOST_RECORDED])


def verification_json(one: Verification, patterns: Sequence[Pattern]) -> dict[str, Any]:
    """An invariant with both sides as natural logarithms, when the plan was made and now, as JSON values."""
    comparison = one.invariant.comparison
    return {
        "invariant": one.invariant.key,
        "says": describe(one.invariant, patterns),
        "then": [finite(comparison.ln_chosen), finite(comparison.ln_rejected)],
        "now": [finite(one.left), finite(one.right)],
        "distance": one.distance,
        "distance_to_violation": finite(one.distance_to_violation),
        "violated": one.violated,
    }


def deviation_json(one: Deviation) -> dict[str, Any]:
    """How far a number has moved, as JSON values."""
    return {
        "pattern": one.pattern,
        "what": one.what,
        "before": one.before,
        "now": one.now,
        "moved": finite(one.relative),
        "says": describe_deviation(one),
    }


def finite(number: float) -> float | None:
    """A number as JSON can say it: None for an infinity."""
    return number if math.isfinite(number) else None
