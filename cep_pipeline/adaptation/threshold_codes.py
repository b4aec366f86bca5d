"""The argument words of `threshold_kernel.moved`."""

from __future__ import annotations

NUMBERS, ROW_AT, PLACES_AT, PRIORS_AT, ASKED, SHARES, NOW, BEFORE, THRESHOLD, WORDS = range(10)
"""The number of numbers; addresses of a row with its places and priors (`ClauseRow`), and of the place of each number
among these; the number of rates, behind which are shares; addresses of the numbers as they are now and as they were
before, and of the threshold."""
SMALLEST = 1e-30
"""`statistics.joint.SMALLEST`, which a test compares."""
