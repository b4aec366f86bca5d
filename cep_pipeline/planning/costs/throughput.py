"""The throughput cost: partial matches alive in a window (JQPG sections 4.1 and 4.2)."""

from __future__ import annotations

from cep_pipeline.planning.costs.model import CostModel, SetSum, SetTerm
from cep_pipeline.planning.numbers.cardinality import (
    ln_partial_matches,
    ln_partial_matches_of_all,
    ln_partial_matches_of_some,
)

PARTIAL_MATCHES = SetTerm(
    ln_partial_matches,
    ln_partial_matches_of_all,
    ln_partial_matches_of_some,
    SetSum,
)
"""PM(S)."""

THROUGHPUT = CostModel(name="throughput", unit="partial matches alive in a window", node=PARTIAL_MATCHES)
"""Cost(O) = sum over k of PM(k), the partial matches of all sizes that coexist in one window; Cost(T) = the same over
all nodes of the tree, its leaves among them."""
