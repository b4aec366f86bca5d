"""The loop of the lazy automata, written in Numba. Imported only where it is compiled; `run.py` calls it.

An event that arrives is taken by the stored instances that wait for its variable, and begins one itself at the root. Each
new instance at once searches the input buffer for the variable that its state binds next, depth first: what is searched
within each other stands on a stack of frames. The kernel stops wherever memory is short or a state is new, and goes on
from the same place when it is called again.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.instances.cells import Cells, append, cell_before, cells_at, drop_newest, forget_cells, length_of, row_of
from cep_pipeline.detection.instances.interpreter import Code, code_at, group_holds
from cep_pipeline.detection.instances.program import CODE_WORDS
from cep_pipeline.detection.instances.rules import Rules, rejected, rules_at
from cep_pipeline.detection.instances.stream_rules import RULES_WORDS
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.automaton import (
    Automaton,
    automaton_at,
    drop_instance,
    first_at_least,
    forget_events,
    give_up,
    is_distinct,
    rarest,
    scope_end,
    scope_start,
    store_event,
    store_instance,
    sweep,
)


@njit(error_model="numpy")
def suspended(a: Automaton, reason: int, state: int, first: int, last: int) -> int:
    """Stop before the instance at hand enters a state; it does so first when the kernel is called again."""
    r = a.registers
    r[c.PENDING] = 1
    r[c.PENDING_STATE], r[c.PENDING_FIRST], r[c.PENDING_LAST] = state, first, last
    return reason


@njit(error_model="numpy")
def put_match(a: Automaton, rules: Rules, code: Code, cells: Cells, state: int, first: int, last: int) -> int:
    """The instance at hand has bound all variables: it is a match unless a negated event rejects it."""
    r = a.registers
    if r[c.PHASE] == c.REPLAY or last < r[c.OUTPUT_FROM]:
        return c.GOING_ON
    matches = r[c.MATCHES]
    if r[c.FIXED_WIDTH]:
        if matches >= r[c.MATCH_ROOM]:
            return suspended(a, c.OUTPUT_FULL, state, first, last)
        if rules.negations > 0 and rejected(rules, code, cells, a.slots, 0, first, last):
            return c.GOING_ON
        for slot in range(r[c.VARIABLES]):
            a.match_rows[slot * r[c.MATCH_ROOM] + matches] = a.slots[slot]
        r[c.MATCHES] = matches + 1
        return c.GOING_ON
    needed = 0
    for slot in range(r[c.VARIABLES]):
        needed += length_of(cells, a.slots[slot]) if rules.kleene[slot] else 1
    at = r[c.ELEMENTS]
    if matches >= r[c.MATCH_ROOM] or at + needed > r[c.ELEMENT_ROOM]:
        r[c.NEEDED] = needed
        return suspended(a, c.OUTPUT_FULL, state, first, last)
    if rules.negations > 0 and rejected(rules, code, cells, a.slots, 0, first, last):
        return c.GOING_ON
    for slot in range(r[c.VARIABLES]):
        cell = a.slots[slot]
        length = length_of(cells, cell) if rules.kleene[slot] else 1
        for place in range(at + length - 1, at, -1):
            a.match_rows[place] = row_of(cells, cell)
            a.match_variables[place] = slot
            cell = cell_before(cells, cell)
        a.match_rows[at] = row_of(cells, cell) if rules.kleene[slot] else cell
        a.match_variables[at] = slot
        at += length
    r[c.ELEMENTS] = at
    r[c.MATCHES] = matches + 1
    a.match_offsets[matches + 1] = at
    return c.GOING_ON


@njit(error_model="numpy")
def push_search(a: Automaton, cells: Cells, target: int, place: int, end: int, first: int, last: int, tail: int) -> None:
    """Search the input buffer within what is searched so far; the stack has room."""
    r = a.registers
    at = r[c.DEPTH] * c.FRAME_WORDS
    a.frames[at + c.F_TARGET] = target
    a.frames[at + c.F_PLACE] = place
    a.frames[at + c.F_END] = end
    a.frames[at + c.F_FIRST] = first
    a.frames[at + c.F_LAST] = last
    a.frames[at + c.F_TAIL] = tail
    a.frames[at + c.F_MARK] = cells.ends[1]
    a.frames[at + c.F_COUNTED] = 0
    r[c.DEPTH] += 1


@njit(error_model="numpy")
def count_search(a: Automaton) -> None:
    """The newest search is all that keeps its instance alive: it is stored nowhere."""
    r = a.registers
    a.frames[(r[c.DEPTH] - 1) * c.FRAME_WORDS + c.F_COUNTED] = 1
    r[c.SEARCHING] += 1


@njit(error_model="numpy")
def may_complete(a: Automaton, rules: Rules, state: int) -> bool:
    """Whether an event to come can be one of the unbound variables of a state, by the order alone."""
    r = a.registers
    bound = a.states[state * c.STATE_WORDS + c.S_BOUND]
    for variable in range(r[c.VARIABLES]):
        if bound >> variable & 1 == 0:
            closed = False
            for other in range(r[c.VARIABLES]):
                if bound >> other & 1 and rules.relations[variable * rules.slots + other] & 3 == 1:
                    closed = rules.reach[r[c.NOW]] <= r[c.NOW] + 1 or closed
            if not closed:
                return True
    return False


@njit(error_model="numpy")
def enter(a: Automaton, rules: Rules, code: Code, cells: Cells, state: int, first: int, last: int) -> int:
    """The instance at hand enters a state: it is a match, or waits for the next variable and searches the buffer for it."""
    r = a.registers
    if a.states[state * c.STATE_WORDS + c.S_BOUND] == r[c.ALL_BOUND]:
        return put_match(a, rules, code, cells, state, first, last)
    replaying = r[c.PHASE] == c.REPLAY
    if replaying and not may_complete(a, rules, state):
        return c.GOING_ON
    variable = a.states[state * c.STATE_WORDS + c.S_FOLLOWING]
    if variable < 0:
        variable = rarest(a, state, r[c.KEY])
    target = a.children[state * r[c.VARIABLES] + variable]
    if target < 0:
        r[c.WANTED] = variable
        return suspended(a, c.NEW_STATE, state, first, last)
    if not rules.kleene[a.states[state * c.STATE_WORDS + c.S_NEWEST]]:
        a.counts[state * c.COUNT_WORDS + c.C_CREATED] += 1
    since = scope_start(a, rules, cells, target, last)
    until = scope_end(a, rules, cells, target, first)
    following = r[c.NOW] + 1
    stored = until > following
    if stored:
        place = variable * r[c.KEYS] + r[c.KEY]
        store_instance(a, place, state, first, last, max(since, following), until)
        if a.states[state * c.STATE_WORDS + c.S_LISTS]:
            r[c.KEPT] = cells.ends[1]
    if since < following:
        at = variable * r[c.KEYS] + r[c.KEY]
        low, high = a.heads[at], a.tails[at]
        if low < high and a.buffer[high - 1] >= since:
            low = first_at_least(a.buffer, low, high, since)
            if until < following:
                high = first_at_least(a.buffer, low, high, until)
            if low < high:
                push_search(a, cells, target, low, high, first, last, -1)
                if not stored:
                    count_search(a)
    r[c.PEAK] = max(r[c.PEAK], r[c.LIVE] + r[c.SEARCHING])
    return c.GOING_ON


@njit(error_model="numpy")
def lengthen(
    a: Automaton, rules: Rules, code: Code, cells: Cells, target: int, first: int, last: int, place: int, end: int
) -> int:
    """The instance at hand has got an element of a list: the list may grow, and the instance goes on without that.

    Parameters
    ----------
    place, end
        The places of the input buffer from which the list may take its next element.
    """
    r = a.registers
    variable = a.states[target * c.STATE_WORDS + c.S_NEWEST]
    until = scope_end(a, rules, cells, target, first)
    stored = until > r[c.NOW] + 1
    if stored or a.states[target * c.STATE_WORDS + c.S_BOUND] != r[c.ALL_BOUND]:
        a.counts[target * c.COUNT_WORDS + c.C_CREATED] += 1
    if stored:
        at = (r[c.VARIABLES] + variable) * r[c.KEYS] + r[c.KEY]
        store_instance(a, at, target, first, last, r[c.NOW] + 1, until)
        r[c.KEPT] = cells.ends[1]
    if place < end:
        end = first_at_least(a.buffer, place, end, until)
        if place < end:
            push_search(a, cells, target, place, end, first, last, a.slots[variable])
            if not stored:
                count_search(a)
    r[c.PEAK] = max(r[c.PEAK], r[c.LIVE] + r[c.SEARCHING])
    if not group_holds(code, cells, a.states[target * c.STATE_WORDS + c.S_LEAVES], a.slots, 0):
        return c.GOING_ON
    a.counts[target * c.COUNT_WORDS + c.C_PASSED] += 1
    return enter(a, rules, code, cells, target, first, last)


@njit(error_model="numpy")
def bind(
    a: Automaton, rules: Rules, code: Code, cells: Cells, target: int, first: int, last: int, row: int, tail: int
) -> int:
    """The instance at hand takes the event that arrives; `tail` is the newest cell of the list that it makes longer."""
    r = a.registers
    variable = a.states[target * c.STATE_WORDS + c.S_NEWEST]
    tests = target * c.COUNT_WORDS
    a.counts[tests + c.C_TRIED] += 1
    if not rules.kleene[variable]:
        a.slots[variable] = row
        holds = group_holds(code, cells, a.states[target * c.STATE_WORDS + c.S_LEAVES], a.slots, 0)
        note_tests(a, target, 1, holds)
        if not holds:
            return c.GOING_ON
        a.counts[tests + c.C_PASSED] += 1
        return enter(a, rules, code, cells, target, min(first, row), row)
    a.slots[variable] = append(cells, variable, tail, row, row)
    group = c.S_BEGINS if tail < 0 else c.S_GROWS
    if not group_holds(code, cells, a.states[target * c.STATE_WORDS + group], a.slots, 0):
        drop_newest(cells)
        return c.GOING_ON
    return lengthen(a, rules, code, cells, target, min(first, row), row, 0, 0)


@njit(error_model="numpy")
def note_tests(a: Automaton, target: int, tried: int, passed: int) -> None:
    """Count tests of late; they are halved now and then, so that their share follows the stream."""
    at = target * c.COUNT_WORDS
    a.counts[at + c.C_RECENT_TRIED] += tried
    a.counts[at + c.C_RECENT_PASSED] += passed
    if a.counts[at + c.C_RECENT_TRIED] > c.RECENT:
        a.counts[at + c.C_RECENT_TRIED] >>= 1
        a.counts[at + c.C_RECENT_PASSED] >>= 1


@njit(error_model="numpy")
def search(a: Automaton, rules: Rules, code: Code, cells: Cells) -> int:
    """Go on with the newest search of the input buffer until something comes of it, or it ends."""
    r = a.registers
    at = (r[c.DEPTH] - 1) * c.FRAME_WORDS
    target = a.frames[at + c.F_TARGET]
    place, end = a.frames[at + c.F_PLACE], a.frames[at + c.F_END]
    first, last = a.frames[at + c.F_FIRST], a.frames[at + c.F_LAST]
    tail = a.frames[at + c.F_TAIL]
    if place >= end:
        r[c.SEARCHING] -= a.frames[at + c.F_COUNTED]
        r[c.DEPTH] -= 1
        return c.GOING_ON
    variable = a.states[target * c.STATE_WORDS + c.S_NEWEST]
    others = a.states[target * c.STATE_WORDS + c.S_DISTINCT]
    complete = a.states[target * c.STATE_WORDS + c.S_BOUND] == r[c.ALL_BOUND]
    listing = rules.kleene[variable] != 0
    if r[c.KLEENE]:
        cells.ends[1] = max(a.frames[at + c.F_MARK], r[c.KEPT])
    group = c.S_LEAVES
    if listing:
        group = c.S_BEGINS if tail < 0 else c.S_GROWS
    group = a.states[target * c.STATE_WORDS + group]
    tried, passed = 0, 0
    status = c.GOING_ON
    while place < end:
        row = a.buffer[place]
        place += 1
        if others != 0 and not is_distinct(a, rules, cells, others, row):
            continue
        tried += 1
        a.slots[variable] = append(cells, variable, tail, row, row) if listing else row
        if not group_holds(code, cells, group, a.slots, 0):
            if listing:
                drop_newest(cells)
            continue
        passed += 1
        if listing:
            status = lengthen(a, rules, code, cells, target, min(first, row), max(last, row), place, end)
            break
        status = enter(a, rules, code, cells, target, min(first, row), max(last, row))
        if not complete or status != c.GOING_ON:
            break
    a.frames[at + c.F_PLACE] = place
    tests = target * c.COUNT_WORDS
    a.counts[tests + c.C_TRIED] += tried
    if not listing:
        a.counts[tests + c.C_PASSED] += passed
    note_tests(a, target, tried, passed)
    return status


@njit(error_model="numpy")
def begin_event(a: Automaton, rules: Rules, cells: Cells) -> None:
    """An event arrives: what its window leaves behind is forgotten, and the tree automaton looks at its counters."""
    r = a.registers
    place = r[c.PLACE]
    row, key = a.rows[place], a.keys[place]
    r[c.ROW], r[c.KEY], r[c.NOW] = row, key, row
    for ended in range(r[c.LIVE_ROW], row + 1):
        r[c.LIVE] -= a.ending[ended]
    r[c.LIVE_ROW] = row + 1
    forget_events(a, rules, row, key)
    if r[c.KLEENE]:
        forget_cells(cells, row, rules.ceiling)
    if r[c.USED] > r[c.SWEEP_AT]:
        sweep(a, row)
    r[c.PHASE], r[c.TAKEN] = c.TAKING, 0
    if r[c.ADAPTIVE] and changes_root(a, a.fits[place]):
        give_up(a)
        r[c.PHASE], r[c.REPLAY_KEY], r[c.NOW] = c.REPLAY, 0, row - 1


@njit(error_model="numpy")
def changes_root(a: Automaton, fits: int) -> bool:
    """Choose the root's variable by the counters of the input buffer, with an event that arrives.

    There is none before all variables have events. Later the rarest takes over as soon as it is markedly rarer.
    """
    r = a.registers
    root, rare, least, rare_is_list = r[c.ROOT], -1, 0, False
    own = 0
    for variable in range(r[c.VARIABLES]):
        amount = a.amounts[variable] + (fits >> variable & 1)
        if amount == 0 and root < 0:
            return False
        if variable == root:
            own = amount
        is_list = r[c.KLEENE] >> variable & 1 != 0
        if rare < 0 or (rare_is_list and not is_list) or (is_list == rare_is_list and amount < least):
            rare, least, rare_is_list = variable, amount, is_list
    if rare == root or (root >= 0 and own <= 2 * least + 2):
        return False
    r[c.ROOT] = rare
    r[c.SWITCHES] += 1
    return True


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
        The addresses of the automaton's arrays, then the words of the rules, of the program and of the ring of cells.

    Returns
    -------
    int
        One of the first numbers of `codes.py`, but for `GOING_ON`.
    """
    a = automaton_at(words, 0)
    rules = rules_at(words, c.AUTOMATON_WORDS)
    code = code_at(words, c.AUTOMATON_WORDS + RULES_WORDS)
    cells = cells_at(words, c.AUTOMATON_WORDS + RULES_WORDS + CODE_WORDS)
    r = a.registers
    while True:
        if r[c.USED] + 2 > r[c.POOL_ROOM]:
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
