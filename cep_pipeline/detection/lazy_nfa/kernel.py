"""The loop of the lazy automata, written in Numba. Imported only where it is compiled; `run.py` calls it.

An event that arrives is taken by the stored instances that wait for its variable, and begins one itself at the root.
Each new instance searches the input buffer at once for the variable that its state binds next (`steps.py`).
The kernel stops wherever memory is short or a state is new, and goes on from the same place when it is called again.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.instances.cells import Cells, cells_at, forget_cells
from cep_pipeline.detection.instances.found import FOUND_WORDS
from cep_pipeline.detection.instances.interpreter import Code, code_at
from cep_pipeline.detection.instances.program import CODE_WORDS
from cep_pipeline.detection.instances.rules import Rules, rules_at
from cep_pipeline.detection.instances.stream_rules import RULES_WORDS
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.automaton import (
    Automaton,
    automaton_at,
    drop_instance,
    forget_events,
    give_up,
    store_event,
    sweep,
)
from cep_pipeline.detection.lazy_nfa.choosing import changes_root
from cep_pipeline.detection.lazy_nfa.steps import bind, enter, push_search, search


@njit(error_model="numpy")
def begin_event(a: Automaton, rules: Rules, cells: Cells) -> None:
    """An event arrives: what its window leaves behind is forgotten, and the tree automaton looks at its counters."""
    r = a.registers
    place = r[c.PLACE]
    row, key = a.rows[place], a.keys[place]
    r[c.ROW], r[c.KEY], r[c.NOW] = row, key, row
    for ended in range(r[c.LIVE_ROW], row + 1):
        r[c.LIVE] += a.changes[ended]
    r[c.LIVE_ROW] = row + 1
    forget_events(a, rules, row, key)
    if r[c.KLEENE]:
        forget_cells(cells, row, rules.ceiling)
    if r[c.MADE] > r[c.SWEEP_AT]:
        sweep(a, row)
    r[c.PHASE], r[c.TAKEN] = c.TAKING, 0
    if r[c.ADAPTIVE] and changes_root(a, a.fits[place]):
        give_up(a)
        r[c.PHASE], r[c.REPLAY_KEY], r[c.NOW] = c.REPLAY, 0, row - 1


@njit(error_model="numpy")
def replay(a: Automaton, rules: Rules, cells: Cells) -> None:
    """A new root variable searches the input buffer, one key after another, for events whose windows go on."""
    r = a.registers
    if r[c.REPLAY_KEY] == r[c.KEYS]:
        place = r[c.PLACE]
        r[c.PHASE], r[c.KEY], r[c.NOW] = c.TAKING, a.keys[place], a.rows[place]
        return
    key = r[c.REPLAY_KEY]
    r[c.KEY], r[c.REPLAY_KEY] = key, key + 1
    at = r[c.ROOT] * r[c.KEYS] + key
    place, end = a.heads[at], a.tails[at]
    while place < end and rules.ceiling[a.buffer[place]] < r[c.ROW]:
        place += 1
    if place < end:
        push_search(a, cells, a.children[r[c.ROOT]], place, end, c.NO_ROW, -1, -1)


@njit(error_model="numpy")
def meet(a: Automaton, rules: Rules, code: Code, cells: Cells, variable: int) -> int:
    """The event that arrives meets the next stored instance that it may extend as the event of a variable, if any."""
    r = a.registers
    variables, row = r[c.VARIABLES], r[c.ROW]
    growing = r[c.PHASE] == c.GROWING
    place = (variable + (variables if growing else 0)) * r[c.KEYS] + r[c.KEY]
    while r[c.CURSOR] >= 0:
        entry = r[c.CURSOR]
        at = entry * c.ENTRY_WORDS
        r[c.CURSOR] = a.entries[at + c.E_NEXT]
        if a.entries[at + c.E_UNTIL] <= row:
            drop_instance(a, place, r[c.PREVIOUS], entry)
            continue
        r[c.PREVIOUS] = entry
        if a.entries[at + c.E_SINCE] > row:
            continue
        state, base = a.entries[at + c.E_STATE], entry * variables
        for slot in range(variables):
            a.slots[slot] = a.entry_slots[base + slot]
        depth, used = r[c.DEPTH], r[c.USED]
        tail = a.slots[variable] if growing else -1
        target = state if growing else a.children[state * variables + variable]
        status = bind(a, rules, code, cells, target, a.entries[at + c.E_FIRST], a.entries[at + c.E_LAST], row, tail)
        if status != c.GOING_ON or r[c.DEPTH] != depth or r[c.USED] != used or rules.kleene[variable]:
            return status
    return c.GOING_ON


@njit(error_model="numpy")
def deliver(a: Automaton, rules: Rules, code: Code, cells: Cells) -> int:
    """Go on with the event that arrives until something comes of it, or with the next event."""
    r = a.registers
    if r[c.PHASE] == c.ARRIVAL:
        if r[c.PLACE] >= r[c.PLACES]:
            return c.FINISHED
        begin_event(a, rules, cells)
    if r[c.KLEENE]:
        cells.ends[1] = max(cells.ends[0], r[c.KEPT])
    if r[c.PHASE] == c.REPLAY:
        replay(a, rules, cells)
        return c.GOING_ON
    fits = a.fits[r[c.PLACE]]
    while r[c.TAKEN] < r[c.VARIABLES]:
        variable = r[c.TAKEN]
        if fits >> variable & 1 == 0:
            r[c.TAKEN] += 1
            continue
        if r[c.PHASE] == c.TAKING:
            r[c.PHASE], r[c.PREVIOUS] = c.WAITING, -1
            r[c.CURSOR] = a.lists[variable * r[c.KEYS] + r[c.KEY]]
            if variable == r[c.ROOT]:
                row = r[c.ROW]
                return bind(a, rules, code, cells, a.children[variable], row, row, row, -1)
        if r[c.PHASE] == c.WAITING:
            if r[c.CURSOR] >= 0:
                return meet(a, rules, code, cells, variable)
            r[c.PHASE], r[c.PREVIOUS] = c.GROWING, -1
            r[c.CURSOR] = a.lists[(r[c.VARIABLES] + variable) * r[c.KEYS] + r[c.KEY]]
        if r[c.CURSOR] >= 0:
            return meet(a, rules, code, cells, variable)
        r[c.PHASE] = c.TAKING
        r[c.TAKEN] += 1
    store_event(a, fits, r[c.KEY])
    r[c.PHASE] = c.ARRIVAL
    r[c.PLACE] += 1
    return c.GOING_ON


def advance(words: Any) -> int:
    """Run a lazy automaton over the events until it ends or needs something.

    Parameters
    ----------
    words
        The addresses of the automaton's arrays, then the words of the buffer of matches, of the rules, of the program
        and of the ring of cells.

    Returns
    -------
    int
        One of the first numbers of `codes.py`, but for `GOING_ON`.
    """
    a = automaton_at(words, 0)
    at = c.AUTOMATON_WORDS + FOUND_WORDS
    rules = rules_at(words, at)
    code = code_at(words, at + RULES_WORDS)
    cells = cells_at(words, at + RULES_WORDS + CODE_WORDS)
    r = a.registers
    for _ in range(c.STEPS_A_CALL):
        if r[c.MADE] + 2 > r[c.POOL_ROOM]:
            return c.POOL_FULL
        if r[c.DEPTH] + 2 > r[c.STACK_ROOM]:
            return c.STACK_FULL
        if cells.ends[1] - cells.ends[0] >= cells.mask:
            return c.CELLS_FULL
        if r[c.PENDING]:
            r[c.PENDING] = 0
            status = enter(a, rules, code, cells, r[c.PENDING_STATE], r[c.PENDING_FIRST], r[c.PENDING_LAST])
        elif r[c.DEPTH] > 0:
            status = search(a, rules, code, cells)
        else:
            status = deliver(a, rules, code, cells)
        if status != c.GOING_ON:
            return int(status)
    return c.PAUSED
