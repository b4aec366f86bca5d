"""Detection: the evaluation mechanisms, and everything between their matches and the matches table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cep_pipeline.detection.mechanism import EVERYTHING, Counters, Mechanism, NodeCounts, Orders, Owned, orders_only

if TYPE_CHECKING:
    from cep_pipeline.detection.blocks import Block
    from cep_pipeline.detection.finality import Finality
    from cep_pipeline.detection.fused.clause import ClauseRun
    from cep_pipeline.detection.kleene.run import KleeneRun
    from cep_pipeline.detection.prepared import PreparedEvents
    from cep_pipeline.patterns.normal_form import Clause
    from cep_pipeline.patterns.pattern import Pattern


def _check_fused(pattern: Pattern) -> None:
    from cep_pipeline.detection.fused.support import refuse_unsupported

    refuse_unsupported(pattern)


def _find_fused(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Clause after clause on the columnar kernel, which stores no partial match: a node is a level of its loops.

    Every conjunct of a level counts as evaluated on each of its candidates: the kernel tests them all in vectors, and
    an equality that sorted ranges fulfil without a test holds for just those candidates. Kleene variables are
    bound after the single ones; a list is their candidate.
    """
    from cep_pipeline.detection.finality import finality_of
    from cep_pipeline.detection.fused.clause import run_clause
    from cep_pipeline.detection.fused.shared_bindings import without_earlier
    from cep_pipeline.detection.kleene.run import KleeneRun
    from cep_pipeline.detection.kleene.skeleton import has_kleene

    def start(clause: Clause, order: Sequence[str], finality: Finality) -> ClauseRun | KleeneRun:
        if has_kleene(clause):
            return KleeneRun(pattern, clause, order, events, owned, finality)
        return run_clause(pattern, clause, order, events, owned, finality=finality)

    planned = list(zip(pattern.clauses, orders_only("fused", pattern, orders), strict=True))
    for clause, order in planned:
        finality = finality_of(pattern, clause)
        run = start(clause, order, finality)
        order = run.order
        # Bindings that are final earlier by another clause belong to the slice of that point.
        earlier = [
            start(other, other_order, finality)
            for other, other_order in planned
            if owned != EVERYTHING and other.positive == clause.positive and finality_of(pattern, other) < finality
        ]
        yield from without_earlier(run, earlier)
        _add_counts(run, pattern, clause, order, counters)


def _count_fused(pattern: Pattern, orders: Orders, events: PreparedEvents, counters: Counters) -> int | None:
    """Clause after clause, where none has to be listed and no two have bindings in common."""
    from cep_pipeline.detection.finality import finality_of
    from cep_pipeline.detection.fused.clause import run_clause
    from cep_pipeline.detection.kleene.counting import count_matches, counts_at_once
    from cep_pipeline.detection.kleene.run import KleeneRun
    from cep_pipeline.detection.kleene.skeleton import has_kleene

    if not any(map(has_kleene, pattern.clauses)):
        return None  # blocks of fixed width are counted as fast
    if len({clause.positive for clause in pattern.clauses}) < len(pattern.clauses):
        return None
    runs: list[ClauseRun | KleeneRun] = []
    for clause, order in zip(pattern.clauses, orders_only("fused", pattern, orders), strict=True):
        if not has_kleene(clause):
            runs.append(run_clause(pattern, clause, order, events, finality=finality_of(pattern, clause)))
            continue
        listing = KleeneRun(pattern, clause, order, events, EVERYTHING, finality_of(pattern, clause))
        if not counts_at_once(listing):
            return None
        runs.append(listing)
    total = 0
    for run in runs:
        total += count_matches(run) if isinstance(run, KleeneRun) else sum(map(len, run))
        _add_counts(run, pattern, run.clause, run.order, counters)
    return total


def _add_counts(
    run: ClauseRun | KleeneRun, pattern: Pattern, clause: Clause, order: Sequence[str], counters: Counters
) -> None:
    for level, count in enumerate(run.counts):
        bound = tuple(order[: level + 1])
        tested = sum(c.variables <= set(bound) and count.variable in c.variables for c in clause.conjuncts)
        counters.condition_evaluations += tested * count.candidates if level else 0
        counters.count(NodeCounts(pattern.name, clause.index, bound, count.candidates, count.passes))


def _check_nfab(pattern: Pattern) -> None:
    from cep_pipeline.detection.nfab.support import refuse_unsupported

    refuse_unsupported(pattern)


def _find_nfab(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Clause after clause, each with runs of its own; an instance is a run."""
    from cep_pipeline.detection.nfab.runs import find_runs

    yield from find_runs(pattern, orders, events, owned, counters)


def _check_evaluation_tree(pattern: Pattern) -> None:
    from cep_pipeline.detection.evaluation_tree.find import refuse_unsupported

    refuse_unsupported(pattern)


def _find_evaluation_tree(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Clause after clause, each with a tree of its own; an order is a left-deep tree."""
    from cep_pipeline.detection.evaluation_tree.find import find_by_trees

    yield from find_by_trees(pattern, orders, events, owned, counters)


def _check_eager_nfa(pattern: Pattern) -> None:
    from cep_pipeline.detection.eager_nfa.support import refuse_unsupported

    refuse_unsupported(pattern)


def _find_eager_nfa(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Clause after clause; a node is a state of the automaton, by what it has bound."""
    from cep_pipeline.detection.eager_nfa.run import find_eagerly

    yield from find_eagerly(pattern, orders, events, owned, counters)


MECHANISMS: Mapping[str, Mechanism] = {
    "fused": Mechanism(_check_fused, _find_fused, _count_fused),
    "evaluation_tree": Mechanism(_check_evaluation_tree, _find_evaluation_tree),
    "eager_nfa": Mechanism(_check_eager_nfa, _find_eager_nfa, in_pattern_order=True),
    "nfab": Mechanism(_check_nfab, _find_nfab, in_pattern_order=True),
}
"""The evaluation mechanisms by name, from fast to slow."""
