"""Negation as early range checks (docs/language.md, section 3.5).

The events that could reject a match lie in an index range of the negated variable's view, between the events that are
nearest before and after it. Where the event must equal others in something, by an equivalence test or an equality that
is spelled out, the view is sorted by that, and the range holds only events that do. The match is checked at the
earliest plan level where all that bounds the range or is compared is bound:

- as a test of two columns, where the range itself decides, or one positive event decides which events reject: the place
  of the first one behind it is searched once for each event, not for each match;
- else by a search of the range for each partial match: by the least and greatest values of two blocks that make it up,
  where these decide (`reduction`), or by reading it up to the first event that rejects;
- where a condition cannot be compiled, by evaluating pairs of a partial match and an event of its range, in vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cep_pipeline.detection.fused.constraints import (
    Bound,
    BoundUnit,
    LevelScope,
    PlannedClause,
    TestColumns,
    arguments_over,
    bounds_of,
    compile_conjunct,
    edge_rows,
    edge_slot,
    edge_test,
    ends_by_level,
    other_event,
    searching_shape,
    span_bounds,
)
from cep_pipeline.detection.fused.kernel import Arguments, search_places
from cep_pipeline.detection.fused.programs import Level, RangeResult, Shape, Slot, Test, TestedConjunct
from cep_pipeline.detection.fused.reduction import BlockSearch
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.expressions.lists import pieces, ranges
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.slices.keys import Key, key_of_added, keyed_leaf
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import padded_copy
from cep_pipeline.slices.views import View, clause_cache_of, implied_by, times_are_plain

PAIRS_AT_ONCE = 1 << 20
"""Pairs of a partial match and an event that are evaluated together, unless one match has more."""


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


def _bounds_of_rejecting(name: str, planned: PlannedClause, *, plain: bool) -> _RejectingBounds:
    clause, ties, reach = planned.clause, planned.pattern.ties, planned.reach
    of_all = bool(reach.partition_by) or (not before_is_earlier(ties) and reach.clock is BoundUnit.POSITION)
    key = key_of_added(clause, planned.order, name, planned.types, of_all=of_all)
    made_true = frozenset[Conjunct]() if key is None else key.conjuncts
    spans = implied_by(clause, planned.pattern.window, ties).spans if plain else {}
    own = [c for c in clause.conjuncts if name in c.variables and len(c.variables) > 1 and c not in made_true]
    said = [span for conjunct in own for span in spans.get(conjunct, ())]
    order, last = (*planned.order, name), len(planned.order)
    members = [level for level, other in enumerate(planned.order) if key is None or other in key.variables]
    ranges = (*bounds_of(clause, order, last, ties, reach, members), *span_bounds(said, order, last, members))
    needed = (*bounds_of(clause, order, last, ties, reach), *span_bounds(said, order, last, range(last)))
    return _RejectingBounds(
        key,
        tuple(conjunct for conjunct in own if conjunct not in spans),
        ranges,
        tuple(bound for bound in needed if bound.earlier not in members),
    )


def _rejecting_search(
    events: PreparedEvents,
    levels: Mapping[str, int],
    views: Sequence[View],
    conjuncts: Sequence[Conjunct],
    ends: tuple[Mapping[int, Array], Mapping[int, Array]],
    search: RangeResult,
    distinct: Sequence[int] = (),
    edges: Sequence[Bound] = (),
) -> tuple[Shape, Arguments] | None:
    """A search for events that reject, behind a prefix of some levels; None if a condition is not compiled.

    Parameters
    ----------
    levels, views
        The place of each variable in the prefix, and its view; those of the negated one are the last.
    conjuncts, distinct, edges
        The tests of an event: conditions, the places in the prefix whose events are others, and bounds.
    ends
        The lower and upper ends of the range, by the places in the prefix that give them.
    """
    last, columns = len(views) - 1, TestColumns()
    scope = LevelScope(events, levels, tuple(views), columns)
    tests: list[TestedConjunct] = []
    tests += [other_event(events, columns, (last, views[last]), (at, views[at])) for at in distinct]
    tests += [edge_test(events, bound, columns, last, views) for bound in edges]
    for conjunct in conjuncts:
        compiled = compile_conjunct(conjunct, scope)
        if compiled is None:
            return None
        tests.append(compiled)
    shape = searching_shape(last, [Level(tuple(ends[0]), tuple(ends[1]), tuple(tests))], columns, search)
    return shape, arguments_over(views, last, *ends, columns.arrays, columns.constants)


def _tightest_ends(events: PreparedEvents, bounds: Sequence[Bound], view: View, keyed: View, candidates: View) -> Array:
    """The tightest of bounds on one side by one earlier level, as `range_ends` has each."""
    level = bounds[0].earlier
    lows, highs = ends_by_level(events, bounds, {level: view}, {level: keyed}, candidates)
    tightest: Array = (lows or highs)[level]
    return tightest


class LevelNegation:
    """One negated variable of a clause.

    Parameters
    ----------
    leaf
        The events that could reject a match, in stream order.
    leaves, views
        The events of each plan level in stream order, and as the level visits them.

    Attributes
    ----------
    level
        The earliest plan level at which it can be checked.
    """

    def __init__(
        self,
        name: str,
        leaf: View,
        planned: PlannedClause,
        leaves: Sequence[View],
        views: Sequence[View],
    ) -> None:
        self.name, self.planned, self.views = name, planned, views
        self.order, self.events = planned.order, planned.events
        ties, reach = planned.pattern.ties, planned.reach
        # Positions of events of one time are not ordered as TIES ANY orders them: no window limits the search.
        self._loose = not before_is_earlier(ties) and reach.clock is BoundUnit.POSITION
        plain = times_are_plain(planned.events)
        fact = "rejecting", name, planned.order, ties.value, reach.clock.value, reach.size, plain
        find = partial(_bounds_of_rejecting, name, planned, plain=plain)
        bounds: _RejectingBounds = clause_cache_of(planned.clause).once(fact, find)
        self.conjuncts, self._edges, key = bounds.conjuncts, bounds.edges, bounds.key
        of_names = {**dict(zip(planned.order, leaves, strict=True)), name: leaf}
        self._alike = (
            of_names
            if key is None
            else {other: keyed_leaf(planned.events, key, other, of_names) for other in key.variables}
        )
        self.view = self._alike[name]
        self._bounds: dict[tuple[int, bool], tuple[Bound, ...]] = {}
        for bound in bounds.ranges:
            side = bound.earlier, bound.low
            self._bounds[side] = (*self._bounds.get(side, ()), bound)
        self.lows = {level: self._ends(*found) for (level, low), found in self._bounds.items() if low}
        self.highs = {level: self._ends(*found) for (level, low), found in self._bounds.items() if not low}
        self.distinct = [level for level, other in enumerate(self.order) if planned.overlap(name, other)]
        self._compared = {self.order.index(other) for c in self.conjuncts for other in c.variables if other != name}
        edges = {bound.earlier for bound in self._edges}
        self.depends = sorted({*self.lows, *self.highs, *edges, *self.distinct, *self._compared})
        self.level = min(max(*self.depends, 1), len(self.order) - 1)
        self._search: Callable[[Array], Array] | None = None

    def _ends(self, *bounds: Bound) -> Array:
        level = bounds[0].earlier
        return _tightest_ends(self.events, bounds, self.views[level], self._alike[self.order[level]], self.view)

    # -- by tests of the kernel -------------------------------------------------------------------------------------

    def as_test(self, columns: TestColumns) -> TestedConjunct | None:
        """The check as a test at `level`, if columns of single levels decide it; the columns are added."""
        if self.distinct or len(self.order) == 1:
            return None
        if not self.conjuncts and not self._edges:  # an event in the range rejects: it must end before it begins
            lows, highs = self._slots(columns, "low", self.lows), self._slots(columns, "high", self.highs)
            return tuple((Test(Comparator.GE, low, high),) for low in lows for high in highs)
        if len(self._compared) > 1 or self._loose:
            return None
        for forward, near, far in ((True, self.lows, self.highs), (False, self.highs, self.lows)):
            if len(near) > 1 or not self._compared <= near.keys() or any(one.low is forward for one in self._edges):
                continue
            (anchor,) = near
            places = self._nearest(anchor, forward=forward)
            if places is None:
                return None
            comparator = Comparator.GE if forward else Comparator.LT
            hit = columns.slot(anchor, ("rejecting", self.name), places)
            far_ends = self._slots(columns, "high" if forward else "low", far)
            alternatives = [(Test(comparator, hit, end),) for end in far_ends]
            if self._edges:
                rows, exist = padded_copy(places), ~np.isin(places, (-1, np.inf))
                rows[exist] = self.view.rows[places[exist].astype(np.int64)]
                hit = columns.slot(anchor, ("rejecting row", self.name), rows)
                alternatives += [(Test(comparator, hit, self._edge_slot(columns, bound)),) for bound in self._edges]
            return tuple(alternatives)
        return None

    def _limit(self, level: int, *, high: bool) -> Bound:
        """The bound behind the last event within reach of each event of a level, or at the first one."""
        reach = self.planned.reach
        delta = reach.size + 1 if high else -reach.size
        return Bound(level, not high, reach.clock, delta, reach.partition_by)

    def _edge_slot(self, columns: TestColumns, bound: Bound) -> Slot:
        """The column of a bound by an event that no key sorts like the view: as rows."""
        return edge_slot(self.events, bound, self.views[bound.earlier], columns, bound.earlier)

    def _slots(self, columns: TestColumns, side: str, ends: Mapping[int, Array]) -> list[Slot]:
        return [columns.slot(level, (side, self.name), padded_copy(array, np.float64)) for level, array in ends.items()]

    def _nearest(self, anchor: int, *, forward: bool) -> Array | None:
        """For each event of a level the place of the nearest one that rejects; None if a conjunct is not compiled.

        It is beyond all places, or -1 where the last one is searched, if there is none.
        """
        limit, near = (self._limit(anchor, high=forward),), self._bounds[anchor, forward]
        view, candidates, search = self.views[anchor], self.view, RangeResult.FIRST if forward else RangeResult.LAST
        names = {self.order[anchor]: 0, self.name: 1}

        def find() -> Array | None:
            lows, highs = ({0: self._ends(*bounds)} for bounds in ((near, limit) if forward else (limit, near)))
            made = _rejecting_search(self.events, names, (view, candidates), self.conjuncts, (lows, highs), search)
            if made is None:
                return None
            places = padded_copy(search_places(*made, np.arange(len(view), dtype=np.int32)[np.newaxis]), np.float64)
            if forward:
                places[places < 0] = np.inf
            return places

        key = "nearest", tuple(names), self.conjuncts, search, limit, near, view.identity, candidates.identity
        return self.events.derive(key, find)

    # -- on partial matches -----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Get ready to check partial matches, which `as_test` could not do without."""
        place = {level: place for place, level in enumerate(self.depends)}
        found = _rejecting_search(
            self.events,
            {**{self.order[level]: at for level, at in place.items()}, self.name: len(place)},
            (*(self.views[level] for level in self.depends), self.view),
            self.conjuncts,
            ({place[one]: ends for one, ends in self.lows.items()}, {place[one]: e for one, e in self.highs.items()}),
            RangeResult.FIRST,
            [place[level] for level in self.distinct],
            [replace(bound, earlier=place[bound.earlier]) for bound in self._edges],
        )
        if found is None:
            return
        shape, arguments = found
        tests = shape.levels[-1].tests
        blocks = BlockSearch.of(tests[0], arguments) if len(tests) == 1 else None
        self._search = blocks.any if blocks else lambda prefix: search_places(shape, arguments, prefix) >= 0

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
            return self._search(block[self.depends])
        lows = np.maximum.reduce([array[block[level]] for level, array in self.lows.items()])
        highs = np.minimum.reduce([array[block[level]] for level, array in self.highs.items()])
        rejected = np.zeros(block.shape[1], dtype=bool)
        widths = np.maximum(highs.astype(np.int64) - lows, 0)
        for start, stop in pieces(widths, PAIRS_AT_ONCE) if widths.any() else ():
            sizes = widths[start:stop]
            which = np.repeat(np.arange(start, stop), sizes)
            kept = np.ones(len(which), dtype=bool)
            order, views = self.order, self.views
            rows = {order[level]: views[level].rows[block[level, which]] for level in self.depends}
            rows[self.name] = self.view.rows[ranges(lows[start:stop], sizes)]
            for level in self.distinct:
                kept &= rows[self.name] != rows[order[level]]
            for bound in self._edges:
                edges = edge_rows(self.events, bound, views[bound.earlier])[block[bound.earlier, which]]
                kept &= (rows[self.name] >= edges) if bound.low else (rows[self.name] < edges)
            for conjunct in self.conjuncts:
                own = {name: row[kept] for name, row in rows.items()}
                kept[kept] = conjunct_holds(conjunct, self.events, own)
            rejected[which[kept]] = True
        return rejected
