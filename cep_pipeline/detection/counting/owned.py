"""The number of matches that a slice owns, by sweeps, by parts of lists, or by merged runs."""

from __future__ import annotations

from collections.abc import Iterator

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.compressed.fields import reason_to_list
from cep_pipeline.detection.compressed.tables import count_merged
from cep_pipeline.detection.counting.choice import binds_lists, parts_of_lists, parts_of_neighbours, sweeps_over
from cep_pipeline.detection.counting.sweep import count_swept, has_long_lists
from cep_pipeline.detection.fused.clause import KernelRun, refuse_other_variables, run_clause
from cep_pipeline.detection.fused.levels import order_of
from cep_pipeline.detection.kleene.growing import StagedRun, has_kleene
from cep_pipeline.detection.mechanisms import (
    CHOSEN_AMONG,
    EVERYTHING,
    LISTED_SOONER,
    NODES_ASKED,
    NOT_SWEPT,
    Counters,
    Executor,
    Orders,
    Owned,
    Route,
    Sink,
)
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.preferred.sweep import PreferredSweep, steps_of
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, OrderOrTree
from cep_pipeline.slices.ownership import Finality, counts_in_partitions, finality_of, look_back
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import leaf_of, view_of_leaf


def count_owned(
    pattern: Pattern, events: PreparedEvents, owned: Owned, *, always: bool = False, finding: bool = False
) -> int | None:
    """The number of matches that a slice owns, without listing them; None where they have to be listed to be counted.

    Matches with lists are counted by parts or by merged runs where no sweep counts them: those of a slice are those of
    its events with the look-back, without those of the look-back alone.

    Parameters
    ----------
    always
        Whether sweeps count even where matches would be found sooner.
    finding
        Whether matches of single variables may be found, and not kept, to be counted.
    """
    if pattern.output.is_preferred:
        return None
    swept = _count_by_sweeps(pattern, events, owned, always=always)
    of_one = always and all(len(clause.positive) == 1 for clause in pattern.clauses)
    of_singles = not binds_lists(pattern) and (of_one or (finding and _is_counted_by_clause(pattern)))
    if swept is not None or not (of_singles or (binds_lists(pattern) and not route_to_count(pattern).lists)):
        return swept
    if owned == EVERYTHING:
        return _count_unswept(pattern, events)
    if any(finality_of(pattern, clause) is not Finality.LAST_EVENT for clause in pattern.clauses):
        return None
    first, end = events.rows_in(owned)
    if first >= end:
        return 0
    begin = _reach_of(pattern, events, first)
    before, within = (_count_unswept(pattern, _rows_of(events, begin, row)) for row in (first, end))
    return None if before is None or within is None else within - before


def _reach_of(pattern: Pattern, events: PreparedEvents, row: int) -> int:
    """The first row of a match whose last event has this row or a later one, and of what may reject it."""
    if counts_in_partitions(pattern):
        return 0
    back = look_back([pattern])
    return max(events.rows_before_time(int(events.timestamps[row]) - back.time_us) - back.positions, 0)


def _rows_of(events: PreparedEvents, begin: int, end: int) -> PreparedEvents:
    part = events.table.slice(begin, end - begin)
    return PreparedEvents(part, type_attribute=events.type_attribute, base_type=events.base_type)


def counted_by_parts(pattern: Pattern) -> bool:
    """Return whether the lists of all clauses are counted by parts, or there are none, under skip_till_any_match."""
    return _is_counted_by_clause(pattern) and all(
        parts_of_lists(pattern, clause) is not None
        for clause in pattern.clauses
        if clause.negations or any(variable.kleene for variable in clause.positive)
    )


def route_to_count(pattern: Pattern, *, columnar: bool = True) -> Route:
    """The executor that counts many matches of a pattern, by the pattern alone (`outputs.route_of`)."""
    if has_output_policy(pattern):
        return Route(Sink.COUNT, Executor.MECHANISM, CHOSEN_AMONG)
    if columnar and sweeps_over(pattern):
        return Route(Sink.COUNT, Executor.SWEEP)
    if not binds_lists(pattern):
        return Route(Sink.COUNT, Executor.MECHANISM, NOT_SWEPT)
    if columnar and counted_by_parts(pattern):
        return Route(Sink.COUNT, Executor.PARTS)
    reason = reason_to_list(pattern)
    return Route(Sink.COUNT, Executor.GRAPH) if reason is None else Route(Sink.COUNT, Executor.MECHANISM, reason)


def _count_unswept(pattern: Pattern, events: PreparedEvents) -> int | None:
    """The number of matches over all events, clause by clause where that lists none, else by merged runs."""
    counted = None
    if _is_counted_by_clause(pattern):
        orders = tuple(_rarest_first(clause, events) for clause in pattern.clauses)
        counted = count_by_clause(pattern, orders, events, Counters(wanted=False), finding=True)
    return count_merged(pattern, events, Counters()) if counted is None else counted


def _is_counted_by_clause(pattern: Pattern) -> bool:
    """Return whether no match is one of two clauses, and none is rejected by several events together."""
    if not pattern.strategy.forks or has_output_policy(pattern):
        return False
    if any(clause.negated_structures for clause in pattern.clauses):
        return False
    return len({clause.positive for clause in pattern.clauses}) == len(pattern.clauses)


def _rarest_first(clause: Clause, events: PreparedEvents) -> tuple[str, ...]:
    """The variables of a clause by the number of events that they may bind, with the lists behind."""
    single = [one.name for one in clause.positive if not one.kleene]
    sizes = {name: len(view_of_leaf(events, leaf_of(clause, name), 0, len(events))) for name in single}
    return (*sorted(single, key=sizes.__getitem__), *(one.name for one in clause.positive if one.kleene))


def start(of: ClauseSlice, plan: OrderOrTree) -> KernelRun | StagedRun | PreferredSweep:
    """A run of one clause by a plan on the columnar kernel; iterate over it once for its blocks of matches.

    Raises
    ------
    PlanError
        The plan is not for the clause's positive variables.
    """
    steps = steps_of(of.pattern, of.clause)
    if steps is not None:
        refuse_other_variables(of.pattern, of.clause, order_of(plan))
        return PreferredSweep(of, steps)
    if has_kleene(of.clause):
        return StagedRun(of, plan)
    return run_clause(of, order_of(plan))


def count_by_clause(
    pattern: Pattern,
    plans: Orders,
    events: PreparedEvents,
    counters: Counters,
    *,
    finding: bool = False,
) -> int | None:
    """The number of matches over all events, clause after clause, or part after part of a clause with a list.

    None where a list has to be listed, and where all matches of single variables have to be found.

    Parameters
    ----------
    plans
        The order or the tree of each clause.
    counters
        What gets the counts of nodes. Where these are wanted, matches are counted by the runs that find them.
    finding
        Whether the matches of single variables are counted here even if all of them have to be found.
    """
    clauses = [
        (ClauseSlice(pattern, part, events, EVERYTHING, finality_of(pattern, clause)), order)
        for clause, plan in zip(pattern.clauses, plans, strict=True)
        for part, order in _parts_of(pattern, clause, plan, events, counters)
    ]
    several = any(sum(variable.kleene for variable in clause.positive) > 1 for clause in pattern.clauses)
    total, left = None, []
    for of, plan in clauses:
        # Nothing else counts the parts of several lists.
        in_turn = several and has_kleene(of.clause)
        count = None if counters.wanted else count_swept(of, always=in_turn or has_long_lists(of))
        if count is None:
            left.append((of, plan))
        else:
            total = count + (total or 0)
    if not finding and total is None and not any(map(has_kleene, pattern.clauses)):
        return None
    runs = [start(of, plan) for of, plan in left]
    of_lists = {run: run for run in runs if isinstance(run, StagedRun) and run.lists}
    if not all(run.counts_at_once() for run in of_lists):
        return None
    if not runs:
        taken = Route(Sink.COUNT, Executor.SWEEP)
    elif total is None and not of_lists:
        because = NODES_ASKED if counters.wanted else (LISTED_SOONER if sweeps_over(pattern) else NOT_SWEPT)
        taken = Route(Sink.COUNT, Executor.MECHANISM, because)
    else:
        taken = Route(Sink.COUNT, Executor.PARTS)
    counters.went(pattern.name, taken)
    total = total or 0
    for run in runs:
        counted = of_lists[run].number() if run in of_lists else sum(map(len, run))
        if counted is None:
            return None
        total += counted
        run.count(counters)
    return total


def _parts_of(
    pattern: Pattern, clause: Clause, plan: OrderOrTree, events: PreparedEvents, counters: Counters
) -> Iterator[tuple[Clause, OrderOrTree]]:
    """The clauses that are counted in place of one, each with its plan."""
    parts = None if counters.wanted else parts_of_lists(pattern, clause)
    if parts is None and not counters.wanted:
        of_neighbours = parts_of_neighbours(pattern, clause)
        limited = any(variable.limits for variable in clause.positive)
        if of_neighbours is not None and (
            limited or any(has_long_lists(ClauseSlice(pattern, one, events, EVERYTHING)) for one in of_neighbours)
        ):
            parts = of_neighbours
    if parts is None:
        yield clause, plan
        return
    for part in parts:
        yield part, _order_of_part(plan, part)


def _order_of_part(plan: OrderOrTree, part: Clause) -> tuple[str, ...]:
    """The variables of a part: those that are single in the plan as it orders them, then the others."""
    names = plan.leaves if isinstance(plan, Join) else plan
    known = [name for name in names if name in part.by_name and not part.by_name[name].kleene]
    return (*known, *(variable.name for variable in part.positive if variable.name not in known))


def _count_by_sweeps(pattern: Pattern, events: PreparedEvents, owned: Owned, *, always: bool) -> int | None:
    if not sweeps_over(pattern):
        return None
    total = 0
    for clause in pattern.clauses:
        count = count_swept(ClauseSlice(pattern, clause, events, owned, finality_of(pattern, clause)), always=always)
        if count is None:
            return None
        total += count
    return total
