"""The record of the mechanism `fused`: a pattern's matches, found or counted on the columnar kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from cep_pipeline.detection.fused.clause import KernelRun, run_clause, shapes_of
from cep_pipeline.detection.fused.levels import LevelCount, order_of
from cep_pipeline.detection.fused.shape import Shape
from cep_pipeline.detection.fused.shared_work import share_work
from cep_pipeline.detection.fused.trees import TreeRun
from cep_pipeline.detection.kleene.bindings import (
    BindingRules,
    Bindings,
    clause_over,
    has_kleene,
    skeleton_of,
    unrejected,
)
from cep_pipeline.detection.kleene.clause import KleeneRun, count_matches, counts_at_once
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Mechanism, Orders, Owned
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree, pruned
from cep_pipeline.slices.blocks import Block, MatchBlock, without_earlier
from cep_pipeline.slices.ownership import Finality, finality_of, owned_matches, reading
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts


class BushyRun:
    """One run of a clause of single variables by a bushy tree: its owned matches that no event rejects."""

    def __init__(
        self, pattern: Pattern, clause: Clause, tree: Join, events: PreparedEvents, owned: Owned, finality: Finality
    ) -> None:
        self.pattern, self.clause, self.events, self.owned, self.finality = pattern, clause, events, owned, finality
        self.order = tree.leaves
        positive = clause_over(clause, self.order)
        self._rules = BindingRules(pattern, clause, events)
        self._tree = TreeRun(pattern, positive, tree, events, reading(pattern, events, owned))

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of each node, once the run is over."""
        return self._tree.counts

    def __iter__(self) -> Iterator[MatchBlock]:
        names = [variable.name for variable in self.clause.positive]
        for block in self._tree:
            first, last = block.rows.min(axis=0), block.rows.max(axis=0)
            found = Bindings(dict(zip(names, block.rows, strict=True)), first, last)
            found = found.take(
                np.flatnonzero(owned_matches(self.pattern, self.events, self.owned, self.finality, first, last))
            )
            found = unrejected(self._rules, found)
            if len(found):
                yield MatchBlock(self.clause, np.stack([np.asarray(found.bound[name]) for name in names]))


Run = KernelRun | BushyRun | KleeneRun


def start(
    pattern: Pattern, clause: Clause, plan: OrderOrTree, events: PreparedEvents, owned: Owned, finality: Finality
) -> Run:
    """A run of one clause by an order or a tree; iterate over it once for its blocks of matches.

    Raises
    ------
    PlanError
        The plan is not for the clause's positive variables.
    """
    if has_kleene(clause):
        return KleeneRun(pattern, clause, plan, events, owned, finality)
    order = order_of(plan)
    if order is not None:
        return run_clause(pattern, clause, order, events, owned, finality=finality)
    assert isinstance(plan, Join)
    if sorted(plan.leaves) != sorted(variable.name for variable in clause.positive):
        raise PlanError(
            f"pattern {pattern.name!r}: the tree {plan} does not join the variables of clause {clause.index}: plan the "
            "pattern again"
        )
    return BushyRun(pattern, clause, plan, events, owned, finality)


def shapes_of_plan(pattern: Pattern, clause: Clause, plan: OrderOrTree) -> frozenset[Shape]:
    """The shapes that runs of a clause by a plan usually have, as far as they are known before events are read.

    What joins the two sides of a bushy node depends on the partial matches, and is compiled where it is met.
    """
    skeleton = skeleton_of(clause)
    names = frozenset(variable.name for variable in skeleton.positive)
    if not isinstance(plan, Join):
        return shapes_of(pattern, skeleton, [name for name in plan if name in names])
    shapes: set[Shape] = set()
    waiting = [pruned(plan, names)]
    while waiting:
        tree = waiting.pop()
        if tree is None:
            continue
        order = order_of(tree)
        if order is None:
            assert isinstance(tree, Join)
            waiting += [tree.left, tree.right]
            continue
        part = skeleton if names.issubset(order) else clause_over(skeleton, order)
        shapes |= shapes_of(pattern, part, order)
    return frozenset(shapes)


def find_matches(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Find the owned matches of a pattern, clause after clause (`mechanisms.Finder`).

    A node of a plan is a level of the kernel's loops, which store no partial match; a bushy node joins two sides, one
    of which is stored. Every conjunct of a level counts as evaluated on each of its candidates, since the kernel tests
    them all in vectors. Kleene variables are bound after the single ones; a list is their candidate.
    """
    planned = list(zip(pattern.clauses, orders, strict=True))
    for clause, plan in planned:
        finality = finality_of(pattern, clause)
        run = start(pattern, clause, plan, events, owned, finality)
        # Bindings that are final earlier by another clause belong to the slice of that point.
        earlier = [
            start(pattern, other, other_plan, events, owned, finality)
            for other, other_plan in planned
            if owned != EVERYTHING and other.positive == clause.positive and finality_of(pattern, other) < finality
        ]
        yield from without_earlier(run, earlier)
        _add_counts(run, counters)


def count_pattern(pattern: Pattern, orders: Orders, events: PreparedEvents, counters: Counters) -> int | None:
    """Count the matches, if none has to be listed and no two clauses have bindings in common; otherwise None."""
    if not any(map(has_kleene, pattern.clauses)):
        return None  # blocks of fixed width are counted as fast
    if len({clause.positive for clause in pattern.clauses}) < len(pattern.clauses):
        return None
    runs = [
        start(pattern, clause, plan, events, EVERYTHING, finality_of(pattern, clause))
        for clause, plan in zip(pattern.clauses, orders, strict=True)
    ]
    if not all(counts_at_once(run) for run in runs if isinstance(run, KleeneRun)):
        return None
    total = 0
    for run in runs:
        total += count_matches(run) if isinstance(run, KleeneRun) else sum(map(len, run))
        _add_counts(run, counters)
    return total


def _add_counts(run: Run, counters: Counters) -> None:
    if isinstance(run, KernelRun):
        counters.later.append(partial(_count_levels, run.pattern.name, run.clause.index, run.tally().counts))
    else:
        _count_levels(run.pattern.name, run.clause.index, lambda: run.counts, counters)


def _count_levels(pattern: str, clause: int, counts: Callable[[], Sequence[LevelCount]], counters: Counters) -> None:
    stored = 0
    for count in counts():
        counters.evaluations += count.evaluations
        stored += count.created
        place = pattern, clause, count.bound
        if count.counted_at is not None and count.counted_at != place:
            counters.count(NodeCounts(*count.counted_at, 0, 0, shared_with=(place,)))
            continue
        counters.count(NodeCounts(*place, count.candidates, count.passes, count.created, count.created, count.tested))
    counters.count_peak(stored)


MECHANISM = Mechanism(
    "fused",
    find_matches,
    count=count_pattern,
    share=share_work,
    runs_trees=True,
    is_columnar=True,
)
