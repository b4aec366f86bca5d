"""Attributes that patterns order as text although their values are no text: numbers, times, bools.

Text is ordered by the code points of its characters, so that '99' comes after '100'. What a value is, is not known
from the pattern: a bounded sample of the events is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.number_signs import SignsFound, find_signs, most_stray
from cep_pipeline.patterns.conditions import Between, Comparator, Comparison, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Call, Expression, Reference, Span, ValueType, walk
from cep_pipeline.patterns.pattern import Pattern, once_a_set

LOOKED_AT = 10_000
"""The first values of an attribute, without nulls, that are looked at."""
_MOST_NAMED, _LONGEST = 8, 40
_EQUALITIES = (Comparator.EQ, Comparator.NE)
_CLOCK = "[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[AaPp][Mm])?"
_DATE = "([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./]([0-9]{4}|[0-9]{2}))"
_TIME = f"^({_DATE}([ T]{_CLOCK})?|{_CLOCK})( ?(Z|[+-][0-9]{{2}}:?[0-9]{{2}}))?$"
_TIME_IN_ORDER = "^([0-9]{4}[-./][0-9]{2}[-./][0-9]{2})?[ T]?([0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?)?Z?$"
"""Times whose order as text is their order in time: the year first, and all parts with leading zeros."""
_BOOL = "^(?i:true|false|yes|no|y|n|ja|nein|j)$"


def ordered_texts(pattern: Pattern) -> list[tuple[str, Span]]:
    """The text attributes of events whose values a pattern orders, each with the place.

    It orders them by `<`, `<=`, `>`, `>=` and BETWEEN, and by `min`, `max`, `least` and `greatest`.
    """
    of_matches = variables_of_matches(pattern)
    return [
        (node.attribute, span)
        for expression, span in _ordered(pattern)
        for node in walk(expression)
        if isinstance(node, Reference | Aggregate) and node.type is ValueType.STRING and node.variable not in of_matches
    ]


def variables_of_matches(pattern: Pattern) -> frozenset[str]:
    """The variables that bind matches of earlier statements, and not only events of the stream."""
    composed = {one.name for one in pattern.composes}
    return frozenset(one.variable for one in pattern.operands if not composed.isdisjoint(one.types))


def _ordered(pattern: Pattern) -> Iterator[tuple[Expression, Span]]:
    """The expressions whose values are compared by order, each with the place of the comparison."""
    atoms = [atom for clause in pattern.written_clauses for conjunct in clause.conjuncts for atom in conjunct.atoms]
    for atom in atoms:
        if isinstance(atom, Between) or (isinstance(atom, Comparison) and atom.comparator not in _EQUALITIES):
            yield from ((expression, atom.span) for expression in expressions_of(atom))
    values = [expression for atom in atoms for expression in expressions_of(atom)]
    for node in (node for one in (*values, *(item.expression for item in pattern.items)) for node in walk(one)):
        if isinstance(node, Aggregate | Call) and node.function in ("min", "max", "least", "greatest"):
            yield node, node.span
    for one in pattern.summary.aggregates if pattern.summary is not None else ():
        if one.function in ("min", "max") and one.expression is not None:
            yield one.expression, one.expression.span


def doubts_about_order(patterns: Sequence[Pattern], events: pa.Table) -> list[str]:
    """Sentences on the attributes that patterns order as text and whose values look like numbers, times or bools.

    The events have these attributes. Their first `LOOKED_AT` values are looked at.
    """
    texts = {}
    for attribute in _places(patterns):
        first = events.column(attribute).drop_null().slice(0, LOOKED_AT).cast(pa.string())
        texts[attribute] = pc.utf8_trim_whitespace(pc.unique(first))
    signs, found = find_signs(texts), []
    for attribute, places in _places(patterns).items():
        said = _like_numbers(attribute, texts[attribute], signs) or _like_times_or_bools(attribute, texts[attribute])
        if said:
            at, *others = places
            names = list(dict.fromkeys(name for named in places.values() for name in named))
            shown = ", ".join(names[:_MOST_NAMED]) + (", … order" if len(names) > _MOST_NAMED else " order")
            shown += "s" if len(names) == 1 else ""
            more = f" and {len(others) - _MOST_NAMED:,} places more" if len(others) > _MOST_NAMED else ""
            also = f" (also at {', '.join(others[:_MOST_NAMED])}{more})" if others else ""
            found.append(f"{at}: {attribute!r} is text, which {shown} by its characters; {said}{also}")
    return found


@once_a_set
def _places(patterns: Sequence[Pattern]) -> dict[str, dict[str, list[str]]]:
    """The text attributes that patterns order -> the places in the order of the patterns -> names of patterns."""
    asked: dict[str, dict[str, list[str]]] = {}
    for pattern in patterns:
        for attribute, span in ordered_texts(pattern):
            asked.setdefault(attribute, {}).setdefault(_place(pattern, span), []).append(pattern.name)
    return asked


def _place(pattern: Pattern, span: Span) -> str:
    """File, line and column at which a part of a statement begins, as errors name them."""
    offset, line, column = pattern.begins
    before = pattern.written[: span.start - offset]
    *lines, last = before.split("\n")
    return f"{pattern.source}:{line + len(lines)}:{len(last) + (1 if lines else column)}"


def _like_numbers(attribute: str, values: pa.Array, found: SignsFound) -> str:
    """Say that values look like numbers, and what to write; empty where they do not, or are codes such as 007."""
    signs = found.of.get(attribute)
    if signs is None or pc.any(pc.match_substring_regex(values, "^0[0-9]+$")).as_py():
        return ""
    read = signs.with_point(values)
    with_signs = values.filter(pc.and_(pc.not_equal(read, values), pc.not_equal(read, "")))
    example = str((with_signs if len(with_signs) else values)[0])
    kind = "int64" if _first(read, "^[+-]?[0-9]+$") else "float64"
    settings = f", and write `{signs.settings}` in `source`" if len(with_signs) else ""
    either = f" ({found.said})" if found.other is not None and signs == found.chosen else ""
    return (
        f"its values, such as {_cut(example)!r}, look like numbers, and as text '99' comes after '100': give it the "
        f"type {kind} in the stream schema{settings}{either}"
    )


def _like_times_or_bools(attribute: str, values: pa.Array) -> str:
    """Say that values look like times or bools whose order as text means nothing; empty where they do not."""
    if (time := _first(values, _TIME)) and not _first(values, _TIME_IN_ORDER):
        return (
            f"its values, such as {time!r}, look like times, whose order is another one: if it is the time of the "
            "event, name its column in `timestamp` of the stream schema and compare timestamps; else have it delivered "
            "with the year first, as in 2025-03-04 09:30"
        )
    if truth := _first(values, _BOOL):
        return (
            f"its values, such as {truth!r}, look like bools, which have no order: compare {attribute!r} by = or !=; "
            "true and false may also have the type bool in the stream schema"
        )
    return ""


def _first(values: pa.Array, expression: str) -> str | None:
    """The first value of a form that nearly all have; None where more have not."""
    fits = pc.match_substring_regex(values, expression)
    strays = len(values) - (pc.sum(fits).as_py() or 0)
    return str(values.filter(fits)[0]) if len(values) and strays <= most_stray(len(values)) else None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
