"""Numbers that the search run by run and its kernel agree on: the words of a search."""

from __future__ import annotations

TEST_WORDS, EDGE_WORDS, MOST_EDGES = 7, 2, 8

(STRICT, LEFT, LEFT_TERM, LEFT_END, RIGHT, RIGHT_TERM, RIGHT_END) = range(7)
"""Words of a test `left < right`, or `left <= right` if not strict: a side is a column, by place, or a term."""

(EDGE_ROWS, EDGE_VALUES) = range(2)
"""Words of a bound: the rows of the events that are searched, and the limit for each last event."""

(
    ARGUMENTS,
    PROGRAM,
    FRAME,
    ROWS,
    NEXT,
    MOST_WORK,
    FORWARD,
    FOUND,
    REACHES,
    SELECTED,
    NOTED,
    TESTS,
    RANKS,
    LIMITS,
    SORTED,
    SORTED_SIZE,
    TREE,
    EDGES,
    EXACT,
    FIRST_TEST,
) = range(20)
FIRST_EDGE = FIRST_TEST + 2 * TEST_WORDS
WORDS = FIRST_EDGE + MOST_EDGES * EDGE_WORDS
"""Places in the words; the last is their number.

`FOUND` has a byte for each partial match, and `REACHES` room for how far its range reaches; `SELECTED` and `NOTED`
have room for each event that is searched. Of two tests the first one is compared by `RANKS` of the events, from 1 on,
and by the number of ranks that pass: `LIMITS` has it for each last event, or else it is looked up among the `SORTED`
values. `EXACT`: that test is an equality, which one rank passes. `TREE` has room for the values and one more, all NaN.
"""
