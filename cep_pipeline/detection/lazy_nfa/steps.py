"""What becomes of an instance of a lazy automaton: it enters a state, waits, searches the input buffer, is a match.

Imported only where the kernel is compiled. The *instance at hand* is in the slots of the automaton; what is searched
within each other stands on a stack.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from numba import njit

from cep_pipeline.compiled.pointers import float64_at
from cep_pipeline.detection.instances.cells import (
    Cells,
    append,
    drop_newest,
)
from cep_pipeline.detection.instances.codes import COMPARE_SLOTS, GREATER, ITEM_WORDS, LESS
from cep_pipeline.detection.instances.finished import add_match
from cep_pipeline.detection.instances.interpreter import Code, compare, group_holds, mirrored
from cep_pipeline.detection.instances.rules import Rules, rejected
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.automaton import (
    Automaton,
    first_at_least,
    is_distinct,
    scope_end,
    scope_start,
    store_instance,
)
from cep_pipeline.detection.lazy_nfa.choosing import next_variable, note_tests


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
    if rules.negations > 0 and rejected(rules, code, cells, a.slots, 0, first, last):
        return c.GOING_ON
    if not add_match(a.found, rules, cells, a.slots, 0):
        return suspended(a, c.OUTPUT_FULL, state, first, last)
    return c.GOING_ON


@njit(error_model="numpy")
def push_search(
    a: Automaton, cells: Cells, target: int, place: int, end: int, first: int, last: int, tail: int
) -> None:
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
    """The instance at hand enters a state: it is a match, or searches the buffer for the next variable, and waits."""
    r = a.registers
    if a.states[state * c.STATE_WORDS + c.S_BOUND] == r[c.ALL_BOUND]:
        return put_match(a, rules, code, cells, state, first, last)
    replaying = r[c.PHASE] == c.REPLAY
    if replaying and not may_complete(a, rules, state):
        return c.GOING_ON
    variable = a.states[state * c.STATE_WORDS + c.S_FOLLOWING]
    if variable < 0:
        variable = next_variable(a, rules, cells, state, first, last)
        if variable < 0:
            return suspended(a, c.NEW_STATE, state, first, last)
    target = a.children[state * r[c.VARIABLES] + variable]
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
    variable = a.states[target * c.STATE_WORDS + c.S_NEWEST]
    tests = target * c.COUNT_WORDS
    a.counts[tests + c.C_TRIED] += 1
    if not rules.kleene[variable]:
        a.slots[variable] = row
        holds = group_holds(code, cells, a.states[target * c.STATE_WORDS + c.S_LEAVES], a.slots, 0)
        note_tests(a, target, 1, 1 if holds else 0)
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
def first_passing(a: Automaton, code: Code, group: int, variable: int, place: int, end: int) -> int:
    """The first place from `place` on whose event holds the first conjunct of a group, if that compares two columns.

    The side of the bound variable is read once for all events.
    """
    items, at = code.items, code.groups[group] * ITEM_WORDS
    if code.groups[group] == code.groups[group + 1] or items[at] != COMPARE_SLOTS:
        return place
    comparator = items[at + 1]
    own, other, slot = items[at + 2], items[at + 4], items[at + 5]
    if items[at + 3] != variable:
        own, other, slot = items[at + 4], items[at + 2], items[at + 3]
        comparator = mirrored(comparator)
    column, value = float64_at(own), float64_at(other)[a.slots[slot]]
    begin = place
    if comparator == LESS:
        while place < end and not column[a.buffer[place]] < value:
            place += 1
    elif comparator == GREATER:
        while place < end and not column[a.buffer[place]] > value:
            place += 1
    else:
        while place < end and not compare(comparator, column[a.buffer[place]], value):
            place += 1
    code.counts[0] += place - begin
    return place


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
        if others == 0 and not listing:
            passing = first_passing(a, code, group, variable, place, end)
            tried += passing - place
            place = passing
            if place == end:
                break
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
