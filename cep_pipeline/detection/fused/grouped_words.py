"""Numbers that the search by groups and its kernel agree on: the words of a search."""

from __future__ import annotations

LANES = 16
"""Partial matches of a group, events of a block, and blocks of a larger block."""
MOST_POWERS = 8
"""Powers of `LANES` by which blocks grow: the events themselves are the first."""
TERM_ENDS, TEST_WORDS, SIDE_WORDS = 2, 5, 3
"""Words of a term that is computed (where it begins and ends), of a test, and of each part of a mixed side."""
EVENT_FIRST, MATCH_FIRST = 32, 64
"""Added to the number of an operation whose first operand is the term of an event, or that of a match."""
OWN_PLACE, FIRST_PLACE, END_PLACE = 0, 0, 1
"""The number of the place among the terms of events, and of the ends of the range among those of partial matches."""
MIXED, BOTH_MIXED = -1, -2
"""Numbers in place of that of an event's term, where one side of a test mixes it with a match, and where both do."""
ANY = 0
"""The wanted result where any event will do; which one is asked for by a number of `programs`."""
WITNESSES = 2
"""Events that rejected last, which are tried first."""

(
    ARGUMENTS,
    PROGRAM,
    FRAME,
    STACK,
    STACK_HALF,
    ROWS,
    NEXT,
    MOST_WORK,
    MOST_ROWS,
    WANTED,
    FOUND,
    LOWS,
    HIGHS,
    SIZE,
    SHIFT,
    MOVES,
    PLACES,
    POSITIONS,
    AT_POSITION,
    MARKS,
    CHOSEN,
    GROUPED_ROWS,
    GROUPED_PLACES,
    FIRST_ROW,
    NUMBERS,
    OWN_ROWS,
    OWN_PLACES,
    EXTREMES,
    TERMS,
    FIXED,
    TESTS,
    EVENT_TERMS,
    EVENT_TERM_COUNT,
    MATCH_TERMS,
    MATCH_TERM_COUNT,
    MATCH_VALUES,
    LEAST,
    GREATEST,
    BITS,
    WITNESS,
    BLOCKS,
) = range(41)
WORDS = BLOCKS + 3 * MOST_POWERS
"""Places in the words; the last is their number.

`PLACES` has the place of each event that is searched, in the order in which they lie, and `POSITIONS` where each last
event of a partial match lies among its like. `SHIFT` is the logarithm of the size of the segments of places that are
put in order each; `MOVES` says whether both ends of a range depend on the last event. `GROUPED_ROWS` and
`GROUPED_PLACES` are of the partial matches in order, counted from `FIRST_ROW`: either `OWN_ROWS` and `OWN_PLACES`, or
`NUMBERS` and the places as they were given. `FIXED` are tests of terms: conjuncts, each with alternatives, each with
tests. `TESTS` are so of numbers of terms, or of sides where both are mixed. `BLOCKS` has for each power of `LANES`
where the least values of blocks are, the greatest, and how many of them a term has room for.
"""
