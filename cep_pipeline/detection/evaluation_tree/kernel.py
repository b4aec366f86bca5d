"""The tree's loop, written in Numba. Imported only where it is compiled; `run.py` calls it.

A step is an event that fits a variable. It becomes an instance at each leaf that it fits; what is new at a node is
joined with what the other side holds, and so on up to the root (JQPG section 2.3). What the current event made is
beyond the marks of the stores, so that it can be taken back where there is no room for all of it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

from numba import njit

from cep_pipeline.detection.evaluation_tree.codes import (
    ALIVE,
    AT_INSTANT,
    AT_ONCE,
    CANDIDATES,
    CELLS_FULL,
    COUNTS,
    EXPIRES,
    FINISHED,
    FOUND_FULL,
    GO_ON,
    KEY,
    LAST,
    MADE,
    OLDER,
    PASSES,
    SHORT_OF,
    SLOTS,
    STEP,
    STORE_FULL,
    TESTS_A_CALL,
    WAITING,
    WAITING_FULL,
)
from cep_pipeline.detection.evaluation_tree.finished import emit, first_of, free, last_of, settle, survives, wait
from cep_pipeline.detection.evaluation_tree.machine import Machine, machine_at
from cep_pipeline.detection.evaluation_tree.stores import compact, is_linked, keep, load, newest_before, push, stride_of
from cep_pipeline.detection.instances.cells import (
    append,
    cell_before,
    drop_newest,
    forget_cells,
    length_of,
    list_contains,
    row_of,
)
from cep_pipeline.detection.instances.interpreter import group_holds


@njit(error_model="numpy", forceinline=True)
def enter(machine: Machine, node: int, expires: int, row: int, key: int) -> int:
    """Count the tuple under test as a candidate of a node, and hold it there if it passes."""
    counts = machine.stores.counts
    counts[node * COUNTS + CANDIDATES] += 1
    if not group_holds(machine.code, machine.cells, machine.layout.groups[node], machine.stores.bound, 0):
        return FINISHED
    counts[node * COUNTS + PASSES] += 1
    if not survives(machine, node, row):
        return FINISHED
    return FINISHED if push(machine, node, expires, row, key) else STORE_FULL


@njit(error_model="numpy")
def begin_lists(machine: Machine, variable: int, step: int, row: int, key: int) -> int:
    """The lists of a Kleene variable that end with the event: it alone, and every list before it continued."""
    layout, stream, stores, cells = machine.layout, machine.stream, machine.stores, machine.cells
    lists = layout.nodes + variable
    continuing = layout.groups[layout.nodes + variable]
    beginning = layout.groups[layout.nodes + layout.variables + variable]
    stride = stride_of(machine, lists)
    older = newest_before(machine, lists, row, row, key) if key >= 0 else -1
    before = -1
    expires = stream.expires[step]
    while True:
        cell = append(cells, variable, before, row, row)
        if cell < 0:
            return CELLS_FULL
        stores.bound[variable] = cell
        if group_holds(machine.code, cells, beginning if before < 0 else continuing, stores.bound, 0):
            if key >= 0 and not push(machine, lists, expires, row, key):
                return STORE_FULL
            code = enter(machine, variable, expires, row, key)
            if code != FINISHED:
                return code
        else:
            stores.counts[variable * COUNTS + CANDIDATES] += 1
            drop_newest(cells)
        while True:
            if older < 0:
                return FINISHED
            at = stores.bases[lists] + older * stride
            if stores.words[at + LAST] < machine.rules.floor[row]:
                return FINISHED
            older = stores.words[at + OLDER] if machine.rules.agreeing else older - 1
            if stores.words[at + EXPIRES] > step:
                before = stores.words[at + SLOTS]
                expires = stores.words[at + EXPIRES]
                break


@njit(error_model="numpy")
def in_order(machine: Machine, at: int) -> bool:
    """Whether the pairs at `ascents[at]` are in their order; its length comes first."""
    layout = machine.layout
    for pair in range(layout.ascents[at]):
        one, other = layout.ascents[at + 1 + 2 * pair], layout.ascents[at + 2 + 2 * pair]
        if first_of(machine, other) < machine.rules.onset[last_of(machine, one)]:
            return False
    return True


@njit(error_model="numpy")
def are_distinct(machine: Machine, at: int) -> bool:
    """Whether the pairs at `ascents[at]` have no event in common; its length comes first."""
    layout, cells, bound = machine.layout, machine.cells, machine.stores.bound
    for pair in range(layout.ascents[at]):
        one, other = layout.ascents[at + 1 + 2 * pair], layout.ascents[at + 2 + 2 * pair]
        if machine.rules.kleene[one] and machine.rules.kleene[other]:
            cell = bound[one]
            for _ in range(length_of(cells, bound[one])):
                if list_contains(cells, bound[other], row_of(cells, cell)):
                    return False
                cell = cell_before(cells, cell)
        elif machine.rules.kleene[one]:
            if list_contains(cells, bound[one], bound[other]):
                return False
        elif machine.rules.kleene[other]:
            if list_contains(cells, bound[other], bound[one]):
                return False
        elif bound[one] == bound[other]:
            return False
    return True


@njit(error_model="numpy", forceinline=True)
def join(machine: Machine, node: int, number: int, at: int, step: int, row: int, key: int) -> int:
    """Join an instance that is new at a node with those of the other side that are in window and order.

    Parameters
    ----------
    at
        Where the words of the ascent are, behind the first.
    """
    layout, stores = machine.layout, machine.stores
    ascents = layout.ascents
    sibling, parent = layout.siblings[node], layout.parents[node]
    own_expires = stores.words[stores.bases[node] + number * stride_of(machine, node) + EXPIRES]
    load(machine, node, number)
    lower, upper = machine.rules.floor[row], row
    for place in range(at + 1, at + 1 + ascents[at]):
        lower = max(lower, machine.rules.onset[last_of(machine, ascents[place])])
    at += 1 + ascents[at]
    for place in range(at + 1, at + 1 + ascents[at]):
        upper = min(upper, machine.rules.reach[first_of(machine, ascents[place])])
    order = at + 1 + ascents[at]
    apart = order + 1 + 2 * ascents[order]
    stride = stride_of(machine, sibling)
    other = newest_before(machine, sibling, upper, row, key)
    while other >= 0:
        words = stores.bases[sibling] + other * stride
        if stores.words[words + LAST] < lower:
            break
        expires = stores.words[words + EXPIRES]
        if expires > step:
            load(machine, sibling, other)
            if in_order(machine, order) and are_distinct(machine, apart):
                code = enter(machine, parent, min(expires, own_expires), row, key)
                if code != FINISHED:
                    return code
        other = stores.words[words + OLDER] if machine.rules.agreeing else other - 1
    return FINISHED


@njit(error_model="numpy", forceinline=True)
def ascend(machine: Machine, node: int, begin: int, variable: int, step: int, row: int, key: int) -> int:
    """Join what is new at a node, from its instance `begin` on, and what that makes, up to the root."""
    layout, stores, waiting = machine.layout, machine.stores, machine.waiting
    while layout.parents[node] >= 0:
        if begin == stores.tails[node]:
            return FINISHED
        parent = layout.parents[node]
        at = layout.ascent_starts[node * layout.variables + variable]
        made = stores.tails[parent]
        owned = layout.parents[parent] >= 0 or waiting.finality != AT_ONCE or row >= waiting.first_row
        if layout.ascents[at] != 0 and owned:
            for number in range(begin, stores.tails[node]):
                code = join(machine, node, number, at + 1, step, row, key)
                if code != FINISHED:
                    return code
        if layout.stored[node] == 0:
            stores.tails[node] = begin
        node, begin = parent, made
    if waiting.finality == AT_ONCE and row < waiting.first_row:
        stores.tails[node] = begin
        return FINISHED
    for number in range(begin, stores.tails[node]):
        load(machine, node, number)
        if waiting.finality == AT_ONCE:
            if not emit(machine):
                return FOUND_FULL
        else:
            at = stores.bases[node] + number * stride_of(machine, node)
            if not wait(machine, stores.words[at + EXPIRES], step, row):
                return WAITING_FULL
    stores.tails[node] = begin
    return FINISHED


@njit(error_model="numpy", forceinline=True)
def take(machine: Machine, step: int, row: int) -> int:
    """Let an event into every leaf that it fits."""
    layout, stream, stores = machine.layout, machine.stream, machine.stores
    key = machine.rules.keys[row] if machine.rules.agreeing else 0
    if key < 0 and layout.variables > 1:
        return FINISHED  # it agrees with no other event
    for variable in range(layout.variables):
        if stream.fits[variable * stream.stride + row] == 0:
            continue
        begin = stores.tails[variable]
        if machine.rules.kleene[variable]:
            code = begin_lists(machine, variable, step, row, key)
        else:
            stores.bound[variable] = row
            code = FINISHED
            if survives(machine, variable, row) and not push(machine, variable, stream.expires[step], row, key):
                code = STORE_FULL
        if code == FINISHED:
            code = ascend(machine, variable, begin, variable, step, row, key)
        if code != FINISHED:
            return code
    return FINISHED


@njit(error_model="numpy")
def take_back(machine: Machine, cells_made: int, matches: int, elements: int) -> None:
    """Undo what the current event made."""
    layout, stores, waiting = machine.layout, machine.stores, machine.waiting
    for store in range(layout.nodes + layout.variables):
        base, stride = stores.bases[store], stride_of(machine, store)
        if is_linked(machine, store):
            for number in range(stores.tails[store] - 1, stores.marks[store] - 1, -1):
                at = base + number * stride
                stores.newest[store * stores.different + stores.words[at + KEY]] = stores.words[at + OLDER]
        stores.tails[store] = stores.marks[store]
    for number in range(waiting.progress[MADE] - 1, -1, -1):
        free(machine, waiting.made[number])
    while machine.cells.ends[1] > cells_made:
        drop_newest(machine.cells)
    machine.found.used[0] = matches
    machine.found.used[1] = elements
    for count in range(layout.nodes * COUNTS):
        stores.counts[count] = stores.saved[count]
    machine.code.counts[0] = stores.saved[layout.nodes * COUNTS]


def grow_trees(words: Any) -> int:
    """Read events until all are read or there is no room; then call it again with more room.

    Parameters
    ----------
    words
        int64: what `machine_at` reads. The output is to be emptied between calls.

    Returns
    -------
    int
        A code of `codes.py`.
    """
    machine = machine_at(words)
    layout, stream, stores, waiting = machine.layout, machine.stream, machine.stores, machine.waiting
    progress = waiting.progress
    stores_in_all = layout.nodes + layout.variables
    tested = machine.code.counts[0]
    while True:
        step = progress[STEP]
        if waiting.finality != AT_ONCE and not settle(machine, step):
            return FOUND_FULL
        if step == stream.steps:
            return FINISHED
        for node in range(layout.nodes):
            died = stores.deaths[node * (stream.steps + 1) + step]
            if died:
                stores.deaths[node * (stream.steps + 1) + step] = 0
                stores.alive[node] -= died
                progress[ALIVE] -= died
        row = stream.rows[step]
        if machine.found.lists and (waiting.finality != AT_INSTANT or progress[WAITING] == 0):
            forget_cells(machine.cells, row, machine.rules.ceiling)
        for store in range(stores_in_all):
            stores.marks[store] = stores.tails[store]
        for count in range(layout.nodes * COUNTS):
            stores.saved[count] = stores.counts[count]
        stores.saved[layout.nodes * COUNTS] = machine.code.counts[0]
        progress[MADE] = 0
        cells_made = machine.cells.ends[1] if machine.found.lists else 0
        matches, elements = machine.found.used[0], machine.found.used[1]
        code = take(machine, step, row)
        if code == FINISHED:
            keep(machine)
            progress[STEP] = step + 1
            if machine.code.counts[0] - tested > TESTS_A_CALL:
                return GO_ON
            continue
        if machine.found.lists:
            take_back(machine, cells_made, matches, elements)
        else:
            take_back(machine, 1 << 62, matches, elements)
        if code != STORE_FULL or not compact(machine, progress[SHORT_OF], step):
            return code
