"""Numbers that the kernels over instances and their drivers agree on."""

from __future__ import annotations

CODE_WORDS, RING_WORDS, RULES_WORDS, FOUND_WORDS = 9, 8, 16, 6
"""Words by which a kernel finds a program, the cells of lists, the rules over events, and room for matches."""

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, UNEQUAL = range(6)
"""Comparators; the mirror of each but the last two is `comparator ^ 2`."""

ITEM_WORDS = 8
"""Words of an item of a group: its kind, and what the kind says."""
COMPARE_SLOTS, COMPARE_DIRECT, CONJUNCT = range(3)
"""Kinds of items: a comparison of columns at two single events; of columns at events that slots give; any conjunct.

`COMPARE_SLOTS`: comparator, column, variable, column, variable; a column is its address.
`COMPARE_DIRECT`: the same, then how the slots give the events (left, and right times 8), and the Kleene variable that
must have two elements for there to be anything to test, or -1.
`CONJUNCT`: where it begins in the words, and the chooser that is fixed to the newest element, or -1.
"""

SLOT, NEWEST, PREVIOUS, FIRST = range(4)
"""Ways in which a register gets its row from a slot: it is the row (or the newest cell itself); the row of the newest
cell, of the cell before it, or of the first one."""
CHOOSER_WORDS = 5
"""Variable, kind, register of the row, of the row before it, and of the cell before it."""
ELEMENT, INDEX = range(2)
"""Kinds of choosers: any element of a list, and any index from 2."""

TEST_WORDS = 3
"""Words of a test before its terms: kind, where it ends, and comparator."""
COMPARE_REALS, COMPARE_WHOLES, COMPARE_WHOLE_REAL = range(3)
"""Kinds of tests, by the types of the two terms that they compare."""

TERM_WORDS = 5
"""Words of an operation of a term."""
(
    COLUMN,
    CONSTANT,
    LENGTH,
    COUNT,
    WHOLE_SUM,
    WHOLE_AVERAGE,
    WHOLE_EXTREME,
    REAL_AVERAGE,
    REAL_OF_CELL,
    TO_REAL,
    WHOLE_PLUS,
    WHOLE_MINUS,
    WHOLE_TIMES,
    WHOLE_MODULO,
    WHOLE_NEGATIVE,
    WHOLE_ABSOLUTE,
    REAL_PLUS,
    REAL_MINUS,
    REAL_TIMES,
    REAL_DIVIDE,
    REAL_MODULO,
    REAL_NEGATIVE,
    REAL_ABSOLUTE,
    ROOT,
    LOGARITHM,
    CORRELATION,
    STANDARD_DEVIATION,
    MEDIAN_OF_WHOLES,
    MEDIAN_OF_REALS,
    TIME_OF_DAY,
    DAY_OF_WEEK,
    IS_NULL,
    AMONG_REALS,
    AMONG_WHOLES,
    COALESCE,
    LEAST_OF_WHOLES,
    GREATEST_OF_WHOLES,
    LEAST_OF_REALS,
    GREATEST_OF_REALS,
) = range(39)
"""Operations of terms; "whole" is int64, "real" float64: a number, a string's rank, or a bool as 0 or 1.

Beside every value stands whether it is null; a real that is null is NaN, but not each NaN is null. A column is its
address, a register and the address of the known rows (0: all are); a constant its bits and whether it is null. What is
among ascending values, their address and number, or is null, is a bool.
"""

LINK_WORDS = 6
"""int32 words of a cell."""
ROW, BEFORE, FIRST_ROW, LIST_LENGTH, BORN = range(5)
"""A cell's row, the cell before it, the first row and the length of its list, and the row at which it was made."""
ACCUMULATOR_WORDS = 5
"""Kind, address of the values, address of the known ones (0: all are), place in a cell, and how many words it takes."""
(
    ONLY_COUNT,
    SUM_WHOLES,
    LEAST_WHOLE,
    GREATEST_WHOLE,
    SUM_REALS,
    LEAST_REAL,
    GREATEST_REAL,
    DISTANCES_OF_WHOLES,
    DISTANCES_OF_REALS,
) = range(9)
"""Kinds of accumulators. The first word is the number of values that are known; a whole sum has a high and a low one.

Distances are those from the list's first value: reals, their sum and the sum of their squares; then the first value.
"""

UNRELATED, EARLIER, LATER = range(3)
"""Relation of the events of one variable to those of another: in no order, before them, after them."""
MAY_SHARE = 4
"""Added where one event may have the types of both variables."""

TINY, SMALL = 1e-140, 2.0**-600
DAY_US, CYCLE_US = 86_400_000_000, 12_622_780_800_000_000
FIRST_US, END_US, REPEATED_US = -62_135_596_800_000_000, 253_402_300_800_000_000, 4_102_444_800_000_000
"""The constants of `expressions/lists.py` and `expressions/local_time.py`, which no kernel imports: they stand here
since a kernel is made anew when its sources change. A test holds them equal."""
