"""The record of the mechanism `fused`: a pattern's matches, found or counted on the columnar kernel."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.clause_runs import find_by_clause
from cep_pipeline.detection.counting.owned import count_by_clause, count_owned, start
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Mechanism, Orders, Owned
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents


def find_matches(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Find the owned matches of a pattern, clause after clause (`mechanisms.Finder`).

    A variable of a plan is a level of the kernel's loops, which store no partial match; a tree runs as the order of its
    variables (`order_of`). Every conjunct of a level counts as evaluated on each of its candidates, since the kernel
    tests them all in vectors. Kleene variables are bound after the single ones; a list is their candidate.
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
    return count_by_clause(pattern, orders, events, counters)


MECHANISM = Mechanism(
    "fused",
    find_matches,
    count=count_pattern,
    runs_trees=True,
    is_columnar=True,
)
