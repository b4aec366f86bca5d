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
    WITHIN,
    WORDS,
) = range(23)
"""Numbers, and addresses of arrays."""

COUNTED, RAREST, KINDS, SINGLES, AGREEING, WITH_ENDS, ASKED_COLUMNS = range(7)
"""The question about a term: the variables whose instances count, whether only the rarest of them does, which kinds of
factors, whether Kleene variables have none, whether agreement counts, and whether the ends of sets do."""

EQUALITY, TESTED, JOINT = 1, 2, 4
"""Kinds of factors."""

NODE, PAIR, PRODUCT, HELD, DELAY, TUPLES, PASSING, COST_TERMS = range(8)
"""The terms of a cost model and of its late tests, by their rows; those it has not are -1."""

WHOLE, LEFT, RIGHT, FLAGS, ONE, OTHER, COLUMNS = range(7)
"""The words of an instruction: the sets that are joined and what they make, what is charged, and the registers that are
added."""

CHARGES_NODE, CHARGES_PAIR, CHARGES_HELD, CHARGES_STEP_DELAY, CHARGES_JOIN_DELAY, IS_NUMBER = 1, 2, 4, 8, 16, 32
"""Flags; an instruction that is a number takes that of the variable `RIGHT`."""
