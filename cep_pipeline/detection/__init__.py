"""Detection: the evaluation mechanisms, and everything between their matches and the matches table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cep_pipeline.detection.mechanism import Counters, Mechanism, NodeCounts, Orders, Owned

if TYPE_CHECKING:
    from cep_pipeline.detection.blocks import Block
    from cep_pipeline.detection.fused.clause import ClauseRun
    from cep_pipeline.detection.prepared import PreparedEvents
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
    from cep_pipeline.detection.fused.clause import run_clause
    from cep_pipeline.detection.kleene.run import KleeneRun
    from cep_pipeline.detection.kleene.skeleton import has_kleene

    for clause, order in zip(pattern.clauses, orders, strict=True):
        run: ClauseRun | KleeneRun
        if has_kleene(clause):
            run = KleeneRun(pattern, clause, order, events, owned)
            order = run.order
        else:
            run = run_clause(pattern, clause, order, events, owned)
        yield from run
        for level, count in enumerate(run.counts):
            bound = tuple(order[: level + 1])
            tested = sum(c.variables <= set(bound) and count.variable in c.variables for c in clause.conjuncts)
            counters.condition_evaluations += tested * count.candidates if level else 0
            counters.count(NodeCounts(pattern.name, clause.index, bound, count.candidates, count.passes))


MECHANISMS: Mapping[str, Mechanism] = {"fused": Mechanism(_check_fused, _find_fused)}
"""The evaluation mechanisms by name, from fast to slow."""
