"""The record of the mechanism `fused`: a pattern's matches, found or counted on the columnar kernel."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.clause_runs import ClauseSlice, find_by_clause
from cep_pipeline.detection.counting.owned import count_by_clause, count_owned
from cep_pipeline.detection.fused.clause import KernelRun, run_clause
from cep_pipeline.detection.fused.levels import order_of
from cep_pipeline.detection.kleene.clause import StagedRun, has_kleene
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Mechanism, Orders, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents


def start(of: ClauseSlice, plan: OrderOrTree) -> KernelRun | StagedRun:
    """A run of one clause by an order or a tree; iterate over it once for its blocks of matches.

    Raises
    ------
    PlanError
        The plan is not for the clause's positive variables.
    """
    pattern, clause, events, owned, finality = of
    order = None if has_kleene(clause) else order_of(plan)
    if order is None:
        return StagedRun(of, plan)
    return run_clause(pattern, clause, order, events, owned, finality=finality)


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
