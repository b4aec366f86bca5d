"""The loop of the eager NFA over events, written in Numba. Imported only where it is compiled; `run.py` calls it.

An instance is `stride` int32s: its first row, and its slots, behind which is room for those of negated variables. The
instances of a state lie one after another in the order of their creation. An event that meets something full is undone.
Where events of a match agree on attributes, the events are read key after key: instances of other keys never meet them.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at, uint8_at
from cep_pipeline.detection.eager_nfa import words as at
from cep_pipeline.detection.instances.cells import Cells, append, cells_at, drop_newest, forget_cells
from cep_pipeline.detection.instances.finished import Found, add_match, found_at
from cep_pipeline.detection.instances.interpreter import code_at, group_holds
from cep_pipeline.detection.instances.rules import Rules, last_row, rejected, rules_at
from cep_pipeline.detection.instances.terms import Code


def read_events(words: Any) -> int:
    """Read events until all are read, something is full, or there is much to drain.

    Returns
    -------
    int
        What the driver has to do; see `words.py`.
    """
    code, rules = code_at(words, at.PROGRAM), rules_at(words, at.PROGRAM + 11)
    cells, found = cells_at(words, at.PROGRAM + 26), found_at(words, at.PROGRAM + 35)
    relevant, fits = int32_at(words[at.RELEVANT]), uint8_at(words[at.FITS])
    edges, edge_starts, states = int64_at(words[at.EDGES]), int64_at(words[at.EDGE_STARTS]), int64_at(words[at.STATES])
    pending = int64_at(words[at.PENDING])
    place = words[at.PLACE]
    while place < words[at.RELEVANT_COUNT]:
        if 2 * found.used[1] > found.capacity or words[at.BUDGET] < 0:
            words[at.PLACE] = place
            return at.GO_ON
        row = relevant[place]
        if rules.agreeing and rules.keys[row] != words[at.KEY]:
            words[at.KEY] = rules.keys[row]
            cells.ends[0] = cells.ends[1]
        tested, matches, elements, made = code.counts[0], found.used[0], found.used[1], cells.ends[1]
        if words[at.HAS_LISTS]:
            forget_cells(cells, row, rules.ceiling)
        result = at.FINISHED
        for slot in range(rules.positive):
            if not fits[slot * rules.size + row]:
                continue
            first_cell = -1
            for edge in range(edge_starts[slot], edge_starts[slot + 1]):
                edge_at = edge * at.EDGE_WORDS
                if edges[edge_at + at.KIND] == at.BEGINS and first_cell < 0:
                    first_cell = append(cells, slot, -1, row, row)
                    if first_cell < 0:
                        result = at.RING_FULL
                        break
                result = _follow_edge(words, code, rules, cells, found, edges, edge_at, place, row, first_cell)
                if result != at.FINISHED:
                    break
            if result != at.FINISHED:
                break
        for slot in range(rules.positive):
            if fits[slot * rules.size + row]:
                _settle(words, rules, edges, edge_starts, states, pending, slot, place, row, result == at.FINISHED)
        if result != at.FINISHED:
            code.counts[0] = tested
            found.used[0] = matches
            found.used[1] = elements
            cells.ends[1] = made
            words[at.PLACE] = place
            return result
        place += 1
    words[at.PLACE] = place
    return at.FINISHED


@njit(error_model="numpy")
def _follow_edge(
    words: Any,
    code: Code,
    rules: Rules,
    cells: Cells,
    found: Found,
    edges: Any,
    edge_at: int,
    place: int,
    row: int,
    first_cell: int,
) -> int:
    """Try an event on all instances in the source of an edge."""
    states = int64_at(words[at.STATES])
    source, target = edges[edge_at + at.SOURCE] * at.STATE_WORDS, edges[edge_at + at.TARGET] * at.STATE_WORDS
    slot, kind, group = edges[edge_at + at.SLOT], edges[edge_at + at.KIND], edges[edge_at + at.GROUP]
    stores, final = edges[edge_at + at.STORES], edges[edge_at + at.FINAL] != 0 and row >= words[at.REPORTED_FROM]
    stride = words[at.STRIDE]
    empty = edges[edge_at + at.SOURCE] == 0
    if rules.agreeing and not empty:
        if rules.keys[row] < 0:
            return at.FINISHED  # it agrees with no event
        _enter(states, source, words[at.KEY])
    if rules.agreeing:
        _enter(states, target, words[at.KEY])
    if states[source + at.TOUCHED] == place:
        count = states[source + at.OLD_COUNT]
    else:
        count = states[source + at.COUNT]
        if count >= states[source + at.LIMIT]:
            count = _bury(rules, states, source, stride, row)
    instances = int32_at(states[source + at.ADDRESS])
    if states[target + at.TOUCHED] != place:
        if states[target + at.COUNT] >= states[target + at.LIMIT]:
            _bury(rules, states, target, stride, row)
        states[target + at.TOUCHED] = place
        states[target + at.OLD_COUNT] = states[target + at.COUNT]
    kept = states[target + at.COUNT]
    floor = 0 if empty else rules.floor[row]
    words[at.BUDGET] -= count
    candidates = 0
    passes = 0
    result = at.FINISHED
    new = first_cell if kind == at.BEGINS else row
    for number in range(count):
        base = number * stride
        first = instances[base]
        if first < floor:
            continue
        if edges[edge_at + at.LATEST] < edges[edge_at + at.LATEST_END] and not _comes_after(
            words, rules, cells, edges, edge_at, instances, base + 1, row
        ):
            continue
        candidates += 1
        own = base + 1 + slot
        old = instances[own]
        if kind == at.APPENDS:
            new = append(cells, slot, old, row, row)
            if new < 0:
                result = at.RING_FULL
                break
        instances[own] = new
        used = False
        if empty:
            instances[base] = row
            first = row
        if group_holds(code, cells, group, instances, base + 1):
            passes += 1
            if stores:
                if kept == states[target + at.CAPACITY]:
                    words[at.FULL_STATE] = edges[edge_at + at.TARGET]
                    instances[own] = old
                    result = at.STATE_FULL
                    break
                copies = int32_at(states[target + at.ADDRESS])
                to = kept * stride
                for word in range(rules.positive + 1):
                    copies[to + word] = instances[base + word]
                kept += 1
                used = True
            if (
                final
                and _is_match(code, rules, cells, edges[edge_at + at.FINAL_GROUP], instances, base + 1, first, row)
                and not add_match(found, rules, cells, instances, base + 1)
            ):
                instances[own] = old
                result = at.FOUND_FULL
                break
        instances[own] = old
        if kind == at.APPENDS and not used:
            drop_newest(cells)
    pending = int64_at(words[at.PENDING])
    counts = edge_at // at.EDGE_WORDS * at.COUNTS
    pending[counts] = candidates
    pending[counts + 1] = passes
    pending[counts + 2] = kept - states[target + at.COUNT]
    states[target + at.COUNT] = kept
    return result


@njit(error_model="numpy")
def _enter(states: Any, state: int, key: int) -> None:
    """Remove the instances of a state that agree on another key; events are read key after key."""
    if states[state + at.STATE_KEY] != key:
        states[state + at.STATE_KEY] = key
        states[state + at.COUNT] = 0


@njit(error_model="numpy")
def _is_match(code: Code, rules: Rules, cells: Cells, group: int, slots: Any, base: int, first: int, last: int) -> bool:
    """Test whether an instance that has bound everything is a match if its lists are left as they are."""
    if not group_holds(code, cells, group, slots, base):
        return False
    return rules.negations == 0 or not rejected(rules, code, cells, slots, base, first, last)


@njit(error_model="numpy")
def _comes_after(
    words: Any, rules: Rules, cells: Cells, edges: Any, edge_at: int, slots: Any, base: int, row: int
) -> bool:
    """Test whether an event is after those of the variables that come directly before."""
    latests = int64_at(words[at.LATESTS])
    for number in range(edges[edge_at + at.LATEST], edges[edge_at + at.LATEST_END]):
        if last_row(rules, cells, slots, base, latests[number]) >= rules.reach[row]:
            return False
    return True


@njit(error_model="numpy")
def _bury(rules: Rules, states: Any, state: int, stride: int, row: int) -> int:
    """Remove the instances of a state whose window has ended; returns how many are left."""
    instances = int32_at(states[state + at.ADDRESS])
    left = 0
    for number in range(states[state + at.COUNT]):
        base = number * stride
        if rules.ceiling[instances[base]] < row:
            continue
        if left < number:
            to = left * stride
            for word in range(rules.positive + 1):
                instances[to + word] = instances[base + word]
        left += 1
    states[state + at.COUNT] = left
    states[state + at.LIMIT] = max(64, 2 * left)
    return left


@njit(error_model="numpy")
def _settle(
    words: Any,
    rules: Rules,
    edges: Any,
    edge_starts: Any,
    states: Any,
    pending: Any,
    slot: int,
    place: int,
    row: int,
    done: bool,
) -> None:
    """Count what an event did along the edges of a variable, or undo it."""
    counted, stride = int64_at(words[at.COUNTED]), words[at.STRIDE]
    for edge in range(edge_starts[slot], edge_starts[slot + 1]):
        for count in range(edge * at.COUNTS, (edge + 1) * at.COUNTS):
            if done:
                counted[count] += pending[count]
            pending[count] = 0
        state = edges[edge * at.EDGE_WORDS + at.TARGET]
        target = state * at.STATE_WORDS
        if states[target + at.TOUCHED] != place:
            continue
        states[target + at.TOUCHED] = -1
        if not done:
            states[target + at.COUNT] = states[target + at.OLD_COUNT]
            continue
        if states[target + at.COUNT] > states[target + at.OLD_COUNT]:
            instances = int32_at(states[target + at.ADDRESS])
            lives = int32_at(words[at.LIVES] + state * words[at.LIVES_BYTES])
            lives[row] += states[target + at.COUNT] - states[target + at.OLD_COUNT]
            for number in range(states[target + at.OLD_COUNT], states[target + at.COUNT]):
                lives[rules.ceiling[instances[number * stride]] + 1] -= 1
