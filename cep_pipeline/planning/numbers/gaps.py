"""Bounds on the time between events that follow from others.

If `b` is at most 5 seconds after `a`, and `c` at most 5 seconds after `b`, `c` is at most 10 seconds after `a`. The
fused mechanism uses such a bound as it uses the window, so a plan that binds `b` last finds few pairs of `a` and `c`.

A set of variables is expected to hold the bounds of the pairs of a minimum spanning tree: those that leave least. Each
pair's share is that of independent arrivals; of a bound that is written, it is the measured one. What the written
conditions of a set say already is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from cep_pipeline.patterns.implications import Implications
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.planning.numbers.clause_statistics import JointCondition
from cep_pipeline.statistics.joint import SMALLEST

MOST_VARIABLES = 6
"""Of more variables with bounds nothing is worked out: each set of them has a number."""
_LITTLE = 1e-9


def implied_gaps(
    clause: Clause, window_us: int, implied: Implications, written: Mapping[tuple[int, ...], float]
) -> tuple[JointCondition, ...]:
    """The factors of sets of variables that bounds on gaps imply, beyond the conditions that are written.

    Parameters
    ----------
    written
        For the positions of two variables, the logarithm of the measured share of the written bounds between them.
    """
    if not implied.narrowed:
        return ()
    position = {variable.name: place for place, variable in enumerate(clause.positive)}
    most: dict[tuple[int, int], float] = {}
    said = (span for found in implied.spans.values() for span in found)
    for span in (*said, *implied.narrowed):
        if span.first in position and span.second in position:
            pair = position[span.first], position[span.second]
            most[pair] = min(most.get(pair, window_us), span.most_us)
    bounded = sorted({place for pair in most for place in pair})
    if len(bounded) > MOST_VARIABLES:
        return ()
    before = {(position[one], position[other]) for one, other in clause.precedence if {one, other} <= position.keys()}
    shares = {
        pair: min(_ln_share(*pair, most, before, window_us), written.get(pair, 0.0))
        for pair in combinations(bounded, 2)
        if pair in most or pair[::-1] in most
    }
    found: dict[tuple[int, ...], float] = {}
    for size in range(2, len(bounded) + 1):
        for chosen in combinations(bounded, size):
            inside = frozenset(chosen)
            known = sum(ln_ratio for smaller, ln_ratio in found.items() if inside.issuperset(smaller))
            known += sum(ln_share for pair, ln_share in written.items() if inside.issuperset(pair))
            ln_ratio = _ln_tree(chosen, shares) - known
            if abs(ln_ratio) > _LITTLE:
                found[chosen] = ln_ratio
    return tuple(JointCondition(places, ln_ratio, in_range=True) for places, ln_ratio in found.items())


def _ln_share(
    one: int, other: int, most: Mapping[tuple[int, int], float], before: set[tuple[int, int]], window_us: int
) -> float:
    """The share of the pairs in window and order that are within their bounds, by its logarithm."""

    def below(gap: float) -> float:
        """The number of pairs with at most this gap, up to a factor: pairs of a gap g are as many as W - |g|."""
        gap = max(-window_us, min(gap, window_us))
        return (window_us**2 + math.copysign(2 * window_us * abs(gap) - gap**2, gap)) / 2

    least, greatest = (0 if (one, other) in before else -window_us, 0 if (other, one) in before else window_us)
    low, high = max(least, -most.get((other, one), window_us)), min(greatest, most.get((one, other), window_us))
    share = (below(high) - below(low)) / (below(greatest) - below(least))
    return math.log(max(share, SMALLEST))


def _ln_tree(chosen: Sequence[int], shares: Mapping[tuple[int, int], float]) -> float:
    """The sum of the shares along a minimum spanning tree, or along those of the parts that hang together."""
    part = {place: place for place in chosen}
    total = 0.0
    for ln_share, pair in sorted((shares[pair], pair) for pair in combinations(chosen, 2) if pair in shares):
        one, other = (part[place] for place in pair)
        if one != other:
            total += ln_share
            part = {place: other if own == one else own for place, own in part.items()}
    return total
