"""Equality keys: what events must agree on, as codes by which a level's view can be sorted; and comparable numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.comparison import EXACT_IN_FLOAT, of_one_dictionary
from cep_pipeline.expressions.comparison import known as known_values
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Element, Expression, Reference, ValueType, variables_of
from cep_pipeline.patterns.normal_form import Clause, connected_parts
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import is_padded, padded
from cep_pipeline.slices.views import ANY_EVENT, View, keyed_view, without_name


def largest(column: Column) -> int:
    """The largest magnitude among the int64 values of a column, nulls' arbitrary values included."""
    if len(column) == 0:
        return 0
    return max(abs(int(column.values.min())), abs(int(column.values.max())))


def is_exact(column: Column) -> bool:
    """Return whether float64 holds every value of the column."""
    if column.type is ValueType.INT64:
        return largest(column) <= EXACT_IN_FLOAT
    return column.type in (ValueType.FLOAT64, ValueType.BOOL)


def as_floats(column: Column) -> Array:
    """float64, padded; null is NaN. The column must be exact."""
    if column.type is ValueType.FLOAT64 and column.valid is None and is_padded(column.values):
        return column.values
    values = padded(len(column), np.float64)
    values[:] = column.values
    if column.valid is not None:
        values[~column.valid] = np.nan
    return values


def comparable(columns: Sequence[Column]) -> list[Array]:
    """Float64 columns, padded, that compare with each other as the columns do.

    Raises
    ------
    TypeError
        The columns' types do not compare; the language refuses such patterns.
    """
    kinds = {column.type for column in columns}
    if kinds == {ValueType.STRING}:
        return [as_floats(column) for column in of_one_dictionary(columns)]
    if not (kinds == {ValueType.BOOL} or all(kind.is_number for kind in kinds)):
        raise TypeError(f"{', '.join(sorted(kind.value for kind in kinds))} do not compare")
    if all(map(is_exact, columns)):
        return [as_floats(column) for column in columns]
    return _number_ranks(columns)


def _number_ranks(columns: Sequence[Column]) -> list[Array]:
    """Ranks of int64 values, or of int64 and float64 ones together: as Python numbers, which compare exactly."""
    known = [np.ones(len(one), dtype=bool) if (mask := known_values(one)) is None else mask for one in columns]
    mixed = any(column.type is ValueType.FLOAT64 for column in columns)
    values = [
        column.values[mask].astype(object) if mixed else column.values[mask]
        for column, mask in zip(columns, known, strict=True)
    ]
    _, ranks = np.unique(np.concatenate(values), return_inverse=True)
    result = []
    for column, mask, rank in zip(columns, known, _split(ranks, values), strict=True):
        spread = padded(len(column), np.float64)
        spread[:] = np.nan
        spread[mask] = rank
        result.append(spread)
    return result


T = TypeVar("T")

DENSE_SPAN = 4
"""Integers that span at most this many times their number are their own codes."""


OwnTerm: TypeAlias = tuple[str, Expression]
"""A variable, and an expression over it alone."""


@dataclass(frozen=True)
class Key:
    """Terms of several variables that are equal in every match.

    Attributes
    ----------
    terms
        (variable, its expressions): one expression for each component of the key, in the same order for all.
    conjuncts
        The conjuncts that agreement on the key makes true.
    """

    terms: tuple[tuple[str, tuple[Expression, ...]], ...]
    conjuncts: frozenset[Conjunct] = frozenset()

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(variable for variable, _ in self.terms)

    def expressions(self, variable: str) -> tuple[Expression, ...]:
        return dict(self.terms)[variable]


def keys_of(clause: Clause, types: Mapping[str, ValueType]) -> tuple[Key, ...]:
    """The keys of a clause: one over all variables, if there is any such equality, else all that join some of them.

    Parameters
    ----------
    types
        Type of each attribute.
    """
    names = [variable.name for variable in clause.positive]
    # What a negated variable agrees on says nothing about the positive ones.
    joined = _equalities(conjunct for conjunct in clause.conjuncts if conjunct.variables <= set(names))
    shared = [key for key in joined if set(key.variables) == set(names)]
    if not clause.agree_on and not shared:
        return tuple(joined)
    terms = []
    for name in names:
        agreed: tuple[Expression, ...] = tuple(
            Reference(name, attribute, Element.ONLY, types[attribute]) for attribute in clause.agree_on
        )
        terms.append((name, agreed + tuple(expression for key in shared for expression in key.expressions(name))))
    conjuncts = frozenset(conjunct for key in shared for conjunct in key.conjuncts)
    return (Key(tuple(terms), conjuncts),)


def key_of_added(
    clause: Clause, names: Sequence[str], added: str, types: Mapping[str, ValueType], *, of_all: bool
) -> Key | None:
    """The key of the events of one more variable: terms of some variables that are equal to terms of it in a match.

    It has as many components as any set of variables allows, and of these sets the largest.

    Parameters
    ----------
    names
        The variables that a match binds. What they agree on by conditions over them counts; the conditions of the added
        variable say nothing about them.
    added
        A negated variable: only its events that fulfil its conditions count.
    of_all
        Whether the key must be one of all variables.

    Returns
    -------
    Key or None
        A key over `added` and at least one of `names`; its conjuncts are those that mention `added`.

    Examples
    --------
    With `a.k = c.k AND b.k = a.k`, the events of b are sorted by k, and so are those of a and c. With `b.k = a.k` alone
    the key joins a and b only.
    """
    classes = {
        (variable, expressions[0]): key
        for key in _equalities(conjunct for conjunct in clause.conjuncts if conjunct.variables <= set(names))
        for variable, expressions in key.terms
    }
    components: dict[tuple[OwnTerm, ...], list[Conjunct]] = {}
    for conjunct in clause.conjuncts:
        equal = _equal_terms(conjunct)
        if equal is None or added not in (equal[0][0], equal[1][0]):
            continue
        own, other = equal if equal[0][0] == added else (equal[1], equal[0])
        if other[0] not in names:
            continue
        joined = classes.get(other)
        members = (other,) if joined is None else tuple((name, terms[0]) for name, terms in joined.terms)
        components.setdefault((own, *members), []).append(conjunct)
    everything = frozenset(names)
    choices = [everything] if clause.agree_on or of_all else []
    if not of_all:
        choices += [frozenset(name for name, _ in terms[1:]) for terms in components]
    best: tuple[tuple[int, int], Key] | None = None
    for members_of_key in choices:
        wide = [terms for terms in components if members_of_key.issubset(name for name, _ in terms)]
        measure = (len(clause.agree_on) + len(wide), len(members_of_key))
        if not measure[0] or (best is not None and measure <= best[0]):
            continue
        key_terms = []
        for name in (*(name for name in names if name in members_of_key), added):
            agreed = tuple(Reference(name, attribute, Element.ONLY, types[attribute]) for attribute in clause.agree_on)
            key_terms.append((name, (*agreed, *(dict(terms)[name] for terms in wide))))
        made_true = frozenset(conjunct for terms in wide for conjunct in components[terms])
        best = measure, Key(tuple(key_terms), made_true)
    return None if best is None else best[1]


def _equal_terms(conjunct: Conjunct) -> tuple[OwnTerm, OwnTerm] | None:
    """The two terms that a conjunct equates, where each is over one variable and these are two."""
    match conjunct.atoms:
        case (Comparison(Comparator.EQ, left, right),):
            ends = (variables_of(left), variables_of(right))
            if len(ends[0]) == len(ends[1]) == 1 and ends[0] != ends[1]:
                (first,), (second,) = ends
                return (first, left), (second, right)
    return None


def _equalities(conjuncts: Iterable[Conjunct]) -> list[Key]:
    """Classes of expressions that the conjuncts make equal; of each variable the first expression."""
    edges = [(conjunct, *equal) for conjunct in conjuncts if (equal := _equal_terms(conjunct)) is not None]
    places: dict[OwnTerm, int] = {}
    for _, *ends in edges:
        for term in ends:
            places.setdefault(term, len(places))
    terms, keys = list(places), []
    for part in connected_parts(range(len(terms)), ((places[one], places[other]) for _, one, other in edges)):
        chosen: dict[str, Expression] = {}
        for variable, expression in (terms[place] for place in part):
            chosen.setdefault(variable, expression)
        made_true = frozenset(
            conjunct
            for conjunct, one, other in edges
            if places[one] in part and chosen[one[0]] == one[1] and chosen[other[0]] == other[1]
        )
        keys.append(Key(tuple((variable, (expression,)) for variable, expression in chosen.items()), made_true))
    return keys


def keyed_leaf(events: PreparedEvents, key: Key, variable: str, views: Mapping[str, View]) -> View:
    """The leaf of one of a key's variables, sorted by the key: groups of equal number agree across its variables.

    Parameters
    ----------
    views
        In stream order, for at least the key's variables.
    """
    attributes = shared_attributes(key)
    view = views[variable]
    if attributes is not None:
        return leaf_by(events, view, attributes)
    terms = tuple(
        (views[name].identity, tuple(without_name(expression, name) for expression in expressions))
        for name, expressions in key.terms
    )
    place = key.variables.index(variable)

    def codes_of_term() -> tuple[Array, int]:
        parts, groups = events.derive(("term codes", terms), lambda: _codes_of_terms(events, key, views))
        return parts[place], groups

    return keyed_view(events, view, (terms, place), codes_of_term)


def leaf_by(events: PreparedEvents, view: View, attributes: tuple[str, ...]) -> View:
    """A leaf, sorted by the values of attributes, without the events that lack one."""

    def codes_of_rows() -> tuple[Array, int]:
        codes, groups = agreement_codes(events, attributes)
        return codes if len(view) == len(events) else codes[view.rows], groups

    return keyed_view(events, view, attributes, codes_of_rows)


def shared_attributes(key: Key) -> tuple[str, ...] | None:
    """The attributes that the key compares, where they are the same ones of every variable."""
    chosen = [
        tuple(term.attribute if isinstance(term, Reference) else None for term in expressions)
        for _, expressions in key.terms
    ]
    names = tuple(name for name in chosen[0] if name is not None)
    return names if all(attributes == names for attributes in chosen) else None


def agreement_codes(events: PreparedEvents, attributes: tuple[str, ...]) -> tuple[Array, int]:
    """int32, one for each event: equal where all attributes are, -1 where one is null or NaN; and their number."""
    return events.derive(("column codes", attributes), lambda: _codes_of_columns(events, attributes))


def _codes_of_columns(events: PreparedEvents, attributes: tuple[str, ...]) -> tuple[Array, int]:
    parts = [_column_codes(events.column(attribute)) for attribute in attributes]
    return _combine([[codes] for codes, _ in parts], [groups for _, groups in parts], lambda codes: codes[0])


def _codes_of_terms(events: PreparedEvents, key: Key, views: Mapping[str, View]) -> tuple[list[Array], int]:
    parts = []
    sizes = []
    for component in range(len(key.terms[0][1])):
        columns = [
            expression_values(without_name(terms[component], name), events, {ANY_EVENT: views[name].rows})
            for name, terms in key.terms
        ]
        values = comparable(columns)
        together = np.concatenate(values)
        codes, groups = dense_codes(together, np.isnan(together))
        parts.append(_split(codes, values))
        sizes.append(groups)
    return _combine(parts, sizes, list)


def _combine(parts: list[list[Array]], sizes: list[int], result: Callable[[list[Array]], T]) -> tuple[T, int]:
    """One code for all components: `parts[c][v]` are the codes of component c for variable v."""
    codes, groups = parts[0], sizes[0]
    for found, size in zip(parts[1:], sizes[1:], strict=True):
        missing = [(old < 0) | (new < 0) for old, new in zip(codes, found, strict=True)]
        pairs = [old.astype(np.int64) * size + new for old, new in zip(codes, found, strict=True)]
        merged, groups = dense_codes(np.concatenate(pairs), np.concatenate(missing))
        codes = _split(merged, pairs)
    return result(codes), groups


def _column_codes(column: Column) -> tuple[Array, int]:
    missing = np.zeros(len(column), dtype=bool) if column.valid is None else ~column.valid
    if column.type is ValueType.STRING:
        assert column.dictionary is not None
        return np.where(missing, -1, column.values).astype(np.int32), max(len(column.dictionary), 1)
    if column.type is ValueType.FLOAT64:
        missing = missing | np.isnan(column.values)
    return dense_codes(column.values, missing)


def dense_codes(values: Array, missing: Array) -> tuple[Array, int]:
    """Equal codes for equal values, -1 where missing, and the number of codes (at least 1)."""
    some_missing = bool(missing.any())
    if (some_missing and missing.all()) or not len(values):
        return np.full(len(values), -1, np.int32), 1
    if values.dtype == np.bool_:
        return np.where(missing, -1, values).astype(np.int32), 2
    if values.dtype == np.int64:
        present = values[~missing] if some_missing else values
        low, high = int(present.min()), int(present.max())
        if high - low < DENSE_SPAN * len(values) + 1024:
            if not some_missing:
                codes = np.empty(len(values), np.int32)
                return np.subtract(values, low, out=codes, casting="unsafe"), high - low + 1
            codes = np.where(missing, low - 1, values) - low if low > -(2**63) else values - low
            return np.where(missing, -1, codes).astype(np.int32), high - low + 1
    else:
        values = values + 0.0  # one zero
    encoded = pa.array(values, mask=missing).dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int32, copy=False), max(len(encoded.dictionary), 1)


def _split(together: Array, parts: Sequence[Array]) -> list[Array]:
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return list(np.split(together, ends))


def agreeing_view(pattern: Pattern, attributes: tuple[str, ...], view: View, events: PreparedEvents) -> View:
    """The view sorted by the values of attributes, without the events that lack one and so agree with none."""
    types = dict(pattern.attributes)
    types.update((name, events.column(name).type) for name in attributes if name not in types)
    terms = tuple(Reference(ANY_EVENT, name, Element.ONLY, types[name]) for name in attributes)
    return keyed_leaf(events, Key(((ANY_EVENT, terms),)), ANY_EVENT, {ANY_EVENT: view})
