"""The lists of a Kleene variable counted, or written out, by compiled code behind partial matches of single variables.

The candidates of a list are an index range, as those of a single variable are. Where a single variable stands before
or after the list in every match, all candidates of one partial match lie in one window, and any of them make a list.
Elsewhere the first element is bound like a single variable, and bounds the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.counting.choice import LANES
from cep_pipeline.detection.counting.sweep import SortedValues, large_moduli, number_of
from cep_pipeline.detection.fused.clause import BLOCK_ROWS, KernelRun
from cep_pipeline.detection.fused.constraints import (
    Bound,
    LevelScope,
    RemadeColumn,
    TestColumns,
    bounds_of,
    compile_conjunct,
    ends_by_level,
    other_event,
)
from cep_pipeline.detection.fused.generator import MOST_FOLLOWERS
from cep_pipeline.detection.fused.kernel import count_lists, followers
from cep_pipeline.detection.fused.levels import LaidOutLevels, LevelCount, Levels
from cep_pipeline.detection.fused.negation import Surroundings
from cep_pipeline.detection.fused.range_search import arguments_over, searching_shape
from cep_pipeline.detection.fused.shape import Level, RangeResult, Shape, Slot, Test, TestedConjunct
from cep_pipeline.detection.kleene.bindings import Bindings, clause_over
from cep_pipeline.detection.kleene.extension import ListConditions
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, Owned
from cep_pipeline.detection.room import room_for
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.patterns.expressions import Element, Expression, Reference
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.blocks import ListBlock
from cep_pipeline.slices.keys import Key, key_of_added, keyed_leaf
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import View, clause_cache_of, leaf_view, without_name

ELEMENTS_AT_ONCE = 1 << 18
"""Room for the elements of the lists of a block."""
STATE_WORDS = 66
"""Words of the kernel's state for each of two stacks: lists of up to 64 elements, and a word more."""
_write_lists = NativeKernel(
    "cep_pipeline.detection.kleene.listing_kernel",
    "write_lists",
    (
        *("int64", "int32*", "uint64*", "int64", "int64*", "int32*", "int32*", "int64", "int64*"),
        *("int64",) * 4,
        *("int32*", "int64*", "int64", "int64", "int64*", "int32*", "int32*"),
    ),
)
_LONG = "cep_pipeline.detection.kleene.long_lists_kernel"
_LANES_OF = ("cep_pipeline.detection.counting.sweep_kernel",)
_OF_CANDIDATES = ("int64", "int32*", "int32*", *("int64",) * 4, "int32*", "int32*", *("int64",) * 3)
_count_roughly = NativeKernel(
    _LONG, "count_lists_roughly", (*_OF_CANDIDATES, *("float64*",) * 2, "int64*", "int64*", "float64*"), _LANES_OF
)
_count_modulo = NativeKernel(
    _LONG, "count_lists_modulo", (*_OF_CANDIDATES, "int64", *("uint64*",) * 2, "int64*", "int64*", "uint64*"), _LANES_OF
)
MOST_LENGTHS = 64
"""Lengths of lists that are counted apart, each with a tree of its own."""
LONG_LISTS = 48
"""Candidates from which on lists are counted by sums in a tree, not by pairs of candidates."""
SPAN_AT_ONCE = 1 << 8
"""First candidates of the partial matches whose candidates are sorted together, at least."""
_EXACT = 2.0**52


@dataclass(frozen=True, eq=False)
class ComparedElements:
    """A comparison of each element of a list with the one before it: `before < value` or `before <= value`.

    Attributes
    ----------
    before, values
        float64: of each candidate, what is compared where it is the earlier and the later one; NaN is unknown.
    comparator
        `<` or `<=`.
    """

    before: Array
    values: Array
    comparator: Comparator

    @classmethod
    def of(cls, test: Test, earlier: int, columns: Sequence[Array]) -> ComparedElements | None:
        """The comparison that a test of two levels makes, of which `earlier` is the element before; None for others."""
        if not isinstance(test.left, Slot) or not isinstance(test.right, Slot):
            return None
        if {test.left.level, test.right.level} != {earlier, earlier + 1}:
            return None
        comparator, before, values = test.comparator, columns[test.left.slot], columns[test.right.slot]
        if test.right.level == earlier:
            comparator, before, values = comparator.mirror, values, before
        if comparator in (Comparator.GT, Comparator.GE):
            comparator, before, values = comparator.mirror, -before, -values
        return cls(before, values, comparator) if comparator in (Comparator.LT, Comparator.LE) else None

    def count(self, variable: Variable, lows: Array, widths: Array, *, anchored: bool) -> int:
        """The number of lists of candidates `lows[m]` to `lows[m] + widths[m]`, of all m together.

        Parameters
        ----------
        variable
            The variable, which says how many elements lists have.
        anchored
            Whether each list begins with the first candidate.
        """
        longest = int(widths.max(initial=0))
        if longest < variable.minimum:
            return 0
        unbounded = variable.maximum is None or variable.maximum >= longest
        lengths = variable.minimum, variable.minimum if unbounded else variable.maximum or 1, int(unbounded)
        order = np.argsort(lows, kind="stable")
        lows, widths = lows[order].astype(np.int32), widths[order].astype(np.int32)
        span = max(SPAN_AT_ONCE, int(widths.max()) // 4)
        total, start = 0, 0
        while start < len(lows):
            go_on()
            stop = int(np.searchsorted(lows, lows[start] + span))
            total += self._count_together(lows[start:stop], widths[start:stop], anchored, lengths)
            start = stop
        return total

    def _count_together(self, lows: Array, widths: Array, anchored: bool, lengths: tuple[int, int, int]) -> int:
        first, end = int(lows[0]), int((lows + widths).max())
        before, later = SortedValues(self.before[first:end]), SortedValues(self.values[first:end])
        ends = np.ascontiguousarray(later.ranges_in(before.known, self.comparator)[:, 1])
        size = len(before.known)
        trees, work = (lengths[1], size + 1, LANES), (3, LANES)
        of_candidates = (
            *(len(lows), lows, widths, int(anchored), first, end - first, size, before.places(), ends),
            *lengths,
        )
        rough, lanes = np.zeros(2), np.empty((2, LANES), np.int64)
        used = np.empty(size + 1, np.int64)
        _count_roughly(*of_candidates, np.empty(trees), np.empty(work), lanes, used, rough)
        if rough[1] < _EXACT:  # and so were all numbers on the way
            return int(rough[0])
        tree, sums, rest = np.empty(trees, np.uint64), np.empty(work, np.uint64), np.zeros(1, np.uint64)

        def remainder(modulus: int) -> int:
            go_on()
            _count_modulo(*of_candidates, modulus % 2**64, tree, sums, lanes, used, rest)
            return int(rest[0])

        bits = np.log2(rough[0]) if np.isfinite(rough[0]) else int(widths.max()) + np.log2(len(lows))
        return number_of(remainder, large_moduli(), float(bits) + 0.1)


def lists_at_once(clause: Clause) -> bool:
    """Return whether the clause has one Kleene variable, with conditions on elements and adjacent elements only."""
    singles = frozenset(variable.name for variable in clause.positive if not variable.kleene)
    if clause.negated or len(singles) != len(clause.positive) - 1:
        return False
    (name,) = (variable.name for variable in clause.positive if variable.kleene)
    conditions = ListConditions.of(clause, name, singles)
    return not conditions.growing and not conditions.whole


@dataclass(frozen=True, eq=False)
class _Searches:
    """The shapes that count and list lists, and what they read, whatever the slice.

    Attributes
    ----------
    compared
        The test that is all that is asked of elements, if it is one of two adjacent ones.
    columns, constants
        By slot, as they are made over a slice, and by number.
    """

    shape: Shape
    listing: Shape
    compared: Test | None
    columns: tuple[RemadeColumn, ...]
    constants: tuple[float, ...]

    def arrays_over(self, events: PreparedEvents, views: Sequence[View]) -> list[Array] | None:
        """The columns over a slice; None where the values of one do not fit there."""
        found = [one.values(events, *(views[level] for level in one.levels)) for one in self.columns]
        arrays = [array for array in found if array is not None]
        return arrays if len(arrays) == len(found) else None


@dataclass(eq=False)
class _AskedOfLists:
    """The tests of the elements of lists behind single variables in one order; they hold for every slice.

    Attributes
    ----------
    filters
        The conditions on one event alone.
    key, tested
        The key by which candidates are sorted, and the conditions on single elements that it does not fulfil.
    bounds, overlapping
        The bounds of candidates, and the levels that may bind the same event.
    made
        The searches of the last slice for which they were compiled.
    """

    filters: tuple[Conjunct, ...]
    key: Key | None
    tested: tuple[Conjunct, ...]
    bounds: tuple[Bound, ...]
    overlapping: tuple[int, ...]
    made: _Searches | None = None


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
    evaluations
        Tests of a conjunct on a candidate, or on a pair of them, before lists were written.
    anchored
        Whether the first element of each list is bound with the single variables, as the last level.
    of_long_lists
        The number of the lists that `counted` has counted by itself, since they may be more than an int64 holds.
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
        (self.variable,) = (variable for variable in clause.positive if variable.kleene)
        self.conditions = ListConditions.of(clause, self.variable.name, frozenset(order))
        self._tested = self.conditions.elements  # those that no key fulfils
        self.anchored = not self._one_window()
        self._run = KernelRun(pattern, *self._prefix(), events, owned, BLOCK_ROWS, as_places=True)
        self.compiled = True
        self.evaluations = self.of_long_lists = 0
        self._compared: ComparedElements | None = None
        levels = self._run.levels
        if levels is not None:
            self._compile(levels)

    def _one_window(self) -> bool:
        """Return whether the candidates of one partial match are all in one window, whatever the data."""
        if self.pattern.window.time_us is None and not before_is_earlier(self.pattern.ties):
            return False  # of one time, events before another one may have later positions
        before = self.clause.precedence
        name = self.variable.name
        return any((single, name) in before or (name, single) in before for single in self.singles)

    def _prefix(self) -> tuple[Clause, tuple[str, ...]]:
        """The variables that are bound before the list, in order."""
        name = self.variable.name
        if not self.anchored:
            return clause_over(self.clause, self.singles), self.singles
        kept = clause_over(self.clause, {*self.singles, name})

        def make() -> Clause:
            own = (*self.conditions.leaf, *self.conditions.elements)
            conjuncts = [conjunct for conjunct in kept.conjuncts if name not in conjunct.variables]
            conjuncts += [_over_elements(conjunct, name, {Element.EACH: name}) for conjunct in own]
            positive = tuple(replace(variable, kleene=False) for variable in kept.positive)
            return replace(kept, positive=positive, conjuncts=tuple(conjuncts))

        key = "first elements", name, self.singles
        return clause_cache_of(self.clause).once(key, make), (*self.singles, name)

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
            if self._compared is not None:
                places = self._without_long_lists(self._compared, places)
            if self._counts_lengths:  # what is left has no candidates, or is in no partition: a list of one
                found = np.zeros(places.shape[1], np.int64)
                if self.anchored and not self.singles and self.variable.minimum == 1:
                    found[self._first_places[places[-1]] < 0] = 1
                yield places, found
                continue
            found = count_lists(self._shape, self._arguments, places)
            if self.anchored and not self.singles:
                found[self._first_places[places[-1]] < 0] = 1  # in no partition: a list of one
            yield places, found

    @property
    def _counts_lengths(self) -> bool:
        return bool(self.variable.limits and self.conditions.adjacent)

    @property
    def counts_all(self) -> bool:
        """True if `counted` knows the numbers of elements that lists have, as far as these are limited."""
        most = self.variable.maximum or self.variable.minimum
        return not self._counts_lengths or (self._compared is not None and most <= MOST_LENGTHS)

    def _without_long_lists(self, compared: ComparedElements, places: Array) -> Array:
        """Count the lists behind partial matches with many candidates; the places of the others."""
        lows, widths = self._ranges(places)
        long = widths > (0 if self.variable.limits else LONG_LISTS)
        if self.anchored and not self.singles:
            long &= self._first_places[places[-1]] >= 0
        if not long.any():
            return places
        self.of_long_lists += compared.count(self.variable, lows[long], widths[long], anchored=self.anchored)
        return places[:, ~long]

    def listed(self) -> Iterator[ListBlock | Array]:
        """Blocks of the matches; and the places of partial matches with so many candidates that it leaves them."""
        if self._run.levels is None:
            return
        views = self._run.levels.views
        for places in self._run.places():
            lows, widths = self._ranges(places)
            self.evaluations += int(widths.sum()) * len(self._tested)
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
        names = [variable.name for variable in self.clause.positive]
        slots = np.array([self.singles.index(name) if name in self.singles else -1 for name in names], np.int64)
        state = np.zeros(3 + 2 * STATE_WORDS, np.int64)
        while state[0] < count:
            go_on()
            out = room_for(max(ELEMENTS_AT_ONCE // width, 1) + 1, np.int64)
            most = ELEMENTS_AT_ONCE + MOST_FOLLOWERS + width
            rows, variables = room_for(most, np.int32), room_for(most, np.int32)
            found = _write_lists(
                count,
                singles,
                words,
                len(words),
                offsets,
                np.ascontiguousarray(lows, np.int32),
                self._candidates,
                len(self._candidates),
                slots,
                width,
                self.variable.minimum,
                self.variable.maximum or MOST_FOLLOWERS + 1,
                int(slots[-1] >= 0),  # so matches come in the page's order: what follows the list is mostly later
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

    def _compile(self, levels: Levels | LaidOutLevels) -> None:
        events, name, last = self.events, self.variable.name, len(levels.views)
        around = levels.around
        reach = around.reach
        known = clause_cache_of(self.clause).once(
            ("lists", self.singles, around.pattern.ties, reach.clock.value, reach.size, reach.partition_by),
            lambda: self._asked(replace(around, clause=self.clause)),
        )
        self._tested = known.tested
        if self.anchored:
            leaf = levels.leaves[-1]
        else:
            leaf = leaf_view(events, self.variable.event_type, known.filters, *events.rows_in(self.owned))
        leaves = {**dict(zip(self._run.order, levels.leaves, strict=True)), name: leaf}
        key = known.key
        alike = leaves if key is None else {other: keyed_leaf(events, key, other, leaves) for other in leaves}
        view = alike[name]
        of_levels = [alike[one] for one in self._run.order]
        lows, highs = ends_by_level(events, known.bounds, levels.views, of_levels, view)
        if self.anchored:
            lows[last - 1] = self._own_places(levels.views[-1], view)
        views = (*levels.views, view, view)
        made = known.made
        arrays = None if made is None else made.arrays_over(events, views)
        if made is None or arrays is None:
            compiled = self._searches(known, views, last, (tuple(lows), tuple(highs)))
            if compiled is None:
                self.compiled = False
                return
            made, arrays = compiled
        if made.compared is not None:
            self._compared = ComparedElements.of(made.compared, last, arrays)
        self._shape, self._listing = made.shape, made.listing
        self._candidates, self._levels_views = view.rows, levels.views
        self._arguments = arguments_over(views, last, lows, highs, arrays, made.constants)

    def _asked(self, around: Surroundings) -> _AskedOfLists:
        clause, name = self.clause, self.variable.name
        filters = (_over_elements(conjunct, name, {Element.EACH: name}) for conjunct in self.conditions.leaf)
        alone = {
            conjunct: _over_elements(conjunct, name, {Element.EACH: name}) for conjunct in self.conditions.elements
        }
        single = [conjunct for conjunct in clause.conjuncts if conjunct.variables.issubset(self.singles)]
        equated = replace(clause, conjuncts=(*single, *alone.values()))
        key = key_of_added(equated, self.singles, name, around.types, of_all=True)
        made_true = () if key is None else key.conjuncts
        return _AskedOfLists(
            tuple(without_name(conjunct, name) for conjunct in filters),
            key,
            tuple(conjunct for conjunct, one in alone.items() if one not in made_true),
            tuple(self._bounds(around)),
            tuple(level for level, single in enumerate(self.singles) if around.overlap(name, single)),
        )

    def _searches(
        self, known: _AskedOfLists, views: Sequence[View], last: int, ends: tuple[tuple[int, ...], tuple[int, ...]]
    ) -> tuple[_Searches, list[Array]] | None:
        """The shapes with the columns that they read, kept for other slices; None where a conjunct is not compiled.

        Parameters
        ----------
        ends
            The levels that give lower and upper bounds.
        """
        events, name, columns = self.events, self.variable.name, TestColumns()
        earlier, later = f"{name}[i-1]", f"{name}[i]"
        names = {single: level for level, single in enumerate(self.singles)}
        of_names = (*views[: len(self.singles)], *views[last:])
        scope = LevelScope(events, {**names, earlier: last, later: last + 1}, of_names, columns)
        tests = [other_event(events, columns, (last, views[last]), (one, views[one])) for one in known.overlapping]
        adjacent = self._compiled(self.conditions.adjacent, {Element.PREVIOUS: earlier, Element.CURRENT: later}, scope)
        elements = self._compiled(known.tested, {Element.EACH: earlier}, scope)
        if adjacent is None or elements is None:
            return None
        compared: Test | None = None
        if len(adjacent) == 1 and not elements and not tests:
            match adjacent[0]:
                case ((test,),):
                    compared = test
        search = RangeResult.LISTS_FROM_FIRST if self.anchored else RangeResult.LISTS
        levels_of_list = (Level(*ends, (*tests, *elements)), Level(tests=tuple(adjacent)))
        behind = levels_of_list if adjacent else levels_of_list[:1]
        again = tuple(one for one in columns.again if one is not None)
        made = _Searches(
            searching_shape(last, behind, columns, search if adjacent else RangeResult.SIZES),
            searching_shape(last, levels_of_list, columns, RangeResult.FOLLOWERS),
            compared,
            again,
            tuple(columns.constants),
        )
        if len(again) == len(columns.again):
            known.made = made
        return made, columns.arrays

    def _bounds(self, around: Surroundings) -> Iterator[Bound]:
        """Order and window between the single variables and an element, and the window behind the first element."""
        order = (*self.singles, self.variable.name)
        if self.singles:
            yield from bounds_of(self.clause, order, len(self.singles), around.pattern.ties, around.reach)
        if self.anchored:
            reach = around.reach
            yield Bound(len(self.singles), False, reach.clock, reach.size + 1, reach.partition_by)

    def _own_places(self, first: View, view: View) -> Array:
        """int32: the place of each possible first element among the candidates; -1 where it is none of them."""
        places = np.full(len(self.events), -1, np.int32)
        places[view.rows] = np.arange(len(view), dtype=np.int32)
        self._first_places: Array = places[first.rows]
        return np.maximum(self._first_places, 0)

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
