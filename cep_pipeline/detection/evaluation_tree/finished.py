"""Complete tuples: what rejects them, and how they leave the tree. Imported only where its kernel is compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from numba import njit

from cep_pipeline.compiled.pointers import int32_at, int64_at
from cep_pipeline.detection.evaluation_tree.codes import (
    ALIVE,
    AT_WINDOW_END,
    DUE,
    FREE,
    LAST_ROW,
    MADE,
    NEXT,
    USED,
    WAITING,
    WAITING_SLOTS,
)
from cep_pipeline.detection.evaluation_tree.machine import Machine
from cep_pipeline.detection.instances.finished import add_match
from cep_pipeline.detection.instances.interpreter import group_holds
from cep_pipeline.detection.instances.rules import contains, first_row, last_row


@njit(error_model="numpy")
def first_of(machine: Machine, variable: int) -> int:
    """The first row that the tuple under test binds to a variable."""
    return first_row(machine.rules, machine.cells, machine.stores.bound, 0, variable)


@njit(error_model="numpy")
def last_of(machine: Machine, variable: int) -> int:
    """The last row that the tuple under test binds to a variable."""
    return last_row(machine.rules, machine.cells, machine.stores.bound, 0, variable)


@njit(error_model="numpy")
def rejected(machine: Machine, negated: int, last: int, begin_row: int, end_row: int) -> bool:
    """Whether an event of a negated variable rejects the tuple under test.

    Parameters
    ----------
    last
        The last row of the tuple.
    begin_row, end_row
        The events that are asked.
    """
    layout, stream, stores = machine.layout, machine.stream, machine.stores
    begin, end = layout.before_starts[negated], layout.before_starts[negated + 1]
    low = machine.rules.floor[last] if begin == end else 0
    for place in range(begin, end):
        low = max(low, machine.rules.onset[last_of(machine, layout.before[place])])
    begin, end = layout.behind_starts[negated], layout.behind_starts[negated + 1]
    if begin == end:
        first = first_of(machine, 0)
        for variable in range(1, layout.variables):
            first = min(first, first_of(machine, variable))
        high = machine.rules.ceiling[first] + 1
    else:
        high = machine.rules.reach[first_of(machine, layout.behind[begin])]
        for place in range(begin + 1, end):
            high = min(high, machine.rules.reach[first_of(machine, layout.behind[place])])
    low, high = max(low, begin_row), min(high, end_row)
    rows = int32_at(stream.negated[3 * negated])
    floor, number = 0, stream.negated[3 * negated + 1]
    if machine.rules.agreeing:
        key = machine.rules.keys[last]
        if key < 0:
            return False
        starts = int64_at(stream.negated[3 * negated + 2])
        floor, number = starts[key], starts[key + 1]
    least = floor
    while least < number:
        middle = (least + number) >> 1
        if rows[middle] < high:
            least = middle + 1
        else:
            number = middle
    group = layout.groups[layout.nodes + 2 * layout.variables + negated]
    while number > floor:
        number -= 1
        row = rows[number]
        if row < low:
            return False
        if is_bound(machine, negated, row):
            continue
        stores.bound[layout.variables + negated] = row
        if group_holds(machine.code, machine.cells, group, stores.bound, 0):
            return True
    return False


@njit(error_model="numpy")
def is_bound(machine: Machine, negated: int, row: int) -> bool:
    """Whether the tuple under test has the very event that would reject it."""
    layout = machine.layout
    for place in range(layout.excluded_starts[negated], layout.excluded_starts[negated + 1]):
        if contains(machine.rules, machine.cells, machine.stores.bound, 0, layout.excluded[place], row):
            return True
    return False


@njit(error_model="numpy")
def survives(machine: Machine, node: int, last: int) -> bool:
    """Whether no event that has been rejects the tuple under test, new at a node; its last row is given.

    Events of a negated variable that is late may still come; those that have been are asked here, those to come when
    the match is final.
    """
    layout = machine.layout
    for place in range(layout.rejecting_starts[node], layout.rejecting_starts[node + 1]):
        if rejected(machine, layout.rejecting[place], last, 0, last + 1):
            return False
    return True


@njit(error_model="numpy")
def emit(machine: Machine) -> bool:
    """Put the tuple under test out as a match; False where there is no room."""
    return add_match(machine.found, machine.rules, machine.cells, machine.stores.bound, 0)


@njit(error_model="numpy")
def wait(machine: Machine, expires: int, step: int, row: int) -> bool:
    """Let the tuple under test, a match that later events may reject, wait until it is final."""
    layout, waiting = machine.layout, machine.waiting
    progress, matches = waiting.progress, waiting.matches
    stride = WAITING_SLOTS + layout.variables
    place = progress[FREE]
    if place >= 0:
        progress[FREE] = matches[place * stride + NEXT]
    elif progress[USED] < waiting.room:
        place = progress[USED]
        progress[USED] = place + 1
    else:
        return False
    due = expires if waiting.finality == AT_WINDOW_END else machine.stream.due[step]
    at = place * stride
    matches[at + DUE] = due
    matches[at + LAST_ROW] = row
    matches[at + NEXT] = waiting.heads[due]
    waiting.heads[due] = place
    for variable in range(layout.variables):
        matches[at + WAITING_SLOTS + variable] = machine.stores.bound[variable]
    waiting.made[progress[MADE]] = place
    progress[MADE] += 1
    progress[WAITING] += 1
    return True


@njit(error_model="numpy")
def free(machine: Machine, place: int) -> None:
    """Give back the place of a waiting match that is the first of those due with it."""
    waiting = machine.waiting
    at = place * (WAITING_SLOTS + machine.layout.variables)
    waiting.heads[waiting.matches[at + DUE]] = waiting.matches[at + NEXT]
    waiting.matches[at + NEXT] = waiting.progress[FREE]
    waiting.progress[FREE] = place
    waiting.progress[WAITING] -= 1


@njit(error_model="numpy")
def settle(machine: Machine, step: int) -> bool:
    """Put out the matches that are final at a step and not rejected; False where there is no room."""
    layout, stores, waiting = machine.layout, machine.stores, machine.waiting
    root = layout.nodes - 1
    while waiting.heads[step] >= 0:
        place = waiting.heads[step]
        at = place * (WAITING_SLOTS + layout.variables)
        for variable in range(layout.variables):
            stores.bound[variable] = waiting.matches[at + WAITING_SLOTS + variable]
        last, tested = waiting.matches[at + LAST_ROW], machine.code.counts[0]
        survived = True
        for negated in range(layout.rejecting_starts[layout.nodes]):
            if layout.late[negated] and rejected(machine, negated, last, last + 1, machine.rules.size):
                survived = False
                break
        if survived and not emit(machine):
            machine.code.counts[0] = tested  # it is asked again when there is room
            return False
        free(machine, place)
        stores.alive[root] -= 1
        waiting.progress[ALIVE] -= 1
    return True
