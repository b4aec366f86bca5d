"""The measures of one slice: the rows of its leaves, and for each condition which of the tested tuples pass.

Leaves are shared by all patterns, and so are the tuples of a scope by all its conditions: the cost grows with the
events and with the number of different questions, not with patterns times types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.expressions.lists import holds_over_lists
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.pattern import Pattern, Ties
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.order import StreamOrder
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.joint import JointPairs, joint_pairs
from cep_pipeline.statistics.pairs import FirstSample, PairRanges, draw_pairs, pair_ranges
from cep_pipeline.statistics.partial import PairCount
from cep_pipeline.statistics.terms import (
    FIRST,
    SECOND,
    Leaf,
    OrderCondition,
    PairCondition,
    PairScope,
    TupleCondition,
    TupleScope,
    terms_of,
    tuples_and_orders,
)
from cep_pipeline.statistics.tuples import find_tuples

Array = np.ndarray[Any, Any]
MOST_TUPLES = 8192
"""Tuples that are drawn of a scope, at most: finding and testing one takes longer than a pair."""

Condition = PairCondition | JointPairs | TupleCondition | OrderCondition
"""A condition that is tested on the tuples of a scope."""


@dataclass(frozen=True)
class ScopeKeys:
    """The conditions of one scope: their keys, and which of them are temporal orders."""

    key: str
    conditions: tuple[str, ...]
    orders: frozenset[str]


@dataclass(frozen=True)
class Terms:
    """All that planning some patterns asks of a stream, each question once."""

    leaves: tuple[Leaf, ...]
    scopes: Mapping[PairScope | TupleScope, tuple[Condition, ...]]

    @classmethod
    def of(cls, patterns: Iterable[Pattern]) -> Terms:
        """The leaves and conditions of patterns of one stream; those of the same patterns are found once."""
        patterns = tuple(map(plain_pattern, patterns))
        # By the patterns themselves: those that are equal may differ in what keys say, as 1 and 1.0 do.
        asked = tuple(map(id, patterns))
        found = _known.get(asked)
        if found is None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            found = _known[asked] = patterns, cls._of(patterns)
        return found[1]

    @classmethod
    def _of(cls, patterns: tuple[Pattern, ...]) -> Terms:
        leaves, pairs = terms_of(patterns)
        tuples, orders = tuples_and_orders(patterns)
        scopes: dict[PairScope | TupleScope, list[Condition]] = {}
        conditions: list[Condition] = [*pairs, *joint_pairs(patterns), *tuples, *orders]
        for condition in conditions:
            scopes.setdefault(condition.scope, []).append(condition)
        known = dict.fromkeys(leaves)
        for scope in scopes:
            known.update(dict.fromkeys(leaves_of(scope)))
        return cls(tuple(known), {scope: tuple(asked) for scope, asked in scopes.items()})

    @property
    def keys(self) -> tuple[ScopeKeys, ...]:
        """The keys of what is measured of pairs and tuples, in their order."""
        found = (
            ScopeKeys(
                scope.key,
                tuple(condition.key for condition in asked),
                frozenset(condition.key for condition in asked if isinstance(condition, OrderCondition)),
            )
            for scope, asked in self.scopes.items()
        )
        return tuple(sorted(found, key=lambda scope: scope.key))

    @property
    def without_orders(self) -> Terms:
        """The same without the orders of pairs, by which nothing is planned."""
        left = {
            scope: tuple(one for one in asked if not isinstance(one, OrderCondition))
            for scope, asked in self.scopes.items()
        }
        return Terms(self.leaves, {scope: asked for scope, asked in left.items() if asked})


_MOST_KNOWN = 32
_known: dict[tuple[int, ...], tuple[tuple[Pattern, ...], Terms]] = {}
"""Ids of patterns, which are held so that no others get these ids, -> the patterns and their terms."""


def leaves_of(scope: PairScope | TupleScope) -> tuple[Leaf, ...]:
    """The leaves whose events a scope combines."""
    if isinstance(scope, PairScope):
        return scope.first, scope.second
    return tuple(member.leaf for member in scope.members)


@dataclass(frozen=True)
class Sample:
    """The tested tuples of one scope in one slice.

    Attributes
    ----------
    count
        How many tuples there are, all together; of tuples that are no pairs an estimate where not all are tested.
    last
        Row of each tested tuple's last event, in whatever order.
    weights
        How many tuples each stands for.
    whole
        Whether all tuples are tested.
    holds
        Key of a condition -> which tested tuples pass, bool.
    exact
        Key of a condition -> how many of all tuples pass, where that was counted though not all were tested.
    """

    count: int
    last: Array
    weights: Array
    whole: bool
    holds: Mapping[str, Array]
    exact: Mapping[str, int] = field(default_factory=dict)

    def counted(self, condition: str) -> PairCount:
        """The counts of one condition in the slice."""
        if condition in self.exact:
            return PairCount(self.count, self.count, float(self.exact[condition]))
        holds = self.holds[condition]
        tested = len(self.last)
        if self.whole:
            return PairCount(tested, tested, float(np.count_nonzero(holds)))
        if not tested:
            return PairCount(self.count)
        weights = self.weights * (self.count / float(self.weights.sum()))
        squared = weights * weights
        passing = min(float(weights[holds].sum()), float(self.count))
        return PairCount(self.count, tested, passing, float(squared.sum()), float(squared[holds].sum()))


def rows_of_leaves(leaves: Sequence[Leaf], prepared: PreparedEvents) -> dict[Leaf, Array]:
    """The ascending rows of each leaf's events; a filter that several leaves of a type have is evaluated once."""
    prepared.split(leaf.event_type for leaf in leaves)
    passing: dict[tuple[EventType, Conjunct], Array] = {}
    rows = {}
    for leaf in leaves:
        candidates = prepared.leaf_rows(leaf.event_type)
        holds: Array | None = None
        for conjunct in leaf.filters:
            asked = (leaf.event_type, conjunct)
            if asked not in passing:
                passing[asked] = conjunct_holds(conjunct, prepared, {FIRST: candidates})
            holds = passing[asked] if holds is None else holds & passing[asked]
        rows[leaf] = candidates if holds is None else candidates[holds]
    return rows


def sample_scopes(
    terms: Terms,
    prepared: PreparedEvents,
    rows: Mapping[Leaf, Array],
    owned: tuple[int, int],
    *,
    seed: int,
    max_pairs: int,
    count_orders: bool,
    most_first: int | None = None,
) -> Iterator[tuple[PairScope | TupleScope, Sample]]:
    """Test the conditions of each scope, all on the same tuples.

    Parameters
    ----------
    owned
        Rows `[start, end)`: only tuples whose last event lies there.
    count_orders
        Count the pairs in temporal order exactly, beside those that are tested.
    most_first
        Pairs are estimated by those of so many first events, where there are more; all rows are owned then. None:
        all pairs are counted.
    """
    timestamps = prepared.timestamps
    samples: dict[Leaf, FirstSample] = {}

    def tested(scope: PairScope | TupleScope) -> list[Condition]:
        return [one for one in terms.scopes[scope] if not (count_orders and isinstance(one, OrderCondition))]

    def entropy(asked: Leaf | PairScope | TupleScope) -> np.random.SeedSequence:
        # A seed of its own for each scope and slice: what else is estimated must not change a scope's sample.
        return np.random.SeedSequence([seed & (2**63 - 1), crc32(asked.key.encode()), owned[1] - owned[0]])

    def drawn(scope: PairScope) -> _Drawn:
        if most_first is not None and len(rows[scope.first]) > most_first:
            first = samples.get(scope.first)
            if first is None:
                first = FirstSample(timestamps, rows[scope.first], most_first, entropy(scope.first))
                samples[scope.first] = first
            found = first.ranges(rows[scope.second], window=scope.window, ordered=scope.ordered, ties=scope.ties)
        else:
            found = _ranges(scope, timestamps, rows, owned, ordered=scope.ordered, ties=scope.ties)
        nothing = np.empty(0, np.int64)
        pairs = draw_pairs(found, max_pairs, entropy(scope)) if tested(scope) else (nothing, nothing)
        return _Drawn(found.count, *pairs)

    for scope, asked in terms.scopes.items():
        if isinstance(scope, TupleScope):
            yield scope, _sample_tuples(scope, asked, prepared, rows, owned, entropy(scope), max_pairs)
            continue
        exact = {
            one.key: _ranges(scope, timestamps, rows, owned, ordered=True, ties=one.ties).count
            for one in asked
            if count_orders and isinstance(one, OrderCondition)
        }
        yield scope, _sample_pairs(tested(scope), prepared, drawn(scope), exact)


@dataclass(frozen=True)
class _Drawn:
    """The number of pairs, and the rows of those that are tested."""

    count: int
    first: Array
    second: Array


def _sample_pairs(
    tested: Sequence[Condition], prepared: PreparedEvents, drawn: _Drawn, exact: Mapping[str, int]
) -> Sample:
    count, first, second = drawn.count, drawn.first, drawn.second
    if not tested:
        return Sample(count, first, np.empty(0), False, {}, exact)
    holds = {}
    for condition in tested:
        if isinstance(condition, OrderCondition):
            holds[condition.key] = StreamOrder(prepared.timestamps, condition.ties).holds(first, second)
        elif isinstance(condition, JointPairs):
            holds[condition.key] = condition.holds(prepared, first, second)
        elif isinstance(condition, PairCondition) and len(first):
            holds[condition.key] = conjunct_holds(condition.conjunct, prepared, {FIRST: first, SECOND: second})
        else:
            holds[condition.key] = np.zeros(0, dtype=bool)
    weight = count / len(first) if len(first) else 0.0
    return Sample(count, np.maximum(first, second), np.full(len(first), weight), len(first) == count, holds, exact)


def _ranges(
    scope: PairScope,
    timestamps: Array,
    rows: Mapping[Leaf, Array],
    owned: tuple[int, int],
    *,
    ordered: bool,
    ties: Ties,
) -> PairRanges:
    return pair_ranges(
        timestamps, rows[scope.first], rows[scope.second], window=scope.window, ordered=ordered, ties=ties, owned=owned
    )


def _sample_tuples(
    scope: TupleScope,
    asked: Sequence[Condition],
    prepared: PreparedEvents,
    rows: Mapping[Leaf, Array],
    owned: tuple[int, int],
    entropy: np.random.SeedSequence,
    most: int,
) -> Sample:
    members = [rows[member.leaf] for member in scope.members]
    found = find_tuples(scope, prepared.timestamps, members, owned, min(most, MOST_TUPLES), entropy)
    tested = len(found.last)
    holds = {
        condition.key: holds_over_lists(condition.conjunct, prepared, found.bound, tested)
        for condition in asked
        if isinstance(condition, TupleCondition)
    }
    count = max(round(float(found.weights.sum())), tested)
    return Sample(count, found.last, found.weights, found.whole, holds)
