"""Conditions on the same two events, tested together on the pairs that sampling draws anyway.

Conditions of one scope are tested on the same pairs, so that their joint share costs no more than an AND. Each set of
conditions that a clause asks of two variables is counted under a key of its own beside the conditions themselves; what
of it becomes a joint selectivity is decided when the counts are a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.joint import Members, Term, members_to_key, terms_of_clause
from cep_pipeline.statistics.terms import FIRST, SECOND, PairCondition, PairScope

MOST_TOGETHER = 6
"""Of more conditions on two variables, only all of them together and the first ones in twos are counted."""


@dataclass(frozen=True)
class JointPairs:
    """Conditions of one scope on the same two events.

    Attributes
    ----------
    parts
        The conditions; all have one scope.
    swapped
        Of which the first event is the second one of the others: where both are of one leaf, in no order.
    members
        What `JointSelectivity.members` has.
    """

    parts: tuple[PairCondition, ...]
    swapped: tuple[bool, ...]
    members: Members

    @property
    def scope(self) -> PairScope:
        """The scope of the pairs."""
        return self.parts[0].scope

    @cached_property
    def key(self) -> str:
        """The members as text: what the pairs are counted under."""
        return members_to_key(self.members)

    def holds(self, events: PreparedEvents, first: Array, second: Array) -> Array:
        """bool, for each pair of rows: all of them hold."""
        passing = np.ones(len(first), dtype=bool)
        for part, swapped in zip(self.parts, self.swapped, strict=True):
            left = np.flatnonzero(passing)
            one, other = (second[left], first[left]) if swapped else (first[left], second[left])
            passing[left] = conjunct_holds(part.conjunct, events, {FIRST: one, SECOND: other})
        return passing


def joint_pairs(patterns: Iterable[Pattern]) -> list[JointPairs]:
    """The sets of conditions that clauses ask of two single events, each once."""
    found: dict[Members, JointPairs] = {}
    for pattern in patterns:
        for clause in pattern.clauses:
            positions = {variable.name: place for place, variable in enumerate(clause.positive)}
            on_pair: dict[frozenset[str], list[Term]] = {}
            for term in terms_of_clause(pattern, clause):
                if isinstance(term.condition, PairCondition):
                    on_pair.setdefault(frozenset(term.names), []).append(term)
            for names, terms in on_pair.items():
                earlier = min(names, key=positions.__getitem__)
                for chosen in _sets(terms):
                    joint = _joint(chosen, earlier)
                    found.setdefault(joint.members, joint)
    return list(found.values())


def _sets(terms: Sequence[Term]) -> Iterator[Sequence[Term]]:
    if len(terms) > 1:
        yield terms
    if len(terms) > 2:
        yield from combinations(terms[:MOST_TOGETHER], 2)


def _joint(terms: Sequence[Term], earlier: str) -> JointPairs:
    named = sorted(
        ((term.key, tuple(int(name != earlier) for name in term.names), term) for term in terms),
        key=lambda entry: entry[:2],
    )
    parts = tuple(term.condition for _, _, term in named if isinstance(term.condition, PairCondition))
    first = named[0][1]
    return JointPairs(parts, tuple(over != first for _, over, _ in named), tuple((key, over) for key, over, _ in named))
