"""The constraints between the levels of a plan: index ranges by order and window, and conjuncts as tests of columns.

Order and window bound the candidates of a level by the events of earlier levels. A bound is left out where other bounds
imply it; what is left becomes int32 arrays, made by merging sorted columns, so that the kernel compares no timestamp.

A comparison of an expression over one event with one over another becomes a test of two columns. Arithmetic over
several events is compiled where float64 computes it exactly as the language does. What cannot be compiled stays a
residual conjunct, which `evaluate.py` decides on the partial matches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np

from cep_pipeline.detection.fused.kernel import Arguments
from cep_pipeline.detection.fused.programs import (
    Alternative,
    Constant,
    Level,
    Operation,
    RangeResult,
    Shape,
    Slot,
    Term,
    Test,
    TestedConjunct,
)
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.comparison import EXACT_IN_FLOAT
from cep_pipeline.expressions.evaluate import atom_holds, expression_values
from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Conjunct,
    Like,
    Membership,
    NullTest,
    Truth,
    expressions_of,
)
from cep_pipeline.patterns.expressions import (
    Arithmetic,
    Call,
    Element,
    Expression,
    Negative,
    Reference,
    ValueType,
    variables_of,
)
from cep_pipeline.patterns.implications import Implications
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Ties, Window
from cep_pipeline.patterns.rewriting import TimeSpan
from cep_pipeline.planning.costs import in_test_order
from cep_pipeline.slices.keys import Key, as_floats, comparable, is_exact, keys_of, largest
from cep_pipeline.slices.order import before_is_earlier, may_be_one, order_bound, positions_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import count_before, gather, padded, padded_copy
from cep_pipeline.slices.views import (
    ANY_EVENT,
    CLOCK_LIMIT,
    View,
    clause_cache_of,
    implied_by,
    row_values_of,
    rows_below,
    times_are_plain,
    times_of,
    without_name,
)


class BoundUnit(Enum):
    """The unit in which a bound compares: rows of the slice, microseconds, or positions in the stream or partition."""

    ROW = "row"
    TIME = "time"
    POSITION = "position"


@dataclass(frozen=True, slots=True)
class Reach:
    """The window: how far apart the clocks of a match's first and last event may be, inclusive.

    Attributes
    ----------
    clock
        `TIME` for a time window, `POSITION` for a count window.
    size
        In units of the clock, so small that adding it to a clock does not overflow.
    partition_by
        Attributes whose values tell the partitions that a count window counts positions in.
    """

    clock: BoundUnit
    size: int
    partition_by: tuple[str, ...] = ()


def reach_of(window: Window, clause: Clause) -> Reach:
    """The reach of a window, however wide it is."""
    if window.time_us is not None:
        return Reach(BoundUnit.TIME, window.time_us)
    assert window.events is not None
    return Reach(BoundUnit.POSITION, window.events - 1, clause.partition_by)


@dataclass(frozen=True, eq=False)
class PlannedClause:
    """A clause, its variables in plan order, and the slice that it runs over.

    Attributes
    ----------
    first_owned
        A match must have an event in this row or after it. None: the views see to that.
    """

    pattern: Pattern
    clause: Clause
    order: tuple[str, ...]
    events: PreparedEvents
    first_owned: int | None = None

    @cached_property
    def reach(self) -> Reach:
        """The window; no wider than the slice needs it to be, where a sum with it could overflow."""
        window = self.pattern.window
        found = reach_of(window, self.clause)
        if max(window.time_us or 0, window.events or 0) < CLOCK_LIMIT:
            return found
        most = self.events.span_us if window.events is None else len(self.events)
        return replace(found, size=min(found.size, most))

    @cached_property
    def types(self) -> dict[str, ValueType]:
        """The type of each attribute."""
        return {**dict(self.pattern.attributes), "timestamp": ValueType.INT64, "seq": ValueType.INT64}

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the clause."""
        return clause_cache_of(self.clause).once("keys", lambda: keys_of(self.clause, self.types))

    @property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """The conjuncts of the clause in the order in which they are tested, put in order once."""
        own = self.clause
        return clause_cache_of(own).once("test order", lambda: in_test_order(own.conjuncts, across=True))

    @cached_property
    def implied(self) -> Implications:
        """The facts that follow from the clause's conditions; none about times where those could overflow."""
        found = implied_by(self.clause, self.pattern.window, self.pattern.ties)
        return found if self.plain else Implications({}, comparisons=found.comparisons)

    @cached_property
    def plain(self) -> bool:
        """True if sums of times and windows do not overflow."""
        return times_are_plain(self.events)

    def overlap(self, name: str, other: str) -> bool:
        """Return whether one event can have the types of both variables, and the place of either in the order."""
        of = self.clause.by_name
        return may_be_one(self.pattern, self.clause, of[name], of[other])


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower or upper bound of a level's candidates by the event of an earlier level.

    The bound lies where the candidates' clock reaches the earlier event's clock plus `delta`: candidates at or after
    it for `low`, before it otherwise.
    """

    earlier: int
    low: bool
    clock: BoundUnit
    delta: int
    partition_by: tuple[str, ...] = ()


def bounds_of(
    clause: Clause, order: Sequence[str], level: int, ties: Ties, reach: Reach, members: Sequence[int] | None = None
) -> tuple[Bound, ...]:
    """The bounds of a level that no others imply.

    Parameters
    ----------
    order
        Names by level; that of a negated variable may follow those of the plan.
    members
        The earlier levels that may give bounds; all of them if None.

    Notes
    -----
    The window limits a negated variable on a side only where no positive one is ordered on that side (docs/language.md,
    section 3.5).
    """
    earlier = range(level) if members is None else members
    return (
        *_side(clause, order, level, ties, reach, earlier, low=True),
        *_side(clause, order, level, ties, reach, earlier, low=False),
    )


def _side(
    clause: Clause, order: Sequence[str], level: int, ties: Ties, reach: Reach, earlier: Sequence[int], *, low: bool
) -> Iterator[Bound]:
    def before(first: int, second: int) -> bool:
        """Return whether `first` is ordered before `second`, in reversed time for upper bounds."""
        pair = (first, second) if low else (second, first)
        return (order[pair[0]], order[pair[1]]) in clause.precedence

    def nearest_of(levels: Sequence[int]) -> list[int]:
        """The levels that are ordered before none of these; in a sequence the first one that is asked says so."""
        asked = levels[::-1] if low else levels
        return [one for one in levels if not any(before(one, nearer) for nearer in asked)]

    # Under TIES ANY events of one time may be ordered against their positions.
    loose = reach.clock is BoundUnit.POSITION and not before_is_earlier(ties)
    ordered = [other for other in earlier if before(other, level)]
    if ordered:
        # The nearest ones suffice; and whatever is after one of them lies in the window on this side.
        nearest = nearest_of(ordered)
        by_rows, delta = order_bound(ties, after=low)
        for other in nearest:
            yield Bound(other, low, BoundUnit.ROW if by_rows else BoundUnit.TIME, delta)
    if not ordered or (loose and not clause.by_name[order[level]].negated):
        # Of two events that are ordered, the window reaches less far from the nearer one.
        nearest = list(earlier) if loose else nearest_of(earlier)
        delta = -reach.size if low else reach.size + 1
        for other in nearest:
            yield Bound(other, low, reach.clock, delta, reach.partition_by)


def span_bounds(spans: Iterable[TimeSpan], order: Sequence[str], level: int, members: Sequence[int]) -> Iterator[Bound]:
    """The bounds of a level by what is said of its timestamp and those of earlier levels.

    Parameters
    ----------
    members
        The earlier levels that may give bounds.
    """
    places = {order[member]: member for member in members}
    for span in spans:
        if span.second == order[level] and span.first in places:
            yield Bound(places[span.first], False, BoundUnit.TIME, span.most_us + 1)
        if span.first == order[level] and span.second in places:
            yield Bound(places[span.second], True, BoundUnit.TIME, -span.most_us)


def tightest(bounds: Iterable[Bound]) -> tuple[Bound, ...]:
    """The bounds without those that another one by the same event implies."""
    found: dict[tuple[int, bool, BoundUnit], Bound] = {}
    for bound in bounds:
        key = bound.earlier, bound.low, bound.clock
        known = found.get(key)
        if known is None or (bound.delta > known.delta if bound.low else bound.delta < known.delta):
            found[key] = bound
    for (earlier, low, clock), bound in list(found.items()):
        if clock is BoundUnit.TIME and (bound.delta > 0 if low else bound.delta <= 0):
            found.pop((earlier, low, BoundUnit.ROW), None)  # rows are sorted by time
    return tuple(found.values())


def range_ends(events: PreparedEvents, bound: Bound, view: View, keyed: View, candidates: View) -> Array:
    """The place of the bound in the candidates' view, for each event of the earlier level.

    Parameters
    ----------
    view
        The earlier level's view.
    keyed
        The earlier level's leaf sorted like `candidates`: by the same key, or in stream order.

    Returns
    -------
    Array
        int32, one for each row of `view`. A row without a key gets 0, which as upper bound leaves no range: nothing
        agrees with it.
    """
    what = (bound.clock.value, bound.partition_by, bound.delta)

    def merge() -> Array:
        if keyed.identity == candidates.identity and bound.clock is BoundUnit.ROW and bound.delta in (0, 1):
            return events.numbers(bound.delta, len(keyed) + bound.delta)  # each row is there, once
        points, values = (clock_values(events, of, bound.clock, bound.partition_by) for of in (keyed, candidates))
        return count_before(points, keyed.starts, values, candidates.starts, bound.delta)

    ends = events.derive(("ends", what, keyed.identity, candidates.identity), merge)
    if keyed.identity == view.identity:
        return ends
    key = ("ends", what, keyed.identity, candidates.identity, view.identity)
    return events.derive(key, lambda: sorted_like(view, keyed, ends))


def sorted_like(view: View, keyed: View, ends: Array) -> Array:
    """The ends of ranges by the events of a leaf, given as one view has them, as another view does; 0 without a key."""
    if keyed.places is not None:
        spread = np.zeros(len(keyed.in_stream_order), np.int32)
        spread[keyed.places] = ends
        ends = spread
    return ends if view.places is None else ends[view.places]


def ends_by_level(
    events: PreparedEvents,
    bounds: Iterable[Bound],
    views: Sequence[View] | Mapping[int, View],
    keyed: Sequence[View] | Mapping[int, View],
    candidates: View,
) -> tuple[dict[int, Array], dict[int, Array]]:
    """The tightest lower and upper ends by each earlier level, as `range_ends` has them; views are given by level."""
    lows: dict[int, Array] = {}
    highs: dict[int, Array] = {}
    for bound in bounds:
        level = bound.earlier
        ends = range_ends(events, bound, views[level], keyed[level], candidates)
        found, tighter = (lows, np.maximum) if bound.low else (highs, np.minimum)
        found[level] = tighter(found[level], ends) if level in found else ends
    return lows, highs


def clock_values(events: PreparedEvents, view: View, clock: BoundUnit, partition_by: tuple[str, ...]) -> Array:
    """The values that a bound compares, one for each row of a view: int32 for rows, else int64; padded."""
    match clock:
        case BoundUnit.ROW:
            return view.rows
        case BoundUnit.TIME:
            return times_of(events, view)
        case BoundUnit.POSITION:
            return positions_of(events, view, partition_by)


def edge_rows(events: PreparedEvents, bound: Bound, view: View) -> Array:
    """The bound as a row of the slice, for each event of the earlier level: candidates are at it or behind, or before.

    It compares events that no key sorts alike. The positions of a bound are those of the stream.

    Returns
    -------
    Array
        float64, padded.
    """
    if bound.clock is BoundUnit.TIME:  # rows are sorted by time
        below = rows_below(events, view, bound.delta)
        key = ("rows below as floats", view.identity, bound.delta)
        return events.derive(key, lambda: padded_copy(below, np.float64))
    values = padded_copy(row_values_of(events, view))
    values += bound.delta
    return values


def edge_slot(events: PreparedEvents, bound: Bound, view: View, columns: TestColumns, level: int) -> Slot:
    """The column of `edge_rows`, in a shape where the earlier event's level is `level`."""
    return columns.slot(level, ("edge", bound.clock, bound.delta), edge_rows(events, bound, view))


def edge_test(
    events: PreparedEvents, bound: Bound, columns: TestColumns, level: int, views: Sequence[View]
) -> TestedConjunct:
    """The test of a level's rows by a bound; there are no partitions here, which a key would join."""
    edge = edge_slot(events, bound, views[bound.earlier], columns, bound.earlier)
    own = row_slot(events, views[level], columns, level)
    return ((Test(Comparator.GE if bound.low else Comparator.LT, own, edge),),)


def row_slot(events: PreparedEvents, view: View, columns: TestColumns, level: int) -> Slot:
    """The column of a level's rows."""
    return columns.slot(level, "row", row_values_of(events, view))


def other_event(
    events: PreparedEvents, columns: TestColumns, one: tuple[int, View], other: tuple[int, View]
) -> TestedConjunct:
    """The test that two levels bind different events; each is given with its view."""
    slots = [row_slot(events, view, columns, level) for level, view in (one, other)]
    return ((Test(Comparator.NE, *slots),),)


@dataclass
class TestColumns:
    """The float64 columns and constants that the tests of one plan read, by the numbers that the shape gives them."""

    arrays: list[Array] = field(default_factory=list)
    constants: list[float] = field(default_factory=list)
    _slots: dict[Hashable, Slot] = field(default_factory=dict)

    def slot(self, level: int, key: Hashable, values: Array) -> Slot:
        """The slot of a column of this level's view; equal keys of one level share it."""
        place = (level, key)
        if place not in self._slots:
            self._slots[place] = Slot(level, len(self.arrays))
            self.arrays.append(values)
        return self._slots[place]

    def constant(self, value: float) -> Constant:
        self.constants.append(value)
        return Constant(len(self.constants) - 1)


def arguments_over(
    views: Sequence[View],
    level: int,
    lows: Mapping[int, Array],
    highs: Mapping[int, Array],
    columns: Sequence[Array],
    constants: Sequence[float],
) -> Arguments:
    """The data of a shape of which one level has bounds, by level that gives them."""
    return Arguments(
        sizes=tuple(map(len, views)),
        rows=tuple(view.rows for view in views),
        lows={(level, earlier): array for earlier, array in lows.items()},
        highs={(level, earlier): array for earlier, array in highs.items()},
        columns=tuple(columns),
        constants=tuple(constants),
    )


def searching_shape(
    prefix: int, behind: Sequence[Level], columns: TestColumns, search: RangeResult | None = None
) -> Shape:
    """The shape of levels behind a prefix of others, which test the columns, or of a search by them."""
    return Shape(
        levels=(*[Level()] * prefix, *behind),
        prefix=prefix,
        slots=len(columns.arrays),
        constants=len(columns.constants),
        owned=False,
        as_rows=False,
        search=search,
    )


@dataclass(frozen=True)
class LevelScope:
    """The views that names stand for: the plan levels of one clause.

    Attributes
    ----------
    levels
        The level that binds each variable; one level may bind several.
    views
        The events of each variable, in the order of `levels`; those of one level's variables lie beside each other.
    """

    events: PreparedEvents
    levels: Mapping[str, int]
    views: tuple[View, ...]
    columns: TestColumns

    def view(self, variable: str) -> View:
        return self._views[variable]

    @cached_property
    def _views(self) -> dict[str, View]:
        return dict(zip(self.levels, self.views, strict=False))  # a level more than is named is not asked for

    def evaluated(self, own: Expression, variable: str) -> Column:
        """The value of an expression over `ANY_EVENT` alone, for each row of a variable's view."""
        return _evaluated(self.events, self.view(variable), own)


GATHERED_BYTES = 8
"""Size of the values that `gather` takes by rows."""


def _evaluated(events: PreparedEvents, view: View, own: Expression) -> Column:
    def make() -> Column:
        if isinstance(own, Reference):
            column = events.column(own.attribute)
            if column.valid is None and column.offsets is None and column.values.dtype.itemsize == GATHERED_BYTES:
                return Column(column.type, gather(column.values, view.rows))
        return expression_values(own, events, {ANY_EVENT: view.rows})

    return events.derive(("values", view.identity, _key_of(own)), make)


def _truth_values(events: PreparedEvents, view: View, own: Atom) -> Array:
    """1 for each event at which a condition on it alone is true, NaN for the others."""

    def make() -> Array:
        values = padded(len(view), np.float64)
        values[:] = np.where(atom_holds(own, events, {ANY_EVENT: view.rows}), 1.0, np.nan)
        return values

    return events.derive(("truth", view.identity, own), make)


def _key_of(own: Expression) -> Hashable:
    """A key of an expression over one event; the name of an attribute is quick to hash."""
    return own.attribute if isinstance(own, Reference) and own.element is Element.ONLY else own


def compile_conjunct(conjunct: Conjunct, scope: LevelScope) -> TestedConjunct | None:
    """The tests of a conjunct over at least two variables; None where it must be evaluated on partial matches.

    An alternative that always holds makes the result an empty conjunct.
    """
    alternatives: list[Alternative] = []
    for atom in conjunct.atoms:
        compiled = _compile_atom(atom, scope)
        if compiled is None:
            return None
        alternatives.extend(compiled)
    return tuple(alternatives)


def _compile_atom(atom: Atom, scope: LevelScope) -> tuple[Alternative, ...] | None:
    variables = frozenset(name for expression in expressions_of(atom) for name in variables_of(expression))
    if len(variables) <= 1:
        # One event decides it (or none: then any event will do).
        variable = next(iter(variables), next(iter(scope.levels)))
        return ((_truth(atom, variable, scope),),)
    match atom:
        case Membership() | NullTest() | Like() | Truth():
            return None
        case Comparison(comparator, left, right):
            test = _compile_comparison(comparator, left, right, scope)
            return None if test is None else ((test,),)
        case Between(expression, low, high, negated):
            ends = (Comparator.LT, Comparator.GT) if negated else (Comparator.GE, Comparator.LE)
            below = _compile_comparison(ends[0], expression, low, scope)
            above = _compile_comparison(ends[1], expression, high, scope)
            if below is None or above is None:
                return None
            return ((below,), (above,)) if negated else ((below, above),)


def _truth(atom: Atom, variable: str, scope: LevelScope) -> Test:
    """A test of a column that is 1 where the atom is true, and NaN elsewhere."""
    view, level = scope.view(variable), scope.levels[variable]
    own = without_name(atom, variable)
    slot = scope.columns.slot(level, ("truth", view.identity, own), _truth_values(scope.events, view, own))
    return Test(Comparator.EQ, slot, slot)


def _compile_comparison(comparator: Comparator, left: Expression, right: Expression, scope: LevelScope) -> Test | None:
    sides = (left, right)
    owners = [variables_of(side) for side in sides]
    if all(len(owner) == 1 for owner in owners) and owners[0] != owners[1]:
        (one,), (other,) = owners
        return Test(comparator, *_compare_columns(sides, (one, other), scope))
    if not all(side.type.is_number for side in sides):
        return _compare_with_one(comparator, left, right, scope)
    first, second = (_compile_number(side, scope) for side in sides)
    return None if first is None or second is None else Test(comparator, first.term, second.term)


def _compare_with_one(comparator: Comparator, left: Expression, right: Expression, scope: LevelScope) -> Test | None:
    """A part of a BETWEEN of strings over several events that mentions one event only."""
    variables = variables_of(left) | variables_of(right)
    if len(variables) > 1:
        return None
    return _truth(Comparison(comparator, left, right), next(iter(variables), next(iter(scope.levels))), scope)


def _compare_columns(
    sides: tuple[Expression, Expression], owners: tuple[str, str], scope: LevelScope
) -> tuple[Slot, Slot]:
    own = [without_name(side, owner) for side, owner in zip(sides, owners, strict=True)]
    columns = [scope.evaluated(side, owner) for side, owner in zip(own, owners, strict=True)]
    views = [scope.view(owner) for owner in owners]
    if all(map(is_exact, columns)):
        one, other = (_exact_slot(*side, scope) for side in zip(own, owners, columns, strict=True))
        return one, other
    key = ("joint", *((view.identity, _key_of(side)) for view, side in zip(views, own, strict=True)))
    values = scope.events.derive(key, lambda: comparable(columns))
    one, other = (
        scope.columns.slot(scope.levels[owner], (*key, side), values[side]) for side, owner in enumerate(owners)
    )
    return one, other


def _exact_slot(own: Expression, variable: str, column: Column, scope: LevelScope) -> Slot:
    key = ("floats", scope.view(variable).identity, _key_of(own))
    return scope.columns.slot(scope.levels[variable], key, scope.events.derive(key, lambda: as_floats(column)))


@dataclass(frozen=True)
class _Number:
    """A term and what is known of its values: for int64 the largest magnitude, which float64 holds exactly."""

    term: Term
    integer: bool
    magnitude: int = 0


def _compile_number(expression: Expression, scope: LevelScope) -> _Number | None:
    """A numeric expression as arithmetic on columns; None where float64 would not compute just what the language says.

    int64 results are exact in float64 while no intermediate one exceeds 2^53, and then overflow is out of reach, too.
    """
    variables = variables_of(expression)
    if len(variables) == 1:
        (variable,) = variables
        own = without_name(expression, variable)
        column = scope.evaluated(own, variable)
        if not is_exact(column):
            return None
        if column.type is not ValueType.INT64:
            return _Number(_exact_slot(own, variable, column, scope), integer=False)
        return _Number(_exact_slot(own, variable, column, scope), True, largest(column))
    if not variables:
        column = expression_values(expression, scope.events, {ANY_EVENT: np.zeros(1, np.int32)})
        if not is_exact(column):
            return None
        known = column.valid is None or bool(column.valid[0])
        value = float(column.values[0]) if known else float("nan")
        integer = column.type is ValueType.INT64
        return _Number(scope.columns.constant(value), integer, largest(column) if integer else 0)
    match expression:
        case Negative(operand):
            inner = _compile_number(operand, scope)
            return inner and _Number(Operation("negative", (inner.term,)), inner.integer, inner.magnitude)
        case Call("abs" | "sqrt" as function, (operand,)):
            inner = _compile_number(operand, scope)
            integer = inner is not None and inner.integer and function == "abs"
            return inner and _Number(Operation(function, (inner.term,)), integer, inner.magnitude if integer else 0)
        case Arithmetic("+" | "-" | "*" | "/" as operator, left, right):
            one, other = (_compile_number(side, scope) for side in (left, right))
            if one is None or other is None:
                return None
            term = Operation(operator, (one.term, other.term))
            if operator == "/" or not (one.integer and other.integer):
                return _Number(term, integer=False)
            magnitude = one.magnitude * other.magnitude if operator == "*" else one.magnitude + other.magnitude
            return _Number(term, True, magnitude) if magnitude <= EXACT_IN_FLOAT else None
        case _:
            return None
