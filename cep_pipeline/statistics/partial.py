"""Statistics of one slice of a stream, which add up to those of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cep_pipeline.errors import InputError
from cep_pipeline.statistics.joint import DEPENDENT_FACTOR, check_factor, split_joints
from cep_pipeline.statistics.snapshot import (
    LeafRate,
    Selectivity,
    Source,
    StatisticsSnapshot,
    effective_number,
    span_seconds,
    wilson_interval,
)


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
class PartialStatistics:
    """Counts of one slice: its own events, and the pairs whose later event is its own.

    `a + b` is the statistics of both slices together; the order of adding changes no more than rounding.
    """

    stream: str
    events: int
    start_us: int | None
    end_us: int | None
    leaves: Mapping[str, int]
    conditions: Mapping[str, PairCount]

    def __add__(self, other: PartialStatistics) -> PartialStatistics:
        if other.stream != self.stream:
            raise InputError(
                f"statistics of the streams {self.stream!r} and {other.stream!r} do not add up: make a snapshot of each"
            )
        return PartialStatistics(
            stream=self.stream,
            events=self.events + other.events,
            start_us=min((t for t in (self.start_us, other.start_us) if t is not None), default=None),
            end_us=max((t for t in (self.end_us, other.end_us) if t is not None), default=None),
            leaves={key: self.leaves.get(key, 0) + other.leaves.get(key, 0) for key in {**self.leaves, **other.leaves}},
            conditions={
                key: self.conditions.get(key, PairCount()) + other.conditions.get(key, PairCount())
                for key in {**self.conditions, **other.conditions}
            },
        )


def snapshot_of(
    whole: PartialStatistics, dependent_factor: float = DEPENDENT_FACTOR, **described: Any
) -> StatisticsSnapshot:
    """The snapshot of what was counted; `described` are further fields of it, such as its kind and window.

    Conditions on the same two events that are off from the product of their selectivities by more than
    `dependent_factor` get their joint selectivity.
    """
    check_factor(dependent_factor)
    span_s = span_seconds(whole.start_us, whole.end_us)
    # A scope without pairs says nothing of its condition: the snapshot's reader falls back to the prior.
    selectivities, joints = split_joints(
        (selectivity_of(condition, count) for condition, count in whole.conditions.items() if count.tested),
        dependent_factor,
    )
    return StatisticsSnapshot(
        stream=whole.stream,
        events=whole.events,
        start_us=whole.start_us,
        end_us=whole.end_us,
        rates=tuple(
            LeafRate(leaf, count / span_s, count, Source.COUNT, count / span_s, count / span_s)
            for leaf, count in whole.leaves.items()
        ),
        selectivities=selectivities,
        joints=joints,
        **described,
    )


def selectivity_of(condition: str, count: PairCount) -> Selectivity:
    """The share of pairs that pass, and its interval: a point where all of them were tested."""
    share = count.passing / count.pairs
    if not count.squares:
        return Selectivity(condition, share, count.pairs, count.tested, Source.ALL_PAIRS, share, share)
    low, high = wilson_interval(share, effective_number(count.pairs, share, count.squares, count.passing_squares))
    return Selectivity(condition, share, count.pairs, count.tested, Source.SAMPLED_PAIRS, low, high)
