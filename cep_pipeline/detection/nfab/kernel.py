"""The loop of deterministic runs, written in Numba. Imported only where it is compiled; `runs.py` calls it.

An event is named by its place in the sequence that runs read (`runs.RunEvents`), a variable by its number in pattern
order. A run of a chain offers an event to the variable that comes next; a run of an AND, whose variables bind events in
any order, to all that are unbound, and the first one that takes it has it. Conditions are tested by the evaluator of
all kernels (`conditions`).
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.conditions.cells import Cells, cells_at
from cep_pipeline.detection.conditions.evaluator import Code, code_at, group_holds
from cep_pipeline.detection.nfab.words import (
    AGREEING,
    CELLS_OF_RUNS,
    CHAIN,
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
    tests: Any,
    begun: Any,
    ends: Any,
    slots: Any,
    ended: Any,
    states: Any,
    counts: Any,
    nodes: int,
) -> int:
    """Follow each run to its end: an event goes to the first variable that takes it.

    Parameters
    ----------
    runs, variables, size, options
        Numbers of runs, positive variables and places; the flags of `words.py`.
    width, end_row
        The most that instants of a match differ by; the row before which runs end.
    rows, clocks, instants
        Of each place: its row of the events, clock to compare, and instant (timestamp or position).
    keys
        Of each place, where keys are compared: the code of what events agree on.
    fits
        [variables, size]: whether an event has the variable's type and passes the conditions on it alone.
    links
        [variables, size]: the next place whose event fits the variable; read for chains that may skip events.
    words
        The program of the conditions (`words.py`).
    tests
        `tests[v]` to `tests[v + 1]` are the places in `tests` where the conjuncts are named that variable v may
        complete. There their group stands, the number of variables that must be bound, too, and these.
    begun, ends
        Of each run: the place of its first event, and the place behind the last that it reads.
    slots
        Room for [runs, variables]: the rows of each match.
    ended, states
        Of each run: the row of the event that it ended with, and its state.
    counts, nodes
        [nodes, 2], candidates and passes by the newest variable of a chain, or by the set of bound variables of an AND;
        of node 0 alone if there are too many.

    Returns
    -------
    int
        The number of matches.
    """
    code, cells = code_at(words, 0), cells_at(words, CELLS_OF_RUNS)
    agreeing, compares = options & AGREEING != 0, options & COMPARES_CLOCKS != 0
    contiguous, chain = options & CONTIGUOUS != 0, options & CHAIN != 0
    matches = 0
    for run in range(runs):
        place, end, base = begun[run], ends[run], matches * variables
        first_instant, key, clock = instants[place], keys[place] if agreeing else 0, 0
        for variable in range(0 if chain else variables):
            slots[base + variable] = -1
        number = mask = 0
        state = EXPIRED
        if chain:  # nothing is asked of the first event of a chain but what `fits` knows
            slots[base] = rows[place]
            number, clock = 1, clocks[place] if compares else 0
            counts[0] += 1
            counts[1] += 1
            if variables == 1:
                state = MATCHED
            else:
                place = place + 1 if contiguous else links[size + place]
        while state != MATCHED:
            if place >= end or instants[place] - first_instant > width or rows[place] >= end_row:
                break
            taken = False
            if number > 0 and ((agreeing and keys[place] != key) or (compares and clocks[place] <= clock)):
                pass
            elif chain:
                if fits[number * size + place] != 0:
                    slots[base + number] = rows[place]
                    taken = group_holds(code, cells, tests[tests[tests[number]]], slots, base)
                    counts[2 * number] += 1
                    counts[2 * number + 1] += taken
            else:
                for variable in range(variables):
                    if slots[base + variable] < 0 and fits[variable * size + place] != 0:
                        node = mask | (1 << variable) if nodes > 1 else 0
                        taken = takes(code, cells, tests, variable, slots, base, rows[place], counts, node)
                        if taken:
                            mask = node
                            break
            if taken:
                number += 1
                clock = clocks[place] if compares else 0
                if number == variables:
                    state = MATCHED
                    break
            elif contiguous:
                state = KILLED
                break
            place = links[number * size + place] if chain and not contiguous else place + 1
        matches += state == MATCHED
        states[run] = state
        ended[run] = rows[min(place, size - 1)]
    return matches


@njit(error_model="numpy", forceinline=True)
def takes(
    code: Code, cells: Cells, tests: Any, variable: int, slots: Any, base: int, row: int, counts: Any, node: int
) -> bool:
    """Bind an event to a variable if the conjuncts hold that it completes; count it for the set of bound variables."""
    counts[2 * node] += 1
    slots[base + variable] = row
    for test in range(tests[variable], tests[variable + 1]):
        at = tests[test]
        complete = True
        for other in range(at + 2, at + 2 + tests[at + 1]):
            complete &= slots[base + tests[other]] >= 0
        if complete and not group_holds(code, cells, tests[at], slots, base):
            slots[base + variable] = -1
            return False
    counts[2 * node + 1] += 1
    return True
