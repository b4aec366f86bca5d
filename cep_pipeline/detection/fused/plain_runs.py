"""Plain runs of many patterns over one slice in one go, for patterns that have been run before.

A run by itself costs a pattern a tenth of a millisecond, however few events there are. The words of a plain run
(`levels.WordLayout`) are known before any event is, but for the addresses of arrays. So the words of all patterns stand
side by side, and are kept. Over a slice every leaf, range and column is made once, whichever patterns ask for it, all
addresses are written in one step, and the kernel is called for one pattern after another.

Only runs that are soon over are finished here. Those that have many candidates or matches, or whose leaves are large,
are left to `clause.KernelRun`, which can stop and go on, and beside which the cost of a call is small.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from cep_pipeline.compiled.ir_text import WIDTH
from cep_pipeline.detection.fused.clause import KernelRun, deciding_rows, final_rows, last_variable, rows_back
from cep_pipeline.detection.fused.constraints import Bound, BoundUnit, RemadeColumn, clock_values
from cep_pipeline.detection.fused.generator import OUTPUT_PADDING
from cep_pipeline.detection.fused.kernel import running_shape
from cep_pipeline.detection.fused.levels import KnownLayouts, Tally, WordLayout, count_levels, known_layouts, order_of
from cep_pipeline.detection.fused.programs import (
    BUDGET,
    CAPACITY,
    COUNTERS,
    FINISHED,
    FIRST_OWNED,
    OUTER,
    SCRATCH,
    SCRATCH_STRIDE,
    STATE,
)
from cep_pipeline.detection.fused.shared_work import shared_work_of
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import Counters, FoundAtOnce, Orders, Owned
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.composing import EVENT_TYPE
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy, Window
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.keys import leaf_by
from cep_pipeline.slices.ownership import Finality, finality_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import write_counts_before
from cep_pipeline.slices.views import CLOCK_LIMIT, EventLeaf, View, implied_by, leaf_of, times_are_plain, view_of_leaf

MOST_EVENTS = 1 << 13
"""Events of a leaf up to which a run is tried here."""
MOST_CANDIDATES, MOST_MATCHES = 1 << 17, 1 << 12
"""A run that has more of them is left to a run by itself."""
LEFT_OUT = 16
"""So many slices a run is not tried again that had too much to do."""
MOST_RUNS = 1 << 13
"""Runs whose words are kept, of all sets of patterns; the sets not run for longest go first."""

T = TypeVar("T", bound=Hashable)


class _Leaf(NamedTuple):
    """Events that a variable may bind.

    Attributes
    ----------
    finality, back
        The events lie in the rows that decide what is owned by this finality, or up to so many windows before.
    window, partition_by, partitioned
        The window, and what says how far it reaches back.
    key
        The attributes by which the events are sorted.
    """

    leaf: EventLeaf
    finality: Finality
    back: int
    window: Window
    partition_by: tuple[str, ...]
    partitioned: bool
    key: tuple[str, ...] | None


class _Clock(NamedTuple):
    """The values of a leaf's events that bounds compare."""

    leaf: int
    unit: BoundUnit
    partition_by: tuple[str, ...]


class _Ends(NamedTuple):
    """The ends of the ranges of a level by a bound, for each event of an earlier level; both levels by their clocks."""

    earlier: int
    later: int
    delta: int


class _Numbered(Generic[T]):
    """Different things by the order in which they come."""

    def __init__(self) -> None:
        self.things: list[T] = []
        self._numbers: dict[T, int] = {}

    def number_of(self, thing: T) -> int:
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


@dataclass(eq=False)
class _Run:
    """One plain run.

    Attributes
    ----------
    known
        The layouts of the runs of the clause in this order; there is none before its first run.
    leaves, negated, ends, columns
        The numbers of the leaves by level, of those of the negated variables, of the ends of its ranges, and of its
        columns.
    start, state, counters
        Where its words begin, those of its state, and its counters.
    resting
        The number of slices over which it is not tried.
    """

    pattern: Pattern
    clause: Clause
    order: tuple[str, ...]
    known: KnownLayouts | None
    finality: Finality
    leaves: tuple[int, ...]
    negated: tuple[int, ...]
    layout: WordLayout | None = None
    ends: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    start: int = 0
    state: int = 0
    counters: int = 0
    resting: int = 0


class PlainRuns:
    """The plain runs of patterns in some orders, over slices that all begin at the start of the stream, or none does.

    Parameters
    ----------
    patterns, orders
        Of all patterns; those whose runs are not plain are left out.
    from_start
        Whether the slices have no look-back.
    """

    def __init__(self, patterns: Sequence[Pattern], orders: Sequence[Orders], *, from_start: bool) -> None:
        self.patterns = tuple(patterns)
        self.leaves: _Numbered[_Leaf] = _Numbered()
        self.reaching: dict[Hashable, Pattern] = {}  # a pattern whose leaves lie in these rows
        self.clocks: _Numbered[_Clock] = _Numbered()
        self.ends: _Numbered[_Ends] = _Numbered()
        self.columns: _Numbered[tuple[Hashable, tuple[int, ...]]] = _Numbered()
        self.remade: list[RemadeColumn] = []
        self.runs: list[list[_Run]] = []  # those of the clauses of each pattern; none where one of them is not plain
        for pattern, plans in zip(patterns, orders, strict=True):
            ordered = _plain_orders(pattern, plans)
            self.runs.append([self._run(pattern, *one, from_start=from_start) for one in ordered])
        every = chain.from_iterable(self.runs)
        self._lay_out([(run, run.layout) for run in every if run.layout is not None])

    def _run(self, pattern: Pattern, clause: Clause, order: tuple[str, ...], *, from_start: bool) -> _Run:
        last, finality = last_variable(pattern, clause), finality_of(pattern, clause)
        at_end = finality is Finality.WINDOW_END
        layout, known = None, None
        if len(order) > 1:
            by_view = from_start or at_end or last is not None
            known = known_layouts(pattern, clause, order, pattern.window, (by_view, True, False))
            layout = known.layouts.get(1)
        keys = layout.keys if layout is not None else (None,) * len(order)

        def number_of(name: str, back: int, key: tuple[str, ...] | None = None) -> int:
            reach = finality, 0 if from_start else back, pattern.window, pattern.partition_by, bool(clause.partition_by)
            self.reaching.setdefault(reach, pattern)
            return self.leaves.number_of(_Leaf(leaf_of(clause, name), *reach, key))

        leaves = tuple(
            number_of(name, 0 if at_end or name == last else 1, key) for name, key in zip(order, keys, strict=True)
        )
        negated = tuple(number_of(variable.name, 2) for variable in clause.negated)
        return _Run(pattern, clause, order, known, finality, leaves, negated, layout)

    def _lay_out(self, laid_out: Sequence[tuple[_Run, WordLayout]]) -> None:
        """Put the words of runs side by side, and note which address is written where over a slice."""
        at = state = counters = 0
        words: list[tuple[int, int, int]] = []  # the place of a word, and what it is the address of
        outs: list[tuple[int, int]] = []
        for run, layout in laid_out:
            levels = len(run.order)
            run.start, run.state, run.counters = at, state, counters
            at, state, counters = at + layout.places["end"], state + 2 * levels + 3, counters + 2 * levels
            words += [(run.start + layout.places["rows"] + level, 0, leaf) for level, leaf in enumerate(run.leaves)]
            run.ends = tuple(
                self._ends(one.bound, run.leaves[one.bound.earlier], run.leaves[one.level]) for one in layout.ranges
            )
            words += [
                (run.start + word, 1, number)
                for word, number in zip((one.word for one in layout.ranges), run.ends, strict=True)
            ]
            run.columns = tuple(self._column(again, (*run.leaves, *run.negated)) for again in layout.columns)
            words += [(run.start + layout.places["column"] + slot, 2, one) for slot, one in enumerate(run.columns)]
            rows = layout.output_rows or range(levels)
            outs += [(run.start + layout.places["out"] + level, row) for level, row in enumerate(rows)]
        firsts = np.cumsum([0, len(self.leaves.things), len(self.ends.things)])
        places, kinds, numbers = np.array(words, np.int64).reshape(-1, 3).T
        self.addressed, self.address_of = places, firsts[kinds] + numbers
        self.outs, self.out_rows = np.array(outs, np.int64).reshape(-1, 2).T
        runs = [run for run, _ in laid_out]
        self.starts = np.array([run.start for run in runs], np.int64)
        self.states = np.array([run.state for run in runs], np.int64)
        self.counters = np.array([run.counters for run in runs], np.int64)
        self.outermost = np.array([run.leaves[0] for run in runs], np.int64)
        self.finality = np.array([run.finality for run in runs], np.int64)
        self.numbers = state, counters
        self.most_levels = max((len(run.order) for run in runs), default=0)
        self.frame_size = max((layout.program.frame_size for _, layout in laid_out), default=0)
        self.words = np.concatenate([np.zeros(0, np.int64), *(layout.first_words() for _, layout in laid_out)])
        self.words[self.starts + CAPACITY] = MOST_MATCHES
        self.words[self.starts + BUDGET] = MOST_CANDIDATES

    def _ends(self, bound: Bound, earlier: int, later: int) -> int:
        of_earlier, of_later = (_Clock(leaf, bound.clock, bound.partition_by) for leaf in (earlier, later))
        clocks = self.clocks
        return self.ends.number_of(_Ends(clocks.number_of(of_earlier), clocks.number_of(of_later), bound.delta))

    def _column(self, again: RemadeColumn, leaves: Sequence[int]) -> int:
        number = self.columns.number_of((again.key, tuple(leaves[level] for level in again.levels)))
        if number == len(self.remade):
            self.remade.append(again)
        return number

    @property
    def complete(self) -> bool:
        """False if a run has been laid out, or laid out anew, since these were put together."""
        every = chain.from_iterable(self.runs)
        return not any(run.known is not None and run.layout is not run.known.layouts.get(1) for run in every)

    def over(self, events: PreparedEvents, owned: Owned) -> list[FoundAtOnce | None]:
        """The owned matches of each pattern; None for those that are left to runs by themselves."""
        found: list[FoundAtOnce | None] = [None] * len(self.patterns)
        first_row, end_row = events.rows_in(owned)
        if first_row >= end_row or not times_are_plain(events):
            return found
        of_slice = _Slice(self, events, owned)
        begun = [place for place, runs in enumerate(self.runs) if runs and all(map(of_slice.begin, runs))]
        of_slice.write_words([run for place in begun for run in self.runs[place]])
        for place in begun:
            of_clauses = [of_slice.found(run) for run in self.runs[place]]
            known = [one for one in of_clauses if one is not None]
            if len(known) == len(of_clauses):
                blocks = [block for one in known for block in one.blocks]
                found[place] = FoundAtOnce(blocks, partial(_count_all, known)) if len(known) > 1 else known[0]
        return found


def _count_all(found: Sequence[FoundAtOnce], counters: Counters) -> None:
    for one in found:
        one.count(counters)


Addressed = tuple[Array, int]
"""An array and its address."""


class _Slice:
    """The plain runs over one slice: the arrays that are made of its events, and the words of all runs."""

    def __init__(self, of: PlainRuns, events: PreparedEvents, owned: Owned) -> None:
        self._of, self._events, self._owned = of, events, owned
        self._views: list[View | None] = [None] * len(of.leaves.things)
        self._columns: list[Addressed | None] = [None] * len(of.columns.things)
        self._clocks: list[tuple[int, int, int, Array] | None] = [None] * len(of.clocks.things)
        self._rows: dict[Hashable, tuple[int, int]] = {}

    def begin(self, run: _Run) -> bool:
        """Make the views and columns of a run; False where it is left to a run by itself."""
        views = self.views_of(run)
        if views is None:
            return True
        if run.resting:
            run.resting -= 1
            return False
        sizes = [len(view.rows) for view in (*views, *map(self._view_of, run.negated))]
        if max(sizes) > MOST_EVENTS or not min(sizes[: len(views)]):
            return False
        return run.known is None or (run.layout is not None and self._has_columns(run))

    def views_of(self, run: _Run) -> list[View] | None:
        """The views of a run; None where a variable has no event."""
        views = []
        for number in run.leaves:
            view = self._view_of(number)
            if not len(view.in_stream_order.rows):
                return None
            views.append(view)
        return views

    def _view(self, leaf: _Leaf) -> View:
        key = leaf[1:-1]
        rows = self._rows.get(key)
        if rows is None:
            begin, end = deciding_rows(self._of.reaching[key], self._events, self._owned, leaf.finality)
            begin = rows_back(self._events, leaf.window, leaf.partitioned, begin, leaf.back) if leaf.back else begin
            rows = self._rows[key] = begin, end
        view = view_of_leaf(self._events, leaf.leaf, *rows)
        return view if leaf.key is None else leaf_by(self._events, view, leaf.key)

    def _has_columns(self, run: _Run) -> bool:
        """Make the columns of a run; False where the values of one do not fit into floating-point numbers."""
        for number in run.columns:
            if self._columns[number] is None:
                views = map(self._view_of, self._of.columns.things[number][1])
                values = self._of.remade[number].values(self._events, *views)
                if values is None:
                    return False
                self._columns[number] = values, values.ctypes.data
        return True

    def write_words(self, runs: Sequence[_Run]) -> None:
        """Make the ranges of runs, and write all addresses into the words."""
        of = self._of
        runs = [run for run in runs if run.layout is not None and self.views_of(run) is not None]
        if not runs:
            return
        ends = self._write_ends(sorted({number for run in runs for number in run.ends}))
        addresses = np.array(
            [
                *(0 if view is None else view.rows.ctypes.data for view in self._views),
                *ends,
                *(0 if column is None else column[1] for column in self._columns),
            ],
            np.int64,
        )
        sizes = np.array([0 if view is None else len(view.rows) for view in self._views], np.int64)
        stride = min(int(sizes.max()), MOST_EVENTS) + 2 * WIDTH
        self._state, self._counts = np.zeros(of.numbers[0], np.int64), np.zeros(of.numbers[1], np.int64)
        self._block = np.empty((of.most_levels, MOST_MATCHES + WIDTH + OUTPUT_PADDING), np.int32)
        self._scratch = np.empty(stride * of.most_levels, np.int32)
        self._frame = np.empty(of.frame_size, np.int64)
        words, starts = of.words.copy(), of.starts
        words[of.addressed] = addresses[of.address_of]
        words[of.outs] = self._block.ctypes.data + of.out_rows * self._block.strides[0]
        words[starts + STATE] = self._state.ctypes.data + 8 * of.states
        words[starts + COUNTERS] = self._counts.ctypes.data + 8 * of.counters
        words[starts + OUTER] = sizes[of.outermost]
        words[starts + SCRATCH] = self._scratch.ctypes.data
        words[starts + SCRATCH_STRIDE] = stride
        # Views say what is owned of those that wait for the end of a window, whatever the pattern.
        firsts = [deciding_rows(runs[0].pattern, self._events, self._owned, one)[0] for one in Finality]
        words[starts + FIRST_OWNED] = np.array(firsts, np.int64)[of.finality]
        self._words, self._words_at, self._frame_at = words, words.ctypes.data, self._frame.ctypes.data

    def _write_ends(self, wanted: Sequence[int]) -> list[int]:
        """The addresses of the ends of ranges, 0 for those that nobody wants."""
        of = [self._of.ends.things[number] for number in wanted]
        clocks = [(self._clock(one.earlier), self._clock(one.later)) for one in of]
        places = np.cumsum([0, *(len(points) for (*_, points), _ in clocks)])
        self._ends = np.empty(int(places[-1]), np.int32)
        outs = (self._ends.ctypes.data + 4 * places).tolist()
        for one, (earlier, later), out in zip(of, clocks, outs, strict=False):
            width, groups = earlier[3].itemsize, earlier[2]
            write_counts_before(width, earlier[0], earlier[1], later[0], later[1], groups, one.delta, out)
        addresses = [0] * len(self._of.ends.things)
        for number, out in zip(wanted, outs, strict=False):
            addresses[number] = out
        return addresses

    def _view_of(self, leaf: int) -> View:
        view = self._views[leaf]
        if view is None:
            view = self._views[leaf] = self._view(self._of.leaves.things[leaf])
        return view

    def _clock(self, number: int) -> tuple[int, int, int, Array]:
        """The addresses of what bounds compare and of the starts of groups, the number of groups, and the values."""
        known = self._clocks[number]
        if known is None:
            leaf, unit, partition_by = self._of.clocks.things[number]
            view = self._view_of(leaf)
            values = clock_values(self._events, view, unit, partition_by)
            known = self._clocks[number] = values.ctypes.data, view.starts.ctypes.data, len(view.starts) - 1, values
        return known

    def found(self, run: _Run) -> FoundAtOnce | None:
        """The matches of a run that has begun; None where it does not come to an end."""
        go_on()
        layout, views = run.layout, self.views_of(run)
        if views is None:
            return FoundAtOnce([], partial(self._count, run, None))
        if layout is None:  # of one variable
            rows = views[0].rows[np.newaxis]
            return FoundAtOnce([MatchBlock(run.clause, rows)], partial(self._count, run, None))
        code = running_shape(layout.shape, layout.program)
        found = code.call_at(self._words_at + 8 * run.start, self._frame, self._frame_at)
        if self._state[run.state] != FINISHED:
            run.resting = LEFT_OUT
            return None
        rows = self._block[: len(run.order), :found]
        if found:
            rows = final_rows(run.pattern, self._events, self._owned, run.finality, rows, self._counts_of(run))
        blocks: list[Block] = [MatchBlock(run.clause, rows.copy())] if rows.shape[1] else []
        return FoundAtOnce(blocks, partial(self._count, run, layout))

    def _count(self, run: _Run, layout: WordLayout | None, counters: Counters) -> None:
        counters.later.append(partial(self._count_now, run, layout))

    def _counts_of(self, run: _Run) -> Array:
        return self._counts[run.counters : run.counters + 2 * len(run.order)].reshape(-1, 2)

    def _count_now(self, run: _Run, layout: WordLayout | None, counters: Counters) -> None:
        """Add the counts of a run that is over, as `KernelRun.count` does."""
        order = run.order
        alone: Sequence[tuple[int, Callable[[], int]] | None] = [None] * len(order)
        if any(self._of.leaves.things[number].leaf.filters for number in run.leaves):
            alone_run = KernelRun(run.pattern, run.clause, order, self._events, self._owned, finality=run.finality)
            alone = alone_run.tests_alone()
        counts = np.zeros((len(order), 2), np.int64)
        if layout is not None:
            counts = self._counts_of(run)
        views = self.views_of(run)
        if views is not None:
            counts[0] = len(views[0].in_stream_order)
        tested, decided = ((), ()) if layout is None else (layout.tested, layout.decided)
        tally = Tally(order, counts, tested, decided, alone)
        count_levels(run.pattern, run.clause, tally.counts(), counters)


def _plain_orders(pattern: Pattern, plans: Orders) -> list[tuple[Clause, tuple[str, ...]]]:
    """Each clause of a pattern with the order of its run; none where one of the runs cannot be plain."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or pattern.summary is not None:
        return []
    if (
        pattern.type_attribute == EVENT_TYPE
        or max(pattern.window.time_us or 0, pattern.window.events or 0) >= CLOCK_LIMIT
    ):
        return []
    found = []
    for clause, plan in zip(pattern.clauses, plans, strict=True):
        order = order_of(plan)
        if order is None or sorted(order) != sorted(variable.name for variable in clause.positive):
            return []
        if clause.negated_structures or any(variable.kleene for variable in (*clause.positive, *clause.negated)):
            return []
        if clause.negated and len(order) == 1:
            return []
        if implied_by(clause, pattern.window, pattern.ties).contradiction:
            return []
        if not all(conjunct.variables for conjunct in clause.conjuncts):
            return []
        found.append((clause, order))
    return found


_lock = threading.Lock()
_known: OrderedDict[Hashable, PlainRuns] = OrderedDict()


def _plain_runs(patterns: Sequence[Pattern], orders: Sequence[Orders], *, from_start: bool) -> PlainRuns:
    """The runs of these very patterns, put together once."""
    key = tuple(map(id, patterns)), tuple(map(tuple, orders)), from_start
    with _lock:
        known = _known.get(key)  # it holds the patterns, so that no others can have their ids
        if known is not None and known.complete:
            _known.move_to_end(key)
            return known
    made = PlainRuns(patterns, orders, from_start=from_start)
    with _lock:
        _known[key] = made
        _known.move_to_end(key)
        kept = sum(len(one.patterns) for one in _known.values())
        while kept > MOST_RUNS and len(_known) > 1:
            _, oldest = _known.popitem(last=False)
            kept -= len(oldest.patterns)
    return made


def find_at_once(
    patterns: Sequence[Pattern], orders: Sequence[Orders], events: PreparedEvents, owned: Owned, counters: Counters
) -> list[FoundAtOnce | None]:
    """Find the matches of the patterns whose runs are plain and short (`mechanisms.FinderAtOnce`)."""
    if counters.wanted and shared_work_of(events) is not None:  # another pattern's node may have counted the work
        return [None] * len(patterns)
    return _plain_runs(patterns, orders, from_start=events.rows_in(owned)[0] == 0).over(events, owned)
