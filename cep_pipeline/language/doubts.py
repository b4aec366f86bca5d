"""Doubts about patterns beside the events that they are asked of: types and texts that no event has, orders of text.

A pattern may be right by the language and still not say what its author means. These are sentences for warnings; none
of them changes an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.foreign_text import did_you_mean, listed
from cep_pipeline.patterns.conditions import Atom, Between, Comparator, Comparison, Membership, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Call, Expression, Reference, ValueType, walk
from cep_pipeline.patterns.expressions import Literal as Constant
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import type_alternatives, types_of


def doubts_about(
    patterns: Sequence[Pattern], types: Collection[str | None] | None, events: pa.Table | None = None
) -> list[str]:
    """Say what is strange about patterns over events of these types.

    Parameters
    ----------
    types
        The types of the events; None: they are not all known.
    events
        The events, where their values are at hand: with all attributes that the patterns compare with text or order
        as text.

    Returns
    -------
    list of str
        Sentences: patterns whose types no event has, attributes that are compared with text that no event has, and text
        attributes that are ordered and look like numbers.
    """
    found: list[str] = []
    lacking: dict[str, list[str]] = {}
    for pattern in patterns:
        known = (*(types or ()), pattern.base_type, *(one.name for one in pattern.composes))
        for clause in pattern.clauses if types is not None else ():
            for variable in clause.positive:
                if set(types_of(variable.event_type)).isdisjoint(known):
                    names = lacking.setdefault(type_alternatives(variable.event_type), [])
                    names += [pattern.name] if pattern.name not in names else []
    if lacking:
        names = list(dict.fromkeys(name for names in lacking.values() for name in names))
        there = sorted(name for name in types or () if name is not None)
        choices = {*there, *(pattern.base_type for pattern in patterns if pattern.base_type)}
        near = {one: hint for one in lacking if (hint := did_you_mean(one, sorted(choices)))}
        hints = (hint if len(lacking) == 1 else f"{hint} for {one}" for one, hint in near.items())
        found.append(
            f"no event has the type {listed(lacking)}, asked for by {listed(names)}; "
            f"{f'there are: {listed(there)}' if there else 'there are no events'}{''.join(hints)}"
        )
    if events is not None and events.num_rows:
        found += _texts_that_no_event_has(patterns, events)
        found += doubts_about_order(patterns, events)
    return found


def _texts_that_no_event_has(patterns: Sequence[Pattern], events: pa.Table) -> list[str]:
    """Sentences on the texts that patterns compare an attribute with, by `=`, `!=` or IN, and that no event has."""
    asked: dict[str, dict[str, list[str]]] = {}
    for pattern in patterns:
        for attribute, text in texts_compared(pattern):
            names = asked.setdefault(attribute, {}).setdefault(text, [])
            names += [pattern.name] if pattern.name not in names else []
    found = []
    for attribute, texts in asked.items():
        values = [value for value in pc.unique(events.column(attribute)).to_pylist() if value is not None]
        if lacking := sorted(set(texts) - set(values)):
            names = list(dict.fromkeys(name for text in lacking for name in texts[text]))
            found.append(
                f"no event has {attribute} = {listed([repr(text) for text in lacking])}, asked for by "
                f"{listed(names)}; there are: {listed(sorted(map(repr, values)))}"
            )
    return found


def texts_compared(pattern: Pattern) -> list[tuple[str, str]]:
    """The attributes of events that the conditions of a pattern compare for equality with text, each with the text."""
    atoms = (atom for clause in pattern.clauses for conjunct in clause.conjuncts for atom in conjunct.atoms)
    of_matches = variables_of_matches(pattern)
    return [
        (reference.attribute, text)
        for atom in atoms
        for reference, text in _texts_in(atom)
        if reference.variable not in of_matches
    ]


def _texts_in(atom: Atom) -> list[tuple[Reference, str]]:
    match atom:
        case Comparison(Comparator.EQ | Comparator.NE, Reference() as left, Constant() as right):
            pairs: list[tuple[Reference, Any]] = [(left, right.value)]
        case Comparison(Comparator.EQ | Comparator.NE, Constant() as left, Reference() as right):
            pairs = [(right, left.value)]
        case Membership(Reference() as expression, values):
            pairs = [(expression, value) for value in values]
        case _:
            pairs = []
    return [(reference, value) for reference, value in pairs if isinstance(value, str)]


LOOKED_AT = 10_000
"""The first values of an attribute, without nulls, that are looked at."""
_LONGEST = 40
_EQUALITIES = (Comparator.EQ, Comparator.NE)
_LIKE_NUMBERS = r"^\s*[+-]?((0|[1-9][0-9]*)([.,][0-9]+)?|[1-9][0-9]{0,2}([.,' ][0-9]{3})+([.,][0-9]+)?|[.,][0-9]+)\s*$"
"""Numbers, with signs for thousands and decimals or without; codes such as 007 are none."""


def ordered_texts(pattern: Pattern) -> list[str]:
    """The text attributes of events whose values a pattern orders, each once.

    It orders them by `<`, `<=`, `>`, `>=` and BETWEEN, and by `min`, `max`, `least` and `greatest`.
    """
    of_matches = variables_of_matches(pattern)
    nodes = (node for expression in _ordered(pattern) for node in walk(expression))
    texts = (node for node in nodes if isinstance(node, Reference | Aggregate) and node.type is ValueType.STRING)
    return list(dict.fromkeys(node.attribute for node in texts if node.variable not in of_matches))


def variables_of_matches(pattern: Pattern) -> frozenset[str]:
    """The variables that bind matches of earlier statements, and not only events of the stream."""
    composed = {one.name for one in pattern.composes}
    return frozenset(one.variable for one in pattern.operands if not composed.isdisjoint(one.types))


def _ordered(pattern: Pattern) -> Iterator[Expression]:
    """The expressions whose values are compared by order."""
    atoms = [atom for clause in pattern.written_clauses for conjunct in clause.conjuncts for atom in conjunct.atoms]
    for atom in atoms:
        if isinstance(atom, Between) or (isinstance(atom, Comparison) and atom.comparator not in _EQUALITIES):
            yield from expressions_of(atom)
    values = [expression for atom in atoms for expression in expressions_of(atom)]
    for node in (node for one in (*values, *(item.expression for item in pattern.items)) for node in walk(one)):
        if isinstance(node, Aggregate | Call) and node.function in ("min", "max", "least", "greatest"):
            yield node
    for one in pattern.summary.aggregates if pattern.summary is not None else ():
        if one.function in ("min", "max") and one.expression is not None:
            yield one.expression


def doubts_about_order(patterns: Sequence[Pattern], events: pa.Table) -> list[str]:
    """Sentences on the attributes that patterns order as text and whose values look like numbers.

    The events have these attributes. Their first `LOOKED_AT` values are looked at.
    """
    asked: dict[str, list[str]] = {}
    for pattern in patterns:
        for attribute in ordered_texts(pattern):
            asked.setdefault(attribute, []).append(pattern.name)
    found = []
    for attribute, names in asked.items():
        values = pc.unique(events.column(attribute).drop_null().slice(0, LOOKED_AT).cast(pa.string()))
        if len(values) and pc.all(pc.match_substring_regex(values, _LIKE_NUMBERS)).as_py():
            order = f"{listed(names)} order{'s' if len(names) == 1 else ''}"
            found.append(
                f"{attribute!r} is text, which {order} by its characters; "
                f"its values, such as {str(values[0])[:_LONGEST]!r}, look like numbers, and as text '99' comes after "
                "'100': give it the type int64 or float64 in the stream schema"
            )
    return found
