"""Numbers that the kernels over instances and their drivers agree on."""

from __future__ import annotations

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, UNEQUAL = range(6)
"""Comparators."""

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

(
    COMPARE_ROWS,
    COMPARE_REALS,
    COMPARE_WHOLES,
    COMPARE_WHOLE_REAL,
    COMPARE_REAL_WHOLE,
    AMONG_REALS,
    AMONG_WHOLES,
    TRUTH,
) = range(8)
"""Kinds of tests: of columns at two registers, of two terms by their types, of membership, of a column of truths."""
TEST_WORDS = 7
"""Words of every test before its terms."""

TERM_WORDS = 5
"""Words of an operation of a term."""
(
    REAL_COLUMN,
    WHOLE_COLUMN,
    REAL_CONSTANT,
    WHOLE_CONSTANT,
    LENGTH,
    COUNT,
    WHOLE_SUM,
    WHOLE_AVERAGE,
    WHOLE_EXTREME,
    REAL_SUM,
    REAL_AVERAGE,
    REAL_EXTREME,
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
    NULL_COLUMN,
    NULL_CONSTANT,
    NULL_COUNT,
    NULL_NAN,
    NULL_EITHER,
    NULL_DIVISION,
    NULL_ROOT,
    NULL_LOGARITHM,
    NULL_AS_WHOLE,
    COALESCE,
    LEAST_OF_WHOLES,
    GREATEST_OF_WHOLES,
    LEAST_OF_REALS,
    GREATEST_OF_REALS,
) = range(48)
"""Operations of terms; "whole" is int64, "real" float64, whose NaN also stands for null.

Those of `NULL_` say of a real on the stack whether it is null, which only tests of null and the choices behind them
ask: by a column, a constant, the number of values of an aggregate, or since it is NaN; before an operation on reals,
by its operands. `NULL_AS_WHOLE` makes the answer a whole, 0 or 1.
"""

LINK_WORDS = 6
"""int32 words of a cell."""
ROW, BEFORE, FIRST_ROW, LIST_LENGTH, BORN = range(5)
"""A cell's row, the cell before it, the first row and the length of its list, and the row at which it was made."""
ACCUMULATOR_WORDS = 5
"""Kind, address of the values, address of the known ones (0: all are), place of the count, place of the value."""
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
"""Kinds of accumulators.

Distances are those from the list's first value: two reals have their sum and the sum of their squares. The first value
stands behind them, a whole one behind the count.
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
