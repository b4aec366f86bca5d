"""Findings: what a paper's experiment showed, and whether our figures show it, said by the figures alone."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import correlation

from cep_pipeline.cli.figures import times_as_fast


@dataclass(frozen=True)
class Finding:
    """One claim of the paper beside what was measured.

    Attributes
    ----------
    expected
        The claim, as a clause without a full stop.
    measured
        What our figures are, as a clause.
    holds
        Whether they bear the claim out; None where nothing was measured that could.
    otherwise
        Where ours differs, why: a sentence that is shown only where the claim does not hold.
    """

    expected: str
    measured: str
    holds: bool | None
    otherwise: str = ""

    @property
    def verdict(self) -> str:
        """In two or three words."""
        return {True: "Holds", False: "Does not hold", None: "Not measured"}[self.holds]

    @property
    def text(self) -> str:
        """The finding as a Markdown list item."""
        text = f"- **{self.verdict}**: {self.expected}. Measured: {self.measured}."
        return f"{text} {self.otherwise}" if self.otherwise and self.holds is False else text


def findings_text(findings: Sequence[Finding]) -> str:
    """All findings, after a sentence that counts them.

    Examples
    --------
    >>> print(findings_text([Finding("cost grows", "it grows", True), Finding("cost falls", "it grows", False)]))
    Of 2 findings of the paper, 1 holds here and 1 does not.
    <BLANKLINE>
    - **Holds**: cost grows. Measured: it grows.
    - **Does not hold**: cost falls. Measured: it grows.
    """
    holding = sum(finding.holds is True for finding in findings)
    failing = sum(finding.holds is False for finding in findings)
    missing = len(findings) - holding - failing
    parts = [f"{holding} {'holds' if holding == 1 else 'hold'} here"]
    if failing:
        parts.append(f"{failing} {'does' if failing == 1 else 'do'} not")
    if missing:
        parts.append(f"{missing} {'was' if missing == 1 else 'were'} not measured")
    counted = " and ".join(parts) if len(parts) < 3 else f"{parts[0]}, {parts[1]} and {parts[2]}"
    head = f"Of {len(findings)} findings of the paper, {counted}."
    return "\n".join([head, "", *(finding.text for finding in findings)])


def ratio_range(ratios: Iterable[float]) -> str:
    """The least and the greatest of some ratios.

    Examples
    --------
    >>> ratio_range([12.3, 480.2, 90.0]), ratio_range([2.0])
    ('12.3 to 480', '2.00')
    """
    values = sorted(ratios)
    low, high = times_as_fast(values[0]), times_as_fast(values[-1])
    return low if low == high else f"{low} to {high}"


def log_slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Slope of the line of least squares through the logarithms: 1 for a cost that grows linearly, 2 quadratically.

    Examples
    --------
    >>> round(log_slope([1, 10, 100], [3, 30, 300]), 6), round(log_slope([1, 2, 4], [1, 4, 16]), 6)
    (1.0, 2.0)
    """
    logs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True)]
    middle_x = sum(x for x, _ in logs) / len(logs)
    middle_y = sum(y for _, y in logs) / len(logs)
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / sum((x - middle_x) ** 2 for x, _ in logs)


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Spearman's correlation of ranks: 1 where y always grows with x, -1 where it always falls; equal values share one.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 30], [1, 8, 9]), 6), round(rank_correlation([1, 2, 3], [9, 4, 1]), 6)
    (1.0, -1.0)
    """
    return correlation(_ranks(xs), _ranks(ys)) if len(set(xs)) > 1 and len(set(ys)) > 1 else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value)) / 2 for value in values]


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers.

    Examples
    --------
    >>> round(geometric_mean([1.0, 100.0]), 6)
    10.0
    """
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def explained_by_a_line(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Share of the variance of ys that a straight line of xs explains (r squared).

    Examples
    --------
    >>> explained_by_a_line([1, 2, 5], [10, 12, 18]), round(explained_by_a_line([-1, 0, 1], [1, 0, 1]), 3)
    (1.0, 0.0)
    """
    return correlation(xs, ys) ** 2 if len(set(ys)) > 1 else 1.0
