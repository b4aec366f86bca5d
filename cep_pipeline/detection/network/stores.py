"""The instances that the nodes of a network hold. Imported only where its kernel is compiled.

Each store is sorted by the newest rows of its instances, since an instance is made at its last event; where events must
agree, the instances of each key are linked, too. What has expired stays until room is needed.
"""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from numba import njit

from cep_pipeline.compiled.pointers import float64_at, int32_at, int64_at
from cep_pipeline.detection.conditions.cells import (
    Cells,
    cell_before,
    cells_at,
    drop_newest,
    length_of,
    list_contains,
    row_of,
)
from cep_pipeline.detection.conditions.rules import (
    Rules,
    contains,
    first_at_least,
    first_row,
    last_row,
    onset_of,
    reach_of,
    rules_at,
)
from cep_pipeline.detection.network import codes as c

Machine = namedtuple(
    "Machine",
    "words registers nodes edges outputs places masks ascent_starts ascents rows leaf_starts leaves stores "
    "rooms tails marks counts saved stamps touched heads frames bound match held "
    "saved_outputs output_stamps touched_outputs tested list_ceiling done choices pairs shares event_nodes "
    "amounts expected cells",
)
"""A network, its instances, and how far the kernel is.

Attributes
----------
words
    All words, to which the nodes' and outputs' places of conditions, rules and matches point.
registers
    By the names in `codes.py`.
nodes, edges, outputs
    `codes.NODE_WORDS`, `EDGE_WORDS`, `OUTPUT_WORDS` words each.
places, masks
    Places in the tuple under test, and the address of masks of them, uint8.
ascent_starts, ascents
    Where each ascent begins, and their words (`members.Ascents`).
rows, leaf_starts, leaves
    Of each step its row, and the nodes of events that it fits: from `leaf_starts[step]` on.
stores, rooms, tails, marks
    Of each node the address of its instances, how many have room, how many it holds, and how many before the event.
counts, saved, stamps, touched
    Counts of each node, what they were before the event, the last attempt that touched it, and those touched.
heads
    The newest instance of each node and key.
frames
    What is still to be joined.
bound, match
    The tuple under test by the places of the node's first sharer, and a match by those of its clause.
held
    Of each row how many more instances are held behind it than before it; those whose windows have ended are not.
saved_outputs, output_stamps, touched_outputs
    What outputs held before the event, the last attempt that touched each, and those touched.
tested
    int64[1]: how many conjuncts were tested.
list_ceiling
    Of each row where the longest window of lists ends that begins with it.
done
    Of each node of instances that wait, how many have searched the buffer.
choices, pairs, shares
    Of a lazy tree, by `codes.CHOICE_WORDS`, what it knows of each variable where it chooses; the shares of the
    conjuncts over each two variables; and all shares.
event_nodes, amounts, expected
    The node of each variable's events; how many events in the window each node has; float64: how many events of
    each variable are expected, and behind these what the present root has cost too much.
cells
    The elements of lists.
"""


class View(NamedTuple):
    """The tuple under test, with what tests of order and distinctness read beside it.

    Attributes
    ----------
    ascents, bound
        As those of `Machine`.
    rules, cells
        The rules of the node that tests it, and the elements of lists.
    """

    ascents: Any
    rules: Rules
    cells: Cells
    bound: Any


@njit(error_model="numpy", forceinline=True)
def machine_at(words: Any) -> Machine:
    """The pointers in the words that `memory.py` writes, in the order of the attributes."""
    return Machine(
        words,
        int64_at(words[0]),
        int64_at(words[1]),
        int64_at(words[2]),
        int64_at(words[3]),
        int32_at(words[4]),
        words[5],
        int64_at(words[6]),
        int64_at(words[7]),
        int32_at(words[8]),
        int64_at(words[9]),
        int32_at(words[10]),
        int64_at(words[11]),
        int64_at(words[12]),
        int64_at(words[13]),
        int64_at(words[14]),
        int64_at(words[15]),
        int64_at(words[16]),
        int64_at(words[17]),
        int32_at(words[18]),
        int32_at(words[19]),
        int64_at(words[20]),
        int32_at(words[21]),
        int32_at(words[22]),
        int32_at(words[23]),
        int64_at(words[24]),
        int64_at(words[25]),
        int32_at(words[26]),
        int64_at(words[27]),
        int32_at(words[28]),
        int64_at(words[29]),
        int64_at(words[30]),
        int64_at(words[31]),
        int64_at(words[32]),
        int64_at(words[33]),
        int64_at(words[34]),
        float64_at(words[35]),
        cells_at(words, c.MACHINE_WORDS),
    )


@njit(error_model="numpy")
def touch(w: Any, node: int) -> None:
    """Note that the event changes something of a node, so that it can be taken back."""
    m = machine_at(w)
    r = m.registers
    if m.stamps[node] != r[c.EPOCH]:
        m.stamps[node] = r[c.EPOCH]
        m.touched[r[c.TOUCHED]] = node
        r[c.TOUCHED] += 1
        for count in range(c.COUNTS):
            m.saved[node * c.COUNTS + count] = m.counts[node * c.COUNTS + count]


@njit(error_model="numpy")
def push(w: Any, node: int, first: int, row: int, key: int) -> bool:
    """Hold the tuple under test at a node; False where the store is full."""
    m = machine_at(w)
    number = m.tails[node]
    if number >= m.rooms[node]:
        m.registers[c.SHORT_OF] = node
        return False
    n = node * c.NODE_WORDS
    width, places = m.nodes[n + c.N_WIDTH], m.nodes[n + c.N_PLACES]
    words = int32_at(m.stores[node])
    at = number * (c.SLOTS + width)
    words[at + c.FIRST] = first
    words[at + c.LAST] = row
    words[at + c.KEY] = key
    heads = m.nodes[n + c.N_HEADS]
    if heads >= 0 and key >= 0:
        words[at + c.OLDER] = m.heads[heads + key]
        m.heads[heads + key] = number
    for slot in range(width):
        words[at + c.SLOTS + slot] = m.bound[m.places[places + slot]]
    m.tails[node] = number + 1
    m.counts[node * c.COUNTS + c.CREATED] += 1
    return True


@njit(error_model="numpy")
def load(w: Any, node: int, number: int, places: int) -> int:
    """Put the slots of an instance at these places of the tuple under test; its first row is returned."""
    m = machine_at(w)
    width = m.nodes[node * c.NODE_WORDS + c.N_WIDTH]
    words = int32_at(m.stores[node])
    at = number * (c.SLOTS + width)
    for slot in range(width):
        m.bound[m.places[places + slot]] = words[at + c.SLOTS + slot]
    return words[at + c.FIRST]


@njit(error_model="numpy")
def newest_before(w: Any, node: int, upper: int, row: int, key: int) -> int:
    """The newest instance (of the key) whose last row is below `upper`, which is `row` at most; -1 if there is none."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    stride = c.SLOTS + m.nodes[n + c.N_WIDTH]
    words, heads = int32_at(m.stores[node]), m.nodes[n + c.N_HEADS]
    if heads >= 0:
        number = m.heads[heads + key]
        while number >= 0 and words[number * stride + c.LAST] >= upper:
            number = words[number * stride + c.OLDER]
        return number
    low, high = 0, m.marks[node]
    if upper >= row:
        return high - 1
    while low < high:
        middle = (low + high) >> 1
        if words[middle * stride + c.LAST] < upper:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(error_model="numpy")
def cut(w: Any, node: int, number: int) -> None:
    """Let go of the newest instances of a node, from a number on."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    heads = m.nodes[n + c.N_HEADS]
    if heads >= 0:
        stride = c.SLOTS + m.nodes[n + c.N_WIDTH]
        words = int32_at(m.stores[node])
        for newest in range(m.tails[node] - 1, number - 1, -1):
            key = words[newest * stride + c.KEY]
            if key >= 0:
                m.heads[heads + key] = words[newest * stride + c.OLDER]
    m.tails[node] = m.done[node] = number


@njit(error_model="numpy")
def compact(w: Any, node: int, row: int) -> bool:
    """Drop the instances of a store whose windows have ended before a row; whether at least half of it is free then."""
    m = machine_at(w)
    n = node * c.NODE_WORDS
    heads, stride = m.nodes[n + c.N_HEADS], c.SLOTS + m.nodes[n + c.N_WIDTH]
    words, ceiling = int32_at(m.stores[node]), int32_at(m.nodes[n + c.N_CEILING])
    before = m.tails[node]
    if heads >= 0:
        for number in range(before):
            if words[number * stride + c.KEY] >= 0:
                m.heads[heads + words[number * stride + c.KEY]] = -1
    kept = 0
    for number in range(before):
        at, to = number * stride, kept * stride
        if ceiling[words[at + c.FIRST]] < row:
            continue
        if to != at:
            for word in range(stride):
                words[to + word] = words[at + word]
        if heads >= 0 and words[to + c.KEY] >= 0:
            words[to + c.OLDER] = m.heads[heads + words[to + c.KEY]]
            m.heads[heads + words[to + c.KEY]] = kept
        kept += 1
    m.tails[node] = m.marks[node] = m.done[node] = kept
    return before > kept and 2 * kept <= m.rooms[node]


@njit(error_model="numpy")
def keep(w: Any, row: int) -> int:
    """Hold the instances that the event at a row made, and return how many."""
    m = machine_at(w)
    made = 0
    for number in range(m.registers[c.TOUCHED]):
        node = m.touched[number]
        n = node * c.NODE_WORDS
        stride = c.SLOTS + m.nodes[n + c.N_WIDTH]
        words, ceiling = int32_at(m.stores[node]), int32_at(m.nodes[n + c.N_CEILING])
        made += m.tails[node] - m.marks[node]
        if m.nodes[n + c.N_LISTS] < 0 or m.nodes[n + c.N_LISTS] == node:  # lists are counted where they may grow
            m.held[row] += m.tails[node] - m.marks[node]
            for instance in range(m.marks[node], m.tails[node]):
                m.held[max(ceiling[words[instance * stride + c.FIRST]], row) + 1] -= 1
        m.marks[node] = m.tails[node]
    return made


@njit(error_model="numpy")
def give_up(w: Any, row: int) -> None:
    """Let go of all instances before the event at a row."""
    m = machine_at(w)
    r = m.registers
    for node in range(r[c.NODES]):
        n = node * c.NODE_WORDS
        stride = c.SLOTS + m.nodes[n + c.N_WIDTH]
        words, ceiling = int32_at(m.stores[node]), int32_at(m.nodes[n + c.N_CEILING])
        counted = m.nodes[n + c.N_LISTS] < 0 or m.nodes[n + c.N_LISTS] == node
        for number in range(m.tails[node]):
            ended = ceiling[words[number * stride + c.FIRST]] + 1
            if counted and ended > row:
                m.held[row] -= 1
                m.held[ended] += 1
        cut(w, node, 0)
        m.marks[node] = 0


@njit(error_model="numpy")
def take_back(w: Any, tested: int) -> None:
    """Undo what the event made, before which so many conjuncts had been tested."""
    m = machine_at(w)
    r = m.registers
    m.tested[0] = tested
    for number in range(r[c.TOUCHED]):
        node = m.touched[number]
        cut(w, node, m.marks[node])
        for count in range(c.COUNTS):
            m.counts[node * c.COUNTS + count] = m.saved[node * c.COUNTS + count]
    for number in range(r[c.TOUCHED_OUTPUTS]):
        output = m.touched_outputs[number]
        used = int64_at(m.words[m.outputs[output * c.OUTPUT_WORDS + c.O_FOUND]])
        used[0] = m.saved_outputs[2 * output]
        used[1] = m.saved_outputs[2 * output + 1]
    if r[c.LISTING]:
        while m.cells.ends[1] > r[c.CELLS_MADE]:
            drop_newest(m.cells)


# --- where that lies with which the tuple under test can be joined ----------------------------------------------------


@njit(error_model="numpy")
def view_of(w: Any, rules: int) -> View:
    """The tuple under test, with the rules at some place of the words."""
    m = machine_at(w)
    return View(m.ascents, rules_at(w, rules), m.cells, m.bound)


@njit(error_model="numpy")
def in_order(view: View, at: int) -> bool:
    """True if the pairs at `ascents[at]` are in their order; its length comes first."""
    for pair in range(view.ascents[at]):
        one, other = view.ascents[at + 1 + 2 * pair], view.ascents[at + 2 + 2 * pair]
        earlier = last_row(view.rules, view.cells, view.bound, 0, one)
        if first_row(view.rules, view.cells, view.bound, 0, other) < onset_of(view.rules, earlier):
            return False
    return True


@njit(error_model="numpy")
def are_distinct(view: View, at: int) -> bool:
    """True if the pairs at `ascents[at]` have no event in common; its length comes first."""
    cells, bound = view.cells, view.bound
    for pair in range(view.ascents[at]):
        one, other = view.ascents[at + 1 + 2 * pair], view.ascents[at + 2 + 2 * pair]
        if not view.rules.kleene[one]:
            one, other = other, one
        if not view.rules.kleene[other]:
            if contains(view.rules, cells, bound, 0, one, bound[other]):
                return False
            continue
        cell = bound[one]
        for _ in range(length_of(cells, bound[one])):
            if list_contains(cells, bound[other], row_of(cells, cell)):
                return False
            cell = cell_before(cells, cell)
    return True


@njit(error_model="numpy")
def scan_bounds(w: Any, view: View, at: int, row: int) -> tuple[int, int, int]:
    """Return bounds of the row of the newest event of the tuples that can be joined with the one under test.

    Parameters
    ----------
    at
        Where the words of the ascent are, behind the first.

    Returns
    -------
    (int, int, int)
        From which row on, before which row, and where the words of the pairs are whose order is tested.
    """
    m = machine_at(w)
    lower, upper = view.rules.floor[row], row + m.registers[c.REPLAYING]  # then the row has been read
    for place in range(at + 1, at + 1 + m.ascents[at]):
        lower = max(lower, onset_of(view.rules, last_row(view.rules, view.cells, view.bound, 0, m.ascents[place])))
    at += 1 + m.ascents[at]
    for place in range(at + 1, at + 1 + m.ascents[at]):
        upper = min(upper, reach_of(view.rules, first_row(view.rules, view.cells, view.bound, 0, m.ascents[place])))
    return lower, upper, at + 1 + m.ascents[at]


@njit(error_model="numpy")
def buffered(w: Any, events: int, lower: int, upper: int, key: int) -> tuple[int, int]:
    """The places of the events (of the key) of a node that have been read, from one row on and before another."""
    m = machine_at(w)
    n = events * c.NODE_WORDS
    rows, own = int32_at(m.nodes[n + c.N_ROWS]), key if m.nodes[n + c.N_KEYS] != 0 else 0
    low = int64_at(m.nodes[n + c.N_STARTS])[own]
    high = low + int32_at(m.nodes[n + c.N_READ])[own]
    if low == high or rows[high - 1] < lower:
        return high, high
    window = 1  # it holds few of all events
    while high - window > low and rows[high - window] >= lower:
        window *= 2
    low = first_at_least(rows, max(low, high - window), high, lower)
    if rows[high - 1] >= upper:
        high = first_at_least(rows, low, high, upper)
    return low, high


@njit(error_model="numpy")
def still_open(w: Any, events: int, row: int, key: int) -> tuple[int, int]:
    """The places of the events (of the key), up to a row, that can be in a match with those to come."""
    m = machine_at(w)
    n = events * c.NODE_WORDS
    rows, ceiling = int32_at(m.nodes[n + c.N_ROWS]), int32_at(m.nodes[n + c.N_CEILING])
    low, high = buffered(w, events, rules_at(w, m.nodes[n + c.N_RULES]).floor[row], row + 1, key)
    while low < high and ceiling[rows[low]] < m.rows[m.registers[c.STEP]]:
        low += 1
    return low, high


@njit(error_model="numpy")
def key_of(w: Any, events: int, row: int) -> int:
    """The key of an event of a node: 0 where events need not agree, -1 where it agrees with none."""
    m = machine_at(w)
    keys = m.nodes[events * c.NODE_WORDS + c.N_KEYS]
    return int32_at(keys)[row] if keys != 0 else 0
