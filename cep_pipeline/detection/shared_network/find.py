"""The matches of many patterns by one shared plan (MCEP [0066]-[0072], [0117]-[0119])."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from cep_pipeline.detection.mechanisms import Counters, Mechanism, Orders, Owned, beyond_any_match, orders_only, refuse
from cep_pipeline.detection.shared_network.run import NetworkRun
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
    """The owned matches of patterns by a shared plan; see `mechanisms.FindMany`.

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
        refuse(mechanism, pattern, beyond_any_match(pattern))
        if sharing == "subexpression":
            plans += map(as_tree, own)
        else:
            plans += orders_only(mechanism, pattern, own)
    numbers = {pattern.name: number for number, pattern in enumerate(patterns)}
    run = NetworkRun(members_of(patterns), plans, sharing, events, owned, with_negated=sharing == "subexpression")
    for (name, _), block in run:
        yield numbers[name], block
    run.count(counters)


def _mechanism(name: str, sharing: Sharing) -> Mechanism:
    """A mechanism that runs many patterns together, and one pattern as the only one."""
    find_many = partial(find_shared, name, sharing)

    def find(
        pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
    ) -> Iterator[Block]:
        for _, block in find_many([pattern], [orders], events, owned, counters):
            yield block

    runs_trees = sharing == "subexpression"
    return Mechanism(name, find, find_many=find_many, always_shares=True, runs_trees=runs_trees, in_order=True)


MULTI_PATTERN_NFA = _mechanism("multi_pattern_nfa", "prefix")
MULTITREE = _mechanism("multitree", "subexpression")
