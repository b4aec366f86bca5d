"""The conditions on the lists of a Kleene variable, by when they can be decided, and what ends the growth of a list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import Uses
from cep_pipeline.patterns.conditions import Between, Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, variables_of
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clause_cache_of


@dataclass(frozen=True)
class ListConditions:
    """The conjuncts over a Kleene variable and variables bound before it, by when they can be decided.

    The limits of `A{n,m} v[]` are not among them: whoever makes lists looks at the variable for these.

    Attributes
    ----------
    elements
        On one element, and variables bound before.
    adjacent
        On an element and the one before it, and variables bound before.
    growing
        Other ones that a longer list cannot make true again.
    whole
        Those that need the whole list.
    """

    elements: tuple[Conjunct, ...]
    adjacent: tuple[Conjunct, ...]
    growing: tuple[Conjunct, ...]
    whole: tuple[Conjunct, ...]

    @classmethod
    def of(cls, clause: Clause, variable: str, bound: frozenset[str]) -> ListConditions:
        """The conditions of a variable, where others are bound already; divided once for all slices."""
        key = "list conditions", variable, bound
        return clause_cache_of(clause).once(key, lambda: cls._divided(clause, variable, bound))

    @classmethod
    def _divided(cls, clause: Clause, variable: str, bound: frozenset[str]) -> ListConditions:
        found: dict[str, list[Conjunct]] = {kind: [] for kind in ("elements", "adjacent", "growing", "whole")}
        limits = clause.by_name[variable].limits
        for conjunct in clause.conjuncts:
            if conjunct in limits or variable not in conjunct.variables or not conjunct.variables <= bound | {variable}:
                continue
            uses = Uses.of(conjunct)
            kinds = uses.kinds[variable]
            if kinds == {Element.EACH}:
                if len(conjunct.variables) > 1:  # the others choose the variable's candidates
                    found["elements"].append(conjunct)
            elif kinds <= {Element.CURRENT, Element.PREVIOUS}:
                found["adjacent"].append(conjunct)
            else:
                found["whole" if variable in uses.whole else "growing"].append(conjunct)
        return cls(**{kind: tuple(conjuncts) for kind, conjuncts in found.items()})


def limit_in(
    conjunct: Conjunct, name: str, course_of: Callable[[Length | Aggregate], tuple[bool, bool]]
) -> Conjunct | None:
    """The part of a condition on a whole list that a longer list cannot make true again; None where there is none.

    Parameters
    ----------
    course_of
        Returns whether a value of the list never falls as it grows, and whether it never rises.
    """
    match conjunct.atoms:
        case (Comparison(comparator, left, right),):
            sides = [(left, comparator, right), (right, comparator.mirror, left)]
        case (Between(expression, low, high, False),):
            sides = [(expression, Comparator.LE, high), (expression, Comparator.GE, low)]
        case _:
            return None
    for side, comparator, other in sides:
        if name in variables_of(other) or not isinstance(side, Length | Aggregate) or side.variable != name:
            continue
        never_falls, never_rises = course_of(side)
        if never_falls and comparator in (Comparator.LT, Comparator.LE, Comparator.EQ):
            kept = Comparator.LT if comparator is Comparator.LT else Comparator.LE
        elif never_rises and comparator in (Comparator.GT, Comparator.GE, Comparator.EQ):
            kept = Comparator.GT if comparator is Comparator.GT else Comparator.GE
        else:
            continue
        whole = kept is comparator and not isinstance(conjunct.atoms[0], Between)
        return conjunct if whole else Conjunct((Comparison(kept, side, other),))
    return None


def possible_course(side: Length | Aggregate) -> tuple[bool, bool]:
    """The most that can be true of a value of the list: a sum never falls, or never rises, by the signs in the data."""
    if isinstance(side, Length) or side.function in ("count", "max"):
        return True, False
    return side.function == "sum", side.function in ("sum", "min")


def course_among(events: PreparedEvents, leaf: Array, side: Length | Aggregate) -> tuple[bool, bool]:
    """Return whether a value of a list never falls, and whether it never rises, by the values of its candidates."""
    never_falls, never_rises = possible_course(side)
    if isinstance(side, Length) or side.function == "count" or not (never_falls or never_rises):
        return never_falls, never_rises
    column = events.column(side.attribute)
    if column.valid is not None and not column.valid[leaf].all():
        return False, False  # a value appears with the first element that is not null
    if side.function != "sum":
        return never_falls, never_rises
    values = column.values[leaf]
    return not (values < 0).any(), not (values > 0).any()
