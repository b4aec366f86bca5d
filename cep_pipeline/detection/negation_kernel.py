"""The search for events of a negated structure, written in Numba. Imported only where it is compiled.

A query asks for the binding of a structure's variables that ends first. Its variables are bound one after another, one
level each; an entry of the stack is one bound event, so that a list takes several. Where the search has got to stays in
the words and the arrays behind them: a call may end at any event, and the next one goes on there.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.compiled.pointers import int8_at, int32_at, int64_at, uint8_at
from cep_pipeline.detection.instances.cells import (
    Cells,
    append,
    cells_at,
    drop_newest,
    first_row_of,
    list_contains,
    row_of,
)
from cep_pipeline.detection.instances.codes import EARLIER, LATER
from cep_pipeline.detection.instances.interpreter import code_at, group_holds
from cep_pipeline.detection.instances.searching import first_at_least, first_passing
from cep_pipeline.detection.instances.terms import Code
from cep_pipeline.detection.negation_words import (
    ALL_SLOTS,
    ANCHORED,
    BEGINS,
    BOUND,
    BUDGET,
    CODES,
    DEPTH,
    ELEMENT_GROUP,
    ENOUGH,
    ENTRY_BEFORE,
    ENTRY_END,
    ENTRY_LENGTH,
    ENTRY_LEVEL,
    ENTRY_PLACE,
    ENTRY_STAGE,
    ENTRY_WORDS,
    FINISHED,
    FIRST_GROUP,
    FOUND,
    GO_ON,
    GROUP_STARTS,
    HIGH,
    HIGHS,
    IS_LIST,
    KEY_SLOT,
    KLEENE,
    LATEST_FIRST,
    LEAST,
    LEFT,
    LEFT_GROUP,
    LEVEL_ROWS,
    LEVEL_TABLE,
    LEVEL_WORDS,
    LEVELS,
    LIMIT_GROUP,
    LOWS,
    MOST,
    NEEDED,
    NOT_BEGUN,
    ONCE,
    ONSET,
    POSITIVE,
    PROGRAM,
    QUERIES,
    QUERY,
    REACH,
    RELATIONS,
    RING_FULL,
    ROWS,
    SHARES,
    SHARES_BEGIN,
    SHARES_END,
    SLOT,
    SLOTS,
    STACK,
    STACK_FULL,
    STACK_ROOM,
    UNBOUND,
)


def search_negated(words: Any) -> int:
    """Find for each query the row at which the first binding ends; none leaves its row of `FOUND` as it is.

    Returns
    -------
    int
        What the driver has to do; see `negation_words.py`.
    """
    code, cells = code_at(words, PROGRAM), cells_at(words, PROGRAM + 11)
    lows, highs, enough = int32_at(words[LOWS]), int32_at(words[HIGHS]), int32_at(words[ENOUGH])
    found = int32_at(words[FOUND])
    while words[QUERY] < words[QUERIES]:
        query = words[QUERY]
        if words[DEPTH] == NOT_BEGUN:
            cells.ends[0] = 0
            cells.ends[1] = 0
            if not _load(words, cells, query):
                return RING_FULL
            words[HIGH] = highs[query]
            words[LATEST_FIRST] = lows[query] if words[ANCHORED] else highs[query]
            _enter(words, cells, 0, 0, lows[query])
            words[DEPTH] = 0
        result = _search(words, code, cells, lows[query], enough[query])
        if result != FINISHED:
            return result
        if words[HIGH] < highs[query]:
            found[query] = words[HIGH]
        words[DEPTH] = NOT_BEGUN
        words[QUERY] = query + 1
    return FINISHED


@njit(error_model="numpy")
def _load(words: Any, cells: Cells, query: int) -> bool:
    """Put the events of a match into the slots that are needed; False where the ring is full."""
    rows, begins, slots = int32_at(words[ROWS]), int64_at(words[BEGINS]), int32_at(words[SLOTS])
    needed, kleene = uint8_at(words[NEEDED]), uint8_at(words[KLEENE])
    first = query * words[POSITIVE]
    slots[words[ALL_SLOTS]] = rows[begins[first]]
    for slot in range(words[POSITIVE]):
        if not needed[slot]:
            continue
        begin = begins[first + slot]
        if not kleene[slot]:
            slots[slot] = rows[begin]
            continue
        cell = -1
        for place in range(begin, begins[first + slot + 1]):
            cell = append(cells, slot, cell, rows[place], rows[place])
            if cell < 0:
                return False
        slots[slot] = cell
    return True


@njit(error_model="numpy")
def _search(words: Any, code: Code, cells: Cells, low: int, enough: int) -> int:
    levels, stack, slots = int64_at(words[LEVEL_TABLE]), int64_at(words[STACK]), int32_at(words[SLOTS])
    depth = words[DEPTH]
    while depth >= 0:
        if words[BUDGET] < 0:
            words[DEPTH] = depth
            return GO_ON
        if depth + 2 >= words[STACK_ROOM]:
            words[DEPTH] = depth
            return STACK_FULL
        at = depth * ENTRY_WORDS
        level = stack[at + ENTRY_LEVEL]
        own = level * LEVEL_WORDS
        is_list = levels[own + IS_LIST] != 0
        if stack[at + ENTRY_STAGE] == UNBOUND:
            result = _bind_next(words, code, cells, levels, stack, slots, own, at)
            if result == RING_FULL:
                words[DEPTH] = depth
                return RING_FULL
            if result != FINISHED:
                depth -= 1
                continue
            stack[at + ENTRY_STAGE] = BOUND
            leaves = True
            if is_list:
                group = levels[own + LEFT_GROUP]
                leaves = stack[at + ENTRY_LENGTH] >= levels[own + LEAST] and (
                    group < 0 or group_holds(code, cells, group, slots, 0)
                )
            if leaves:
                if level + 1 < words[LEVELS]:
                    depth += 1
                    _enter(words, cells, depth, level + 1, low)
                    continue
                words[HIGH] = _last_bound(words, cells, levels, slots)
                if words[HIGH] < enough:
                    return FINISHED
        if is_list and stack[at + ENTRY_STAGE] == BOUND and stack[at + ENTRY_LENGTH] < levels[own + MOST]:
            stack[at + ENTRY_STAGE] = LEFT
            depth += 1
            more = depth * ENTRY_WORDS
            stack[more + ENTRY_LEVEL] = level
            stack[more + ENTRY_PLACE] = stack[at + ENTRY_PLACE]
            stack[more + ENTRY_END] = stack[at + ENTRY_END]
            stack[more + ENTRY_STAGE] = UNBOUND
            stack[more + ENTRY_LENGTH] = stack[at + ENTRY_LENGTH] + 1
            stack[more + ENTRY_BEFORE] = slots[levels[own + SLOT]]
            continue
        if is_list:
            drop_newest(cells)
            slots[levels[own + SLOT]] = stack[at + ENTRY_BEFORE]
        if levels[own + ONCE]:
            depth -= 1
            continue
        stack[at + ENTRY_STAGE] = UNBOUND
    words[DEPTH] = depth
    return FINISHED


@njit(error_model="numpy")
def _enter(words: Any, cells: Cells, depth: int, level: int, low: int) -> None:
    """Begin a level: its candidates are those of its key between the events that it comes after and before."""
    levels, stack, slots = int64_at(words[LEVEL_TABLE]), int64_at(words[STACK]), int32_at(words[SLOTS])
    onset, reach, relations = int32_at(words[ONSET]), int32_at(words[REACH]), int8_at(words[RELATIONS])
    own = level * LEVEL_WORDS
    slot = levels[own + SLOT]
    high = words[HIGH]
    for earlier in range(level):
        other = levels[earlier * LEVEL_WORDS + SLOT]
        relation = relations[other * words[ALL_SLOTS] + slot]
        value = slots[other]
        if relation & EARLIER:
            row = row_of(cells, value) if levels[earlier * LEVEL_WORDS + IS_LIST] else value
            low = max(low, onset[row])
        elif relation & LATER:
            row = first_row_of(cells, value) if levels[earlier * LEVEL_WORDS + IS_LIST] else value
            high = min(high, reach[row])
    group = 0
    if levels[own + CODES]:
        group = int32_at(levels[own + CODES])[slots[levels[own + KEY_SLOT]]]
    begin, end = 0, 0
    if group >= 0:
        starts, rows = int64_at(levels[own + GROUP_STARTS]), int32_at(levels[own + LEVEL_ROWS])
        begin = first_at_least(rows, starts[group], starts[group + 1], low)
        end = first_at_least(rows, begin, starts[group + 1], high)
    at = depth * ENTRY_WORDS
    stack[at + ENTRY_LEVEL] = level
    stack[at + ENTRY_PLACE] = begin
    stack[at + ENTRY_END] = end
    stack[at + ENTRY_STAGE] = UNBOUND
    stack[at + ENTRY_LENGTH] = 1
    stack[at + ENTRY_BEFORE] = -1


@njit(error_model="numpy")
def _bind_next(words: Any, code: Code, cells: Cells, levels: Any, stack: Any, slots: Any, own: int, at: int) -> int:
    """Bind the next candidate of an entry that fits; GO_ON where there is none, RING_FULL where it has no room."""
    rows, shares, kleene = int32_at(levels[own + LEVEL_ROWS]), int64_at(words[SHARES]), uint8_at(words[KLEENE])
    slot, is_list, before = levels[own + SLOT], levels[own + IS_LIST] != 0, stack[at + ENTRY_BEFORE]
    group = levels[own + FIRST_GROUP] if before < 0 else levels[own + ELEMENT_GROUP]
    limit, missing = levels[own + LIMIT_GROUP], levels[own + LEAST] - stack[at + ENTRY_LENGTH] + 1
    place, end, high = stack[at + ENTRY_PLACE], stack[at + ENTRY_END], words[HIGH]
    while place < end and end - place >= missing:
        if group >= 0 and not is_list:
            skipped = place
            place = first_passing(rows, slots, code, group, slot, place, end)
            words[BUDGET] -= place - skipped
            if place == end:
                break
        row = rows[place]
        if row >= high or (at == 0 and row > words[LATEST_FIRST]):
            break
        words[BUDGET] -= 1
        taken = False
        for share in range(levels[own + SHARES_BEGIN], levels[own + SHARES_END]):
            other = shares[share]
            if list_contains(cells, slots[other], row) if kleene[other] else slots[other] == row:
                taken = True
                break
        if not taken:
            if is_list:
                cell = append(cells, slot, before, row, row)
                if cell < 0:
                    stack[at + ENTRY_PLACE] = place
                    return RING_FULL
                slots[slot] = cell
            else:
                slots[slot] = row
            holds = group < 0 or group_holds(code, cells, group, slots, 0)
            if holds and limit >= 0:
                holds = group_holds(code, cells, limit, slots, 0)
            if holds:
                stack[at + ENTRY_PLACE] = place + 1
                return FINISHED
            if is_list:
                drop_newest(cells)
                slots[slot] = before
        place += 1
    stack[at + ENTRY_PLACE] = end
    return GO_ON


@njit(error_model="numpy")
def _last_bound(words: Any, cells: Cells, levels: Any, slots: Any) -> int:
    """The last row of a binding."""
    last = -1
    for level in range(words[LEVELS]):
        value = slots[levels[level * LEVEL_WORDS + SLOT]]
        last = max(last, row_of(cells, value) if levels[level * LEVEL_WORDS + IS_LIST] else value)
    return last
