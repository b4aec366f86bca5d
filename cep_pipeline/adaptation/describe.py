"""Invariants and their verifications as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cep_pipeline.adaptation.forecast import Trend
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.adaptation.thresholds import Deviation
from cep_pipeline.adaptation.verification import Verification
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.numbers.logarithms import format_ln, format_number
from cep_pipeline.planning.orderings import Side, named, positions_of


def describe(invariant: Invariant, patterns: Sequence[Pattern]) -> str:
    """The block of an invariant, and the two sides between which the planner chose.

    Returns
    -------
    str
        Such as "pattern rise, step 2: b rather than c" or "pattern rise, join 2: ((a, b), c) rather than (a, (b, c))".
    """
    pattern = next(pattern for pattern in patterns if pattern.name == invariant.pattern)
    names = [variable.name for variable in pattern.clauses[invariant.clause].positive]
    of_clause = f", clause {invariant.clause + 1}" if len(pattern.clauses) > 1 else ""
    one = invariant.comparison
    if one.measure == "tree":
        block, chosen, rejected = "join", named(one.chosen, names), named(one.rejected, names)
    else:
        # Where both sides bind the same variables, it is their orders that differ.
        whole = one.measure == "cost"
        block, chosen, rejected = "step", _bound(one.chosen, names, whole), _bound(one.rejected, names, whole)
    return f"pattern {invariant.pattern}{of_clause}, {block} {invariant.block + 1}: {chosen} rather than {rejected}"


def _bound(order: Side, names: Sequence[str], whole: bool) -> str:
    positions = positions_of(order)
    return ", ".join(names[position] for position in (positions if whole else positions[-1:]))


def describe_verification(verification: Verification, patterns: Sequence[Pattern]) -> str:
    """The invariant, its two sides, and whether it holds."""
    left, right = format_ln(verification.left), format_ln(verification.right)
    distance = f"{1 + verification.distance:g} times " if verification.distance else ""
    if verification.violated:
        relation = "exceeds" if verification.left > verification.right else "is no longer below"
    else:
        relation = "does not exceed"
    return f"{describe(verification.invariant, patterns)}: {left} {relation} {distance}{right}"


def describe_deviation(deviation: Deviation) -> str:
    """A sentence: the number that has moved, its old and new value, and the share."""
    before, now = format_number(deviation.before), format_number(deviation.now)
    return f"pattern {deviation.pattern}: {deviation.what} moved from {before} to {now}, by {deviation.relative:.1%}"


def describe_trend(trend: Trend, patterns: Sequence[Pattern]) -> str:
    """The invariant, how far it is from its violation, and when the trend of the days will have violated it."""
    left = math.expm1(min(trend.distances[-1], 600.0))
    text = f"{describe(trend.invariant, patterns)}: "
    if trend.latest.violated:
        return f"{text}violated"
    text += f"holds until its first side has grown by {left:.1%}"
    if trend.per_day is None:
        return f"{text}; {len(trend.days)} days make no trend"
    if trend.violated_on is None:
        return f"{text}; no trend towards it"
    soonest, latest = trend.between
    between = f"{soonest} to {latest}" if latest is not None else f"{soonest} at the soonest, or not at all"
    return f"{text}; by its trend violated on {trend.violated_on} ({between})"
