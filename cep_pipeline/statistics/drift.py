"""Drift: how far numbers of a stream have moved between two snapshots, as a factor and in widths of their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cep_pipeline.statistics.mergeable import Estimate

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
        factor = self.factor
        return f"{f'× {factor:.3g}' if factor >= 1 else f'÷ {1 / factor:.3g}'}{widths}"
