"""Numbers that the kernel of the eager NFA and its driver agree on."""

from __future__ import annotations

FINISHED, GO_ON, STATE_FULL, RING_FULL, FOUND_FULL = range(5)
"""Results of the kernel: all is read; drain the matches and call again; grow the array that is full and call again."""

STATE_WORDS = 7
ADDRESS, CAPACITY, COUNT, OLD_COUNT, TOUCHED, LIMIT, STATE_KEY = range(7)
"""Words of a state: its instances' address, how many there is room for, how many there are, how many there were before
the event at place `TOUCHED`, at how many they are looked through for dead ones, and the key that they agree on."""

EDGE_WORDS = 10
SOURCE, TARGET, SLOT, KIND, GROUP, FINAL_GROUP, STORES, FINAL, LATEST, LATEST_END = range(10)
"""Words of an edge: states, slot and kind, the group of conjuncts to test, the group that a match must pass on top,
whether the new instance is kept, whether it is a match, and (with ties to look at) the slots that must be before."""
SINGLE, BEGINS, APPENDS = range(3)
"""Kinds of edges: of a single variable, of the first element of a list, of a further one."""

COUNTS = 3
"""Counts of an edge: candidates, passes, instances created."""
(
    PLACE,
    RELEVANT,
    RELEVANT_COUNT,
    FITS,
    EDGES,
    EDGE_STARTS,
    STATES,
    STRIDE,
    COUNTED,
    PENDING,
    LIVES,
    LIVES_BYTES,
    REPORTED_FROM,
    BUDGET,
    FULL_STATE,
    LATESTS,
    HAS_LISTS,
    KEY,
    PROGRAM,
) = range(19)
"""Words of a call: where reading goes on, the events to read, tables, and from `PROGRAM` on the shared words."""
