"""Run one clause over one slice in one order: what the Spark tasks and `detect` call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.fused.constraints import PlannedClause
from cep_pipeline.detection.fused.levels import LevelCount, Levels, count_levels
from cep_pipeline.detection.fused.reduction import reduced_leaves
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, beyond_any_match, refuse
from cep_pipeline.errors import PlanError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import Finality
from cep_pipeline.slices.views import View, clause_cache_of, leaf_of, leaf_view, may_match, view_of_leaf

BLOCK_ROWS = 1 << 16
"""Matches a block, unless the caller wants another size."""


def run_clause(of: ClauseSlice, order: Sequence[str], *, block_rows: int = BLOCK_ROWS) -> KernelRun:
    """All matches of a clause that become final in a slice.

    Parameters
    ----------
    of
        A clause of a pattern under skip_till_any_match, over the slice's own events, and those of at least
        `ownership.look_back` before it.
    order
        Names of the clause's positive variables in plan order.
    block_rows
        The largest number of matches in a block: memory does not grow beyond it with the number of matches.

    Returns
    -------
    ClauseRun
        Iterate over it once for the blocks; then its `counts` are complete.

    Raises
    ------
    UnsupportedPattern
        The pattern uses what this mechanism does not run.
    PlanError
        `order` is no order of the clause's positive variables.

    Notes
    -----
    The plan changes the cost only. Each step of the iteration takes bounded time, so that it can be interrupted.
    """
    refuse("fused", of.pattern, beyond_any_match(of.pattern))
    refuse_other_variables(of.pattern, of.clause, order)
    if block_rows < 1:
        raise ValueError(f"a block has at least one row, not {block_rows}")
    return KernelRun(of, tuple(order), block_rows)


def refuse_other_variables(pattern: Pattern, clause: Clause, bound: Sequence[str]) -> None:
    """Refuse a plan that binds other variables than a clause: a PlanError."""
    names = [variable.name for variable in clause.positive]
    if sorted(bound) != sorted(names):
        raise PlanError(
            f"pattern {pattern.name!r}: the plan orders {', '.join(bound)}, but clause {clause.index} binds "
            f"{', '.join(names)}: plan the pattern again"
        )


def clause_over(clause: Clause, names: Collection[str]) -> Clause:
    """The clause over some of its positive variables only: their order and the conjuncts that mention no others.

    It is one object as long as the clause is remembered, so that what is kept with it serves all slices.
    """
    kept = frozenset(names)

    def make() -> Clause:
        return replace(
            clause,
            positive=tuple(variable for variable in clause.positive if variable.name in kept),
            negated=(),
            negated_structures=(),
            precedence=frozenset(pair for pair in clause.precedence if kept.issuperset(pair)),
            conjuncts=tuple(conjunct for conjunct in clause.conjuncts if conjunct.variables <= kept),
        )

    return clause_cache_of(clause).once(("over", kept), make)


class KernelRun:
    """One run of a clause over a slice; see `run_clause`."""

    def __init__(self, of: ClauseSlice, order: tuple[str, ...], block_rows: int = BLOCK_ROWS) -> None:
        self.of, self.order, self.block_rows = of, order, block_rows
        self.pattern, self.clause, self.events, self.owned, self.finality = of
        self._cache = clause_cache_of(of.clause)
        self.first_row, self.end_row = deciding_rows(of)
        self._counters = np.zeros((len(order), 2), np.int64)
        self._leaves: list[View] | None = None
        self._levels: Levels | None = None
        self._prepared = self._reduced = False
        self._read = 0

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of each plan level so far."""
        levels, none = self._levels, [()] * len(self.order)
        tested: Sequence[Sequence[Conjunct]] = none if levels is None else levels.tested
        # Of events that are left because they fit, more pass than of others.
        decided = [False] * len(none) if levels is None or self._reduced else levels.decided
        found = []
        for level, ((candidates, passes), alone) in enumerate(
            zip(self._counters.tolist(), self._tests_alone(), strict=True)
        ):
            evaluations, own = len(tested[level]) * candidates + alone, tuple(tested[level])
            bound = self.order[: level + 1]
            found.append(LevelCount(bound, candidates, passes, evaluations, own if decided[level] else None))
        return tuple(found)

    def count(self, counters: Counters) -> None:
        """Add the counts of the finished run, if anybody reads them."""
        if counters.wanted:
            count_levels(self.pattern, self.clause, self.counts, counters)

    def _tests_alone(self) -> list[int]:
        """Count for each level the tests of a conjunct on its variable alone."""
        conjuncts = self._cache.once(
            ("alone", self.order),
            lambda: [sum(one.variables == {name} for one in self.clause.conjuncts) for name in self.order],
        )
        types = (self.clause.by_name[name].event_type for name in self.order)
        return [
            count and count * len(leaf_view(self.events, event_type, (), *self._rows_read(name)))
            for name, event_type, count in zip(self.order, types, conjuncts, strict=True)
        ]

    def prepare(self) -> None:
        """Do all that comes before the first match, as iterating does: split, views, ranges and columns."""
        if self._prepared:
            return
        self._prepared = True
        if self.first_row < self.end_row:
            self._leaves = self._leaf_views()
            self._read = 0 if self._leaves is None else len(self._leaves[0])
        if self._leaves is not None and (len(self.order) > 1 or self.clause.negated):
            planned = self._planned()
            reduced = reduced_leaves(planned, self._leaves)
            self._reduced = reduced is not None
            self._leaves = reduced or self._leaves
            if not all(map(len, self._leaves)):
                self._leaves = None
                return
            self._levels = Levels(planned, self._leaves, self._negated_views())

    def _planned(self) -> PlannedClause:
        by_view = self.first_row == 0 or self.finality is Finality.WINDOW_END or self._last_variable is not None
        first_owned = None if by_view else self.first_row
        return PlannedClause(self.pattern, self.clause, self.order, self.events, first_owned)

    def __iter__(self) -> Iterator[MatchBlock]:
        self.prepare()
        self._counters[:] = 0
        if self._leaves is None:
            return
        self._counters[0] = self._read, len(self._leaves[0])
        if self._levels is None:
            yield from self._single(self._leaves[0])
            return
        for rows in self._levels.run(self.block_rows, self._counters):
            final = self._final(rows)
            if final.shape[1]:
                yield MatchBlock(self.clause, final)

    def _single(self, view: View) -> Iterator[MatchBlock]:
        for start in range(0, len(view), self.block_rows):
            rows = view.rows[np.newaxis, start : start + self.block_rows]
            rows = self._final(rows)
            if rows.shape[1]:
                yield MatchBlock(self.clause, rows)

    @cached_property
    def _last_variable(self) -> str | None:
        key = "last variable", self.pattern.ties
        return self._cache.once(key, lambda: last_variable(self.pattern, self.clause))

    def _look_back(self, windows: int) -> int:
        """The first row that lies at most so many windows before the rows that decide what is owned."""
        window, row = self.pattern.window, self.first_row
        if not row:
            return 0
        if window.events is not None:  # neighbours in a partition may lie far apart in the stream
            return 0 if self.clause.partition_by else self.events.row_back(row, windows * (window.events - 1))
        assert window.time_us is not None
        if row == len(self.events):
            return row
        return self.events.rows_before_time(int(self.events.timestamps[row]) - windows * window.time_us)

    def _final(self, rows: Array) -> Array:
        """The matches that become final in the slice, of those with `deciding_rows`; others do not count as passed."""
        if self.finality is not Finality.WINDOW_END or self.owned == EVERYTHING:
            return rows
        final = rows[:, self.of.owns(rows.min(axis=0), rows.max(axis=0))]
        self._counters[-1, 1] -= rows.shape[1] - final.shape[1]
        return final

    def _negated_views(self) -> dict[str, View]:
        """The events that could reject a match, in stream order."""
        views = {}
        look_back = self._look_back(2)
        for variable in self.clause.negated:
            leaf = leaf_of(self.clause, variable.name)
            views[variable.name] = view_of_leaf(self.events, leaf, look_back, self.end_row)
        return views

    def _leaf_views(self) -> list[View] | None:
        """The levels' views in stream order; None where one is empty, or no events fulfil the conditions."""
        events, clause, cache = self.events, self.clause, self._cache
        if not may_match(self.pattern, clause, events):
            return None
        events.split(cache.once("types", lambda: tuple(one.event_type for one in (*clause.positive, *clause.negated))))
        views = []
        leaves = cache.once(("leaves", self.order), lambda: [(one, leaf_of(clause, one)) for one in self.order])
        for name, leaf in leaves:
            view = view_of_leaf(events, leaf, *self._rows_read(name))
            if not len(view):
                return None
            views.append(view)
        return views

    def _rows_read(self, name: str) -> tuple[int, int]:
        """Rows [first, end) of the events that may be a level's."""
        if self.finality is Finality.WINDOW_END or name == self._last_variable:
            return self.first_row, self.end_row
        return self._look_back(1), self.end_row


def deciding_rows(of: ClauseSlice) -> tuple[int, int]:
    """Rows [first, end): the last event of each owned match lies in them; with `WINDOW_END`, all its events do."""
    (start, end), events = of.owned, of.events
    match of.finality:
        case Finality.LAST_EVENT:
            return of.first_row, of.end_row
        case Finality.LAST_INSTANT:
            first = 0 if start is None else events.rows_before_time(start[0])
            return first, of.end_row if end is None else events.rows_before_time(end[0])
        case Finality.WINDOW_END:
            return of.earliest_row, of.end_row


def last_variable(pattern: Pattern, clause: Clause) -> str | None:
    """The variable whose event is the last of every match in the stream's order, if the pattern's order says so."""
    names = [variable.name for variable in clause.positive]
    if len(names) > 1 and not before_is_earlier(pattern.ties):
        return None
    for name in names:
        if all(other == name or (other, name) in clause.precedence for other in names):
            return name
    return None
