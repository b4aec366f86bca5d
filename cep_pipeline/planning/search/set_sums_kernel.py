"""Sums over sets of variables, and what comparisons of plans make of them. Imported only where it is compiled.

All numbers are natural logarithms. Sums are taken in one order, whatever the sets that are asked for: planners and
checks of their plans read the same number of a set to the last bit.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, int64_at
from cep_pipeline.planning.search.set_sums_codes import (
    AGREEING,
    AGREEMENTS,
    ASKED,
    ASKED_COLUMNS,
    CHARGES_HELD,
    CHARGES_JOIN_DELAY,
    CHARGES_NODE,
    CHARGES_PAIR,
    CHARGES_STEP_DELAY,
    COLUMNS,
    COMPARISONS,
    CONSTANTS,
    COUNTED,
    DELAY,
    ENDS,
    FACTOR_KINDS,
    FACTOR_MASKS,
    FACTOR_VALUES,
    FACTORS,
    FIRSTS,
    FLAGS,
    GRAIN,
    HELD,
    INSTRUCTIONS,
    IS_NUMBER,
    KINDS,
    KLEENE,
    LAST,
    LASTS,
    LEFT,
    LN_DISTANCES,
    NODE,
    NUMBERS,
    ONE,
    OTHER,
    PAIR,
    PASSING,
    PRODUCT,
    PROGRAM,
    RAREST,
    REGISTERS,
    RIGHT,
    SET_MASKS,
    SETS,
    SIDES,
    SINGLES,
    SUMS,
    TERMS,
    TUPLES,
    USED,
    USED_SETS,
    VARIABLES,
    WHOLE,
    WITH_ENDS,
    WITHIN,
    WORDS,
)


@njit(error_model="numpy")
def ln_add(one: float, other: float) -> float:
    """ln of the sum of two numbers by their logarithms, to the last bit as `sums.ln_add`."""
    if one < other:
        one, other = other, one
    if other == -np.inf:
        return one
    return one + math.log1p(math.exp(other - one))


@njit(error_model="numpy")
def ln_factors(words: Any, members: int, kinds: int, singles: int) -> float:
    """The sum of the factors that a set holds."""
    masks, values = int64_at(words[FACTOR_MASKS]), float64_at(words[FACTOR_VALUES])
    kind_of = int64_at(words[FACTOR_KINDS])
    total = 0.0
    for factor in range(words[FACTORS]):
        mask = masks[factor]
        if kind_of[factor] & kinds and mask & members == mask and not (singles and mask & words[KLEENE]):
            total += values[factor]
    return total


@njit(error_model="numpy")
def ln_agreement(words: Any, members: int, singles: int) -> float:
    """The agreement of a set: each further variable counts its most selective pair with the earlier ones."""
    size = words[VARIABLES]
    numbers = float64_at(words[NUMBERS])
    start = 2 * size
    apart = words[KLEENE] if singles else 0
    total = 0.0
    for agreement in range(words[AGREEMENTS]):
        base = start + agreement * size * size
        for member in range(size):
            if members >> member & 1:
                strictest = 0.0
                for earlier in range(member):
                    if members >> earlier & 1 and not (apart >> earlier & 1 or apart >> member & 1):
                        strictest = min(strictest, numbers[base + member * size + earlier])
                total += strictest
    return total


@njit(error_model="numpy")
def ln_ends(words: Any, place: int) -> float:
    """ln of the events at both edges of a set."""
    size = words[VARIABLES]
    numbers = float64_at(words[NUMBERS])
    first, last = int64_at(words[FIRSTS])[place], int64_at(words[LASTS])[place]
    most = -np.inf
    for variable in range(size):
        most = max(most, numbers[size + variable])
    shares = 0.0
    for variable in range(size):
        times = (first >> variable & 1) + (last >> variable & 1)
        if times:
            shares += times * math.exp(numbers[size + variable] - most)
    return math.log(shares) + most if shares > 0.0 else -np.inf


@njit(error_model="numpy")
def add_up(words: Any) -> None:
    """Fill the sums of all terms and used sets."""
    count, size = words[SETS], words[VARIABLES]
    used = int64_at(words[USED_SETS])
    sets, constants = int64_at(words[SET_MASKS]), float64_at(words[CONSTANTS])
    asked, ends = int64_at(words[ASKED]), float64_at(words[ENDS])
    numbers, sums = float64_at(words[NUMBERS]), float64_at(words[SUMS])
    for term in range(words[TERMS]):
        row = term * ASKED_COLUMNS
        counted, kinds, singles = asked[row + COUNTED], asked[row + KINDS], asked[row + SINGLES]
        for number in range(words[USED]):
            place = used[number]
            members = sets[place]
            total = 0.0
            rarest = np.inf
            for variable in range(size):
                if members & counted & (1 << variable):
                    total += numbers[variable]
                    rarest = min(rarest, numbers[variable])
            if asked[row + RAREST]:
                total = rarest if rarest < np.inf else 0.0
            if kinds:
                total += ln_factors(words, members, kinds, singles)
            if asked[row + AGREEING]:
                total += ln_agreement(words, members, singles)
            total += constants[term * count + place]
            if asked[row + WITH_ENDS]:
                total = ln_add(total, ln_ends(words, place) + ends[term])
            sums[term * count + place] = total


@njit(error_model="numpy")
def ln_tests(words: Any, whole: int, left: int, right: int) -> float:
    """ln of the tests of a join, as `sums.LogTables` has them, by the places of sets."""
    count = words[SETS]
    sums, rows = float64_at(words[SUMS]), int64_at(words[ASKED])
    terms = words[TERMS] * ASKED_COLUMNS  # behind what is asked of the terms stand their rows
    both = 0.0
    if rows[terms + PRODUCT] >= 0:
        product = rows[terms + PRODUCT] * count
        both = sums[product + left] + sums[product + right]
    total = sums[rows[terms + PAIR] * count + whole] + both
    if rows[terms + TUPLES] >= 0:
        within, passing = float64_at(words[WITHIN]), rows[terms + PASSING] * count
        new = within[whole] - within[left] - within[right]
        if new > 0.0:
            found = sums[rows[terms + TUPLES] * count + whole] + sums[passing + left] + sums[passing + right]
            total = ln_add(total, found + math.log(new))
    return total


@njit(error_model="numpy")
def charged(words: Any, at: int) -> float:
    """The charge of an instruction for joining two sets."""
    count = words[SETS]
    program, sums = int64_at(words[PROGRAM]), float64_at(words[SUMS])
    rows, sets = int64_at(words[ASKED]), int64_at(words[SET_MASKS])
    terms = words[TERMS] * ASKED_COLUMNS  # behind what is asked of the terms stand their rows
    whole, left, right, flags = program[at + WHOLE], program[at + LEFT], program[at + RIGHT], program[at + FLAGS]
    total = -np.inf
    if flags & CHARGES_PAIR:
        total = ln_tests(words, whole, left, right)
    if flags & CHARGES_HELD:
        held = rows[terms + HELD] * count
        total = ln_add(total, sums[held + left])
        total = ln_add(total, sums[held + right])
    if flags & (CHARGES_STEP_DELAY | CHARGES_JOIN_DELAY):
        delay, last = rows[terms + DELAY] * count, words[LAST]
        if sets[left] >> last & 1:
            total = ln_add(total, sums[delay + right])
        elif flags & CHARGES_JOIN_DELAY and sets[right] >> last & 1:
            total = ln_add(total, sums[delay + left])
    if flags & CHARGES_NODE:
        total = ln_add(sums[rows[terms + NODE] * count + whole], total)
    return total


@njit(error_model="numpy")
def is_violated(left: float, right: float, wins_ties: int, ln_distance: float) -> bool:
    """True if a comparison is violated, to the last bit as `verification.is_violated`."""
    if ln_distance == 0.0:
        chosen, rejected = np.rint(left / GRAIN), np.rint(right / GRAIN)
        return not (chosen < rejected or (chosen == rejected and wins_ties))
    return np.rint(left / GRAIN) > np.rint((right + ln_distance) / GRAIN)


def measure(words_at: Any) -> int:
    """Measure by the words at an address."""
    return measured(carray(words_at, WORDS))


@njit(error_model="numpy")
def measured(words: Any) -> int:
    """Fill the sums; run the program; the place of the first comparison that is violated, or how many there are.

    `SIDES` has three int64s a comparison, the registers of its sides and whether the chosen one wins ties.
    """
    add_up(words)
    program, registers = int64_at(words[PROGRAM]), float64_at(words[REGISTERS])
    numbers = float64_at(words[NUMBERS])
    for instruction in range(words[INSTRUCTIONS]):
        at = instruction * COLUMNS
        if program[at + FLAGS] & IS_NUMBER:
            registers[instruction] = numbers[program[at + RIGHT]]
            continue
        total = charged(words, at)
        if program[at + ONE] >= 0:
            total = ln_add(total, registers[program[at + ONE]])
        if program[at + OTHER] >= 0:
            total = ln_add(total, registers[program[at + OTHER]])
        registers[instruction] = total
    sides, ln_distances = int64_at(words[SIDES]), float64_at(words[LN_DISTANCES])
    found = words[COMPARISONS]
    for comparison in range(words[COMPARISONS]):
        at = 3 * comparison
        left, right = registers[sides[at]], registers[sides[at + 1]]
        if is_violated(left, right, sides[at + 2], ln_distances[comparison]):
            found = comparison
            break
    return found
