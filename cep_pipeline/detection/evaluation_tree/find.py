"""Find the matches of a pattern by a tree for each clause (JQPG section 5.4: what the clauses find is united)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep_pipeline.detection.blocks import Block
from cep_pipeline.detection.evaluation_tree.run import TreeRun
from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.detection.fused.shared_bindings import without_earlier
from cep_pipeline.detection.mechanism import EVERYTHING, Counters, Orders, Owned
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.errors import PlanError, UnsupportedPattern
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.planning.trees import OrderOrTree, as_tree, leaves_of

MECHANISM = "evaluation_tree"


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the mechanism does not run.

    Raises
    ------
    UnsupportedPattern
        Its strategy is not skip_till_any_match.
    """
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        raise UnsupportedPattern(MECHANISM, f"the strategy {pattern.strategy.value}", pattern=pattern.name)


def find_by_trees(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """The owned matches of a pattern, clause after clause; see `Mechanism.find`.

    Raises
    ------
    UnsupportedPattern
        The mechanism does not run the pattern.
    PlanError
        A tree or an order does not have each positive variable of its clause once.
    """
    refuse_unsupported(pattern)
    planned = list(zip(pattern.clauses, orders, strict=True))
    held = np.zeros(len(events) + 1, np.int64)
    buffered = np.zeros(len(events) + 1, np.int64)
    for clause, order in planned:
        finality = finality_of(pattern, clause)
        run = _start(pattern, clause, order, events, owned, finality)
        # Bindings that are final earlier by another clause belong to the slice of that point.
        earlier = [
            _start(pattern, other, other_order, events, owned, finality)
            for other, other_order in planned
            if owned != EVERYTHING and other.positive == clause.positive and finality_of(pattern, other) < finality
        ]
        yield from without_earlier(run, earlier)
        run.count(counters)
        held += run.instances_held()
        buffered += run.events_held()
    counters.peak_instances = max(counters.peak_instances, int(held.max()))
    counters.events_buffered = max(counters.events_buffered, int(buffered.max()))


def _start(
    pattern: Pattern, clause: Clause, order: OrderOrTree, events: PreparedEvents, owned: Owned, finality: Finality
) -> TreeRun:
    names = [variable.name for variable in clause.positive]
    tree = as_tree(order)
    if sorted(leaves_of(tree)) != sorted(names):
        raise PlanError(
            f"pattern {pattern.name!r}: the plan's tree joins {', '.join(leaves_of(tree))}, but clause {clause.index} "
            f"binds {', '.join(names)}: plan the pattern again"
        )
    return TreeRun(pattern, clause, tree, events, owned, finality)
