"""All orders and all trees of a few variables, and cost models that a planner must be exact under."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import COSTS, PARTIAL_MATCHES, THROUGHPUT, CostModel, with_latency
from cep_pipeline.planning.orderings import DecidingComparison, ln_measure
from cep_pipeline.planning.trees import PositionTree
from tests.planning import clauses

# Tests of candidates by pairs, too.
ALL_TERMS = replace(THROUGHPUT, name="all terms", pair=PARTIAL_MATCHES, product=PARTIAL_MATCHES)
MODELS: dict[str, CostModel] = {
    **COSTS,
    "weighted": with_latency(THROUGHPUT, 0.5),
    "all terms": ALL_TERMS,
    "all terms, weighted": with_latency(ALL_TERMS, 0.25),
}


def holds_on(comparison: DecidingComparison, statistics: ClauseStatistics, cost: CostModel) -> bool:
    """True if the planner would still choose the same side, on these statistics."""
    sides = (
        ln_measure(comparison.measure, side, statistics, cost) for side in (comparison.chosen, comparison.rejected)
    )
    return comparison.holds(*sides)


def all_trees(members: Sequence[int]) -> Iterator[PositionTree]:
    """Every tree over the members once, whichever side of a join is the left one."""
    if len(members) == 1:
        yield members[0]
        return
    first, *rest = members
    for mask in range(2 ** len(rest) - 1):
        with_first = [first, *(member for place, member in enumerate(rest) if mask >> place & 1)]
        others = [member for place, member in enumerate(rest) if not mask >> place & 1]
        for left in all_trees(with_first):
            for right in all_trees(others):
                yield left, right


def trees_over(leaves: Sequence[int]) -> Iterator[PositionTree]:
    """Every tree whose leaves are these from left to right."""
    if len(leaves) == 1:
        yield leaves[0]
    for cut in range(1, len(leaves)):
        for left in trees_over(leaves[:cut]):
            for right in trees_over(leaves[cut:]):
                yield left, right


@st.composite
def with_any_last(draw: st.DrawFn, max_size: int) -> ClauseStatistics:
    """Drawn statistics in which any variable may be the last one of a match."""
    statistics = draw(clauses.clause_statistics(max_size=max_size))
    return replace(statistics, last=draw(st.none() | st.integers(0, statistics.size - 1)))
