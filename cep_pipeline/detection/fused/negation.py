"""Negation as early range checks (docs/language.md, section 3.5).

The events that could reject a match lie in an index range of the negated variable's view, between the events that are
nearest before and after it. Where the event must equal others in something, by an equivalence test or an equality that
is spelled out, the view is sorted by that, and the range holds only events that do. The match is checked at the
earliest plan level where all that bounds the range or is compared is bound, by the cheapest of four ways:

- as a test of two columns, where the range itself decides, or one positive event decides which events reject: the place
  of the first one behind it is searched once for each event, not for each match;
- by the least and greatest values of two blocks that make up the range, where one comparison joins the event with
  several others: the kernel tests them with all else, in the same time for any range; or by looking its value up among
  all, where that is an equality;
- by a search of the range for each partial match, which reads up to the first event that rejects;
- by evaluating the conditions on all pairs of a partial match and an event of its range, in vectors, where a condition
  cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from cep_pipeline.detection.fused.constraints import (
    Bound,
    BoundUnit,
    LevelScope,
    Reach,
    RemadeColumn,
    TestColumns,
    bounds_of,
    compile_conjunct,
    edge_rows,
    edge_slot,
    ends_by_level,
    other_event,
    row_slot,
    span_bounds,
)
from cep_pipeline.detection.fused.kernel import search_places
from cep_pipeline.detection.fused.programs import HASH_FACTOR, ShapeProgram, program_of
from cep_pipeline.detection.fused.range_search import (
    arguments_over,
    blocks_of,
    equality_test,
    extreme_tests,
    has_room,
    searching_shape,
)
from cep_pipeline.detection.fused.shape import (
    REJECTING,
    Constant,
    Level,
    Operation,
    RangeResult,
    Rejecting,
    Shape,
    Slot,
    Term,
    Test,
    TestedConjunct,
)
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.expressions.lists import pieces, ranges
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.keys import Key, key_of_added, keyed_leaf, leaf_by, shared_attributes
from cep_pipeline.slices.order import before_is_earlier, may_be_one
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import padded_copy
from cep_pipeline.slices.views import View, clause_cache_of, implied_by, row_values_of, times_are_plain

FEW_NUMBERS, NUMBERS_A_CANDIDATE = 1 << 16, 1
"""Most numbers of blocks that are made: the larger one of `FEW_NUMBERS` and a number for each tested candidate."""
T = TypeVar("T")
PAIRS_AT_ONCE = 1 << 20
"""Pairs of a partial match and an event that are evaluated together, unless one match has more."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The plan levels that a negated variable stands among.

    Attributes
    ----------
    order
        Names of the levels.
    leaves, views
        Of each level: its events in stream order, and as the level visits them.
    types
        Type of each attribute.
    """

    events: PreparedEvents
    clause: Clause
    order: tuple[str, ...]
    pattern: Pattern
    reach: Reach
    leaves: Sequence[View]
    views: Sequence[View]
    types: Mapping[str, ValueType]

    def overlap(self, name: str, other: str) -> bool:
        """Return whether one event can have the types of both variables, and the place of either in the order."""
        of = self.clause.by_name
        return may_be_one(self.pattern, self.clause, of[name], of[other])


@dataclass(frozen=True, eq=False)
class _RejectingBounds:
    """The way from a clause's conditions to the events that reject, whatever the slice.

    Attributes
    ----------
    key
        The key by which the view is sorted.
    conjuncts
        The conditions that neither the key nor the bounds fulfil.
    ranges, edges
        The bounds by levels that the key joins, and by the others.
    """

    key: Key | None
    conjuncts: tuple[Conjunct, ...]
    ranges: tuple[Bound, ...]
    edges: tuple[Bound, ...]


def _bounds_of_rejecting(name: str, around: Surroundings, *, plain: bool) -> _RejectingBounds:
    clause, ties, reach = around.clause, around.pattern.ties, around.reach
    of_all = bool(reach.partition_by) or (not before_is_earlier(ties) and reach.clock is BoundUnit.POSITION)
    key = key_of_added(clause, around.order, name, around.types, of_all=of_all)
    made_true = frozenset[Conjunct]() if key is None else key.conjuncts
    spans = implied_by(clause, around.pattern.window, ties).spans if plain else {}
    own = [c for c in clause.conjuncts if name in c.variables and len(c.variables) > 1 and c not in made_true]
    said = [span for conjunct in own for span in spans.get(conjunct, ())]
    order, last = (*around.order, name), len(around.order)
    members = [level for level, other in enumerate(around.order) if key is None or other in key.variables]
    ranges = (*bounds_of(clause, order, last, ties, reach, members), *span_bounds(said, order, last, members))
    needed = (*bounds_of(clause, order, last, ties, reach), *span_bounds(said, order, last, range(last)))
    return _RejectingBounds(
        key,
        tuple(conjunct for conjunct in own if conjunct not in spans),
        ranges,
        tuple(bound for bound in needed if bound.earlier not in members),
    )


@dataclass(eq=False)
class _RejectingSearch:
    """A search for events that reject, behind a prefix of some levels, whose shape is found once for all slices.

    Attributes
    ----------
    levels
        The place of each variable in the prefix; that of the negated one is the last.
    conjuncts, distinct, edges
        The tests of an event: conditions, the places in the prefix whose events are others, and bounds.
    lows, highs
        The places in the prefix that give bounds of the range.
    """

    levels: dict[str, int]
    conjuncts: tuple[Conjunct, ...]
    distinct: tuple[int, ...]
    edges: tuple[Bound, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]
    search: RangeResult
    made: tuple[Shape, ShapeProgram, tuple[RemadeColumn, ...], tuple[float, ...]] | None = None

    def over(
        self, events: PreparedEvents, views: Sequence[View], lows: Sequence[Array], highs: Sequence[Array]
    ) -> Callable[[Array], Array] | None:
        """The search over a slice, as `search_places` does it for a prefix; None if a condition is not compiled.

        Parameters
        ----------
        views
            Of each level.
        lows, highs
            The bounds, in the order of the places that give them.
        """
        made = self.made
        if made is not None:
            shape, program, again, constants = made
            columns = [one.values(events, *(views[level] for level in one.levels)) for one in again]
            arrays = [array for array in columns if array is not None]
        if made is None or len(arrays) < len(columns):
            compiled = self._compiled(events, views)
            if compiled is None:
                return None
            shape, found = compiled
            arrays, constants, program = found.arrays, tuple(found.constants), program_of(shape)
            known = tuple(one for one in found.again if one is not None)
            self.made = (shape, program, known, constants) if len(known) == len(arrays) else None
        ends = dict(zip(self.lows, lows, strict=True)), dict(zip(self.highs, highs, strict=True))
        arguments = arguments_over(views, len(views) - 1, *ends, arrays, constants)
        return partial(search_places, shape, arguments, program=program)

    def _compiled(self, events: PreparedEvents, views: Sequence[View]) -> tuple[Shape, TestColumns] | None:
        last = len(views) - 1
        columns = TestColumns()
        scope = LevelScope(events, self.levels, tuple(views), columns)
        tests: list[TestedConjunct] = []
        tests += [other_event(events, columns, (last, views[last]), (at, views[at])) for at in self.distinct]
        for bound in self.edges:
            row = row_slot(events, views[last], columns, last)
            edge = edge_slot(events, bound, views[bound.earlier], columns, bound.earlier)
            tests.append(((Test(Comparator.GE if bound.low else Comparator.LT, row, edge),),))
        for conjunct in self.conjuncts:
            compiled = compile_conjunct(conjunct, scope)
            if compiled is None:
                return None
            tests.append(compiled)
        return searching_shape(last, [Level(self.lows, self.highs, tuple(tests))], columns, self.search), columns


def _tightest_ends(events: PreparedEvents, bounds: Sequence[Bound], view: View, keyed: View, candidates: View) -> Array:
    """The tightest of bounds on one side by one earlier level, as `range_ends` has each."""
    level = bounds[0].earlier
    lows, highs = ends_by_level(events, bounds, {level: view}, {level: keyed}, candidates)
    tightest: Array = (lows or highs)[level]
    return tightest


@dataclass(eq=False)
class _EndColumn:
    """The ends of the ranges of a negated variable by the events of one level, as a column.

    Attributes
    ----------
    attributes
        Those by which both are sorted; None: they are in stream order.
    """

    bounds: tuple[Bound, ...]
    attributes: tuple[str, ...] | None

    def __call__(self, events: PreparedEvents, view: View, leaf: View) -> Array:
        ends = _tightest_ends(events, self.bounds, view, *_alike(events, view, leaf, self.attributes))
        return padded_copy(ends, np.float64)


@dataclass(eq=False)
class _NearestColumn:
    """A column with the place of the nearest event that rejects, for each event of one level.

    It is beyond all places, or -1 where the last one is searched, if there is none.

    Attributes
    ----------
    lows, highs
        The bounds of the ranges that are searched.
    attributes
        As `_EndColumn` has them.
    rows
        Whether the row of that event is wanted, not its place.
    """

    search: _RejectingSearch
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]
    attributes: tuple[str, ...] | None

    def __call__(self, events: PreparedEvents, view: View, leaf: View) -> Array | None:
        return self.places(events, view, *_alike(events, view, leaf, self.attributes))

    def places(self, events: PreparedEvents, view: View, keyed: View, candidates: View) -> Array | None:
        """The places; None if a condition is not compiled.

        Parameters
        ----------
        view, keyed, candidates
            As `range_ends` takes them.
        """

        def find() -> Array | None:
            ends = [[_tightest_ends(events, of, view, keyed, candidates)] for of in (self.lows, self.highs)]
            made = self.search.over(events, (view, candidates), *ends)
            if made is None:
                return None
            places = padded_copy(made(np.arange(len(view), dtype=np.int32)[np.newaxis]), np.float64)
            if self.search.search is RangeResult.FIRST:
                places[places < 0] = np.inf
            return places

        return events.derive((self, view.identity, candidates.identity), find)


@dataclass(eq=False)
class _NearestRowColumn:
    """The rows of what a `_NearestColumn` finds."""

    of: _NearestColumn

    def __call__(self, events: PreparedEvents, view: View, leaf: View) -> Array | None:
        return self.rows(events, view, *_alike(events, view, leaf, self.of.attributes))

    def rows(self, events: PreparedEvents, view: View, keyed: View, candidates: View) -> Array | None:
        """The rows, like `_NearestColumn.places`."""
        places = self.of.places(events, view, keyed, candidates)
        if places is None:
            return None
        found = places.copy()
        beyond = np.isin(places, (-1, np.inf))
        found[~beyond] = candidates.rows[places[~beyond].astype(np.int64)]
        return padded_copy(found)


def _alike(events: PreparedEvents, view: View, leaf: View, attributes: tuple[str, ...] | None) -> tuple[View, View]:
    """The leaf of a level's view, and that of a negated variable, sorted by attributes if there are some."""
    both = view.in_stream_order, leaf
    if attributes is None:
        return both
    return leaf_by(events, both[0], attributes), leaf_by(events, both[1], attributes)


class LevelNegation:
    """One negated variable of a clause.

    Parameters
    ----------
    number
        The level that stands for it in columns, behind those of the plan.

    Attributes
    ----------
    level
        The earliest plan level at which it can be checked.
    """

    def __init__(self, name: str, leaf: View, around: Surroundings, number: int) -> None:
        self.name, self.around, self.number = name, around, number
        ties, reach = around.pattern.ties, around.reach
        # Positions of events of one time are not ordered as TIES ANY orders them: no window limits the search.
        self._loose = not before_is_earlier(ties) and reach.clock is BoundUnit.POSITION
        plain = times_are_plain(around.events)
        fact = "rejecting", name, around.order, ties.value, reach.clock.value, reach.size, plain
        self._cache, self._fact = clause_cache_of(around.clause), fact
        bounds = self._cache.once(fact, lambda: _bounds_of_rejecting(name, around, plain=plain))
        self.conjuncts, self._edges, key = bounds.conjuncts, bounds.edges, bounds.key
        self._attributes = None if key is None else shared_attributes(key)
        self._remade = key is None or self._attributes is not None
        leaves = {**dict(zip(around.order, around.leaves, strict=True)), name: leaf}
        self._alike = (
            leaves if key is None else {other: keyed_leaf(around.events, key, other, leaves) for other in key.variables}
        )
        self.view = self._alike[name]
        self._bounds: dict[tuple[int, bool], tuple[Bound, ...]] = {}
        for bound in bounds.ranges:
            side = bound.earlier, bound.low
            self._bounds[side] = (*self._bounds.get(side, ()), bound)
        self.lows = {level: self._ends(*found) for (level, low), found in self._bounds.items() if low}
        self.highs = {level: self._ends(*found) for (level, low), found in self._bounds.items() if not low}
        self.distinct = [level for level, other in enumerate(around.order) if around.overlap(name, other)]
        compared = {around.order.index(other) for c in self.conjuncts for other in c.variables if other != name}
        edges = {bound.earlier for bound in self._edges}
        self.depends = sorted({*self.lows, *self.highs, *edges, *self.distinct, *compared})
        self.level = min(max(*self.depends, 1), len(around.order) - 1)
        self._search: Callable[[Array], Array] | None = None

    def _ends(self, *bounds: Bound) -> Array:
        around, level = self.around, bounds[0].earlier
        return _tightest_ends(around.events, bounds, around.views[level], self._alike[around.order[level]], self.view)

    # -- by tests of the kernel -------------------------------------------------------------------------------------

    def as_test(self, columns: TestColumns) -> TestedConjunct | None:
        """The check as a test at `level`, if columns of single levels decide it; the columns are added."""
        if self.distinct or len(self.around.order) == 1:
            return None
        if not self.conjuncts and not self._edges:  # an event in the range rejects: it must end before it begins
            lows, highs = self._slots(columns, "low", self.lows), self._slots(columns, "high", self.highs)
            return tuple((Test(Comparator.GE, low, high),) for low in lows for high in highs)
        anchors = {
            self.around.order.index(other) for c in self.conjuncts for other in c.variables if other != self.name
        }
        if len(anchors) > 1 or self._loose:
            return None
        for forward, near, far in ((True, self.lows, self.highs), (False, self.highs, self.lows)):
            if len(near) > 1 or not anchors <= near.keys() or any(bound.low is forward for bound in self._edges):
                continue
            (anchor,) = near
            nearest = self._nearest(anchor, RangeResult.FIRST if forward else RangeResult.LAST)
            of = self.around.events, self.around.views[anchor], self._alike[self.around.order[anchor]], self.view
            places = nearest.places(*of)
            if places is None:
                return None
            comparator = Comparator.GE if forward else Comparator.LT
            hit = columns.slot(anchor, ("rejecting", self.name), places, self._again(anchor, nearest))
            far_ends = self._slots(columns, "high" if forward else "low", far)
            alternatives = [(Test(comparator, hit, end),) for end in far_ends]
            if self._edges:
                in_rows = self._known(("rejecting row", forward), partial(_NearestRowColumn, nearest))
                rows = in_rows.rows(*of)
                assert rows is not None
                hit = columns.slot(anchor, ("rejecting row", self.name), rows, self._again(anchor, in_rows))
                alternatives += [(Test(comparator, hit, self._edge_slot(columns, bound)),) for bound in self._edges]
            return tuple(alternatives)
        return None

    def as_extremes(self, columns: TestColumns, candidates: int) -> Rejecting | None:
        """The check by the extremes of blocks or by sorted values, if they decide it and it pays; columns are added.

        Parameters
        ----------
        candidates
            How many are tested, at least.
        """
        around, last = self.around, len(self.around.order)
        if self.distinct or last == 1 or len(self.conjuncts) != 1:
            return None
        found = TestColumns()
        views = (*around.views, self.view)
        names = {name: level for level, name in enumerate((*around.order, self.name))}
        compiled = compile_conjunct(self.conjuncts[0], LevelScope(around.events, names, views, found))
        if compiled is None:
            return None
        arguments = arguments_over(views, last, {}, {}, found.arrays, found.constants)
        tests = extreme_tests(compiled, arguments)
        equality = equality_test(compiled, arguments) if tests is None else None
        powers, places, buckets, stride = max(self._longest().bit_length(), 1), None, None, len(self.view)
        if equality is not None:
            tests, powers = [(*equality, True)], 8
        if tests is None:
            return None
        tables = {(own.slot, least) for _, own, least in tests}
        numbers = len(tables) * powers * len(self.view)
        if numbers > max(FEW_NUMBERS, NUMBERS_A_CANDIDATE * candidates) or not has_room(numbers):
            return None
        blocks = {}
        for slot, least in sorted(tables):
            values = found.arrays[slot][: len(self.view)]
            if equality is None:
                table = blocks_of(values, powers, np.fmin if least else np.fmax).reshape(-1)
            else:
                order, starts, stride = _in_buckets(values)
                table = np.append(values[order], np.nan)
                places = columns.slot(REJECTING, (self.name, "places"), np.append(order, 0).astype(np.float64))
                buckets = columns.slot(REJECTING, (self.name, "buckets"), starts.astype(np.float64))
            blocks[slot, least] = columns.slot(REJECTING, (self.name, slot, least), table)
        constants = [columns.constant(value) for value in found.constants]
        name = self.name  # a function that calls itself is not given back at once: it must not hold the events

        def placed(term: Term, least: bool) -> Term:
            match term:
                case Slot(level, slot):
                    key = "beside", name, slot
                    if level == last:
                        return blocks[slot, least]
                    of = found.again[slot]
                    return columns.slot(level, key, found.arrays[slot], None if of is None or last in of.levels else of)
                case Constant(index):
                    return constants[index]
                case Operation(operator, operands):
                    return Operation(operator, tuple(placed(operand, least) for operand in operands))

        own_rows = None
        if self._edges:
            own_rows = columns.slot(REJECTING, (self.name, "rows"), row_values_of(around.events, self.view))
        since, until = (
            tuple(self._edge_slot(columns, bound) for bound in self._edges if bound.low is low) for low in (True, False)
        )
        return Rejecting(
            tuple(self._slots(columns, "low", self.lows)),
            tuple(self._slots(columns, "high", self.highs)),
            columns.constant(float(stride)),
            tuple(
                Test(test.comparator, placed(test.left, least), placed(test.right, least)) for test, _, least in tests
            ),
            places,
            buckets,
            own_rows,
            since,
            until,
        )

    def _longest(self) -> int:
        """The most events that lie in the range of any match."""
        if self._loose:
            return len(self.view)
        limits = ((self._ends(self._limit(level, high=True)), low) for level, low in self.lows.items())
        return min(int((high - low).max(initial=0)) for high, low in limits)

    def _limit(self, level: int, *, high: bool) -> Bound:
        """The bound behind the last event within reach of each event of a level, or at the first one."""
        reach = self.around.reach
        delta = reach.size + 1 if high else -reach.size
        return Bound(level, not high, reach.clock, delta, reach.partition_by)

    def _edge_slot(self, columns: TestColumns, bound: Bound) -> Slot:
        """The column of a bound by an event that no key sorts like the view: as rows."""
        return edge_slot(self.around.events, bound, self.around.views[bound.earlier], columns, bound.earlier)

    def _slots(self, columns: TestColumns, side: str, ends: Mapping[int, Array]) -> list[Slot]:
        slots = []
        for level, array in ends.items():
            bounds = self._bounds[level, side == "low"]
            column = self._known((level, side), partial(_EndColumn, bounds, self._attributes))
            values = padded_copy(array, np.float64)
            slots.append(columns.slot(level, (side, self.name), values, self._again(level, column)))
        return slots

    def _known(self, key: Hashable, make: Callable[[], T]) -> T:
        """The object kept for this negated variable in this order, whatever the slice."""
        return self._cache.once((*self._fact, key), make)

    def _again(self, level: int, values: Callable[..., Array | None]) -> RemadeColumn | None:
        """A column of a level by the negated variable's leaf; None where a key sorts by more than attributes."""
        return RemadeColumn((level, self.number), values, values) if self._remade else None

    def _nearest(self, anchor: int, search: RangeResult) -> _NearestColumn:
        """Return for each event of a level the nearest one that rejects by the conjuncts."""
        forward = search is RangeResult.FIRST

        def make() -> _NearestColumn:
            searching = _RejectingSearch(
                {self.around.order[anchor]: 0, self.name: 1}, self.conjuncts, (), (), (0,), (0,), search
            )
            limit, near = (self._limit(anchor, high=forward),), self._bounds[anchor, forward]
            lows, highs = (near, limit) if forward else (limit, near)
            return _NearestColumn(searching, lows, highs, self._attributes)

        return self._known(("nearest", anchor, search.value), make)

    # -- on partial matches -----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Get ready to check partial matches, which `as_test` could not do without."""
        around, place = self.around, {level: place for place, level in enumerate(self.depends)}

        def make() -> _RejectingSearch:
            return _RejectingSearch(
                {**{around.order[level]: at for level, at in place.items()}, self.name: len(place)},
                self.conjuncts,
                tuple(place[level] for level in self.distinct),
                tuple(replace(bound, earlier=place[bound.earlier]) for bound in self._edges),
                tuple(place[level] for level in self.lows),
                tuple(place[level] for level in self.highs),
                RangeResult.FIRST,
            )

        views = (*(around.views[level] for level in self.depends), self.view)
        searching = self._known("search", make)
        self._search = searching.over(around.events, views, [*self.lows.values()], [*self.highs.values()])

    def rejected(self, block: Array) -> Array:
        """Select the partial matches that an event rejects.

        Parameters
        ----------
        block
            int32, shape (levels, n): places in the views of at least all levels up to `level`.

        Returns
        -------
        Array
            bool, shape (n,).
        """
        if self._search is not None:
            return self._search(block[self.depends]) >= 0
        lows = np.maximum.reduce([array[block[level]] for level, array in self.lows.items()])
        highs = np.minimum.reduce([array[block[level]] for level, array in self.highs.items()])
        rejected = np.zeros(block.shape[1], dtype=bool)
        widths = np.maximum(highs.astype(np.int64) - lows, 0)
        for start, stop in pieces(widths, PAIRS_AT_ONCE) if widths.any() else ():
            sizes = widths[start:stop]
            which = np.repeat(np.arange(start, stop), sizes)
            kept = np.ones(len(which), dtype=bool)
            order, views = self.around.order, self.around.views
            rows = {order[level]: views[level].rows[block[level, which]] for level in self.depends}
            rows[self.name] = self.view.rows[ranges(lows[start:stop], sizes)]
            for level in self.distinct:
                kept &= rows[self.name] != rows[order[level]]
            for bound in self._edges:
                edges = edge_rows(self.around.events, bound, views[bound.earlier])[block[bound.earlier, which]]
                kept &= (rows[self.name] >= edges) if bound.low else (rows[self.name] < edges)
            for conjunct in self.conjuncts:
                own = {name: row[kept] for name, row in rows.items()}
                kept[kept] = conjunct_holds(conjunct, self.around.events, own)
            rejected[which[kept]] = True
        return rejected


def _in_buckets(values: Array) -> tuple[Array, Array, int]:
    """Sort values into buckets by their hash, NaN aside: the order, where each bucket begins, and the shift of a hash.

    There are two to four buckets for each value. Within one they are in order of value and place.
    """
    known = np.flatnonzero(values == values)
    bits = max(len(known), 2).bit_length() + 1
    hashes = (values[known] + 0.0).view(np.uint64) * np.uint64(HASH_FACTOR)
    bucket = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    order = np.lexsort((values[known], bucket))
    starts = np.append(0, np.cumsum(np.bincount(bucket, minlength=1 << bits)))
    return known[order], starts, 64 - bits
