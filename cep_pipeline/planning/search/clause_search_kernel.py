"""Searches of planners over a clause of few variables. Imported only where it is compiled.

Each search is that of the planner of its name, in logarithms: by the sums of `sums.LogTables`, taken in the order in
which checks of its plans take them. Where two sides of a comparison are so close that planners measure them anew, it
gives up.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, int64_at
from cep_pipeline.planning.search import clause_search_codes as codes
from cep_pipeline.planning.search import set_sums_codes as sum_codes
from cep_pipeline.planning.search.set_sums_kernel import add_up, ln_add, ln_tests

CLOSE = 100 * sum_codes.GRAIN
LN_2 = math.log(2)


@njit(error_model="numpy")
def cell(logarithm: float) -> float:
    """The cell of a logarithm, as `orderings.grains`."""
    return np.rint(logarithm / sum_codes.GRAIN)


@njit(error_model="numpy")
def gather(words: Any) -> None:
    """Write the numbers of the clause from the row of a snapshot, as `ClauseQuestions.flat` has them."""
    sums_at = int64_at(words[codes.SUMS_AT])
    row, priors, places = (
        float64_at(words[codes.ROW_AT]),
        float64_at(words[codes.PRIORS_AT]),
        int64_at(words[codes.PLACES_AT]),
    )
    window_us = float64_at(words[codes.WINDOW_AT])[0]
    numbers, shares = float64_at(sums_at[sum_codes.NUMBERS]), float64_at(sums_at[sum_codes.FACTOR_VALUES])
    size = sums_at[sum_codes.VARIABLES]
    for variable in range(size):
        events = max(row[places[variable]] * window_us / 1e6, codes.SMALLEST)
        ln_events = math.log(events)
        numbers[variable], numbers[size + variable] = ln_events, ln_events
        if sums_at[sum_codes.KLEENE] >> variable & 1:  # lists
            exponent = events * LN_2
            numbers[variable] = exponent + math.log(-math.expm1(-exponent))
    for factor in range(sums_at[sum_codes.FACTORS]):
        place = places[size + factor]
        shares[factor] = math.log(max(row[place] if place >= 0 else priors[size + factor], codes.SMALLEST))


@njit(error_model="numpy")
def ln_own(sums_at: Any, left: int, right: int) -> float:
    """ln of the tests of a join, as `LogTables.ln_own` of a model that charges nodes and tests only."""
    if int64_at(sums_at[sum_codes.ASKED])[sums_at[sum_codes.TERMS] * sum_codes.ASKED_COLUMNS + sum_codes.PAIR] < 0:
        return -np.inf
    return ln_tests(sums_at, left | right, left, right)


@njit(error_model="numpy")
def ln_node(sums_at: Any, members: int) -> float:
    """ln of the node of a set."""
    rows, sums = int64_at(sums_at[sum_codes.ASKED]), float64_at(sums_at[sum_codes.SUMS])
    return sums[
        rows[sums_at[sum_codes.TERMS] * sum_codes.ASKED_COLUMNS + sum_codes.NODE] * sums_at[sum_codes.SETS] + members
    ]


@njit(error_model="numpy")
def ln_joined(sums_at: Any, left: int, right: int) -> float:
    """ln of a join or step, as `LogTables.ln_join`; with nothing on the left the node of a leaf or first step."""
    return ln_add(ln_node(sums_at, left | right), ln_own(sums_at, left, right) if left else -np.inf)


@njit(error_model="numpy")
def compare(found: Any, measure: int, block: int, where: int, chosen: int, rejected: int, wins_ties: int) -> int:
    """Note a comparison; its place."""
    place = found[codes.COMPARED]
    row = codes.ROWS + place * codes.ROW
    found[row + codes.MEASURE], found[row + codes.BLOCK], found[row + codes.WHERE] = measure, block, where
    found[row + codes.CHOSEN], found[row + codes.REJECTED], found[row + codes.WINS_TIES] = chosen, rejected, wins_ties
    found[codes.COMPARED] = place + 1
    return place


@njit(error_model="numpy")
def greedy(sums_at: Any, found: Any, logs: Any) -> None:
    """Search by `greedy.greedy_order`."""
    size = sums_at[sum_codes.VARIABLES]
    bound = 0
    for step in range(size):
        chosen, least = -1, np.inf
        for position in range(size):
            if not bound >> position & 1:
                ln_step = ln_joined(sums_at, bound, 1 << position)
                logs[codes.LN_WAYS + position] = ln_step
                if cell(ln_step) < least:
                    chosen, least = position, cell(ln_step)
        for rejected in range(size):
            if rejected != chosen and not bound >> rejected & 1:
                place = compare(found, codes.STEP, step, bound, chosen, rejected, int(chosen < rejected))
                logs[codes.LN_SIDES + 2 * place] = logs[codes.LN_WAYS + chosen]
                logs[codes.LN_SIDES + 2 * place + 1] = logs[codes.LN_WAYS + rejected]
        found[codes.ORDER + step] = chosen
        bound |= 1 << chosen


@njit(error_model="numpy")
def compare_ways(
    found: Any, logs: Any, measure: int, block: int, where: int, chosen: int, first: int, stop: int, members: int
) -> int:
    """Compare the ways in `[first, stop)` that are in a set, as `orderings.comparisons_of_block` does.

    Ways with the larger number win ties. True if it gives up.
    """
    own = logs[codes.LN_WAYS + chosen]
    begin = found[codes.COMPARED]
    for way in range(stop - 1, first - 1, -1):
        if way == chosen or not members >> way & 1:
            continue
        ln_way = logs[codes.LN_WAYS + way]
        if abs(own - ln_way) < CLOSE:
            return 1
        place = compare(found, measure, block, where, chosen, way, int(chosen > way))
        logs[codes.LN_SIDES + 2 * place] = own
        while place > begin and ln_way < logs[codes.LN_SIDES + 2 * place - 1]:  # ascending; of equal ones as they come
            for column in range(codes.ROW):
                row = codes.ROWS + place * codes.ROW + column
                found[row], found[row - codes.ROW] = found[row - codes.ROW], found[row]
            logs[codes.LN_SIDES + 2 * place + 1] = logs[codes.LN_SIDES + 2 * place - 1]
            place -= 1
        logs[codes.LN_SIDES + 2 * place + 1] = ln_way
    return 0


@njit(error_model="numpy")
def orders(sums_at: Any, found: Any, logs: Any) -> int:
    """Search by the dynamic program of `dp_left_deep`, in logarithms; true if it gives up."""
    size = sums_at[sum_codes.VARIABLES]
    for members in range(1, 1 << size):
        if members & (members - 1) == 0:
            logs[codes.LN_BEST + members] = ln_node(sums_at, members)
            last = 0
            while members >> (last + 1):
                last += 1
            found[codes.TABLE + members] = last
            continue
        least = ln_last(sums_at, found, logs, members)
        logs[codes.LN_BEST + members] = ln_add(ln_node(sums_at, members), least)
    members = (1 << size) - 1
    for step in range(size - 1, -1, -1):
        found[codes.ORDER + step] = found[codes.TABLE + members]
        members ^= 1 << found[codes.TABLE + members]
    members = 1 << found[codes.ORDER]
    for step in range(1, size):
        members |= 1 << found[codes.ORDER + step]
        ln_last(sums_at, found, logs, members)
        if compare_ways(found, logs, codes.COST, step, members, found[codes.ORDER + step], 0, size, members):
            return 1
    return 0


@njit(error_model="numpy")
def ln_last(sums_at: Any, found: Any, logs: Any, members: int) -> float:
    """Write the ways to build a set, by the variable that is bound last, and the best one; ln of the least."""
    least, least_cell, last = np.inf, np.inf, -1
    for position in range(sums_at[sum_codes.VARIABLES]):
        bit = 1 << position
        if members & bit:
            rest = members ^ bit
            below = ln_add(logs[codes.LN_BEST + rest], ln_own(sums_at, rest, bit))
            logs[codes.LN_WAYS + position] = below
            least = min(least, below)
            if cell(below) <= least_cell:
                least_cell, last = cell(below), position
    found[codes.TABLE + members] = last
    return least


@njit(error_model="numpy")
def leaves_of(found: Any, first: int, last: int) -> int:
    """The set of a range of leaves."""
    members = 0
    for place in range(first, last + 1):
        members |= 1 << found[codes.ORDER + place]
    return members


@njit(error_model="numpy")
def ln_split(sums_at: Any, found: Any, logs: Any, first: int, last: int) -> float:
    """Write the ways to split a range, by the last leaf of the left side, and the best one; ln of the least."""
    least, least_cell, chosen = np.inf, np.inf, -1
    for middle in range(last - 1, first - 1, -1):
        sides = ln_add(
            logs[codes.LN_BEST + first * codes.MOST + middle], logs[codes.LN_BEST + (middle + 1) * codes.MOST + last]
        )
        left, right = leaves_of(found, first, middle), leaves_of(found, middle + 1, last)
        below = ln_add(sides, ln_own(sums_at, left, right))
        logs[codes.LN_WAYS + middle] = below
        least = min(least, below)
        if cell(below) < least_cell:
            least_cell, chosen = cell(below), middle
    found[codes.TABLE + first * codes.MOST + last] = chosen
    return least


@njit(error_model="numpy")
def ranges(sums_at: Any, found: Any, logs: Any) -> int:
    """Search by the dynamic program of `zstream`, in logarithms; true if it gives up."""
    size = sums_at[sum_codes.VARIABLES]
    for place in range(size):
        logs[codes.LN_BEST + place * codes.MOST + place] = -np.inf
    for length in range(2, size + 1):
        for first in range(size - length + 1):
            last = first + length - 1
            least = ln_split(sums_at, found, logs, first, last)
            logs[codes.LN_BEST + first * codes.MOST + last] = ln_add(
                ln_node(sums_at, leaves_of(found, first, last)), least
            )
    note_joins(found, size)
    for block in range(size - 1):
        one = found[codes.JOINS + block]
        first, last = one // codes.MOST, one % codes.MOST
        if last - first > 1:
            ln_split(sums_at, found, logs, first, last)
            if compare_ways(found, logs, codes.TREE, block, one, found[codes.TABLE + one], first, last, -1):
                return 1
    return 0


@njit(error_model="numpy")
def note_joins(found: Any, size: int) -> None:
    """Write the ranges of the tree's joins, as `orderings.joins_of` has them: from the leaves up."""
    top = codes.JOINS + 2 * codes.MOST  # below it those that wait
    place, waiting = size - 2, 0
    if size > 1:
        found[top - 1] = size - 1
        waiting = 1
    while waiting:
        one = found[top - waiting]
        waiting -= 1
        first, middle, last = one // codes.MOST, found[codes.TABLE + one], one % codes.MOST
        found[codes.JOINS + place] = one
        place -= 1
        if middle > first:
            waiting += 1
            found[top - waiting] = first * codes.MOST + middle
        if last > middle + 1:
            waiting += 1
            found[top - waiting] = (middle + 1) * codes.MOST + last


@njit(error_model="numpy")
def note_plan(sums_at: Any, found: Any, of_tree: int) -> None:
    """Write the plan by the sets that it joins: an order's steps; a tree's leaves, and its joins from the leaves up."""
    size = sums_at[sum_codes.VARIABLES]
    bound = 0
    for place in range(size):
        own = 1 << found[codes.ORDER + place]
        found[codes.PLAN + 2 * place], found[codes.PLAN + 2 * place + 1] = 0 if of_tree else bound, own
        bound |= own
    found[codes.NODES] = size
    if of_tree:
        for block in range(size - 1):
            one = found[codes.JOINS + block]
            first, middle, last = one // codes.MOST, found[codes.TABLE + one], one % codes.MOST
            at = codes.PLAN + 2 * (size + block)
            found[at], found[at + 1] = leaves_of(found, first, middle), leaves_of(found, middle + 1, last)
        found[codes.NODES] = 2 * size - 1


def search(words_at: Any) -> int:
    """Find the plan of a clause, and what decided it; 1 where it gives up."""
    words = carray(words_at, codes.SEARCH_WORDS)
    sums_at, found, logs = (
        int64_at(words[codes.SUMS_AT]),
        int64_at(words[codes.FOUND_AT]),
        float64_at(words[codes.LOGS_AT]),
    )
    if words[codes.GATHERS]:
        gather(words)
    add_up(sums_at)
    planner = words[codes.PLANNER]
    found[codes.COMPARED] = 0
    given_up = 0
    if planner == codes.DP_LEFT_DEEP:
        given_up = orders(sums_at, found, logs)
    elif planner == codes.ZSTREAM:
        for place in range(sums_at[sum_codes.VARIABLES]):
            found[codes.ORDER + place] = place
    else:
        greedy(sums_at, found, logs)
    of_tree = int(planner in (codes.ZSTREAM, codes.ZSTREAM_ORDERED))
    if of_tree:
        given_up = ranges(sums_at, found, logs)
    if not given_up:
        note_plan(sums_at, found, of_tree)
    return given_up


def price(words_at: Any) -> int:
    """Write what each step or node of a plan costs, by the sums that were taken last; their number."""
    words = carray(words_at, codes.SEARCH_WORDS)
    sums_at, plan, logs = (
        int64_at(words[codes.SUMS_AT]),
        int64_at(words[codes.PLAN_AT]),
        float64_at(words[codes.LOGS_AT]),
    )
    for node in range(plan[codes.NODES]):
        logs[codes.LN_NODES + node] = ln_joined(sums_at, plan[codes.PLAN + 2 * node], plan[codes.PLAN + 2 * node + 1])
    return plan[codes.NODES]
