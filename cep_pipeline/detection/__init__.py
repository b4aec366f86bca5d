"""Detection: the evaluation mechanisms, and everything between their matches and the matches table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cep_pipeline.detection import lazy_chain_nfa, lazy_tree_nfa
from cep_pipeline.detection.mechanism import Counters, Mechanism, Orders, Owned

if TYPE_CHECKING:
    from cep_pipeline.detection.blocks import Block
    from cep_pipeline.detection.prepared import PreparedEvents
    from cep_pipeline.patterns.pattern import Pattern


def _check_fused(pattern: Pattern) -> None:
    from cep_pipeline.detection.fused.support import refuse_unsupported

    refuse_unsupported(pattern)


def _find_fused(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Clause after clause on the columnar kernel: a node is a level of its loops, which store no partial match.

    A bushy node of a tree joins two sides, of which it stores one. Every conjunct of a level counts as evaluated on
    each of its candidates: the kernel tests them all in vectors. Kleene variables are bound after the single ones; a
    list is their candidate.
    """
    from cep_pipeline.detection.fused.running import find_matches

    yield from find_matches(pattern, orders, events, owned, counters)


def _count_fused(pattern: Pattern, orders: Orders, events: PreparedEvents, counters: Counters) -> int | None:
    from cep_pipeline.detection.fused.running import count_pattern

    return count_pattern(pattern, orders, events, counters)


def _check_nfab(pattern: Pattern) -> None:
    from cep_pipeline.detection.nfab.support import refuse_unsupported

    refuse_unsupported(pattern)


def _find_nfab(
    pattern: Pattern,
    orders: Orders,
    events: PreparedEvents,
    owned: Owned,
    counters: Counters,
    options: frozenset[str] = frozenset(),
) -> Iterator[Block]:
    """Clause after clause, each with runs of its own; an instance is a run."""
    from cep_pipeline.detection.nfab.finding import find_matches

    yield from find_matches(pattern, orders, events, owned, counters, options)


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
    "fused": Mechanism(_check_fused, _find_fused, _count_fused, runs_trees=True),
    "lazy_chain_nfa": Mechanism(lazy_chain_nfa.refuse_unsupported, lazy_chain_nfa.find),
    "lazy_tree_nfa": Mechanism(lazy_tree_nfa.refuse_unsupported, lazy_tree_nfa.find),
    "evaluation_tree": Mechanism(_check_evaluation_tree, _find_evaluation_tree, runs_trees=True),
    "eager_nfa": Mechanism(_check_eager_nfa, _find_eager_nfa, in_pattern_order=True),
    "nfab": Mechanism(_check_nfab, _find_nfab, in_pattern_order=True, options=("merge", "backtrack"), prunes=True),
}
"""The evaluation mechanisms by name, from fast to slow."""
