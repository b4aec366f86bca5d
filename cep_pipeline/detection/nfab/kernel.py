"""The loops of deterministic runs, written in Numba. Imported only where they are compiled; `runs.py` calls them.

An event is named by its place in the sequence that runs read (`stream.py`), a variable by its number in pattern order.
There is a kernel for each way in which runs bind events: `skip` for chains whose runs may skip events, `follow` for
chains whose runs may skip none, `gather` for AND, whose variables bind events in any order. Conditions are tested by
the interpreter of all kernels over instances (`instances`), or, where they compare two columns, right here.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at, further
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.cells import Cells, cells_at
from cep_pipeline.detection.instances.interpreter import code_at, compare, conjunct_holds, group_holds
from cep_pipeline.detection.instances.searching import bound_side
from cep_pipeline.detection.instances.terms import Code
from cep_pipeline.detection.nfab.run_words import (
    AGREEING,
    CELLS,
    COMPARES_CLOCKS,
    CONTIGUOUS,
    EXPIRED,
    KILLED,
    MATCHED,
)

TOGETHER = 1 << 12
"""Runs that `follow` tests one condition after another: what it reads of them stays in the cache."""


def skip(
    runs: int,
    variables: int,
    size: int,
    options: int,
    width: int,
    end_row: int,
    rows: Any,
    clocks: Any,
    instants: Any,
    links: Any,
    words: Any,
    groups: Any,
    begun: Any,
    ends: Any,
    slots: Any,
    ended: Any,
    states: Any,
    counts: Any,
    columns: Any,
    bounds: Any,
) -> int:
    """Follow each run of a chain that may skip events to its end.

    Parameters
    ----------
    runs, variables, size, options
        Numbers of runs, positive variables and places; the flags of `run_words.py`.
    width, end_row
        The most that instants of a match differ by; the row before which runs end.
    rows, clocks, instants
        Of each place: its row of the events, clock to compare, and instant (timestamp or position).
    links
        [variables, size]: the next place whose event has the variable's type and passes the conditions on it alone.
    words, groups
        The program of the conditions (`run_words.py`), and of each variable the group that it completes.
    begun, ends
        Of each run: the place of its first event, and the place behind the last that it reads.
    slots
        [runs, variables]: the rows that are bound, the first of them when this is called.
    ended, states
        Of each run: the row of the event that it ended with, and its state.
    counts
        [variables, 2], candidates and passes of each variable.
    columns, bounds
        Room for two words and a value of each conjunct of a variable.

    Returns
    -------
    int
        The number of runs.
    """
    code, cells = code_at(words, 0), cells_at(words, CELLS)
    compares = options & COMPARES_CLOCKS != 0
    evaluations = 0
    for run in range(runs):
        place, end, base = begun[run], ends[run], run * variables
        first_instant = instants[place]
        state = MATCHED
        for variable in range(1, variables):
            clock = clocks[place] if compares else 0
            item = code.groups[groups[variable]] * codes.ITEM_WORDS
            behind = code.groups[groups[variable] + 1] * codes.ITEM_WORDS
            # What is bound stays while candidates of one variable go by: its side of a comparison is read once.
            direct = 0
            while item < behind and code.items[item] == codes.COMPARE_SLOTS:
                comparator, own, bounds[direct] = bound_side(code.items, item, variable, slots, base)
                columns[2 * direct], columns[2 * direct + 1] = comparator, own
                direct += 1
                item += codes.ITEM_WORDS
            candidates = 0
            place = links[variable * size + place]
            while True:
                if place >= end or instants[place] - first_instant > width or rows[place] >= end_row:
                    state = EXPIRED
                    break
                if not compares or clocks[place] > clock:
                    candidates += 1
                    row = rows[place]
                    passes = True
                    for test in range(direct):
                        evaluations += 1
                        if not compare(columns[2 * test], float64_at(columns[2 * test + 1])[row], bounds[test]):
                            passes = False
                            break
                    if passes:
                        slots[base + variable] = row
                        further = item
                        while passes and further < behind:
                            evaluations += 1
                            passes = conjunct_holds(
                                code, cells, code.items[further + 1], code.items[further + 2], slots, base
                            )
                            further += codes.ITEM_WORDS
                        if passes:
                            break
                place = links[variable * size + place]
            counts[2 * variable] += candidates
            if state == EXPIRED:
                break
            counts[2 * variable + 1] += 1
        states[run] = state
        ended[run] = rows[min(place, size - 1)]
    code.counts[0] += evaluations
    return runs


def gather(
    runs: int,
    variables: int,
    size: int,
    options: int,
    width: int,
    end_row: int,
    rows: Any,
    instants: Any,
    keys: Any,
    fits: Any,
    words: Any,
    tests: Any,
    begun: Any,
    ends: Any,
    slots: Any,
    ended: Any,
    states: Any,
    counts: Any,
    nodes: int,
) -> int:
    """Follow each run of an AND to its end: an event goes to the first variable that takes it.

    Parameters
    ----------
    runs, variables, size, options, width, end_row, rows, instants, words, begun, ends, slots, ended, states
        As for `skip`; no slots are bound when this is called.
    keys
        Of each place, where keys are compared: the code of what events agree on.
    fits
        [variables, size]: whether an event has the variable's type and passes the conditions on it alone.
    tests
        `tests[v]` to `tests[v + 1]` are the places in `tests` where the conjuncts are named that variable v may
        complete. There the group of the conjunct stands, the number of its variables, and the variables.
    counts, nodes
        [nodes, 2], candidates and passes by the set of bound variables; of node 0 alone if there are too many.

    Returns
    -------
    int
        The number of runs.
    """
    code, cells = code_at(words, 0), cells_at(words, CELLS)
    agreeing, contiguous = options & AGREEING != 0, options & CONTIGUOUS != 0
    for run in range(runs):
        place, end, base = begun[run], ends[run], run * variables
        first_instant, key = instants[place], keys[place] if agreeing else 0
        for variable in range(variables):
            slots[base + variable] = -1
        number = mask = 0
        while True:
            if place >= end or instants[place] - first_instant > width or rows[place] >= end_row:
                state = EXPIRED
                break
            taker = -1
            for variable in range(variables):
                if (
                    slots[base + variable] >= 0
                    or fits[variable * size + place] == 0
                    or (agreeing and number > 0 and keys[place] != key)
                ):
                    continue
                node = mask | (1 << variable) if nodes > 1 else 0
                counts[2 * node] += 1
                slots[base + variable] = rows[place]
                if _completed_hold(code, cells, tests, variable, slots, base):
                    counts[2 * node + 1] += 1
                    mask = node
                    taker = variable
                    break
                slots[base + variable] = -1
            if taker >= 0:
                number += 1
                if number == variables:
                    state = MATCHED
                    break
            elif contiguous:
                state = KILLED
                break
            place += 1
        states[run] = state
        ended[run] = rows[min(place, size - 1)]
    return runs


@njit(error_model="numpy")
def _completed_hold(code: Code, cells: Cells, tests: Any, variable: int, slots: Any, base: int) -> bool:
    """True if the conjuncts hold that a variable has completed."""
    for test in range(tests[variable], tests[variable + 1]):
        at = tests[test]
        complete = True
        for other in range(at + 2, at + 2 + tests[at + 1]):
            complete &= slots[base + tests[other]] >= 0
        if complete and not group_holds(code, cells, tests[at], slots, base):
            return False
    return True


def link(variables: int, size: int, fits_at: Any, links_at: Any) -> int:
    """Write for each variable and place the next place behind it that fits the variable, or `size`."""
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
def _keep_compared(
    comparator: int, number: int, begun: Any, left: Any, right: Any, one: Any, other: Any, alive: Any
) -> int:
    """Keep the runs of which `left[one[start]]` compares with `right[other[start]]`; returns how many there are.

    Half of the runs may fail in any order, which no processor foresees: so there is no branch. NaN is in no order.
    """
    less = comparator in (codes.LESS, codes.LESS_EQUAL, codes.UNEQUAL)
    same = comparator in (codes.LESS_EQUAL, codes.GREATER_EQUAL, codes.EQUAL)
    more = comparator in (codes.GREATER, codes.GREATER_EQUAL, codes.UNEQUAL)
    kept = 0
    for index in range(number):
        run = alive[index]
        start = begun[run]
        x, y = left[one[start]], right[other[start]]
        alive[kept] = run
        kept += (less & (x < y)) | (same & (x == y)) | (more & (x > y))
    return kept


@njit(error_model="numpy")
def _keep_equal(number: int, begun: Any, keys: Any, variable: int, alive: Any) -> int:
    """Keep the runs whose event for a variable has the key of their first; returns how many there are."""
    kept = 0
    for index in range(number):
        run = alive[index]
        alive[kept] = run
        kept += keys[begun[run] + variable] == keys[begun[run]]
    return kept


@njit(error_model="numpy")
def _keep_later(number: int, begun: Any, clocks: Any, variable: int, alive: Any) -> int:
    """Keep the runs whose event for a variable has a greater clock than the one before; returns how many there are."""
    kept = 0
    for index in range(number):
        run = alive[index]
        alive[kept] = run
        kept += clocks[begun[run] + variable] > clocks[begun[run] + variable - 1]
    return kept


@njit(error_model="numpy")
def _keep_holding(
    number: int, begun: Any, rows: Any, code: Code, cells: Cells, item: int, variable: int, bound: Any, alive: Any
) -> int:
    """Keep the runs on which a conjunct of a variable holds; returns how many there are."""
    items = code.items
    if items[item] == codes.COMPARE_SLOTS:
        left, right = float64_at(items[item + 2]), float64_at(items[item + 4])
        one, other = further(rows, items[item + 3]), further(rows, items[item + 5])
        return _keep_compared(items[item + 1], number, begun, left, right, one, other, alive)
    kept = 0
    for index in range(number):
        run = alive[index]
        for earlier in range(variable + 1):
            bound[earlier] = rows[begun[run] + earlier]
        alive[kept] = run
        kept += conjunct_holds(code, cells, items[item + 1], items[item + 2], bound, 0)
    return kept


@njit(error_model="numpy")
def _keep_within(
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
    rows: Any,
    clocks: Any,
    instants: Any,
    keys: Any,
    fits: Any,
    words: Any,
    groups: Any,
    begun: Any,
    ends: Any,
    bound: Any,
    alive: Any,
    ended: Any,
    expired: Any,
    counts: Any,
) -> int:
    """Follow all runs of a chain that may skip nothing to their ends, one variable and one condition after another.

    A run that starts at place p binds its variable v at place p + v, or ends, so that the events it binds need not be
    noted.

    Parameters
    ----------
    runs, variables, size, options, width, end_row, rows, clocks, instants, words, groups, begun, ends, counts
        As for `skip`.
    keys, fits
        As for `gather`.
    bound
        Room for a row of each variable.
    alive
        Numbers of the runs that are left: of those that have a match, in the end.
    ended
        Of each run: the row of the event that it ended with; of those that have expired, the last that it read.
    expired
        The number of the runs that have expired, and which they are.

    Returns
    -------
    int
        How many runs have a match.
    """
    code, cells = code_at(words, 0), cells_at(words, CELLS)
    agreeing, compares = options & AGREEING != 0, options & COMPARES_CLOCKS != 0
    matches = 0
    expired[0] = 0
    for first in range(0, runs, TOGETHER):
        left = further(alive, matches)
        number = min(TOGETHER, runs - first)
        for index in range(number):
            left[index] = first + index
            ended[first + index] = rows[begun[first + index]]
        for variable in range(1, variables):
            number = _keep_within(number, begun, variable, ends, instants, width, rows, end_row, left, ended, expired)
            kept = 0
            for index in range(number):
                run = left[index]
                left[kept] = run
                kept += fits[variable * size + begun[run] + variable] != 0
            if agreeing:
                kept = _keep_equal(kept, begun, keys, variable, left)
            if compares:
                kept = _keep_later(kept, begun, clocks, variable, left)
            number = kept
            counts[2 * variable] += number
            for item in range(code.groups[groups[variable]], code.groups[groups[variable] + 1]):
                code.counts[0] += number
                number = _keep_holding(number, begun, rows, code, cells, item * codes.ITEM_WORDS, variable, bound, left)
            counts[2 * variable + 1] += number
        matches += number
    return matches
