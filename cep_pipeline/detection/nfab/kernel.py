"""The loops of deterministic runs, written in Numba. Imported only where they are compiled; `runs.py` calls them.

An event is named by its place in the sequence that runs read (`stream.py`), a variable by its number in pattern order.
Column `slot` of the conditions is `columns[slot * size:]`. `advance` follows each run on its own. `follow` is for runs
that may skip nothing: a run that starts at place p binds its variable v at place p + v, or ends, so that the events it
binds need not be noted, and one pass over the runs that are left tests one condition.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

from numba import carray, njit

from cep_pipeline.detection.instances.codes import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, UNEQUAL
from cep_pipeline.detection.instances.interpreter import compare
from cep_pipeline.detection.nfab.run_words import (
    ABSOLUTE,
    ACCEPTED,
    AGREEING,
    CHAIN,
    COMPARES_CLOCKS,
    CONSTANT,
    CONTIGUOUS,
    DIVIDE,
    EXPIRED,
    KILLED,
    MATCHED,
    MINUS,
    NEGATIVE,
    PENDING,
    PLUS,
    REJECTED,
    ROOT,
    RUNNING,
    SLOT,
    TIMES,
)


@njit(error_model="numpy")
def term_value(
    program: Any,
    at: int,
    end: int,
    bound: Any,
    variable: int,
    place: int,
    columns: Any,
    size: int,
    stack: Any,
    base: int,
) -> float:
    """The value of the postfix term at `program[at:end]`, computed in `stack[base:]`; constants follow the columns."""
    top = base
    while at < end:
        operator = program[at]
        if operator == SLOT:
            owner = program[at + 1]
            where = place if owner == variable else bound[owner]
            stack[top] = columns[program[at + 2] * size + where]
            top += 1
        elif operator == CONSTANT:
            stack[top] = columns[program[at + 2]]
            top += 1
        elif operator == NEGATIVE:
            stack[top - 1] = -stack[top - 1]
        elif operator == ABSOLUTE:
            stack[top - 1] = abs(stack[top - 1])
        elif operator == ROOT:
            stack[top - 1] = math.sqrt(stack[top - 1])  # NaN below zero
        else:
            top -= 1
            left, right = stack[top - 1], stack[top]
            if operator == PLUS:
                stack[top - 1] = left + right
            elif operator == MINUS:
                stack[top - 1] = left - right
            elif operator == TIMES:
                stack[top - 1] = left * right
            elif operator == DIVIDE:
                # Division by zero is null.
                stack[top - 1] = left / right if right != 0.0 else right / right
        at += 3
    return float(stack[base])


@njit(error_model="numpy")
def conjunct_holds(
    program: Any, at: int, bound: Any, variable: int, place: int, columns: Any, size: int, stack: Any, base: int
) -> bool:
    """Test whether an alternative of a conjunct holds, whose words (see `runs.py`) begin at `at`."""
    alternatives = program[at]
    at += 1
    for _ in range(alternatives):
        behind = program[at]
        tests = program[at + 1]
        at += 2
        holds = True
        for _ in range(tests):
            comparator, middle, end = program[at], program[at + 1], program[at + 2]
            at += 3
            if middle == at + 3 and end == middle + 3 and program[at] == SLOT and program[middle] == SLOT:
                owner = program[at + 1]
                left = columns[program[at + 2] * size + (place if owner == variable else bound[owner])]
                owner = program[middle + 1]
                right = columns[program[middle + 2] * size + (place if owner == variable else bound[owner])]
            else:
                left = term_value(program, at, middle, bound, variable, place, columns, size, stack, base)
                right = term_value(program, middle, end, bound, variable, place, columns, size, stack, base)
            if not compare(comparator, left, right):
                holds = False
                break
            at = end
        if holds:
            return True
        at = behind
    return False


def advance(
    runs: int,
    variables: int,
    size: int,
    options: int,
    width: int,
    rows_of_slice: int,
    end_row: int,
    rows_at: Any,
    clocks_at: Any,
    instants_at: Any,
    keys_at: Any,
    fits_at: Any,
    links_at: Any,
    columns_at: Any,
    column_words: int,
    program_at: Any,
    program_words: int,
    tests_at: Any,
    scans_at: Any,
    residual_at: Any,
    begun_at: Any,
    ends_at: Any,
    places_at: Any,
    cursors_at: Any,
    tried_at: Any,
    states_at: Any,
    counts_at: Any,
    nodes: int,
    stack_at: Any,
    most: int,
) -> int:
    """Follow each run until it ends, or until a condition must be decided elsewhere.

    Parameters
    ----------
    runs, variables, size, options
        Numbers of runs, positive variables and places; the flags of `run_words.py`.
    width, rows_of_slice, end_row
        The most that instants of a match differ by; the number of events; the row before which runs end.
    rows, clocks, instants, keys
        Of each place: its row of the events, clock to compare, instant (timestamp or position) and, where they are
        compared, the code of what events agree on.
    fits, links
        [variables, size]: whether an event has the variable's type and passes the conditions on it alone; and for
        chains that skip events, the next place where it does.
    columns
        The columns of the conditions, then their constants.
    program, tests
        The conjuncts; `tests[v]` to `tests[v + 1]` are the places in `tests` of those that variable v may complete:
        where the conjunct starts, behind `variables + 1` such numbers.
    scans
        In the form of `tests`: the conjuncts of a chain that compare a column of v with what is bound before, as
        comparator, column, and the term from one place of `program` to another.
    residual
        Of each variable: whether it may complete a conjunct that the program does not hold.
    begun, ends
        Of each run: the place of its first event, and the place behind the last that it reads.
    places
        [runs, variables]: what is bound, or -1.
    cursors, tried, states
        Of each run: the place and variable where it stands, and its state.
    counts
        [nodes, 2], candidates and passes by node (the variable of a chain, the set of bound ones of an AND; node 0 if
        there are too many), then the number of conjuncts tested.
    stack, most
        Room for the bound sides of the most conjuncts that one variable has in `scans`, and for the longest term.

    Returns
    -------
    int
        How many runs wait for a decision.
    """
    rows = carray(rows_at, (size,))
    clocks = carray(clocks_at, (size,))
    instants = carray(instants_at, (size,))
    keys = carray(keys_at, (size,))
    fits = carray(fits_at, (variables, size))
    links = carray(links_at, (variables, size))
    columns = carray(columns_at, (column_words,))
    program = carray(program_at, (program_words,))
    tests = carray(tests_at, (variables + 1,))
    residual = carray(residual_at, (variables,))
    begun = carray(begun_at, (runs,))
    ends = carray(ends_at, (runs,))
    places = carray(places_at, (runs, variables))
    cursors = carray(cursors_at, (runs,))
    tried = carray(tried_at, (runs,))
    states = carray(states_at, (runs,))
    counts = carray(counts_at, (2 * nodes + 1,))
    chain, contiguous = options & CHAIN != 0, options & CONTIGUOUS != 0
    compares, agreeing = options & COMPARES_CLOCKS != 0, options & AGREEING != 0
    tests = carray(tests_at, (tests[variables] + 1,))
    scans = carray(scans_at, (variables + 1,))
    scans = carray(scans_at, (4 * scans[variables] + variables + 1,))
    stack = carray(stack_at, (1,))
    skipping = chain and not contiguous
    bounded = end_row < rows_of_slice
    skipped = 0
    evaluations = 0
    waiting = 0
    for run in range(runs):
        state = states[run]
        if state > PENDING:
            continue
        bound = places[run]
        start = begun[run]
        first_instant = instants[start]
        key = keys[start] if agreeing else 0
        end = ends[run]
        place = cursors[run]
        variable = tried[run]
        ready = -1
        number = 0
        mask = 0
        for other in range(variables):
            if bound[other] >= 0:
                number += 1
                mask |= 1 << other
        while True:
            if state == ACCEPTED:
                bound[variable] = place
                number += 1
                mask |= 1 << variable
                counts[2 * ((variable if chain else mask) if nodes > 1 else 0) + 1] += 1
                if number == variables:
                    state = MATCHED
                    break
            if state == REJECTED and not chain:
                variable += 1  # the same event may fit a later variable
            else:
                if state == REJECTED and contiguous:
                    state = KILLED
                    break
                variable = number if chain else 0
                if chain and ready != variable:
                    # What is bound stays while candidates of one variable go by: its side of a test is computed once.
                    for scan in range(scans[variable], scans[variable + 1]):
                        at = variables + 1 + 4 * scan
                        stack[scan - scans[variable]] = term_value(
                            program, scans[at + 2], scans[at + 3], bound, variable, place, columns, size, stack, most
                        )
                    ready = variable
                place = links[variable, place] if skipping else place + 1
                while True:
                    if place >= end or instants[place] - first_instant > width or (bounded and rows[place] >= end_row):
                        state = EXPIRED
                        break
                    if not skipping:
                        break
                    if compares and clocks[place] <= clocks[bound[variable - 1]]:
                        place = links[variable, place]
                        continue
                    passes = True
                    for scan in range(scans[variable], scans[variable + 1]):
                        evaluations += 1
                        at = variables + 1 + 4 * scan
                        value = columns[scans[at + 1] * size + place]
                        if not compare(scans[at], value, stack[scan - scans[variable]]):
                            passes = False
                            break
                    if passes:
                        break
                    skipped += 1
                    place = links[variable, place]
                if skipped:
                    counts[2 * (variable if nodes > 1 else 0)] += skipped
                    skipped = 0
                if state == EXPIRED:
                    break
            state = REJECTED
            last = variable + 1 if chain else variables
            while variable < last:
                if (
                    bound[variable] < 0
                    and fits[variable, place] != 0
                    and (not agreeing or keys[place] == key)
                    and not (chain and compares and clocks[place] <= clocks[bound[variable - 1]])
                ):
                    counts[2 * ((variable if chain else mask | (1 << variable)) if nodes > 1 else 0)] += 1
                    state = ACCEPTED
                    for test in range(tests[variable], tests[variable + 1]):
                        at = tests[test]
                        complete = True
                        for other in range(at + 1, at + 1 + program[at]):
                            owner = program[other]
                            if owner != variable and bound[owner] < 0:
                                complete = False
                        if not complete:
                            continue
                        evaluations += 1
                        at += 1 + program[at]
                        if not conjunct_holds(program, at, bound, variable, place, columns, size, stack, most):
                            state = REJECTED
                            break
                    if state == ACCEPTED:
                        break
                variable += 1
            if state == ACCEPTED:
                if residual[variable] != 0:
                    state = PENDING
                    waiting += 1
                    break
            elif contiguous:
                state = KILLED
                break
            elif not chain:
                variable = 0
                state = RUNNING
        states[run] = state
        cursors[run] = place
        tried[run] = variable
    counts[2 * nodes] += evaluations
    return waiting


def link(variables: int, size: int, fits_at: Any, links_at: Any) -> int:
    """For each variable and place the next place behind it that fits the variable, or `size`."""
    fits = carray(fits_at, (variables, size))
    links = carray(links_at, (variables, size))
    for variable in range(variables):
        following = size
        for place in range(size - 1, -1, -1):
            links[variable, place] = following
            if fits[variable, place] != 0:
                following = place
    return size


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
    clocks_at: Any,
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
    runs, variables, size, options, width, end_row, rows, clocks, instants, keys, fits, columns, program, tests
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
    clocks = carray(clocks_at, (size,))
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
        if options & COMPARES_CLOCKS:
            number = keep_compared(LESS, number, begun, clocks, clocks, variable - 1, variable, alive)
        node = variable if nodes > 1 else 0
        counts[2 * node] += number
        for test in range(tests[variable], tests[variable + 1]):
            counts[2 * nodes] += number
            at = tests[test] + 1 + program[tests[test]]
            number = keep_holding(number, begun, program, at, bound, variable, columns, size, stack, most, alive)
        counts[2 * node + 1] += number
    return number
