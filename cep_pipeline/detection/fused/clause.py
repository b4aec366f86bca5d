"""Run one clause over one slice: what the Spark tasks and `detect` call.

An order is one run of the kernel (`KernelRun`). A bushy node of a tree joins the partial matches of its two sides
(`TreeRun`, JQPG section 4.2): the right side is stored as a pseudo-type, whose events are its partial matches, each
with a first and a last event. They are sorted by the last one, so that window, order and agreement become an index
range for each partial match of the left side, as they do for events; what a range cannot say is tested by the same
kernel. The left side is streamed. Where one side of every node is a variable, a tree runs as an order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from cep_pipeline.detection.fused.constraints import (
    LevelScope,
    PlannedClause,
    TestColumns,
    compile_conjunct,
    searching_shape,
    tested_conjuncts,
)
from cep_pipeline.detection.fused.kernel import Arguments, run_stage, stage_of
from cep_pipeline.detection.fused.levels import (
    LevelCount,
    Levels,
    count_levels,
    level_counts,
    levels_over,
    order_of,
)
from cep_pipeline.detection.fused.programs import Level, Shape, Test, TestedConjunct
from cep_pipeline.detection.fused.reduction import reduced_leaves
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned, beyond_any_match, refuse
from cep_pipeline.errors import PlanError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning.trees import Join, OrderOrTree, leaves_of
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import StreamOrder, before_is_earlier, instants_of, may_be_one
from cep_pipeline.slices.ownership import Finality, earliest_row, finality_of, owned_matches
from cep_pipeline.slices.prepared import Boundary, PreparedEvents
from cep_pipeline.slices.routines import padded_copy
from cep_pipeline.slices.views import View, clause_cache_of, clock_of, leaf_of, leaf_view, may_match, view_of_leaf

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
        return self._counted()()

    def count(self, counters: Counters) -> None:
        """Add the counts of the finished run, once somebody asks for them."""
        if counters.wanted:
            pattern, clause, counted = self.pattern, self.clause, self._counted()
            counters.later.append(lambda later: count_levels(pattern, clause, counted(), later))

    def _counted(self) -> Callable[[], tuple[LevelCount, ...]]:
        """The counts on request, which hold no views and columns."""
        levels, none = self._levels, [()] * len(self.order)
        tested: Sequence[Sequence[Conjunct]] = none if levels is None else levels.tested
        # Of events that are left because they fit, more pass than of others.
        decided = [False] * len(none) if levels is None or self._reduced else levels.decided
        return partial(level_counts, self.order, self._counters, tested, decided, self._tests_alone())

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
            self._levels = levels_over(planned, self._leaves, self._negated_views())

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


STREAMED, HELD = 0, 1
"""The sides of a node."""


@dataclass(frozen=True, eq=False)
class PartialMatches:
    """Partial matches that bind the same variables, as the events of a pseudo-type.

    Attributes
    ----------
    names
        The variables.
    rows
        int32, shape (variables, n): the event of each.
    identity
        Tells the views of these partial matches from others'.
    """

    names: tuple[str, ...]
    rows: Array
    identity: object = field(default_factory=object)

    @classmethod
    def of(cls, names: tuple[str, ...], blocks: Iterable[MatchBlock]) -> PartialMatches:
        """Unite the partial matches of all blocks, by variables in pattern order."""
        rows = [np.empty((len(names), 0), np.int32), *(block.rows for block in blocks)]
        return cls(names, np.concatenate(rows, axis=1))

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    @cached_property
    def first(self) -> Array:
        """The first row of each, shape (n,)."""
        return np.asarray(self.rows.min(axis=0))

    @cached_property
    def last(self) -> Array:
        """The last row of each, shape (n,)."""
        return np.asarray(self.rows.max(axis=0))

    def take(self, places: Array) -> PartialMatches:
        """The partial matches at some places."""
        return PartialMatches(self.names, np.ascontiguousarray(self.rows[:, places]))

    @cached_property
    def views(self) -> dict[str, View]:
        """The events of each variable, one for each partial match."""
        starts = np.array([0, len(self)], np.int64)
        return {
            name: View((self.identity, name), rows, starts) for name, rows in zip(self.names, self.rows, strict=True)
        }


class TreeRun:
    """One run of a bushy tree over a slice: iterate over it once for blocks of the clause's matches.

    It yields every match whose events lie in the slice or the look-back before it; neither ownership nor negated
    variables are its concern.

    Parameters
    ----------
    clause
        A clause over the tree's variables, none of them Kleene.
    owned
        Where the events are to be read, as `KernelRun` takes it.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        tree: Join,
        events: PreparedEvents,
        owned: tuple[Boundary | None, Boundary | None],
    ) -> None:
        self.pattern, self.clause, self.tree, self.events = pattern, clause, tree, events
        self.order = tree.leaves
        self._stream_order, self._window = StreamOrder(clock_of(events), pattern.ties), instants_of(pattern, events)
        self._agreement = agreement_codes(events, clause.agree_on)[0] if clause.agree_on else None
        # A variable is the smaller side to hold.
        streamed, held = (tree.right, tree.left) if isinstance(tree.left, str) else (tree.left, tree.right)
        self._sides = [
            start_run(pattern, clause_over(clause, leaves_of(side)), side, events, owned) for side in (streamed, held)
        ]
        self._counters = np.zeros((2, 2), np.int64)
        self._held = 0
        self._other_tests = False
        names = [set(leaves_of(side)) for side in (streamed, held)]
        self._conjuncts = [c for c in tested_conjuncts(clause) if not any(c.variables <= side for side in names)]

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of each node, once the run is over: those below the left side, below the right one, and this one."""
        streamed, held = (list(side.counts) for side in self._sides)
        root = held[-1]
        held[-1] = replace(root, created=self._held)
        candidates, passes = self._counters[1].tolist()
        tested = tuple(self._conjuncts)
        joined = LevelCount(
            self.order,
            candidates,
            passes,
            len(tested) * candidates,
            tested=None if self._other_tests else tested,
        )
        return (*streamed, *held, joined)

    def __iter__(self) -> Iterator[MatchBlock]:
        if not may_match(self.pattern, self.clause, self.events):
            return
        right = self._sorted(PartialMatches.of(_names(self._sides[HELD].clause), self._sides[HELD]))
        self._held = len(right.matches)
        if not self._held:
            return
        for block in self._sides[STREAMED]:
            left = PartialMatches(_names(block.clause), block.rows)
            for rows in self._joined(left, right):
                yield MatchBlock(self.clause, rows)

    def _sorted(self, matches: PartialMatches) -> _Sorted:
        """Sorted by what all events agree on, and then by the last event; what agrees with nothing goes."""
        codes = self._codes(matches)
        present = np.flatnonzero(codes >= 0)
        order = present[np.lexsort((matches.last[present], codes[present]))]
        matches = matches.take(order)
        return _Sorted(matches, self._keys(codes[order], matches.last))

    def _codes(self, matches: PartialMatches) -> Array:
        if self._agreement is None:
            return np.zeros(len(matches), np.int64)
        codes: Array = self._agreement[matches.rows[0]].astype(np.int64)
        return codes

    def _keys(self, codes: Array, rows: Array) -> Array:
        """int64: ascending by code, then by row."""
        return np.asarray(codes * (len(self.events) + 1) + rows)

    def _joined(self, left: PartialMatches, right: _Sorted) -> Iterator[Array]:
        """Rows of the matches, the variables in pattern order."""
        with self.events.forgetting():  # what is derived for one block serves no other
            shape, arguments, residual = self._compiled(left, right)
        names = _names(self.clause)
        for places in run_stage(stage_of(shape), arguments, BLOCK_ROWS, self._counters):
            rows = np.empty((len(names), places.shape[1]), np.int32)
            for side, at in ((left, places[0]), (right.matches, places[1])):
                for name, events in zip(side.names, side.rows, strict=True):
                    rows[names.index(name)] = events[at]
            for conjunct in residual:
                bound = {name: rows[names.index(name)] for name in conjunct.variables}
                rows = rows[:, conjunct_holds(conjunct, self.events, bound)]
            self._counters[1, 1] -= places.shape[1] - rows.shape[1]
            if rows.shape[1]:
                yield rows

    def _compiled(self, left: PartialMatches, right: _Sorted) -> tuple[Shape, Arguments, list[Conjunct]]:
        columns = TestColumns()
        lows, highs, tests = self._bounds(left, right, columns)
        self._other_tests = self._other_tests or bool(tests)
        levels = {**dict.fromkeys(left.names, 0), **dict.fromkeys(right.matches.names, 1)}
        views = (*left.views.values(), *right.matches.views.values())
        scope = LevelScope(self.events, levels, views, columns)
        residual = []
        for conjunct in self._conjuncts:
            compiled = compile_conjunct(conjunct, scope)
            if compiled is None:
                residual.append(conjunct)
            else:
                tests.append(compiled)
        shape = searching_shape(1, [Level((0,), (0,), tuple(tests))], columns)
        arguments = Arguments(
            sizes=(len(left), len(right.matches)),
            rows=(left.last, right.matches.last),
            lows={(1, 0): lows},
            highs={(1, 0): highs},
            columns=tuple(columns.arrays),
            constants=tuple(columns.constants),
        )
        return shape, arguments, residual

    def _bounds(
        self, left: PartialMatches, right: _Sorted, columns: TestColumns
    ) -> tuple[Array, Array, list[TestedConjunct]]:
        """The range of each left partial match among the right ones, and the tests of what ranges do not say.

        The range holds those whose last event is neither too early nor too late. That says all of a single event that
        is not ordered before one of the left side.
        """
        order, others = self._stream_order, right.matches
        begin = self._window.first_row_within(left.last).astype(np.int64)
        end = self._window.end_row_within(left.first).astype(np.int64)
        several = len(others.names) > 1
        tests: list[TestedConjunct] = []
        if several:
            tests.append(self._row_test(Comparator.GE, ("first",), others.first, begin, columns))
        before = self.clause.precedence
        for one, rows in zip(left.names, left.rows, strict=True):
            for name, other in zip(others.names, others.rows, strict=True):
                if (one, name) in before:
                    after = order.rows_after(rows)
                    begin = np.maximum(begin, after)
                    if several:
                        tests.append(self._row_test(Comparator.GE, (one, name), other, after, columns))
                elif (name, one) in before:
                    ahead = order.rows_ahead(rows)
                    tests.append(self._row_test(Comparator.LT, (one, name), other, ahead, columns))
                if may_be_one(self.pattern, self.clause, self.clause.by_name[one], self.clause.by_name[name]):
                    tests.append(self._row_test(Comparator.NE, (one, name, "distinct"), other, rows, columns))
        codes = self._codes(left)
        lows = np.searchsorted(right.keys, self._keys(codes, begin)).astype(np.int32)
        highs = np.searchsorted(right.keys, self._keys(codes, end)).astype(np.int32)
        highs[codes < 0] = 0
        return lows, highs, tests

    def _row_test(
        self, comparator: Comparator, key: tuple[str, ...], right: Array, left: Array, columns: TestColumns
    ) -> TestedConjunct:
        """A comparison of a row of the right side with a row of the left one."""
        inner = columns.slot(1, ("row", *key), padded_copy(right, np.float64))
        return ((Test(comparator, inner, columns.slot(0, ("row", *key), padded_copy(left, np.float64))),),)


@dataclass(frozen=True, eq=False)
class _Sorted:
    """Partial matches in ascending order of their keys, int64."""

    matches: PartialMatches
    keys: Array


def start_run(
    pattern: Pattern,
    clause: Clause,
    plan: OrderOrTree | str,
    events: PreparedEvents,
    owned: tuple[Boundary | None, Boundary | None],
) -> KernelRun | TreeRun:
    """A run of a clause of single positive variables by an order or a tree, without negation and ownership."""
    order = order_of(plan)
    if order is not None:
        return KernelRun(pattern, clause, order, events, owned, BLOCK_ROWS)
    assert isinstance(plan, Join)
    return TreeRun(pattern, clause, plan, events, owned)


def _names(clause: Clause) -> tuple[str, ...]:
    return tuple(variable.name for variable in clause.positive)


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
