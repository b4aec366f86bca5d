"""Run one clause over one slice in one order: what the Spark tasks and `detect` call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from cep_pipeline.detection.fused.constraints import PlannedClause
from cep_pipeline.detection.fused.levels import LevelCount, Levels, count_levels, level_counts
from cep_pipeline.detection.fused.reduction import reduced_leaves
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned, beyond_any_match, refuse
from cep_pipeline.errors import PlanError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import Finality, earliest_row, finality_of, owned_matches
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.slices.views import View, clause_cache_of, leaf_of, leaf_view, may_match, view_of_leaf

BLOCK_ROWS = 1 << 16
"""Matches a block, unless the caller wants another size."""


def run_clause(
    pattern: Pattern,
    clause: Clause,
    order: Sequence[str],
    events: PreparedEvents,
    owned: tuple[Boundary | None, Boundary | None] = (None, None),
    *,
    block_rows: int = BLOCK_ROWS,
    finality: Finality | None = None,
) -> KernelRun:
    """All matches of a clause that become final in a slice.

    Parameters
    ----------
    pattern, clause
        A pattern under skip_till_any_match, and one of its clauses.
    order
        Names of the clause's positive variables in plan order.
    events
        The slice's own events, and those of at least `ownership.look_back` before it.
    owned
        The slice [start, end): the matches that become final in it (`mechanisms.Owned`). None: open.
    block_rows
        The largest number of matches in a block: memory does not grow beyond it with the number of matches.
    finality
        When a match counts as final; None for what the clause says.

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
    refuse("fused", pattern, beyond_any_match(pattern))
    refuse_other_variables(pattern, clause, order)
    if block_rows < 1:
        raise ValueError(f"a block has at least one row, not {block_rows}")
    if finality is None:
        finality = finality_of(pattern, clause)
    return KernelRun(pattern, clause, tuple(order), events, owned, block_rows, finality)


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

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        order: tuple[str, ...],
        events: PreparedEvents,
        owned: tuple[Boundary | None, Boundary | None],
        block_rows: int = BLOCK_ROWS,
        finality: Finality = Finality.LAST_EVENT,
    ) -> None:
        self.pattern, self.clause, self.order, self.events = pattern, clause, order, events
        self.block_rows = block_rows
        self.finality = finality
        self._cache = clause_cache_of(clause)
        self.owned = owned
        self.first_row, self.end_row = deciding_rows(pattern, events, owned, finality)
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
        return level_counts(self.order, self._counters, tested, decided, self._tests_alone())

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
        self._begin_counts(self._leaves)
        if self._levels is None:
            yield from self._single(self._leaves[0])
            return
        for rows in self._levels.run(self.block_rows, self._counters):
            final = final_rows(self.pattern, self.events, self.owned, self.finality, rows, self._counters)
            if final.shape[1]:
                yield MatchBlock(self.clause, final)

    def _begin_counts(self, leaves: list[View]) -> None:
        """The counts of the levels that are bound before the kernel runs."""
        self._counters[0] = self._read, len(leaves[0])

    def _single(self, view: View) -> Iterator[MatchBlock]:
        for start in range(0, len(view), self.block_rows):
            rows = view.rows[np.newaxis, start : start + self.block_rows]
            rows = final_rows(self.pattern, self.events, self.owned, self.finality, rows, self._counters)
            if rows.shape[1]:
                yield MatchBlock(self.clause, rows)

    @cached_property
    def _last_variable(self) -> str | None:
        key = "last variable", self.pattern.ties
        return self._cache.once(key, lambda: last_variable(self.pattern, self.clause))

    def _look_back(self, windows: int) -> int:
        """The first row that lies at most so many windows before the rows that decide what is owned."""
        return rows_back(self.events, self.pattern.window, bool(self.clause.partition_by), self.first_row, windows)

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


def deciding_rows(pattern: Pattern, events: PreparedEvents, owned: Owned, finality: Finality) -> tuple[int, int]:
    """Rows [first, end): the last event of each owned match lies in them; with `WINDOW_END`, all its events do."""
    start, end = owned
    begin, stop = events.rows_in(owned)
    match finality:
        case Finality.LAST_EVENT:
            return begin, stop
        case Finality.LAST_INSTANT:
            first = 0 if start is None else events.rows_before_time(start[0])
            return first, stop if end is None else events.rows_before_time(end[0])
        case Finality.WINDOW_END:
            return earliest_row(pattern, events, owned), stop


def final_rows(
    pattern: Pattern, events: PreparedEvents, owned: Owned, finality: Finality, rows: Array, counters: Array
) -> Array:
    """The matches that become final in the slice, of those with `deciding_rows`; the others do not count as passed."""
    if finality is not Finality.WINDOW_END or owned == EVERYTHING:
        return rows
    final = rows[:, owned_matches(pattern, events, owned, finality, rows.min(axis=0), rows.max(axis=0))]
    counters[-1, 1] -= rows.shape[1] - final.shape[1]
    return final


def rows_back(events: PreparedEvents, window: Window, partitioned: bool, row: int, windows: int) -> int:
    """The first row that lies at most so many windows before another one.

    Parameters
    ----------
    partitioned
        Whether positions are those of partitions, in which neighbours may lie far apart in the stream.
    """
    if not row:
        return 0
    if window.events is not None:
        return 0 if partitioned else events.row_back(row, windows * (window.events - 1))
    assert window.time_us is not None
    if row == len(events):
        return row
    return events.rows_before_time(int(events.timestamps[row]) - windows * window.time_us)


def last_variable(pattern: Pattern, clause: Clause) -> str | None:
    """The variable whose event is the last of every match in the stream's order, if the pattern's order says so."""
    names = [variable.name for variable in clause.positive]
    if len(names) > 1 and not before_is_earlier(pattern.ties):
        return None
    for name in names:
        if all(other == name or (other, name) in clause.precedence for other in names):
            return name
    return None
