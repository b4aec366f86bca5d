"""The record of the mechanism `fused`: a pattern's matches, found or counted on the columnar kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep_pipeline.detection.clause_runs import ClauseSlice, find_by_clause
from cep_pipeline.detection.counting.owned import count_by_clause, count_owned
from cep_pipeline.detection.fused.clause import KernelRun, run_clause
from cep_pipeline.detection.fused.levels import LevelCount, count_levels, order_of
from cep_pipeline.detection.fused.trees import TreeRun
from cep_pipeline.detection.kleene.bindings import (
    BindingRules,
    Bindings,
    clause_over,
    has_kleene,
    unrejected,
)
from cep_pipeline.detection.kleene.clause import KleeneRun
from cep_pipeline.detection.mechanisms import (
    EVERYTHING,
    Counters,
    Mechanism,
    Orders,
    Owned,
)
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.ownership import reading
from cep_pipeline.slices.prepared import PreparedEvents


class BushyRun:
    """One run of a clause of single variables by a bushy tree: its owned matches that no event rejects."""

    def __init__(self, of: ClauseSlice, tree: Join) -> None:
        self.of, self.order = of, tree.leaves
        pattern, clause, events, owned, _ = of
        self._rules = BindingRules(pattern, clause, events)
        self._tree = TreeRun(pattern, clause_over(clause, self.order), tree, events, reading(pattern, events, owned))

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of each node, once the run is over."""
        return self._tree.counts

    def count(self, counters: Counters) -> None:
        """Add the counts of the finished run."""
        count_levels(self.of.pattern, self.of.clause, self.counts, counters)

    def __iter__(self) -> Iterator[MatchBlock]:
        names = [variable.name for variable in self.of.clause.positive]
        for block in self._tree:
            first, last = block.first_rows(), block.last_rows()
            found = Bindings(dict(zip(names, block.rows, strict=True)), first, last)
            found = unrejected(self._rules, found.take(np.flatnonzero(self.of.owns(first, last))))
            if len(found):
                yield MatchBlock(self.of.clause, np.stack([np.asarray(found.bound[name]) for name in names]))


Run = KernelRun | BushyRun | KleeneRun


def start(of: ClauseSlice, plan: OrderOrTree) -> Run:
    """A run of one clause by an order or a tree; iterate over it once for its blocks of matches.

    Raises
    ------
    PlanError
        The plan is not for the clause's positive variables.
    """
    pattern, clause, events, owned, finality = of
    if has_kleene(clause):
        return KleeneRun(of, plan)
    order = order_of(plan)
    if order is not None:
        return run_clause(pattern, clause, order, events, owned, finality=finality)
    assert isinstance(plan, Join)
    if sorted(plan.leaves) != sorted(variable.name for variable in clause.positive):
        raise PlanError(
            f"pattern {pattern.name!r}: the tree {plan} does not join the variables of clause {clause.index}: plan the "
            "pattern again"
        )
    return BushyRun(of, plan)


def find_matches(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Find the owned matches of a pattern, clause after clause (`mechanisms.Finder`).

    A node of a plan is a level of the kernel's loops, which store no partial match; a bushy node joins two sides, one
    of which is stored. Every conjunct of a level counts as evaluated on each of its candidates, since the kernel tests
    them all in vectors. Kleene variables are bound after the single ones; a list is their candidate.
    """
    return find_by_clause(pattern, orders, events, owned, counters, start)


def count_pattern(pattern: Pattern, orders: Orders, events: PreparedEvents, counters: Counters) -> int | None:
    """Count the matches, if none has to be listed; otherwise None.

    Matches that a negated composite or list may reject are listed, and so are those of single variables that all have
    to be found: blocks of fixed width are counted as fast. Where nobody wants the counts of nodes, a clause is counted
    by a sweep over the events, or without binding its last variable, if that pays.
    """
    if len({clause.positive for clause in pattern.clauses}) < len(pattern.clauses):
        return None if counters.wanted else count_owned(pattern, events, EVERYTHING)
    if any(clause.negated_structures for clause in pattern.clauses):
        return None
    return count_by_clause(pattern, orders, events, counters, start)


MECHANISM = Mechanism(
    "fused",
    find_matches,
    count=count_pattern,
    runs_trees=True,
    is_columnar=True,
)
