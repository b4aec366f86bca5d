"""Programs that check what decided a plan of a clause of few variables. Imported only where it is compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, int64_at
from cep_pipeline.planning.search import clause_search_codes as codes
from cep_pipeline.planning.search import set_sums_codes as sum_codes
from cep_pipeline.planning.search.clause_search_kernel import gather, leaves_of
from cep_pipeline.planning.search.set_sums_kernel import measured


@njit(error_model="numpy")
def instruct(kept: Any, left: int, right: int, flags: int, one: int, other: int) -> int:
    """Write an instruction; its register."""
    register = kept[codes.INSTRUCTIONS]
    at = codes.PROGRAM_AT + register * sum_codes.COLUMNS
    kept[at + sum_codes.WHOLE], kept[at + sum_codes.LEFT], kept[at + sum_codes.RIGHT] = left | right, left, right
    kept[at + sum_codes.FLAGS], kept[at + sum_codes.ONE], kept[at + sum_codes.OTHER] = flags, one, other
    kept[codes.INSTRUCTIONS] = register + 1
    return register


@njit(error_model="numpy")
def register_of_order(found: Any, kept: Any, members: int, tests: int) -> int:
    """The register of what the best order of a set costs."""
    while kept[codes.REGISTER_AT + members] < 0:
        inner = members
        rest = inner ^ (1 << found[codes.TABLE + inner])
        while rest and kept[codes.REGISTER_AT + rest] < 0:
            inner = rest
            rest = inner ^ (1 << found[codes.TABLE + inner])
        flags = sum_codes.CHARGES_NODE | (tests if rest else 0)
        before = kept[codes.REGISTER_AT + rest] if rest else -1
        kept[codes.REGISTER_AT + inner] = instruct(kept, rest, inner ^ rest, flags, before, -1)
    return kept[codes.REGISTER_AT + members]


@njit(error_model="numpy")
def register_of_tree(found: Any, kept: Any, first: int, last: int, tests: int) -> int:
    """The register of what the best tree of a range costs without its leaves; -1 of a leaf."""
    if first == last:
        return -1
    one = first * codes.MOST + last
    while kept[codes.REGISTER_AT + one] < 0:
        inner = one
        while True:
            begin, middle, end = inner // codes.MOST, found[codes.TABLE + inner], inner % codes.MOST
            left, right = begin * codes.MOST + middle, (middle + 1) * codes.MOST + end
            if begin < middle and kept[codes.REGISTER_AT + left] < 0:
                inner = left
            elif middle + 1 < end and kept[codes.REGISTER_AT + right] < 0:
                inner = right
            else:
                break
        kept[codes.REGISTER_AT + inner] = instruct_join(found, kept, begin, middle, end, sum_codes.CHARGES_NODE | tests)
    return kept[codes.REGISTER_AT + one]


@njit(error_model="numpy")
def instruct_join(found: Any, kept: Any, first: int, middle: int, last: int, flags: int) -> int:
    """The join of two ranges whose registers are known, as an instruction."""
    left, right = leaves_of(found, first, middle), leaves_of(found, middle + 1, last)
    one = kept[codes.REGISTER_AT + first * codes.MOST + middle] if first < middle else -1
    other = kept[codes.REGISTER_AT + (middle + 1) * codes.MOST + last] if middle + 1 < last else -1
    return instruct(kept, left, right, flags, one, other)


@njit(error_model="numpy")
def register_of_side(found: Any, kept: Any, measure: int, where: int, which: int, tests: int) -> int:
    """The register of one side of a comparison, as `orderings.ln_measure` measures it."""
    if measure == codes.STEP:
        return instruct(kept, where, 1 << which, sum_codes.CHARGES_NODE | (tests if where else 0), -1, -1)
    if measure == codes.COST:
        rest = where ^ (1 << which)
        return instruct(kept, rest, 1 << which, tests, register_of_order(found, kept, rest, tests), -1)
    first, last = where // codes.MOST, where % codes.MOST
    register_of_tree(found, kept, first, which, tests)
    register_of_tree(found, kept, which + 1, last, tests)
    return instruct_join(found, kept, first, which, last, tests)


@njit(error_model="numpy")
def select(found: Any, logs: Any, kept: Any, most: int) -> int:
    """The places of the tightest comparisons of each block, as `orderings.tightest_of_blocks`; their number."""
    selected, begin = 0, 0
    while begin < found[codes.COMPARED]:
        at = codes.ROWS + begin * codes.ROW
        end = begin
        while (
            end < found[codes.COMPARED]
            and found[codes.ROWS + end * codes.ROW + codes.MEASURE] == found[at + codes.MEASURE]
            and found[codes.ROWS + end * codes.ROW + codes.BLOCK] == found[at + codes.BLOCK]
        ):
            place = codes.SELECTED_AT + selected + end - begin
            while place > codes.SELECTED_AT + selected and is_tighter(found, logs, end, kept[place - 1]):
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
    margin = logs[codes.LN_SIDES + 2 * one + 1] - logs[codes.LN_SIDES + 2 * one]
    beside = logs[codes.LN_SIDES + 2 * other + 1] - logs[codes.LN_SIDES + 2 * other]
    ties = (
        found[codes.ROWS + one * codes.ROW + codes.WINS_TIES] < found[codes.ROWS + other * codes.ROW + codes.WINS_TIES]
    )
    return margin < beside or (margin == beside and ties)


def keep(words_at: Any) -> int:
    """Select the tightest comparisons of what was found, and write a program that measures them; their number."""
    words = carray(words_at, codes.SEARCH_WORDS)
    sums_at, found, logs = (
        int64_at(words[codes.SUMS_AT]),
        int64_at(words[codes.FOUND_AT]),
        float64_at(words[codes.LOGS_AT]),
    )
    address = words[codes.KEPT_AT]
    kept = int64_at(address)
    tests = (
        sum_codes.CHARGES_PAIR
        if int64_at(sums_at[sum_codes.ASKED])[sums_at[sum_codes.TERMS] * sum_codes.ASKED_COLUMNS + sum_codes.PAIR] >= 0
        else 0
    )
    sets = 1 << codes.MOST
    for place in range(sets):
        kept[codes.REGISTER_AT + place] = -1
    kept[codes.INSTRUCTIONS] = 0
    kept[codes.SIDES] = select(found, logs, kept, words[codes.KEEP])
    ln_distances = float64_at(address + 8 * codes.LN_DISTANCES_AT)
    chosen, of = -1, -1
    for number in range(kept[codes.SIDES]):
        at = codes.ROWS + kept[codes.SELECTED_AT + number] * codes.ROW
        measure, where = found[at + codes.MEASURE], found[at + codes.WHERE]
        if measure * codes.MOST + found[at + codes.BLOCK] != of:
            of = measure * codes.MOST + found[at + codes.BLOCK]
            chosen = register_of_side(found, kept, measure, where, found[at + codes.CHOSEN], tests)
        side = codes.SIDES_AT + 3 * number
        kept[side] = chosen
        kept[side + 1] = register_of_side(found, kept, measure, where, found[at + codes.REJECTED], tests)
        kept[side + 2] = found[at + codes.WINS_TIES]
        ln_distances[number] = 0.0
    for place in range(sets):
        kept[codes.REGISTER_AT + place] = 0
    for register in range(kept[codes.INSTRUCTIONS]):
        at = codes.PROGRAM_AT + register * sum_codes.COLUMNS
        kept[codes.REGISTER_AT + kept[at + sum_codes.WHOLE]] = 1
        kept[codes.REGISTER_AT + kept[at + sum_codes.LEFT]] = 1
        kept[codes.REGISTER_AT + kept[at + sum_codes.RIGHT]] = 1
    used = 0
    for place in range(sets):
        if kept[codes.REGISTER_AT + place]:
            kept[codes.USED_AT + used] = place
            used += 1
    kept[codes.USED] = used
    for word in range(codes.SUM_WORDS):
        kept[word] = sums_at[word]
    kept[sum_codes.INSTRUCTIONS], kept[sum_codes.PROGRAM] = kept[codes.INSTRUCTIONS], address + 8 * codes.PROGRAM_AT
    kept[sum_codes.COMPARISONS], kept[sum_codes.SIDES] = kept[codes.SIDES], address + 8 * codes.SIDES_AT
    kept[sum_codes.USED], kept[sum_codes.USED_SETS] = used, address + 8 * codes.USED_AT
    kept[sum_codes.LN_DISTANCES], kept[sum_codes.REGISTERS] = (
        address + 8 * codes.LN_DISTANCES_AT,
        address + 8 * codes.REGISTERS_AT,
    )
    return kept[codes.SIDES]


def check(kept_at: Any, words_at: Any) -> int:
    """Measure what is kept by the numbers that were taken last, as `set_sums_kernel.measure`."""
    kept, words = carray(kept_at, codes.SUM_WORDS), carray(words_at, codes.SEARCH_WORDS)
    sums_at = int64_at(words[codes.SUMS_AT])
    if words[codes.GATHERS]:
        gather(words)
    kept[sum_codes.LAST], kept[sum_codes.FACTORS] = sums_at[sum_codes.LAST], sums_at[sum_codes.FACTORS]
    kept[sum_codes.FACTOR_MASKS], kept[sum_codes.FACTOR_VALUES] = (
        sums_at[sum_codes.FACTOR_MASKS],
        sums_at[sum_codes.FACTOR_VALUES],
    )
    kept[sum_codes.FACTOR_KINDS] = sums_at[sum_codes.FACTOR_KINDS]
    return measured(kept)
