"""Detection: the evaluation mechanisms, and everything between their matches and the matches table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cep_pipeline.detection.mechanism import Counters, Mechanism, Orders, Owned

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.planning.multi_pattern import Sharing
    from cep_pipeline.slices.blocks import Block
    from cep_pipeline.slices.prepared import PreparedEvents


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


def _share_fused(patterns: Sequence[Pattern], orders: Sequence[Orders], events: PreparedEvents) -> None:
    """One pattern after another, so that the matches of one are held at a time; what several begin with is stored."""
    from cep_pipeline.detection.fused.shared_work import share_work

    share_work(patterns, orders, events)


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


def _check_lazy_tree(pattern: Pattern) -> None:
    from cep_pipeline.detection.lazy_tree.run import refuse_unsupported

    refuse_unsupported(pattern)


def _find_lazy_tree(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Clause after clause, in orders of its own whatever the plan says; a node is a state of the automaton."""
    from cep_pipeline.detection.lazy_tree.run import find

    yield from find(pattern, events, owned, counters)


def _check_eager_nfa(pattern: Pattern) -> None:
    from cep_pipeline.detection.eager_nfa.support import refuse_unsupported

    refuse_unsupported(pattern)


def _find_eager_nfa(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Clause after clause; a node is a state of the automaton, by what it has bound."""
    from cep_pipeline.detection.eager_nfa.run import find_eagerly

    yield from find_eagerly(pattern, orders, events, owned, counters)


def _check_network(mechanism: str, pattern: Pattern) -> None:
    from cep_pipeline.detection.network.finding import refuse_for

    refuse_for(mechanism, pattern)


def _network_of_one(mechanism: str, sharing: Sharing) -> Mechanism:
    """A mechanism that runs one pattern after another, each clause on a join network of its own."""

    def find(
        pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
    ) -> Iterator[Block]:
        from cep_pipeline.detection.network.finding import find_alone

        yield from find_alone(mechanism, sharing, pattern, orders, events, owned, counters)

    check: Callable[[Pattern], None] = partial(_check_network, mechanism)
    return Mechanism(check, find, runs_trees=sharing == "subexpression", in_order=True)


def _network_of_many(mechanism: str, sharing: Sharing) -> Mechanism:
    """A mechanism that runs many patterns together on one join network, and one pattern as the only one."""

    def find_many(
        patterns: Sequence[Pattern],
        orders: Sequence[Orders],
        events: PreparedEvents,
        owned: Owned,
        counters: Counters,
    ) -> Iterator[tuple[int, Block]]:
        from cep_pipeline.detection.network.finding import find_together

        yield from find_together(mechanism, sharing, patterns, orders, events, owned, counters)

    def find(
        pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
    ) -> Iterator[Block]:
        for _, block in find_many([pattern], [orders], events, owned, counters):
            yield block

    check: Callable[[Pattern], None] = partial(_check_network, mechanism)
    runs_trees = sharing == "subexpression"
    return Mechanism(check, find, find_many=find_many, always_shares=True, runs_trees=runs_trees, in_order=True)


MECHANISMS: Mapping[str, Mechanism] = {
    "fused": Mechanism(_check_fused, _find_fused, _count_fused, share=_share_fused, runs_trees=True),
    "lazy_chain_nfa": _network_of_one("lazy_chain_nfa", "prefix"),
    "lazy_tree_nfa": Mechanism(_check_lazy_tree, _find_lazy_tree, in_order=True),
    "evaluation_tree": _network_of_one("evaluation_tree", "subexpression"),
    "eager_nfa": Mechanism(_check_eager_nfa, _find_eager_nfa, in_pattern_order=True, in_order=True),
    "nfab": Mechanism(_check_nfab, _find_nfab, in_pattern_order=True, options=("merge", "backtrack"), prunes=True),
    "multi_pattern_nfa": _network_of_many("multi_pattern_nfa", "prefix"),
    "multitree": _network_of_many("multitree", "subexpression"),
}
"""The evaluation mechanisms by name, from fast to slow; those that are only for many patterns at once come last."""
