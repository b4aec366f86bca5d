"""The argument words of the functions of `clause_search_kernel`, and the layout of their results."""

from __future__ import annotations

from cep_pipeline.planning.search.set_sums_codes import WORDS

SUM_WORDS = WORDS

(
    SUMS_AT,
    PLANNER,
    FOUND_AT,
    LOGS_AT,
    KEEP,
    KEPT_AT,
    PLAN_AT,
    GATHERS,
    ROW_AT,
    PLACES_AT,
    PRIORS_AT,
    WINDOW_AT,
    SEARCH_WORDS,
) = range(13)
"""Addresses of the words of `set_sums_kernel`, of what is found and of its logarithms, of what is kept of it, and of
the plan that is priced; which planner it is, and how many comparisons of a block are kept, 0 for all. Whether numbers
are gathered from a row (`ClauseRow`), the addresses of it, of its places and its priors, and the length of the window
in microseconds."""
SMALLEST = 1e-30
"""`statistics.joint.SMALLEST`, which a test compares."""

GREEDY, ZSTREAM, ZSTREAM_ORDERED, DP_LEFT_DEEP = range(4)
"""Planners."""

MOST = 8
"""Variables: `set_sums.MOST_VARIABLES`, which a test compares."""
MOST_NODES = 2 * MOST - 1
MOST_COMPARED = 64
"""Comparisons: greedy has 28 of eight variables, dynamic programming as many, a tree 21."""

STEP, COST, TREE = range(3)
"""Measures of comparisons."""
MEASURE, BLOCK, WHERE, CHOSEN, REJECTED, WINS_TIES, ROW = range(7)
"""The words of a comparison: its measure and block, where it is, what was chosen there over what, and whether that wins
ties.

The place is for a step the set that was bound, for a cost the set that is made, for a tree the range
`first * MOST + last` of leaves. Chosen and rejected: the variable that comes last, or the last leaf on the left."""

NODES, PLAN = 0, 1
COMPARED = PLAN + 2 * MOST_NODES
ORDER = COMPARED + 1
JOINS = ORDER + MOST
ROWS = JOINS + 2 * MOST
TABLE = ROWS + MOST_COMPARED * ROW
FOUND_LENGTH = TABLE + (1 << MOST)
"""The words of the result: the plan, by its steps, or by its leaves and joins, each as the two sets that it joins, the
first one 0 where there is none; the order, or the leaves from left to right; the ranges of the joins; the comparisons;
and of each range the last leaf of the left side, or of each set the variable that is bound last."""

FOUND_BYTES = 8 * FOUND_LENGTH
LN_NODES = 0
LN_SIDES = LN_NODES + MOST_NODES
LN_BEST = LN_SIDES + 2 * MOST_COMPARED
LN_WAYS = LN_BEST + (1 << MOST)
LOGS_LENGTH = LN_WAYS + MOST
"""Logarithms of each step or node of the plan and of both sides of each comparison; during the search also of the best
plan of each range or set, and of the ways to build one."""

INSTRUCTIONS, SIDES, USED = range(SUM_WORDS, SUM_WORDS + 3)
"""Words that count the kept instructions, sides and used sets."""
SELECTED_AT = USED + 1
SIDES_AT = SELECTED_AT + MOST_COMPARED
LN_DISTANCES_AT = SIDES_AT + 3 * MOST_COMPARED
USED_AT = LN_DISTANCES_AT + MOST_COMPARED
REGISTER_AT = USED_AT + (1 << MOST)
PROGRAM_AT = REGISTER_AT + (1 << MOST)
MOST_INSTRUCTIONS = (1 << MOST) + 2 * MOST_COMPARED
REGISTERS_AT = PROGRAM_AT + 6 * MOST_INSTRUCTIONS
KEPT_LENGTH = REGISTERS_AT + MOST_INSTRUCTIONS
"""The words that are kept, behind the words of `set_sums_kernel` that say where it is: the places of the comparisons,
the registers of their sides, their ln(1 + d), the sets that are used, and instructions; between them the registers of
ranges or sets while instructions are written."""
