"""Matches counted over the partial matches of all variables but one: of the last one only the number is asked.

Behind a partial match the candidates of the last variable are an index range. Where no condition joins that variable
with others, the length of the range is the number of matches. Where one does, the candidates have to be tested, which
the kernel that finds matches does faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting.choice import CANDIDATE_NS, candidates_of
from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun
from cep_pipeline.detection.fused.constraints import TestColumns, bounds_of, ends_by_level, other_event
from cep_pipeline.detection.fused.kernel import Arguments, count_lists
from cep_pipeline.detection.fused.levels import LaidOutLevels, Levels
from cep_pipeline.detection.fused.range_search import arguments_over, searching_shape
from cep_pipeline.detection.fused.shape import Level, RangeResult, Shape
from cep_pipeline.detection.kleene.bindings import clause_over
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.keys import keyed_leaf, keys_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_of, view_of_leaf

LEAST_NS = 50e6
"""Matches that are found in less time are found: code that counts is compiled when it is first used."""


def count_without_last(of: ClauseSlice, plan: Sequence[str]) -> int | None:
    """The number of matches of a clause over all events, of which one variable is joined by no condition with others.

    None where there is no such variable, and where the matches are found sooner.

    Parameters
    ----------
    plan
        The order in which variables are bound.
    """
    pattern, clause, events, owned, _ = of
    if owned != EVERYTHING or len(plan) < 2 or not has_free_variable(clause):
        return None
    if not finding_takes_long(of):
        return None
    free = _free_variables(clause)
    last = [name for name in plan if name in free][-1]
    order = (*(name for name in plan if name != last), last)
    return _count(pattern, clause, order, events)


def finding_takes_long(of: ClauseSlice) -> bool:
    """Return whether it takes `LEAST_NS` and more to find the events of the single variables of matches."""
    clause, events = of.clause, of.events
    single = [one for one in clause.positive if not one.kleene]
    events.split(one.event_type for one in single)
    sizes = {one.name: len(view_of_leaf(events, leaf_of(clause, one.name), 0, len(events))) for one in single}
    return candidates_of(of, None, sizes) * CANDIDATE_NS >= LEAST_NS


def has_free_variable(clause: Clause) -> bool:
    """True if nothing is negated, and no condition joins one of the variables with others."""
    return not clause.negations and bool(_free_variables(clause))


def _free_variables(clause: Clause) -> set[str]:
    joined = {name for conjunct in clause.conjuncts if len(conjunct.variables) > 1 for name in conjunct.variables}
    return {variable.name for variable in clause.positive} - joined


def _count(pattern: Pattern, clause: Clause, order: tuple[str, ...], events: PreparedEvents) -> int:
    bound = order[:-1]
    run = KernelRun(pattern, clause_over(clause, bound), bound, events, EVERYTHING, BLOCK_ROWS, as_places=True)
    levels = run.levels
    if levels is None:
        return 0
    shape, arguments = last_level(pattern, clause, order, levels, events)
    total = 0
    for places in run.places():
        go_on()
        total += int(count_lists(shape, arguments, places).sum())
    return total


def last_level(
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
