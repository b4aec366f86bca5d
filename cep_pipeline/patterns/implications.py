"""The facts that the conditions of a clause imply together, beyond what each of them says.

- A *span* says how far apart in time two events may be: `b.timestamp - a.timestamp <= 10000000`. With the window and
  the order they bound the time between any two variables.
- Comparisons follow from others: with `a.x < b.x AND b.x <= c.x` also `a.x < c.x`, for a plan that binds b last.
- Filters follow, too: with `a.x > 5 AND a.x < b.x` also `b.x > 5`, which one event decides.
- Conditions that contradict each other are fulfilled by no events: `a.x < 3 AND a.x > 5`.

All of it holds exactly: a comparison is true of known values only, and these have one order, integers and floats
together. The conditions stay as they are written. What is found here is used beside them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

from cep_pipeline.patterns.conditions import Between, Comparator, Comparison, Conjunct, Membership, Truth, Value
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Ties

MOST_US = 1 << 60
"""Larger constants are left alone: arithmetic on timestamps could overflow."""
MOST_TERMS = 64
"""Of more terms nothing is concluded: it would take longer than it saves."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The timestamp of `second` minus that of `first` is at most `most_us`, which may be negative."""

    first: str
    second: str
    most_us: int


@dataclass(frozen=True)
class Implications:
    """The facts that follow from a clause's conditions.

    Attributes
    ----------
    spans
        What each conjunct says that is about two timestamps and nothing else: it holds where its spans do.
    narrowed
        Spans between positive variables that follow from those, the order and the window, and from neither alone.
    comparisons
        Conjuncts over two positive variables that follow from others.
    filters
        Conjuncts over one positive variable that follow from others.
    contradiction
        Conjuncts that no events fulfil together; empty where none were found.
    """

    spans: Mapping[Conjunct, tuple[TimeSpan, ...]]
    narrowed: tuple[TimeSpan, ...] = ()
    comparisons: tuple[Conjunct, ...] = ()
    filters: tuple[Conjunct, ...] = ()
    contradiction: tuple[Conjunct, ...] = ()


def implications_of(clause: Clause, window_us: int | None, ties: Ties) -> Implications:
    """The facts that follow from a clause's conditions, its order and its window.

    Parameters
    ----------
    window_us
        None for a count window.
    """
    positive = {variable.name for variable in clause.positive if not variable.kleene}
    spans = time_spans(clause)
    comparisons, filters, contradiction = compared(clause.conjuncts, positive, clause.agree_on)
    within = {conjunct: found for conjunct, found in spans.items() if conjunct.variables <= positive}
    narrowed: tuple[TimeSpan, ...] = ()
    if within and not contradiction:
        closed = _narrowed(clause, positive, within.values(), window_us, ties)
        narrowed = () if closed is None else closed
        contradiction = tuple(within) if closed is None else ()
    return Implications(spans, narrowed, comparisons, filters, contradiction)


# -- spans ------------------------------------------------------------------------------------------------------------


def time_spans(clause: Clause) -> dict[Conjunct, tuple[TimeSpan, ...]]:
    """Return the spans of time that each conjunct over two timestamps alone allows; other conjuncts are left out."""
    single = {variable.name for variable in (*clause.positive, *clause.negated) if not variable.kleene}
    pairs = (one for one in clause.conjuncts if len(one.variables) == 2 and one.variables <= single)
    return {conjunct: found for conjunct in pairs if (found := _spans_in(conjunct))}


def _spans_in(conjunct: Conjunct) -> tuple[TimeSpan, ...]:
    """The spans that a conjunct says; nothing where it says anything else."""
    match conjunct.atoms:
        case (Comparison(comparator, left, right),):
            return _spans_of(comparator, left, right)
        case (Between(expression, low, high, False),):
            ends = _spans_of(Comparator.GE, expression, low), _spans_of(Comparator.LE, expression, high)
            return (*ends[0], *ends[1]) if all(ends) else ()
    return ()


def _spans_of(comparator: Comparator, left: Expression, right: Expression) -> tuple[TimeSpan, ...]:
    if isinstance(left, Literal):
        comparator, left, right = comparator.mirror, right, left
    limit = right.value if isinstance(right, Literal) else 0
    if isinstance(limit, bool | str) or (isinstance(limit, float) and not math.isfinite(limit)):
        return ()
    sides = _timestamps(left), ({}, 0) if isinstance(right, Literal) else _timestamps(right)
    if sides[0] is None or sides[1] is None:
        return ()
    constant = sides[0][1] - sides[1][1]
    counts = {name: sides[0][0].get(name, 0) - sides[1][0].get(name, 0) for name in {**sides[0][0], **sides[1][0]}}
    largest = abs(sides[0][1]) + abs(sides[1][1]) + abs(limit)
    if sorted(counts.values()) != [-1, 1] or largest > MOST_US or len(sides[0][0]) + len(sides[1][0]) > 2:
        return ()
    second, first = (next(name for name, count in counts.items() if count == sign) for sign in (1, -1))
    # t(second) - t(first) is compared with this number, and is whole.
    most, least = math.floor(limit) - constant, math.ceil(limit) - constant
    whole = most == least
    at_most = TimeSpan(first, second, most if comparator is not Comparator.LT or not whole else most - 1)
    at_least = TimeSpan(second, first, -(least if comparator is not Comparator.GT or not whole else least + 1))
    match comparator:
        case Comparator.LT | Comparator.LE:
            return (at_most,)
        case Comparator.GT | Comparator.GE:
            return (at_least,)
        case Comparator.EQ:
            return (at_most, at_least)
        case Comparator.NE:
            return ()


def _timestamps(expression: Expression) -> tuple[dict[str, int], int] | None:
    """An expression as a sum: how often the timestamp of each variable is in it, and a constant; None: it is none."""
    match expression:
        case Literal(value) if isinstance(value, int) and not isinstance(value, bool):
            return {}, value
        case Reference(variable, "timestamp", Element.ONLY):
            return {variable: 1}, 0
        case Negative(operand):
            found = _timestamps(operand)
            return found and ({name: -count for name, count in found[0].items()}, -found[1])
        case Arithmetic("+" | "-" as operator, left, right):
            one, other = _timestamps(left), _timestamps(right)
            if one is None or other is None or not one[0].keys().isdisjoint(other[0]):
                return None
            sign = 1 if operator == "+" else -1
            counts = {**one[0], **{name: sign * count for name, count in other[0].items()}}
            constants = (one[1], sign * other[1])
            if max(map(abs, constants)) > MOST_US:
                return None
            return counts, sum(constants)
        case Arithmetic("*", left, right):
            one, other = _timestamps(left), _timestamps(right)
            if one is None or other is None or one[0] or other[0] or abs(one[1] * other[1]) > MOST_US:
                return None
            return {}, one[1] * other[1]
    return None


def _narrowed(
    clause: Clause, names: Iterable[str], spans: Iterable[tuple[TimeSpan, ...]], window_us: int | None, ties: Ties
) -> tuple[TimeSpan, ...] | None:
    """The spans that follow from others and are none of them; None where no timestamps fulfil all."""
    names = tuple(names)
    known: dict[tuple[str, str], float] = {}
    for one, other in permutations(names, 2):
        known[one, other] = math.inf if window_us is None else window_us
        if (other, one) in clause.precedence:
            known[one, other] = -1 if ties is Ties.STRICT else 0
    without = _closed(names, known)
    for span in (span for found in spans for span in found):
        known[span.first, span.second] = min(known[span.first, span.second], span.most_us)
    closed = _closed(names, known)
    if any(closed[name, name] < 0 for name in names):
        return None
    return tuple(
        TimeSpan(one, other, int(most))
        for (one, other), most in closed.items()
        if one != other and most < min(without[one, other], known[one, other])
    )


def _closed(names: tuple[str, ...], known: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """The shortest sums along all ways from one name to another (Floyd and Warshall)."""
    closed = {**{(name, name): 0.0 for name in names}, **known}
    for middle in names:
        for one in names:
            for other in names:
                closed[one, other] = min(closed[one, other], closed[one, middle] + closed[middle, other])
    return closed


# -- comparisons ------------------------------------------------------------------------------------------------------

_Term = tuple[str, Expression] | tuple[None, Value]
"""An expression over one variable; or a constant."""
_Edge = tuple[_Term, _Term, bool, Conjunct | None]
"""The first is at most the second, or less (True), as a conjunct says; None: as constants are ordered."""


class Compared(NamedTuple):
    """The comparisons of two variables, and of one with a constant, that follow; and conjuncts that exclude others."""

    comparisons: tuple[Conjunct, ...] = ()
    filters: tuple[Conjunct, ...] = ()
    contradiction: tuple[Conjunct, ...] = ()


def compared(conjuncts: Iterable[Conjunct], names: Collection[str], agree_on: Collection[str] = ()) -> Compared:
    """The facts that follow from the comparisons of some variables.

    Parameters
    ----------
    names
        Variables of one event each.
    agree_on
        Attributes that are equal in all events of a match.
    """
    edges: list[_Edge] = []
    for conjunct in conjuncts:
        if not conjunct.variables.issubset(names):
            continue
        for atom in conjunct.atoms[:1] if len(conjunct.atoms) == 1 else ():
            match atom:
                case Membership(_, (), _, False) | Truth(False):
                    return Compared(contradiction=(conjunct,))
                case Comparison(comparator, left, right):
                    edges += _edges_of(comparator, left, right, conjunct)
                case Between(expression, low, high, False):
                    edges += _edges_of(Comparator.GE, expression, low, conjunct)
                    edges += _edges_of(Comparator.LE, expression, high, conjunct)
    if len(edges) < 2 and not agree_on:
        never = tuple(conjunct for one, other, less, conjunct in edges if less and one == other and conjunct)
        return Compared(contradiction=never)
    edges += [*_order_of_constants(edges), *_agreement(edges, agree_on)]
    terms = dict.fromkeys(term for edge in edges for term in edge[:2])
    if len(terms) > MOST_TERMS:
        return Compared()
    behind: dict[_Term, list[_Edge]] = {term: [] for term in terms}
    for edge in edges:
        behind[edge[0]].append(edge)
    found: dict[Conjunct, None] = {}
    limits: dict[tuple[_Term, bool], list[_Limit]] = {}
    for start in terms:
        ways = _ways_from(start, behind)
        for (end, less), way in ways.items():
            said = tuple(dict.fromkeys(conjunct for *_, conjunct in way if conjunct is not None))
            if end == start and less:
                return Compared(contradiction=said)
            if not less and (end, True) in ways:
                continue
            if (start[0] is None) != (end[0] is None):
                least = start[0] is None
                limits.setdefault((end if least else start, least), []).append((start if least else end, less, said))
            follows = _following(start, end, less, said)
            if follows is not None and not any(back[0] == start for back in _ways_from(end, behind)):
                found[follows] = None  # what is equal is a key
    filters = (_filter(term, least, known) for (term, least), known in limits.items())
    return Compared(tuple(found), tuple(one for one in filters if one is not None))


def _edges_of(comparator: Comparator, left: Expression, right: Expression, conjunct: Conjunct) -> Iterator[_Edge]:
    terms = [_term_of(side) for side in (left, right)]
    one, other = terms
    if one is None or other is None or (one[0] is None and other[0] is None):
        return
    match comparator:
        case Comparator.LT | Comparator.LE:
            yield one, other, comparator is Comparator.LT, conjunct
        case Comparator.GT | Comparator.GE:
            yield other, one, comparator is Comparator.GT, conjunct
        case Comparator.EQ:
            yield one, other, False, conjunct
            yield other, one, False, conjunct


def _term_of(expression: Expression) -> _Term | None:
    if isinstance(expression, Literal):
        value = expression.value
        known = not isinstance(value, bool) and value == value  # NaN compares with nothing
        return (None, value) if known else None
    names = variables_of(expression)
    if len(names) != 1 or any(
        isinstance(node, Length | Aggregate) or (isinstance(node, Reference) and node.element is not Element.ONLY)
        for node in walk(expression)
    ):
        return None
    return next(iter(names)), expression


def _order_of_constants(edges: Iterable[_Edge]) -> Iterator[_Edge]:
    """The edges between the constants of one kind, in their order."""
    values = {term[1] for edge in edges for term in edge[:2] if term[0] is None}
    for kind in (str, (int, float)):
        ordered = sorted(value for value in values if isinstance(value, kind))
        yield from (((None, one), (None, other), True, None) for one, other in pairwise(ordered))


def _agreement(edges: Iterable[_Edge], agree_on: Collection[str]) -> Iterator[_Edge]:
    """The edges between the values on which events agree, of those that are compared."""
    terms = dict.fromkeys(term for edge in edges for term in edge[:2])
    for one, other in combinations(terms, 2):
        match one[1], other[1]:
            case Reference() as left, Reference() as right if left.attribute == right.attribute in agree_on:
                equal = Conjunct((Comparison(Comparator.EQ, left, right),))
                yield one, other, False, equal
                yield other, one, False, equal


def _ways_from(start: _Term, behind: Mapping[_Term, list[_Edge]]) -> dict[tuple[_Term, bool], tuple[_Edge, ...]]:
    """The shortest way to each term that is at least the first one, and to each that is greater."""
    ways: dict[tuple[_Term, bool], tuple[_Edge, ...]] = {}
    waiting: list[tuple[_Term, bool, tuple[_Edge, ...]]] = [(start, False, ())]
    for term, less, way in waiting:  # it grows
        for edge in behind[term]:
            reached = edge[1], less or edge[2]
            if reached not in ways:
                ways[reached] = (*way, edge)
                waiting.append((*reached, ways[reached]))
    return ways


def _following(start: _Term, end: _Term, less: bool, said: tuple[Conjunct, ...]) -> Conjunct | None:
    """The comparison of two variables that follows from others which mention a third one."""
    one, other = start[0], end[0]
    if one is None or other is None or one == other or not isinstance(start[1], Expression):
        return None
    assert isinstance(end[1], Expression)
    if not (start[1].type.is_number or start[1].type is ValueType.STRING):
        return None
    if all(conjunct.variables <= {one, other} for conjunct in said):
        return None
    comparator = Comparator.LT if less else Comparator.LE
    return Conjunct((Comparison(comparator, start[1], end[1]),))


_Limit = tuple[_Term, bool, tuple[Conjunct, ...]]
"""A constant, whether it is itself excluded, and the conjuncts that say so."""


def _filter(term: _Term, least: bool, limits: Iterable[_Limit]) -> Conjunct | None:
    """The comparison of a term with its narrowest limit; None where a condition on its own variable says that."""
    choose = max if least else min
    narrowest = choose(value for (_, value), *_ in limits)  # type: ignore[type-var]
    constant, less, said = next(one for one in limits if one[0][1] == narrowest)
    if all(conjunct.variables <= {term[0]} for conjunct in said):
        return None
    value = constant[1]
    assert isinstance(term[1], Expression) and isinstance(value, int | float | str)
    kinds = {int: ValueType.INT64, float: ValueType.FLOAT64, str: ValueType.STRING}
    comparator = Comparator.LT if less else Comparator.LE
    return Conjunct(
        (Comparison(comparator.mirror if least else comparator, term[1], Literal(value, kinds[type(value)])),)
    )
