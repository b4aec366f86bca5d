"""The minimal distance d of invariants: by how much f1 must exceed f2 before planning again is worth it.

Four ways to find it (acep-invariants patent, section "Distance-Based Invariants"): fixed; by trying some values, the
best of which is then fixed (`loop.scan_distance`); the average relative difference of the first invariants; and from
what replanning has brought so far, for all invariants together or for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cep_pipeline.errors import InputError

if TYPE_CHECKING:  # a configuration is checked without what invariants are made of
    from cep_pipeline.adaptation.invariants import Invariant
    from cep_pipeline.planning.orderings import DecidingComparison
    from cep_pipeline.planning.plans import Plan

SCANNED_DISTANCES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
"""The distances that the patent's experiments try: 0 to 0.5."""
WORTHWHILE_GAIN = 0.05
"""A replanning that gained less was not worth it: the distance grows."""
LARGEST_DISTANCE = 0.5
"""The distance does not grow beyond."""
SMALLEST_STEP = 0.01
"""The least step by which a distance grows, so that it leaves 0."""


@dataclass(frozen=True)
class Distances:
    """The minimal distances of a plan's invariants at one time.

    Attributes
    ----------
    everywhere
        That of the invariants without one of their own.
    own
        Those of single invariants, by `Invariant.key`.
    """

    everywhere: float = 0.0
    own: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for distance in (self.everywhere, *self.own.values()):
            if not 0 <= distance < math.inf:
                raise InputError(f"a minimal distance is a finite number, 0 or more, not {distance}")

    def of(self, invariants: Iterable[Invariant]) -> Mapping[str, float] | float:
        """The distances in the form that `InvariantCheck.checked` takes."""
        if not self.own:
            return self.everywhere
        return {one.key: self.own.get(one.key, self.everywhere) for one in invariants}

    def to_json(self) -> dict[str, Any]:
        """The distances as JSON values."""
        from cep_pipeline.documents import in_json

        return dict(in_json(self))

    @classmethod
    def from_json(cls, content: Mapping[str, Any], source: str = "distances") -> Distances:
        """Read what `to_json` wrote; InputError, which names the source, where it is something else."""
        from cep_pipeline.documents import read_as

        found: Distances = read_as(cls, content, "no distances of invariants", source, "plan the patterns again")
        return found


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same distance for all invariants at all times."""

    distance: float = 0.0

    def begin(self, plan: Plan) -> Distances:
        """The distances of the first plan."""
        return Distances(self.distance)

    def after_replanning(self, distances: Distances, violated: Iterable[Invariant], gain: float) -> Distances:
        """The distances to go on with after violated invariants led to a plan that gained this share of the cost."""
        return distances


@dataclass(frozen=True, slots=True)
class AverageRelativeDifference:
    """The average relative difference of the first plan's invariants, kept for all plans after it.

    Of each block the tightest comparison counts, whatever K is: over all comparisons the mean would be ruled by those
    that were never close, of which a skewed stream has some that differ by many orders of magnitude. For the same
    reason the distance is `LARGEST_DISTANCE` at most.
    """

    def begin(self, plan: Plan) -> Distances:
        from cep_pipeline.planning.orderings import tightest_of_blocks

        clauses = [clause for pattern in plan.patterns for clause in pattern.clauses]
        tightest = (one for clause in clauses for one in tightest_of_blocks(clause.comparisons))
        return Distances(min(average_relative_difference(tightest), LARGEST_DISTANCE))

    def after_replanning(self, distances: Distances, violated: Iterable[Invariant], gain: float) -> Distances:
        return distances


@dataclass(frozen=True, slots=True)
class MetaAdaptive:
    """The distance follows what replanning brings: min(2 d + 0.01, 0.5) where that was less than 5 %, else d / 2.

    Attributes
    ----------
    first
        The rule that the first distances come from.
    per_invariant
        Whether only the distances of the violated invariants change, each its own; they go with the question that an
        invariant decides, whichever of its two sides a plan chose.
    """

    first: DistanceRule = field(default_factory=Fixed)
    per_invariant: bool = False

    def begin(self, plan: Plan) -> Distances:
        distances = self.first.begin(plan)
        return replace(distances, everywhere=min(distances.everywhere, LARGEST_DISTANCE))

    def after_replanning(self, distances: Distances, violated: Iterable[Invariant], gain: float) -> Distances:
        if not self.per_invariant:
            return replace(distances, everywhere=adapted(distances.everywhere, gain))
        own = dict(distances.own)
        for invariant in violated:
            own[invariant.key] = adapted(own.get(invariant.key, distances.everywhere), gain)
        return replace(distances, own=own)


def adapted(distance: float, gain: float) -> float:
    """The distance after a replanning that saved this share of the cost.

    Examples
    --------
    >>> adapted(0.1, gain=0.04), adapted(0.4, gain=-1.0), adapted(0.1, gain=0.05)
    (0.21000000000000002, 0.5, 0.05)
    """
    if gain < WORTHWHILE_GAIN:
        return min(2 * distance + SMALLEST_STEP, LARGEST_DISTANCE)
    return distance / 2


def average_relative_difference(comparisons: Iterable[DecidingComparison]) -> float:
    """The mean of |f2 - f1| / min(f1, f2) over deciding conditions, as the plan's statistics had them; of none, 0."""
    found = [math.expm1(min(abs(one.ln_rejected - one.ln_chosen), 600.0)) for one in comparisons]
    return math.fsum(found) / len(found) if found else 0.0


DistanceRule = Fixed | AverageRelativeDifference | MetaAdaptive
"""The rule that sets the minimal distances."""
DISTANCES: dict[str, DistanceRule] = {
    "average_relative_difference": AverageRelativeDifference(),
    "meta_adaptive": MetaAdaptive(),
    "meta_adaptive_per_invariant": MetaAdaptive(per_invariant=True),
}
"""The rules by name; a number stands for a fixed distance."""


def distance_rule(setting: str | float) -> DistanceRule:
    """The rule that a configuration names: a number is a fixed distance.

    Raises
    ------
    InputError
        There is no rule of this name, or the number is none of a distance.
    """
    if isinstance(setting, str):
        if setting not in DISTANCES:
            raise InputError(f"there is no distance {setting!r}; there are: a number, {', '.join(DISTANCES)}")
        return DISTANCES[setting]
    Distances(setting)
    return Fixed(setting)
