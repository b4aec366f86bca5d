"""Rows of SUMMARIZE over partial matches: those of the variables that the groups and aggregates read.

Each partial match stands for the matches that it is a part of. In `SEQ(A a, X x, Y y, B b)` with `max(b.p - a.p)` a
pair of a and b stands for as many matches as there are ways to bind x and y. If a bound variable stands between x and
y, as in `SEQ(X x, A a, Y y, B b)`, that is the number of candidates of x times the number of candidates of y, and
the candidates are index ranges. A list of n candidates can be bound in 2**n - 1 ways. So the work is that of listing
the partial matches, however many matches there are.

A variable is *free* if no condition joins it with others and no group or aggregate reads it. Two free variables must
not restrict each other: their order follows from a bound variable between them, and a bound variable before both, or
behind both, keeps them in one window. Where they do restrict each other, one of them is bound, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.choice import sweep_of
from cep_pipeline.detection.counting.sweep import Pairs, count_swept
from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun, last_variable
from cep_pipeline.detection.fused.constraints import TestColumns, bounds_of, ends_by_level, other_event
from cep_pipeline.detection.fused.kernel import Arguments, count_lists
from cep_pipeline.detection.fused.levels import LaidOutLevels, Levels
from cep_pipeline.detection.fused.range_search import arguments_over, searching_shape
from cep_pipeline.detection.fused.shape import Level, RangeResult, Shape
from cep_pipeline.detection.kleene.bindings import clause_over
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.matches import column_to_arrow
from cep_pipeline.detection.mechanisms import EVERYTHING, Owned
from cep_pipeline.detection.summaries.partial import PartialSummary, group_codes
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.expressions.lists import Uses
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Element, Expression, Reference, variables_of
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.keys import keyed_leaf, keys_of
from cep_pipeline.slices.order import before_is_earlier, may_be_one
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_of, view_of_leaf


def bound_variables(pattern: Pattern, owned: Owned, *, all_of_them: bool = False) -> tuple[str, ...] | None:
    """The variables of the only clause of a pattern that partial matches have to bind, in the order of the pattern.

    None where that is not done: no variable is free, a list would have to be bound, or something is negated.

    Parameters
    ----------
    all_of_them
        Whether all variables may have to be bound.
    """
    [clause] = pattern.clauses
    assert pattern.summary is not None
    if clause.negations or not before_is_earlier(pattern.ties):
        return None
    bound = {name for item in pattern.items for name in variables_of(item.expression)}
    if owned != EVERYTHING or any(group.bucket_us is not None for group in pattern.summary.groups):
        last = last_variable(pattern, clause)
        if last is None:
            return None
        bound.add(last)
    bound |= {one.name for one in clause.positive if not _is_alone(clause, one)}
    if not bound:
        bound.add(next((one.name for one in clause.positive if not one.kleene), clause.positive[0].name))
    while pair := next(_restricting(pattern, clause, bound), None):
        bound.add(next((one.name for one in pair if not one.kleene), pair[0].name))
    if (len(bound) == len(clause.positive) and not all_of_them) or any(clause.by_name[name].kleene for name in bound):
        return None
    return tuple(one.name for one in clause.positive if one.name in bound)


def swept_pair(pattern: Pattern, owned: Owned) -> frozenset[str] | None:
    """The variables, at most two, of whose events a sweep counts the matches apart, and which say all that is asked.

    None where groups and aggregates read more, or no sweep does that.
    """
    [clause] = pattern.clauses
    names = _read_variables(pattern)
    if not 0 < len(names) <= 2 or not names <= clause.by_name.keys():
        return None
    in_time = owned == EVERYTHING or finality_of(pattern, clause) is Finality.LAST_EVENT
    return frozenset(names) if in_time and sweep_of(pattern, clause, frozenset(names)) is not None else None


def _read_variables(pattern: Pattern) -> set[str]:
    """The variables that groups and aggregates read, the last one for the end of matches; "" where that is unknown."""
    [clause] = pattern.clauses
    assert pattern.summary is not None
    names = {name for item in pattern.items for name in variables_of(item.expression)}
    if any(group.bucket_us is not None for group in pattern.summary.groups):
        names.add(last_variable(pattern, clause) or "")
    return names


def swept_variable(pattern: Pattern) -> str | None:
    """The single variable that says all that is asked of a match; None where there is none."""
    [clause] = pattern.clauses
    names = _read_variables(pattern)
    name = min(names, default="")
    return name if len(names) == 1 and name in clause.by_name and not clause.by_name[name].kleene else None


def add_swept_pairs(
    summary: PartialSummary,
    pattern: Pattern,
    events: PreparedEvents,
    owned: Owned,
    pair: frozenset[str] | None,
    one: str | None = None,
    *,
    always: bool = False,
) -> bool:
    """Add to a summary the matches by the events of two variables, or of one, which a sweep counts.

    False where it does not.

    Parameters
    ----------
    always
        Whether a sweep need not pay.
    """
    [clause] = pattern.clauses

    def take(found: Pairs) -> None:
        ends_us = events.timestamps[np.maximum.reduce(list(found.rows.values()))]
        items = [column_to_arrow(expression_values(one.expression, events, found.rows)) for one in pattern.items]
        summary.add_matches(ends_us, items, found.numbers)

    of = ClauseSlice(pattern, clause, events, owned, finality_of(pattern, clause))
    return count_swept(of, always=always, pair=pair, ends=one, take=take) is not None


def _is_alone(clause: Clause, variable: Variable) -> bool:
    """True if no condition joins a variable with others, and those on it are on each event that it binds."""
    own = [one for one in clause.conjuncts if variable.name in one.variables and one not in variable.limits]
    if any(len(one.variables) > 1 for one in own):
        return False
    return not variable.kleene or all(Uses.of(one).kinds[variable.name] == {Element.EACH} for one in own)


def _restricting(pattern: Pattern, clause: Clause, bound: set[str]) -> Iterator[tuple[Variable, ...]]:
    """The free variables that restrict each other, as pairs, and the free lists whose elements do."""
    before = clause.precedence
    free = [one for one in clause.positive if one.name not in bound]
    for place, one in enumerate(free):
        for other in free[place:]:
            names = (one.name, other.name)
            near = any(
                all((name, free_one) in before for free_one in names)
                or all((free_one, name) in before for free_one in names)
                for name in bound
            )
            if one is other:
                if one.kleene and not near:
                    yield (one,)
                continue
            ordered = names in before or names[::-1] in before
            apart = any(
                ((one.name, name) in before and (name, other.name) in before)
                or ((other.name, name) in before and (name, one.name) in before)
                for name in bound
            )
            if not near or (not apart if ordered else may_be_one(pattern, clause, one, other)):
                yield one, other


def add_partial_matches(
    summary: PartialSummary, pattern: Pattern, events: PreparedEvents, owned: Owned, bound: tuple[str, ...]
) -> None:
    """Add to a summary what partial matches of the variables `bound` say of the matches that a slice owns."""
    [clause] = pattern.clauses
    events.split(variable.event_type for variable in clause.positive)
    run = KernelRun(pattern, clause_over(clause, bound), bound, events, owned, BLOCK_ROWS, as_places=True)
    levels = run.levels
    if levels is None:
        return
    free = [one for one in clause.positive if one.name not in bound]
    counted = [
        _last_level(pattern, _with_single(clause, bound, one), (*bound, one.name), levels, events) for one in free
    ]
    for places in run.places():
        go_on()
        candidates = [pa.array(count_lists(*level, places)) for level in counted]
        kinds, numbers = group_codes(candidates, places.shape[1])
        ways = [math.prod(map(_ways, free, own)) for own in numbers]  # type: ignore[arg-type]
        possible = np.flatnonzero(np.array([number > 0 for number in ways], bool)[kinds])
        rows = {name: levels.views[level].rows[places[level, possible]] for level, name in enumerate(bound)}
        ends_us = events.timestamps[np.maximum.reduce(list(rows.values()))]
        items = [column_to_arrow(expression_values(one.expression, events, rows)) for one in pattern.items]
        summary.add_matches(ends_us, items, ways, kinds[possible])


def _last_level(
    pattern: Pattern, clause: Clause, order: tuple[str, ...], levels: Levels | LaidOutLevels, events: PreparedEvents
) -> tuple[Shape, Arguments]:
    """The shape that counts the candidates of the last variable, with its data."""
    last, name = len(order) - 1, order[-1]
    around = replace(levels.around, clause=clause)
    leaf = view_of_leaf(events, leaf_of(clause, name), 0, len(events))
    leaves = {**dict(zip(order[:-1], levels.leaves, strict=True)), name: leaf}
    key = next((one for one in keys_of(clause, around.types) if set(order) <= set(one.variables)), None)
    alike = leaves if key is None else {other: keyed_leaf(events, key, other, leaves) for other in leaves}
    view = alike[name]
    bounds = bounds_of(clause, order, last, pattern.ties, around.reach)
    lows, highs = ends_by_level(events, bounds, levels.views, [alike[other] for other in order[:-1]], view)
    columns = TestColumns()
    tests = tuple(
        other_event(events, columns, (last, view), (level, levels.views[level]))
        for level, other in enumerate(order[:-1])
        if around.overlap(name, other)
    )
    shape = searching_shape(last, [Level(tuple(lows), tuple(highs), tests)], columns, RangeResult.SIZES)
    views = (*levels.views, view)
    return shape, arguments_over(views, last, lows, highs, columns.arrays, columns.constants)


def _ways(variable: Variable, candidates: int) -> int:
    """The number of ways to bind a variable to some of its candidates."""
    if not variable.kleene:
        return candidates
    most = candidates if variable.maximum is None else min(variable.maximum, candidates)
    if variable.minimum == 1 and most == candidates:
        return (1 << candidates) - 1
    return sum(math.comb(candidates, length) for length in range(variable.minimum, most + 1))


def _with_single(clause: Clause, bound: Sequence[str], free: Variable) -> Clause:
    """The clause over the bound variables and a free one, of which a list is one of its elements."""
    own = clause_over(clause, (*bound, free.name))
    if not free.kleene:
        return own

    def element(node: Expression) -> Expression:
        if isinstance(node, Reference) and node.variable == free.name:
            return replace(node, element=Element.ONLY)
        return node

    conjuncts: tuple[Conjunct, ...] = tuple(
        rewritten(one, element) if free.name in one.variables else one
        for one in own.conjuncts
        if one not in free.limits
    )
    single = replace(free, kleene=False, minimum=1, maximum=None)
    return replace(own, conjuncts=conjuncts, positive=tuple(single if one == free else one for one in own.positive))
