"""The loops of deterministic runs, written in Numba. Imported only where they are compiled; `runs.py` calls them.

An event is named by its place in the sequence that runs read (`stream.py`), a variable by its number in pattern order.
There is a kernel for each way in which runs bind events: `follow` for chains, `gather` for AND, whose variables bind
events in any order. Conditions are tested by the evaluator of all kernels over instances (`instances`), or, where
they compare two columns of a chain, right here.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import carray, njit

from cep_pipeline.compiled.pointers import float64_at
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.cells import Cells, cells_at
from cep_pipeline.detection.instances.evaluator import Code, code_at, compare, conjunct_holds, group_holds
from cep_pipeline.detection.instances.rules import bound_side
from cep_pipeline.detection.nfab.run_words import (
    AGREEING,
    CELLS,
    COMPARES_CLOCKS,
    CONTIGUOUS,
    EXPIRED,
    KILLED,
    MATCHED,
)


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
    """Follow each run of a chain to its end.

    Parameters
    ----------
    runs, variables, size, options
        Numbers of runs, positive variables and places; the flags of `run_words.py`.
    width, end_row
        The most that instants of a match differ by; the row before which runs end.
    rows, clocks, instants
        Of each place: its row of the events, clock to compare, and instant (timestamp or position).
    keys
        Of each place, where keys are compared: the code of what events agree on.
    fits
        [variables, size]: whether an event has the variable's type and passes the conditions on it alone.
    links
        [variables, size]: the next place whose event fits the variable; read where events may be skipped.
    words, groups
        The program of the conditions (`run_words.py`), and of each variable the group that it completes.
    begun, ends
        Of each run: the place of its first event, and the place behind the last that it reads.
    slots
        Room for [runs, variables]: the rows of each match.
    ended, states
        Of each run: the row of the event that it ended with, and its state.
    counts
        [variables, 2], candidates and passes of each variable.
    columns, bounds
        Room for two words and a value of each conjunct of a variable.

    Returns
    -------
    int
        The number of matches.
    """
    code, cells = code_at(words, 0), cells_at(words, CELLS)
    agreeing, compares = options & AGREEING != 0, options & COMPARES_CLOCKS != 0
    contiguous = options & CONTIGUOUS != 0
    evaluations = matches = 0
    for run in range(runs):
        place, end, base = begun[run], ends[run], matches * variables
        first_instant = instants[place]
        slots[base] = rows[place]
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
            place = place + 1 if contiguous else links[variable * size + place]
            while True:
                if place >= end or instants[place] - first_instant > width or rows[place] >= end_row:
                    state = EXPIRED
                    break
                fitting = not contiguous or fits[variable * size + place] != 0
                if agreeing and fitting:
                    fitting = keys[place] == keys[begun[run]]
                if fitting and (not compares or clocks[place] > clock):
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
                if contiguous:
                    state = KILLED
                    break
                place = links[variable * size + place]
            counts[2 * variable] += candidates
            if state != MATCHED:
                break
            counts[2 * variable + 1] += 1
        matches += state == MATCHED
        states[run] = state
        ended[run] = rows[min(place, size - 1)]
    code.counts[0] += evaluations
    return matches


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
    runs, variables, size, options, width, end_row, rows, instants, keys, fits, words, begun, ends, slots, ended, states
        As for `follow`.
    tests
        `tests[v]` to `tests[v + 1]` are the places in `tests` where the conjuncts are named that variable v may
        complete. There the group of the conjunct stands, the number of its variables, and the variables.
    counts, nodes
        [nodes, 2], candidates and passes by the set of bound variables; of node 0 alone if there are too many.

    Returns
    -------
    int
        The number of matches.
    """
    code, cells = code_at(words, 0), cells_at(words, CELLS)
    agreeing, contiguous = options & AGREEING != 0, options & CONTIGUOUS != 0
    matches = 0
    for run in range(runs):
        place, end, base = begun[run], ends[run], matches * variables
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
        matches += state == MATCHED
        states[run] = state
        ended[run] = rows[min(place, size - 1)]
    return matches


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
