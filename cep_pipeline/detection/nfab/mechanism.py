"""The record of the mechanism `nfab`: clause after clause, each with runs of its own; an instance is a run."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.clause_runs import ClauseRun, ClauseSlice, find_by_clause
from cep_pipeline.detection.mechanisms import (
    PRUNE,
    Counters,
    Mechanism,
    Orders,
    Owned,
    orders_only,
    refuse_other_orders,
)
from cep_pipeline.detection.network.run import find_alone
from cep_pipeline.detection.nfab.automaton import describe, is_chain
from cep_pipeline.detection.nfab.automaton_runs import AutomatonRuns
from cep_pipeline.detection.nfab.runs import ClauseRuns, RunLives
from cep_pipeline.detection.preferred.search import PreferredSearch, is_searched
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.prepared import PreparedEvents


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
    if is_searched(pattern):
        runs = PreferredSearch(pattern, events, owned, options)
        yield from runs
        runs.count(counters)
        return
    forking = pattern.strategy.forks
    if forking and not before_is_earlier(pattern.ties):
        yield from find_alone(MECHANISM.name, "prefix", pattern, orders, events, owned, counters)
        return
    lives = RunLives()

    def start(of: ClauseSlice, _: object) -> ClauseRun:
        deterministic = not forking and not any(variable.kleene for variable in of.clause.positive)
        if deterministic and not (options - {PRUNE} and is_chain(of.clause)):
            return ClauseRuns(of, lives)
        return AutomatonRuns(of, options, lives)

    yield from find_by_clause(pattern, planned, events, owned, counters, start)
    if counters.wanted:
        counters.count_peak(lives.peak(len(events)))


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that the mechanism does not run, in words; None if it runs the pattern."""
    if not pattern.strategy.forks:
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
