"""Programs that check what decided a plan of a clause of few variables. Imported only where it is compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, int64_at
from cep_pipeline.planning.search.clause_search_codes import (
    BLOCK,
    CHOSEN,
    COMPARED,
    COST,
    FOUND_AT,
    GATHERS,
    INSTRUCTIONS,
    KEEP,
    KEPT_AT,
    LN_DISTANCES_AT,
    LN_SIDES,
    LOGS_AT,
    MEASURE,
    MOST,
    PROGRAM_AT,
    REGISTER_AT,
    REGISTERS_AT,
    REJECTED,
    ROW,
    ROWS,
    SEARCH_WORDS,
    SELECTED_AT,
    SIDES,
    SIDES_AT,
    STEP,
    SUM_WORDS,
    SUMS_AT,
    TABLE,
    USED,
    USED_AT,
    WHERE,
    WINS_TIES,
)
from cep_pipeline.planning.search.clause_search_kernel import gather, leaves_of
from cep_pipeline.planning.search.set_sums_codes import (
    ASKED,
    ASKED_COLUMNS,
    CHARGES_NODE,
    CHARGES_PAIR,
    COLUMNS,
    COMPARISONS,
    FACTOR_KINDS,
    FACTOR_MASKS,
    FACTOR_VALUES,
    FACTORS,
    FLAGS,
    LAST,
    LEFT,
    LN_DISTANCES,
    ONE,
    OTHER,
    PAIR,
    PROGRAM,
    REGISTERS,
    RIGHT,
    TERMS,
    USED_SETS,
    WHOLE,
)
from cep_pipeline.planning.search.set_sums_codes import INSTRUCTIONS as SUM_INSTRUCTIONS
from cep_pipeline.planning.search.set_sums_codes import SIDES as SUM_SIDES
from cep_pipeline.planning.search.set_sums_codes import USED as SUM_USED
from cep_pipeline.planning.search.set_sums_kernel import measured


@njit(error_model="numpy")
def instruct(kept: Any, left: int, right: int, flags: int, one: int, other: int) -> int:
    """Write an instruction; its register."""
    register = kept[INSTRUCTIONS]
    at = PROGRAM_AT + register * COLUMNS
    kept[at + WHOLE], kept[at + LEFT], kept[at + RIGHT] = left | right, left, right
    kept[at + FLAGS], kept[at + ONE], kept[at + OTHER] = flags, one, other
    kept[INSTRUCTIONS] = register + 1
    return register


@njit(error_model="numpy")
def register_of_order(found: Any, kept: Any, members: int, tests: int) -> int:
    """The register of what the best order of a set costs."""
    while kept[REGISTER_AT + members] < 0:
        inner = members
        rest = inner ^ (1 << found[TABLE + inner])
        while rest and kept[REGISTER_AT + rest] < 0:
            inner = rest
            rest = inner ^ (1 << found[TABLE + inner])
        flags = CHARGES_NODE | (tests if rest else 0)
        before = kept[REGISTER_AT + rest] if rest else -1
        kept[REGISTER_AT + inner] = instruct(kept, rest, inner ^ rest, flags, before, -1)
    return kept[REGISTER_AT + members]


@njit(error_model="numpy")
def register_of_tree(found: Any, kept: Any, first: int, last: int, tests: int) -> int:
    """The register of what the best tree of a range costs without its leaves; -1 of a leaf."""
    if first == last:
        return -1
    one = first * MOST + last
    while kept[REGISTER_AT + one] < 0:
        inner = one
        while True:
            begin, middle, end = inner // MOST, found[TABLE + inner], inner % MOST
            left, right = begin * MOST + middle, (middle + 1) * MOST + end
            if begin < middle and kept[REGISTER_AT + left] < 0:
                inner = left
            elif middle + 1 < end and kept[REGISTER_AT + right] < 0:
                inner = right
            else:
                break
        kept[REGISTER_AT + inner] = instruct_join(found, kept, begin, middle, end, CHARGES_NODE | tests)
    return kept[REGISTER_AT + one]


@njit(error_model="numpy")
def instruct_join(found: Any, kept: Any, first: int, middle: int, last: int, flags: int) -> int:
    """The join of two ranges whose registers are known, as an instruction."""
    left, right = leaves_of(found, first, middle), leaves_of(found, middle + 1, last)
    one = kept[REGISTER_AT + first * MOST + middle] if first < middle else -1
    other = kept[REGISTER_AT + (middle + 1) * MOST + last] if middle + 1 < last else -1
    return instruct(kept, left, right, flags, one, other)


@njit(error_model="numpy")
def register_of_side(found: Any, kept: Any, measure: int, where: int, which: int, tests: int) -> int:
    """The register of one side of a comparison, as `orderings.ln_measure` measures it."""
    if measure == STEP:
        return instruct(kept, where, 1 << which, CHARGES_NODE | (tests if where else 0), -1, -1)
    if measure == COST:
        rest = where ^ (1 << which)
        return instruct(kept, rest, 1 << which, tests, register_of_order(found, kept, rest, tests), -1)
    first, last = where // MOST, where % MOST
    register_of_tree(found, kept, first, which, tests)
    register_of_tree(found, kept, which + 1, last, tests)
    return instruct_join(found, kept, first, which, last, tests)


@njit(error_model="numpy")
def select(found: Any, logs: Any, kept: Any, most: int) -> int:
    """The places of the tightest comparisons of each block, as `orderings.tightest_of_blocks`; their number."""
    selected, begin = 0, 0
    while begin < found[COMPARED]:
        at = ROWS + begin * ROW
        end = begin
        while (
            end < found[COMPARED]
            and found[ROWS + end * ROW + MEASURE] == found[at + MEASURE]
            and found[ROWS + end * ROW + BLOCK] == found[at + BLOCK]
        ):
            place = SELECTED_AT + selected + end - begin
            while place > SELECTED_AT + selected and is_tighter(found, logs, end, kept[place - 1]):
                kept[place] = kept[place - 1]
                place -= 1
            kept[place] = end
            end += 1
        selected += min(end - begin, most) if most else end - begin
        begin = end
    return selected


@njit(error_model="numpy")
def is_tighter(found: Any, logs: Any, one: int, other: int) -> bool:
    """True if a comparison is closer to coming out otherwise than another one of its block."""
    margin = logs[LN_SIDES + 2 * one + 1] - logs[LN_SIDES + 2 * one]
    beside = logs[LN_SIDES + 2 * other + 1] - logs[LN_SIDES + 2 * other]
    ties = found[ROWS + one * ROW + WINS_TIES] < found[ROWS + other * ROW + WINS_TIES]
    return margin < beside or (margin == beside and ties)


def keep(words_at: Any) -> int:
    """Select the tightest comparisons of what was found, and write a program that measures them; their number."""
    words = carray(words_at, SEARCH_WORDS)
    sums_at, found, logs = int64_at(words[SUMS_AT]), int64_at(words[FOUND_AT]), float64_at(words[LOGS_AT])
    address = words[KEPT_AT]
    kept = int64_at(address)
    tests = CHARGES_PAIR if int64_at(sums_at[ASKED])[sums_at[TERMS] * ASKED_COLUMNS + PAIR] >= 0 else 0
    sets = 1 << MOST
    for place in range(sets):
        kept[REGISTER_AT + place] = -1
    kept[INSTRUCTIONS] = 0
    kept[SIDES] = select(found, logs, kept, words[KEEP])
    ln_distances = float64_at(address + 8 * LN_DISTANCES_AT)
    chosen, of = -1, -1
    for number in range(kept[SIDES]):
        at = ROWS + kept[SELECTED_AT + number] * ROW
        measure, where = found[at + MEASURE], found[at + WHERE]
        if measure * MOST + found[at + BLOCK] != of:
            of = measure * MOST + found[at + BLOCK]
            chosen = register_of_side(found, kept, measure, where, found[at + CHOSEN], tests)
        side = SIDES_AT + 3 * number
        kept[side] = chosen
        kept[side + 1] = register_of_side(found, kept, measure, where, found[at + REJECTED], tests)
        kept[side + 2] = found[at + WINS_TIES]
        ln_distances[number] = 0.0
    for place in range(sets):
        kept[REGISTER_AT + place] = 0
    for register in range(kept[INSTRUCTIONS]):
        at = PROGRAM_AT + register * COLUMNS
        kept[REGISTER_AT + kept[at + WHOLE]] = 1
        kept[REGISTER_AT + kept[at + LEFT]] = 1
        kept[REGISTER_AT + kept[at + RIGHT]] = 1
    used = 0
    for place in range(sets):
        if kept[REGISTER_AT + place]:
            kept[USED_AT + used] = place
            used += 1
    kept[USED] = used
    for word in range(SUM_WORDS):
        kept[word] = sums_at[word]
    kept[SUM_INSTRUCTIONS], kept[PROGRAM] = kept[INSTRUCTIONS], address + 8 * PROGRAM_AT
    kept[COMPARISONS], kept[SUM_SIDES] = kept[SIDES], address + 8 * SIDES_AT
    kept[SUM_USED], kept[USED_SETS] = used, address + 8 * USED_AT
    kept[LN_DISTANCES], kept[REGISTERS] = address + 8 * LN_DISTANCES_AT, address + 8 * REGISTERS_AT
    return kept[SIDES]


def check(kept_at: Any, words_at: Any) -> int:
    """Measure what is kept by the numbers that were taken last, as `set_sums_kernel.measure`."""
    kept, words = carray(kept_at, SUM_WORDS), carray(words_at, SEARCH_WORDS)
    sums_at = int64_at(words[SUMS_AT])
    if words[GATHERS]:
        gather(words)
    kept[LAST], kept[FACTORS] = sums_at[LAST], sums_at[FACTORS]
    kept[FACTOR_MASKS], kept[FACTOR_VALUES] = sums_at[FACTOR_MASKS], sums_at[FACTOR_VALUES]
    kept[FACTOR_KINDS] = sums_at[FACTOR_KINDS]
    return measured(kept)
