"""The words of the kernels that grow lists: the places of addresses and numbers in the array of their driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cep_pipeline.detection.conditions.codes import CODE_WORDS, FOUND_WORDS, RING_WORDS, RULES_WORDS

if TYPE_CHECKING:
    from cep_pipeline.compiled.pointers import Float64s, Int32s, Int64s


class ListArrays(NamedTuple):
    """The arrays that a kernel reads and writes; its words are in this order, as addresses and numbers.

    Attributes
    ----------
    registers
        int64: the places below.
    partials, bound
        The number of partial matches; int32, row after row: the event of each single variable in each of them. Without
        single variables, the first element of each list.
    singles, single_slots
        The number of single variables; int64: the slot of each, and how the lists' variables stand to others (see
        `L_BEFORE`).
    variables, levels
        The number of Kleene variables; int64: `LEVEL_WORDS` of each.
    slots
        int32: what each variable of the clause binds.
    candidates, places, cells
        int32, `L_STACK` is where those of a variable begin: its candidates; by the length of its list the next
        candidate to be put behind it, and its newest cell.
    longer_first
        Whether a list is put out behind all longer ones that begin with it.
    counting, sizes, endings
        Whether lists are only counted; int64, for that: how often there are so many candidates behind a first element,
        itself among them; the lists that end with each, or how often any of so many candidates may be chosen.
    events, later, earlier
        The number of events that the first variable may have; float64, for one comparison of neighbours: what it
        compares of each of these events, or of each candidate that was picked, as the later and as the earlier one.
    """

    registers: Int64s
    partials: int
    bound: Int32s
    singles: int
    single_slots: Int64s
    variables: int
    levels: Int64s
    slots: Int32s
    candidates: Int32s
    places: Int32s
    cells: Int32s
    longer_first: int
    counting: int
    sizes: Int64s
    endings: Int64s
    events: int
    later: Float64s
    earlier: Float64s


CANDIDATES = ListArrays._fields.index("candidates")
RING = len(ListArrays._fields)
CODE = RING + RING_WORDS
RULES = CODE + CODE_WORDS
FOUND = RULES + RULES_WORDS
NUMBER = FOUND + FOUND_WORDS
"""Places of the words of candidates, cells, conditions, rules and matches, and the number of all words."""
ROW_BYTES = 4

PARTIAL, LEVEL, ENTERING, TOTAL, MOST, BEGUN, ENDED, CHAINS, REGISTERS = range(9)
"""The registers: the partial match, the variable whose list grows (-1: none has begun), whether its candidates are to
be found first, the number of lists that were counted, and the most candidates whose subsets are to be. Lists of
compared neighbours go on from those of the partial match before if they begin at the same place: this place, how many
candidates have been gone over, and the lists that end with one of them."""

LEVEL_WORDS = 25
L_SLOT, L_ROWS, L_STARTS, L_KEYS, L_STACK, L_MINIMUM, L_MAXIMUM = range(7)
"""int64 words of a variable: its slot; the addresses of its events by key, of where those of each key begin, and of the
keys by row (0: none); where its part of the stacks begins; the least and the greatest number of elements."""
L_BEFORE, L_AFTER, L_SHARING, L_RELATED = range(7, 11)
"""The places in `single_slots` where the slots begin of the variables bound before it that come before its list, and
after it, and that may have one of its events; and where they end."""
L_ELEMENTS, L_BEGINS, L_GROWS, L_LEFT = range(11, 15)
"""The groups of conjuncts that are tested of each candidate alone, of a list of one element, of a longer one, and of a
list that grows no more (-1: none)."""
L_PICKED, L_PLAIN, L_BEHIND, L_AHEAD = range(15, 19)
"""Whether candidates are tested one by one. Whether nothing asks for the cells of its lists: no variable comes behind
it, and conditions compare neighbours only. Whether it lies behind an event that is bound, and ahead of one: all that is
bound and its candidates are within one window then."""
L_COUNT, L_DEPTH, L_FIRST, L_LAST, L_FOUND, L_PLACE = range(19, LEVEL_WORDS)
"""How many candidates there are, how many elements the list has, the first and the last row (-1: none) of what is bound
before, the address of the candidates, and where they begin among the variable's events."""

DONE, CELLS_FULL, FOUND_FULL, PAUSED, TOO_MANY, BOUND = range(6)
"""Why a kernel returns: there are more lists than it counts, among others; last, why the lists of a variable wait."""
STEPS_A_CALL = 1 << 24
"""Steps after which a call returns, so that a run can be interrupted."""
COUNTS_A_CALL = 1 << 12
"""Partial matches behind which lists are counted in one call."""
MOST_LISTS = 1 << 60
"""Lists that are counted as an int64: a sum up to this, and one more step, cannot overflow."""
