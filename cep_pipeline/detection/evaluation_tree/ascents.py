"""What a join of two partial matches of a clause has to look at, by the variables of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product

from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.planning.numbers.negation import may_be_one


class Ascents:
    """The rules of order and distinctness of a clause; its positive variables are numbered in pattern order."""

    def __init__(self, pattern: Pattern, clause: Clause) -> None:
        self._pattern, self._clause = pattern, clause

    def may_come_last(self, variable: int, others: Sequence[int]) -> bool:
        """Whether an event of the variable can come later in the stream than those of the others."""
        if self._pattern.ties is Ties.ANY:
            return True
        name, positive = self._clause.positive[variable].name, self._clause.positive
        return not any((name, positive[other].name) in self._clause.precedence for other in others)

    def words(self, own: Sequence[int], others: Sequence[int], variable: int) -> list[int]:
        """What a join of a partial match of `own`, whose newest event is of `variable`, with one of `others` looks at.

        First whether there can be any that came before (1 or 0). Then, each with its length before it: the own
        variables that bound the scan from below (some event of the other side comes after theirs) and from above (all
        come before theirs), the pairs whose order is tested, and those that must be told apart. A pair is two words.
        """
        before, positive = self._precedes, self._clause.positive
        lower = [x for x in own if any(before[x][y] for y in others)]
        upper = [x for x in own if all(before[y][x] for y in others)]
        both = (*own, *others)
        single = not positive[variable].kleene
        one_event = len(others) == 1 and not positive[others[0]].kleene
        needed = []
        for x, y in (*product(own, others), *product(others, own)):
            if not before[x][y] or any(before[x][z] and before[z][y] for z in both):
                continue
            if (x in own and one_event) or y in upper:
                continue
            if y == variable and single and self._pattern.ties is not Ties.STRICT:
                continue
            needed.append((x, y))
        distinct = [
            (x, y)
            for x, y in product(own, others)
            if not (x == variable and single) and may_be_one(self._pattern, self._clause, positive[x], positive[y])
        ]
        words = [int(self.may_come_last(variable, others))]
        for part in (lower, upper):
            words += [len(part), *part]
        for pairs in (needed, distinct):
            words += [len(pairs), *(word for pair in pairs for word in pair)]
        return words

    @cached_property
    def _precedes(self) -> tuple[tuple[bool, ...], ...]:
        """Of each positive variable whether it comes before each of them."""
        names = [variable.name for variable in self._clause.positive]
        precedence = self._clause.precedence
        return tuple(tuple((one, other) in precedence for other in names) for one in names)
