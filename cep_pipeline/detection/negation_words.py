"""Numbers that the search for negated structures and its kernel agree on."""

from __future__ import annotations

(
    QUERIES,
    QUERY,
    DEPTH,
    BUDGET,
    LEVELS,
    LEVEL_TABLE,
    SHARES,
    LOWS,
    HIGHS,
    ENOUGH,
    FOUND,
    POSITIVE,
    ROWS,
    BEGINS,
    NEEDED,
    KLEENE,
    SLOTS,
    ALL_SLOTS,
    STACK,
    STACK_ROOM,
    ONSET,
    REACH,
    RELATIONS,
    HIGH,
    PROGRAM,
) = range(25)
"""Places in the words of a search: counts, addresses of arrays, and where it has got to; the last is a program's."""

NOT_BEGUN = -1
"""The depth of a query that has not begun."""

(
    SLOT,
    IS_LIST,
    LEAST,
    MOST,
    FIRST_GROUP,
    ELEMENT_GROUP,
    LEFT_GROUP,
    LIMIT_GROUP,
    LEVEL_ROWS,
    GROUP_STARTS,
    CODES,
    KEY_SLOT,
    SHARES_BEGIN,
    SHARES_END,
    ONCE,
    LEVEL_WORDS,
) = range(16)
"""Words of a level: the variable that it binds, its conditions, its candidates, and whether the first ones decide.

`ONCE`: no other event has to be tried in place of the first one that fits, nor another list in place of the first ones
that fit up to some event. `LIMIT_GROUP`: what a list that is too long already does not hold.
"""

(ENTRY_LEVEL, ENTRY_PLACE, ENTRY_END, ENTRY_STAGE, ENTRY_LENGTH, ENTRY_BEFORE, ENTRY_WORDS) = range(7)
"""Words of a bound event on the stack."""

(UNBOUND, BOUND, LEFT) = range(3)
"""Stages of an entry: it looks for its next event; it has bound one; its list has been left with that one."""

(FINISHED, GO_ON, RING_FULL, STACK_FULL) = range(4)
"""Why a call ends."""
