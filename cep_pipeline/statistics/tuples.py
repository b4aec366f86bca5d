"""The pairs and the tuples of a scope: combinations of events and of lists of events inside one window.

Pairs are counted exactly by index ranges, and drawn for a test of conditions. A pair belongs to the slice that has its
later event, so that slices with look-back count each pair of a stream once. Tuples are all looked at, or a sample.

A list is drawn as the language makes them: of the events that fit, each is in it or not. Where a window holds more than
`LONGEST_LIST` of them, a run of so many that follow one another stands for all, so that sampled lists stay short enough
to be tested; a selectivity over lists is thus that of lists of moderate length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cep_pipeline.expressions.lists import Bound, Lists, ranges
from cep_pipeline.patterns.pattern import Ties, Window
from cep_pipeline.slices.order import StreamOrder, order_bound
from cep_pipeline.statistics.terms import TupleScope, member_name

Array = np.ndarray[Any, Any]
LONGEST_US = 2**61
"""Windows are cut to this, so that a timestamp plus a window is an int64."""


@dataclass(frozen=True, slots=True)
class PairRanges:
    """Ranges of indices, one a first event, into the second events with which it makes pairs.

    Attributes
    ----------
    first, second
        Ascending: rows of the events of the two leaves.
    ends
        int64, shape of `first`: how many there are in the ranges up to that of each, its own included.
    high
        int64, shape of `first`: where the range of each ends.
    itself
        int64: indices into `first` of events whose range holds the same event, which is no pair.
    each
        How many first events each of them stands for: 1, but where they are a sample.
    """

    first: Array
    second: Array
    ends: Array
    high: Array
    itself: Array
    each: float = 1.0

    @property
    def found(self) -> int:
        """The number of pairs of these first events."""
        return (int(self.ends[-1]) if len(self.ends) else 0) - len(self.itself)

    @property
    def count(self) -> int:
        """The number of pairs of the scope: exact, or an estimate where the first events are a sample."""
        return round(self.found * self.each)


class FirstEvents:
    """The first events of pairs: those of a leaf, or a sample, one of each of `most` equal parts of them.

    Pairs are looked up by binary search. The search through the whole stream takes longest, so that all scopes of the
    same leaf and window share it.

    Parameters
    ----------
    timestamps
        int64, ascending, shape (events,): microseconds.
    first
        Ascending rows of the leaf's events.
    owned
        Rows `[start, end)`: only pairs whose later event lies there. None: all rows.
    most, seed
        At most so many first events, and what decides which; None: all.
    """

    def __init__(
        self,
        timestamps: Array,
        first: Array,
        owned: tuple[int, int] | None = None,
        most: int | None = None,
        seed: np.random.SeedSequence | None = None,
    ) -> None:
        self._timestamps = timestamps
        self._start, self._end = (0, len(timestamps)) if owned is None else owned
        first = first[: np.searchsorted(first, self._end)]
        self._each = 1.0
        if most is not None and len(first) > most:
            self._each = len(first) / most
            places = ((np.arange(most) + np.random.default_rng(seed).random(most)) * self._each).astype(np.int64)
            first = first[np.minimum(places, len(first) - 1)]
        self._rows = first.astype(np.int64)
        self._times = timestamps[self._rows]
        self._rows_at: dict[tuple[int, str], Array] = {}

    def ranges(self, second: Array, *, window: Window, ordered: bool, ties: Ties = Ties.ARRIVAL) -> PairRanges:
        """The pairs with second events, given by their ascending rows.

        Parameters
        ----------
        window
            The pattern's window; a count window counts rows.
        ordered
            Whether the first event must come before the second, by `ties`.
        """
        by_rows, distance = order_bound(ties, after=True)
        if ordered and by_rows:
            low = self._rows + distance
        elif window.time_us is None:
            low = np.maximum(self._rows - (window.events or 1) + 1, 0)
            low = np.maximum(low, self._row_at(distance, "left")) if ordered else low
        else:
            low = self._row_at(distance if ordered else -min(window.time_us, LONGEST_US), "left")
        if window.time_us is None:
            behind = self._rows + (window.events or 1)
        else:
            behind = self._row_at(min(window.time_us, LONGEST_US), "right")
        if self._start:
            low = np.where(self._rows < self._start, np.maximum(low, self._start), low)
        begin, end = (_places(second, bound) for bound in (low, np.minimum(behind, self._end)))
        end = np.maximum(begin, end)
        itself = np.empty(0, np.int64)
        if not (ordered and by_rows and distance > 0):
            own = _places(second, self._rows)
            same = (begin <= own) & (own < end)
            same[same] = second[own[same]] == self._rows[same]
            itself = np.flatnonzero(same)
        return PairRanges(self._rows, second, np.cumsum(end - begin), end, itself, self._each)

    def _row_at(self, after_us: int, side: Literal["left", "right"]) -> Array:
        """The row of the first event so long after each event or later ("right": later)."""
        if (after_us, side) not in self._rows_at:
            self._rows_at[after_us, side] = np.searchsorted(self._timestamps, self._times + after_us, side)
        return self._rows_at[after_us, side]


def _places(second: Array, rows: Array) -> Array:
    """The place of rows among second events; rows of the events' own type, else NumPy copies all events."""
    return np.searchsorted(second, rows.astype(second.dtype))


def draw_pairs(ranges: PairRanges, most: int, seed: np.random.SeedSequence) -> tuple[Array, Array]:
    """Rows of the pairs to test: all of them where there are at most `most`, else a stratified sample of `most`.

    The pairs, in the order of their first and then their second event, are cut into `most` equal strata, and one is
    drawn from each: unbiased, and spread over the whole span of the data.
    """
    ends = ranges.ends
    total = int(ends[-1]) if len(ends) else 0
    if ranges.found <= most:
        index = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        picks = np.arange(total)
    else:
        random = np.random.default_rng(seed)
        picks = ((np.arange(most) + random.random(most)) * (total / most)).astype(np.int64)
        picks = np.minimum(picks, total - 1)
        index = np.searchsorted(ends, picks, "right")
    second = ranges.second[ranges.high[index] - (ends[index] - picks)].astype(np.int64)
    first = ranges.first[index].astype(np.int64)
    if not len(ranges.itself):
        return first, second
    distinct = first != second
    return first[distinct], second[distinct]


LONGEST_LIST = 12
"""Events that a list is drawn from, at most."""
_MOST_BITS = 62
"""Events of which there are too many lists to look at them all, whatever else there is."""
MOST_ALL = 65_536
"""The most tuples of a slice that are all tested."""


@dataclass(frozen=True)
class Tuples:
    """Tuples of a scope whose last event is owned.

    Attributes
    ----------
    bound
        Member name -> row, or list of rows.
    last
        int64, shape (n,): row of the last event.
    weights
        float64, shape (n,): how many tuples each stands for, 1 where they are all.
    whole
        Whether they are all tuples that there are.
    """

    bound: Bound
    last: Array
    weights: Array
    whole: bool


def find_tuples(
    scope: TupleScope,
    timestamps: Array,
    rows: Sequence[Array],
    owned: tuple[int, int],
    most: int,
    seed: np.random.SeedSequence,
) -> Tuples:
    """All tuples of a scope where there are few, else a sample of at most `most`, spread over the first member.

    Parameters
    ----------
    timestamps
        int64, ascending: microseconds.
    rows
        For each member of the scope the ascending rows of its leaf.
    owned
        Rows `[start, end)`: only tuples whose last event lies there.
    """
    rows = [found[: np.searchsorted(found, owned[1])].astype(np.int64) for found in rows]
    found = _Search(scope, timestamps, rows, None, most).run(owned)
    if found is None:
        found = _Search(scope, timestamps, rows, np.random.default_rng(seed), most).run(owned)
        assert found is not None
    return found


class _Search:
    """Binds the members one after the other, each inside what the earlier ones leave of window and order."""

    def __init__(
        self, scope: TupleScope, timestamps: Array, rows: Sequence[Array], random: np.random.Generator | None, most: int
    ) -> None:
        self.scope, self.rows, self.random = scope, rows, random
        self.limit = MOST_ALL if random is None else most
        self.times = [timestamps[of] for of in rows]
        self.order = StreamOrder(timestamps, scope.ties)
        by_time = scope.window.time_us is not None
        self.keys = self.times if by_time else rows
        self.key_of = (lambda row: timestamps[row]) if by_time else (lambda row: row)
        size = scope.window.time_us if scope.window.time_us is not None else (scope.window.events or 1) - 1
        self.reach = min(size, LONGEST_US)
        self.bound: dict[int, Array | Lists] = {}
        self.first, self.last = np.empty(0, np.int64), np.empty(0, np.int64)
        self.weights = np.empty(0)

    def run(self, owned: tuple[int, int]) -> Tuples | None:
        """The tuples whose last event is owned; None where there are too many to look at them all."""
        members = self.scope.members
        order = [place for place, member in enumerate(members) if not member.kleene]
        lists = [place for place, member in enumerate(members) if member.kleene]
        anchor = (order or lists)[0]
        others = (place for place in (*order, *lists) if place != anchor)
        if not (self._anchor(anchor) and all(map(self._add, others)) and (order or self._prolong(anchor))):
            return None
        bound = {member_name(place): of for place, of in sorted(self.bound.items())}
        # A list may reach beyond the window on both of an event's sides.
        inside = self.key_of(self.last) - self.key_of(self.first) <= self.reach
        own = (self.last >= owned[0]) & (self.last < owned[1])
        keep = np.flatnonzero(own & inside & _distinct(bound, len(self.last)))
        kept = {name: of.take(keep) if isinstance(of, Lists) else of[keep] for name, of in bound.items()}
        return Tuples(kept, self.last[keep], self.weights[keep], self.random is None)

    def _anchor(self, place: int) -> bool:
        pool = len(self.rows[place])
        if self.random is None:
            if pool > self.limit:
                return False
            picks, self.weights = np.arange(pool), np.ones(pool)
        else:
            picks = ((np.arange(self.limit) + self.random.random(self.limit)) * (pool / self.limit)).astype(np.int64)
            self.weights = np.full(self.limit, pool / self.limit)
        chosen = self.rows[place][np.minimum(picks, pool - 1)]
        self.bound[place] = chosen
        self.first = self.last = chosen
        return True

    def _range(self, place: int) -> tuple[Array, Array]:
        """Places in the leaf's rows that fit what is bound: `[low, high)`."""
        keys, rows = self.keys[place], self.rows[place]
        low = np.searchsorted(keys, self.key_of(self.last) - self.reach, "left")
        high = np.searchsorted(keys, self.key_of(self.first) + self.reach, "right")
        for one, other in self.scope.precedence:
            if other == place and one in self.bound:
                after = self.order.rows_after(_lasts(self.bound[one]))
                low = np.maximum(low, np.searchsorted(rows, after, "left"))
            elif one == place and other in self.bound:
                ahead = self.order.rows_ahead(_firsts(self.bound[other]))
                high = np.minimum(high, np.searchsorted(rows, ahead, "left"))
        return low, np.maximum(low, high)

    def _add(self, place: int) -> bool:
        """Bind one more member to an event of its leaf, or to a list of them."""
        rows, lists = self.rows[place], self.scope.members[place].kleene
        low, high = self._range(place)
        low, size = self._run_of(low, high - low) if lists else (low, high - low)
        chosen = self._choose((np.int64(1) << size) - 1 if lists else size, weighed=not lists)
        if chosen is None:
            return False
        again, number = chosen
        self._keep(again)
        of = _subsets(rows, low[again], size[again], number + 1) if lists else rows[low[again] + number]
        self.bound[place] = of
        self.first, self.last = np.minimum(self.first, _firsts(of)), np.maximum(self.last, _lasts(of))
        return True

    def _prolong(self, place: int) -> bool:
        """Make lists of the anchor: it, and some of the later events of its leaf."""
        rows, head = self.rows[place], self.bound[place]
        assert not isinstance(head, Lists)
        low = np.searchsorted(rows, head, "left")
        high = np.searchsorted(self.keys[place], self.key_of(self.first) + self.reach, "right")
        for one, other in self.scope.precedence:  # what comes after the list, and was bound to come after its head
            if one == place and other in self.bound:
                high = np.minimum(high, self._range(place)[1])
        size = np.clip(high - low, 1, _MOST_BITS if self.random is None else LONGEST_LIST)
        chosen = self._choose(np.int64(1) << (size - 1), weighed=False)
        if chosen is None:
            return False
        again, number = chosen
        self._keep(again)
        self.bound[place] = lists = _subsets(rows, low[again], size[again], 2 * number + 1)
        self.last = np.maximum(self.last, lists.lasts())
        return True

    def _run_of(self, low: Array, size: Array) -> tuple[Array, Array]:
        """Cut ranges with too many candidates for a list down to a run of neighbours."""
        if self.random is None:
            return low, np.minimum(size, _MOST_BITS)
        spare = np.maximum(size - LONGEST_LIST, 0)
        return low + (self.random.random(len(size)) * (spare + 1)).astype(np.int64), size - spare

    def _choose(self, counts: Array, weighed: bool = True) -> tuple[Array, Array] | None:
        """Choose the bindings that go on and their candidates: all of them, or one of each at random."""
        if self.random is None:
            if counts.sum(dtype=np.float64) > self.limit:
                return None
            again = np.repeat(np.arange(len(counts)), counts)
            return again, ranges(np.zeros(len(counts), np.int64), counts)
        again = np.flatnonzero(counts > 0)
        if weighed:
            self.weights = self.weights * counts
        left = counts[again]
        return again, np.minimum((self.random.random(len(again)) * left).astype(np.int64), left - 1)

    def _keep(self, again: Array) -> None:
        self.weights, self.first, self.last = self.weights[again], self.first[again], self.last[again]
        for place, of in self.bound.items():
            self.bound[place] = of.take(again) if isinstance(of, Lists) else of[again]


def _subsets(rows: Array, low: Array, size: Array, bits: Array) -> Lists:
    """The lists of the rows from `low` on whose bits are set."""
    width = int(size.max()) if len(size) else 0
    chosen = (bits[:, np.newaxis] >> np.arange(width)) & 1 == 1
    of, offset = np.nonzero(chosen)
    lengths = chosen.sum(axis=1, dtype=np.int64)
    return Lists(np.cumsum(lengths) - lengths, lengths, rows[low[of] + offset])


def _firsts(of: Array | Lists) -> Array:
    return of.firsts() if isinstance(of, Lists) else of


def _lasts(of: Array | Lists) -> Array:
    return of.lasts() if isinstance(of, Lists) else of


def _distinct(bound: Bound, count: int) -> Array:
    """True where no event stands twice in a tuple."""

    def members() -> Iterator[tuple[Array, Array]]:
        for of in bound.values():
            if isinstance(of, Lists):
                yield np.repeat(np.arange(count), of.lengths), of.flat()
            else:
                yield np.arange(count), of

    if len(bound) == 1:
        return np.ones(count, dtype=bool)
    binding, row = (np.concatenate(parts) for parts in zip(*members(), strict=True))
    order = np.lexsort((row, binding))
    binding, row = binding[order], row[order]
    distinct = np.ones(count, dtype=bool)
    distinct[binding[1:][(binding[1:] == binding[:-1]) & (row[1:] == row[:-1])]] = False
    return distinct
