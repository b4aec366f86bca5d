"""Events that are in no match are removed before anything is enumerated (semi-joins, as Yannakakis reduces them).

An event of one variable is kept only if some event of another variable fits it: lies in its range by order, window and
spans, agrees on the key, and fulfils the comparison of the two. Whether there is one is a search of the range, which
is decided by the greatest and least values of blocks, in time that hardly depends on the window. Of
several comparisons each is asked by itself, and what blocks do not decide is not asked. The pairs of variables are gone
through in the order of the plan, each later one by each earlier one, and back. Where single comparisons form a tree
along the plan, only events of partial matches that can be completed are left; elsewhere some others are left, too,
which the kernel tests as ever.

Filters that follow from conditions on several events (`b.x > 5` of `a.x > 5 AND a.x < b.x`) are asked before, since one
look at each event decides them.

The compiled search of a range reads it up to the first event that passes. Where few pass, that takes as long as the
range is wide. One comparison of a value of the event with one of another event is decided by the least and the
greatest value of a range (`BlockSearch`). They are kept of all blocks of 1, 2, 4, ... events (a sparse table), of which
two make up any range.

Bernstein and Chiu: Using Semi-Joins to Solve Relational Queries. JACM 28, 1981. Yannakakis: Algorithms for Acyclic
Database Schemes. VLDB 1981. Bender and Farach-Colton: The LCA Problem Revisited. LATIN 2000, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, count

import numpy as np

from cep_pipeline.detection.costs import (
    ASKED,
    CANDIDATES_AN_EVENT,
    FEWEST_CANDIDATES,
    FEWEST_COMBINATIONS,
    LOOKED_AT,
    MOST_PAIRS,
    PAIRS_SAMPLED,
    ROUNDS,
    UNEVEN,
    WORTH_AGAIN,
    WORTH_IT,
)
from cep_pipeline.detection.fused.constraints import (
    Bound,
    BoundUnit,
    LevelScope,
    PlannedClause,
    TestColumns,
    arguments_over,
    bounds_of,
    compile_conjunct,
    ends_by_level,
    searching_shape,
    span_bounds,
    tightest,
)
from cep_pipeline.detection.fused.kernel import Arguments, search_places
from cep_pipeline.detection.fused.programs import (
    Level,
    RangeResult,
    Slot,
    Test,
    TestedConjunct,
)
from cep_pipeline.detection.limits import SMALL, available_bytes, go_on
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.patterns.conditions import Comparator, Conjunct
from cep_pipeline.slices.keys import Key, keyed_leaf
from cep_pipeline.slices.routines import padded_copy
from cep_pipeline.slices.views import View

ROWS_AT_ONCE = 1 << 17
"""Partial matches that are searched by blocks in one call, which cannot be interrupted."""
MOST_BYTES = 1 << 28
"""Largest size of what one search notes of events; above it, or where memory is short, ranges are read."""
_COMPARED: Mapping[Comparator, Callable[[Array, Array], Array]] = {
    Comparator.LT: np.less,
    Comparator.LE: np.less_equal,
    Comparator.GT: np.greater,
    Comparator.GE: np.greater_equal,
    Comparator.EQ: np.equal,
    Comparator.NE: lambda left, right: (left < right) | (left > right),  # false where one is NaN
}
_EXTREMES: Mapping[Comparator, tuple[bool, ...]] = {
    Comparator.LT: (True,),
    Comparator.LE: (True,),
    Comparator.GT: (False,),
    Comparator.GE: (False,),
    Comparator.NE: (True, False),
    Comparator.EQ: (),
}
"""For which extremes a comparison with a value holds where it holds for any value of a range: the least is True."""
_numbers = count()


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two levels, the first of them earlier in the plan, and what their events must fulfil together.

    Attributes
    ----------
    bounds
        Of the second level by the first, and of the first by the second; `earlier` is 0.
    """

    levels: tuple[int, int]
    names: tuple[str, str]
    key: Key | None
    conjuncts: tuple[Conjunct, ...]
    bounds: tuple[tuple[Bound, ...], tuple[Bound, ...]]


def reduced_leaves(planned: PlannedClause, leaves: Sequence[View]) -> list[View] | None:
    """The leaves of a run without events that are in no match; None where the search for them does not pay.

    Parameters
    ----------
    leaves
        The events of each level in stream order, none of them empty.
    """
    if math.prod(map(len, leaves)) < FEWEST_COMBINATIONS or _combinations(planned, leaves) < FEWEST_COMBINATIONS:
        return None
    filtered = _filtered(planned, leaves)
    return _semi_joined(planned, filtered or leaves) or filtered


def _combinations(planned: PlannedClause, leaves: Sequence[View]) -> float:
    """The number of combinations of events within window and order, where events do not come in large bursts."""
    events, reach, clause, order = planned.events, planned.reach, planned.clause, planned.order
    span = events.span_us if reach.clock is BoundUnit.TIME else len(events)
    total = UNEVEN * len(leaves[0])
    for level, leaf in enumerate(leaves[1:], 1):
        ordered = any({order[level], one} in map(set, clause.precedence) for one in order[:level])
        total *= len(leaf) * min(1.0, (1 if ordered else 2) * (reach.size + 1) / (span + 1))
    return total


def _filtered(planned: PlannedClause, leaves: Sequence[View]) -> list[View] | None:
    """The leaves with the events that pass the filters which follow from others; None where too few events go."""
    left, share = list(leaves), 1.0
    for conjunct in planned.implied.filters:
        [name] = conjunct.variables
        level = planned.order.index(name)
        held = conjunct_holds(conjunct, planned.events, {name: left[level].rows})
        if held.all():
            continue
        share *= held.mean()
        left[level] = _part(planned, left[level], held)
        if not len(left[level]):
            return left
    return left if share <= WORTH_IT and share < 1 else None


def _semi_joined(planned: PlannedClause, leaves: Sequence[View]) -> list[View] | None:
    """The leaves with the events that fit some event of each other leaf; None where the search does not pay."""
    if not all(map(len, leaves)) or _combinations(planned, leaves) < FEWEST_CANDIDATES:
        return None
    pairs = list(_pairs_of(planned))
    fewest = CANDIDATES_AN_EVENT * 2 * sum(len(leaves[level]) for pair in pairs for level in pair.levels)
    if _combinations(planned, leaves) < fewest or _candidates(planned, pairs, leaves) < max(FEWEST_CANDIDATES, fewest):
        return None
    if _kept_share(planned, pairs, leaves) > WORTH_IT:
        return None
    left = list(leaves)
    for _ in range(ROUNDS):
        before = sum(map(len, left))
        for pair, forward in [*((pair, True) for pair in pairs), *((pair, False) for pair in reversed(pairs))]:
            go_on()
            asking = pair.levels[1 if forward else 0]
            with planned.events.forgetting():
                kept = _fitting(planned, pair, left, forward=forward)
            if not kept.all():
                left[asking] = _part(planned, left[asking], kept)
            if not len(left[asking]):
                return left
        if sum(map(len, left)) > (1 - WORTH_AGAIN) * before:
            break
    return left


def _pairs_of(planned: PlannedClause) -> Iterator[_Pair]:
    clause, order = planned.clause, planned.order
    implied = planned.implied
    spans = [*(span for said in implied.spans.values() for span in said), *implied.narrowed]
    several = len(order) * (len(order) - 1) // 2 > MOST_PAIRS
    for levels in combinations(range(len(order)), 2):
        names = order[levels[0]], order[levels[1]]
        key = next((key for key in planned.keys if set(names) <= set(key.variables)), None)
        conjuncts = tuple(
            conjunct
            for conjunct in (*clause.conjuncts, *implied.comparisons)
            if conjunct.variables == set(names)
            and conjunct not in implied.spans
            and (key is None or conjunct not in key.conjuncts)
        )
        if several and not conjuncts and key is None:
            continue
        bounds = []
        for one, other in (names, names[::-1]):
            found = bounds_of(clause, (one, other), 1, planned.pattern.ties, planned.reach)
            bounds.append(tightest((*found, *span_bounds(spans, (one, other), 1, (0,)))))
        yield _Pair(levels, names, key, conjuncts, (bounds[0], bounds[1]))


def _views(planned: PlannedClause, pair: _Pair, leaves: Sequence[View], *, forward: bool) -> tuple[View, View]:
    """The views of the searched and of the asking level of a pair, by their key where they have one.

    Parameters
    ----------
    forward
        Whether the later level looks for events of the earlier one.
    """
    names, levels = (pair.names, pair.levels) if forward else (pair.names[::-1], pair.levels[::-1])
    if pair.key is None:
        return leaves[levels[0]], leaves[levels[1]]
    views = {name: leaves[planned.order.index(name)] for name in pair.key.variables}
    searched, asking = (keyed_leaf(planned.events, pair.key, name, views) for name in names)
    return searched, asking


def _fitting(
    planned: PlannedClause, pair: _Pair, leaves: Sequence[View], *, forward: bool, which: Array | None = None
) -> Array:
    """bool, for each event of the asking level, or some of them: whether an event of the other level fits it."""
    names = pair.names if forward else pair.names[::-1]
    asking = leaves[pair.levels[1 if forward else 0]]
    view, keyed = _views(planned, pair, leaves, forward=forward)
    [lows], [highs] = (
        ends.values() for ends in ends_by_level(planned.events, pair.bounds[forward], [asking], [keyed], view)
    )
    columns = TestColumns()
    scope = LevelScope(planned.events, {names[1]: 0, names[0]: 1}, (asking, view), columns)
    compiled = [compile_conjunct(conjunct, scope) for conjunct in pair.conjuncts]
    arguments = arguments_over((asking, view), 1, {0: lows}, {0: highs}, columns.arrays, columns.constants)
    searches = {test: BlockSearch.of(test, arguments) for test in compiled if test is not None}
    decided = {test: search for test, search in searches.items() if search is not None}
    places = np.arange(len(asking), dtype=np.int32) if which is None else which
    fits = np.asarray(lows[places] < highs[places])
    if which is not None and decided:  # some are read sooner than blocks are made
        shape = searching_shape(1, [Level((0,), (0,), tuple(decided))], columns, RangeResult.FIRST)
        return search_places(shape, arguments, places[np.newaxis]) >= 0
    for search in decided.values():
        fits[fits] = search.any(places[np.newaxis, fits])
    return fits


def _candidates(planned: PlannedClause, pairs: Sequence[_Pair], leaves: Sequence[View]) -> float:
    """The number of candidates that the kernel would test, as far as pairs of events tell."""
    widths: dict[int, float] = {}
    passing = dict.fromkeys(range(len(leaves)), 1.0)
    for pair in pairs:
        earlier, later = pair.levels
        view, asking = _views(planned, pair, leaves, forward=False)
        lows, highs = ends_by_level(planned.events, pair.bounds[0], [asking], [asking], view)
        looked_at = slice(None, None, max(len(asking) // LOOKED_AT, 1))
        first = lows[0][looked_at]
        wide = np.maximum(highs[0][looked_at].astype(np.int64) - first, 0)
        found = float(wide.sum()) / max(len(wide), 1) * len(asking) / len(leaves[earlier])
        widths[later] = min(widths.get(later, np.inf), found)
        if not pair.conjuncts or not found:
            continue
        drawn = np.random.default_rng(0)
        which = drawn.choice(len(wide), PAIRS_SAMPLED, p=wide / wide.sum())
        places = first[which] + (drawn.random(PAIRS_SAMPLED) * wide[which]).astype(np.int64)
        one = asking.rows[looked_at][which]
        rows = dict(zip(pair.names, (one, view.rows[places]), strict=True))
        held = np.ones(PAIRS_SAMPLED, np.bool_)
        for conjunct in pair.conjuncts:
            held &= conjunct_holds(conjunct, planned.events, rows)
        passing[later] *= (int(held.sum()) + 1) / (PAIRS_SAMPLED + 1)
    total, partial = 0.0, float(len(leaves[0]))
    for level in range(1, len(leaves)):
        partial *= widths.get(level, len(leaves[level]))
        total += partial
        partial *= passing[level]
    return total


def _kept_share(planned: PlannedClause, pairs: Sequence[_Pair], leaves: Sequence[View]) -> float:
    """The share of all combinations of events of which each event fits some event of each other variable."""
    kept = [1.0] * len(leaves)
    drawn = np.random.default_rng(0)
    for pair in pairs:
        for forward in (True, False):
            asking = pair.levels[1 if forward else 0]
            which = np.sort(drawn.integers(len(leaves[asking]), size=ASKED)).astype(np.int32)
            fits = _fitting(planned, pair, leaves, forward=forward, which=which)
            kept[asking] = min(kept[asking], float(fits.mean()))
    return math.prod(kept)


def _part(planned: PlannedClause, leaf: View, kept: Array) -> View:
    """The events of a leaf that are kept."""
    rows = padded_copy(leaf.rows[kept])
    identity = planned.events.number_of(("reduced", next(_numbers)))
    return View(identity, rows, np.array([0, len(rows)], np.int64))


def _ranges(arguments: Arguments, prefix: Array) -> tuple[Array, Array]:
    """int64: where the ranges of partial matches begin and end."""
    lows, highs = (
        [ends.take(prefix[place]) for (_, place), ends in sides.items()] for sides in (arguments.lows, arguments.highs)
    )
    return reduce(np.maximum, lows).astype(np.int64), reduce(np.minimum, highs).astype(np.int64)


class BlockSearch:
    """A search of the last level's ranges by the least and the greatest values of blocks of events.

    Parameters
    ----------
    tests
        As `extreme_tests` has them.
    """

    def __init__(self, tests: Sequence[tuple[Test, Slot, bool]], arguments: Arguments) -> None:
        self._tests, self._arguments = tests, arguments
        size = arguments.sizes[-1]
        self._blocks = {(own, least): [arguments.columns[own.slot][:size]] for _, own, least in tests}

    @classmethod
    def of(cls, conjunct: TestedConjunct, arguments: Arguments) -> BlockSearch | None:
        """The search for an event that passes a conjunct; None where extremes do not decide it, or memory is short."""
        tests, size = extreme_tests(conjunct, len(arguments.sizes) - 1), arguments.sizes[-1]
        if tests is None or not has_room(len(tests) * size * size.bit_length()):
            return None
        return cls(tests, arguments)

    def any(self, prefix: Array) -> Array:
        """bool, shape (n,): whether an event of the range passes, for each row of the prefix."""
        found = np.zeros(prefix.shape[1], np.bool_)
        for begin in range(0, len(found), ROWS_AT_ONCE):
            go_on()
            rows = prefix[:, begin : begin + ROWS_AT_ONCE]
            lows, highs = _ranges(self._arguments, rows)
            powers = np.frexp(np.maximum(highs - lows, 0))[1] - 1  # of the largest block in each range; -1: it is empty
            for power in range(int(powers.max(initial=-1)) + 1):
                asked = np.flatnonzero(powers == power)
                of = rows[:, asked]
                passes = self._passes(power, lows[asked], of)
                passes |= self._passes(power, highs[asked] - (1 << power), of)
                found[begin + asked[passes]] = True
        return found

    def _passes(self, power: int, at: Array, rows: Array) -> Array:
        """Return for each partial match whether an event of the block of 2**power from a place on passes."""
        found = np.zeros(len(at), np.bool_)
        for test, own, least in self._tests:
            extremes = self._extremes(own, power, least=least)[at]
            assert isinstance(test.right, Slot)
            other = self._arguments.columns[test.right.slot][rows[test.right.level]]
            found |= _COMPARED[test.comparator](extremes, other)
        return found

    def _extremes(self, own: Slot, power: int, *, least: bool) -> Array:
        blocks = self._blocks[own, least]
        while len(blocks) <= power:
            half, before = 1 << (len(blocks) - 1), blocks[-1]
            blocks.append((np.fmin if least else np.fmax)(before[:-half], before[half:]))
        return blocks[power]


def has_room(numbers: int) -> bool:
    """Return whether so many numbers of blocks fit in memory."""
    size = numbers * 8
    if size > MOST_BYTES or size <= SMALL:
        return size <= MOST_BYTES
    available = available_bytes()
    return available is None or size <= available / 4


def extreme_tests(conjunct: TestedConjunct, last: int) -> list[tuple[Test, Slot, bool]] | None:
    """The tests that say whether a range holds an event that passes a conjunct: one of them holds for an extreme value.

    Parameters
    ----------
    last
        The level of the event.

    Returns
    -------
    list of tuple, or None
        The test, with the event's column on the left; the column; and whether it holds for the least value of the
        range, or else the greatest. None where extremes do not decide.
    """
    found: list[tuple[Test, Slot, bool]] = []
    for alternative in conjunct:
        tests = _of_extremes(alternative[0], last) if len(alternative) == 1 else []
        if not tests:
            return None
        found += tests
    return found


def _of_extremes(test: Test, last: int) -> list[tuple[Test, Slot, bool]]:
    """One test of a column of the last level and of values of earlier ones, as `extreme_tests` has it."""
    for comparator, own, other in (
        (test.comparator, test.left, test.right),
        (test.comparator.mirror, test.right, test.left),
    ):
        if isinstance(own, Slot) and own.level == last and isinstance(other, Slot) and other.level != last:
            sides = _EXTREMES[comparator]
            return [(Test(comparator, own, other), own, least) for least in sides]
    return []
