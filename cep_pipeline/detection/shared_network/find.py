"""The matches of many patterns by one shared plan (MCEP [0066]-[0072], [0117]-[0119])."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep_pipeline.detection.mechanism import Counters, Orders, Owned, orders_only
from cep_pipeline.detection.shared_network.run import NetworkRun
from cep_pipeline.detection.shared_network.support import refuse_for
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.multi_pattern import Sharing, members_of
from cep_pipeline.planning.trees import OrderOrTree, as_tree
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents


def find_shared(
    mechanism: str,
    sharing: Sharing,
    patterns: Sequence[Pattern],
    orders: Sequence[Orders],
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
) -> Iterator[tuple[int, Block]]:
    """The owned matches of patterns by a shared plan; see `Mechanism.find_many`.

    Parameters
    ----------
    mechanism, sharing
        The mechanism's name, and what of the plans it shares: beginnings of orders, or any subtrees.

    Raises
    ------
    UnsupportedPattern
        The mechanism does not run a pattern.
    PlanError
        It does not run an order or a tree, or that is not of its clause.
    """
    plans: list[OrderOrTree] = []
    for pattern, own in zip(patterns, orders, strict=True):
        refuse_for(mechanism, pattern)
        if sharing == "subexpression":
            plans += map(as_tree, own)
        else:
            plans += orders_only(mechanism, pattern, own)
    numbers = {pattern.name: number for number, pattern in enumerate(patterns)}
    run = NetworkRun(members_of(patterns), plans, sharing, events, owned, with_negated=sharing == "subexpression")
    for (name, _), block in run:
        yield numbers[name], block
    run.count(counters)
