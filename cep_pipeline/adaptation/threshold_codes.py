"""What the words are that `threshold_kernel.moved` is called with."""

from __future__ import annotations

NUMBERS, READ, ARE_LN, NOW, BEFORE, THRESHOLD, WORDS = range(7)
"""How many numbers there are; addresses: what was read of each, whether that is its logarithm, the numbers as they are
now and as they were before, and the threshold."""
