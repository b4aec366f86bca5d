"""The value vector of a run (SIGMOD'08 section 5.2.2): the values of its past that decide its future.

A run's future depends on its state, its start, and those values of what it has bound that some later edge reads. Two
runs in one state that agree on these take the same events from now on, whatever their histories: they can be merged.
`value_vector` finds these values in a clause; `vector_words` writes for the kernel how each is read from a run's slots
and the cells of its lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.compiled.native import address
from cep_pipeline.detection.conditions.groups import Mention, mentions
from cep_pipeline.detection.conditions.program import Program
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.automaton import last_variable, reads_whole_list
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Element, Length, Reference, ValueType
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.order import earlier_is_before
from cep_pipeline.slices.prepared import PreparedEvents

TIMESTAMP = "timestamp"


@dataclass(frozen=True, order=True)
class Value:
    """One column of the value vector: of the variable at a place in the chain, instantiated there.

    Attributes
    ----------
    how
        How it is got, as in `words`: an attribute of the first or of the newest event (of a single variable, both are
        its event), how many events a list has, a running aggregate (`WORD_OF_CELL`: all that its next value is computed
        from), or the list itself, for conditions that read every element of a list that has been left.
    """

    variable: int
    how: int
    attribute: str = ""
    function: str = ""


def value_vector(pattern: Pattern, clause: Clause) -> list[list[Value]]:
    """The columns that two runs in the state of each variable of a chain must agree on to be merged.

    They are those that are bound there and read by the state's edges or those of later states: what the paper's masks
    `M_q OR M_(q+1) OR ...` select, without what is not yet bound; by the variable that instantiates them.
    """
    places = range(len(clause.positive))
    place_of = {variable.name: place for place, variable in enumerate(clause.positive)}
    relevant: list[set[Value]] = [set() for _ in places]
    for conjunct in clause.conjuncts:
        if not conjunct.variables or not conjunct.variables <= place_of.keys():
            continue
        last = last_variable(conjunct, clause)
        read = tuple(mentions(conjunct.atoms))
        for state in places[: last + 1]:
            if state == last and not _read_again(conjunct, clause, last):
                continue
            for node in read:
                if place_of[node.variable] <= state:
                    growing = place_of[node.variable] == last and not _reads_pairs(read, node.variable)
                    relevant[state].update(_values(node, place_of, clause, growing=growing))
    if not earlier_is_before(pattern.ties):
        # A later variable begins after the newest event; of one that is left, nothing of this is asked any more.
        for state in places[:-1]:
            relevant[state].add(Value(state, at.VALUE_OF_NEWEST, TIMESTAMP))
    return [sorted(own) for own in relevant]


def _read_again(conjunct: Conjunct, clause: Clause, last: int) -> bool:
    """Return whether a run in the state of the last variable will test it again, as its list grows or is left."""
    variable = clause.positive[last]
    if not variable.kleene:
        return False
    own = [node for node in mentions(conjunct.atoms) if node.variable == variable.name]
    return any(not isinstance(node, Reference) or node.element is not Element.FIRST for node in own)


def _reads_pairs(read: tuple[Mention, ...], variable: str) -> bool:
    """Return whether a conjunct compares elements of a growing list with other elements of it, or with all of it."""
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
    """The values that a conjunct reads of a variable; of a list that still grows, those beside the new element."""
    place = place_of[node.variable]
    if isinstance(node, Length):
        return (Value(place, at.LENGTH_OF_LIST),)
    if isinstance(node, Aggregate):
        if node.function in ("first", "last"):
            end = at.VALUE_OF_FIRST if node.function == "first" else at.VALUE_OF_NEWEST
            return (Value(place, end, node.attribute),)
        if node.function == "median" or (node.prefix and not growing):
            return (Value(place, at.WHOLE_OF_SLOT),)
        return (Value(place, at.WORD_OF_CELL, node.attribute, node.function),)
    if not clause.positive[place].kleene or node.element is Element.FIRST:
        return (Value(place, at.VALUE_OF_FIRST, node.attribute),)
    if reads_whole_list(node):
        return (Value(place, at.VALUE_OF_NEWEST, node.attribute),)
    if not growing:
        return (Value(place, at.WHOLE_OF_SLOT),)
    if node.element is Element.PREVIOUS:
        return (Value(place, at.VALUE_OF_NEWEST, node.attribute),)
    return ()


def vector_words(pattern: Pattern, clause: Clause, program: Program, merges: bool) -> tuple[Array, Array, list[Array]]:
    """The words of the values that runs in the state of each variable must agree on; of none where nothing is merged.

    Returns
    -------
    words, starts : Array
        int64: `VALUE_WORDS` of each value; those of variable v are from `starts[v]` to `starts[v + 1]`.
    columns : list of Array
        What the words point to.
    """
    columns: list[Array] = []
    vector = value_vector(pattern, clause) if merges else [[] for _ in clause.positive]
    found = [[word for value in own for word in _words(value, clause, program, columns)] for own in vector]
    words = np.array([word for own in found for value in own for word in value] or [0], np.int64)
    return words, np.cumsum([0, *map(len, found)]).astype(np.int64), columns


def _words(value: Value, clause: Clause, program: Program, columns: list[Array]) -> list[tuple[int, int, int, int]]:
    variable = clause.positive[value.variable]
    if value.how == at.WORD_OF_CELL:
        return _aggregate_words(value, variable.event_type, program)
    if value.attribute:
        columns.append(identity_codes(program.events, value.attribute))
    return [(value.how, value.variable, address(columns[-1]) if value.attribute else 0, int(variable.kleene))]


def _aggregate_words(value: Value, of: EventType, program: Program) -> list[tuple[int, int, int, int]]:
    """The words of a cell that the next value of an aggregate is computed from."""
    whole = program.events.column(value.attribute).type is ValueType.INT64
    found = program.accumulators.of(of, value.attribute, value.function, whole=whole)
    if found is None:
        return [(at.WHOLE_OF_SLOT, value.variable, 0, 1)]
    begin, size = found
    # Of an extreme or a sum, how many values there were matters only in that there were any.
    counted = at.WORD_OF_CELL if value.function in ("avg", "count", "stddev") else at.SIGN_OF_CELL
    hows = [counted, *[at.WORD_OF_CELL] * (size - 1)]
    return [(how, value.variable, word, 1) for word, how in enumerate(hows, begin)]


def identity_codes(events: PreparedEvents, attribute: str) -> Array:
    """int64: equal only for rows with the same value of an attribute (or both without one)."""

    def make() -> Array:
        column = events.column(attribute)
        if column.type is ValueType.FLOAT64_LIST:
            return np.arange(len(events), dtype=np.int64)
        if column.valid is not None:
            numbers = np.full(len(events), -1, np.int64)
            numbers[column.valid] = np.unique(column.values[column.valid], return_inverse=True)[1]
            return numbers
        if column.type is ValueType.FLOAT64:
            return np.ascontiguousarray(column.values).view(np.int64)
        return np.ascontiguousarray(column.values.astype(np.int64))

    return events.derive(("identity of values", attribute), make)
