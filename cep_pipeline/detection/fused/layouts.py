"""The plain runs of a clause, over slice after slice: their argument words are laid out once.

What bounds the levels of a plan, what is tested and which shape that has is the same for every slice; what changes are
the arrays, and in a workload of many patterns most of these are there already when a run asks for them. To find that
out anew takes longer than many runs: so the first run of a clause notes where the words of which array stand, and those
that follow only look the addresses up.

Plain are runs without keys, negated variables and conditions that are asked of partial matches, whose tests compare
columns that depend on the events of one level alone. All others are compiled each time, and so is a plain one where
the values of a slice do not fit (integers beyond 2^53), or the slice is shorter than the window.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.detection.fused.bounds import Bound, range_ends
from cep_pipeline.detection.fused.conditions import RemadeColumn
from cep_pipeline.detection.fused.kernel import run_words
from cep_pipeline.detection.fused.levels import Beginning, FindBeginning, Levels, PlannedClause
from cep_pipeline.detection.fused.programs import ShapeProgram, program_of
from cep_pipeline.detection.fused.shape import Level, Shape, Slot
from cep_pipeline.detection.fused.tiers import running_shape
from cep_pipeline.detection.fused.words import FIRST_OWNED, argument_places
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.slices.clause_cache import clause_cache_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import View

Placed = tuple[Array | None, int]
"""An array and its address; None where it cannot be had."""


@dataclass(frozen=True, eq=False)
class Range:
    """The word of one bound: the array of its ends, from an earlier level's view into a level's."""

    word: int
    level: int
    bound: Bound
    key: Hashable


@dataclass(frozen=True, eq=False)
class WordLayout:
    """The places of the arrays of a plain run among its argument words.

    Attributes
    ----------
    shape, program, places
        What is run, and where its groups of words begin.
    ranges
        The bounds.
    columns
        Of each slot.
    output_rows
        As `run_shape` takes them.
    tested, decided
        For each level the conjuncts that are tested on its candidates, and whether these alone decide.
    """

    shape: Shape
    program: ShapeProgram
    places: dict[str, int]
    ranges: tuple[Range, ...]
    columns: tuple[RemadeColumn, ...]
    output_rows: tuple[int, ...] | None
    tested: tuple[tuple[Conjunct, ...], ...]
    decided: tuple[bool, ...]

    def over(self, planned: PlannedClause, views: list[View], beginning: Beginning | None) -> LaidOutLevels | None:
        """The run over a slice; None where a column cannot be had there."""
        events = planned.events
        places = self.places
        words = np.zeros(places["end"], np.int64)
        kept: list[Array] = []

        def point(word: int, placed: Placed) -> bool:
            array, address = placed
            if array is not None:
                kept.append(array)
                words[word] = address
            return array is not None

        for word, view in enumerate(views, start=places["rows"]):
            point(word, events.handle(view, _placed_rows, view))
        for one in self.ranges:
            earlier, later = views[one.bound.earlier], views[one.level]
            point(one.word, events.handle((one.key, earlier, later), _placed_ends, events, one.bound, earlier, later))
        for word, again in enumerate(self.columns, start=places["column"]):
            view = views[again.level]
            if not point(word, events.handle((again.key, view), _placed_column, events, again, view)):
                return None
        words[FIRST_OWNED] = planned.first_owned or 0
        return LaidOutLevels(self, planned, views, beginning, words, kept)


def _placed(array: Array | None) -> Placed:
    return array, 0 if array is None else array.ctypes.data


def _placed_rows(view: View) -> Placed:
    return _placed(view.rows)


def _placed_ends(events: PreparedEvents, bound: Bound, earlier: View, later: View) -> Placed:
    return _placed(range_ends(events, bound, earlier, earlier, later))


def _placed_column(events: PreparedEvents, again: RemadeColumn, view: View) -> Placed:
    return _placed(again.values(events, view))


class LaidOutLevels:
    """The levels of a plain run over one slice, as `Levels` has them."""

    def __init__(
        self,
        layout: WordLayout,
        planned: PlannedClause,
        views: list[View],
        beginning: Beginning | None,
        words: Array,
        arrays: Sequence[Array],
    ) -> None:
        self.planned, self.leaves, self.views, self.beginning = planned, views, views, beginning
        self._layout, self._words, self._arrays = layout, words, arrays

    @property
    def tested(self) -> Sequence[Sequence[Conjunct]]:
        """The conjuncts tested at a level, like `Levels.tested`."""
        return self._layout.tested

    @property
    def decided(self) -> Sequence[bool]:
        """The conjuncts decided at a level, like `Levels.decided`."""
        return self._layout.decided

    def run(self, block_rows: int, counters: Array) -> Iterator[Array]:
        """Run the levels, like `Levels.run`."""
        layout = self._layout
        prefix = None if self.beginning is None else self.beginning.places
        if prefix is not None and not prefix.shape[1]:
            return
        code = running_shape(layout.shape, layout.program)
        sizes = [len(view) for view in self.views]
        yield from run_words(
            code, self._words.copy(), layout.places, sizes, block_rows, counters, prefix, layout.output_rows
        )


@dataclass(eq=False)
class _Known:
    """The layouts of the runs of a clause in one order, by the number of levels that are bound before."""

    plain: bool = True
    layouts: dict[int, WordLayout] = field(default_factory=dict)


def levels_over(planned: PlannedClause, leaves: list[View], beginning: FindBeginning | None) -> Levels | LaidOutLevels:
    """The levels of a run without negated variables that gives rows, laid out as those of its clause before it.

    Parameters
    ----------
    planned, leaves, beginning
        As `Levels` takes them; no leaf is empty.
    """
    window = planned.window or planned.pattern.window
    size = window.time_us if window.time_us is not None else (window.events or 0) - 1
    if planned.reach.size != size:
        return Levels(planned, leaves, {}, beginning=beginning)
    key = ("layouts", planned.order, planned.pattern.ties, window.time_us, window.events, planned.first_owned is None)
    known = clause_cache_of(planned.clause).once(key, _Known)
    if not known.plain:
        return Levels(planned, leaves, {}, beginning=beginning)
    if known.layouts:
        found = None if beginning is None else beginning(planned, leaves, leaves)
        layout = known.layouts.get(1 if found is None else found.levels)
        laid_out = None if layout is None else layout.over(planned, leaves, found)
        if laid_out is not None:
            return laid_out
        levels = Levels(planned, leaves, {}, beginning=lambda *_: found)
    else:
        levels = Levels(planned, leaves, {}, beginning=beginning)
    made = _layout_of(levels)
    known.plain = made is not None or bool(known.layouts)
    if made is not None:
        known.layouts[made.shape.prefix] = made
    return levels


def _layout_of(levels: Levels) -> WordLayout | None:
    """The layout of a run's words; None where it is not plain."""
    shapes = levels.shapes()  # which may read one more column
    columns = [again for again in levels.columns.again if again is not None]
    sides = {(level, bound.earlier, bound.low) for level, bound in levels.ranges}
    plain = (
        all(key is None for key in levels.level_keys)
        and len(shapes) == 1
        and not levels.as_places
        and not levels.columns.constants
        and len(columns) == len(levels.columns.again)
        and len(sides) == len(levels.ranges)
    )
    if not plain:
        return None
    (shape,) = shapes
    if not shape.as_rows or not all(map(_of_columns, shape.levels)):
        return None
    places = argument_places(shape)
    bounds = {(level, bound.earlier, bound.low): bound for level, bound in levels.ranges}
    ranges = []
    for group, low in (("low", True), ("high", False)):
        earlier_ones = [
            (level, earlier)
            for level, spec in enumerate(shape.levels)
            for earlier in (spec.lows if low else spec.highs)
        ]
        for word, (level, earlier) in enumerate(earlier_ones, start=places[group]):
            bound = bounds[level, earlier, low]
            ranges.append(Range(word, level, bound, (bound.clock.value, bound.partition_by, bound.delta)))
    return WordLayout(
        shape,
        program_of(shape),
        places,
        tuple(ranges),
        tuple(columns),
        tuple(levels.output_rows),
        tuple(map(tuple, levels.tested)),
        tuple(levels.decided),
    )


def _of_columns(level: Level) -> bool:
    """Return whether a level tests nothing but columns; arithmetic on several is exact only for some values."""
    return all(
        isinstance(side, Slot)
        for conjunct in level.tests
        for alternative in conjunct
        for test in alternative
        for side in (test.left, test.right)
    )
