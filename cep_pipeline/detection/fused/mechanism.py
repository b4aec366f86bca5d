"""The record of the mechanism `fused`: a pattern's matches, found or counted on the columnar kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

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
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import (
    EVERYTHING,
    Counters,
    FoundAtOnce,
    Mechanism,
    Orders,
    Owned,
)
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.composing import EVENT_TYPE
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.ownership import reading
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clause_cache_of, leaf_of, view_of_leaf


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


MOST_TUPLES = 1 << 22
"""Tuples of events that are expected in the windows, and the order, of a clause up to which a run of it is short."""
MOST_MATCHES = 1 << 12
"""Matches of a pattern up to which they are held beside those of others."""


def find_at_once(
    patterns: Sequence[Pattern],
    orders: Sequence[Orders],
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
) -> list[FoundAtOnce | None]:
    """Find the matches of the patterns whose runs are short, one after another (`mechanisms.FinderAtOnce`)."""
    found: list[FoundAtOnce | None] = []
    first, end = events.rows_in(owned)
    for pattern, plans in zip(patterns, orders, strict=True):
        go_on()
        own = counters.anew()
        short = first < end and all(_is_short(pattern, clause, events) for clause in pattern.clauses)
        blocks = _few_matches(find_matches(pattern, plans, events, owned, own)) if short else None
        found.append(None if blocks is None else FoundAtOnce(blocks, partial(_count_later, own)))
    return found


def _is_short(pattern: Pattern, clause: Clause, events: PreparedEvents) -> bool:
    """True if a clause has few tuples of single events in its windows, in the order of a chain, by their mean rates."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or pattern.type_attribute == EVENT_TYPE:
        return False
    if has_kleene(clause):
        return False
    window, count = pattern.window, len(clause.positive)
    of = (window.events, len(events)) if window.time_us is None else (window.time_us, events.span_us)
    share = min((of[0] or 0) / max(of[1], 1), 1.0)
    every = clause_cache_of(clause).once("leaves", lambda: [leaf_of(clause, one.name) for one in clause.positive])
    tuples = math.prod(len(view_of_leaf(events, leaf, 0, len(events))) for leaf in every) * share ** (count - 1)
    is_chain = len(clause.precedence) == count * (count - 1) // 2
    return tuples <= MOST_TUPLES * (math.factorial(count) if is_chain else 1)


def _few_matches(found: Iterable[Block]) -> list[Block] | None:
    """All matches; None where they are many."""
    blocks: list[Block] = []
    left = MOST_MATCHES
    for block in found:
        blocks.append(block)
        left -= len(block)
        if left < 0:
            return None
    return blocks


def _count_later(own: Counters, counters: Counters) -> None:
    counters.later.append(lambda later: later.add(own))


MECHANISM = Mechanism(
    "fused",
    find_matches,
    count=count_pattern,
    find_at_once=find_at_once,
    runs_trees=True,
    is_columnar=True,
)
