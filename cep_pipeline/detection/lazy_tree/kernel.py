"""The kernel of the lazy tree automaton, written in Numba. Imported only where it is compiled; `run.py` calls it.

An event that arrives is taken by the stored instances that wait for its variable, and begins one itself at the root.
Each new instance searches the input buffer at once for the variable that it binds next. The *instance at hand* is in
the slots of the automaton; searches within each other stand on a stack. The kernel stops wherever memory is short or a
state is new, and goes on from the same place when it is called again.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int32_at, int64_at
from cep_pipeline.detection.instances.cells import Cells, append, cells_at, drop_newest, forget_cells
from cep_pipeline.detection.instances.codes import CODE_WORDS, FOUND_WORDS, RULES_WORDS
from cep_pipeline.detection.instances.evaluator import Code, code_at, group_holds
from cep_pipeline.detection.instances.rules import (
    Rules,
    add_match,
    contains,
    first_at_least,
    first_passing,
    first_row,
    found_at,
    last_row,
    rejected,
    rules_at,
)
from cep_pipeline.detection.lazy_tree import codes as c


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
    """True if an event is none of the instance at hand, as far as the set of variables may have it."""
    variable = 0
    while others >> variable:
        if others >> variable & 1 and contains(rules, cells, a.slots, 0, variable, row):
            return False
        variable += 1
    return True


# --- the input buffer ------------------------------------------------------------------------------------------------


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
    if r[c.EVEN_WINDOW]:
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


@njit(error_model="numpy")
def next_variable(a: Automaton, rules: Rules, cells: Cells, state: int, first: int, last: int) -> int:
    """The variable that the instance at hand binds after a state; -1 where the state's children are still to be made.

    The paper takes the type with the fewest events in the input buffer, and so does `BY_COUNTER`. Else the events of a
    type cost what testing them costs, and for each that is expected to pass, by the share that did of late, an instance
    with the tests of the variable after it. Where all types are joined by equal conditions that is the rarest one; and
    a type that no condition joins to what is bound, with each of whose events all others would be tested, is not taken
    for being slightly rarer. Lists come last, since there are more of them than of events.
    """
    r = a.registers
    variables = r[c.VARIABLES]
    bound = a.states[state * c.STATE_WORDS + c.S_BOUND]
    only, missing = -1, 0
    for variable in range(variables):
        if bound >> variable & 1 == 0:
            only = variable
            missing += 1
    if missing == 1:
        return only if a.children[state * variables + only] >= 0 else -1
    for variable in range(variables):
        if bound >> variable & 1 == 0:
            child = a.children[state * variables + variable]
            if child < 0:
                return -1
            amount = events_in_scope(a, rules, cells, child, variable, first, last)
            if amount < 0 and r[c.BY_COUNTER] == 0:  # an event that is missing does not come any more
                return variable
            a.expected[variable] = a.amounts[variable] if r[c.BY_COUNTER] else amount
    best, least, best_is_list = -1, 0.0, False
    for variable in range(variables):
        if bound >> variable & 1:
            continue
        target = a.children[state * variables + variable] * c.STATE_WORDS
        share = a.states[target + c.S_SHARE]
        joined = a.states[target + c.S_LINKED]
        following = -1.0
        for other in range(variables):
            if other != variable and bound >> other & 1 == 0:
                tests = a.expected[other] if joined >> other & 1 else 0.0
                following = tests if following < 0.0 else min(following, tests)
        amount = a.expected[variable]
        cost = amount * share_passed(a, share) * (1.0 + following) + (amount if share > 0 else 0.0)
        if r[c.BY_COUNTER]:
            cost = amount
        is_list = r[c.KLEENE] >> variable & 1 != 0
        if best < 0 or (best_is_list and not is_list) or (is_list == best_is_list and cost < least):
            best, least, best_is_list = variable, cost, is_list
    return best


@njit(error_model="numpy")
def share_passed(a: Automaton, share: int) -> float:
    """The share of events that held some conjuncts of late."""
    if share == 0:
        return 1.0
    common = (a.shares[1] + 1) / (a.shares[0] + 2)
    at = share * c.SHARE_WORDS
    return (a.shares[at + 1] + c.PRIOR * common) / (a.shares[at] + c.PRIOR)


@njit(error_model="numpy")
def note_tests(a: Automaton, target: int, tried: int, passed: int) -> None:
    """Count the tests of late; they are halved now and then, so that their share follows the stream."""
    share = a.states[target * c.STATE_WORDS + c.S_SHARE]
    if share == 0:
        return
    for at in (0, share * c.SHARE_WORDS):
        a.shares[at] += tried
        a.shares[at + 1] += passed
        while a.shares[at] > c.RECENT:
            a.shares[at] >>= 1
            a.shares[at + 1] >>= 1


@njit(error_model="numpy")
def events_in_scope(a: Automaton, rules: Rules, cells: Cells, target: int, variable: int, first: int, last: int) -> int:
    """The number of events in the input buffer for a variable; -1 if there are none and none can come."""
    r = a.registers
    at = variable * r[c.KEYS] + r[c.KEY]
    low, high = a.heads[at], a.tails[at]
    until = scope_end(a, rules, cells, target, first)
    if until > r[c.NOW] + 1:
        return high - low
    low = first_at_least(a.buffer, low, high, scope_start(a, rules, cells, target, last))
    high = first_at_least(a.buffer, low, high, until)
    return high - low if high > low else -1


@njit(error_model="numpy")
def root_cost(a: Automaton, root: int) -> float:
    """The cost of a window's events if instances begin with one variable: tests, and instances made."""
    if a.registers[c.BY_COUNTER]:
        return a.expected[root]
    variables = a.registers[c.VARIABLES]
    least = -1.0
    for second in range(variables):
        if second == root:
            continue
        following = -1.0
        for third in range(variables):
            if third != root and third != second:
                joins = a.pairs[third * variables + root] + a.pairs[third * variables + second]
                tests = a.expected[third] if joins > 0 else 0.0
                following = tests if following < 0.0 else min(following, tests)
        share = a.pairs[root * variables + second]
        amount = a.expected[second]
        cost = amount * share_passed(a, share) * (1.0 + max(following, 0.0)) + (amount if share > 0 else 0.0)
        least = cost if least < 0.0 else min(least, cost)
    return a.expected[root] * (1.0 + max(least, 0.0))


@njit(error_model="numpy")
def changes_root(a: Automaton, fits: int) -> bool:
    """Choose the variable of the root by the counters of the input buffer, with an event that arrives.

    There is none before all variables have events. Then it is the cheapest one: the rarest where conditions are alike.
    When another one gets cheaper, what each further event of the root's variable costs too much is summed up, and the
    root changes when that exceeds what the new one's search of the buffer costs: a change costs no more than it saves.
    """
    r = a.registers
    variables, root = r[c.VARIABLES], r[c.ROOT]
    if root >= 0 and fits >> root & 1 == 0:
        return False
    for variable in range(variables):
        amount = a.amounts[variable] + (fits >> variable & 1)
        if amount == 0 and root < 0:
            return False
        a.expected[variable] = amount
    best, least, best_is_list = -1, 0.0, False
    for variable in range(variables):
        cost = root_cost(a, variable)
        is_list = r[c.KLEENE] >> variable & 1 != 0
        if best < 0 or (best_is_list and not is_list) or (is_list == best_is_list and cost < least):
            best, least, best_is_list = variable, cost, is_list
    if root >= 0:
        own = root_cost(a, root)
        if best == root or own <= least:
            a.expected[variables] = 0.0
            return False
        a.expected[variables] += (own - least) / a.expected[root]
        if a.expected[variables] <= 0.5 * least:  # of a window that has begun, half is to be searched again
            return False
    a.expected[variables] = 0.0
    r[c.ROOT] = best
    return True


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
    """True if an event to come can be one of the unbound variables of a state, by the order alone."""
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
def bind(a: Automaton, rules: Rules, code: Code, cells: Cells, target: int, first: int, row: int, tail: int) -> int:
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
            passing = first_passing(a.buffer, a.slots, code, group, variable, place, end)
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


@njit(error_model="numpy")
def begin_event(a: Automaton, rules: Rules, cells: Cells) -> None:
    """An event arrives: what its window leaves behind is forgotten, and the counters say whether the root changes."""
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
    if changes_root(a, a.fits[place]):
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
        status = bind(a, rules, code, cells, target, a.entries[at + c.E_FIRST], row, tail)
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
                return bind(a, rules, code, cells, a.children[variable], row, row, -1)
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
