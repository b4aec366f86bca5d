"""The lists of a Kleene variable counted, or written out, by compiled code behind partial matches of single variables.

The candidates of a list are an index range, as those of a single variable are. Where a single variable stands before
or after the list in every match, all candidates of one partial match lie in one window, and any of them make a list.
Elsewhere the first element is bound like a single variable, and bounds the others.

The lists of several variables are found in turn. To a list it matters only where the lists before begin and end, if no
event of theirs can be an element of it: order, window and keys say nothing else. So both ends of a list are two single
variables to the lists behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun
from cep_pipeline.detection.fused.constraints import (
    Bound,
    LevelScope,
    PlannedClause,
    Reach,
    TestColumns,
    arguments_over,
    bounds_of,
    compile_conjunct,
    ends_by_level,
    other_event,
    searching_shape,
    types_of_attributes,
)
from cep_pipeline.detection.fused.kernel import count_lists, followers
from cep_pipeline.detection.fused.levels import (
    LevelCount,
    Levels,
)
from cep_pipeline.detection.fused.programs import MOST_FOLLOWERS, Level, RangeResult, TestedConjunct
from cep_pipeline.detection.kleene.bindings import Bindings, clause_over
from cep_pipeline.detection.kleene.extension import ListConditions
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, Owned
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Element, Expression, Reference
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.keys import Key, key_of_added, keyed_leaf
from cep_pipeline.slices.order import before_is_earlier, may_be_one
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import room_for
from cep_pipeline.slices.views import EventLeaf, View, clause_cache_of, the_leaf, view_of_leaf, without_name

ELEMENTS_AT_ONCE = 1 << 18
"""Room for the elements of the lists of a block."""
STATE_WORDS = 3 + 2 * 66
"""Words of the kernel's state: three, and each of two stacks of lists of up to 64 elements, and a word more."""
write_lists = NativeKernel(
    "cep_pipeline.detection.kleene.listing_kernel",
    "write_lists",
    (
        *("int64", "int32*", "uint64*", "int64", "int64*", "int32*", "int32*", "int64", "int64*"),
        *("int64",) * 4,
        *("int32*", "int64*", "int64", "int64", "int64*", "int32*", "int32*"),
    ),
)


def has_one_list(clause: Clause) -> bool:
    """Return whether the clause has one Kleene variable, and no negated ones that bind lists."""
    lists = sum(variable.kleene for variable in clause.positive)
    return lists == 1 and not any(variable.kleene for variable in clause.negated)


def lists_at_once(clause: Clause) -> bool:
    """Return whether the clause has one Kleene variable, with conditions on elements and adjacent elements only."""
    return has_one_list(clause) and not asks_lists(clause)


def asks_lists(clause: Clause) -> bool:
    """Return whether something is asked of the lists of a clause with one Kleene variable when they have been made."""
    return bool(clause.negated) or bool(conditions_on_lists(clause))


def conditions_on_lists(clause: Clause) -> tuple[Conjunct, ...]:
    """The conditions on the one Kleene variable of a clause that look at more than two adjacent elements."""
    singles = frozenset(variable.name for variable in clause.positive if not variable.kleene)
    (name,) = (variable.name for variable in clause.positive if variable.kleene)
    conditions = ListConditions.of(clause, name, singles)
    return *conditions.growing, *conditions.whole


@dataclass(eq=False)
class ListsBehind:
    """The lists of the one Kleene variable of a clause behind its single variables in one order, whatever the slice.

    Attributes
    ----------
    variable, conditions
        The Kleene variable, and the conditions on it.
    anchored
        Whether the first element of each list is bound with the single variables, as the last level.
    bound_clause, bound_order
        What is bound before the lists: the single variables, and the first element where it is.
    filters
        The conditions on one event alone.
    key, tested
        The key by which candidates are sorted, and the conditions on single elements that it does not fulfil.
    bounds, overlapping
        The bounds of candidates, and the levels that may bind the same event.
    """

    pattern: Pattern
    clause: Clause
    singles: tuple[str, ...]
    reach: Reach

    @classmethod
    def of(cls, pattern: Pattern, clause: Clause, singles: tuple[str, ...], reach: Reach) -> ListsBehind:
        """The lists behind single variables in one order, remembered with the clause."""
        key = ("lists", singles, pattern.ties, reach)
        return clause_cache_of(clause).once(key, lambda: cls(pattern, clause, singles, reach))

    @cached_property
    def variable(self) -> Variable:
        (variable,) = (variable for variable in self.clause.positive if variable.kleene)
        return variable

    @cached_property
    def conditions(self) -> ListConditions:
        return ListConditions.of(self.clause, self.variable.name, frozenset(self.singles))

    @cached_property
    def anchored(self) -> bool:
        """False if the candidates of one partial match are all in one window, whatever the data."""
        if self.pattern.window.time_us is None and not before_is_earlier(self.pattern.ties):
            return True  # of one time, events before another one may have later positions
        before = self.clause.precedence
        name = self.variable.name
        return not any((single, name) in before or (name, single) in before for single in self.singles)

    @property
    def bound_order(self) -> tuple[str, ...]:
        return (*self.singles, self.variable.name) if self.anchored else self.singles

    @cached_property
    def bound_clause(self) -> Clause:
        name = self.variable.name
        if not self.anchored:
            return clause_over(self.clause, self.singles)
        kept = clause_over(self.clause, {*self.singles, name})

        def make() -> Clause:
            own = (*self.conditions.leaf, *self.conditions.elements)
            conjuncts = [conjunct for conjunct in kept.conjuncts if name not in conjunct.variables]
            conjuncts += [_over_elements(conjunct, name, {Element.EACH: name}) for conjunct in own]
            positive = tuple(replace(variable, kleene=False) for variable in kept.positive)
            return replace(kept, positive=positive, conjuncts=tuple(conjuncts))

        key = "first elements", name, self.singles
        return clause_cache_of(self.clause).once(key, make)

    @cached_property
    def filters(self) -> tuple[Conjunct, ...]:
        name = self.variable.name
        filters = (_over_elements(conjunct, name, {Element.EACH: name}) for conjunct in self.conditions.leaf)
        return tuple(without_name(conjunct, name) for conjunct in filters)

    @property
    def leaf(self) -> EventLeaf:
        """The events that may be elements, where the first one is not bound before."""
        return the_leaf(self.variable.event_type, self.filters)

    @cached_property
    def key(self) -> Key | None:
        single = [conjunct for conjunct in self.clause.conjuncts if conjunct.variables.issubset(self.singles)]
        equated = replace(self.clause, conjuncts=(*single, *self._alone.values()))
        return key_of_added(equated, self.singles, self.variable.name, types_of_attributes(self.pattern), of_all=True)

    @cached_property
    def _alone(self) -> dict[Conjunct, Conjunct]:
        """The conditions on single elements, over one event each."""
        name = self.variable.name
        return {one: _over_elements(one, name, {Element.EACH: name}) for one in self.conditions.elements}

    @cached_property
    def tested(self) -> tuple[Conjunct, ...]:
        made_true = () if self.key is None else self.key.conjuncts
        return tuple(conjunct for conjunct, one in self._alone.items() if one not in made_true)

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """Order and window between the single variables and an element, and the window behind the first element."""
        return tuple(self._bounds())

    def _bounds(self) -> Iterator[Bound]:
        order, reach = (*self.singles, self.variable.name), self.reach
        if self.singles:
            yield from bounds_of(self.clause, order, len(self.singles), self.pattern.ties, reach)
        if self.anchored:
            yield Bound(len(self.singles), False, reach.clock, reach.size + 1, reach.partition_by)

    @cached_property
    def overlapping(self) -> tuple[int, ...]:
        of = self.clause.by_name
        return tuple(
            level
            for level, single in enumerate(self.singles)
            if may_be_one(self.pattern, self.clause, self.variable, of[single])
        )

    @cached_property
    def slots(self) -> Array:
        """int64: for each variable in pattern order its place among the single ones, or -1 for the list."""
        names = [variable.name for variable in self.clause.positive]
        return np.array([self.singles.index(name) if name in self.singles else -1 for name in names], np.int64)

    @cached_property
    def lengths(self) -> tuple[int, int, int]:
        """The least and greatest number of elements, and 1 where longer lists come before those that they begin with.

        So matches come in the page's order: what follows the list is mostly later.
        """
        return self.variable.minimum, self.variable.maximum or MOST_FOLLOWERS + 1, int(self.slots[-1] >= 0)


def subsets_of(variable: Variable, sizes: Array, *, anchored: bool) -> int:
    """All lists of so many candidates, or those that begin with the first one, if there is any."""
    often = np.bincount(sizes)
    first, most = variable.minimum - anchored, None if variable.maximum is None else variable.maximum - anchored
    some = (int(size) for size in np.flatnonzero(often) if size)
    return sum(int(often[size]) * choices_of(size - anchored, first, most) for size in some)


def choices_of(size: int, least: int, most: int | None) -> int:
    """Count the ways to choose at least and at most so many of some things.

    Examples
    --------
    >>> choices_of(5, 1, None), choices_of(5, 2, 3), choices_of(5, 0, 0), choices_of(1, 2, None)
    (31, 20, 1, 0)
    """
    if most is None or most >= size:
        return 2**size - choices_of(size, 0, least - 1) if 0 < least <= size else 2**size if least <= size else 0
    total, one = 0, 1
    for chosen in range(most + 1):
        if chosen >= least:
            total += one
        one = one * (size - chosen) // (chosen + 1)
    return total


def exact_sum(numbers: Array) -> int:
    """The exact sum of int64s that are not negative."""
    return (int((numbers >> 32).sum()) << 32) + int((numbers & (2**32 - 1)).sum())


def _places_among(events: PreparedEvents, first: View, view: View) -> Array:
    """int32: the place of each event of one view in another one; -1 where it is not in it."""
    places = np.full(len(events), -1, np.int32)
    places[view.rows] = np.arange(len(view), dtype=np.int32)
    found: Array = places[first.rows]
    return found


class CompiledLists:
    """The lists of the one Kleene variable of a clause, whose conditions are on elements and adjacent elements.

    Parameters
    ----------
    order
        The clause's single variables in plan order.
    owned
        Where the events of the matches lie, as `ownership.reading` says; which of them a slice owns is not looked at.

    Attributes
    ----------
    compiled
        Whether all conditions could be compiled; if not, there is nothing to be had here.
    known
        What holds for every slice.
    evaluations
        Tests of a conjunct on a candidate, or on a pair of them, before lists were written.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        order: tuple[str, ...],
        events: PreparedEvents,
        owned: Owned = EVERYTHING,
    ) -> None:
        self.pattern, self.clause, self.singles, self.events, self.owned = pattern, clause, order, events, owned
        reach = PlannedClause(pattern, clause, order, events).reach
        self.known = known = ListsBehind.of(pattern, clause, order, reach)
        self.variable, self.conditions, self.anchored = known.variable, known.conditions, known.anchored
        bound = known.bound_clause, known.bound_order
        self._run = KernelRun(pattern, *bound, events, owned, BLOCK_ROWS, as_places=True)
        self.compiled = True
        self.evaluations = 0
        levels = self._run.levels
        if levels is not None:
            self._compile(levels)

    @property
    def counts(self) -> tuple[LevelCount, ...]:
        """Counts of the levels of the single variables, once the lists are counted."""
        return self._run.counts[: len(self.singles)]

    def counted(self) -> Iterator[tuple[Array, Array]]:
        """(places, lists) of the partial matches, block by block: places in the views by level, and int64 numbers.

        The number is -1 where it is more than `MOST_LISTS`. Where there are no conditions on adjacent elements it is
        the number of candidates instead, of which any make a list.
        """
        if self._run.levels is None:
            return
        for places in self._run.places():
            go_on()
            found = count_lists(self._shape, self._arguments, places)
            if self.anchored and not self.singles:
                found[self._first_places[places[-1]] < 0] = 1  # in no partition: a list of one
            yield places, found

    def listed(self) -> Iterator[ListBlock | Array]:
        """Blocks of the matches; and the places of partial matches with so many candidates that it leaves them."""
        if self._run.levels is None:
            return
        views = self._run.levels.views
        for places in self._run.places():
            lows, widths = self._ranges(places)
            self.evaluations += int(widths.sum()) * len(self.known.tested)
            self.evaluations += int((widths * (widths - 1) // 2).sum()) * len(self.conditions.adjacent)
            if self.anchored and not self.singles:
                alone = views[-1].rows[places[-1]][self._first_places[places[-1]] < 0]
                if len(alone) and self.variable.minimum == 1:  # in no partition: lists of one
                    yield ListBlock(self.clause, np.arange(len(alone) + 1), alone, np.zeros(len(alone), np.int32))
            yield from self._written(places, lows, widths)
            large = np.flatnonzero(widths > MOST_FOLLOWERS)
            if len(large):
                yield places[:, large]

    def _ranges(self, places: Array) -> tuple[Array, Array]:
        """int32: the first candidate of each partial match as a place in its view, and how many there are."""
        sides = []
        for arrays, choose in ((self._arguments.lows, np.maximum), (self._arguments.highs, np.minimum)):
            ends = [array[places[earlier]] for (_, earlier), array in arrays.items()]
            sides.append(choose.reduce(ends))
        return sides[0], np.maximum(sides[1] - sides[0], 0).astype(np.int64)

    def _written(self, places: Array, lows: Array, widths: Array) -> Iterator[ListBlock]:
        few = (widths > 0) & (widths <= MOST_FOLLOWERS)
        sizes = np.where(few, widths + 1, 0).astype(np.int64)
        ends = np.cumsum(sizes)
        if not len(ends) or not ends[-1]:
            return
        offsets = np.where(few, ends - sizes, -1)
        words = followers(self._listing, self._arguments, places, offsets, int(ends[-1]))
        if self.anchored:
            words[offsets[few]] = 1
        views = self._levels_views
        count, width = places.shape[1], len(self.clause.positive)
        singles = np.empty((max(width - 1, 1), count), np.int32)
        for level in range(width - 1):
            singles[level] = views[level].rows[places[level]]
        state = np.zeros(STATE_WORDS, np.int64)
        while state[0] < count:
            go_on()
            out = room_for(max(ELEMENTS_AT_ONCE // width, 1) + 1, np.int64)
            most = ELEMENTS_AT_ONCE + MOST_FOLLOWERS + width
            rows, variables = room_for(most, np.int32), room_for(most, np.int32)
            found = write_lists(
                count,
                singles,
                words,
                len(words),
                offsets,
                np.ascontiguousarray(lows, np.int32),
                self._candidates,
                len(self._candidates),
                self.known.slots,
                width,
                *self.known.lengths,
                np.ascontiguousarray(widths, np.int32),
                state,
                len(out) - 1,
                len(rows),
                out,
                rows,
                variables,
            )
            if found:
                elements = int(out[found])
                yield ListBlock(self.clause, out[: found + 1], rows[:elements], variables[:elements])

    def bindings(self, places: Array) -> tuple[Bindings, Array | None]:
        """The partial matches at some places, and their first elements where they are bound."""
        assert self._run.levels is not None
        rows = [view.rows[at] for view, at in zip(self._run.levels.views, places, strict=True)]
        bound = dict(zip(self.singles, rows, strict=False))
        together = np.stack(rows)
        bindings = Bindings(bound, together.min(axis=0), together.max(axis=0))
        return bindings, rows[-1] if self.anchored else None

    def _compile(self, levels: Levels) -> None:
        events, name, last, known = self.events, self.variable.name, len(levels.views), self.known
        leaf = levels.leaves[-1] if self.anchored else view_of_leaf(events, known.leaf, *events.rows_in(self.owned))
        leaves = {**dict(zip(self._run.order, levels.leaves, strict=True)), name: leaf}
        key = known.key
        alike = leaves if key is None else {other: keyed_leaf(events, key, other, leaves) for other in leaves}
        view = alike[name]
        of_levels = [alike[one] for one in self._run.order]
        lows, highs = ends_by_level(events, known.bounds, levels.views, of_levels, view)
        if self.anchored:
            self._first_places = _places_among(events, levels.views[-1], view)
            lows[last - 1] = np.maximum(self._first_places, 0)
        views = (*levels.views, view, view)
        columns = TestColumns()
        earlier, later = f"{name}[i-1]", f"{name}[i]"
        names = {single: level for level, single in enumerate(self.singles)}
        of_names = (*views[: len(self.singles)], *views[last:])
        scope = LevelScope(events, {**names, earlier: last, later: last + 1}, of_names, columns)
        tests = [other_event(events, columns, (last, views[last]), (one, views[one])) for one in known.overlapping]
        adjacent = self._compiled(self.conditions.adjacent, {Element.PREVIOUS: earlier, Element.CURRENT: later}, scope)
        elements = self._compiled(known.tested, {Element.EACH: earlier}, scope)
        if adjacent is None or elements is None:
            self.compiled = False
            return
        search = RangeResult.LISTS_FROM_FIRST if self.anchored else RangeResult.LISTS
        levels_of_list = (Level(tuple(lows), tuple(highs), (*tests, *elements)), Level(tests=tuple(adjacent)))
        behind = levels_of_list if adjacent else levels_of_list[:1]
        self._shape = searching_shape(last, behind, columns, search if adjacent else RangeResult.SIZES)
        self._listing = searching_shape(last, levels_of_list, columns, RangeResult.FOLLOWERS)
        self._candidates, self._levels_views = view.rows, levels.views
        self._arguments = arguments_over(views, last, lows, highs, columns.arrays, columns.constants)

    def _compiled(
        self, conjuncts: tuple[Conjunct, ...], names: dict[Element, str], scope: LevelScope
    ) -> list[TestedConjunct] | None:
        """The tests of conjuncts whose elements are given names; None where one cannot be compiled."""
        found = []
        for conjunct in conjuncts:
            compiled = compile_conjunct(_over_elements(conjunct, self.variable.name, names), scope)
            if compiled is None:
                return None
            found.append(compiled)
        return found


def _over_elements(conjunct: Conjunct, variable: str, names: dict[Element, str]) -> Conjunct:
    """The conjunct with a single variable for each way of choosing an element of a Kleene variable."""
    return rewritten(conjunct, partial(_named, variable=variable, names=names))


def _named(node: Expression, variable: str, names: dict[Element, str]) -> Expression:
    if isinstance(node, Reference) and node.variable == variable:
        return replace(node, variable=names[node.element], element=Element.ONLY)
    return node
