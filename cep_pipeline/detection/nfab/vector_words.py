"""The value vector as words for `merging.py`: how each value is read from a run's slots and the cells of its lists."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.program import Program
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.computation_state import Kind, Value, value_vector
from cep_pipeline.detection.nfab.memory import address
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents


@dataclass(frozen=True, eq=False)
class VectorWords:
    """The values that runs in the state of each variable must agree on.

    Attributes
    ----------
    words, starts
        int64: `VALUE_WORDS` of each value; those of variable v are from `starts[v]` to `starts[v + 1]`.
    most
        The most values of one variable's state.
    columns
        The columns that the words point to.
    """

    words: Array
    starts: Array
    most: int
    columns: tuple[Array, ...] = field(default=())


def vector_words(pattern: Pattern, clause: Clause, program: Program, merges: bool) -> VectorWords:
    """The words of a clause's value vector; of none where nothing is merged."""
    if not merges:
        return VectorWords(np.zeros(1, np.int64), np.zeros(len(clause.positive) + 1, np.int64), 0)
    vector = value_vector(pattern, clause)
    columns: list[Array] = []
    found = []
    for variable in range(len(clause.positive)):
        own = []
        for value in vector.relevant(variable):
            own += _words(value, clause, program, columns)
        found.append(own)
    words = np.array([word for own in found for value in own for word in value] or [0], np.int64)
    starts = np.cumsum([0, *map(len, found)]).astype(np.int64)
    return VectorWords(words, starts, max(map(len, found)), tuple(columns))


def _words(value: Value, clause: Clause, program: Program, columns: list[Array]) -> list[tuple[int, int, int, int]]:
    variable = clause.positive[value.variable]
    is_cell = int(variable.kleene)
    match value.kind:
        case Kind.FIRST | Kind.LAST:
            columns.append(identity_codes(program.events, value.attribute))
            how = at.VALUE_OF_FIRST if value.kind is Kind.FIRST else at.VALUE_OF_NEWEST
            return [(how, value.variable, address(columns[-1]), is_cell)]
        case Kind.LENGTH:
            return [(at.LENGTH_OF_LIST, value.variable, 0, is_cell)]
        case Kind.LIST:
            return [(at.WHOLE_OF_SLOT, value.variable, 0, is_cell)]
        case Kind.AGGREGATE:
            return _aggregate_words(value, variable.name, program)


def _aggregate_words(value: Value, name: str, program: Program) -> list[tuple[int, int, int, int]]:
    """The words of a cell that the next value of an aggregate is computed from."""
    whole = program.events.column(value.attribute).type is ValueType.INT64
    found = program.accumulators.of(name, value.attribute, value.function, whole=whole)
    if found is None:
        return [(at.WHOLE_OF_SLOT, value.variable, 0, 1)]
    kind, count, place = found
    # Of an extreme or a sum, how many values there were matters only in that there were any.
    counted = at.WHOLE_OF_CELL if value.function in ("avg", "count") else at.SIGN_OF_CELL
    words = [(counted, value.variable, count, 1)]
    if kind == codes.SUM_WHOLES:
        words += [(at.WHOLE_OF_CELL, value.variable, place + word, 1) for word in range(2)]
    elif kind in (codes.LEAST_WHOLE, codes.GREATEST_WHOLE):
        words.append((at.WHOLE_OF_CELL, value.variable, place, 1))
    elif kind != codes.ONLY_COUNT:
        words.append((at.REAL_OF_CELL, value.variable, place, 1))
    return words


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
