"""Numbers that the tree's kernel and its driver agree on."""

from __future__ import annotations

FINISHED, GO_ON, FOUND_FULL, STORE_FULL, CELLS_FULL, WAITING_FULL = range(6)
"""Why the kernel returns: all steps are done, it has worked a while, or there is no room for what an event makes."""
TESTS_A_CALL = 1 << 27
"""Conjuncts tested before a call returns, so that a run can be interrupted."""

EXPIRES, LAST, KEY, OLDER, SLOTS = range(5)
"""int32 words of a stored instance: the step at which its window has ended, its newest row, its key, the older instance
of that key, and from `SLOTS` on its slots."""
DUE, LAST_ROW, NEXT, WAITING_SLOTS = range(4)
"""int32 words of a waiting match: the step at which it is final, the row of its last event, the next match of
that step (or the next free place), and from `WAITING_SLOTS` on its slots."""
CANDIDATES, PASSES, CREATED, COUNTS = range(4)
"""Counts of a node, and how many there are."""
STEP, WAITING, FREE, USED, MADE, SHORT_OF, ALIVE, PROGRESS = range(8)
"""How far the kernel is: the step, the matches that wait, the first free place among them, places ever used, matches
that the current event made wait, the store that is full, and instances alive; and how many such words there are."""
AT_ONCE, AT_INSTANT, AT_WINDOW_END = range(3)
"""When a match is final, in the order of `Finality`."""
