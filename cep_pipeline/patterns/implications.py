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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    Truth,
    Value,
    expressions_of,
)
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Literal,
    Reference,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Ties
from cep_pipeline.patterns.rewriting import TimeSpan, number_of, spans_in, time_spans

MOST_TERMS = 64
"""The most terms from which conclusions are drawn: with more it would take longer than it saves."""


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
    lists = {variable.name for variable in clause.positive if variable.kleene and variable.minimum}
    if lists and not contradiction:  # what is said of each element is said of one of them
        contradiction = compared(clause.conjuncts, positive | lists, clause.agree_on).contradiction
    within = {conjunct: found for conjunct, found in spans.items() if conjunct.variables <= positive}
    narrowed: tuple[TimeSpan, ...] = ()
    if within and not contradiction:
        closed = _narrowed(clause, positive, within.values(), window_us, ties)
        narrowed = () if closed is None else closed
        if closed is None:
            contradiction = _fewest(within, lambda left: _narrowed(clause, positive, left, window_us, ties) is None)
    return Implications(spans, narrowed, comparisons, filters, contradiction)


def _fewest(
    said: Mapping[Conjunct, tuple[TimeSpan, ...]], excluded: Callable[[Iterable[tuple[TimeSpan, ...]]], bool]
) -> tuple[Conjunct, ...]:
    """A smallest part of some conjuncts that still exclude each other: each of its conjuncts is needed for that."""
    left = dict(said)
    for conjunct in said:
        others = {one: found for one, found in left.items() if one != conjunct}
        if excluded(others.values()):
            left = others
    return tuple(left)


# -- spans ------------------------------------------------------------------------------------------------------------


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
_Limit = tuple[_Term, bool, tuple[Conjunct, ...]]
"""A constant, whether it is itself excluded, and the conjuncts that say so."""
_Limits = Mapping[tuple[_Term, bool], Sequence[_Limit]]
"""The constants that a term is at least (True), or at most."""


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
        Variables of one event each, or of lists with one event or more, each of which `v[]` stands for.
    agree_on
        Attributes that are equal in all events of a match.
    """
    told = tuple(conjunct for conjunct in conjuncts if conjunct.variables.issubset(names))
    edges = [edge for conjunct in told for edge in _edges_in(conjunct)]
    others = tuple(conjunct for conjunct in told if not _is_edges(conjunct))
    if len(edges) < 2 and not agree_on and not others and any(conjunct.variables for *_, conjunct in edges if conjunct):
        never = tuple(conjunct for one, other, less, conjunct in edges if less and one == other and conjunct)
        return Compared(contradiction=never)
    terms = dict.fromkeys(term for edge in edges for term in edge[:2])
    compared_with = dict.fromkeys((*terms, *(term for conjunct in others for term in _terms_in(conjunct))))
    all_terms = compared_with if len(compared_with) <= MOST_TERMS else terms
    if len(all_terms) > MOST_TERMS:
        return Compared()
    behind: dict[_Term, list[_Edge]] = {term: [] for term in all_terms}
    for edge in (*edges, *_order_of_constants(all_terms), *_agreement(all_terms, agree_on)):
        behind[edge[0]].append(edge)
    ways = {start: _ways_from(start, behind) for start in all_terms}
    found: dict[Conjunct, None] = {}
    limits: dict[tuple[_Term, bool], list[_Limit]] = {}
    for start, reached in ways.items():
        for (end, less), way in reached.items():
            if end == start and less:
                return Compared(contradiction=_said(way))
            if (not less and (end, True) in reached) or start not in terms or end not in terms:
                continue
            said = _said(way)
            if (start[0] is None) != (end[0] is None):
                least = start[0] is None
                limits.setdefault((end if least else start, least), []).append((start if least else end, less, said))
            follows = _following(start, end, less, said)
            if follows is not None and not any(back[0] == start for back in ways[end]):
                found[follows] = None  # what is equal is a key
    for conjunct in others:
        excluding = _excluding(conjunct, told, ways, limits)
        if excluding is not None:
            return Compared(contradiction=tuple(dict.fromkeys((conjunct, *excluding))))
    filters = (_filter(term, least, known) for (term, least), known in limits.items())
    return Compared(tuple(found), tuple(one for one in filters if one is not None))


def _is_edges(conjunct: Conjunct) -> bool:
    """Return whether the edges of a conjunct over comparable terms say all that it says."""
    match conjunct.atoms:
        case (Comparison(comparator),):
            return comparator is not Comparator.NE
        case (Between(negated=False),):
            return True
    return False


def _edges_in(conjunct: Conjunct) -> Iterator[_Edge]:
    """The edges that follow from a conjunct; none of one with OR."""
    match conjunct.atoms:
        case (Comparison(comparator, left, right),):
            yield from _edges_of(comparator, left, right, conjunct)
        case (Between(expression, low, high, False),):
            yield from _edges_of(Comparator.GE, expression, low, conjunct)
            yield from _edges_of(Comparator.LE, expression, high, conjunct)
        case (Membership(expression, values, _, False),) if values:
            term = _term_of(expression)
            if term is not None and all(value == value and not isinstance(value, bool) for value in values):
                yield (None, min(values)), term, False, conjunct
                yield term, (None, max(values)), False, conjunct


def _terms_in(conjunct: Conjunct) -> Iterator[_Term]:
    """The terms that the atoms of a conjunct compare."""
    for atom in conjunct.atoms:
        terms = [term for side in expressions_of(atom) if (term := _term_of(side)) is not None]
        if any(name is not None for name, _ in terms):
            yield from terms


def _said(way: Iterable[_Edge]) -> tuple[Conjunct, ...]:
    """The conjuncts that the edges of a way stand for."""
    return tuple(dict.fromkeys(conjunct for *_, conjunct in way if conjunct is not None))


_Ways = Mapping[_Term, Mapping[tuple[_Term, bool], tuple[_Edge, ...]]]


def _excluding(
    conjunct: Conjunct, told: Iterable[Conjunct], ways: _Ways, limits: _Limits
) -> tuple[Conjunct, ...] | None:
    """The conjuncts that exclude each atom of another one; None where one of its atoms may be true beside all."""
    found: list[Conjunct] = []
    for atom in conjunct.atoms:
        excluding = _excluding_atom(atom, told, ways, limits)
        if excluding is None:
            return None
        found += excluding
    return tuple(found)


def _excluding_atom(atom: Atom, told: Iterable[Conjunct], ways: _Ways, limits: _Limits) -> tuple[Conjunct, ...] | None:
    """The conjuncts that exclude an atom together; None where they do not, or nothing is known of what it compares."""
    match atom:
        case Truth(holds):
            return None if holds else ()
        case Comparison(comparator, left, right):
            return _excluding_comparison(comparator, left, right, ways)
        case Between(expression, low, high, negated):
            below, above = (Comparator.LT, Comparator.GT) if negated else (Comparator.GE, Comparator.LE)
            ends = (
                _excluding_comparison(below, expression, low, ways),
                _excluding_comparison(above, expression, high, ways),
            )
            if negated:
                return None if ends[0] is None or ends[1] is None else (*ends[0], *ends[1])
            return ends[0] if ends[0] is not None else ends[1]
        case Membership(expression, values, _, negated):
            return _excluding_members(expression, values, limits, negated=negated)
        case NullTest(expression, negated) if _has_one_value(expression):
            for one in told:
                match one.atoms:
                    case (NullTest(other, False),) if negated and other == expression:
                        return (one,)
                    case (Comparison() | Between() | Membership() | Like() as known,) if not negated:
                        if expression in expressions_of(known):  # it is true of known values only
                            return (one,)
    return None


def _excluding_comparison(
    comparator: Comparator, left: Expression, right: Expression, ways: _Ways
) -> tuple[Conjunct, ...] | None:
    one, other = _term_of(left), _term_of(right)
    if one is None or other is None or one not in ways or other not in ways:
        return None
    at_most, at_least = _known_way(one, other, ways), _known_way(other, one, ways)
    if comparator is Comparator.NE:
        return None if at_most is None or at_least is None else (*_said(at_most), *_said(at_least))
    less, greater = _known_way(one, other, ways, less=True), _known_way(other, one, ways, less=True)
    match comparator:
        case Comparator.LT:
            way = at_least
        case Comparator.LE:
            way = greater
        case Comparator.GT:
            way = at_most
        case Comparator.GE:
            way = less
        case _:
            way = less if less is not None else greater
    return None if way is None else _said(way)


def _known_way(one: _Term, other: _Term, ways: _Ways, *, less: bool = False) -> tuple[_Edge, ...] | None:
    """The way by which the first is at most the second, or less than it; None where it need not be."""
    if one == other and not less:
        return ()
    return ways[one].get((other, True)) or (None if less else ways[one].get((other, False)))


def _excluding_members(
    expression: Expression, values: tuple[Value, ...], limits: _Limits, *, negated: bool
) -> tuple[Conjunct, ...] | None:
    """The limits that exclude all values of `expression IN (values)`, or leave one of them alone of NOT IN."""
    term = _term_of(expression)
    if term is None or any(isinstance(value, bool) or value != value for value in values):
        return () if not values and not negated and _has_one_value(expression) else None
    ends = [(least, *limit) for least in (True, False) for limit in limits.get((term, least), ())]
    if negated:
        equal = [{limit[1][1] for limit in ends if limit[0] is least and not limit[2]} for least in (True, False)]
        only = equal[0] & equal[1] & set(values)
        return tuple(one for _, limit, _, said in ends if limit[1] in only for one in said) if only else None
    found: list[Conjunct] = []
    for value in values:
        for least, (_, limit), less, said in ends:
            if (value == limit and less) or (value < limit if least else value > limit):  # type: ignore[operator]
                found += said
                break
        else:
            return None
    return tuple(found)


def _edges_of(comparator: Comparator, left: Expression, right: Expression, conjunct: Conjunct) -> Iterator[_Edge]:
    terms = [_term_of(side) for side in (left, right)]
    one, other = terms
    if one is None or other is None:
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
    if not names:
        number = number_of(expression)
        return None if number is None else (None, number)
    if len(names) != 1 or not _has_one_value(expression):
        return None
    return next(iter(names)), expression


def _has_one_value(expression: Expression) -> bool:
    """Return whether an expression has one value once each `v[]` stands for one event: it counts through no list."""
    return not any(
        (isinstance(node, Reference) and node.element in (Element.CURRENT, Element.PREVIOUS))
        or (isinstance(node, Aggregate) and node.prefix)
        for node in walk(expression)
    )


def _order_of_constants(terms: Iterable[_Term]) -> Iterator[_Edge]:
    """The edges between the constants of one kind, in their order."""
    values = {value for name, value in terms if name is None}
    for kind in (str, (int, float)):
        ordered = sorted(value for value in values if isinstance(value, kind))
        yield from (((None, one), (None, other), True, None) for one, other in pairwise(ordered))


def _agreement(terms: Iterable[_Term], agree_on: Collection[str]) -> Iterator[_Edge]:
    """The edges between the values on which events agree, of those that are compared."""
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
    """The comparison of two variables that follows from others which mention a third one, and is no sum of spans."""
    one, other = start[0], end[0]
    if one is None or other is None or one == other or not isinstance(start[1], Expression):
        return None
    assert isinstance(end[1], Expression)
    if not (start[1].type.is_number or start[1].type is ValueType.STRING):
        return None
    if all(conjunct.variables <= {one, other} for conjunct in said) or all(map(spans_in, said)):
        return None
    comparator = Comparator.LT if less else Comparator.LE
    return Conjunct((Comparison(comparator, start[1], end[1]),))


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
