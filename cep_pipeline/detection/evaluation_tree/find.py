"""Find the matches of a pattern by a tree for each clause (JQPG section 5.4: what the clauses find is united)."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.evaluation_tree.run import Held, TreeRun
from cep_pipeline.detection.instances.clause_runs import find_by_clause
from cep_pipeline.detection.mechanisms import Counters, Mechanism, Orders, Owned
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import OrderOrTree, Tree, as_tree, leaves_of
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.ownership import Finality
from cep_pipeline.slices.prepared import PreparedEvents


def find_by_trees(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """The owned matches of a pattern, clause after clause; see `mechanisms.Find`.

    Raises
    ------
    UnsupportedPattern
        The mechanism does not run the pattern.
    PlanError
        A tree or an order does not have each positive variable of its clause once.
    """
    EVALUATION_TREE.check(pattern)
    held = Held(len(events))

    def start(clause: Clause, order: OrderOrTree, finality: Finality) -> TreeRun:
        return TreeRun(pattern, clause, _tree_of(pattern, clause, order), events, owned, finality, held)

    yield from find_by_clause(None, pattern, orders, owned, counters, start)
    counters.count_peak(held.peak_instances)
    counters.events_buffered = max(counters.events_buffered, held.peak_events)


def _tree_of(pattern: Pattern, clause: Clause, order: OrderOrTree) -> Tree:
    names = [variable.name for variable in clause.positive]
    tree = as_tree(order)
    if sorted(leaves_of(tree)) != sorted(names):
        raise PlanError(
            f"pattern {pattern.name!r}: the plan's tree joins {', '.join(leaves_of(tree))}, but clause {clause.index} "
            f"binds {', '.join(names)}: plan the pattern again"
        )
    return tree


EVALUATION_TREE = Mechanism("evaluation_tree", find_by_trees, runs_trees=True, in_order=True)
