"""How sure an estimated share is: score intervals of samples, also of weighted ones."""

from __future__ import annotations

import math
from statistics import NormalDist

from cep_pipeline.statistics.snapshot import CONFIDENCE


def wilson_interval(share: float, tested: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The score interval of a share that was seen among independent trials (Wilson 1927).

    Unlike the interval of the normal approximation it is right, or nearly so, for few trials and for shares next to
    0 and 1, where it does not shrink to a point.

    Parameters
    ----------
    share
        Passes among the trials, in [0, 1].
    tested
        Number of trials, above 0; of weighted ones the effective number.

    Examples
    --------
    >>> tuple(round(end, 4) for end in wilson_interval(0.0, 100)), tuple(round(e, 4) for e in wilson_interval(0.5, 100))
    ((0.0, 0.037), (0.4038, 0.5962))
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    shrunk = z * z / tested
    middle = (share + shrunk / 2) / (1 + shrunk)
    half = z * math.sqrt(share * (1 - share) / tested + shrunk / (4 * tested)) / (1 + shrunk)
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def effective_number(total: float, share: float, squares: float, passing_squares: float) -> float:
    """The number of independent trials of equal weight that tell a share as surely as the weighted ones do.

    Parameters
    ----------
    total, share
        What the trials stand for all together, and the share of it that passes.
    squares, passing_squares
        Sums of the squares of the weights, of all trials that are a sample and of those of them that pass.

    Notes
    -----
    The lesser of Kish's number, which takes all trials to be alike, and of what the spread of the weighted outcomes
    themselves says, which is less where trials of large weight differ more than the others.
    """
    number = total * total / squares
    spread = passing_squares * (1 - 2 * share) + share * share * squares
    if spread > 0 and 0 < share < 1:
        number = min(number, share * (1 - share) * total * total / spread)
    return number
