"""The tree's loop, written in Numba. Imported only where it is compiled; `run.py` calls it.

A step is an event that fits a variable. It becomes an instance at each leaf that it fits; what is new at a node is
joined with what the other side holds, and so on up to the root (JQPG section 2.3). What the current event made is
beyond the marks of the stores, so that it can be taken back where there is no room for all of it.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.detection.evaluation_tree.codes import (
    ALIVE,
    AT_INSTANT,
    AT_ONCE,
    AT_WINDOW_END,
    CANDIDATES,
    CELLS_FULL,
    COUNTS,
    CREATED,
    DUE,
    ELEMENTS,
    EXPIRES,
    FINISHED,
    FREE,
    KEY,
    LAST,
    LAST_ROW,
    MADE,
    MATCHES,
    NEXT,
    OLDER,
    OUTPUT_FULL,
    PASSES,
    SHORT_OF,
    SLOTS,
    STEP,
    STORE_FULL,
    USED,
    WAITING,
    WAITING_FULL,
    WAITING_SLOTS,
)
from cep_pipeline.detection.instances.cells import (
    Cells,
    append,
    cell_before,
    cells_at,
    drop_newest,
    first_row_of,
    forget_cells,
    length_of,
    list_contains,
    row_of,
)
from cep_pipeline.detection.instances.interpreter import Code, code_at, group_holds
from cep_pipeline.detection.instances.pointers import int32_at, int64_at, uint8_at


class Layout(NamedTuple):
    """The tree, as `assembly.py` writes it: pointers to int64s. `x_starts` says where each list of `xs` begins.

    Attributes
    ----------
    variables, nodes
        How many positive variables there are, and nodes.
    parents, siblings, stored
        Of each node.
    kleene
        Of each positive variable.
    members, rejecting
        The variables of each node, and the negated ones that are asked there.
    ascents
        Of each node and variable, as `Assembly.ascent` says.
    before, behind, excluded
        Of each negated variable the positive ones before it, after it, and those that may bind the same event.
    late
        Of each negated variable: whether it is asked when the match is final.
    groups
        The groups of conjuncts: of each node, of an element that continues a list and of one that begins it (for each
        variable), and of each negated variable.
    """

    variables: Any
    nodes: Any
    parents: Any
    siblings: Any
    stored: Any
    kleene: Any
    member_starts: Any
    members: Any
    rejecting_starts: Any
    rejecting: Any
    ascent_starts: Any
    ascents: Any
    before_starts: Any
    before: Any
    behind_starts: Any
    behind: Any
    excluded_starts: Any
    excluded: Any
    late: Any
    groups: Any


class Stream(NamedTuple):
    """What the tree reads.

    Attributes
    ----------
    steps, rows
        How many steps there are, and the row of each.
    expires, due
        The step at which the window that begins with each step has ended, and at which its timestamp has passed.
    floor, ceiling, reach, onset
        Of each row, as `StreamRules` has them.
    fits, stride
        Whether the event of a row fits variable v: `fits[v * stride + row]`.
    keys, keyed
        For each row what it must agree on with others, and whether they must.
    negated
        For each negated variable the address of its rows, their number, and the address of where each key's begin.
    """

    steps: Any
    rows: Any
    expires: Any
    due: Any
    floor: Any
    ceiling: Any
    reach: Any
    onset: Any
    fits: Any
    stride: Any
    keys: Any
    keyed: Any
    negated: Any


class Stores(NamedTuple):
    """The instances of each node, and behind the nodes the lists of each Kleene variable that can be continued.

    Attributes
    ----------
    words
        All instances.
    bases, sizes
        For each store where in `words` it begins, and how many instances have room.
    tails, marks
        How many it holds, and how many before the current event.
    newest, different
        The newest instance of each store and key, and how many keys there are.
    deaths
        For each node and step how many instances expire.
    alive, peaks
        For each node.
    counts, saved
        Counts of each node, and what they and the condition evaluations were before the current event.
    bound
        The slots of the tuple under test.
    held
        For each step how many instances there are behind it.
    """

    words: Any
    bases: Any
    sizes: Any
    tails: Any
    marks: Any
    newest: Any
    different: Any
    deaths: Any
    alive: Any
    peaks: Any
    counts: Any
    saved: Any
    bound: Any
    held: Any


class Output(NamedTuple):
    """Where finished matches go, and those that wait.

    Attributes
    ----------
    progress
        The words of `codes.PROGRESS`.
    rows, variables, room
        The elements of matches, their variables (of lists only), and how many have room.
    ends, most
        Where in `rows` each match ends (of lists only), and how many matches have room.
    first_row
        Matches that are final at their last event count from this row on.
    finality
        When a match is final: `codes.AT_ONCE`, `AT_INSTANT`, `AT_WINDOW_END`.
    lists
        Whether there are Kleene variables.
    waiting, waiting_room
        Matches that wait, and how many have room.
    due_heads
        For each step the first match that is final then, or -1.
    made
        The places of the matches that the current event made wait.
    """

    progress: Any
    rows: Any
    variables: Any
    room: Any
    ends: Any
    most: Any
    first_row: Any
    finality: Any
    lists: Any
    waiting: Any
    waiting_room: Any
    due_heads: Any
    made: Any


class Machine(NamedTuple):
    """All of it."""

    layout: Layout
    stream: Stream
    stores: Stores
    output: Output
    code: Code
    cells: Cells


@njit(error_model="numpy")
def _part(words: Any, number: int) -> Any:
    return int64_at(words[0] + 8 * int64_at(words[0])[number])


@njit(error_model="numpy")
def machine_at(words: Any) -> Machine:
    """The pointers in the words that `run.py` writes, in the order of the attributes."""
    layout = Layout(
        words[1],
        words[2],
        _part(words, 0),
        _part(words, 1),
        _part(words, 2),
        _part(words, 3),
        _part(words, 4),
        _part(words, 5),
        _part(words, 6),
        _part(words, 7),
        _part(words, 8),
        _part(words, 9),
        _part(words, 10),
        _part(words, 11),
        _part(words, 12),
        _part(words, 13),
        _part(words, 14),
        _part(words, 15),
        _part(words, 16),
        _part(words, 17),
    )
    stream = Stream(
        words[3],
        int32_at(words[4]),
        int32_at(words[5]),
        int32_at(words[6]),
        int32_at(words[7]),
        int32_at(words[8]),
        int32_at(words[9]),
        int32_at(words[10]),
        uint8_at(words[11]),
        words[12],
        int32_at(words[13]),
        words[14] != 0,
        int64_at(words[15]),
    )
    stores = Stores(
        int32_at(words[16]),
        int64_at(words[17]),
        int64_at(words[18]),
        int64_at(words[19]),
        int64_at(words[20]),
        int32_at(words[21]),
        words[22],
        int32_at(words[23]),
        int64_at(words[24]),
        int64_at(words[25]),
        int64_at(words[26]),
        int64_at(words[27]),
        int32_at(words[28]),
        int32_at(words[29]),
    )
    output = Output(
        int64_at(words[30]),
        int32_at(words[31]),
        int32_at(words[32]),
        words[33],
        int64_at(words[34]),
        words[35],
        words[36],
        words[37],
        words[38] != 0,
        int32_at(words[39]),
        words[40],
        int32_at(words[41]),
        int32_at(words[42]),
    )
    return Machine(layout, stream, stores, output, code_at(words, words[43]), cells_at(words, words[44]))


@njit(error_model="numpy")
def first_of(machine: Machine, variable: int) -> int:
    """The first row that the tuple under test binds to a variable."""
    slot = machine.stores.bound[variable]
    return first_row_of(machine.cells, slot) if machine.layout.kleene[variable] else slot


@njit(error_model="numpy")
def last_of(machine: Machine, variable: int) -> int:
    """The last row that the tuple under test binds to a variable."""
    slot = machine.stores.bound[variable]
    return row_of(machine.cells, slot) if machine.layout.kleene[variable] else slot


@njit(error_model="numpy")
def stride_of(machine: Machine, store: int) -> int:
    """Words of an instance of a store."""
    layout = machine.layout
    if store >= layout.nodes:
        return SLOTS + 1
    return SLOTS + layout.member_starts[store + 1] - layout.member_starts[store]


@njit(error_model="numpy")
def is_linked(machine: Machine, store: int) -> bool:
    """Whether instances of a store are found through their keys."""
    return machine.stream.keyed and (store >= machine.layout.nodes or machine.layout.stored[store] != 0)


@njit(error_model="numpy")
def push(machine: Machine, store: int, expires: int, row: int, key: int) -> bool:
    """Hold the tuple under test, as far as the store's variables go; False where the store is full."""
    layout, stores = machine.layout, machine.stores
    number = stores.tails[store]
    if number >= stores.sizes[store]:
        machine.output.progress[SHORT_OF] = store
        return False
    at = stores.bases[store] + number * stride_of(machine, store)
    words = stores.words
    words[at + EXPIRES] = expires
    words[at + LAST] = row
    words[at + KEY] = key
    if is_linked(machine, store):
        head = store * stores.different + key
        words[at + OLDER] = stores.newest[head]
        stores.newest[head] = number
    stores.tails[store] = number + 1
    if store >= layout.nodes:
        words[at + SLOTS] = stores.bound[store - layout.nodes]
        return True
    begin = layout.member_starts[store]
    for place in range(layout.member_starts[store + 1] - begin):
        words[at + SLOTS + place] = stores.bound[layout.members[begin + place]]
    return True


@njit(error_model="numpy")
def load(machine: Machine, store: int, number: int) -> None:
    """Put the slots of an instance into the tuple under test."""
    layout, stores = machine.layout, machine.stores
    at = stores.bases[store] + number * stride_of(machine, store) + SLOTS
    if store >= layout.nodes:
        stores.bound[store - layout.nodes] = stores.words[at]
        return
    begin = layout.member_starts[store]
    for place in range(layout.member_starts[store + 1] - begin):
        stores.bound[layout.members[begin + place]] = stores.words[at + place]


@njit(error_model="numpy")
def newest_before(machine: Machine, store: int, upper: int, row: int, key: int) -> int:
    """The newest instance (of the key) whose last row is below `upper`, which is `row` at most; -1 if there is none."""
    stores = machine.stores
    base, stride = stores.bases[store] + LAST, stride_of(machine, store)
    if machine.stream.keyed:
        number = stores.newest[store * stores.different + key]
        while number >= 0 and stores.words[base + number * stride] >= upper:
            number = stores.words[base + number * stride + OLDER - LAST]
        return number
    low, high = 0, stores.marks[store]
    if upper >= row:
        return high - 1
    while low < high:
        middle = (low + high) >> 1
        if stores.words[base + middle * stride] < upper:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(error_model="numpy")
def rejected(machine: Machine, negated: int, last: int) -> bool:
    """Whether an event of a negated variable rejects the tuple under test, whose last row is given."""
    layout, stream, stores = machine.layout, machine.stream, machine.stores
    begin, end = layout.before_starts[negated], layout.before_starts[negated + 1]
    low = stream.floor[last] if begin == end else 0
    for place in range(begin, end):
        low = max(low, stream.onset[last_of(machine, layout.before[place])])
    begin, end = layout.behind_starts[negated], layout.behind_starts[negated + 1]
    if begin == end:
        first = first_of(machine, 0)
        for variable in range(1, layout.variables):
            first = min(first, first_of(machine, variable))
        high = stream.ceiling[first] + 1
    else:
        high = stream.reach[first_of(machine, layout.behind[begin])]
        for place in range(begin + 1, end):
            high = min(high, stream.reach[first_of(machine, layout.behind[place])])
    rows = int32_at(stream.negated[3 * negated])
    floor, top = 0, stream.negated[3 * negated + 1]
    if stream.keyed:
        key = stream.keys[last]
        if key < 0:
            return False
        starts = int64_at(stream.negated[3 * negated + 2])
        floor, top = starts[key], starts[key + 1]
    number = top
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
        own = False
        for place in range(layout.excluded_starts[negated], layout.excluded_starts[negated + 1]):
            other = layout.excluded[place]
            if layout.kleene[other]:
                own = own or list_contains(machine.cells, stores.bound[other], row)
            else:
                own = own or stores.bound[other] == row
        if own:
            continue
        stores.bound[layout.variables + negated] = row
        if group_holds(machine.code, machine.cells, group, stores.bound, 0):
            return True
    return False


@njit(error_model="numpy")
def survives(machine: Machine, node: int, last: int) -> bool:
    """Whether no event rejects the tuple under test that is new at a node; its last row is given."""
    layout = machine.layout
    for place in range(layout.rejecting_starts[node], layout.rejecting_starts[node + 1]):
        negated = layout.rejecting[place]
        if layout.late[negated] == 0 and rejected(machine, negated, last):
            return False
    return True


@njit(error_model="numpy")
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
            if stores.words[at + LAST] < stream.floor[row]:
                return FINISHED
            older = stores.words[at + OLDER] if stream.keyed else older - 1
            if stores.words[at + EXPIRES] > step:
                before = stores.words[at + SLOTS]
                expires = stores.words[at + EXPIRES]
                break


@njit(error_model="numpy")
def in_order(machine: Machine, at: int) -> bool:
    """Whether the pairs at `ascents[at]` are in their order; its length comes first."""
    layout, stream = machine.layout, machine.stream
    for pair in range(layout.ascents[at]):
        one, other = layout.ascents[at + 1 + 2 * pair], layout.ascents[at + 2 + 2 * pair]
        if first_of(machine, other) < stream.onset[last_of(machine, one)]:
            return False
    return True


@njit(error_model="numpy")
def are_distinct(machine: Machine, at: int) -> bool:
    """Whether the pairs at `ascents[at]` have no event in common; its length comes first."""
    layout, cells, bound = machine.layout, machine.cells, machine.stores.bound
    for pair in range(layout.ascents[at]):
        one, other = layout.ascents[at + 1 + 2 * pair], layout.ascents[at + 2 + 2 * pair]
        if layout.kleene[one] and layout.kleene[other]:
            cell = bound[one]
            for _ in range(length_of(cells, bound[one])):
                if list_contains(cells, bound[other], row_of(cells, cell)):
                    return False
                cell = cell_before(cells, cell)
        elif layout.kleene[one]:
            if list_contains(cells, bound[one], bound[other]):
                return False
        elif layout.kleene[other]:
            if list_contains(cells, bound[other], bound[one]):
                return False
        elif bound[one] == bound[other]:
            return False
    return True


@njit(error_model="numpy")
def join(machine: Machine, node: int, number: int, at: int, step: int, row: int, key: int) -> int:
    """Join an instance that is new at a node with those of the other side that are in window and order.

    Parameters
    ----------
    at
        Where the words of the ascent are, behind the first.
    """
    layout, stream, stores = machine.layout, machine.stream, machine.stores
    ascents = layout.ascents
    sibling, parent = layout.siblings[node], layout.parents[node]
    own_expires = stores.words[stores.bases[node] + number * stride_of(machine, node) + EXPIRES]
    load(machine, node, number)
    lower, upper = stream.floor[row], row
    for place in range(at + 1, at + 1 + ascents[at]):
        lower = max(lower, stream.onset[last_of(machine, ascents[place])])
    at += 1 + ascents[at]
    for place in range(at + 1, at + 1 + ascents[at]):
        upper = min(upper, stream.reach[first_of(machine, ascents[place])])
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
        other = stores.words[words + OLDER] if stream.keyed else other - 1
    return FINISHED


@njit(error_model="numpy")
def ascend(machine: Machine, node: int, begin: int, variable: int, step: int, row: int, key: int) -> int:
    """Join what is new at a node, from its instance `begin` on, and what that makes, up to the root."""
    layout, stores, output = machine.layout, machine.stores, machine.output
    while layout.parents[node] >= 0:
        if begin == stores.tails[node]:
            return FINISHED
        parent = layout.parents[node]
        at = layout.ascent_starts[node * layout.variables + variable]
        made = stores.tails[parent]
        owned = layout.parents[parent] >= 0 or output.finality != AT_ONCE or row >= output.first_row
        if layout.ascents[at] != 0 and owned:
            for number in range(begin, stores.tails[node]):
                code = join(machine, node, number, at + 1, step, row, key)
                if code != FINISHED:
                    return code
        if layout.stored[node] == 0:
            stores.tails[node] = begin
        node, begin = parent, made
    if output.finality == AT_ONCE and row < output.first_row:
        stores.tails[node] = begin
        return FINISHED
    for number in range(begin, stores.tails[node]):
        load(machine, node, number)
        if output.finality == AT_ONCE:
            if not emit(machine):
                return OUTPUT_FULL
        else:
            at = stores.bases[node] + number * stride_of(machine, node)
            if not wait(machine, stores.words[at + EXPIRES], step, row):
                return WAITING_FULL
    stores.tails[node] = begin
    return FINISHED


@njit(error_model="numpy")
def emit(machine: Machine) -> bool:
    """Put the tuple under test out as a match; False where there is no room."""
    layout, output, cells, bound = machine.layout, machine.output, machine.cells, machine.stores.bound
    progress = output.progress
    matches, elements = progress[MATCHES], progress[ELEMENTS]
    if matches >= output.most:
        return False
    if not output.lists:
        for variable in range(layout.variables):
            output.rows[matches * layout.variables + variable] = bound[variable]
        progress[MATCHES] = matches + 1
        return True
    total = 0
    for variable in range(layout.variables):
        total += length_of(cells, bound[variable]) if layout.kleene[variable] else 1
    if elements + total > output.room:
        return False
    for variable in range(layout.variables):
        if layout.kleene[variable] == 0:
            output.rows[elements] = bound[variable]
            output.variables[elements] = variable
            elements += 1
            continue
        cell = bound[variable]
        length = length_of(cells, cell)
        for place in range(elements + length - 1, elements - 1, -1):
            output.rows[place] = row_of(cells, cell)
            output.variables[place] = variable
            cell = cell_before(cells, cell)
        elements += length
    output.ends[matches] = elements
    progress[MATCHES] = matches + 1
    progress[ELEMENTS] = elements
    return True


@njit(error_model="numpy")
def wait(machine: Machine, expires: int, step: int, row: int) -> bool:
    """Let the tuple under test, a match that later events may reject, wait until it is final."""
    layout, stream, output = machine.layout, machine.stream, machine.output
    progress, waiting = output.progress, output.waiting
    stride = WAITING_SLOTS + layout.variables
    place = progress[FREE]
    if place >= 0:
        progress[FREE] = waiting[place * stride + NEXT]
    elif progress[USED] < output.waiting_room:
        place = progress[USED]
        progress[USED] = place + 1
    else:
        return False
    due = expires if output.finality == AT_WINDOW_END else stream.due[step]
    at = place * stride
    waiting[at + DUE] = due
    waiting[at + LAST_ROW] = row
    waiting[at + NEXT] = output.due_heads[due]
    output.due_heads[due] = place
    for variable in range(layout.variables):
        waiting[at + WAITING_SLOTS + variable] = machine.stores.bound[variable]
    output.made[progress[MADE]] = place
    progress[MADE] += 1
    progress[WAITING] += 1
    return True


@njit(error_model="numpy")
def free(machine: Machine, place: int) -> None:
    """Give back the place of a waiting match that is the first of those due with it."""
    output = machine.output
    at = place * (WAITING_SLOTS + machine.layout.variables)
    output.due_heads[output.waiting[at + DUE]] = output.waiting[at + NEXT]
    output.waiting[at + NEXT] = output.progress[FREE]
    output.progress[FREE] = place
    output.progress[WAITING] -= 1


@njit(error_model="numpy")
def settle(machine: Machine, step: int) -> bool:
    """Put out the matches that are final at a step and not rejected; False where there is no room."""
    layout, stores, output = machine.layout, machine.stores, machine.output
    root = layout.nodes - 1
    while output.due_heads[step] >= 0:
        place = output.due_heads[step]
        at = place * (WAITING_SLOTS + layout.variables)
        for variable in range(layout.variables):
            stores.bound[variable] = output.waiting[at + WAITING_SLOTS + variable]
        tested = machine.code.counts[0]
        survived = True
        for negated in range(layout.rejecting_starts[layout.nodes]):
            if layout.late[negated] and rejected(machine, negated, output.waiting[at + LAST_ROW]):
                survived = False
                break
        if survived and not emit(machine):
            machine.code.counts[0] = tested  # it is asked again when there is room
            return False
        free(machine, place)
        stores.alive[root] -= 1
        output.progress[ALIVE] -= 1
    return True


@njit(error_model="numpy")
def take(machine: Machine, step: int, row: int) -> int:
    """Let an event into every leaf that it fits."""
    layout, stream, stores = machine.layout, machine.stream, machine.stores
    key = stream.keys[row] if stream.keyed else 0
    if key < 0 and layout.variables > 1:
        return FINISHED  # it agrees with no other event
    for variable in range(layout.variables):
        if stream.fits[variable * stream.stride + row] == 0:
            continue
        begin = stores.tails[variable]
        if layout.kleene[variable]:
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
    layout, stores, output = machine.layout, machine.stores, machine.output
    for store in range(layout.nodes + layout.variables):
        base, stride = stores.bases[store], stride_of(machine, store)
        if is_linked(machine, store):
            for number in range(stores.tails[store] - 1, stores.marks[store] - 1, -1):
                at = base + number * stride
                stores.newest[store * stores.different + stores.words[at + KEY]] = stores.words[at + OLDER]
        stores.tails[store] = stores.marks[store]
    for number in range(output.progress[MADE] - 1, -1, -1):
        free(machine, output.made[number])
    while machine.cells.ends[1] > cells_made:
        drop_newest(machine.cells)
    output.progress[MATCHES] = matches
    output.progress[ELEMENTS] = elements
    for count in range(layout.nodes * COUNTS):
        stores.counts[count] = stores.saved[count]
    machine.code.counts[0] = stores.saved[layout.nodes * COUNTS]


@njit(error_model="numpy")
def count_made(stores: Stores, progress: Any, node: int, made: int) -> None:
    """Count instances that are held at a node from now on."""
    stores.counts[node * COUNTS + CREATED] += made
    stores.alive[node] += made
    stores.peaks[node] = max(stores.peaks[node], stores.alive[node])
    progress[ALIVE] += made


@njit(error_model="numpy")
def keep(machine: Machine) -> None:
    """Count what the current event made as held, until it expires."""
    layout, stream, stores, output = machine.layout, machine.stream, machine.stores, machine.output
    progress = output.progress
    for store in range(layout.nodes + layout.variables):
        if store < layout.variables and layout.kleene[store]:
            continue  # its lists are counted, complete or not
        node = store - layout.nodes if store >= layout.nodes else store
        made = stores.tails[store] - stores.marks[store]
        base, stride = stores.bases[store] + EXPIRES, stride_of(machine, store)
        for number in range(stores.marks[store], stores.tails[store]):
            stores.deaths[node * (stream.steps + 1) + stores.words[base + number * stride]] += 1
        if made:
            count_made(stores, progress, node, made)
    if progress[MADE]:
        count_made(stores, progress, layout.nodes - 1, progress[MADE])
    stores.held[progress[STEP]] = progress[ALIVE]


@njit(error_model="numpy")
def compact(machine: Machine, store: int, step: int) -> bool:
    """Drop the expired instances of a store; whether at least half of it is free then."""
    stores = machine.stores
    base, stride = stores.bases[store], stride_of(machine, store)
    words = stores.words
    linked = is_linked(machine, store)
    if linked:
        for number in range(stores.tails[store]):
            stores.newest[store * stores.different + words[base + number * stride + KEY]] = -1
    kept, before = 0, stores.tails[store]
    for number in range(before):
        at, to = base + number * stride, base + kept * stride
        if words[at + EXPIRES] <= step:
            continue
        if to != at:
            for word in range(stride):
                words[to + word] = words[at + word]
        if linked:
            head = store * stores.different + words[to + KEY]
            words[to + OLDER] = stores.newest[head]
            stores.newest[head] = kept
        kept += 1
    stores.tails[store] = kept
    return before > kept and 2 * kept <= stores.sizes[store]


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
    layout, stream, stores, output = machine.layout, machine.stream, machine.stores, machine.output
    progress = output.progress
    stores_in_all = layout.nodes + layout.variables
    while True:
        step = progress[STEP]
        if output.finality != AT_ONCE and not settle(machine, step):
            return OUTPUT_FULL
        if step == stream.steps:
            return FINISHED
        for node in range(layout.nodes):
            died = stores.deaths[node * (stream.steps + 1) + step]
            if died:
                stores.deaths[node * (stream.steps + 1) + step] = 0
                stores.alive[node] -= died
                progress[ALIVE] -= died
        row = stream.rows[step]
        if output.lists and (output.finality != AT_INSTANT or progress[WAITING] == 0):
            forget_cells(machine.cells, row, stream.ceiling)
        for store in range(stores_in_all):
            stores.marks[store] = stores.tails[store]
        for count in range(layout.nodes * COUNTS):
            stores.saved[count] = stores.counts[count]
        stores.saved[layout.nodes * COUNTS] = machine.code.counts[0]
        progress[MADE] = 0
        cells_made = machine.cells.ends[1] if output.lists else 0
        matches, elements = progress[MATCHES], progress[ELEMENTS]
        code = take(machine, step, row)
        if code == FINISHED:
            keep(machine)
            progress[STEP] = step + 1
            continue
        if output.lists:
            take_back(machine, cells_made, matches, elements)
        else:
            take_back(machine, 1 << 62, matches, elements)
        if code != STORE_FULL or not compact(machine, progress[SHORT_OF], step):
            return code
