"""The record of the mechanism `nfab`: clause after clause, each with runs of its own; an instance is a run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from cep_pipeline.detection.clause_runs import ClauseRun, ClauseSlice, find_by_clause
from cep_pipeline.detection.mechanisms import (
    EVERYTHING,
    PRUNE,
    Counters,
    Mechanism,
    Orders,
    Owned,
    RunCounts,
    conjuncts_joining,
    orders_only,
    refuse_other_orders,
)
from cep_pipeline.detection.network.finding import find_alone
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.automaton import describe, is_chain
from cep_pipeline.detection.nfab.automaton_runs import AutomatonRuns
from cep_pipeline.detection.nfab.runs import ClauseRuns, RunLives
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts


def find_matches(
    pattern: Pattern,
    orders: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    options: frozenset[str] = frozenset(),
) -> Iterator[Block]:
    """Find the owned matches of a pattern, clause after clause (`mechanisms.Finder`).

    Parameters
    ----------
    options
        Of those that the mechanism knows: `merge` and `backtrack`; and `PRUNE`.

    Raises
    ------
    UnsupportedPattern, PlanError
        The mechanism does not run the pattern, or not in this order.

    Notes
    -----
    Under TIES ANY an event may have to be bound after one that comes later in the stream. No automaton that reads each
    event once can do that; then the runs of a chain take their events from an input buffer, as those of the lazy chain
    automaton in the pattern's order do (DEBS'15 section 4), and the options change nothing.
    """
    MECHANISM.check(pattern)
    planned = orders_only(MECHANISM.name, pattern, orders)
    for clause, order in zip(pattern.clauses, planned, strict=True):
        refuse_other_orders(MECHANISM.name, pattern, clause, order)
    forking = pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH
    if forking and not before_is_earlier(pattern.ties):
        yield from find_alone(MECHANISM.name, "prefix", pattern, orders, events, owned, counters)
        return
    lives = RunLives()

    def start(of: ClauseSlice, _: object) -> ClauseRun:
        deterministic = not forking and not any(variable.kleene for variable in of.clause.positive)
        if deterministic and not (options - {PRUNE} and is_chain(of.clause)):
            return ClauseRuns(of, lives)
        return OwnedRuns(of, options, lives)

    yield from find_by_clause(pattern, planned, events, owned, counters, start)
    counters.peaks.append(partial(lives.peak, len(events)))


class OwnedRuns:
    """The runs of a chain over one slice: iterate over it once for the matches that the slice owns."""

    def __init__(self, of: ClauseSlice, options: frozenset[str], lives: RunLives) -> None:
        self.of, self.pattern, self.clause, self.lives = of, of.pattern, of.clause, lives
        self.runs = AutomatonRuns(
            of.pattern,
            of.clause,
            of.events,
            of.earliest_row,
            of.end_row,
            merge="merge" in options,
            backtrack="backtrack" in options,
            prune=PRUNE in options and of.owned == EVERYTHING,
        )

    def __iter__(self) -> Iterator[Block]:
        for block in self.runs:
            if self.of.owned == EVERYTHING:
                yield block
                continue
            kept = block.take(self.of.owns(block.first_rows(), block.last_rows()))
            if len(kept):
                yield kept

    def count(self, counters: Counters) -> None:
        """Add what happened at each state, and what became of the runs."""
        runs = self.runs
        names = [variable.name for variable in self.clause.positive]
        for place, (candidates, passes) in enumerate(runs.counts.tolist()):
            created = passes if place + 1 < len(names) or self.clause.positive[place].kleene else 0
            bound = tuple(names[: place + 1])
            # Runs that others go on for are not tried, and other strategies do not try all events.
            tried_all = self.pattern.strategy is Strategy.SKIP_TILL_ANY_MATCH and not runs.merges
            tested = conjuncts_joining(self.clause, bound[:-1], bound[-1:]) if place and tried_all else None
            counters.count(
                NodeCounts(self.pattern.name, self.clause.index, bound, candidates, passes, created, tested=tested)
            )
        counters.evaluations += runs.evaluations
        control = runs.control.tolist()
        counters.count_runs(
            self.pattern.name,
            RunCounts(
                started=control[at.STARTED],
                merged=control[at.MERGED],
                selected=int(runs.counts[:, 1].sum()),
                read=control[at.READ],
                read_again=control[at.READ_AGAIN],
                most_entries=control[at.MOST_ENTRIES],
            ),
        )
        rows = np.flatnonzero(runs.change != 0)  # bools are searched many at a time
        self.lives.add(rows, runs.change[rows])
        self.lives.add(self._ends_of_expired(), -1)

    def _ends_of_expired(self) -> Array:
        rows = self.runs.rows_of_expired()
        return np.minimum(self.runs.instants.end_row_within(rows), self.runs.end_row)


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the mechanism does not run, in words; None if it runs the pattern."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return None  # the parser refuses all that other strategies do not allow
    if not all(map(is_chain, pattern.clauses)):
        return "a clause that is no chain"
    return None


MECHANISM = Mechanism(
    "nfab",
    find_matches,
    unsupported_feature=unsupported_feature,
    describe=describe,
    in_pattern_order=True,
    options=("merge", "backtrack"),
    prunes=True,
)
