"""The measures of one slice: the rows of its leaves, and for each condition which of the tested tuples pass.

Leaves are shared by all patterns, and so are the tuples of a scope by all its conditions: the cost grows with the
events and with the number of different questions, not with patterns times types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.expressions.lists import holds_over_lists
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.pattern import Pattern, once_a_set
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.joint import JointPairs, joint_pairs
from cep_pipeline.statistics.terms import (
    FIRST,
    SECOND,
    Leaf,
    PairCondition,
    PairScope,
    TupleCondition,
    TupleScope,
    terms_of,
    tuples_of,
)
from cep_pipeline.statistics.tuples import FirstEvents, draw_pairs, find_tuples

Array = np.ndarray[Any, Any]
MOST_TUPLES = 8192
"""Tuples that are drawn of a scope, at most: finding and testing one takes longer than a pair."""

Condition = PairCondition | JointPairs | TupleCondition
"""A condition that is tested on the tuples of a scope."""


@dataclass(frozen=True)
class Terms:
    """All that planning some patterns asks of a stream, each question once."""

    leaves: tuple[Leaf, ...]
    scopes: Mapping[PairScope | TupleScope, tuple[Condition, ...]]

    @classmethod
    def of(cls, patterns: Iterable[Pattern]) -> Terms:
        """The leaves and conditions of patterns of one stream; those of the same patterns are found once."""
        return _terms_of([*map(plain_pattern, patterns)])

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """The keys of what is measured of pairs and tuples: of each scope those of its conditions, sorted."""
        found = {scope.key: tuple(condition.key for condition in asked) for scope, asked in self.scopes.items()}
        return dict(sorted(found.items()))


@once_a_set
def _terms_of(patterns: list[Pattern]) -> Terms:
    leaves, pairs = terms_of(patterns)
    scopes: dict[PairScope | TupleScope, list[Condition]] = {}
    conditions: list[Condition] = [*pairs, *joint_pairs(patterns), *tuples_of(patterns)]
    for condition in conditions:
        scopes.setdefault(condition.scope, []).append(condition)
    known = dict.fromkeys(leaves)
    for scope in scopes:
        known.update(dict.fromkeys(leaves_of(scope)))
    return Terms(tuple(known), {scope: tuple(asked) for scope, asked in scopes.items()})


def leaves_of(scope: PairScope | TupleScope) -> tuple[Leaf, ...]:
    """The leaves whose events a scope combines."""
    if isinstance(scope, PairScope):
        return scope.first, scope.second
    return tuple(member.leaf for member in scope.members)


@dataclass(frozen=True, slots=True)
class PairCount:
    """Pairs of a scope and how many pass a condition.

    Attributes
    ----------
    pairs
        The exact number of pairs.
    tested
        How many of them were tested.
    passing
        The (estimated) number of all `pairs` that pass: exact, and whole, where all were tested.
    squares, passing_squares
        Of the pairs that were drawn, and of those of them that pass, the sum of the squares of how many pairs each
        stands for; 0 where all were tested. They add up over slices and days and give the variance of the estimate.
    """

    pairs: int = 0
    tested: int = 0
    passing: float = 0.0
    squares: float = 0.0
    passing_squares: float = 0.0

    def __add__(self, other: PairCount) -> PairCount:
        pairs = self.pairs + other.pairs
        return PairCount(
            pairs,
            self.tested + other.tested,
            min(self.passing + other.passing, float(pairs)),
            self.squares + other.squares,
            self.passing_squares + other.passing_squares,
        )


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
    """

    count: int
    last: Array
    weights: Array
    whole: bool
    holds: Mapping[str, Array]

    def counted(self, condition: str) -> PairCount:
        """The counts of one condition in the slice."""
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
    most_first: int | None = None,
) -> Iterator[tuple[PairScope | TupleScope, Sample]]:
    """Test the conditions of each scope, all on the same tuples.

    Parameters
    ----------
    owned
        Rows `[start, end)`: only tuples whose last event lies there.
    most_first
        Pairs are estimated by those of so many first events, where there are more. None: all pairs are counted.
    """
    timestamps = prepared.timestamps
    first_events: dict[Leaf, FirstEvents] = {}

    def entropy(asked: Leaf | PairScope | TupleScope) -> np.random.SeedSequence:
        # A seed of its own for each scope and slice: what else is estimated must not change a scope's sample.
        return np.random.SeedSequence([seed & (2**63 - 1), crc32(asked.key.encode()), owned[1] - owned[0]])

    for scope, asked in terms.scopes.items():
        if isinstance(scope, TupleScope):
            members = [rows[member.leaf] for member in scope.members]
            found = find_tuples(scope, timestamps, members, owned, min(max_pairs, MOST_TUPLES), entropy(scope))
            tested = len(found.last)
            holds = {
                one.key: holds_over_lists(one.conjunct, prepared, found.bound, tested)
                for one in asked
                if isinstance(one, TupleCondition)
            }
            count = max(round(float(found.weights.sum())), tested)
            yield scope, Sample(count, found.last, found.weights, found.whole, holds)
            continue
        if scope.first not in first_events:
            drawn_by = None if most_first is None else entropy(scope.first)
            first_events[scope.first] = FirstEvents(timestamps, rows[scope.first], owned, most_first, drawn_by)
        ranges = first_events[scope.first].ranges(
            rows[scope.second], window=scope.window, ordered=scope.ordered, ties=scope.ties
        )
        first, second = draw_pairs(ranges, max_pairs, entropy(scope))
        holds = {}
        for one in asked:  # those of several conditions come behind the conditions themselves
            holds[one.key] = (
                one.holds(prepared, first, second, holds)
                if isinstance(one, JointPairs)
                else conjunct_holds(one.conjunct, prepared, {FIRST: first, SECOND: second})
            )
        weights = np.full(len(first), ranges.count / max(len(first), 1))
        yield scope, Sample(ranges.count, np.maximum(first, second), weights, len(first) == ranges.count, holds)
