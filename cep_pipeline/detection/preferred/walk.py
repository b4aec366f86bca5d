"""OUTPUT PREFERRED: of all matches with one first event the one that a walk through the pattern prefers.

The walk goes through PATTERN as it is written (docs/language.md, section 5.4). All that it meets are numbers, of which
the lesser is preferred: the place of the branch that a clause has chosen at an OR, whether an operand that may be
absent is bound, the length of a list with its sign, and the rows of events. Number after number, the matches of a first
event that have not the least one drop out, until one is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, product

import numpy as np

from cep_pipeline.detection.ordering import joined_lists
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern
from cep_pipeline.patterns.structure import Composite, EventOperand, Negation, Operator, Structure
from cep_pipeline.slices.blocks import Block


def preferred_of(pattern: Pattern, blocks: Sequence[Block]) -> list[Block]:
    """The preferred one of all matches with each first event.

    Parameters
    ----------
    pattern
        A pattern with OUTPUT PREFERRED.
    blocks
        All its matches with the first events that any of them have, once for each clause that they satisfy.

    Notes
    -----
    Time O(n log n) for n matches, and O(l) more for a list of l events of which another match with the same first event
    has one of the same length and beginning.
    """
    blocks = [block for block in blocks if len(block)]
    if not blocks:
        return []
    walk = _Walk(pattern, blocks)
    walk.through(pattern.structure)
    ends = np.cumsum([len(block) for block in blocks])
    found = zip(blocks, np.split(walk.preferred(), ends[:-1]), strict=True)
    return [block.take(own) for block, own in found if own.any()]


class _Walk:
    """A walk through a pattern, with the matches of each first event that are still to be compared."""

    def __init__(self, pattern: Pattern, blocks: Sequence[Block]) -> None:
        self._matches = joined_lists(blocks)
        self._choices = choices_of(pattern)
        self._clauses = np.repeat([block.clause.index for block in blocks], [len(block) for block in blocks])
        self._firsts = self._matches.first_rows()
        self._decided = np.zeros(len(self._firsts), dtype=bool)
        self._open = np.argsort(self._firsts, kind="stable")
        self._decide()

    def preferred(self) -> Array:
        """The matches that are preferred, bool of shape (n,), after the whole walk."""
        assert not len(self._open), "two matches are the same"
        return self._decided

    def through(self, structure: Structure) -> None:
        """Compare matches by what is met in a part of the pattern."""
        if not len(self._open) or isinstance(structure, Negation):
            return
        if isinstance(structure, EventOperand):
            if not structure.negated:
                self._meet_events(structure)
            return
        if structure.operator is Operator.OR:
            chosen = np.array([choice.get(id(structure), 0) for choice in self._choices])
            self._meet(chosen[self._clauses[self._open]])
        for operand in structure.operands:
            self.through(operand)

    def _meet_events(self, operand: EventOperand) -> None:
        if operand.variable not in self._matches.names:
            return
        starts, lengths = self._matches.spans_of(operand.variable)
        sign = -1 if operand.reluctant else 1
        if operand.optional:
            self._meet(-sign * (lengths[self._open] > 0))
        if operand.kleene:
            self._meet(-sign * lengths[self._open])
        for element in count():
            longer = lengths[self._open] > element
            if not longer.any():
                return
            rows = np.zeros(len(longer), np.int64)
            rows[longer] = self._matches.bound_rows[starts[self._open[longer]] + element]
            self._meet(rows)

    def _meet(self, numbers: Array) -> None:
        """Let those matches drop out that have not the least number of their first event."""
        if not len(self._open):
            return
        starts = np.flatnonzero(np.diff(self._firsts[self._open], prepend=-1))
        least = np.repeat(np.minimum.reduceat(numbers, starts), np.diff(starts, append=len(self._open)))
        self._open = self._open[numbers == least]
        self._decide()

    def _decide(self) -> None:
        """Compare a match no longer that is the only one with its first event."""
        starts = np.flatnonzero(np.diff(self._firsts[self._open], prepend=-1))
        sizes = np.diff(starts, append=len(self._open))
        self._decided[self._open[starts[sizes == 1]]] = True
        self._open = self._open[np.repeat(sizes > 1, sizes)]


@once_a_pattern
def choices_of(pattern: Pattern) -> list[dict[int, int]]:
    """The choices of each clause: the id of an OR of the structure -> the place of the operand that the clause has."""
    return list(_choices(pattern.structure))


def _choices(structure: Structure) -> Iterator[dict[int, int]]:
    """The choices of each clause, in the order of `normal_form.normalize`."""
    if isinstance(structure, Composite) and structure.operator is Operator.OR:
        for place, operand in enumerate(structure.operands):
            yield from ({id(structure): place, **inside} for inside in _choices(operand))
    elif isinstance(structure, Composite):
        for chosen in product(*map(_choices, structure.operands)):
            yield {key: place for inside in chosen for key, place in inside.items()}
    else:
        yield from [{}] * (2 if isinstance(structure, EventOperand) and structure.optional else 1)
