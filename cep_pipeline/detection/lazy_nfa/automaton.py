"""The parts of a lazy automaton for the kernel: states, the input buffer, stored instances.

Imported only where the kernel is compiled; `run.py` makes the arrays.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int32_at, int64_at
from cep_pipeline.detection.instances.cells import Cells
from cep_pipeline.detection.instances.finished import found_at
from cep_pipeline.detection.instances.rules import Rules, contains, first_row, last_row
from cep_pipeline.detection.lazy_nfa import codes as c


class Automaton(NamedTuple):
    """The arrays of `run.LazyRun` as pointers.

    Attributes
    ----------
    registers
        int64, by the names in `codes.py`.
    rows, keys, fits
        Of each event that is read: its row, the number of its key, and the set of variables that it fits.
    buffer, heads, tails
        The rows of each variable's events, sorted by (variable, key, row); of each variable and key, the places of the
        events that are in the input buffer now: those in the window that have been read.
    amounts
        int64, of each variable: how many events the input buffer has of it, of all keys.
    states, children, scopes, counts
        Of each state its words; the state that each variable leads to, or -1; the scoping parameters (the number of
        variables that its newest one is after, these, the number of those that it is before, these); its counts.
    shares, pairs
        The shares of events that pass, `codes.SHARE_WORDS` words each; int32, of each two variables the share of those
        conjuncts that are over these two, 0 if there are none.
    lists
        Of each variable and key the first stored instance that waits for it, and behind all these, the first one whose
        list of the variable may get longer; -1 for none.
    entries, entry_slots
        The stored instances.
    changes
        int32: how many instances are stored at each row, less those that take no event from it on.
    frames, slots, expected
        The searches of the input buffer within each other, the instance that is at hand, and float64, of each variable
        how many events of it are expected; behind these, what the present root has cost too much.
    found
        Where matches are put.
    """

    registers: Any
    rows: Any
    keys: Any
    fits: Any
    buffer: Any
    heads: Any
    tails: Any
    amounts: Any
    states: Any
    children: Any
    scopes: Any
    counts: Any
    shares: Any
    pairs: Any
    lists: Any
    entries: Any
    entry_slots: Any
    changes: Any
    frames: Any
    slots: Any
    expected: Any
    found: Any


@njit(error_model="numpy")
def automaton_at(words: Any, at: int) -> Automaton:
    """The automaton whose arrays' addresses begin at `words[at]`; those of the buffer of matches follow them."""
    return Automaton(
        int64_at(words[at]),
        int32_at(words[at + 1]),
        int32_at(words[at + 2]),
        int64_at(words[at + 3]),
        int32_at(words[at + 4]),
        int32_at(words[at + 5]),
        int32_at(words[at + 6]),
        int64_at(words[at + 7]),
        int64_at(words[at + 8]),
        int32_at(words[at + 9]),
        int32_at(words[at + 10]),
        int64_at(words[at + 11]),
        int64_at(words[at + 12]),
        int32_at(words[at + 13]),
        int32_at(words[at + 14]),
        int32_at(words[at + 15]),
        int32_at(words[at + 16]),
        int32_at(words[at + 17]),
        int64_at(words[at + 18]),
        int32_at(words[at + 19]),
        float64_at(words[at + 20]),
        found_at(words, at + c.AUTOMATON_WORDS),
    )


# --- scoping parameters ----------------------------------------------------------------------------------------------


@njit(error_model="numpy")
def scope_start(a: Automaton, rules: Rules, cells: Cells, target: int, last: int) -> int:
    """The row from which the events of a state's newest variable lie, where the instance at hand ends with `last`."""
    start = rules.floor[last]
    at = target * (2 * a.registers[c.VARIABLES] + 2)
    for place in range(at + 1, at + 1 + a.scopes[at]):
        start = max(start, rules.onset[last_row(rules, cells, a.slots, 0, a.scopes[place])])
    return start


@njit(error_model="numpy")
def scope_end(a: Automaton, rules: Rules, cells: Cells, target: int, first: int) -> int:
    """The row before which they lie, where the instance begins with `first`."""
    end = rules.ceiling[first] + 1
    at = target * (2 * a.registers[c.VARIABLES] + 2)
    at += 1 + a.scopes[at]
    for place in range(at + 1, at + 1 + a.scopes[at]):
        end = min(end, rules.reach[first_row(rules, cells, a.slots, 0, a.scopes[place])])
    return end


@njit(error_model="numpy")
def is_distinct(a: Automaton, rules: Rules, cells: Cells, others: int, row: int) -> bool:
    """Whether an event is none of the instance at hand, as far as the set of variables may have it."""
    variable = 0
    while others >> variable:
        if others >> variable & 1 and contains(rules, cells, a.slots, 0, variable, row):
            return False
        variable += 1
    return True


# --- the input buffer ------------------------------------------------------------------------------------------------


@njit(error_model="numpy")
def first_at_least(buffer: Any, low: int, high: int, row: int) -> int:
    """The first place in [low, high) of the buffer whose row is at least `row`, or `high`."""
    while low < high:
        middle = (low + high) >> 1
        if buffer[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@njit(error_model="numpy")
def forget_events(a: Automaton, rules: Rules, row: int, key: int) -> None:
    """Let events leave the input buffer that are in no window with the event that arrives, or a later one."""
    r = a.registers
    floor = rules.floor[row]
    for variable in range(r[c.VARIABLES]):
        at = variable * r[c.KEYS] + key
        head, tail = a.heads[at], a.tails[at]
        before = head
        while head < tail and a.buffer[head] < floor:
            head += 1
        a.heads[at] = head
        if not r[c.EVEN_WINDOW]:
            a.amounts[variable] -= head - before
    if r[c.EVEN_WINDOW] and r[c.ADAPTIVE]:
        oldest = r[c.OLDEST]
        while a.rows[oldest] < floor:
            fits = a.fits[oldest]
            for variable in range(r[c.VARIABLES]):
                a.amounts[variable] -= fits >> variable & 1
            oldest += 1
        r[c.OLDEST] = oldest


@njit(error_model="numpy")
def store_event(a: Automaton, fits: int, key: int) -> None:
    """Put the event that has been dealt with into the input buffer of all variables that it fits."""
    r = a.registers
    for variable in range(r[c.VARIABLES]):
        if fits >> variable & 1:
            a.tails[variable * r[c.KEYS] + key] += 1
            a.amounts[variable] += 1


# --- stored instances ------------------------------------------------------------------------------------------------


@njit(error_model="numpy")
def store_instance(a: Automaton, place: int, state: int, first: int, last: int, since: int, until: int) -> None:
    """Store the instance at hand at the head of a list; the pool has room."""
    r = a.registers
    entry = r[c.MADE]
    r[c.MADE] = entry + 1
    r[c.USED] += 1
    at = entry * c.ENTRY_WORDS
    a.entries[at + c.E_NEXT] = a.lists[place]
    a.lists[place] = entry
    a.entries[at + c.E_STATE] = state
    a.entries[at + c.E_FIRST] = first
    a.entries[at + c.E_LAST] = last
    a.entries[at + c.E_SINCE] = since
    a.entries[at + c.E_UNTIL] = until
    slots = entry * r[c.VARIABLES]
    for slot in range(r[c.VARIABLES]):
        a.entry_slots[slots + slot] = a.slots[slot]
    a.changes[r[c.ROW]] += 1
    a.changes[until] -= 1
    r[c.LIVE] += 1
    counts = state * c.COUNT_WORDS
    a.counts[counts + c.C_HELD] += 1
    a.counts[counts + c.C_MOST_HELD] = max(a.counts[counts + c.C_MOST_HELD], a.counts[counts + c.C_HELD])


@njit(error_model="numpy")
def drop_instance(a: Automaton, place: int, previous: int, entry: int) -> None:
    """Take an instance out of its list; `previous` is the one before it, or -1."""
    r = a.registers
    at = entry * c.ENTRY_WORDS
    following = a.entries[at + c.E_NEXT]
    if previous < 0 and a.lists[place] != entry:  # others were put before it
        previous = a.lists[place]
        while a.entries[previous * c.ENTRY_WORDS + c.E_NEXT] != entry:
            previous = a.entries[previous * c.ENTRY_WORDS + c.E_NEXT]
    if previous < 0:
        a.lists[place] = following
    else:
        a.entries[previous * c.ENTRY_WORDS + c.E_NEXT] = following
    a.counts[a.entries[at + c.E_STATE] * c.COUNT_WORDS + c.C_HELD] -= 1
    a.entries[at + c.E_STATE] = c.NO_STATE
    r[c.USED] -= 1


@njit(error_model="numpy")
def sweep(a: Automaton, row: int) -> None:
    """Drop all instances whose scope has ended; between events, when twice as many were made as were left before.

    Those that are left move together, in the order in which they were made: that is the order of each list, too, so
    that whoever reads a list reads the pool from its end to its beginning, and not here and there.
    """
    r = a.registers
    for place in range(2 * r[c.VARIABLES] * r[c.KEYS]):
        entry = a.lists[place]
        a.lists[place] = -1
        while entry >= 0:
            at = entry * c.ENTRY_WORDS
            entry = a.entries[at + c.E_NEXT]
            if a.entries[at + c.E_UNTIL] <= row:
                a.counts[a.entries[at + c.E_STATE] * c.COUNT_WORDS + c.C_HELD] -= 1
                a.entries[at + c.E_STATE] = c.NO_STATE
            else:
                a.entries[at + c.E_NEXT] = place  # lists are linked anew: until then, which one it is in
    left = 0
    for entry in range(r[c.MADE]):
        at, to = entry * c.ENTRY_WORDS, left * c.ENTRY_WORDS
        if a.entries[at + c.E_STATE] == c.NO_STATE:
            continue
        if to != at:
            for word in range(c.ENTRY_WORDS):
                a.entries[to + word] = a.entries[at + word]
            for slot in range(r[c.VARIABLES]):
                a.entry_slots[left * r[c.VARIABLES] + slot] = a.entry_slots[entry * r[c.VARIABLES] + slot]
        place = a.entries[to + c.E_NEXT]
        a.entries[to + c.E_NEXT] = a.lists[place]
        a.lists[place] = left
        left += 1
    r[c.MADE], r[c.USED] = left, left
    r[c.SWEEP_AT] = max(1024, 2 * left, r[c.VARIABLES] * r[c.KEYS])


@njit(error_model="numpy")
def give_up(a: Automaton) -> None:
    """Drop all instances."""
    r = a.registers
    for place in range(2 * r[c.VARIABLES] * r[c.KEYS]):
        while a.lists[place] >= 0:
            entry = a.lists[place]
            until = a.entries[entry * c.ENTRY_WORDS + c.E_UNTIL]
            if until > r[c.ROW]:
                a.changes[until] += 1
                a.changes[r[c.ROW]] -= 1
            drop_instance(a, place, -1, entry)
    r[c.LIVE], r[c.MADE] = 0, 0
