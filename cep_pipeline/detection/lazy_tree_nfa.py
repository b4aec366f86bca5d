"""The lazy tree NFA (DEBS'15 section 6): the order in which events are bound is found at each step.

A state of the tree has an edge for each variable that is missing; an instance takes the one of which the input buffer
has the fewest events, by its counters. At the root nothing is done before every type has an event in the buffer. States
are made when they are first reached. The answer is that of every chain.

Differs from the paper in two points. The counter of a variable is weighed by the share of its events that held their
conditions of late: else a type that is slightly rarer would be combined with events that no condition joins it to. And
the root keeps its variable until another one is markedly rarer: at a change all instances are given up, and the new
root takes the events of its variable that are in the buffer; only matches that end later are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.blocks import Block
from cep_pipeline.detection.lazy_chain_nfa import refuse_other_strategies
from cep_pipeline.detection.mechanism import Counters, Orders, Owned
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.pattern import Pattern

MECHANISM = "lazy_tree_nfa"


def refuse_unsupported(pattern: Pattern) -> None:
    """Raise for a pattern that the mechanism does not run: one under another strategy than skip_till_any_match.

    Raises
    ------
    UnsupportedPattern
        It names the strategy.
    """
    refuse_other_strategies(MECHANISM, pattern)


def find(pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters) -> Iterator[Block]:
    """The owned matches of a pattern, in orders of its own whatever the plan says; see `Mechanism.find`."""
    from cep_pipeline.detection.lazy_nfa.clauses import find_lazily

    refuse_unsupported(pattern)
    yield from find_lazily(MECHANISM, pattern, None, events, owned, counters)
