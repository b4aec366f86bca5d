"""Runs that may skip nothing, variable after variable for all of them. Imported only where it is compiled.

A run that starts at place p binds its variable v at place p + v, or ends: what it binds need not be noted, and one pass
over the runs that are left tests one condition. `contiguous.py` calls it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import carray, njit

from cep_pipeline.detection.instances.codes import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, UNEQUAL
from cep_pipeline.detection.nfab.codes import AGREEING, SLOT, STRICT
from cep_pipeline.detection.nfab.kernel import conjunct_holds


@njit(error_model="numpy")
def keep_compared(
    comparator: int, number: int, begun: Any, left: Any, right: Any, one: int, other: int, alive: Any
) -> int:
    """Keep the runs of which `left[start + one]` compares with `right[start + other]`; returns how many there are.

    Half of the runs may fail in any order, which no processor foresees: so there is no branch. NaN is in no order.
    """
    less = comparator in (LESS, LESS_EQUAL, UNEQUAL)
    same = comparator in (LESS_EQUAL, GREATER_EQUAL, EQUAL)
    more = comparator in (GREATER, GREATER_EQUAL, UNEQUAL)
    kept = 0
    for index in range(number):
        run = alive[index]
        start = begun[run]
        x, y = left[start + one], right[start + other]
        alive[kept] = run
        kept += (less & (x < y)) | (same & (x == y)) | (more & (x > y))
    return kept


@njit(error_model="numpy")
def keep_holding(
    number: int,
    begun: Any,
    program: Any,
    at: int,
    bound: Any,
    variable: int,
    columns: Any,
    size: int,
    stack: Any,
    most: int,
    alive: Any,
) -> int:
    """Keep the runs on which the conjunct at `program[at]` holds; returns how many there are."""
    if program[at] == 1 and program[at + 2] == 1:
        left = at + 6  # behind the alternative's two words and the test's three
        right, end = program[at + 4], program[at + 5]
        if right == left + 3 and end == right + 3 and program[left] == SLOT and program[right] == SLOT:
            one = program[left + 2] * size + program[left + 1]
            other = program[right + 2] * size + program[right + 1]
            return keep_compared(program[at + 3], number, begun, columns, columns, one, other, alive)
    kept = 0
    for index in range(number):
        run = alive[index]
        start = begun[run]
        for earlier in range(variable):
            bound[earlier] = start + earlier
        alive[kept] = run
        if conjunct_holds(program, at, bound, variable, start + variable, columns, size, stack, most):
            kept += 1
    return kept


@njit(error_model="numpy")
def keep_within(
    number: int,
    begun: Any,
    variable: int,
    ends: Any,
    instants: Any,
    width: int,
    rows: Any,
    end_row: int,
    alive: Any,
    ended: Any,
    expired: Any,
) -> int:
    """Keep the runs that read an event for a variable, and note its row; the others have expired.

    `expired[0]` is their number, behind which they stand.
    """
    kept = 0
    for index in range(number):
        run = alive[index]
        start = begun[run]
        place = start + variable
        if place >= ends[run] or instants[place] - instants[start] > width or rows[place] >= end_row:
            expired[0] += 1
            expired[expired[0]] = run
            continue
        ended[run] = rows[place]
        alive[kept] = run
        kept += 1
    return kept


def follow(
    runs: int,
    variables: int,
    size: int,
    options: int,
    width: int,
    end_row: int,
    rows_at: Any,
    times_at: Any,
    instants_at: Any,
    keys_at: Any,
    fits_at: Any,
    columns_at: Any,
    column_words: int,
    program_at: Any,
    program_words: int,
    tests_at: Any,
    begun_at: Any,
    ends_at: Any,
    alive_at: Any,
    ended_at: Any,
    expired_at: Any,
    bound_at: Any,
    counts_at: Any,
    nodes: int,
    stack_at: Any,
    most: int,
) -> int:
    """Follow all runs of a chain to their ends.

    Parameters
    ----------
    runs, variables, size, options, width, end_row, rows, times, instants, keys, fits, columns, program, tests
        As for `kernel.advance`.
    begun, ends
        Of each run: the place of its first event, and the place behind the last that it reads.
    alive
        Numbers of the runs that are left: of those that have a match, in the end.
    ended
        Of each run: the row of the event that it ended with; of those that have expired, the last that it read.
    expired
        The number of the runs that have expired, and which they are.
    bound
        Room for a place of each variable.
    counts, nodes, stack, most
        As for `kernel.advance`.

    Returns
    -------
    int
        How many runs have a match.
    """
    rows = carray(rows_at, (size,))
    times = carray(times_at, (size,))
    instants = carray(instants_at, (size,))
    keys = carray(keys_at, (size,))
    fits = carray(fits_at, (variables, size))
    columns = carray(columns_at, (column_words,))
    program = carray(program_at, (program_words,))
    tests = carray(tests_at, (variables + 1,))
    tests = carray(tests_at, (tests[variables] + 1,))
    begun = carray(begun_at, (runs,))
    ends = carray(ends_at, (runs,))
    alive = carray(alive_at, (runs,))
    ended = carray(ended_at, (runs,))
    expired = carray(expired_at, (runs + 1,))
    bound = carray(bound_at, (variables,))
    counts = carray(counts_at, (2 * nodes + 1,))
    stack = carray(stack_at, (1,))
    number = runs
    for run in range(runs):
        alive[run] = run
        ended[run] = rows[begun[run]]
    expired[0] = 0
    for variable in range(1, variables):
        number = keep_within(number, begun, variable, ends, instants, width, rows, end_row, alive, ended, expired)
        kept = 0
        for index in range(number):
            run = alive[index]
            alive[kept] = run
            kept += fits[variable, begun[run] + variable] != 0
        number = kept
        if options & AGREEING:
            number = keep_compared(EQUAL, number, begun, keys, keys, 0, variable, alive)
        if options & STRICT:
            number = keep_compared(LESS, number, begun, times, times, variable - 1, variable, alive)
        node = variable if nodes > 1 else 0
        counts[2 * node] += number
        for test in range(tests[variable], tests[variable + 1]):
            counts[2 * nodes] += number
            at = tests[test] + 1 + program[tests[test]]
            number = keep_holding(number, begun, program, at, bound, variable, columns, size, stack, most, alive)
        counts[2 * node + 1] += number
    return number
