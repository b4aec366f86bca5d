"""Lists counted by parts, where conditions name their first, their last, or all but their first element.

`SEQ(A a, B+ v[], C c) WHERE v[i].x > v[1].x` has the matches of two clauses together: one in which v is a single event,
and one in which a single event is followed by a list whose elements all have a greater x. In such parts no condition
asks for one element of a list, so that the number of lists follows from the number of candidates. Each list is in one
part. A part is counted only; the names of what it binds mean nothing to a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product

from cep_pipeline.detection.counting.choice import sweep_of
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.expressions.lists import Uses
from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import (
    Element,
    Expression,
    Length,
    Literal,
    Reference,
)
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Strategy, Ties
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.views import clause_cache_of

FIRST, LAST = "first", "last"
_ADJACENT = frozenset({Element.CURRENT, Element.PREVIOUS})
_NAMED = frozenset({Element.EACH, Element.FIRST, Element.CURRENT, Element.LAST})
"""The elements by which conditions of a list that is counted by parts may name it."""


MOST_PARTS = 27
"""Parts of a clause: those of three lists whose first and last elements are named."""


def parts_of_lists(
    pattern: Pattern, clause: Clause, asked: frozenset[tuple[str, Element]] | None = None
) -> tuple[Clause, ...] | None:
    """The clauses whose matches together are as many as those of a clause with lists.

    None where a condition asks for the whole list, where no condition asks for one element, and where the order of
    the stream is not that of events; where conditions ask for adjacent elements, or there are several lists, too,
    unless sweeps count all parts with a list. A list of limited length is written out for that, element by element.

    Parameters
    ----------
    asked
        The lists whose first or last elements are to be single variables, as those at the ends of the clause are then.
        A list of limited length is written out in any case, and nothing is said of sweeps.
    """
    if pattern.ties is not Ties.ARRIVAL or (clause.negations and asked is None):
        return None
    lists = [variable for variable in clause.positive if variable.kleene]
    if not lists:
        return None
    key = "parts of lists", pattern.strategy, asked
    return clause_cache_of(clause).once(key, lambda: _parts_of_all(pattern, clause, lists, asked))


def parts_of_neighbours(pattern: Pattern, clause: Clause) -> tuple[Clause, ...] | None:
    """The parts of a clause with one list whose neighbours are compared, which sweeps count however long lists are.

    Both ends of the list are single variables; a list of limited length is written out, element by element. None where
    sweeps do not count the parts, or count the clause as it is.
    """

    def make() -> tuple[Clause, ...] | None:
        lists = [variable.name for variable in clause.positive if variable.kleene]
        if clause.negations or len(lists) != 1 or sweep_of(pattern, clause):
            return None
        if not any(Uses.of(one).kinds.get(lists[0]) == _ADJACENT for one in clause.conjuncts):
            return None
        ends = frozenset((lists[0], end) for end in (Element.FIRST, Element.LAST))
        parts = parts_of_lists(pattern, clause, asked=ends) or ()
        return parts if all(sweep_of(pattern, one) for one in parts if len(one.positive) > 1) else None

    return clause_cache_of(clause).once(("parts of neighbours", pattern.strategy), make) or None


def counted_by_parts(pattern: Pattern) -> bool:
    """Return whether the lists of all clauses are counted by parts, or there are none, under skip_till_any_match."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or has_output_policy(pattern):
        return False
    if len({clause.positive for clause in pattern.clauses}) < len(pattern.clauses):
        return False
    return all(
        parts_of_lists(pattern, clause) is not None
        for clause in pattern.clauses
        if clause.negations or any(variable.kleene for variable in clause.positive)
    )


@dataclass(frozen=True)
class _Ends:
    """The ends of a list that are single variables in the parts in which it has several elements."""

    first: bool
    last: bool


_WITHIN = _Ends(first=False, last=False)


def _parts_of_all(
    pattern: Pattern,
    clause: Clause,
    lists: Sequence[Variable],
    asked: frozenset[tuple[str, Element]] | None,
) -> tuple[Clause, ...] | None:
    """The parts of one list after another; None where that changes nothing, and where several are not swept.

    What is counted behind events of the first or the last variable has single variables there: a list at an end is
    taken apart there even if no condition names its element.
    """
    begin, end = clause.positive[0], clause.positive[-1]
    outermost = {
        one.name: _Ends(
            first=one is begin or (one.name, Element.FIRST) in (asked or ()),
            last=one is end or (one.name, Element.LAST) in (asked or ()),
        )
        for one in lists
    }
    if asked is not None:
        parts = _split(clause, lists, outermost, written_out=True)
        return None if parts is None or len(parts) > MOST_PARTS else parts
    unswept = None
    for written_out, ends in product((False, True), [{}, outermost] if len(lists) > 1 else [{}]):
        parts = _split(clause, lists, ends, written_out=written_out)
        if parts is None or parts == (clause,) or len(parts) > MOST_PARTS:
            return None
        to_sweep = (part for part in parts if written_out or any(one.kleene for one in part.positive))
        if all(sweep_of(pattern, part) is not None for part in to_sweep):
            return parts
        unswept = unswept or parts
        if not any(_has_to_be_swept(clause, lists, part) for part in unswept):
            return unswept
    return None


def _has_to_be_swept(clause: Clause, lists: Sequence[Variable], part: Clause) -> bool:
    """Return whether nothing but a sweep counts a part: several lists, or one whose neighbours are compared."""
    if not any(variable.kleene for variable in part.positive):
        return False
    if len(lists) > 1:
        return True
    compared = any(Uses.of(one).kinds.get(lists[0].name) == _ADJACENT for one in clause.conjuncts)
    return compared and len(part.positive) > len(clause.positive)


def _split(
    clause: Clause, lists: Sequence[Variable], ends: Mapping[str, _Ends], *, written_out: bool
) -> tuple[Clause, ...] | None:
    parts: tuple[Clause, ...] = (clause,)
    for variable in lists:
        own_ends = ends.get(variable.name, _WITHIN)
        found = [_parts(part, variable, own_ends, written_out=written_out) for part in parts]
        if any(own is None for own in found):
            return None
        parts = tuple(part for own in found for part in own or ())
    return parts


def _parts(clause: Clause, variable: Variable, apart: _Ends, *, written_out: bool) -> tuple[Clause, ...] | None:
    """The parts of a clause by one of its lists, the ends that are to stand `apart` in any case among them.

    None where a condition asks for more than these.

    Parameters
    ----------
    written_out
        Whether a list of limited length has a part for each length, all of whose elements are single variables.
    """
    own, others, lengths = [], [], [(variable.minimum, variable.maximum)]
    for conjunct in clause.conjuncts:
        if variable.name not in conjunct.variables:
            others.append(conjunct)
        elif conjunct in variable.limits:
            continue
        elif (limits := _limits_in(conjunct)) is not None:
            lengths.append(limits)
        else:
            own.append(conjunct)
    kinds = [Uses.of(conjunct).kinds[variable.name] for conjunct in own]
    named = frozenset[Element | None]().union(*kinds)
    least = max(low for low, _ in lengths)
    most = min((high for _, high in lengths if high is not None), default=None)
    if Element.PREVIOUS in named and named <= {Element.EACH, Element.CURRENT, Element.PREVIOUS}:
        named = frozenset()  # adjacent elements are counted as they are; only the lengths may be told
    adjacent = Element.PREVIOUS in named
    if any(Element.PREVIOUS in kind and kind != _ADJACENT for kind in kinds):
        return None
    if not named - {Element.PREVIOUS} <= _NAMED or any({Element.CURRENT, Element.EACH} <= kind for kind in kinds):
        return None
    if most is not None and most < max(least, 1):
        return ()
    first = adjacent or apart.first or bool(named & {Element.FIRST, Element.CURRENT})
    ends = _Ends(first, adjacent or apart.last or Element.LAST in named)
    limited = written_out and (most is not None or least > ends.first + ends.last + 1)
    if limited and max(least, (most or MOST_PARTS) - least) > MOST_PARTS:
        return None
    if not (ends.first or ends.last or limited) and len(lengths) == 1:
        return (clause,)
    bounds = _bounds(variable, ends, least, most, written_out=limited)
    return tuple(_part(clause, variable, bound, own, others) for bound in bounds)


def _limits_in(conjunct: Conjunct) -> tuple[int, int | None] | None:
    """The least and the greatest length that a comparison of a list's length with a number lets pass."""
    match conjunct.atoms:
        case (Comparison(comparator, Length(), Literal(int() as number)),):
            pass
        case (Comparison(comparator, Literal(int() as number), Length()),):
            comparator = comparator.mirror
        case _:
            return None
    match comparator:
        case Comparator.EQ:
            return number, number
        case Comparator.GE | Comparator.GT:
            return number + (comparator is Comparator.GT), None
        case Comparator.LE | Comparator.LT:
            return 1, number - (comparator is Comparator.LT)
        case _:
            return None


def _bounds(
    variable: Variable, ends: _Ends, least: int, most: int | None, *, written_out: bool
) -> Iterator[tuple[Variable, ...]]:
    """What is bound in place of a list, in the order of the stream: single variables, and a list at most.

    Written out there is one for each length; without a greatest one, a list of any length stands in the last of them.
    """
    single = replace(variable, kleene=False, minimum=1, maximum=None)

    def elements(*names: object) -> tuple[Variable, ...]:
        return tuple(replace(single, name=f"{variable.name}[{name}]") for name in names)

    around = ends.first + ends.last
    if written_out:
        for length in range(max(least, 1), (around if most is None else most) + 1):
            yield elements(*range(1, length + 1))
        if most is None:
            bound = elements(*range(1, max(least, around + 1) + 1))
            place = len(bound) - 1 - ends.last
            yield (*bound[:place], replace(variable, minimum=1, maximum=None), *bound[place + 1 :])
        return
    first, last = elements(FIRST), elements(LAST)
    if around and least <= 1:
        yield first if ends.first else last
    if around == 2 and least <= 2 and (most is None or most >= 2):
        yield (*first, *last)
    if most is None or most > around:
        middle = replace(variable, minimum=max(least - around, 1), maximum=None if most is None else most - around)
        yield (*first[: ends.first], middle, *last[: ends.last])


def _part(
    clause: Clause,
    variable: Variable,
    bound: tuple[Variable, ...],
    own: list[Conjunct],
    others: list[Conjunct],
) -> Clause:
    """The clause with some variables, in the order of the stream, in place of the list."""
    name = variable.name
    names = [one.name for one in bound]
    precedence = {(a, b) for a, b in clause.precedence if name not in (a, b)}
    precedence |= {(a, one) for a, b in clause.precedence if b == name for one in names}
    precedence |= {(one, b) for a, b in clause.precedence if a == name for one in names}
    precedence |= {(names[place], behind) for place in range(len(names)) for behind in names[place + 1 :]}
    positive = [one for each in clause.positive for one in (bound if each is variable else (each,))]
    conjuncts = dict.fromkeys([*others, *(limit for one in bound for limit in one.limits)])
    for conjunct in own:
        kinds = Uses.of(conjunct).kinds[name]
        if kinds == _ADJACENT:
            for pair in pairwise(bound):
                conjuncts[rewritten(conjunct, partial(_next_to, variable=name, pair=pair))] = None
            if any(one.kleene for one in bound):
                conjuncts[conjunct] = None
            continue
        ends: dict[Element, Variable] = {Element.FIRST: bound[0], Element.LAST: bound[-1]}
        each = bound[1:] if Element.CURRENT in kinds else bound if Element.EACH in kinds else (None,)
        for one in each:
            chosen = ends if one is None else {**ends, Element.CURRENT: one, Element.EACH: one}
            conjuncts[rewritten(conjunct, partial(_chosen, variable=name, elements=chosen))] = None
    return replace(clause, positive=tuple(positive), precedence=frozenset(precedence), conjuncts=tuple(conjuncts))


def _chosen(node: Expression, variable: str, elements: Mapping[Element, Variable]) -> Expression:
    if not isinstance(node, Reference) or node.variable != variable:
        return node
    one = elements[node.element]
    return replace(node, variable=one.name, element=Element.EACH if one.kleene else Element.ONLY)


def _next_to(node: Expression, variable: str, pair: tuple[Variable, Variable]) -> Expression:
    """An expression of two adjacent elements, with each as that of a variable, or as the nearest one of the list."""
    if not isinstance(node, Reference) or node.variable != variable:
        return node
    is_later = node.element is Element.CURRENT
    one, nearest = pair[is_later], Element.FIRST if is_later else Element.LAST
    return replace(node, variable=one.name, element=nearest if one.kleene else Element.ONLY)
