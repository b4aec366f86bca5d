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
from cep_pipeline.detection import negation_words as at
from cep_pipeline.detection.conditions.cells import (
    Cells,
    append,
    cells_at,
    drop_newest,
    first_row_of,
    list_contains,
    row_of,
)
from cep_pipeline.detection.conditions.codes import CODE_WORDS, EARLIER, LATER
from cep_pipeline.detection.conditions.evaluator import Code, code_at, group_holds
from cep_pipeline.detection.conditions.rules import first_at_least, first_passing


def search_negated(words: Any) -> int:
    """Find for each query the row at which the first binding ends; none leaves its row of `FOUND` as it is.

    Returns
    -------
    int
        What the driver has to do; see `negation_words.py`.
    """
    code, cells = code_at(words, at.PROGRAM), cells_at(words, at.PROGRAM + CODE_WORDS)
    lows, highs, enough = int32_at(words[at.LOWS]), int32_at(words[at.HIGHS]), int32_at(words[at.ENOUGH])
    found = int32_at(words[at.FOUND])
    while words[at.QUERY] < words[at.QUERIES]:
        query = words[at.QUERY]
        if words[at.DEPTH] == at.NOT_BEGUN:
            cells.ends[0] = 0
            cells.ends[1] = 0
            if not _load(words, cells, query):
                return at.RING_FULL
            words[at.HIGH] = highs[query]
            _enter(words, cells, 0, 0, lows[query])
            words[at.DEPTH] = 0
        result = _search(words, code, cells, lows[query], enough[query])
        if result != at.FINISHED:
            return result
        if words[at.HIGH] < highs[query]:
            found[query] = words[at.HIGH]
        words[at.DEPTH] = at.NOT_BEGUN
        words[at.QUERY] = query + 1
    return at.FINISHED


@njit(error_model="numpy")
def _load(words: Any, cells: Cells, query: int) -> bool:
    """Put the events of a match into the slots that are needed; False where the ring is full."""
    rows, begins, slots = int32_at(words[at.ROWS]), int64_at(words[at.BEGINS]), int32_at(words[at.SLOTS])
    needed, kleene = uint8_at(words[at.NEEDED]), uint8_at(words[at.KLEENE])
    first = query * words[at.POSITIVE]
    slots[words[at.ALL_SLOTS]] = rows[begins[first]]
    for slot in range(words[at.POSITIVE]):
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
    levels, stack, slots = int64_at(words[at.LEVEL_TABLE]), int64_at(words[at.STACK]), int32_at(words[at.SLOTS])
    depth = words[at.DEPTH]
    while depth >= 0:
        if words[at.BUDGET] < 0:
            words[at.DEPTH] = depth
            return at.GO_ON
        if depth + 2 >= words[at.STACK_ROOM]:
            words[at.DEPTH] = depth
            return at.STACK_FULL
        entry = depth * at.ENTRY_WORDS
        level = stack[entry + at.ENTRY_LEVEL]
        own = level * at.LEVEL_WORDS
        is_list = levels[own + at.IS_LIST] != 0
        if stack[entry + at.ENTRY_STAGE] == at.UNBOUND:
            result = _bind_next(words, code, cells, levels, stack, slots, own, entry)
            if result == at.RING_FULL:
                words[at.DEPTH] = depth
                return at.RING_FULL
            if result != at.FINISHED:
                depth -= 1
                continue
            stack[entry + at.ENTRY_STAGE] = at.BOUND
            leaves = True
            if is_list:
                group = levels[own + at.LEFT_GROUP]
                leaves = stack[entry + at.ENTRY_LENGTH] >= levels[own + at.LEAST] and (
                    group < 0 or group_holds(code, cells, group, slots, 0)
                )
            if leaves:
                if level + 1 < words[at.LEVELS]:
                    depth += 1
                    _enter(words, cells, depth, level + 1, low)
                    continue
                words[at.HIGH] = _last_bound(words, cells, levels, slots)
                if words[at.HIGH] < enough:
                    return at.FINISHED
        if (
            is_list
            and stack[entry + at.ENTRY_STAGE] == at.BOUND
            and stack[entry + at.ENTRY_LENGTH] < levels[own + at.MOST]
        ):
            stack[entry + at.ENTRY_STAGE] = at.LEFT
            depth += 1
            more = depth * at.ENTRY_WORDS
            stack[more + at.ENTRY_LEVEL] = level
            stack[more + at.ENTRY_PLACE] = stack[entry + at.ENTRY_PLACE]
            stack[more + at.ENTRY_END] = stack[entry + at.ENTRY_END]
            stack[more + at.ENTRY_STAGE] = at.UNBOUND
            stack[more + at.ENTRY_LENGTH] = stack[entry + at.ENTRY_LENGTH] + 1
            stack[more + at.ENTRY_BEFORE] = slots[levels[own + at.SLOT]]
            continue
        if is_list:
            drop_newest(cells)
            slots[levels[own + at.SLOT]] = stack[entry + at.ENTRY_BEFORE]
        if levels[own + at.ONCE]:
            depth -= 1
            continue
        stack[entry + at.ENTRY_STAGE] = at.UNBOUND
    words[at.DEPTH] = depth
    return at.FINISHED


@njit(error_model="numpy")
def _enter(words: Any, cells: Cells, depth: int, level: int, low: int) -> None:
    """Begin a level: its candidates are those of its key between the events that it comes after and before."""
    levels, stack, slots = int64_at(words[at.LEVEL_TABLE]), int64_at(words[at.STACK]), int32_at(words[at.SLOTS])
    onset, reach, relations = int32_at(words[at.ONSET]), int32_at(words[at.REACH]), int8_at(words[at.RELATIONS])
    own = level * at.LEVEL_WORDS
    slot = levels[own + at.SLOT]
    high = words[at.HIGH]
    for earlier in range(level):
        other = levels[earlier * at.LEVEL_WORDS + at.SLOT]
        relation = relations[other * words[at.ALL_SLOTS] + slot]
        value = slots[other]
        if relation & EARLIER:
            row = row_of(cells, value) if levels[earlier * at.LEVEL_WORDS + at.IS_LIST] else value
            low = max(low, onset[row])
        elif relation & LATER:
            row = first_row_of(cells, value) if levels[earlier * at.LEVEL_WORDS + at.IS_LIST] else value
            high = min(high, reach[row])
    group = 0
    if levels[own + at.CODES]:
        group = int32_at(levels[own + at.CODES])[slots[levels[own + at.KEY_SLOT]]]
    begin, end = 0, 0
    if group >= 0:
        starts, rows = int64_at(levels[own + at.GROUP_STARTS]), int32_at(levels[own + at.LEVEL_ROWS])
        begin = first_at_least(rows, starts[group], starts[group + 1], low)
        end = first_at_least(rows, begin, starts[group + 1], high)
    entry = depth * at.ENTRY_WORDS
    stack[entry + at.ENTRY_LEVEL] = level
    stack[entry + at.ENTRY_PLACE] = begin
    stack[entry + at.ENTRY_END] = end
    stack[entry + at.ENTRY_STAGE] = at.UNBOUND
    stack[entry + at.ENTRY_LENGTH] = 1
    stack[entry + at.ENTRY_BEFORE] = -1


@njit(error_model="numpy")
def _bind_next(words: Any, code: Code, cells: Cells, levels: Any, stack: Any, slots: Any, own: int, entry: int) -> int:
    """Bind the next candidate of an entry that fits; GO_ON where there is none, RING_FULL where it has no room."""
    rows, shares, kleene = int32_at(levels[own + at.LEVEL_ROWS]), int64_at(words[at.SHARES]), uint8_at(words[at.KLEENE])
    slot, is_list, before = levels[own + at.SLOT], levels[own + at.IS_LIST] != 0, stack[entry + at.ENTRY_BEFORE]
    group = levels[own + at.FIRST_GROUP] if before < 0 else levels[own + at.ELEMENT_GROUP]
    limit, missing = levels[own + at.LIMIT_GROUP], levels[own + at.LEAST] - stack[entry + at.ENTRY_LENGTH] + 1
    place, end, high = stack[entry + at.ENTRY_PLACE], stack[entry + at.ENTRY_END], words[at.HIGH]
    while place < end and end - place >= missing:
        if group >= 0 and not is_list:
            skipped = place
            place = first_passing(rows, slots, code, group, slot, place, end)
            words[at.BUDGET] -= place - skipped
            if place == end:
                break
        row = rows[place]
        if row >= high:
            break
        words[at.BUDGET] -= 1
        taken = False
        for share in range(levels[own + at.SHARES_BEGIN], levels[own + at.SHARES_END]):
            other = shares[share]
            if list_contains(cells, slots[other], row) if kleene[other] else slots[other] == row:
                taken = True
                break
        if not taken:
            if is_list:
                cell = append(cells, slot, before, row, row)
                if cell < 0:
                    stack[entry + at.ENTRY_PLACE] = place
                    return at.RING_FULL
                slots[slot] = cell
            else:
                slots[slot] = row
            holds = group < 0 or group_holds(code, cells, group, slots, 0)
            if holds and limit >= 0:
                holds = group_holds(code, cells, limit, slots, 0)
            if holds:
                stack[entry + at.ENTRY_PLACE] = place + 1
                return at.FINISHED
            if is_list:
                drop_newest(cells)
                slots[slot] = before
        place += 1
    stack[entry + at.ENTRY_PLACE] = end
    return at.GO_ON


@njit(error_model="numpy")
def _last_bound(words: Any, cells: Cells, levels: Any, slots: Any) -> int:
    """The last row of a binding."""
    last = -1
    for level in range(words[at.LEVELS]):
        value = slots[levels[level * at.LEVEL_WORDS + at.SLOT]]
        last = max(last, row_of(cells, value) if levels[level * at.LEVEL_WORDS + at.IS_LIST] else value)
    return last
