"""The numbers of snapshots one beside the other, and their drift: as a factor and in widths of their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cep_pipeline.statistics.sliding_window import Estimate
from cep_pipeline.statistics.snapshot import JointSelectivity, LeafRate, Selectivity, StatisticsSnapshot

ENOUGH_WIDTHS = 1.0
"""A number that has moved by less than the width of its interval may not have moved at all."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The movement of one number between two snapshots.

    Attributes
    ----------
    before, now
        The two estimates.
    """

    before: Estimate
    now: Estimate

    @property
    def factor(self) -> float:
        """The quotient of the number now and before: infinity where it was zero, 1 where it is zero still."""
        if self.before.value > 0:
            return self.now.value / self.before.value
        return math.inf if self.now.value > 0 else 1.0

    @property
    def widths(self) -> float:
        """The distance in widths of the wider of the two intervals; infinity where both numbers are known exactly."""
        moved = abs(self.now.value - self.before.value)
        width = max(self.before.high - self.before.low, self.now.high - self.now.low)
        if moved == 0:
            return 0.0
        return moved / width if width > 0 else math.inf

    @property
    def sure(self) -> bool:
        """True where the number has moved by more than the intervals leave unsure."""
        return self.widths > ENOUGH_WIDTHS

    def __str__(self) -> str:
        """Text for a table.

        Examples
        --------
        >>> str(Drift(Estimate(2, 1.9, 2.1), Estimate(3, 2.8, 3.2)))
        '× 1.5, 2.5 widths'
        >>> str(Drift(Estimate(2, 2, 2), Estimate(0.5, 0.5, 0.5))), str(Drift(Estimate(2, 1, 3), Estimate(2, 1, 3)))
        ('÷ 4', '=')
        >>> str(Drift(Estimate(2, 1, 3), Estimate(2.001, 1, 3)))
        '≈, 0.0005 widths'
        >>> str(Drift(Estimate(0, 0, 0), Estimate(3, 3, 3))), str(Drift(Estimate(3, 2, 4), Estimate(0, 0, 0)))
        ('from 0', 'to 0, 1.5 widths')
        """
        if self.widths == 0:
            return "="
        widths = f", {self.widths:.2g} widths" if math.isfinite(self.widths) else ""
        if self.before.value == 0:
            return f"from 0{widths}"
        if self.now.value == 0:
            return f"to 0{widths}"
        written = f"{max(self.factor, 1 / self.factor):.3g}"
        return f"{'≈' if written == '1' else f'× {written}' if self.factor > 1 else f'÷ {written}'}{widths}"


What = Literal["rate", "selectivity", "joint selectivity"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a snapshot.

    Attributes
    ----------
    what, key
        What it is of: the key of a leaf, of a condition, or of several that are met together.
    estimate
        The number and its interval. Rates are per second.
    rests
        Where it comes from, for a person.
    worst
        The same of the worst window; None where the snapshot is not of several.
    """

    what: What
    key: str
    estimate: Estimate
    rests: str
    worst: float | None = None


def numbers_of(snapshot: StatisticsSnapshot) -> dict[tuple[What, str], Number]:
    """The numbers of a snapshot by what they are and their key, rates first."""
    return {(number.what, number.key): number for number in _numbers(snapshot)}


def drift_between(before: StatisticsSnapshot, now: StatisticsSnapshot) -> dict[tuple[What, str], Drift]:
    """The drift of each number that both snapshots have."""
    earlier, later = numbers_of(before), numbers_of(now)
    return {key: Drift(earlier[key].estimate, later[key].estimate) for key in later if key in earlier}


def _numbers(snapshot: StatisticsSnapshot) -> Iterator[Number]:
    for rate in snapshot.rates:
        yield Number("rate", rate.leaf, _estimate(rate.per_s, rate), _rests_rate(rate), rate.worst_per_s)
    for share in snapshot.selectivities:
        yield Number("selectivity", share.condition, _estimate(share.value, share), _rests_share(share))
    for joint in snapshot.joints:
        together = " and ".join(f"{key} ({', '.join(map(str, over))})" for key, over in joint.members)
        yield Number(
            "joint selectivity",
            together,
            _estimate(joint.value, joint),
            f"{joint.source.value}: {joint.tested:,}; {joint.independent:.3g} if independent",
        )


def _estimate(value: float, of: LeafRate | Selectivity | JointSelectivity) -> Estimate:
    """The number with its interval; one of which nothing is known has none, and so counts as it stands."""
    return Estimate(value, value if of.low is None else of.low, value if of.high is None else of.high)


def _rests_rate(rate: LeafRate) -> str:
    return f"{rate.source.value}: {rate.count:,} events" if rate.count is not None else rate.source.value


def _rests_share(share: Selectivity) -> str:
    if not share.pairs:
        return share.source.value
    tested = f"all {share.pairs:,}" if share.tested == share.pairs else f"{share.tested:,} of {share.pairs:,}"
    return f"{share.source.value}: {tested}"
