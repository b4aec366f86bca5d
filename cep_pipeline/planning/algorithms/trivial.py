"""TRIVIAL: the pattern's own order (JQPG section 7.1; SASE and Cayuga)."""

from __future__ import annotations

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import Ordering


def trivial_order(statistics: ClauseStatistics, cost: CostModel) -> Ordering:
    """The order as written, whatever the statistics."""
    return Ordering(tuple(range(statistics.size)))
