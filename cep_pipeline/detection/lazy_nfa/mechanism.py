"""The records of the lazy automata (DEBS'15).

The lazy chain NFA (DEBS'15 sections 4 and 5): events are bound in a given order, the rarest type first, say.

Each state of the chain binds the next variable of the order. Events that come before they can be bound wait in the
input buffer (store edges); an instance that reaches a state takes them from there, between the events that its scoping
parameters name, and waits for those to come if its scope is open to the future (take edges).

Differs from the paper in that the input buffer is one for all instances (each sees the part in its scope), that partial
orders, negation and Kleene closure are run too, and that an instance whose scope is in the past is not kept: the
paper's waits for nothing until its window ends.

The lazy tree NFA (DEBS'15 section 6): the order in which events are bound is found at each step.

A state of the tree has an edge for each variable that is missing; an instance takes the one that is cheapest by the
counters of the input buffer: the rarest, where conditions are alike. At the root nothing is done before every type has
an event in the buffer. States are made when they are first reached. The answer is that of every chain.

Differs from the paper in two points. A counter is not all that is looked at: how many of the events passed their
conditions of late, and which conditions are tested next, make a type dearer that no condition joins to what is bound.
And an instance keeps its edge, so that each match is found once. The root keeps its variable until another one is so
much cheaper that a change pays: then all instances are given up, and the new root takes the events of its variable that
are in the buffer; only matches that end later are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.lazy_nfa.clauses import find_lazily
from cep_pipeline.detection.mechanisms import Counters, Mechanism, Orders, Owned, beyond_any_match
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents

MOST_VARIABLES = 62
"""Sets of variables are bits of an int64."""


def unsupported_feature(pattern: Pattern) -> str | None:
    """The first feature of a pattern that a lazy automaton does not run, in words; None if it runs the pattern."""
    most = max(len(clause.positive) for clause in pattern.clauses)
    too_many = f"a clause of {most} variables (at most {MOST_VARIABLES})" if most > MOST_VARIABLES else None
    return beyond_any_match(pattern) or too_many


def find_by_chain(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Find the owned matches of a pattern, by the orders of a plan."""
    LAZY_CHAIN_NFA.check(pattern)
    yield from find_lazily(LAZY_CHAIN_NFA.name, pattern, orders, events, owned, counters)


def find_by_tree(
    pattern: Pattern, orders: Orders, events: PreparedEvents, owned: Owned, counters: Counters
) -> Iterator[Block]:
    """Find the owned matches of a pattern, in orders of its own whatever the plan says."""
    LAZY_TREE_NFA.check(pattern)
    yield from find_lazily(LAZY_TREE_NFA.name, pattern, None, events, owned, counters)


LAZY_CHAIN_NFA = Mechanism("lazy_chain_nfa", find_by_chain, unsupported_feature=unsupported_feature, in_order=True)
LAZY_TREE_NFA = Mechanism("lazy_tree_nfa", find_by_tree, unsupported_feature=unsupported_feature, in_order=True)
