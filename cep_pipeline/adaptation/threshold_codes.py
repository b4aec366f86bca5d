"""What the words are that `threshold_kernel.moved` is called with."""

from __future__ import annotations

NUMBERS, ROW_AT, PLACES_AT, PRIORS_AT, ASKED, SHARES, NOW, BEFORE, THRESHOLD, WORDS = range(10)
"""How many numbers there are; addresses: a row with places and priors (`planning.clause_row`), and of each number which
of these it is; how many of the first places are rates, behind which are shares; and the numbers as they are now and as
they were before, and the threshold."""
SMALLEST = 1e-30
"""`statistics.joint.SMALLEST`, which a test compares."""
