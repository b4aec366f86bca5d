"""Numbers that the search kernels and the code that calls them both know."""

from __future__ import annotations

import math

LARGEST_COST = math.exp(340.0)
"""Costs are numbers beside the dearest node that no plan avoids; above this they are not told apart."""
MAX_SWAPS = 6
"""Most joins of a tree with two equal sides that are tried both ways: 2^6 symmetries, as `canonical.MAX_SYMMETRIES`."""
MAX_ITEMS = 11
"""Most items over which a tree is the cheapest one; of more the cheapest two are joined one after another."""
EMPTY_SHARE = 16
"""One of so many neighbours shares nothing new: existing shares are kept or dropped by chance."""
MAX_REDRAWS = 8
"""Most times that a neighbour is drawn again because its members share that subpattern already."""

ADDRESSES = 35
"""Arrays that the search kernel gets."""
# What the kernel does.
START, PROBE, ANNEAL, TABU = range(4)
# Places in `numbers`, the parameters of a search.
(
    TASK,
    AMOUNT,
    COUNT,
    WIDTH,
    WINDOWS,
    TREES,
    GROUPS,
    TOGETHER,
    CAPACITY,
    CHAINS,
    FULL,
    ROOM,
    COOLING,
    NEIGHBOURS,
    TABU_CHAINS,
    TABU_LENGTH,
) = range(16)
NUMBERS = 16
# Places in `registers`, the integers that a search keeps.
RANDOM, STEPS, ACCEPTED, IMPROVED_AT, PLAN_HASH, TABU_COUNT, TABU_NEXT, COUNTED = range(8)
REGISTERS = 8
# Places in `measures`, the costs that it keeps.
COST, BEST, THRESHOLD, LARGEST, FACTOR = range(5)
MEASURES = 5
