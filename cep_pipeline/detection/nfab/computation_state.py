"""The value vector of a run's computation state, and the bit masks that say which values matter (SIGMOD'08, 5.2).

A run's future depends on its state, its start, and those values of what it has bound that some later edge reads. Two
runs in one state that agree on these take the same events from now on, whatever their histories: they can be merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from cep_pipeline.detection.nfab.automaton import Mention, last_variable, mentions, reads_whole_list
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, Reference
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties

TIMESTAMP = "timestamp"


class Kind(IntEnum):
    """What a value of the vector is.

    Attributes
    ----------
    FIRST, LAST
        An attribute of the first or of the newest event of a variable (of a single one, both are its event).
    LENGTH
        How many events a Kleene variable has.
    AGGREGATE
        A running aggregate: all that its next value is computed from.
    LIST
        The list itself: conditions that read every element of a list that has been left.
    """

    FIRST = 0
    LAST = 1
    LENGTH = 2
    AGGREGATE = 3
    LIST = 4


@dataclass(frozen=True, order=True)
class Value:
    """One column of the value vector: of the variable at a place in the chain, instantiated there."""

    variable: int
    kind: Kind
    attribute: str = ""
    function: str = ""


@dataclass(frozen=True)
class ValueVector:
    """The columns of V and the bit masks over them.

    Attributes
    ----------
    values
        The columns, by the variable that instantiates them, then by kind and attribute.
    masks
        For each variable of the chain the bits of the columns that are bound in its state and read by its edges or
        those of later states: the paper's `M_q OR M_(q+1) OR ...`, without what is not yet bound.
    """

    values: tuple[Value, ...]
    masks: tuple[int, ...]

    def relevant(self, variable: int) -> tuple[Value, ...]:
        """The columns that two runs in the state of a variable must agree on to be merged."""
        return tuple(value for bit, value in enumerate(self.values) if self.masks[variable] >> bit & 1)


def value_vector(pattern: Pattern, clause: Clause) -> ValueVector:
    """The value vector of a chain."""
    places = range(len(clause.positive))
    place_of = {variable.name: place for place, variable in enumerate(clause.positive)}
    relevant: list[set[Value]] = [set() for _ in places]
    for conjunct in clause.conjuncts:
        if not conjunct.variables or not conjunct.variables <= place_of.keys():
            continue
        last = last_variable(conjunct, clause)
        read = mentions(conjunct)
        for state in places[: last + 1]:
            if state == last and not _read_again(conjunct, clause, last):
                continue
            for node in read:
                if place_of[node.variable] <= state:
                    growing = place_of[node.variable] == last and not _reads_pairs(read, node.variable)
                    relevant[state].update(_values(node, place_of, clause, growing=growing))
    if pattern.ties is Ties.STRICT:
        # A later variable begins after the newest event; of one that is left, nothing of this is asked any more.
        for state in places[:-1]:
            relevant[state].add(Value(state, Kind.LAST, TIMESTAMP))
    values = tuple(sorted(set().union(*relevant)))
    masks = tuple(sum(1 << bit for bit, value in enumerate(values) if value in own) for own in relevant)
    return ValueVector(values, masks)


def _read_again(conjunct: Conjunct, clause: Clause, last: int) -> bool:
    """Whether a run in the state of the conjunct's last variable will test it again: as its list grows, or is left."""
    variable = clause.positive[last]
    if not variable.kleene:
        return False
    own = [node for node in mentions(conjunct) if node.variable == variable.name]
    return any(not isinstance(node, Reference) or node.element is not Element.FIRST for node in own)


def _reads_pairs(read: tuple[Mention, ...], variable: str) -> bool:
    """Whether a conjunct compares elements of a growing list with elements, or with all of the list, chosen apart."""
    own = [node for node in read if node.variable == variable]
    whole = any(map(reads_whole_list, own))
    each = any(isinstance(node, Reference) and node.element is Element.EACH for node in own)
    indexed = any(
        (isinstance(node, Reference) and node.element in (Element.CURRENT, Element.PREVIOUS))
        or (isinstance(node, Aggregate) and node.prefix)
        for node in own
    )
    return whole + each + indexed > 1


def _values(node: Mention, place_of: dict[str, int], clause: Clause, *, growing: bool) -> tuple[Value, ...]:
    """What of a variable a conjunct reads; of the one whose list still grows, what is read beside the new element."""
    place = place_of[node.variable]
    if isinstance(node, Length):
        return (Value(place, Kind.LENGTH),)
    if isinstance(node, Aggregate):
        if node.function in ("first", "last"):
            return (Value(place, Kind.FIRST if node.function == "first" else Kind.LAST, node.attribute),)
        if node.prefix and not growing:
            return (Value(place, Kind.LIST),)
        return (Value(place, Kind.AGGREGATE, node.attribute, node.function),)
    if not clause.positive[place].kleene or node.element is Element.FIRST:
        return (Value(place, Kind.FIRST, node.attribute),)
    if reads_whole_list(node):
        return (Value(place, Kind.LAST, node.attribute),)
    if not growing:
        return (Value(place, Kind.LIST),)
    if node.element is Element.PREVIOUS:
        return (Value(place, Kind.LAST, node.attribute),)
    return ()
