"""Sums over sets of variables, and what sides of comparisons add up of them. Imported only where it is compiled.

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
from cep_pipeline.planning.search import set_sums_codes as codes


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
    masks, values = int64_at(words[codes.FACTOR_MASKS]), float64_at(words[codes.FACTOR_VALUES])
    kind_of = int64_at(words[codes.FACTOR_KINDS])
    total = 0.0
    for factor in range(words[codes.FACTORS]):
        mask = masks[factor]
        if kind_of[factor] & kinds and mask & members == mask and not (singles and mask & words[codes.KLEENE]):
            total += values[factor]
    return total


@njit(error_model="numpy")
def ln_agreement(words: Any, members: int, singles: int) -> float:
    """The agreement of a set: each further variable counts its most selective pair with the earlier ones."""
    size = words[codes.VARIABLES]
    numbers = float64_at(words[codes.NUMBERS])
    start = 2 * size
    apart = words[codes.KLEENE] if singles else 0
    total = 0.0
    for agreement in range(words[codes.AGREEMENTS]):
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
    size = words[codes.VARIABLES]
    numbers = float64_at(words[codes.NUMBERS])
    first, last = int64_at(words[codes.FIRSTS])[place], int64_at(words[codes.LASTS])[place]
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
    """Fill the sums of all terms and sets."""
    count, size = words[codes.SETS], words[codes.VARIABLES]
    sets, constants = int64_at(words[codes.SET_MASKS]), float64_at(words[codes.CONSTANTS])
    asked, ends = int64_at(words[codes.ASKED]), float64_at(words[codes.ENDS])
    numbers, sums = float64_at(words[codes.NUMBERS]), float64_at(words[codes.SUMS])
    for term in range(words[codes.TERMS]):
        row = term * codes.ASKED_COLUMNS
        counted, kinds, singles = asked[row + codes.COUNTED], asked[row + codes.KINDS], asked[row + codes.SINGLES]
        for place in range(count):
            members = sets[place]
            total = 0.0
            rarest = np.inf
            for variable in range(size):
                if members & counted & (1 << variable):
                    total += numbers[variable]
                    rarest = min(rarest, numbers[variable])
            if asked[row + codes.RAREST]:
                total = rarest if rarest < np.inf else 0.0
            if kinds:
                total += ln_factors(words, members, kinds, singles)
            if asked[row + codes.AGREEING]:
                total += ln_agreement(words, members, singles)
            total += constants[term * count + place]
            if asked[row + codes.WITH_ENDS]:
                total = ln_add(total, ln_ends(words, place) + ends[term])
            sums[term * count + place] = total


@njit(error_model="numpy")
def ln_tests(words: Any, whole: int, left: int, right: int) -> float:
    """ln of the tests of a join, by the places of sets."""
    count = words[codes.SETS]
    sums, rows = float64_at(words[codes.SUMS]), int64_at(words[codes.ASKED])
    terms = words[codes.TERMS] * codes.ASKED_COLUMNS  # behind what is asked of the terms stand their rows
    both = 0.0
    if rows[terms + codes.PRODUCT] >= 0:
        product = rows[terms + codes.PRODUCT] * count
        both = sums[product + left] + sums[product + right]
    total = sums[rows[terms + codes.PAIR] * count + whole] + both
    if rows[terms + codes.TUPLES] >= 0:
        within, passing = float64_at(words[codes.WITHIN]), rows[terms + codes.PASSING] * count
        new = within[whole] - within[left] - within[right]
        if new > 0.0:
            found = sums[rows[terms + codes.TUPLES] * count + whole] + sums[passing + left] + sums[passing + right]
            total = ln_add(total, found + math.log(new))
    return total


@njit(error_model="numpy")
def charged(words: Any, at: int) -> float:
    """The charge of an instruction for joining two sets."""
    count = words[codes.SETS]
    program, sums = int64_at(words[codes.PROGRAM]), float64_at(words[codes.SUMS])
    rows, sets = int64_at(words[codes.ASKED]), int64_at(words[codes.SET_MASKS])
    terms = words[codes.TERMS] * codes.ASKED_COLUMNS  # behind what is asked of the terms stand their rows
    whole, left, right, flags = (
        program[at + codes.WHOLE],
        program[at + codes.LEFT],
        program[at + codes.RIGHT],
        program[at + codes.FLAGS],
    )
    total = -np.inf
    if flags & codes.CHARGES_PAIR:
        total = ln_tests(words, whole, left, right)
    if flags & codes.CHARGES_HELD:
        held = rows[terms + codes.HELD] * count
        total = ln_add(total, sums[held + left])
        total = ln_add(total, sums[held + right])
    if flags & (codes.CHARGES_STEP_DELAY | codes.CHARGES_JOIN_DELAY):
        delay, last = rows[terms + codes.DELAY] * count, words[codes.LAST]
        if sets[left] >> last & 1:
            total = ln_add(total, sums[delay + right])
        elif flags & codes.CHARGES_JOIN_DELAY and sets[right] >> last & 1:
            total = ln_add(total, sums[delay + left])
    if flags & codes.CHARGES_NODE:
        total = ln_add(sums[rows[terms + codes.NODE] * count + whole], total)
    return total


def measure(words_at: Any) -> int:
    """Fill the sums and run the program, by the words at an address; the number of its instructions."""
    words = carray(words_at, codes.WORDS)
    add_up(words)
    program, registers = int64_at(words[codes.PROGRAM]), float64_at(words[codes.REGISTERS])
    numbers = float64_at(words[codes.NUMBERS])
    for instruction in range(words[codes.INSTRUCTIONS]):
        at = instruction * codes.COLUMNS
        if program[at + codes.FLAGS] & codes.IS_NUMBER:
            registers[instruction] = numbers[program[at + codes.RIGHT]]
            continue
        total = charged(words, at)
        if program[at + codes.ONE] >= 0:
            total = ln_add(total, registers[program[at + codes.ONE]])
        if program[at + codes.OTHER] >= 0:
            total = ln_add(total, registers[program[at + codes.OTHER]])
        registers[instruction] = total
    return words[codes.INSTRUCTIONS]
