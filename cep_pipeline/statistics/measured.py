"""The numbers of a snapshot: rates and selectivities, each with its interval and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """The origin of a number: counted, sampled, observed, combined or assumed."""

    COUNT = "count"
    """Every event was counted."""
    ALL_PAIRS = "all pairs"
    """Every pair of the scope was tested."""
    SAMPLED_PAIRS = "sampled pairs"
    """A stratified sample of the pairs, or the tuples, of the scope was tested."""
    WINDOW = "window"
    """A histogram of a sliding window: low and high are the bounds of its error."""
    OBSERVED = "observed"
    """Detection itself counted candidates and passes."""
    COMBINED = "combined"
    """A sample and what detection observed, weighed by how sure each is."""
    PRIOR = "prior"
    """Nothing was measured: a constant by the condition's form."""
    GIVEN = "given"
    """Set by the caller."""


@dataclass(frozen=True, slots=True)
class LeafRate:
    """Arrival rate of a leaf.

    Attributes
    ----------
    leaf
        Key of the leaf (`statistics.terms.Leaf.key`).
    per_s
        Events a second: over the span of the data, over the window, or the mean over the windows of a day.
    count
        The number of events that it rests on, or None where the rate is given. Where a histogram estimates it, the
        number next to the estimate.
    low, high
        What the rate lies between: both `per_s` where every event was counted, the error bound of a histogram; None
        where nothing is known of it.
    worst_per_s
        Of a business day, the highest rate in any of its windows; else None.
    """

    leaf: str
    per_s: float
    count: int | None = None
    source: Source = Source.GIVEN
    low: float | None = None
    high: float | None = None
    worst_per_s: float | None = None

    def __post_init__(self) -> None:
        for number in (self.per_s, self.worst_per_s, self.low, self.high):
            if number is not None and not (math.isfinite(number) and number >= 0):
                raise ValueError(f"a rate is finite and not negative; {self.leaf!r} has {number}")
        if self.count is not None and self.count < 0:
            raise ValueError(f"a count is not negative; {self.leaf!r} has {self.count}")
        _check_interval(self.leaf, self.per_s, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Share of the pairs (or the larger tuples) of a scope that pass a condition.

    Attributes
    ----------
    condition
        Key of the condition (`statistics.terms.Condition.key`), or its text where it has no key.
    value
        In [0, 1].
    pairs, tested
        The number of pairs in the scope, and how many of them were tested. Of larger tuples `pairs` is an estimate.
    low, high
        The interval that has the true share with the snapshot's confidence; both `value` where every pair was tested.
        None where nothing is known: priors, and numbers that are given.
    """

    condition: str
    value: float
    pairs: int = 0
    tested: int = 0
    source: Source = Source.GIVEN
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError(f"a selectivity lies in [0, 1]; {self.condition!r} has {self.value}")
        if not 0 <= self.tested <= self.pairs:
            raise ValueError(f"{self.condition!r}: {self.tested} pairs tested of {self.pairs}")
        _check_interval(self.condition, self.value, self.low, self.high, most=1.0)


@dataclass(frozen=True, slots=True)
class JointSelectivity:
    """Share of tuples that pass several conditions at once, where it is not the product of their selectivities.

    Attributes
    ----------
    conditions
        Keys of the conditions, sorted, at least two. A key stands twice where two conditions ask the same of other
        variables.
    over
        For each condition the variables that it is over, numbered among those of all in pattern order.
    value, low, high
        The share, and the interval that has it with the snapshot's confidence.
    tested
        How many tuples it rests on.
    independent
        The product of the selectivities, which it replaces.
    """

    conditions: tuple[str, ...]
    value: float
    low: float
    high: float
    tested: int
    independent: float
    over: tuple[tuple[int, ...], ...]
    source: Source = Source.OBSERVED

    def __post_init__(self) -> None:
        members = tuple(zip(self.conditions, self.over, strict=True))
        if len(members) < 2 or tuple(sorted(set(members))) != members:
            raise ValueError(f"a joint selectivity is of two or more conditions in order, not {members}")
        if not (0 <= self.value <= 1 and 0 <= self.independent <= 1):
            raise ValueError(f"a selectivity lies in [0, 1]; {self.conditions} have {self.value}")
        if self.tested < 0:
            raise ValueError(f"a count is not negative; {self.conditions} have {self.tested}")
        _check_interval(" and ".join(self.conditions), self.value, self.low, self.high, most=1.0)

    @property
    def members(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The conditions, each with its variables: what the number is of."""
        return tuple(zip(self.conditions, self.over, strict=True))


def _check_interval(what: str, value: float, low: float | None, high: float | None, most: float = math.inf) -> None:
    if (low is None) != (high is None):
        raise ValueError(f"{what!r} has both ends of its interval or none")
    if low is not None and high is not None and not 0 <= low <= value <= high <= most:
        raise ValueError(f"{what!r}: {value} lies outside its interval from {low} to {high}")
