"""The argument words of `set_sums_kernel.measure`, and the instructions of its programs."""

from __future__ import annotations

(
    SETS,
    TERMS,
    VARIABLES,
    FACTORS,
    AGREEMENTS,
    KLEENE,
    LAST,
    SET_MASKS,
    CONSTANTS,
    ASKED,
    ENDS,
    FIRSTS,
    LASTS,
    NUMBERS,
    FACTOR_MASKS,
    FACTOR_VALUES,
    FACTOR_KINDS,
    SUMS,
    INSTRUCTIONS,
    PROGRAM,
    REGISTERS,
    COMPARISONS,
    SIDES,
    LN_DISTANCES,
    USED,
    USED_SETS,
    WITHIN,
    WORDS,
) = range(28)
"""Numbers, and addresses of arrays. Of the sets only those at the places in `USED_SETS` are summed."""

COUNTED, RAREST, KINDS, SINGLES, AGREEING, WITH_ENDS, ASKED_COLUMNS = range(7)
"""Columns of the question about a term: the variables whose instances count, only the rarest of them (1 or 0), the
kinds of factors, Kleene variables have none (1 or 0), agreement counts (1 or 0), the ends of sets count (1 or 0)."""

EQUALITY, TESTED, JOINT = 1, 2, 4
"""Kinds of factors."""

NODE, PAIR, PRODUCT, HELD, DELAY, TUPLES, PASSING, COST_TERMS = range(8)
"""The terms of a cost model and of its late tests, by their rows; those it has not are -1."""

WHOLE, LEFT, RIGHT, FLAGS, ONE, OTHER, COLUMNS = range(7)
"""Columns of an instruction: the set that is made, the two that are joined, what is charged, two registers to add."""

CHARGES_NODE, CHARGES_PAIR, CHARGES_HELD, CHARGES_STEP_DELAY, CHARGES_JOIN_DELAY, IS_NUMBER = 1, 2, 4, 8, 16, 32
"""Flags; an instruction that is a number takes that of the variable `RIGHT`."""

GRAIN = 1e-9
"""`orderings.GRAIN`, which a test compares."""
